//! Models policies with several queues: the queues are `VecDeque`s, the oldest page first.

use std::collections::VecDeque;

use destage_policy::buffer::{EvictionKind, PageAccess};

use super::Left;

/// A page that is held.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) page: u32,
    pub(super) dirty: bool,
    /// Uses, where they are counted.
    pub(super) uses: u32,
}

impl Held {
    pub(super) fn new(access: PageAccess) -> Self {
        Self { page: access.page.0, dirty: access.write, uses: 0 }
    }

    pub(super) fn clean(&mut self, out: &mut Vec<Left>) {
        self.dirty = false;
        out.push(Left::unit(EvictionKind::Clean, &[self.page]));
    }
}

/// The page has left its queue for good.
pub(super) fn give_up(held: &Held, out: &mut Vec<Left>) {
    out.push(Left::unit(if held.dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[held.page]));
}

/// Cleans the dirty pages of a queue.
pub(super) fn flush(queue: &mut VecDeque<Held>, out: &mut Vec<Left>) {
    queue.iter_mut().filter(|held| held.dirty).for_each(|held| held.clean(out));
}

/// Takes the page out of a queue, if it is there.
pub(super) fn take(queue: &mut VecDeque<Held>, page: u32) -> Option<Held> {
    queue.iter().position(|held| held.page == page).and_then(|at| queue.remove(at))
}

/// Takes a page out of a queue of ghosts; whether it was there.
pub(super) fn forget(ghosts: &mut VecDeque<u32>, page: u32) -> bool {
    let there = ghosts.contains(&page);
    ghosts.retain(|ghost| *ghost != page);
    there
}

/// The dirty pages of some queues, ascending.
pub(super) fn dirty<const N: usize>(queues: [&VecDeque<Held>; N]) -> Vec<u32> {
    let mut pages: Vec<u32> = queues.into_iter().flatten().filter(|held| held.dirty).map(|held| held.page).collect();
    pages.sort_unstable();
    pages
}

/// `1d 2c* 3d**`: the oldest first, dirty or clean, a star for each use; `-` where there is none.
pub(super) fn word(queue: &VecDeque<Held>) -> String {
    let word =
        |held: &Held| format!("{}{}{}", held.page, if held.dirty { 'd' } else { 'c' }, "*".repeat(held.uses as usize));
    words(queue.iter().map(word))
}

/// `5 6`: the oldest first; `-` where there is none.
pub(super) fn ghosts(queue: &VecDeque<u32>) -> String {
    words(queue.iter().map(u32::to_string))
}

fn words(words: impl Iterator<Item = String>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "-".into() } else { words.join(" ") }
}
