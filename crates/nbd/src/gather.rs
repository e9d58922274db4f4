//! Messages whose bytes come in pieces.

/// Bytes that the longest part of fixed length has.
const FIXED: usize = 32;

/// Gathers the bytes of a message that is not complete. It holds no more than has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageGather {
    fixed: [u8; FIXED],
    held: usize,
    variable: Vec<u8>,
}

impl MessageGather {
    /// The next `N` bytes, once all have come; until then they are kept. Nothing is copied twice
    /// where they come at once.
    #[inline]
    pub(crate) fn fixed<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        const { assert!(N <= FIXED, "room for it") };
        // Most messages come whole, and are then read from the input without a copy.
        if self.held == 0
            && let Some((whole, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(*whole);
        }
        let now = (N - self.held).min(input.len());
        let (taken, rest) = input.split_at(now);
        self.fixed[self.held..self.held + now].copy_from_slice(taken);
        self.held += now;
        *input = rest;
        if self.held < N {
            return None;
        }
        self.held = 0;
        self.fixed.first_chunk().copied()
    }

    /// The next `len` bytes, once all have come. There is only room for what has.
    pub(crate) fn variable(&mut self, len: usize, input: &mut &[u8]) -> Option<Vec<u8>> {
        let now = (len - self.variable.len()).min(input.len());
        let (taken, rest) = input.split_at(now);
        // Room grows with what has come: a peer that announces 32 MiB and sends nothing takes no memory.
        self.variable.extend_from_slice(taken);
        *input = rest;
        (self.variable.len() == len).then(|| std::mem::take(&mut self.variable))
    }

    /// Returns true if part of a message has come.
    pub(crate) const fn is_inside(&self) -> bool {
        self.held > 0 || !self.variable.is_empty()
    }

    /// Bytes that are held at most, as it is now.
    pub(crate) const fn capacity(&self) -> usize {
        self.variable.capacity()
    }
}

/// Drops bytes from the front of `input`, `left` at most; says whether none are left to drop.
pub(crate) fn skip(left: &mut u32, input: &mut &[u8]) -> bool {
    let now = (*left as usize).min(input.len());
    *input = &input[now..];
    *left -= now as u32;
    *left == 0
}

/// Copies a payload of which `left` bytes are to come from `input` into a buffer; says how many.
pub(crate) fn copy(left: &mut u32, input: &mut &[u8], into: &mut [u8]) -> usize {
    let now = (*left as usize).min(input.len()).min(into.len());
    let (taken, rest) = input.split_at(now);
    into[..now].copy_from_slice(taken);
    *input = rest;
    *left -= now as u32;
    now
}
