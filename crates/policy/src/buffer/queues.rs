//! Pages in several queues, for policies that remember pages which they no longer hold.
//!
//! The first queues hold pages. Those behind them hold *ghosts*: a ghost is a page's number and its
//! place in the queue, without data, and takes no room in the buffer. It keeps the frame that the
//! page had, so that one table finds both; the policy bounds how many there are.
//!
//! Pages that a veto passed over stay in their places (see [`Parked`]) until they are used, cleaned
//! or resumed.

use destage_plan::PageNo;

use super::page_lists::{ListFrame, PageLists};
use super::parking::LinkedList as _;
use super::searched::{PARKED, ParkedFrames, SearchedPart};
use super::{BufferNotice, EvictionKind, EvictionVeto, Evictions, WhenExhausted};

/// The bit of a frame's tag that says that a search under a veto need not look at it.
const MET: u16 = 2;

/// Places the policy's own number within a tag: its lowest bit, and the largest value.
const COUNT_AT: u32 = 2;
const MOST: u16 = 3;

/// Places the queue's number within a tag.
const QUEUE_AT: u32 = 8;

/// Says where a page is.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueuePlace {
    /// Held, in this frame.
    Held(u32),
    /// Remembered, in this frame.
    Ghost(u32),
    /// Neither.
    Nowhere,
}

/// `ALL` queues, of which the first `HELD` have pages that are held and the others have ghosts.
#[derive(Clone, Debug)]
pub(super) struct PageQueues<const HELD: usize, const ALL: usize> {
    pages: PageLists,
    lens: [u32; ALL],
    held: u32,
    /// The oldest pages of each queue, of which all are parked.
    met: [SearchedPart; HELD],
    parked: ParkedFrames,
    /// Memory accesses of the published algorithm.
    pub(super) memory_accesses: u64,
}

impl<const HELD: usize, const ALL: usize> PageQueues<HELD, ALL> {
    pub(super) fn new() -> Self {
        Self {
            pages: PageLists::new(ALL as u32),
            lens: [0; ALL],
            held: 0,
            met: std::array::from_fn(|queue| SearchedPart::new(queue as u32, MET)),
            parked: ParkedFrames::default(),
            memory_accesses: 0,
        }
    }

    /// Makes room for the pages `0..pages`.
    pub(super) fn grow(&mut self, pages: u32) {
        self.pages.grow(pages);
    }

    /// See [`BufferPolicy::prefetch`](super::Buffer::prefetch).
    #[inline]
    pub(super) fn prefetch(&self, page: PageNo) -> u32 {
        self.pages.prefetch(page)
    }

    #[inline]
    pub(super) fn find(&self, page: PageNo) -> QueuePlace {
        match self.pages.find(page) {
            0 => QueuePlace::Nowhere,
            frame if (self.queue_of(frame) as usize) < HELD => QueuePlace::Held(frame),
            frame => QueuePlace::Ghost(frame),
        }
    }

    #[inline]
    pub(super) fn is_held(&self, page: PageNo) -> bool {
        matches!(self.find(page), QueuePlace::Held(_))
    }

    /// The queue that a frame is in.
    #[inline]
    pub(super) fn queue_of(&self, frame: u32) -> u32 {
        u32::from(self.pages.frame(frame).tag >> QUEUE_AT)
    }

    #[inline]
    pub(super) fn frame(&self, frame: u32) -> &ListFrame {
        self.pages.frame(frame)
    }

    /// Pages or ghosts in a queue.
    #[inline]
    pub(super) fn len(&self, queue: u32) -> u32 {
        self.lens[queue as usize]
    }

    /// Pages held.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// The oldest frame of a queue.
    #[inline]
    pub(super) fn oldest(&self, queue: u32) -> Option<u32> {
        Some(self.pages.prev(queue)).filter(|&frame| frame != queue)
    }

    /// The frame of a queue that came after this one.
    #[inline]
    pub(super) fn newer(&self, queue: u32, frame: u32) -> Option<u32> {
        Some(self.pages.prev(frame)).filter(|&frame| frame != queue)
    }

    /// The frames of a queue from the oldest on.
    #[inline]
    pub(super) fn oldest_first(&self, queue: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.oldest(queue), move |&frame| self.newer(queue, frame))
    }

    /// The pages of some queues, one after the other, from the oldest on.
    #[inline]
    pub(super) fn pages(&self, queues: impl IntoIterator<Item = u32>) -> impl Iterator<Item = PageNo> {
        queues.into_iter().flat_map(|queue| self.oldest_first(queue)).map(|frame| self.frame(frame).page())
    }

    /// The number kept with the page of a frame: 0 when it comes in.
    #[inline]
    pub(super) fn count(&self, frame: u32) -> u16 {
        self.pages.frame(frame).tag >> COUNT_AT & MOST
    }

    /// Keeps another number, up to 3, with the page of a frame.
    #[inline]
    pub(super) fn set_count(&mut self, frame: u32, count: u16) {
        let tag = &mut self.pages.frame_mut(frame).tag;
        *tag = *tag & !(MOST << COUNT_AT) | count << COUNT_AT;
    }

    /// Lets a page in that is nowhere, as the newest of a queue.
    #[inline]
    pub(super) fn insert(&mut self, queue: u32, page: PageNo, dirty: bool) {
        let frame = self.pages.insert(queue, page, dirty);
        self.count_in(queue, frame);
    }

    /// Makes a frame the newest of a queue, wherever it was.
    #[inline]
    pub(super) fn put(&mut self, queue: u32, frame: u32) {
        self.count_out(frame);
        self.pages.move_to_front(queue, frame);
        self.count_in(queue, frame);
    }

    /// The page of a frame is used; it becomes dirty by a write.
    #[inline]
    pub(super) fn soil(&mut self, frame: u32, write: bool) {
        self.pages.frame_mut(frame).dirty |= write;
    }

    #[inline]
    fn count_in(&mut self, queue: u32, frame: u32) {
        let tag = &mut self.pages.frame_mut(frame).tag;
        // The queue stands in the tag itself, so that a frame tells it without a search of the lists.
        *tag = *tag & ((1 << QUEUE_AT) - 1) | (queue as u16) << QUEUE_AT;
        self.lens[queue as usize] += 1;
        self.held += u32::from((queue as usize) < HELD);
    }

    /// The frame is about to leave its queue.
    #[inline]
    fn count_out(&mut self, frame: u32) {
        let queue = self.queue_of(frame) as usize;
        // Frames leave the searched part before they move: a part is a tail of its queue without gaps.
        if self.pages.frame(frame).tag & (PARKED | MET) != 0 {
            self.met[queue].remove(&mut self.pages, frame);
            self.parked.forget(&mut self.pages, frame);
        }
        self.lens[queue] -= 1;
        self.held -= u32::from(queue < HELD);
    }

    /// Takes the page of a frame out as a victim; it becomes the newest ghost of a queue, or is
    /// forgotten.
    #[inline]
    pub(super) fn give_up(&mut self, frame: u32, ghosts: Option<u32>, out: &mut Evictions) {
        let own = self.pages.frame_mut(frame);
        // A ghost has no data, so that its frame is clean from here on.
        let kind = if std::mem::take(&mut own.dirty) { EvictionKind::Flush } else { EvictionKind::Drop };
        out.page(kind, own.page());
        match ghosts {
            Some(queue) => self.put(queue, frame),
            None => self.forget(frame),
        }
    }

    /// Forgets a frame's page or ghost.
    #[inline]
    pub(super) fn forget(&mut self, frame: u32) {
        self.count_out(frame);
        self.pages.remove(frame);
    }

    /// Forgets the oldest ghosts of a queue until there are at most so many, a memory access each.
    #[inline]
    pub(super) fn shorten(&mut self, queue: u32, most: u32) {
        while self.len(queue) > most
            && let Some(frame) = self.oldest(queue)
        {
            self.forget(frame);
            self.memory_accesses += 1;
        }
    }

    /// The page of a frame was used in its place, or is clean now: what a veto said of it holds no
    /// longer.
    #[inline]
    pub(super) fn reconsider(&mut self, frame: u32) {
        if self.pages.frame(frame).tag & PARKED != 0 {
            let queue = self.queue_of(frame) as usize;
            self.parked.forget(&mut self.pages, frame);
            self.met[queue].retreat(&mut self.pages, frame);
        }
    }

    /// The frame to give up: of the first of some queues that has one the oldest page that the veto
    /// does not pass over; if there is none the oldest page of the first queue that has any, or
    /// `None` if then nothing shall leave, or none is held.
    #[inline]
    pub(super) fn victim<V: EvictionVeto>(&mut self, order: [u32; HELD], veto: &mut V) -> Option<u32> {
        if V::ACTIVE {
            for queue in order {
                let met = &mut self.met[queue as usize];
                while let Some(frame) = met.next(&self.pages) {
                    if self.parked.lets_leave(&mut self.pages, frame, veto) {
                        return Some(frame);
                    }
                    met.add(&mut self.pages, frame);
                }
            }
            if self.held == 0 || veto.exhausted() == WhenExhausted::Bypass {
                return None;
            }
        }
        // Where all pages are vetoed the published order stands, as it does without a veto.
        order.into_iter().find_map(|queue| self.oldest(queue))
    }

    /// Takes a notice. Returns the frame of a page that shall leave as in an eviction.
    pub(super) fn notify(&mut self, notice: BufferNotice, out: &mut Evictions) -> Option<u32> {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => {
                while let Some(frame) = self.parked.resume(&mut self.pages, element) {
                    let queue = self.queue_of(frame) as usize;
                    self.met[queue].retreat(&mut self.pages, frame);
                }
            }
            BufferNotice::Destage { page, keep } => {
                let frame = self.pages.dirty_frame(page)?;
                if !keep {
                    return Some(frame);
                }
                self.pages.clean(frame, out);
                self.reconsider(frame);
            }
            BufferNotice::Flush => {
                for queue in 0..HELD as u32 {
                    let mut at = queue;
                    while let Some((frame, page)) = self.pages.next_cleaned(queue, at) {
                        out.page(EvictionKind::Clean, page);
                        self.reconsider(frame);
                        at = frame;
                    }
                }
            }
            BufferNotice::Trim { page } => match self.find(page) {
                QueuePlace::Held(frame) => {
                    // What is trimmed is dropped and never written.
                    self.pages.frame_mut(frame).dirty = false;
                    self.give_up(frame, None, out);
                }
                QueuePlace::Ghost(frame) => self.forget(frame),
                QueuePlace::Nowhere => {}
            },
        }
        None
    }
}
