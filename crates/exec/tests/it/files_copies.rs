//! Counts the copies between host and devices: no page that is written or read is copied.

use std::fs;

use destage_cache::ServedTier;
use destage_exec::{AlignedBuffer, FileExecutor, IoBackend};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ExpectedContent, folder};

use crate::arrays::{Array, assert_holds, cache, member};

backend_tests! {
    a_page_that_is_written_or_read_is_not_copied,
    what_enters_the_nvram_is_copied_twice,
    what_a_cache_keeps_of_a_long_read_is_copied_once,
}

const PAGE: u64 = 4096;

fn array(io: IoBackend, cache_name: &str) -> Array {
    let array = Array { page: PAGE, sector: 512, chunk: 4, depth: 8, ..Array::over(io, RaidLevel::Raid5, 5) };
    Array { cache: cache(cache_name), ..array }
}

/// Pages are written or read, one request after the other, in the buffer that the one before gave
/// back; bytes that were copied.
fn copied(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    content: &mut ExpectedContent,
    op: HostOp,
    pages: u64,
    count: u64,
) -> u64 {
    let before = files.copied();
    let len = pages * PAGE;
    let mut buffer = AlignedBuffer::new();
    for tag in 0..count {
        // Begins in the middle of a chunk.
        let request = HostRequest { tag, op, offset: (tag * 8 + 2) * PAGE, len, fua: false };
        if op == HostOp::Write {
            buffer.resize(len as usize);
            buffer.fill(tag as u8 + 1);
            content.apply(&request, &buffer);
        }
        files.submit(request, buffer).expect("in range");
        let completion = files.wait().expect("it is served").expect("it is under way");
        assert!(completion.ok);
        assert_eq!(completion.bytes.as_ptr().addr() % AlignedBuffer::ALIGN, 0);
        if op == HostOp::Read {
            assert!(completion.bytes == content.of(&request), "{request:?}");
        }
        buffer = completion.bytes;
    }
    files.copied() - before
}

fn a_page_that_is_written_or_read_is_not_copied(io: IoBackend) {
    let folder = folder();
    let array = array(io, "none");
    let mut files = array.create(folder.path());
    let mut content = ExpectedContent::new(array.sizes());
    for (op, pages) in [(HostOp::Write, 1), (HostOp::Read, 1), (HostOp::Write, 2), (HostOp::Read, 2)] {
        assert_eq!(copied(&mut files, &mut content, op, pages, 20), 0, "{op:?} of {pages} pages in one chunk");
    }
    // Several members write from one buffer.
    assert_eq!(copied(&mut files, &mut content, HostOp::Write, 16, 10), 0, "16 pages in 5 chunks");
    // Several members cannot read into one: each part is copied into its place.
    assert_eq!(copied(&mut files, &mut content, HostOp::Read, 16, 10), 10 * 16 * PAGE, "16 pages in 5 chunks");
    assert_holds(&mut files, &content, "after all");
    // Without a member: what the parity gives is computed where it is wanted, from what is handed over.
    drop(files.stop_clean().expect("it stops"));
    fs::remove_file(member(folder.path(), 1)).expect("the file is there");
    let mut files = array.open(folder.path());
    files.wait_ready().expect("it starts");
    assert!(!files.answers(Dev(1)));
    assert_eq!(copied(&mut files, &mut content, HostOp::Read, 1, 20), 0, "a page of any member");
}

fn what_enters_the_nvram_is_copied_twice(io: IoBackend) {
    let folder = folder();
    let array = array(io, "wow");
    let mut files = array.create(folder.path());
    let mut content = ExpectedContent::new(array.sizes());
    // To the thread that writes the file of the NVRAM, and to what the executor knows of it. Where the machine is slow it
    // is written back meanwhile, from a copy.
    let copied = copied(&mut files, &mut content, HostOp::Write, 1, 1);
    let is_written_back = files.traffic().any(|traffic| traffic.writes > 0);
    assert_eq!(copied, (2 + u64::from(is_written_back)) * PAGE);
    assert_holds(&mut files, &content, "after all");
}

fn what_a_cache_keeps_of_a_long_read_is_copied_once(io: IoBackend) {
    for cache in ["write-through", "kdd", "leavo", "write-back"] {
        let (folder, array) = (folder(), array(io, cache));
        let mut files = array.create(folder.path());
        let mut content = ExpectedContent::new(array.sizes());
        // A page that enters the cache is in hand while others of the same read are still on their way.
        let pages = 192;
        // Before its log is ready a cache keeps nothing.
        files.wait_ready().expect("it starts");
        files.settle().expect("it comes to rest");
        let before = files.copied();
        copied(&mut files, &mut content, HostOp::Read, pages, 1);
        files.settle().expect("it comes to rest");
        assert!(files.traffic().last().expect("a cache").writes > 0, "{cache}: it keeps what is read");
        // From the members into the host's buffer, and from there to the cache, and what the cache notes of each.
        let copied = (files.copied() - before) / PAGE;
        assert!((pages..3 * pages).contains(&copied), "{cache}: {copied} of {pages} pages");
        assert_holds(&mut files, &content, cache);
    }
}
