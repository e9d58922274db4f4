//! LRU over pages (specs §4.1).
//!
//! Idea: one list from most to least recently used; a hit moves the page to the front, the last page leaves. A clean
//! page leaves at no cost, a dirty one is written.
//!
//! Resolved: reads are cached by default, as in every read-write buffer of the papers; `reads=bypass` makes a write
//! buffer, in which a read hit still counts as a use.

use destage_plan::PageNo;

use super::{
    Access, Buffer, BufferConfig, Candidate, DeviceView, EvictionUnit, Evictions, Exhausted, Kind, Notice, Outcome,
    ParamSpec, Params, PolicyError, PolicyInfo, Registered, Veto,
};

/// The parameter of the page-level policies that decides about read misses.
pub(super) const READS: ParamSpec = ParamSpec {
    name: "reads",
    default: "cache",
    values: "cache, bypass",
    unit: "-",
    help: "whether a read miss enters the buffer",
};

/// Reads the parameter [`READS`].
pub(super) fn caches_reads(params: &Params) -> Result<bool, PolicyError> {
    params.choice(READS.name, &[("cache", true), ("bypass", false)])
}

/// A frame and its neighbours in the recency list; frame 0 is the list's sentinel.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    prev: u32,
    next: u32,
    page: u32,
    dirty: bool,
}

/// Least recently used.
#[derive(Clone, Debug)]
pub struct Lru {
    /// Page → frame, 0 where the page is not held.
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    /// Frames given back by a trim.
    free: Vec<u32>,
    capacity: u32,
    len: u32,
    cache_reads: bool,
    memory_accesses: u64,
}

impl Registered for Lru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lru",
        title: "least recently used page",
        paper: "baseline of GCaR and CAWR",
        unit: EvictionUnit::Page,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            frame_of: Vec::new(),
            frames: vec![Frame::default()],
            free: Vec::new(),
            capacity: config.capacity_pages,
            len: 0,
            cache_reads: caches_reads(params)?,
            memory_accesses: 0,
        })
    }
}

impl Lru {
    #[inline]
    fn unlink(&mut self, frame: u32) {
        let Frame { prev, next, .. } = self.frames[frame as usize];
        self.frames[prev as usize].next = next;
        self.frames[next as usize].prev = prev;
    }

    #[inline]
    fn link_front(&mut self, frame: u32) {
        let first = self.frames[0].next;
        self.frames[0].next = frame;
        self.frames[first as usize].prev = frame;
        let own = &mut self.frames[frame as usize];
        own.prev = 0;
        own.next = first;
    }

    /// The frame to give up, or `None` if every page is vetoed and the access shall bypass.
    #[inline]
    fn victim<V: Veto>(&self, veto: &mut V) -> Option<u32> {
        let last = self.frames[0].prev;
        if !V::ACTIVE {
            return Some(last);
        }
        let mut frame = last;
        while frame != 0 {
            if !veto.passes_over(Candidate::Page(PageNo(self.frames[frame as usize].page))) {
                return Some(frame);
            }
            frame = self.frames[frame as usize].prev;
        }
        match veto.exhausted() {
            Exhausted::TakeBase => Some(last),
            Exhausted::Bypass => None,
        }
    }

    /// Takes the page of `frame` out and leaves the frame unlinked.
    #[inline]
    fn evict(&mut self, frame: u32, out: &mut Evictions) {
        self.unlink(frame);
        let Frame { page, dirty, .. } = self.frames[frame as usize];
        self.frame_of[page as usize] = 0;
        out.page(if dirty { Kind::Flush } else { Kind::Drop }, PageNo(page));
    }
}

impl Buffer for Lru {
    fn grow(&mut self, pages: u32) {
        self.frame_of.resize(self.frame_of.len().max(pages as usize), 0);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> Outcome {
        let page = access.page;
        let frame = self.frame_of[page.index()];
        if frame != 0 {
            self.memory_accesses += 2;
            self.frames[frame as usize].dirty |= access.write;
            if self.frames[0].next != frame {
                self.unlink(frame);
                self.link_front(frame);
            }
            return Outcome::Hit;
        }
        self.memory_accesses += 1;
        if !access.write && !self.cache_reads {
            return Outcome::Bypassed;
        }
        let frame = if self.len < self.capacity {
            self.len += 1;
            self.free.pop().unwrap_or_else(|| {
                self.frames.push(Frame::default());
                (self.frames.len() - 1) as u32
            })
        } else {
            let Some(frame) = self.victim(veto) else { return Outcome::Bypassed };
            self.memory_accesses += 1;
            self.evict(frame, out);
            frame
        };
        self.memory_accesses += 1;
        self.frame_of[page.index()] = frame;
        let own = &mut self.frames[frame as usize];
        own.page = page.0;
        own.dirty = access.write;
        self.link_front(frame);
        Outcome::Inserted
    }

    fn notify<D: DeviceView, V: Veto>(&mut self, notice: Notice, _device: &D, _veto: &mut V, out: &mut Evictions) {
        match notice {
            Notice::GcEnd { .. } | Notice::Idle => {}
            Notice::Flush => {
                let mut frame = self.frames[0].prev;
                while frame != 0 {
                    let own = &mut self.frames[frame as usize];
                    if own.dirty {
                        own.dirty = false;
                        out.page(Kind::Clean, PageNo(own.page));
                    }
                    frame = own.prev;
                }
            }
            Notice::Trim { page } => {
                let frame = self.frame_of[page.index()];
                if frame != 0 {
                    self.frames[frame as usize].dirty = false;
                    self.evict(frame, out);
                    self.free.push(frame);
                    self.len -= 1;
                }
            }
        }
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
