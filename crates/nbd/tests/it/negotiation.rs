//! The negotiation, byte by byte.

use destage_nbd::server::{HangUp, ServerEvent};
use destage_nbd::{BlockSizes, NbdExport, NbdServer};

use crate::common::{Bytes, bytes, exports, feed, full, greeted, hangs_up, option, option_reply, request, sent};

const ACK: u32 = 1;
const INVALID: u32 = 0x8000_0003;

fn ack(to: u32) -> Bytes {
    option_reply(to, ACK, &bytes())
}

/// An error, whatever its text.
#[track_caller]
fn refused(server: &mut NbdServer, message: &Bytes, to: u32, kind: u32) -> String {
    let output = feed(server, message).0;
    assert_eq!(output[..16], bytes().u64(0x0003_e889_0455_65a9).u32(to).u32(kind).0);
    let text = String::from_utf8(output[20..].to_vec()).expect("a text");
    assert_eq!(output[16..20], (text.len() as u32).to_be_bytes());
    assert!(!text.is_empty());
    text
}

/// Encodes the information on an export: its size and flags.
fn told(to: u32, size: u64, flags: u16) -> Bytes {
    option_reply(to, 3, &bytes().u16(0).u64(size).u16(flags))
}

fn two() -> Vec<NbdExport> {
    let described = NbdExport { description: "the second".to_owned(), ..NbdExport::new("b", 8192) };
    vec![full("a", 1 << 20), described]
}

/// All that `full` offers, without reads in one piece.
const FULL: u16 = 0b1101_0110_1101;

#[test]
fn a_server_speaks_first() {
    let mut server = NbdServer::new(exports(two()));
    assert_eq!(sent(&mut server), bytes().raw(b"NBDMAGICIHAVEOPT").u16(3));
    assert_eq!(server.receive(&mut &[][..]), Ok(ServerEvent::More));
    assert!(!server.is_inside_message());
    assert_eq!(server.receive(&mut &[0, 0][..]), Ok(ServerEvent::More));
    assert!(server.is_inside_message());
    assert_eq!(server.receive(&mut &[0, 1][..]), Ok(ServerEvent::More));
    assert!(!server.is_inside_message());
}

#[test]
fn unknown_flags_of_a_client_end_the_connection() {
    let mut server = NbdServer::new(exports(two()));
    sent(&mut server);
    assert_eq!(hangs_up(&mut server, &bytes().u32(4)), HangUp::ClientFlags(4));
}

#[test]
fn exports_are_started_by_name_with_or_without_zeroes() {
    for (flags, padding) in [(1, 124), (3, 0)] {
        let mut server = greeted(two(), flags);
        let message = option(1, &bytes().raw(b"b")).raw(&request(0, 2, 0, 0, 0).0);
        let mut input = &message.0[..];
        assert_eq!(server.receive(&mut input), Ok(ServerEvent::Started));
        assert_eq!(sent(&mut server), bytes().u64(8192).u16(1).raw(&vec![0; padding]));
        let session = *server.session().expect("it has begun");
        assert_eq!((session.export, session.size, session.structured), (1, 8192, false));
        assert_eq!(server.receive(&mut input), Ok(ServerEvent::Ended));
    }
}

#[test]
fn an_unknown_name_cannot_be_answered() {
    let mut server = greeted(two(), 3);
    let error = hangs_up(&mut server, &option(1, &bytes().raw(b"c\xff")));
    assert_eq!(error, HangUp::UnknownExport("c\u{fffd}".to_owned()));
    let mut server = greeted(two(), 3);
    assert_eq!(hangs_up(&mut server, &option(1, &bytes())), HangUp::UnknownExport(String::new()));
    let mut server = greeted(two(), 3);
    let error = hangs_up(&mut server, &bytes().raw(b"IHAVEOPT").u32(1).u32(4097));
    assert_eq!(error, HangUp::OptionTooLong { option: 1, length: 4097 });
}

#[test]
fn no_name_means_the_default() {
    let all = destage_nbd::ExportList::new(two(), Some("b")).expect("exports");
    let mut server = NbdServer::new(all.into());
    sent(&mut server);
    let message = bytes().u32(3).raw(&option(7, &bytes().string("").u16(0)).0);
    assert_eq!(server.receive(&mut &message.0[..]), Ok(ServerEvent::Started));
    assert_eq!(server.session().map(|session| session.export), Some(1));
}

#[test]
fn exports_are_listed() {
    let mut server = greeted(two(), 3);
    let listed = feed(&mut server, &option(3, &bytes()));
    let (a, b) = (bytes().string("a"), bytes().string("b").raw(b"the second"));
    assert_eq!(listed.0, [option_reply(3, 2, &a).0, option_reply(3, 2, &b).0, ack(3).0].concat());
    refused(&mut server, &option(3, &bytes().raw(b"x")), 3, INVALID);
}

#[test]
fn aborting_ends_the_connection_politely() {
    for data in [bytes(), bytes().raw(b"not now")] {
        let mut server = greeted(two(), 3);
        let message = option(2, &data).raw(b"whatever comes");
        let mut input = &message.0[..];
        assert_eq!(server.receive(&mut input), Ok(ServerEvent::Ended));
        assert_eq!(sent(&mut server), ack(2));
        assert_eq!(server.receive(&mut input), Ok(ServerEvent::Ended));
        assert!(!server.is_inside_message());
    }
}

#[test]
fn unknown_options_are_answered_and_skipped() {
    let mut server = greeted(two(), 3);
    // One that was withdrawn, extended headers, and one that nobody knows.
    for number in [4, 11, 0x7fff_ffff] {
        refused(&mut server, &option(number, &bytes().raw(&vec![7; 40_000])), number, 0x8000_0001);
    }
    assert_eq!(refused(&mut server, &option(5, &bytes()), 5, 0x8000_0001), "this server does not speak TLS");
    assert_eq!(feed(&mut server, &option(8, &bytes())), ack(8));
    let error = hangs_up(&mut server, &bytes().raw(b"IHAVEOPT").u32(99).u32((1 << 25) + 1));
    assert_eq!(error, HangUp::OptionTooLong { option: 99, length: (1 << 25) + 1 });
}

#[test]
fn what_is_no_option_ends_the_connection() {
    let mut server = greeted(two(), 3);
    let message = bytes().raw(b"IHAVEOPS").u32(3).u32(0);
    assert_eq!(hangs_up(&mut server, &message), HangUp::OptionMagic(0x4948_4156_454f_5053));
}

#[test]
fn information_is_given_as_it_is_asked_for() {
    let mut server = greeted(two(), 3);
    let ask = |name: &str, kinds: &[u16]| {
        let data = bytes().string(name).u16(kinds.len() as u16);
        option(6, &kinds.iter().fold(data, |data, &kind| data.u16(kind)))
    };
    assert_eq!(feed(&mut server, &ask("a", &[])).0, [told(6, 1 << 20, FULL).0, ack(6).0].concat());
    let name = option_reply(6, 3, &bytes().u16(1).raw(b"b"));
    let description = option_reply(6, 3, &bytes().u16(2).raw(b"the second"));
    let blocks = option_reply(6, 3, &bytes().u16(3).u32(1).u32(4096).u32(1 << 25));
    let all = [blocks.0, told(6, 8192, 1).0, name.0, description.0, ack(6).0].concat();
    assert_eq!(feed(&mut server, &ask("b", &[77, 2, 3, 1])).0, all);
    refused(&mut server, &ask("c", &[]), 6, 0x8000_0006);
    // With structured replies reads can be asked for in one piece.
    assert_eq!(feed(&mut server, &option(8, &bytes())), ack(8));
    assert_eq!(feed(&mut server, &ask("a", &[])).0, [told(6, 1 << 20, FULL | 1 << 7).0, ack(6).0].concat());
    for bad in [
        bytes(),
        bytes().u32(2).raw(b"a"),
        bytes().string("a"),
        bytes().string("a").u16(1),
        bytes().string("a").u16(0).u16(3),
        bytes().u32(u32::MAX).raw(b"a").u16(0),
        bytes().string(&"a".repeat(4097)).u16(0),
    ] {
        refused(&mut server, &option(6, &bad), 6, INVALID);
        refused(&mut server, &option(7, &bad), 7, INVALID);
    }
    refused(&mut server, &option(7, &bytes().raw(&vec![0; 32_769])), 7, 0x8000_0009);
}

#[test]
fn go_begins_the_transmission() {
    let mut server = greeted(two(), 1);
    let message = option(7, &bytes().string("a").u16(0));
    assert_eq!(server.receive(&mut &message.0[..]), Ok(ServerEvent::Started));
    assert_eq!(sent(&mut server).0, [told(7, 1 << 20, FULL).0, ack(7).0].concat());
}

#[test]
fn block_sizes_are_told_to_all_and_insisted_on_if_so_wanted() {
    let blocks = BlockSizes { minimum: 512, preferred: 65_536, maximum: 1 << 20 };
    let export = NbdExport { blocks, insists_on_blocks: true, ..NbdExport::new("a", 1 << 20) };
    let told_blocks = |to| option_reply(to, 3, &bytes().u16(3).u32(512).u32(65_536).u32(1 << 20));
    let mut server = greeted(vec![export.clone()], 3);
    for number in [6, 7] {
        let output = feed(&mut server, &option(number, &bytes().string("a").u16(0)));
        let blocks = told_blocks(number);
        assert!(output.0.starts_with(&blocks.0));
        assert_eq!(output.0[blocks.0.len() + 12..][..4], 0x8000_0008_u32.to_be_bytes());
    }
    let message = option(7, &bytes().string("a").u16(1).u16(3));
    assert_eq!(server.receive(&mut &message.0[..]), Ok(ServerEvent::Started));
    assert_eq!(sent(&mut server).0, [told_blocks(7).0, told(7, 1 << 20, 1).0, ack(7).0].concat());
    let mut server = greeted(vec![export.clone()], 3);
    assert_eq!(hangs_up(&mut server, &option(1, &bytes().raw(b"a"))), HangUp::BlockSizes("a".to_owned()));
    // Without that all may begin.
    let mut server = greeted(vec![NbdExport { insists_on_blocks: false, ..export }], 3);
    let message = option(7, &bytes().string("a").u16(0));
    assert_eq!(server.receive(&mut &message.0[..]), Ok(ServerEvent::Started));
    assert_eq!(sent(&mut server).0, [told_blocks(7).0, told(7, 1 << 20, 1).0, ack(7).0].concat());
}

#[test]
fn a_server_that_is_shut_down_says_so() {
    let mut server = greeted(two(), 3);
    server.shut_down();
    for number in [3, 5, 6, 7, 8, 9, 10, 77] {
        refused(&mut server, &option(number, &bytes()), number, 0x8000_0007);
    }
    assert_eq!(hangs_up(&mut server, &option(1, &bytes().raw(b"a"))), HangUp::Shutdown);
    let mut server = greeted(two(), 3);
    server.shut_down();
    assert_eq!(server.receive(&mut &option(2, &bytes()).0[..]), Ok(ServerEvent::Ended));
    assert_eq!(sent(&mut server), ack(2));
}

#[test]
fn a_client_that_does_not_listen_is_not_listened_to() {
    let mut server = greeted(two(), 3);
    let many = option(3, &bytes()).0.repeat(10_000);
    let mut input = &many[..];
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::SendFirst));
    let left = input.len();
    assert!(left > many.len() / 2 && server.output().len() < 70_000);
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::SendFirst));
    assert_eq!(input.len(), left);
    server.sent(60_000);
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::SendFirst));
    assert!(input.len() < left && server.held() < 150_000);
}
