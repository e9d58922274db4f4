//! Builds messages byte by byte, and a server that is fed them, for several tests.
#![allow(dead_code, reason = "tests/allocations.rs uses some of it")]

use std::sync::Arc;

use destage_nbd::server::{HangUp, ServerEvent};
use destage_nbd::{ExportFeatures, ExportList, NbdExport, NbdRequest, NbdServer};

/// A message, put together field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// A string after its length.
    pub fn string(self, text: &str) -> Self {
        self.u32(text.len() as u32).raw(text.as_bytes())
    }
}

pub fn bytes() -> Bytes {
    Bytes::default()
}

/// An option with its data.
pub fn option(number: u32, data: &Bytes) -> Bytes {
    bytes().raw(b"IHAVEOPT").u32(number).u32(data.0.len() as u32).raw(&data.0)
}

/// A reply to an option.
pub fn option_reply(option: u32, kind: u32, data: &Bytes) -> Bytes {
    bytes().u64(0x0003_e889_0455_65a9).u32(option).u32(kind).u32(data.0.len() as u32).raw(&data.0)
}

/// A request, without a payload.
pub fn request(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> Bytes {
    bytes().u32(0x2560_9513).u16(flags).u16(kind).u64(cookie).u64(offset).u32(length)
}

pub fn simple(error: u32, cookie: u64) -> Bytes {
    bytes().u32(0x6744_6698).u32(error).u64(cookie)
}

pub fn chunk(flags: u16, kind: u16, cookie: u64, payload: &Bytes) -> Bytes {
    bytes().u32(0x668e_33ef).u16(flags).u16(kind).u64(cookie).u32(payload.0.len() as u32).raw(&payload.0)
}

/// An error chunk as the server makes it of a request that it refuses.
pub fn refused(cookie: u64, error: u32, text: &str) -> Bytes {
    chunk(1, 0x8001, cookie, &bytes().u32(error).u16(text.len() as u16).raw(text.as_bytes()))
}

/// An export that offers everything.
pub fn full(name: &str, size: u64) -> NbdExport {
    NbdExport {
        features: ExportFeatures {
            read_only: false,
            flush: true,
            fua: true,
            rotational: false,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
            cache: true,
        },
        contexts: vec!["base:allocation".to_owned(), "destage:dirty".to_owned(), "destage:member".to_owned()],
        ..NbdExport::new(name, size)
    }
}

pub fn exports(all: Vec<NbdExport>) -> Arc<ExportList> {
    Arc::new(ExportList::new(all, None).expect("exports that can be served"))
}

/// A server whose client has said which flags it has; what was sent before is dropped.
pub fn greeted(all: Vec<NbdExport>, flags: u32) -> NbdServer {
    let mut server = NbdServer::new(exports(all));
    sent(&mut server);
    assert_eq!(server.receive(&mut &flags.to_be_bytes()[..]), Ok(ServerEvent::More));
    server
}

/// A server in transmission over its first export, with what was asked for before.
pub fn transmitting(export: NbdExport, structured: bool, contexts: &[&str]) -> NbdServer {
    let name = export.name.clone();
    let mut server = greeted(vec![export], 3);
    if structured {
        feed(&mut server, &option(8, &bytes()));
    }
    if !contexts.is_empty() {
        let queries = bytes().string(&name).u32(contexts.len() as u32);
        feed(&mut server, &option(10, &contexts.iter().fold(queries, |all, context| all.string(context))));
    }
    let input = option(7, &bytes().string(&name).u16(0));
    let mut input = &input.0[..];
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::Started));
    assert!(input.is_empty());
    sent(&mut server);
    server
}

/// Returns the bytes to be sent, and counts them as sent.
pub fn sent(server: &mut NbdServer) -> Bytes {
    let output = Bytes(server.output().to_vec());
    server.sent(output.0.len());
    output
}

/// Hands a message over, after which more is expected; says what is sent.
pub fn feed(server: &mut NbdServer, message: &Bytes) -> Bytes {
    let mut input = &message.0[..];
    assert_eq!(server.receive(&mut input), Ok(ServerEvent::More), "{message:x?}");
    assert!(input.is_empty());
    sent(server)
}

/// Hands over a message that is a valid request, and gives that.
pub fn accepted(server: &mut NbdServer, message: &Bytes) -> NbdRequest {
    let mut input = &message.0[..];
    let Ok(ServerEvent::Request(request)) = server.receive(&mut input) else { panic!("{message:x?} is refused") };
    assert!(input.is_empty() && server.output().is_empty());
    request
}

/// Hands over a message for which the server hangs up, now and ever after.
pub fn hangs_up(server: &mut NbdServer, message: &Bytes) -> HangUp {
    let mut input = &message.0[..];
    let error = server.receive(&mut input).expect_err("it hangs up");
    assert_eq!(server.receive(&mut &[1, 2, 3][..]), Err(error.clone()));
    assert!(server.output().is_empty());
    error
}
