//! The pages of a page-level policy: a frame for each, in doubly linked lists from most to least
//! recently used.

use destage_plan::PageNo;

use super::parking::LinkedList;
use super::{EvictionKind, Evictions};

/// A buffered page and its neighbours; the first frames are the lists' sentinels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListFrame {
    prev: u32,
    next: u32,
    pub(super) page: u32,
    /// Is true if the page must be written before it leaves.
    pub(super) dirty: bool,
    /// Is true if the page was not used since a scan saw it, where the policy has such a flag.
    pub(super) cold: bool,
    /// Holds the policy's own bits, such as the page's list.
    pub(super) tag: u16,
}

impl ListFrame {
    #[inline]
    pub(super) fn page(&self) -> PageNo {
        PageNo(self.page)
    }
}

/// Frames `0..lists` are the sentinels of the lists of the same number; `next(list)` is the most
/// recently used frame, `prev(list)` the least recently used one.
#[derive(Clone, Debug)]
pub(super) struct PageLists {
    /// Page → frame, 0 where the page is not held.
    frame_of: Vec<u32>,
    frames: Vec<ListFrame>,
    /// Frames given back.
    free: Vec<u32>,
    lists: u32,
}

impl PageLists {
    /// So many empty lists, at least one.
    pub(super) fn new(lists: u32) -> Self {
        let sentinel = |list| ListFrame { prev: list, next: list, ..ListFrame::default() };
        Self { frame_of: Vec::new(), frames: (0..lists).map(sentinel).collect(), free: Vec::new(), lists }
    }

    /// Makes room for the pages `0..pages`.
    pub(super) fn grow(&mut self, pages: u32) {
        self.frame_of.resize(self.frame_of.len().max(pages as usize), 0);
    }

    /// The frame that holds the page, or 0.
    #[inline]
    pub(super) fn find(&self, page: PageNo) -> u32 {
        self.frame_of[page.index()]
    }

    /// Reads ahead of use the frames that moving the page to the front of its list touches; see
    /// [`BufferPolicy::prefetch`](super::Buffer::prefetch).
    #[inline]
    pub(super) fn prefetch(&self, page: PageNo) -> u32 {
        let ListFrame { prev, next, .. } = self.frames[self.find(page) as usize];
        self.frames[prev as usize].next ^ self.frames[next as usize].prev
    }

    /// The pages of a list from the least recently used one on.
    #[inline]
    pub(super) fn oldest_first(&self, list: u32) -> impl Iterator<Item = PageNo> {
        let before = move |&frame: &u32| Some(self.prev(frame));
        let frames = std::iter::successors(Some(self.prev(list)), before).take_while(move |&frame| frame != list);
        frames.map(|frame| self.frame(frame).page())
    }

    /// Pages held, parked ones included.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        (self.frames.len() - self.free.len()) as u32 - self.lists
    }

    #[inline]
    pub(super) fn frame(&self, frame: u32) -> &ListFrame {
        &self.frames[frame as usize]
    }

    /// The frame, to change its flags.
    #[inline]
    pub(super) fn frame_mut(&mut self, frame: u32) -> &mut ListFrame {
        &mut self.frames[frame as usize]
    }

    /// The next less recently used frame, or the list's sentinel.
    #[inline]
    pub(super) fn next(&self, frame: u32) -> u32 {
        self.frames[frame as usize].next
    }

    /// Returns the least recently used frame of a list.
    #[inline]
    pub(super) fn least_recent(&self, list: u32) -> Option<u32> {
        Some(self.prev(list)).filter(|&frame| frame != list)
    }

    /// Lets a page in, at the most recently used end of a list; returns its frame.
    #[inline(always)]
    pub(super) fn insert(&mut self, list: u32, page: PageNo, dirty: bool) -> u32 {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.frames.push(ListFrame::default());
            (self.frames.len() - 1) as u32
        });
        self.frame_of[page.index()] = frame;
        let own = &mut self.frames[frame as usize];
        own.page = page.0;
        own.dirty = dirty;
        own.cold = false;
        own.tag = 0;
        self.insert_after(list, frame);
        frame
    }

    /// Moves a frame to the most recently used end of a list.
    #[inline]
    pub(super) fn move_to_front(&mut self, list: u32, frame: u32) {
        self.unlink(frame);
        self.insert_after(list, frame);
    }

    /// Takes a frame out of its list; it stays held, alone.
    #[inline(always)]
    pub(super) fn unlink(&mut self, frame: u32) {
        let own = &mut self.frames[frame as usize];
        let (prev, next) = (own.prev, own.next);
        own.prev = frame;
        own.next = frame;
        self.frames[prev as usize].next = next;
        self.frames[next as usize].prev = prev;
    }

    /// Gives up the page of a frame; returns what it was.
    #[inline(always)]
    pub(super) fn remove(&mut self, frame: u32) -> ListFrame {
        self.unlink(frame);
        let own = self.frames[frame as usize];
        self.frame_of[own.page as usize] = 0;
        self.free.push(frame);
        own
    }
}

/// Writes back and forgets pages alike for all policies.
impl PageLists {
    /// The frame that holds the page, if it is dirty.
    pub(super) fn dirty_frame(&self, page: PageNo) -> Option<u32> {
        let frame = self.find(page);
        (frame != 0 && self.frame(frame).dirty).then_some(frame)
    }

    /// The frame that holds the page, whose content is no longer needed: it is not dirty any more.
    pub(super) fn trimmed_frame(&mut self, page: PageNo) -> Option<u32> {
        let frame = self.find(page);
        (frame != 0).then(|| {
            self.frame_mut(frame).dirty = false;
            frame
        })
    }

    /// Writes a frame's page, which stays as clean.
    pub(super) fn clean(&mut self, frame: u32, out: &mut Evictions) {
        let own = self.frame_mut(frame);
        own.dirty = false;
        out.page(EvictionKind::Clean, own.page());
    }

    /// Makes the dirty pages of a list clean, from the least recently used one on, and names them.
    pub(super) fn cleaned(&mut self, list: u32) -> impl Iterator<Item = PageNo> {
        let mut at = list;
        let next = move || {
            let (frame, page) = self.next_cleaned(list, at)?;
            at = frame;
            Some(page)
        };
        std::iter::from_fn(next).fuse()
    }

    /// The first dirty page of a list behind the frame `after` (the sentinel: from the least
    /// recently used one on), with its frame; it is clean from now on.
    pub(super) fn next_cleaned(&mut self, list: u32, after: u32) -> Option<(u32, PageNo)> {
        let mut frame = self.prev(after);
        while frame != list {
            let own = self.frame_mut(frame);
            if std::mem::take(&mut own.dirty) {
                return Some((frame, own.page()));
            }
            frame = self.prev(frame);
        }
        None
    }

    /// Takes a frame's page out as a victim: a dirty page is written, a clean one dropped.
    #[inline(always)]
    pub(super) fn give_up(&mut self, frame: u32, out: &mut Evictions) {
        let own = self.remove(frame);
        out.page(if own.dirty { EvictionKind::Flush } else { EvictionKind::Drop }, own.page());
    }
}

impl LinkedList for PageLists {
    /// The next more recently used frame, or the list's sentinel.
    #[inline]
    fn prev(&self, frame: u32) -> u32 {
        self.frames[frame as usize].prev
    }

    #[inline]
    fn insert_after(&mut self, at: u32, frame: u32) {
        let next = self.frames[at as usize].next;
        let own = &mut self.frames[frame as usize];
        own.prev = at;
        own.next = next;
        self.frames[next as usize].prev = frame;
        self.frames[at as usize].next = frame;
    }
}
