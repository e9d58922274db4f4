//! Queues of erase blocks, one for each element: which log block is reclaimed next.

/// A node's neighbours.
#[derive(Clone, Copy, Debug)]
struct QueueLink {
    before: u32,
    after: u32,
}

/// Queues over the numbers of blocks. Each is a ring around a node of its own, so that an empty one
/// needs no special case.
#[derive(Clone, Debug)]
pub(super) struct BlockQueues {
    /// A node for each block, and behind them one for each queue.
    links: Vec<QueueLink>,
    blocks: u32,
    lengths: Vec<u32>,
}

impl BlockQueues {
    /// So many empty queues over so many blocks.
    pub(super) fn new(queues: u32, blocks: u32) -> Self {
        let alone = |node| QueueLink { before: node, after: node };
        Self { links: (0..blocks + queues).map(alone).collect(), blocks, lengths: vec![0; queues as usize] }
    }

    #[inline]
    pub(super) fn len(&self, queue: u32) -> u32 {
        self.lengths[queue as usize]
    }

    #[inline]
    fn block(&self, node: u32) -> Option<u32> {
        (node < self.blocks).then_some(node)
    }

    #[inline]
    pub(super) fn front(&self, queue: u32) -> Option<u32> {
        self.block(self.links[(self.blocks + queue) as usize].after)
    }

    #[inline]
    pub(super) fn back(&self, queue: u32) -> Option<u32> {
        self.block(self.links[(self.blocks + queue) as usize].before)
    }

    /// The blocks from the front on.
    pub(super) fn iter(&self, queue: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.front(queue), |&block| self.block(self.links[block as usize].after))
    }

    /// Adds a block that is in no queue at the back.
    #[inline]
    pub(super) fn push_back(&mut self, queue: u32, block: u32) {
        let end = self.blocks + queue;
        let last = self.links[end as usize].before;
        self.links[block as usize] = QueueLink { before: last, after: end };
        self.links[last as usize].after = block;
        self.links[end as usize].before = block;
        self.lengths[queue as usize] += 1;
    }

    /// Takes out a block of this queue.
    #[inline]
    pub(super) fn remove(&mut self, queue: u32, block: u32) {
        let QueueLink { before, after } = self.links[block as usize];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        self.links[block as usize] = QueueLink { before: block, after: block };
        self.lengths[queue as usize] -= 1;
    }

    /// Puts a block of this queue at its back.
    #[inline]
    pub(super) fn move_to_back(&mut self, queue: u32, block: u32) {
        if self.back(queue) != Some(block) {
            self.remove(queue, block);
            self.push_back(queue, block);
        }
    }
}
