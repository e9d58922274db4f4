//! Numbers and requests out of arbitrary bytes.

use destage_plan::{Nanos, Op, Request};

/// Bytes that are used up from the front. Beyond the end they are 0, so that any length will do.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn number(&mut self, bytes: usize) -> u64 {
        // Where the input has ended numbers are 0, so any bytes mean something.
        let (now, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        now.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    pub(crate) fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    /// A number of any size: the small ones and those near the ends are as frequent as all others
    /// together.
    pub(crate) fn any(&mut self) -> u64 {
        match self.u8() {
            // Numbers of all magnitudes, and those at both ends of the range, where sums overflow.
            shift @ 0..128 => self.number(8) >> (shift % 64),
            near @ 128..192 => u64::from(near - 128),
            near => u64::MAX - u64::from(near - 192),
        }
    }

    /// One of `choices`.
    pub(crate) fn choice<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.u8()) % choices.len()]
    }

    /// The next request; `before` is the time of the one before it. Most are small, aligned and
    /// near the beginning of a volume; some are anything that a [`Request`] can hold, which is more
    /// than a trace can.
    pub(crate) fn request(&mut self, before: Nanos) -> Request {
        let form = self.u8();
        let op = Op::ALL[usize::from(form & 3)];
        let offset = match form >> 2 & 3 {
            0 => u64::from(self.u8()) * 4096,
            1 => u64::from(self.u16()) * 512,
            2 => self.number(4) * 512,
            _ => self.any(),
        };
        let len = match form >> 4 & 3 {
            0 => 4096,
            1 => u64::from(self.u8()) * 512,
            2 => u64::from(self.u16()) * 512,
            _ => self.any(),
        };
        let (time, volume, fua) = if form >> 6 & 1 == 0 {
            (Nanos(before.0.saturating_add(u64::from(form >> 7) * 1_000_000)), 0, false)
        } else {
            let other = self.u8();
            let time = if other & 1 == 0 { before.0.wrapping_add(self.any()) } else { before.0 };
            let volume = if other & 2 == 0 { u32::from(other >> 4) } else { self.any() as u32 };
            (Nanos(time), volume, other & 4 != 0)
        };
        // A flush has no range in any trace.
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
        Request { time, offset, len, volume, op, fua }
    }

    /// All further requests, at most `most`.
    pub(crate) fn requests(&mut self, most: usize) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::new();
        while !self.is_empty() && requests.len() < most {
            let before = requests.last().map_or(Nanos::ZERO, |request| request.time);
            requests.push(self.request(before));
        }
        requests
    }
}
