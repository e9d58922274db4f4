//! Replies, byte by byte.

use destage_nbd::{
    BlockSizes, Errno, NbdExport, NbdServer, NbdSession, ReadReply, ReplyHead, StatusExtent, error_chunk,
};

use crate::common::{Bytes, accepted, bytes, chunk, full, request, simple, transmitting};

const CONTEXTS: &[&str] = &["base:allocation", "destage:member"];

fn session(server: &NbdServer) -> NbdSession {
    *server.session().expect("the transmission has begun")
}

fn head(head: ReplyHead) -> Bytes {
    Bytes(head.to_vec())
}

#[test]
fn simple_replies_are_simple() {
    let mut server = transmitting(full("a", 1 << 20), false, &[]);
    let session = session(&server);
    let read = accepted(&mut server, &request(0, 0, 7, 512, 4));
    let mut reply = ReadReply::new(&session, &read);
    assert_eq!((reply.left(), reply.splits(), reply.takes_hole(4)), (4, false, false));
    assert_eq!(head(reply.data(4)), simple(0, 7));
    assert_eq!(reply.left(), 0);
    let flush = accepted(&mut server, &request(0, 3, 8, 0, 0));
    assert_eq!(head(session.done(&flush)), simple(0, 8));
    let mut out = Vec::new();
    ReadReply::new(&session, &read).fail(Errno::Io, &"a text that is not sent", &mut out);
    session.fail(&flush, Errno::NoSpc, &"nor this", Some(3), &mut out);
    assert_eq!(out, [simple(5, 7).0, simple(28, 8).0].concat());
}

#[test]
fn a_structured_read_comes_in_pieces_and_holes() {
    let mut server = transmitting(full("a", 1 << 20), true, &[]);
    let session = session(&server);
    let read = accepted(&mut server, &request(0, 0, 7, 512, 4096));
    let mut reply = ReadReply::new(&session, &read);
    assert!(reply.splits() && reply.takes_hole(1));
    // The length of a chunk counts the offset, too; its bytes are sent by the owner.
    let piece =
        |flags, offset, length: u32| bytes().u32(0x668e_33ef).u16(flags).u16(1).u64(7).u32(length + 8).u64(offset);
    assert_eq!(head(reply.data(512)), piece(0, 512, 512));
    assert_eq!(head(reply.hole(1024)), chunk(0, 2, 7, &bytes().u64(1024).u32(1024)));
    let mut failed = Vec::new();
    reply.fail(Errno::Io, &"member 3", &mut failed);
    let error = bytes().u32(5).u16(8).raw(b"member 3").u64(2048);
    assert_eq!(failed, chunk(1, 0x8002, 7, &error).0);
    assert_eq!(head(reply.data(2560)), piece(1, 2048, 2560));
    let mut whole = ReadReply::new(&session, &read);
    assert_eq!(head(whole.data(4096)), piece(1, 512, 4096));
    let mut empty = ReadReply::new(&session, &read);
    assert_eq!(head(empty.hole(4096)), chunk(1, 2, 7, &bytes().u64(512).u32(4096)));
}

#[test]
fn a_read_in_one_piece_has_no_second_one() {
    let mut server = transmitting(full("a", 1 << 20), true, &[]);
    let session = session(&server);
    let read = accepted(&mut server, &request(4, 0, 7, 0, 4096));
    let mut reply = ReadReply::new(&session, &read);
    assert_eq!((reply.splits(), reply.takes_hole(512), reply.takes_hole(4096)), (false, false, true));
    assert!(std::panic::catch_unwind(move || reply.data(512)).is_err());
    assert_eq!(reply.data(4096).len(), 28);
}

#[test]
fn other_requests_are_answered_simply_unless_they_fail() {
    let mut server = transmitting(full("a", 1 << 20), true, &[]);
    let session = session(&server);
    let trim = accepted(&mut server, &request(0, 4, 7, 512, 512));
    assert_eq!(head(session.done(&trim)), simple(0, 7));
    let mut out = Vec::new();
    session.fail(&trim, Errno::NoMem, &"", None, &mut out);
    session.fail(&trim, Errno::Io, &"here", Some(1023), &mut out);
    // A place outside the request is none.
    session.fail(&trim, Errno::Io, &"here", Some(1024), &mut out);
    let expected = [
        chunk(1, 0x8001, 7, &bytes().u32(12).u16(0)),
        chunk(1, 0x8002, 7, &bytes().u32(5).u16(4).raw(b"here").u64(1023)),
        chunk(1, 0x8001, 7, &bytes().u32(5).u16(4).raw(b"here")),
    ];
    assert_eq!(out, expected.map(|chunk| chunk.0).concat());
    assert_eq!(head(ReplyHead::end(9)), chunk(1, 0, 9, &bytes()));
}

#[test]
fn long_texts_are_cut_between_characters() {
    let mut out = Vec::new();
    error_chunk(&mut out, 1, Errno::Io, &format!("\0{}\u{e4}\u{e4}", "x".repeat(4094)), Some(9), false);
    let text = format!(" {}", "x".repeat(4094));
    assert_eq!(out, chunk(0, 0x8002, 1, &bytes().u32(5).u16(4095).raw(text.as_bytes()).u64(9)).0);
}

/// Returns the extents of 10,000 bytes from 4096 on; the export has 1 MiB.
fn status(flags: u16, extents: &[(u64, u32)]) -> Vec<(u32, u32)> {
    status_of(full("a", 1 << 20), &request(flags, 7, 7, 4096, 10_000), extents)
}

fn status_of(export: NbdExport, message: &Bytes, extents: &[(u64, u32)]) -> Vec<(u32, u32)> {
    let mut server = transmitting(export, true, CONTEXTS);
    let session = session(&server);
    assert_eq!(session.contexts().collect::<Vec<_>>(), [0, 2]);
    let query = accepted(&mut server, message);
    let mut out = Vec::new();
    session.status(&query, 2, extents.iter().map(|&(length, flags)| StatusExtent { length, flags }), true, &mut out);
    let extents: Vec<_> = out[24..]
        .chunks(8)
        .map(|extent| {
            let number = |at: usize| u32::from_be_bytes(extent[at..at + 4].try_into().expect("four bytes"));
            (number(0), number(4))
        })
        .collect();
    let payload = extents.iter().fold(bytes().u32(3), |payload, (length, flags)| payload.u32(*length).u32(*flags));
    assert_eq!(out, chunk(1, 5, 7, &payload).0);
    extents
}

#[test]
fn a_block_status_has_a_chunk_for_each_context() {
    let mut server = transmitting(full("a", 1 << 20), true, CONTEXTS);
    let session = session(&server);
    let query = accepted(&mut server, &request(0, 7, 7, 0, 8192));
    let mut out = Vec::new();
    let extents = [StatusExtent { length: 4096, flags: 0 }, StatusExtent { length: 4096, flags: 3 }];
    session.status(&query, 0, extents, false, &mut out);
    session.status(&query, 2, [StatusExtent { length: 8192, flags: 9 }], true, &mut out);
    let first = chunk(0, 5, 7, &bytes().u32(1).u32(4096).u32(0).u32(4096).u32(3));
    let second = chunk(1, 5, 7, &bytes().u32(3).u32(8192).u32(9));
    assert_eq!(out, [first.0, second.0].concat());
}

#[test]
fn extents_are_joined_and_end_where_the_client_may_know() {
    assert_eq!(status(0, &[(100, 1), (0, 2), (200, 1), (50, 0)]), [(300, 1), (50, 0)]);
    assert_eq!(status(0, &[(9_999, 1), (4096, 2), (50, 0)]), [(9_999, 1), (4096, 2)]);
    assert_eq!(status(0, &[(10_000, 1), (50, 2)]), [(10_000, 1)]);
    assert_eq!(status(0, &[(u64::MAX, 1)]), [((1 << 20) - 4096, 1)]);
    assert_eq!(status(8, &[(300, 1), (50, 0)]), [(300, 1)]);
    assert_eq!(status(8, &[(6_000, 1), (6_000, 1)]), [(10_000, 1)]);
    assert_eq!(status(0, &[]), [(10_000, 0)]);
    assert_eq!(status(0, &[(0, 5)]), [(10_000, 0)]);
    // The last length is a multiple of any block.
    let far = status_of(full("a", 1 << 40), &request(0, 7, 7, 0, 4096), &[(1 << 40, 1)]);
    assert_eq!(far, [(u32::MAX - 0xffff, 1)]);
    // No chunk is longer than a payload.
    let blocks = BlockSizes { maximum: 1 << 16, ..BlockSizes::default() };
    let many: Vec<_> = (0..9000).map(|n| (1, n % 2)).collect();
    let told = status_of(NbdExport { blocks, ..full("a", 1 << 20) }, &request(0, 7, 7, 0, 9000), &many);
    assert_eq!(told.len(), 8192);
}
