//! The client here, over sockets.

use std::io::{self, Read, Write};

use destage_nbd::client::blocking::{BlockingConnection, ClientError, ExportRequest};
use destage_nbd::client::{OptionAnswer, OptionRequest};
use destage_nbd::{Errno, NbdCommand, StatusExtent};

use super::Served;
use super::disk::BLOCK;

/// Writes, zeroes, trims and reads again what is there, the same way over any server: it has 8 MiB
/// and can do all this.
pub fn exercise<S: Read + Write>(connection: &mut BlockingConnection<S>) {
    let bytes: Vec<u8> = (0..300_000).map(|at| (at % 253) as u8).collect();
    connection.write(4096, &bytes, false).expect("a write");
    connection.write(1 << 20, &bytes[..512], true).expect("a write that is durable");
    let mut expected = vec![0; 2 << 20];
    expected[4096..4096 + bytes.len()].copy_from_slice(&bytes);
    expected[1 << 20..][..512].copy_from_slice(&bytes[..512]);
    let zeroes = NbdCommand::WriteZeroes { no_hole: true, fast: false };
    connection.tell(zeroes, false, 8192, 10 * 4096).expect("zeroes");
    expected[8192..][..10 * 4096].fill(0);
    let zeroes = NbdCommand::WriteZeroes { no_hole: false, fast: false };
    connection.tell(zeroes, true, 90_112, 4096).expect("zeroes");
    expected[90_112..][..4096].fill(0);
    connection.flush().expect("a flush");
    let mut read = vec![0xee; expected.len()];
    connection.read(0, &mut read).expect("a read");
    assert!(read == expected, "what was written is read");
    let mut read = vec![0xee; 1536];
    connection.read(8192 - 512, &mut read).expect("a read");
    assert_eq!(read, expected[8192 - 512..][..1536]);
    connection.tell(NbdCommand::Trim, false, 1 << 20, 4096).expect("a trim");
}

/// A stream of which every other read is interrupted.
struct Interrupted<S>(S, bool);

impl<S: Read> Read for Interrupted<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(bytes) }
    }
}

impl<S: Write> Write for Interrupted<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn who_is_interrupted_waits_on() {
    let served = Served::new();
    let stream = Interrupted(served.unix(), false);
    exercise(&mut BlockingConnection::begin(stream, &ExportRequest::default()).expect("a transmission"));
}

#[test]
fn disks_in_memory_are_used_in_all_ways() {
    let served = Served::new();
    for structured in [true, false] {
        let wanted = ExportRequest { structured, ..ExportRequest::default() };
        let mut unix = BlockingConnection::begin(served.unix(), &wanted).expect("a transmission");
        exercise(&mut unix);
        unix.tell(NbdCommand::Cache, false, 0, 8 << 20).expect("a request to cache");
        unix.goodbye().expect("an end");
        exercise(&mut BlockingConnection::begin(served.tcp(), &wanted).expect("a transmission"));
    }
}

#[test]
fn exports_are_listed_and_asked_about() {
    let served = Served::new();
    let mut connection = BlockingConnection::greet(served.unix()).expect("a server");
    let Ok(Some(OptionAnswer::Exports(all))) = connection.ask(&OptionRequest::List) else { panic!("a list") };
    let names: Vec<_> = all.iter().map(|(name, what)| (&**name, &**what)).collect();
    assert_eq!(names, [("disk", "in memory"), ("sectors", "in memory"), ("frozen", "in memory")]);
    let Ok(Some(OptionAnswer::Export(export))) = connection.ask(&OptionRequest::Info("frozen", &[1, 2, 3])) else {
        panic!("one")
    };
    assert_eq!((export.size, export.description.as_deref()), (8 << 20, Some("in memory")));
    let refused = connection.ask(&OptionRequest::Info("none", &[]));
    assert!(matches!(refused, Err(ClientError::Refused { kind: 0x8000_0006, .. })), "{refused:?}");
    assert!(matches!(connection.ask(&OptionRequest::Abort), Ok(Some(OptionAnswer::Done))));
}

#[test]
fn contexts_tell_what_is_allocated_and_dirty() {
    let served = Served::new();
    let contexts = &["base:allocation", "destage:dirty"];
    let wanted = ExportRequest { export: "disk", structured: true, contexts };
    let mut one = BlockingConnection::begin(served.unix(), &wanted).expect("a transmission");
    let mut other = BlockingConnection::begin(served.tcp(), &wanted).expect("a transmission");
    one.write(BLOCK as u64, &[1; 2 * BLOCK], false).expect("a write");
    let extent = |blocks: u64, flags| StatusExtent { length: blocks * BLOCK as u64, flags };
    let told = other.status(0, 4 * BLOCK as u32, false).expect("a block status");
    let expected = [(1, extent(1, 3)), (1, extent(2, 0)), (1, extent(1, 3))];
    let dirty = [(2, extent(1, 0)), (2, extent(2, 1)), (2, extent(1, 0))];
    assert_eq!(told, [expected, dirty].concat());
    // A flush over one connection is one for the other.
    other.flush().expect("a flush");
    let told = one.status(BLOCK as u64, BLOCK as u32, true).expect("a block status");
    assert_eq!(told, [(1, extent(1, 0)), (2, extent(1, 0))]);
}

#[test]
fn errors_are_told_with_their_reasons() {
    let served = Served::new();
    let wanted = ExportRequest { export: "disk", structured: true, contexts: &[] };
    let mut connection = BlockingConnection::begin(served.unix(), &wanted).expect("a transmission");
    let fast = NbdCommand::WriteZeroes { no_hole: true, fast: true };
    let failed = connection.tell(fast, false, 0, 4096);
    let Err(ClientError::Failed { errno: Errno::NotSup, text }) = failed else { panic!("{failed:?}") };
    assert_eq!(text, "blocks would have to be allocated");
    // The connection goes on.
    exercise(&mut connection);
}
