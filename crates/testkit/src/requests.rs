//! Random requests for any executor, and the content that they must leave.

use destage_plan::{HostOp, HostRequest};

use crate::TestRng;

/// Describes an array to draw requests for.
#[derive(Clone, Copy, Debug)]
pub struct ArraySizes {
    /// Bytes of a sector.
    pub sector: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Pages of a stripe's data.
    pub stripe: u64,
    /// Pages of the array's data.
    pub pages: u64,
}

impl ArraySizes {
    /// Counts the sectors of the array.
    pub const fn sectors(&self) -> u64 {
        self.pages * self.page / self.sector
    }

    const fn page_sectors(&self) -> u64 {
        self.page / self.sector
    }
}

/// Draws a request: a read, write, flush, discard or zeroes, of parts of pages up to several stripes,
/// some with FUA. Most requests lie near each other.
pub fn draw(dice: &mut TestRng, sizes: &ArraySizes, tag: u64) -> HostRequest {
    let op = match dice.below(40) {
        0..=20 => HostOp::Write,
        21..=34 => HostOp::Read,
        35 => HostOp::Flush,
        36 | 37 => HostOp::Discard,
        38 => HostOp::WriteZeroesUnmap,
        _ => HostOp::WriteZeroes,
    };
    if op == HostOp::Flush {
        return HostRequest { tag, op, offset: 0, len: 0, fua: false };
    }
    let (page, all) = (sizes.page_sectors(), sizes.sectors());
    let room = if dice.below(3) == 0 { all } else { all / 4 };
    let (first, count) = match dice.below(8) {
        0..=2 => {
            let at = dice.below(room);
            (at, dice.within(1, page))
        }
        3 | 4 => (dice.below(room / page) * page, dice.within(1, 4) * page),
        5 | 6 => {
            let stripe = sizes.stripe * page;
            (dice.below(room.div_ceil(stripe)) * stripe, dice.within(1, 2) * stripe)
        }
        _ => (dice.below(room), dice.within(1, 3 * sizes.stripe * page)),
    };
    let count = count.min(all - first);
    let fua = op == HostOp::Write && dice.below(8) == 0;
    HostRequest { tag, op, offset: first * sizes.sector, len: count * sizes.sector, fua }
}

/// Makes the bytes that a request writes. They differ in every request and in every sector.
pub fn data(request: &HostRequest, sector: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if request.op == HostOp::Write {
        for at in 0..request.len / sector {
            let mut dice = TestRng::new(request.tag << 20 | at);
            let first = dice.draw() | 1;
            bytes.extend_from_slice(&first.to_le_bytes());
            let rest = (8..sector).step_by(8).flat_map(|_| dice.draw().to_le_bytes());
            bytes.extend(rest.take(sector as usize - 8));
        }
    }
    bytes
}

/// Tracks the content of an array as a host knows it.
#[derive(Clone, Debug)]
pub struct ExpectedContent {
    sizes: ArraySizes,
    bytes: Vec<u8>,
}

impl ExpectedContent {
    /// Begins with the zeros of a new array.
    pub fn new(sizes: ArraySizes) -> Self {
        Self { sizes, bytes: vec![0; (sizes.pages * sizes.page) as usize] }
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of a request's range.
    pub fn of(&self, request: &HostRequest) -> &[u8] {
        &self.bytes[request.offset as usize..(request.offset + request.len) as usize]
    }

    /// Takes note that a request was served. A discard changes nothing here: see
    /// [`discarded`](Self::discarded).
    pub fn apply(&mut self, request: &HostRequest, data: &[u8]) {
        let range = request.offset as usize..(request.offset + request.len) as usize;
        match request.op {
            HostOp::Write => self.bytes[range].copy_from_slice(data),
            HostOp::WriteZeroes | HostOp::WriteZeroesUnmap => self.bytes[range].fill(0),
            HostOp::Read | HostOp::Flush | HostOp::Discard => {}
        }
    }

    /// Takes note of what the range of a served discard reads as. Checks that each page it covers wholly
    /// is as before or zeros, and that all else is as before.
    pub fn discarded(&mut self, request: &HostRequest, found: &[u8]) {
        let page = self.sizes.page;
        let mut at = request.offset;
        let end = request.offset + request.len;
        while at < end {
            let next = ((at / page + 1) * page).min(end);
            let found = &found[(at - request.offset) as usize..(next - request.offset) as usize];
            let known = &mut self.bytes[at as usize..next as usize];
            if found != known {
                assert!(next - at == page && found.iter().all(|byte| *byte == 0), "page {} after a discard", at / page);
                known.fill(0);
            }
            at = next;
        }
    }
}
