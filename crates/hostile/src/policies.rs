//! Any requests at all, through the page space into every buffer.
//!
//! The page space gives runs below the number of pages that it names, in the order of time. A
//! buffer's answers agree with the set of pages that they imply: a hit is a page that is held, what
//! leaves was held, what is flushed was dirty, what is read for padding was not held, and never is
//! more held than fits.

use std::collections::{BTreeMap, BTreeSet};

use destage_plan::{Op, PageGeometry, PageNo, PolicySpec};
use destage_policy::buffer::{
    AccessOutcome, BlockBorder, BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, EvictionKind, Evictions,
    NoDevice, NoVeto, PageAccess, PolicyVisitor, build, policies,
};
use destage_sim::input::{FeedBuilder, LbaOverflow, PageSpace, PlaySpeed, RequestFeed, TraceOps, VolumeSelection};
use destage_trace::TraceStat;

use crate::bytes::Bytes;

/// Requests of an input at most.
const MOST: usize = 256;
/// Pages of a request at most, unless it has so many that it is refused; and page accesses of all
/// of them.
const MOST_REQUEST_PAGES: u64 = 256;
const REFUSED_PAGES: u64 = (1 << 22) + 1;
const MOST_ACCESSES: u32 = 2048;
/// Pages of the space at most: buffers keep a little for each.
const MOST_PAGES: u32 = 1 << 14;

/// Feeds the requests to the statistics, to the page space, and from there to one of the buffers.
pub(crate) fn check(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let policy = &policies()[usize::from(bytes.u8()) % policies().len()];
    let geometry = PageGeometry::new(bytes.choice(&[4096, 512, 1 << 20]), bytes.choice(&[1, 2, 3, 4, 8, 64, 100]));
    // Block sizes that are no powers of two are legal, and divide on another path.
    let geometry = geometry.expect("sizes that there are");
    let pages_per_block = geometry.pages_per_block();
    let device_pages = pages_per_block * (u32::from(bytes.u8()) + 1);
    let space = match bytes.u8() % 4 {
        0 => PageSpace::bounded(geometry, device_pages, LbaOverflow::Wrap),
        1 => PageSpace::bounded(geometry, device_pages, LbaOverflow::Filter),
        2 => PageSpace::bounded(geometry, device_pages, LbaOverflow::Compact),
        _ => PageSpace::unbounded(geometry, u32::MAX),
    };
    let ops = bytes.choice(&[TraceOps::All, TraceOps::Writes]);
    let volumes = match bytes.choice(&["each", "merge", "#1"]) {
        "each" => VolumeSelection::Each,
        "merge" => VolumeSelection::Merge,
        choice => VolumeSelection::Only(choice.parse().expect("a choice")),
    };
    let speed = PlaySpeed { times: bytes.u16().max(1).into(), per: bytes.u16().max(1).into() };
    let capacity_pages = u32::from(bytes.u8() % 64) + 1;
    let mut requests = bytes.requests(MOST);
    for request in &mut requests {
        if request.len < REFUSED_PAGES * geometry.page_bytes() {
            request.len = request.len.min(MOST_REQUEST_PAGES * geometry.page_bytes());
        }
    }

    let mut stat = TraceStat::new(geometry);
    stat.feed(&requests);
    let summary = stat.finish();
    assert_eq!(summary.requests, requests.len() as u64);
    assert!(summary.unique_pages >= summary.unique_pages_read.max(summary.unique_pages_written));

    let spec = PolicySpec { name: policy.name.into(), given: Vec::new() };
    let config = BufferConfig { capacity_pages, pages_per_block, elements: 1 };
    let mut buffer = build(&spec, config, Modelled { capacity_pages }).expect("the defaults can be built");
    let mut feeder = FeedBuilder::new(space, ops, volumes, speed).keep_borders();
    let mut feed = RequestFeed::default();
    let mut latest = destage_plan::Nanos::ZERO;
    let mut left = MOST_ACCESSES;
    // Each block has at most two neighbours, so a side that comes twice is an error.
    let (mut borders, mut noted) = (BTreeSet::new(), 0);
    for request in &requests {
        feed.clear();
        match feeder.append(std::slice::from_ref(request), usize::MAX, &mut feed) {
            Ok(taken) => assert_eq!(taken, 1),
            Err(_) => return,
        }
        // Buffers keep a little for each page, so the space is bounded rather than the requests.
        if feed.pages > MOST_PAGES {
            return;
        }
        buffer.grow(feed.pages);
        if let Some(found) = &feed.borders {
            let blocks = feed.pages / pages_per_block;
            assert!(found.iter().all(|border| border.before != border.after), "{found:?}");
            assert!(found.iter().all(|border| border.before < blocks && border.after < blocks), "{found:?}");
            borders.extend(found.iter().flat_map(|border| [(border.before, true), (border.after, false)]));
            noted += 2 * found.len();
            assert_eq!(borders.len(), noted, "a block has two neighbours on a side");
            buffer.learn_borders(found);
        }
        assert_eq!(feed.requests.last().map_or(0, |last| last.spans_end as usize), feed.spans.len());
        for request in &feed.requests {
            assert!(request.time >= latest, "{} after {latest}", request.time);
            latest = request.time;
            if request.op == Op::Flush {
                buffer.notify(BufferNotice::Flush);
            }
            for span in &feed.spans {
                assert!(
                    span.pages > 0 && u64::from(span.page) + u64::from(span.pages) <= u64::from(feed.pages),
                    "{span:?}"
                );
                for page in (span.page..span.page + span.pages).map(PageNo) {
                    match request.op {
                        Op::Read => buffer.access(PageAccess { page, write: false }),
                        Op::Write => buffer.access(PageAccess { page, write: true }),
                        Op::Discard => buffer.notify(BufferNotice::Trim { page }),
                        Op::Flush => panic!("a flush has pages: {span:?}"),
                    }
                    left -= 1;
                    if left == 0 {
                        return;
                    }
                }
            }
        }
    }
    buffer.notify(BufferNotice::Flush);
    let counts = feeder.counts();
    assert_eq!(counts.read, requests.len() as u64);
    assert!(counts.left_out + counts.reversed <= counts.read);
}

/// A buffer beside the set of pages that its answers imply.
trait Checked {
    fn grow(&mut self, pages: u32);
    fn learn_borders(&mut self, borders: &[BlockBorder]);
    fn access(&mut self, access: PageAccess);
    fn notify(&mut self, notice: BufferNotice);
}

struct Modelled {
    capacity_pages: u32,
}

impl PolicyVisitor for Modelled {
    type Out = Box<dyn Checked>;

    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, _: BuiltPolicy) -> Self::Out {
        Box::new(Beside {
            buffer,
            capacity_pages: self.capacity_pages,
            held: BTreeMap::new(),
            out: Evictions::default(),
            memory_accesses: 0,
        })
    }
}

struct Beside<B> {
    buffer: B,
    capacity_pages: u32,
    /// The pages held, and whether each is dirty.
    held: BTreeMap<PageNo, bool>,
    out: Evictions,
    memory_accesses: u64,
}

impl<B: BufferPolicy> Beside<B> {
    /// Takes what left out of the set.
    fn leave(&mut self) {
        let mut padding = false;
        for (group, pages) in self.out.groups() {
            assert_eq!(group.len() as usize, pages.len());
            assert!(!pages.is_empty(), "an empty group");
            assert!(!padding || group.kind == EvictionKind::Flush, "padding without a flush that follows");
            padding = group.kind == EvictionKind::Pad;
            for page in pages {
                match group.kind {
                    EvictionKind::Flush => assert_eq!(self.held.remove(page), Some(true), "flushed: {page:?}"),
                    EvictionKind::Drop => assert!(self.held.remove(page).is_some(), "dropped: {page:?}"),
                    // A page may be cleaned only if it was dirty: writing a clean one would wear out the device for
                    // nothing.
                    EvictionKind::Clean => assert_eq!(self.held.insert(*page, false), Some(true), "cleaned: {page:?}"),
                    EvictionKind::Pad => assert!(!self.held.contains_key(page), "read for padding: {page:?}"),
                }
            }
        }
        // Padding is read to write a whole block, and serves nothing else.
        assert!(!padding, "padding without a flush that follows");
        self.out.clear();
    }

    fn agree(&mut self) {
        assert_eq!(self.buffer.len() as usize, self.held.len(), "pages held");
        assert!(self.buffer.len() <= self.capacity_pages, "{} pages in {}", self.buffer.len(), self.capacity_pages);
        // The count is compared between policies, so it must only grow.
        assert!(self.buffer.memory_accesses() >= self.memory_accesses, "memory accesses become fewer");
        self.memory_accesses = self.buffer.memory_accesses();
    }
}

impl<B: BufferPolicy> Checked for Beside<B> {
    fn grow(&mut self, pages: u32) {
        self.buffer.grow(pages);
    }

    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        self.buffer.learn_borders(borders);
    }

    fn access(&mut self, access: PageAccess) {
        // Asked before the access, which may evict the page.
        let was_held = self.held.contains_key(&access.page);
        let outcome = self.buffer.access(access, &NoDevice, &mut NoVeto, &mut self.out);
        self.leave();
        assert_eq!(outcome == AccessOutcome::Hit, was_held, "{access:?}: {outcome:?}");
        match outcome {
            AccessOutcome::Hit => {
                let dirty = self.held.get_mut(&access.page).expect("a hit does not evict its page");
                *dirty |= access.write;
            }
            AccessOutcome::Inserted => assert_eq!(self.held.insert(access.page, access.write), None),
            AccessOutcome::Bypassed => {}
        }
        self.agree();
    }

    fn notify(&mut self, notice: BufferNotice) {
        self.buffer.notify(notice, &NoDevice, &mut NoVeto, &mut self.out);
        self.leave();
        match notice {
            BufferNotice::Flush => assert!(self.held.values().all(|dirty| !dirty), "dirty after a flush"),
            BufferNotice::Trim { page } => assert!(!self.held.contains_key(&page), "held after a trim: {page:?}"),
            BufferNotice::Destage { page, .. } => {
                assert_ne!(self.held.get(&page), Some(&true), "dirty after it was destaged: {page:?}");
            }
            BufferNotice::Idle | BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } => {}
        }
        self.agree();
    }
}
