//! Checks the bytes of a network block device's connection: at a server, and at a client.

use std::fmt::Debug;
use std::sync::Arc;

use destage_nbd::client::{ClientEvent as Heard, NbdClient, OptionRequest};
use destage_nbd::server::ServerEvent;
use destage_nbd::{
    BlockSizes, Errno, ExportFeatures, ExportList, NbdCommand, NbdExport, NbdRequest, NbdServer, NbdSession, ReadReply,
    StatusExtent,
};

use crate::bytes::Bytes;

/// Bytes that a connection may hold at most, whatever comes in.
const HELD: usize = 1 << 20;

/// Requests that the client makes at most.
const REQUESTS: usize = 8;

fn exports(kind: u8) -> Arc<ExportList> {
    let all = ExportFeatures {
        read_only: kind == 2,
        flush: true,
        fua: true,
        rotational: false,
        trim: true,
        write_zeroes: true,
        fast_zero: true,
        multi_conn: true,
        cache: true,
    };
    let export = NbdExport {
        features: if kind == 1 { ExportFeatures::default() } else { all },
        blocks: BlockSizes { minimum: if kind == 3 { 512 } else { 1 }, preferred: 4096, maximum: 1 << 16 },
        insists_on_blocks: kind == 3,
        contexts: vec!["base:allocation".to_owned(), "destage:dirty".to_owned()],
        description: "what it is".to_owned(),
        ..NbdExport::new("a", 1 << 20)
    };
    let other = NbdExport::new("", 512);
    Arc::new(ExportList::new(vec![export, other], None).expect("they can be served"))
}

/// Returns the messages of a client that begin the transmission, with structured replies and contexts on request.
fn beginning(structured: bool) -> Vec<u8> {
    let option = |number: u32, data: &[u8]| {
        [&b"IHAVEOPT"[..], &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let flags = 3_u32.to_be_bytes().to_vec();
    let contexts = b"\0\0\0\x01a\0\0\0\x02\0\0\0\x0fbase:allocation\0\0\0\x0ddestage:dirty";
    let agreed = if structured { [option(8, b""), option(10, contexts)].concat() } else { Vec::new() };
    [flags, agreed, option(7, b"\0\0\0\x01a\0\x01\0\x03")].concat()
}

/// Records the events at a server, and all that it sent.
#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<String>,
    sent: Vec<u8>,
}

/// Takes the messages of a client: a byte with the export and the start of the input, and the input.
///
/// However the input is cut up the server makes the same of it. It accepts no request that the protocol forbids, and
/// each can be answered.
pub(crate) fn server(bytes: &[u8]) {
    let mut head = Bytes::new(bytes);
    let config = head.u8();
    let start = if config & 8 == 0 { Vec::new() } else { beginning(config & 4 != 0) };
    let input = [&start[..], bytes.get(1..).unwrap_or_default()].concat();
    let whole = serve(config & 3, input.chunks(input.len().max(1)));
    // TCP may cut a stream anywhere, and nothing may depend on where.
    assert_eq!(serve(config & 3, input.chunks(1)), whole, "one byte at a time");
    assert_eq!(serve(config & 3, input.chunks(7)), whole, "seven bytes at a time");
}

fn serve<'a>(kind: u8, pieces: impl Iterator<Item = &'a [u8]>) -> Seen {
    let exports = exports(kind);
    let mut server = NbdServer::new(exports.clone());
    let mut seen = Seen { events: Vec::new(), sent: Vec::new() };
    let mut answers = Vec::new();
    for mut input in pieces {
        loop {
            let before = input.len();
            let event = server.receive(&mut input);
            // A client that sends without end must not fill the memory of the server.
            assert!(server.held() < HELD, "{} B are held", server.held());
            let event = match event {
                Ok(ServerEvent::More) => {
                    assert!(input.is_empty(), "more is wanted while there is some");
                    break;
                }
                Ok(ServerEvent::SendFirst) => {
                    assert!(!server.output().is_empty(), "there is nothing to send");
                    send(&mut server, &mut seen.sent);
                    continue;
                }
                Ok(ServerEvent::Payload(left)) => {
                    assert_eq!(left, server.payload_left());
                    if server.take_payload(&mut input, &mut [0; 512]) == 0 {
                        break;
                    }
                    continue;
                }
                Ok(ServerEvent::Request(request)) => {
                    let session = server.session().expect("a transmission");
                    valid(&exports.all()[session.export], session, &request);
                    answers.clear();
                    answer(session, &request, &mut answers);
                    format!("{request:?}")
                }
                other => format!("{other:?}"),
            };
            send(&mut server, &mut seen.sent);
            let last = event == "Ok(Ended)" || event.starts_with("Err");
            // The last event is returned for each piece that follows, so it counts once however the input is cut.
            if seen.events.last() != Some(&event) || !last {
                seen.events.push(event);
            }
            if last {
                assert!(!server.output().is_empty() || server.receive(&mut input) != Ok(ServerEvent::More));
                break;
            }
            // An event that takes no input could be returned for ever.
            assert!(input.len() < before, "an event without input");
        }
        send(&mut server, &mut seen.sent);
    }
    seen
}

fn send(server: &mut NbdServer, sent: &mut Vec<u8>) {
    sent.extend_from_slice(server.output());
    let len = server.output().len();
    server.sent(len);
}

/// Looks at a request that was accepted.
fn valid(export: &NbdExport, session: &NbdSession, request: &NbdRequest) {
    let NbdRequest { command, offset, length, .. } = *request;
    if command == NbdCommand::Flush {
        assert_eq!((offset, length), (0, 0));
        return;
    }
    assert!(length > 0 && offset.checked_add(u64::from(length)).is_some_and(|end| end <= export.size), "{request:?}");
    let minimum = u64::from(export.blocks.minimum);
    assert!(offset % minimum == 0 && u64::from(length) % minimum == 0, "{request:?}");
    assert!(!export.features.read_only || !command.writes(), "{request:?}");
    let payload = matches!(command, NbdCommand::Read { .. } | NbdCommand::Write);
    assert!(!payload || length <= export.blocks.maximum, "{request:?}");
    assert!(session.structured || !matches!(command, NbdCommand::BlockStatus { .. }), "{request:?}");
}

/// Answers a request in some way, and once more as one that failed.
fn answer(session: &NbdSession, request: &NbdRequest, out: &mut Vec<u8>) {
    match request.command {
        NbdCommand::Read { .. } => {
            let mut reply = ReadReply::new(session, request);
            while reply.left() > 0 {
                let length = if reply.splits() { reply.left().div_ceil(2) } else { reply.left() };
                let hole = reply.takes_hole(length) && length % 2 == 1;
                out.extend_from_slice(&if hole { reply.hole(length) } else { reply.data(length) });
            }
        }
        NbdCommand::BlockStatus { .. } => {
            for context in session.contexts() {
                let extents = [(request.cookie & 0xffff, 1), (request.cookie >> 48, 2), (u64::MAX, 1)];
                let extents = extents.map(|(length, flags)| StatusExtent { length, flags });
                session.status(request, context, extents, context == 1, out);
            }
        }
        _ => out.extend_from_slice(&session.done(request)),
    }
    session.fail(request, Errno::Io, &"it failed", Some(request.cookie), out);
}

/// Takes the messages of a server: a byte with the requests of the client, and the input.
///
/// However the input is cut up the client makes the same of it. All data lie inside what was asked for, and a read that
/// succeeds has all its bytes.
pub(crate) fn client(bytes: &[u8]) {
    let mut head = Bytes::new(bytes);
    let config = head.u8();
    let input = bytes.get(1..).unwrap_or_default();
    let whole = listen(config, input.chunks(input.len().max(1)));
    assert_eq!(listen(config, input.chunks(1)), whole, "one byte at a time");
    assert_eq!(listen(config, input.chunks(7)), whole, "seven bytes at a time");
}

/// Returns the options that are asked for, one after the other.
fn asks(config: u8) -> Vec<OptionRequest<'static>> {
    let mut all = Vec::new();
    if config & 1 != 0 {
        all.push(OptionRequest::List);
        all.push(OptionRequest::Info("a", &[1, 2, 3]));
    }
    if config & 2 != 0 {
        all.push(OptionRequest::StructuredReply);
    }
    if config & 4 != 0 {
        all.push(OptionRequest::ListContexts("a", &[]));
        all.push(OptionRequest::SetContexts("a", &["base:allocation", "destage:dirty"]));
    }
    all.push(if config & 8 == 0 { OptionRequest::Go("a", &[3]) } else { OptionRequest::ExportName("a") });
    all
}

/// Lists the requests that are made then.
const WANTED: [(NbdCommand, u64, u32); REQUESTS] = [
    (NbdCommand::Read { whole: false }, 512, 1024),
    (NbdCommand::BlockStatus { one: false }, 0, 65_536),
    (NbdCommand::Write, 0, 512),
    (NbdCommand::Read { whole: true }, 4096, 512),
    (NbdCommand::BlockStatus { one: true }, 4096, 4096),
    (NbdCommand::Flush, 0, 0),
    (NbdCommand::WriteZeroes { no_hole: true, fast: false }, 0, 1 << 20),
    (NbdCommand::Read { whole: false }, 0, 0),
];

fn listen<'a>(config: u8, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut client = NbdClient::new(4);
    let mut asks = asks(config).into_iter();
    let mut wanted = WANTED.into_iter();
    let mut come = [0_u64; 4];
    let mut events = Vec::new();
    for mut input in pieces {
        loop {
            let before = input.len();
            let event = client.receive(&mut input);
            // A server that sends without end must not fill the client's memory. Answers to options alone may take
            // 1 MiB.
            assert!(client.held() < 2 * HELD, "{} B are held", client.held());
            // Output is taken to be sent, so it does not add up.
            let output = client.output().len();
            client.sent(output);
            match event {
                Ok(Heard::More) => {
                    assert!(input.is_empty(), "more is wanted while there is some");
                    break;
                }
                Ok(Heard::Payload(left)) => {
                    assert_eq!(left, client.payload_left());
                    if client.take_payload(&mut input, &mut [0; 512]) == 0 {
                        break;
                    }
                    continue;
                }
                Ok(Heard::Greeted | Heard::Answer(_)) => {
                    if let Some(ask) = asks.next() {
                        // The server may be too old for the option.
                        let _ = client.ask(&ask);
                    }
                }
                Ok(Heard::Data { cookie, offset, length } | Heard::Hole { cookie, offset, length }) => {
                    let request = client.under_way().find(|request| request.cookie == cookie).expect("it is under way");
                    let inside = offset >= request.offset && offset + u64::from(length) <= request.end();
                    assert!(inside && length > 0, "{request:?}: {offset} {length}");
                    come[slot(cookie)] += u64::from(length);
                }
                Ok(Heard::Done { cookie, result: Ok(()) }) => {
                    let (command, length) = events_request(&events, cookie);
                    assert!(!command.starts_with("Read") || come[slot(cookie)] == length, "not all bytes have come");
                }
                _ => {}
            }
            note(&mut events, &event);
            if matches!(event, Ok(Heard::Started | Heard::Done { .. })) {
                for (command, offset, length) in wanted.by_ref() {
                    let request = NbdRequest { cookie: 0, command, fua: false, offset, length };
                    let Ok((cookie, _)) = client.request_anyway(request) else { break };
                    come[slot(cookie)] = 0;
                    events.push(format!("{cookie} {length} {command:?}"));
                }
            }
            if event.is_err() {
                break;
            }
            let progress = input.len() < before || matches!(event, Ok(Heard::Done { .. } | Heard::Started));
            // An event without progress could come again for ever.
            assert!(progress, "an event without input: {event:?}");
        }
    }
    events
}

const fn slot(cookie: u64) -> usize {
    (cookie & 3) as usize
}

/// Returns the command and the length of the request with a cookie.
fn events_request(events: &[String], cookie: u64) -> (&str, u64) {
    let begin = format!("{cookie} ");
    let of = |event: &'_ String| event.starts_with(&begin);
    let found = events.iter().rev().find(|event| of(event)).expect("it was made");
    let mut words = found.splitn(3, ' ').skip(1);
    let length = words.next().and_then(|word| word.parse().ok()).expect("a length");
    (words.next().expect("a command"), length)
}

/// Notes an event; the last one does not change any more.
fn note(events: &mut Vec<String>, event: &impl Debug) {
    let event = format!("{event:?}");
    // A violation is returned for each piece that follows, so it counts once however the input is cut.
    if events.last() != Some(&event) || !event.starts_with("Err") {
        events.push(event);
    }
}
