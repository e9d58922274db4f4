//! Programs that wait until their element has nothing else to do (specs §7: what is destaged after
//! a collection).
//!
//! They begin in the order in which they were decided, element by element, and only when the
//! element would otherwise be idle before the next operation that somebody waits for; once begun,
//! one is not interrupted.

use std::collections::VecDeque;

use destage_plan::{Element, Nanos, PageNo};
use destage_policy::buffer::FrameWait;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::done::DoneTime;

/// The programs that have not begun.
#[derive(Debug)]
pub(super) struct BackgroundPrograms {
    /// Per element, the oldest first.
    queues: Vec<VecDeque<QueuedProgram>>,
    /// The groups that have programs in the queues, by number, and the numbers that are not in use.
    groups: Vec<ProgramGroup>,
    unused: Vec<u32>,
    /// Pages in the queues: each is there once.
    waiting: HashMap<PageNo, ProgramPlace, FixedState>,
    /// Number of the next program.
    next: u64,
}

/// A program that has not begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedProgram {
    number: u64,
    group: u32,
    /// The page.
    pub(super) page: PageNo,
    /// The channel that was chosen for it.
    pub(super) channel: Option<u16>,
    /// From when on its data is there.
    pub(super) ready: Nanos,
    /// The page is not in the buffer, and read first.
    pub(super) pad: bool,
}

/// Says where a page waits.
#[derive(Clone, Copy, Debug)]
struct ProgramPlace {
    element: Element,
    kept: bool,
}

/// Programs whose frames are free together or one by one.
#[derive(Clone, Copy, Debug)]
struct ProgramGroup {
    wait: FrameWait,
    /// The pages stay in the buffer, clean.
    kept: bool,
    left: u32,
    /// Frames that are free after the last program.
    frames: u32,
    last: DoneTime,
}

impl BackgroundPrograms {
    /// Nothing waits.
    pub(super) fn new(elements: u32) -> Self {
        Self {
            queues: vec![VecDeque::new(); elements as usize],
            groups: Vec::new(),
            unused: Vec::new(),
            waiting: HashMap::with_hasher(FixedState::with_seed(0)),
            next: 0,
        }
    }

    /// Is true if no program waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Is true if the page's program waits.
    pub(super) fn holds(&self, page: PageNo) -> bool {
        self.waiting.contains_key(&page)
    }

    /// Is true if the page's program waits and the page stays in the buffer meanwhile.
    pub(super) fn keeps(&self, page: PageNo) -> bool {
        self.waiting.get(&page).is_some_and(|place| place.kept)
    }

    /// Begins a group; its programs follow.
    pub(super) fn begin(&mut self, wait: FrameWait, kept: bool) -> u32 {
        let group = ProgramGroup { wait, kept, left: 0, frames: 0, last: DoneTime::default() };
        if let Some(number) = self.unused.pop() {
            self.groups[number as usize] = group;
            return number;
        }
        self.groups.push(group);
        self.groups.len() as u32 - 1
    }

    /// A page that does not wait here yet is to be programmed in `element`.
    pub(super) fn push(
        &mut self,
        group: u32,
        element: Element,
        page: PageNo,
        channel: Option<u16>,
        ready: Nanos,
        pad: bool,
    ) {
        let own = &mut self.groups[group as usize];
        own.left += 1;
        own.frames += u32::from(!pad && !own.kept);
        self.waiting.insert(page, ProgramPlace { element, kept: own.kept });
        self.queues[element.index()].push_back(QueuedProgram { number: self.next, group, page, channel, ready, pad });
        self.next += 1;
    }

    /// Returns the time at which the element's next program has its data.
    pub(super) fn ready(&self, element: Element) -> Option<Nanos> {
        self.queues[element.index()].front().map(|program| program.ready)
    }

    /// Takes the element's next program.
    pub(super) fn pop(&mut self, element: Element) -> Option<QueuedProgram> {
        let program = self.queues[element.index()].pop_front()?;
        self.waiting.remove(&program.page);
        Some(program)
    }

    /// Takes the oldest program of all.
    pub(super) fn pop_oldest(&mut self) -> Option<QueuedProgram> {
        // Elements are few, and this runs only when a frame or a flush needs it.
        let fronts = (0..).zip(&self.queues).filter_map(|(i, queue)| Some((queue.front()?.number, i)));
        let (_, element) = fronts.min()?;
        self.pop(Element(element))
    }

    /// Takes the program of this page, if it waits here.
    pub(super) fn take(&mut self, page: PageNo) -> Option<QueuedProgram> {
        let place = self.waiting.remove(&page)?;
        let queue = &mut self.queues[place.element.index()];
        let at = queue.iter().position(|program| program.page == page)?;
        queue.remove(at)
    }

    /// A program that was taken is done at `done`: the frames that it frees, and from when on.
    pub(super) fn end(&mut self, program: &QueuedProgram, done: DoneTime) -> Option<(DoneTime, u32)> {
        let group = &mut self.groups[program.group as usize];
        group.left -= 1;
        group.last = group.last.max(done);
        let ended = group.left == 0;
        let freed = match group.wait {
            FrameWait::Any => (!program.pad && !group.kept).then_some((done, 1)),
            FrameWait::All => (ended && group.frames > 0).then_some((group.last, group.frames)),
        };
        if ended {
            self.unused.push(program.group);
        }
        freed
    }

    /// Elements that programs can wait for.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> + use<> {
        (0..self.queues.len() as u32).map(Element)
    }
}
