//! Requests, byte by byte: which are accepted, and how the others are refused.

use destage_nbd::server::{HangUp, ServerEvent};
use destage_nbd::{BlockSizes, Errno, ExportFeatures, NbdCommand, NbdExport, NbdRequest};

use crate::common::{Bytes, accepted, bytes, feed, full, hangs_up, refused, request, sent, simple, transmitting};

const SIZE: u64 = 1 << 30;
const ALLOCATION: &[&str] = &["base:allocation"];

#[test]
fn every_command_is_understood() {
    let mut server = transmitting(full("a", SIZE), true, ALLOCATION);
    for (flags, kind, command) in [
        (0, 0, NbdCommand::Read { whole: false }),
        (4, 0, NbdCommand::Read { whole: true }),
        (0, 4, NbdCommand::Trim),
        (0, 5, NbdCommand::Cache),
        (0, 6, NbdCommand::WriteZeroes { no_hole: false, fast: false }),
        (2, 6, NbdCommand::WriteZeroes { no_hole: true, fast: false }),
        (16, 6, NbdCommand::WriteZeroes { no_hole: false, fast: true }),
        (0, 7, NbdCommand::BlockStatus { one: false }),
        (8, 7, NbdCommand::BlockStatus { one: true }),
    ] {
        for fua in [false, true] {
            let message = request(flags | u16::from(fua), kind, 0x0102_0304_0506_0708, 4096, 512);
            let expected = NbdRequest { cookie: 0x0102_0304_0506_0708, command, fua, offset: 4096, length: 512 };
            assert_eq!(accepted(&mut server, &message), expected);
            assert_eq!(expected.encode().to_vec(), message.0);
        }
    }
    let flush = accepted(&mut server, &request(1, 3, 9, 0, 0));
    assert_eq!(flush, NbdRequest { cookie: 9, command: NbdCommand::Flush, fua: true, offset: 0, length: 0 });
    assert!(!server.is_inside_message());
}

#[test]
fn the_payload_of_a_write_goes_where_the_owner_wants_it() {
    let mut server = transmitting(full("a", SIZE), false, &[]);
    let message = request(1, 1, 7, 512, 10).raw(b"abc");
    let mut input = &message.0[..];
    let expected = NbdRequest { cookie: 7, command: NbdCommand::Write, fua: true, offset: 512, length: 10 };
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::Request(expected)));
    assert_eq!((server.receive(&mut input), server.payload_left()), (Ok(ServerEvent::Payload(10)), 10));
    assert!(server.is_inside_message());
    let mut buffer = [0; 10];
    assert_eq!(server.take_payload(&mut input, &mut buffer), 3);
    // Four more are read from the socket by the owner; what comes after the payload is not taken.
    server.payload_read(4);
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::Payload(3)));
    let rest = bytes().raw(b"xyz").raw(&request(0, 3, 8, 0, 0).0);
    let mut input = &rest.0[..];
    assert_eq!(server.take_payload(&mut input, &mut buffer[7..]), 3);
    assert_eq!((&buffer, input.len()), (b"abc\0\0\0\0xyz", 28));
    assert_eq!((server.payload_left(), server.take_payload(&mut input, &mut [0; 9])), (0, 0));
    let Ok(ServerEvent::Request(flush)) = server.receive(&mut input) else { panic!("a flush") };
    assert_eq!((flush.command, flush.cookie), (NbdCommand::Flush, 8));
    assert!(server.output().is_empty());
}

#[test]
fn a_payload_that_nobody_wants_is_dropped_before_the_error_is_sent() {
    let mut server = transmitting(full("a", SIZE), true, &[]);
    let message = request(0, 1, 7, 512, 10).raw(b"abc");
    let mut input = &message.0[..];
    let Ok(ServerEvent::Request(write)) = server.receive(&mut input) else { panic!("a write") };
    server.refuse_payload(&write, Errno::NoMem, &"no buffer");
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::More));
    assert!(server.output().is_empty() && server.is_inside_message());
    assert_eq!(feed(&mut server, &bytes().raw(b"0123456")), refused(7, 12, "no buffer"));
}

/// Hands over a request that is refused, in both forms of replies, after its payload if it has one.
fn refuses(export: &NbdExport, contexts: &[&str], message: &Bytes, payload: usize, errno: u32, text: &str) {
    let cookie = 0x0807_0605_0403_0201;
    for structured in [true, false] {
        if !structured && !contexts.is_empty() {
            continue;
        }
        let mut server = transmitting(export.clone(), structured, contexts);
        assert_eq!(
            feed(&mut server, message),
            if payload > 0 { bytes() } else { reply(structured, cookie, errno, text) }
        );
        if payload > 0 {
            assert_eq!(feed(&mut server, &Bytes(vec![3; payload - 1])), bytes());
            assert_eq!(feed(&mut server, &Bytes(vec![3])), reply(structured, cookie, errno, text));
        }
        // The connection goes on.
        accepted(&mut server, &request(0, 0, 1, 0, 4096));
    }
}

fn reply(structured: bool, cookie: u64, errno: u32, text: &str) -> Bytes {
    // A read that is too long is told apart only where the client knows of reads in pieces.
    let errno = if structured || errno != 75 { errno } else { 22 };
    if structured { refused(cookie, errno, text) } else { simple(errno, cookie) }
}

const COOKIE: u64 = 0x0807_0605_0403_0201;

#[test]
fn what_is_outside_the_export_is_refused() {
    let export = full("a", SIZE);
    let what =
        |name: &str, offset: u64| format!("a {name} of 4096 bytes at {offset} ends beyond the export's {SIZE} bytes");
    for (kind, name, errno) in [(0, "read", 22), (4, "trim", 22), (5, "cache", 22), (6, "write of zeroes", 28)] {
        for offset in [SIZE - 4095, SIZE, u64::MAX - 5] {
            refuses(&export, &[], &request(0, kind, COOKIE, offset, 4096), 0, errno, &what(name, offset));
        }
    }
    for offset in [SIZE - 4095, u64::MAX] {
        refuses(&export, &[], &request(0, 1, COOKIE, offset, 4096), 4096, 28, &what("write", offset));
        let status = request(0, 7, COOKIE, offset, 4096);
        refuses(&export, ALLOCATION, &status, 0, 22, &what("block status", offset));
    }
}

#[test]
fn what_is_not_aligned_is_refused() {
    let blocks = BlockSizes { minimum: 512, ..BlockSizes::default() };
    let export = NbdExport { blocks, ..full("a", SIZE) };
    for (kind, name) in [(0, "read"), (1, "write"), (4, "trim"), (5, "cache"), (6, "write of zeroes")] {
        for (offset, length) in [(511, 512), (512, 513), (1, 511)] {
            let text = format!("a {name} of {length} bytes at {offset} is not aligned to blocks of 512 bytes");
            let payload = if kind == 1 { length as usize } else { 0 };
            refuses(&export, &[], &request(0, kind, COOKIE, offset, length), payload, 22, &text);
        }
    }
    let text = "a block status of 512 bytes at 256 is not aligned to blocks of 512 bytes";
    refuses(&export, ALLOCATION, &request(0, 7, COOKIE, 256, 512), 0, 22, text);
}

#[test]
fn a_read_only_export_is_not_changed() {
    let mut export = full("a", SIZE);
    export.features.read_only = true;
    for (kind, name, payload) in [(1, "write", 512), (4, "trim", 0), (6, "write of zeroes", 0)] {
        let text = format!("a {name} of an export that is read-only");
        refuses(&export, &[], &request(0, kind, COOKIE, 0, 512), payload, 1, &text);
    }
    let mut server = transmitting(export, false, &[]);
    accepted(&mut server, &request(0, 3, 1, 0, 0));
    accepted(&mut server, &request(0, 5, 1, 0, 512));
}

#[test]
fn what_was_not_offered_is_refused() {
    let export = NbdExport { features: ExportFeatures::default(), ..full("a", SIZE) };
    for (kind, name, length) in [(3, "flush", 0), (4, "trim", 512), (5, "cache", 512), (6, "write of zeroes", 512)] {
        let message = request(0, kind, COOKIE, 0, length);
        refuses(&export, &[], &message, 0, 22, &format!("a {name} is not offered"));
    }
    for (kind, name, flags) in [(0, "read", 1), (1, "write", 1)] {
        let payload = if kind == 1 { 512 } else { 0 };
        let text = format!("a {name} cannot have the flags 0x1");
        refuses(&export, &[], &request(flags, kind, COOKIE, 0, 512), payload, 22, &text);
    }
    let text = "a block status without a context having been chosen";
    refuses(&export, &[], &request(0, 7, COOKIE, 0, 512), 0, 22, text);
}

#[test]
fn flags_of_other_commands_and_unknown_ones_are_refused() {
    let export = full("a", SIZE);
    for (kind, name, flags) in [
        (0, "read", 2),
        (0, "read", 8),
        (0, "read", 16),
        (0, "read", 32),
        (1, "write", 4),
        (1, "write", 2),
        (4, "trim", 2),
        (5, "cache", 0x8000),
        (6, "write of zeroes", 4),
        (6, "write of zeroes", 0xffe8),
    ] {
        let payload = if kind == 1 { 512 } else { 0 };
        let text = format!("a {name} cannot have the flags {flags:#x}");
        refuses(&export, &[], &request(flags | 1, kind, COOKIE, 0, 512), payload, 22, &text);
    }
    refuses(&export, &[], &request(4, 3, COOKIE, 0, 0), 0, 22, "a flush cannot have the flags 0x4");
    let text = "a block status cannot have the flags 0x4";
    refuses(&export, ALLOCATION, &request(12, 7, COOKIE, 0, 512), 0, 22, text);
    // Without structured replies there are no pieces.
    let mut server = transmitting(export.clone(), false, &[]);
    assert_eq!(feed(&mut server, &request(4, 0, 5, 0, 512)), simple(22, 5));
    let slow = NbdExport { features: ExportFeatures { fast_zero: false, ..export.features }, ..export };
    let text = "a write of zeroes cannot have the flags 0x10";
    refuses(&slow, &[], &request(16, 6, COOKIE, 0, 512), 0, 22, text);
}

#[test]
fn unknown_and_empty_requests_are_refused() {
    let export = full("a", SIZE);
    for kind in [8, 9, 0xffff] {
        let text = format!("requests of type {kind} are unknown");
        refuses(&export, &[], &request(0, kind, COOKIE, 0, 512), 0, 22, &text);
    }
    for (kind, name) in [(0, "read"), (4, "trim"), (5, "cache"), (6, "write of zeroes")] {
        refuses(&export, &[], &request(0, kind, COOKIE, 512, 0), 0, 22, &format!("a {name} of no bytes"));
    }
    let mut server = transmitting(export.clone(), true, &[]);
    assert_eq!(feed(&mut server, &request(0, 1, 5, 512, 0)), refused(5, 22, "a write of no bytes"));
    for (offset, length) in [(1, 0), (0, 1)] {
        let text = "a flush with an offset or a length";
        refuses(&export, &[], &request(0, 3, COOKIE, offset, length), 0, 22, text);
    }
}

#[test]
fn what_is_too_long_is_refused_and_what_is_far_too_long_ends_the_connection() {
    let blocks = BlockSizes { maximum: 1 << 16, ..BlockSizes::default() };
    let export = NbdExport { blocks, ..full("a", SIZE) };
    let over = (1 << 16) + 1;
    let text = |name: &str| format!("a {name} of {over} bytes is longer than 65536 bytes");
    refuses(&export, &[], &request(0, 0, COOKIE, 0, over), 0, 75, &text("read"));
    refuses(&export, &[], &request(0, 1, COOKIE, 0, over), over as usize, 22, &text("write"));
    let mut server = transmitting(export.clone(), false, &[]);
    for kind in [4, 5, 6] {
        accepted(&mut server, &request(0, kind, 1, 0, 1 << 29));
    }
    let most = 1 << 25;
    let error = hangs_up(&mut server, &request(0, 1, 1, 0, most + 1));
    assert_eq!(error, HangUp::PayloadTooLong { length: most + 1, most });
    // A larger maximum is kept to as well.
    let blocks = BlockSizes { maximum: 1 << 26, ..export.blocks };
    let mut server = transmitting(NbdExport { blocks, ..export }, false, &[]);
    let message = request(0, 1, 1, 0, 1 << 26);
    assert!(matches!(server.receive(&mut &message.0[..]), Ok(ServerEvent::Request(_))));
    server.payload_read(1 << 26);
    let error = hangs_up(&mut server, &request(0, 1, 1, 0, (1 << 26) + 1));
    assert_eq!(error, HangUp::PayloadTooLong { length: (1 << 26) + 1, most: 1 << 26 });
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let mut server = transmitting(full("a", SIZE), true, &[]);
    let message = Bytes(vec![0x12, 0x56, 0x09, 0x53]).raw(&[0; 24]);
    assert_eq!(hangs_up(&mut server, &message), HangUp::RequestMagic(0x1256_0953));
}

#[test]
fn goodbye_is_the_end() {
    let mut server = transmitting(full("a", SIZE), true, &[]);
    let message = request(0, 2, 1, 0, 0).raw(b"what is not to come");
    let mut input = &message.0[..];
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::Ended));
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::Ended));
    assert!(sent(&mut server).0.is_empty() && !server.is_inside_message());
}

#[test]
fn a_server_that_is_shut_down_refuses_requests() {
    let mut server = transmitting(full("a", SIZE), true, &[]);
    server.shut_down();
    let text = "the server is being shut down";
    assert_eq!(feed(&mut server, &request(0, 0, 5, 0, 512)), refused(5, 108, text));
    assert_eq!(feed(&mut server, &request(0, 1, 6, 0, 2).raw(b"ab")), refused(6, 108, text));
    assert_eq!(server.receive(&mut &request(0, 2, 1, 0, 0).0[..]), Ok(ServerEvent::Ended));
}

#[test]
fn a_client_that_does_not_listen_is_not_listened_to() {
    let mut server = transmitting(full("a", SIZE), true, &[]);
    let many = request(0, 99, 1, 0, 0).0.repeat(10_000);
    let mut input = &many[..];
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::SendFirst));
    assert!(!input.is_empty() && server.held() < 200_000);
}
