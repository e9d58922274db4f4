//! The client, byte by byte: what it sends, and what it does not take from a server.

use destage_nbd::client::{ClientEvent, ClientMisuse, NbdClient, OptionAnswer, OptionRequest, ServerViolation};
use destage_nbd::{Errno, NbdCommand, RequestRefusal};

use crate::common::{Bytes, bytes, chunk, option, option_reply, request, simple};

/// All that comes of some bytes.
fn hear(client: &mut NbdClient, message: &Bytes) -> Result<Vec<ClientEvent>, ServerViolation> {
    let mut input = &message.0[..];
    let mut events = Vec::new();
    loop {
        match client.receive(&mut input)? {
            ClientEvent::More => return Ok(events),
            ClientEvent::Payload(left) => {
                let taken = client.take_payload(&mut input, &mut vec![0; left as usize]);
                if taken == 0 {
                    return Ok(events);
                }
            }
            event => events.push(event),
        }
    }
}

fn sent(client: &mut NbdClient) -> Bytes {
    let output = Bytes(client.output().to_vec());
    client.sent(output.0.len());
    output
}

/// A client that was greeted by a server that can do all that there is.
fn greeted() -> NbdClient {
    let mut client = NbdClient::new(4);
    assert_eq!(client.ask(&OptionRequest::List), Err(ClientMisuse::NotNow));
    let hello = bytes().raw(b"NBDMAGICIHAVEOPT").u16(3);
    assert_eq!(hear(&mut client, &hello), Ok(vec![ClientEvent::Greeted]));
    assert_eq!(sent(&mut client), bytes().u32(3));
    client
}

/// The answer to an option.
fn answer(
    client: &mut NbdClient,
    ask: &OptionRequest<'_>,
    asked: &Bytes,
    replies: &[Bytes],
) -> Result<OptionAnswer, ServerViolation> {
    client.ask(ask).expect("it is time for it");
    assert_eq!(sent(client), *asked);
    let all = Bytes(replies.iter().flat_map(|reply| reply.0.clone()).collect());
    let mut events = hear(client, &all)?;
    let Some(ClientEvent::Answer(answer)) = events.pop() else { panic!("{events:?}") };
    assert!(events.is_empty());
    Ok(answer)
}

fn ack(to: u32) -> Bytes {
    option_reply(to, 1, &bytes())
}

#[test]
fn options_are_asked_for_and_understood() {
    let mut client = greeted();
    let listed =
        [option_reply(3, 2, &bytes().string("a")), option_reply(3, 2, &bytes().string("").raw(b"what it is")), ack(3)];
    let all = vec![("a".to_owned(), String::new()), (String::new(), "what it is".to_owned())];
    assert_eq!(
        answer(&mut client, &OptionRequest::List, &option(3, &bytes()), &listed),
        Ok(OptionAnswer::Exports(all))
    );
    assert_eq!(
        answer(&mut client, &OptionRequest::StructuredReply, &option(8, &bytes()), &[ack(8)]),
        Ok(OptionAnswer::Done)
    );
    let refused = option_reply(5, 0x8000_0001, &bytes().raw(b"no"));
    let expected = OptionAnswer::Refused { kind: 0x8000_0001, text: "no".to_owned() };
    assert_eq!(answer(&mut client, &OptionRequest::StartTls, &option(5, &bytes()), &[refused]), Ok(expected));
    let asked = option(6, &bytes().string("a").u16(2).u16(1).u16(3));
    let told = [
        option_reply(6, 3, &bytes().u16(3).u32(512).u32(4096).u32(1 << 20)),
        option_reply(6, 3, &bytes().u16(99).raw(b"of the future")),
        option_reply(6, 3, &bytes().u16(0).u64(8192).u16(0x8001)),
        option_reply(6, 3, &bytes().u16(1).raw(b"A")),
        ack(6),
    ];
    let Ok(OptionAnswer::Export(export)) = answer(&mut client, &OptionRequest::Info("a", &[1, 3]), &asked, &told)
    else {
        panic!()
    };
    assert_eq!((export.size, export.flags, export.name.as_deref()), (8192, 0x8001, Some("A")));
    assert_eq!(export.blocks.map(|blocks| blocks.minimum), Some(512));
    let asked = option(10, &bytes().string("a").u32(1).string("base:allocation"));
    let chosen = [option_reply(10, 4, &bytes().u32(77).raw(b"base:allocation")), ack(10)];
    let all = vec![(77, "base:allocation".to_owned())];
    let ask = OptionRequest::SetContexts("a", &["base:allocation"]);
    assert_eq!(answer(&mut client, &ask, &asked, &chosen), Ok(OptionAnswer::Contexts(all.clone())));
    assert_eq!(client.contexts(), all);
    let other = answer(&mut client, &OptionRequest::Other(99, b"xy"), &option(99, &bytes().raw(b"xy")), &[ack(99)]);
    assert_eq!(other, Ok(OptionAnswer::Done));
    assert_eq!(answer(&mut client, &OptionRequest::Abort, &option(2, &bytes()), &[ack(2)]), Ok(OptionAnswer::Done));
}

#[test]
fn old_servers_are_asked_for_an_export_alone() {
    let mut client = NbdClient::new(1);
    assert_eq!(hear(&mut client, &bytes().raw(b"NBDMAGICIHAVEOPT").u16(0)), Ok(vec![ClientEvent::Greeted]));
    assert_eq!(sent(&mut client), bytes().u32(0));
    assert_eq!(client.ask(&OptionRequest::List), Err(ClientMisuse::TooOld));
    client.ask(&OptionRequest::ExportName("a")).expect("the one that there is");
    assert_eq!(sent(&mut client), option(1, &bytes().raw(b"a")));
    let start = bytes().u64(4096).u16(1).raw(&[0; 124]);
    assert_eq!(hear(&mut client, &start), Ok(vec![ClientEvent::Started]));
    assert_eq!(client.export().map(|export| export.size), Some(4096));
    let (cookie, message) = client.request(NbdCommand::Read { whole: false }, false, 0, 512).expect("it can be read");
    assert_eq!(message.to_vec(), request(0, 0, cookie, 0, 512).0);
}

#[test]
fn greetings_of_other_servers_are_none() {
    for hello in [bytes().raw(b"NBDMAGIC").u64(0x0000_4202_8186_1253), bytes().raw(b"SSH-2.0-OpenSSH_")] {
        let mut client = NbdClient::new(1);
        let heard = hear(&mut client, &hello.u16(3));
        assert!(matches!(heard, Err(ServerViolation::Greeting(..))), "{heard:?}");
    }
    assert_eq!(hear(&mut greeted(), &bytes().raw(b"x")), Err(ServerViolation::Unasked));
}

#[test]
fn wrong_answers_to_options_are_not_taken() {
    let context = |id| option_reply(10, 4, &bytes().u32(id).raw(b"a:b"));
    let info = |data: &Bytes| option_reply(6, 3, data);
    let (list, of, set) =
        (OptionRequest::List, OptionRequest::Info("a", &[]), OptionRequest::SetContexts("a", &["a:b"]));
    for (ask, replies, what) in [
        (list, vec![bytes().raw(&[0; 20])], "it begins with another number than answers do"),
        (list, vec![ack(6)], "it is one to another option"),
        (list, vec![option_reply(3, 1, &bytes().u16(0))], "it ends with data"),
        (list, vec![option_reply(3, 2, &bytes().u32(9).raw(b"a"))], "the name of an export is cut off"),
        (list, vec![option_reply(3, 2, &bytes().u32(1).raw(b"\xff"))], "a text is not UTF-8 of at most 4096 bytes"),
        (list, vec![option_reply(3, 3, &bytes())], "it is of a type that does not belong there"),
        (list, vec![option_reply(3, 5, &bytes())], "it is of a type that does not belong there"),
        (
            list,
            vec![bytes().u64(0x0003_e889_0455_65a9).u32(3).u32(2).u32(16_385)],
            "it is longer than any that would be read",
        ),
        (list, vec![option_reply(3, 2, &bytes().string("a")); 20_000], "it is longer than any that would be read"),
        (of, vec![ack(6)], "it does not say how large it is"),
        (of, vec![info(&bytes())], "information of no kind"),
        (of, vec![info(&bytes().u16(0).u64(1))], "information of another length than its kind has"),
        (of, vec![info(&bytes().u16(3).u32(3).u32(4096).u32(1 << 20))], "block sizes that the protocol forbids"),
        (set, vec![option_reply(10, 4, &bytes().u16(0))], "a context without a number"),
        (set, vec![context(1), context(1), ack(10)], "more contexts than 32, or two of one number"),
        (set, (0..33).map(context).chain([ack(10)]).collect(), "more contexts than 32, or two of one number"),
    ] {
        let mut client = greeted();
        client.ask(&ask).expect("it is time for it");
        let number = u32::from_be_bytes(client.output()[8..12].try_into().expect("four bytes"));
        let all = Bytes(replies.into_iter().flat_map(|reply| reply.0).collect());
        assert_eq!(hear(&mut client, &all), Err(ServerViolation::Answer { option: number, what }));
        assert!(client.held() < 2 << 20);
        // It stays lost.
        assert_eq!(hear(&mut client, &bytes()), Err(ServerViolation::Answer { option: number, what }));
        assert_eq!(client.ask(&OptionRequest::List), Err(ClientMisuse::NotNow));
    }
}

/// A client in transmission, with structured replies and two contexts, 1 and 2, if so wanted.
fn transmitting(structured: bool) -> NbdClient {
    let mut client = greeted();
    if structured {
        answer(&mut client, &OptionRequest::StructuredReply, &option(8, &bytes()), &[ack(8)])
            .expect("structured replies");
        let asked = option(10, &bytes().string("a").u32(1).string("a:b"));
        let context = |id| option_reply(10, 4, &bytes().u32(id).raw(b"a:b"));
        let ask = OptionRequest::SetContexts("a", &["a:b"]);
        answer(&mut client, &ask, &asked, &[context(1), context(2), ack(10)]).expect("contexts");
    }
    client.ask(&OptionRequest::Go("a", &[])).expect("it is time for it");
    sent(&mut client);
    let told = option_reply(7, 3, &bytes().u16(0).u64(1 << 20).u16(0xffd)).raw(&ack(7).0);
    assert_eq!(hear(&mut client, &told), Ok(vec![ClientEvent::Started]));
    client
}

#[test]
fn what_was_not_agreed_on_is_not_asked_for() {
    let mut client = transmitting(false);
    let whole = client.request(NbdCommand::Read { whole: true }, false, 0, 512);
    assert!(matches!(whole, Err(ClientMisuse::Refused(RequestRefusal::Flags { flags: 4, .. }))));
    let status = client.request(NbdCommand::BlockStatus { one: false }, false, 0, 512);
    assert_eq!(status, Err(ClientMisuse::Refused(RequestRefusal::NoContext)));
    let beyond = client.request(NbdCommand::Write, false, 1 << 20, 1);
    assert!(matches!(beyond, Err(ClientMisuse::Refused(RequestRefusal::Beyond { .. }))));
    assert_eq!(client.ask(&OptionRequest::List), Err(ClientMisuse::NotNow));
    for _ in 0..4 {
        client.request(NbdCommand::Flush, false, 0, 0).expect("there is room");
    }
    assert_eq!(client.request(NbdCommand::Flush, false, 0, 0), Err(ClientMisuse::Full));
    assert_eq!(NbdClient::goodbye().to_vec(), request(0, 2, 0, 0, 0).0);
}

#[test]
fn simple_replies_are_understood() {
    let mut client = transmitting(false);
    let (read, _) = client.request(NbdCommand::Read { whole: false }, false, 512, 3).expect("a read");
    let (flush, _) = client.request(NbdCommand::Flush, false, 0, 0).expect("a flush");
    let heard = hear(&mut client, &simple(0, flush).raw(&simple(0, read).raw(b"abc").0));
    let data = ClientEvent::Data { cookie: read, offset: 512, length: 3 };
    let done = |cookie| ClientEvent::Done { cookie, result: Ok(()) };
    assert_eq!(heard, Ok(vec![done(flush), data, done(read)]));
    let (again, _) = client.request(NbdCommand::Read { whole: false }, false, 0, 3).expect("a read");
    // An error that is unknown.
    let failed = ClientEvent::Done { cookie: again, result: Err(Errno::Inval) };
    assert_eq!(hear(&mut client, &simple(4711, again)), Ok(vec![failed]));
    assert_eq!(hear(&mut client, &simple(0, again)), Err(ServerViolation::Cookie(again)));
    let mut client = transmitting(false);
    assert_eq!(hear(&mut client, &chunk(1, 0, 0, &bytes())), Err(ServerViolation::ReplyMagic(0x668e_33ef)));
}

/// Returns the events of the chunks that answer a single request.
fn answered(command: NbdCommand, chunks: &[(u16, u16, Bytes)]) -> Result<Vec<ClientEvent>, ServerViolation> {
    let mut client = transmitting(true);
    let length = if command == NbdCommand::Flush { 0 } else { 4096 };
    let offset = if command == NbdCommand::Flush { 0 } else { 8192 };
    let (cookie, _) = client.request(command, false, offset, length).expect("it was agreed on");
    let all = chunks.iter().flat_map(|(flags, kind, payload)| chunk(*flags, *kind, cookie, payload).0).collect();
    hear(&mut client, &Bytes(all))
}

/// Returns the reason for which these chunks are a violation.
fn wrong(command: NbdCommand, chunks: &[(u16, u16, Bytes)]) -> &'static str {
    match answered(command, chunks) {
        Err(ServerViolation::Reply { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

fn data(offset: u64, length: usize) -> Bytes {
    bytes().u64(offset).raw(&vec![7; length])
}

fn hole(offset: u64, length: u32) -> Bytes {
    bytes().u64(offset).u32(length)
}

const READ: NbdCommand = NbdCommand::Read { whole: false };
const STATUS: NbdCommand = NbdCommand::BlockStatus { one: false };

#[test]
fn pieces_come_in_any_order_and_cover_what_was_asked_for() {
    let end = (1, 0, bytes());
    let pieces =
        [(0, 1, data(11264, 1024)), (0, 2, hole(8192, 1024)), (0, 1, data(10240, 1024)), (0, 1, data(9216, 1024))];
    let heard = answered(READ, &[&pieces[..], std::slice::from_ref(&end)].concat()).expect("a valid reply");
    assert!(matches!(heard[4], ClientEvent::Done { result: Ok(()), .. }), "{heard:?}");
    let covered = "bytes that have come before";
    for other in [data(9215, 2), data(12287, 1), data(11264, 1024), data(8192, 4096), data(10000, 1000)] {
        assert_eq!(wrong(READ, &[&pieces[..], &[(0, 1, other)]].concat()), covered);
    }
    let into_next = [&pieces[..2], &[(0, 1, data(10240, 1025))]].concat();
    assert_eq!(wrong(READ, &into_next), covered);
    assert_eq!(wrong(READ, &[&pieces[1..], &[end]].concat()), "it ends, but not all bytes have come");
    let whole = NbdCommand::Read { whole: true };
    assert_eq!(wrong(whole, &pieces[..2]), "a second piece, although one was asked for");
    let many: Vec<_> = (0..1025).map(|n| (0, 1, data(8192 + 2 * n, 1))).collect();
    assert_eq!(wrong(READ, &many), "too many pieces that lie apart");
}

#[test]
fn wrong_chunks_are_not_taken() {
    for (chunk, what) in [
        ((1, 0, bytes().u16(0)), "an empty chunk is not empty"),
        ((0, 0, bytes()), "an empty chunk is not the last one"),
        ((1, 1, data(8192, 0)), "a piece without bytes"),
        ((1, 2, hole(8192, 0)), "a piece without bytes"),
        ((1, 2, bytes().u64(8192)), "a hole whose chunk does not have 12 bytes"),
        ((1, 1, data(8191, 2)), "bytes that were not asked for"),
        ((1, 2, hole(8192, 4097)), "bytes that were not asked for"),
        ((1, 2, hole(u64::MAX, 4097)), "bytes beyond the end of everything"),
        ((1, 3, bytes()), "a chunk of a type that is unknown"),
        ((1, 5, bytes().u32(1).u32(1).u32(0)), "extents, but it is no block status"),
        ((1, 0x8001, bytes().u32(5)), "an error of less than 6 bytes"),
        ((1, 0x8001, bytes().u32(0).u16(0)), "an error that is none"),
        ((1, 0x8001, bytes().u32(5).u16(9).raw(b"short")), "an error whose text is longer than itself"),
        ((1, 0x8001, bytes().u32(5).u16(1).raw(b"long")), "an error with more than its parts"),
        ((1, 0x8001, bytes().u32(5).u16(5000).raw(&[b'x'; 5000])), "an error whose text is longer than 4096 bytes"),
        ((1, 0x8001, bytes().raw(&vec![1; 16_385])), "an error of more than 16384 bytes"),
        ((1, 0x8002, bytes().u32(5).u16(0)), "an error without an offset"),
        ((1, 0x8002, bytes().u32(5).u16(0).u64(8191)), "an error where nothing was asked for"),
    ] {
        assert_eq!(wrong(READ, &[chunk]), what);
    }
    assert_eq!(wrong(NbdCommand::Flush, &[(1, 1, data(0, 1))]), "bytes, but it is no read");
    assert_eq!(wrong(NbdCommand::Flush, &[(1, 2, hole(0, 1))]), "a hole, but it is no read");
    let mut client = transmitting(true);
    let (cookie, _) = client.request(READ, false, 0, 512).expect("a read");
    let heard = hear(&mut client, &simple(5, cookie));
    assert!(matches!(heard, Err(ServerViolation::Reply { what: "it is simple, although replies are structured", .. })));
}

#[test]
fn errors_are_heard_with_their_place_and_the_first_one_counts() {
    let chunks = [
        (0, 0x8002, bytes().u32(5).u16(3).raw(b"bad").u64(9000)),
        // An error of a kind that is not known, and a number that is not.
        (0, 0xfffe, bytes().u32(77).u16(1).raw(b"xfurther fields")),
        (1, 1, data(8192, 512)),
    ];
    let heard = answered(READ, &chunks).expect("a valid reply");
    let ClientEvent::Failed { errno: Errno::Io, at: Some(9000), ref text, .. } = heard[0] else { panic!("{heard:?}") };
    assert_eq!(text, "bad");
    assert!(matches!(heard[1], ClientEvent::Failed { errno: Errno::Inval, at: None, .. }));
    assert!(matches!(heard[3], ClientEvent::Done { result: Err(Errno::Io), .. }));
    let heard = answered(NbdCommand::Flush, &[(1, 0, bytes())]).expect("a valid reply");
    assert!(matches!(heard[..], [ClientEvent::Done { result: Ok(()), .. }]));
}

#[test]
fn each_context_is_told_once() {
    let of = |context: u32, extents: &[(u32, u32)]| {
        extents.iter().fold(bytes().u32(context), |all, (length, flags)| all.u32(*length).u32(*flags))
    };
    let both = [(0, 5, of(2, &[(4000, 1), (96, 0)])), (1, 5, of(1, &[(1 << 30, 3)]))];
    let heard = answered(STATUS, &both).expect("a valid reply");
    assert_eq!(heard.len(), 4);
    assert!(matches!(heard[1], ClientEvent::Extent { context: 2, length: 96, flags: 0, .. }));
    assert_eq!(wrong(STATUS, &both[1..]), "it ends, but not all contexts were told");
    assert_eq!(wrong(STATUS, &[both[0].clone(), both[0].clone()]), "a context that was told before");
    assert_eq!(wrong(STATUS, &[(1, 5, of(3, &[(1, 1)]))]), "a context that was not chosen");
    let extents = "extents that are not 8 bytes each after 4 for their context";
    assert_eq!(wrong(STATUS, &[(1, 5, of(1, &[]))]), extents);
    assert_eq!(wrong(STATUS, &[(1, 5, of(1, &[(1, 1)]).u32(3))]), extents);
    let beyond = "an extent that is empty or beyond what was asked for";
    assert_eq!(wrong(STATUS, &[(1, 5, of(1, &[(4096, 1), (1, 0)]))]), beyond);
    assert_eq!(wrong(STATUS, &[(1, 5, of(1, &[(0, 1)]))]), beyond);
    let one = NbdCommand::BlockStatus { one: true };
    assert_eq!(wrong(one, &[(1, 5, of(1, &[(4097, 1)]))]), beyond);
    assert_eq!(wrong(one, &[(1, 5, of(1, &[(1, 1), (1, 0)]))]), "several extents, although one was asked for");
}
