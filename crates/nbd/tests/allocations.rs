//! Once a connection is under way nothing is allocated for a request, at either end.

#[path = "it/common/mod.rs"]
mod common;

use common::{bytes, full, option_reply};
use destage_nbd::client::{ClientEvent as Heard, NbdClient, OptionRequest};
use destage_nbd::server::ServerEvent;
use destage_nbd::{NbdCommand, NbdServer, ReadReply, StatusExtent};

const BLOCK: u32 = 4096;

/// A request that is made, heard, carried out, answered and done; its bytes go through `wire`.
fn round(client: &mut NbdClient, server: &mut NbdServer, command: NbdCommand, page: &mut [u8], wire: &mut Vec<u8>) {
    let plain = command == NbdCommand::Flush;
    let (offset, length) = if plain { (0, 0) } else { (8192, BLOCK) };
    let (cookie, head) = client.request(command, false, offset, length).expect("it was agreed on");
    let mut input = &head[..];
    let Ok(ServerEvent::Request(request)) = server.receive(&mut input) else { panic!("it is valid") };
    if command == NbdCommand::Write {
        let mut payload = &page[..100];
        assert_eq!(server.receive(&mut payload), Ok(ServerEvent::Payload(BLOCK)));
        server.payload_read(BLOCK);
    }
    let session = *server.session().expect("a transmission");
    wire.clear();
    match command {
        NbdCommand::Read { .. } => {
            let mut reply = ReadReply::new(&session, &request);
            wire.extend_from_slice(&reply.hole(512));
            wire.extend_from_slice(&reply.data(BLOCK - 512));
            wire.extend_from_slice(&page[512..]);
        }
        NbdCommand::BlockStatus { .. } => {
            let extents = [StatusExtent { length: 512, flags: 1 }, StatusExtent { length: 8192, flags: 0 }];
            session.status(&request, 0, extents, true, wire);
        }
        _ => wire.extend_from_slice(&session.done(&request)),
    }
    // As the sockets have it: some bytes of the reply, then the others.
    let (first, second) = wire.split_at(wire.len() / 3);
    for mut input in [first, second] {
        loop {
            match client.receive(&mut input).expect("a valid reply") {
                Heard::More => break,
                Heard::Payload(_) if input.is_empty() => break,
                Heard::Payload(_) => assert!(client.take_payload(&mut input, page) > 0),
                Heard::Done { cookie: of, result } => assert_eq!((of, result), (cookie, Ok(()))),
                _ => {}
            }
        }
    }
}

#[test]
fn requests_allocate_nothing() {
    let mut server = common::transmitting(full("a", 1 << 20), true, &["base:allocation"]);
    let mut client = NbdClient::new(4);
    let agree = |client: &mut NbdClient, ask: OptionRequest<'_>, replies: Vec<u8>| {
        client.ask(&ask).expect("it is time for it");
        client.receive(&mut &replies[..]).expect("a valid answer")
    };
    client.receive(&mut &bytes().raw(b"NBDMAGICIHAVEOPT").u16(3).0[..]).expect("a server");
    let ack = |to| option_reply(to, 1, &bytes()).0;
    agree(&mut client, OptionRequest::StructuredReply, ack(8));
    let context = option_reply(10, 4, &bytes().u32(1).raw(b"base:allocation")).0;
    agree(&mut client, OptionRequest::SetContexts("a", &["base:allocation"]), [context, ack(10)].concat());
    let told = option_reply(7, 3, &bytes().u16(0).u64(1 << 20).u16(0xffd)).0;
    assert_eq!(agree(&mut client, OptionRequest::Go("a", &[]), [told, ack(7)].concat()), Heard::Started);
    let commands = [
        NbdCommand::Read { whole: false },
        NbdCommand::Write,
        NbdCommand::Flush,
        NbdCommand::Trim,
        NbdCommand::WriteZeroes { no_hole: false, fast: false },
        NbdCommand::BlockStatus { one: false },
    ];
    let (mut page, mut wire) = (vec![7; BLOCK as usize], Vec::new());
    let mut all = |times: u32| {
        for command in (0..times).flat_map(|_| commands) {
            round(&mut client, &mut server, command, &mut page, &mut wire);
        }
    };
    // What is used again and again is there after the first few.
    all(4);
    assert_eq!(allocation_counter::measure(|| all(1000)).count_total, 0);
    // An allocation, however short its life, would have been seen.
    assert_eq!(allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 1]))).count_total, 1);
}
