//! Doubly linked lists over array indices: the recency lists of every policy, without pointers or
//! allocation.

/// One node's neighbours.
#[derive(Clone, Copy, Debug)]
struct NodeLink {
    prev: u32,
    next: u32,
}

/// Circular lists over the nodes `0..len`. A list is named by any of its nodes; policies reserve a
/// node as sentinel, so that `next(sentinel)` is the front, `prev(sentinel)` the back, and an empty
/// list needs no special case. A node that is in no list is linked to itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLinks {
    nodes: Vec<NodeLink>,
}

impl NodeLinks {
    /// `len` nodes, each alone.
    pub(crate) fn new(len: u32) -> Self {
        let mut links = Self::default();
        links.grow(len);
        links
    }

    /// Makes room for the nodes `0..len`.
    pub(crate) fn grow(&mut self, len: u32) {
        self.nodes.extend((self.nodes.len() as u32..len).map(|i| NodeLink { prev: i, next: i }));
    }

    #[inline]
    pub(crate) fn next(&self, node: u32) -> u32 {
        self.nodes[node as usize].next
    }

    #[inline]
    pub(crate) fn prev(&self, node: u32) -> u32 {
        self.nodes[node as usize].prev
    }

    /// Takes `node` out of its list.
    #[inline]
    pub(crate) fn unlink(&mut self, node: u32) {
        let NodeLink { prev, next } = self.nodes[node as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        self.nodes[node as usize] = NodeLink { prev: node, next: node };
    }

    /// Puts `node`, which is in no list, right behind `at`.
    #[inline]
    pub(crate) fn insert_after(&mut self, at: u32, node: u32) {
        let next = self.nodes[at as usize].next;
        self.nodes[node as usize] = NodeLink { prev: at, next };
        self.nodes[next as usize].prev = node;
        self.nodes[at as usize].next = node;
    }

    /// Puts `node`, which is in no list, right before `at`.
    #[inline]
    pub(crate) fn insert_before(&mut self, at: u32, node: u32) {
        let prev = self.nodes[at as usize].prev;
        self.insert_after(prev, node);
    }

    /// Moves `node` from wherever it is to right behind `at`, another node.
    #[inline]
    pub(crate) fn move_after(&mut self, at: u32, node: u32) {
        let NodeLink { prev, next } = self.nodes[node as usize];
        if prev == at {
            return;
        }
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        self.insert_after(at, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(links: &NodeLinks, sentinel: u32) -> Vec<u32> {
        let mut list = Vec::new();
        let mut node = links.next(sentinel);
        while node != sentinel {
            assert_eq!(links.prev(links.next(node)), node);
            list.push(node);
            node = links.next(node);
        }
        list
    }

    #[test]
    fn nodes_move_between_the_ends() {
        let mut links = NodeLinks::new(5);
        for node in 1..5 {
            links.insert_after(0, node);
        }
        assert_eq!(forward(&links, 0), [4, 3, 2, 1]);
        links.move_after(0, 2);
        assert_eq!(forward(&links, 0), [2, 4, 3, 1]);
        links.unlink(4);
        links.insert_before(0, 4);
        assert_eq!(forward(&links, 0), [2, 3, 1, 4]);
        links.move_after(0, 2);
        assert_eq!(forward(&links, 0), [2, 3, 1, 4]);
        for node in 1..5 {
            links.unlink(node);
        }
        assert_eq!(forward(&links, 0), []);
    }
}
