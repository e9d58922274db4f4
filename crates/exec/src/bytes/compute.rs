//! Carries out the steps that compute.

use destage_plan::{Buf, Controller, Engine, Issue, OpId, Sectors, Step, StepOutcome};
use destage_raid::{MAX_DEVICES, kernels};

use super::buffers::{BufferTable, ByteLocation};

impl BufferTable {
    /// Does a step if it is one that computes, and returns its outcome.
    pub fn compute<C: Controller>(&mut self, engine: &Engine<C>, issue: Issue) -> Option<StepOutcome> {
        let op = issue.op;
        let page = self.page;
        let mut outcome = StepOutcome::Ok;
        match *engine.step(issue) {
            Step::Merge { old, new, sectors, dst } => {
                let range = self.range(sectors);
                let (old, new) = (self.locate(engine, op, old), self.locate(engine, op, new));
                self.produce(engine, op, dst, page, &[(old, page), (new, range.len())], |bytes, out| {
                    put(out, bytes.get(old, page));
                    put(&mut out[range.clone()], bytes.get(new, range.len()));
                });
            }
            Step::Slice { src, sectors, dst } => {
                let range = self.range(sectors);
                let src = self.locate(engine, op, src);
                let end = range.end;
                self.produce(engine, op, dst, range.len(), &[(src, end)], |bytes, out| {
                    put(out, bytes.get(src, end).map(|bytes| &bytes[range.clone()]));
                });
            }
            Step::Xor { srcs, pages, dst } => {
                let len = page * usize::from(pages);
                let bufs = engine.bufs(op, srcs);
                if bufs.is_empty() {
                    self.target(engine, op, dst, len).fill(0);
                }
                let result = (self.locate(engine, op, dst), len);
                // On the stack, since this is done for each page of a write.
                let mut sources = [(ByteLocation::Zero, 0); MAX_DEVICES];
                for (index, chunk) in bufs.chunks(MAX_DEVICES - 1).enumerate() {
                    // What was computed so far is a source of the rest.
                    let all = chunk
                        .iter()
                        .map(|buf| (self.locate(engine, op, *buf), len))
                        .chain((index > 0).then_some(result));
                    let count = sources.iter_mut().zip(all).map(|(to, from)| *to = from).count();
                    // In place of a source that is still to come, the first chunk
                    // would have overwritten it.
                    let again = index > 0 && sources[..chunk.len()].contains(&result);
                    assert!(!again, "the result stands in place of the source after the first {}", MAX_DEVICES - 1);
                    self.produce(engine, op, dst, len, &sources[..count], |bytes, out| {
                        let mut slices: [&[u8]; MAX_DEVICES] = [&[]; MAX_DEVICES];
                        let found = sources[..count].iter().filter_map(|src| bytes.get(src.0, src.1));
                        let found = slices.iter_mut().zip(found).map(|(slice, bytes)| *slice = bytes).count();
                        kernels::xor(out, &slices[..found]);
                    });
                }
            }
            Step::Pq { srcs, pages, p, q } => {
                let len = page * usize::from(pages);
                let bufs = engine.bufs(op, srcs);
                assert!(bufs.len() <= MAX_DEVICES, "P and Q of {} sources", bufs.len());
                let mut sources = [(ByteLocation::Zero, 0); MAX_DEVICES];
                for (to, buf) in sources.iter_mut().zip(bufs) {
                    *to = (self.locate(engine, op, *buf), len);
                }
                let sources = &sources[..bufs.len()];
                let mut pages_of: [Option<&[u8]>; MAX_DEVICES] = [None; MAX_DEVICES];
                // Scratch, since P or Q may stand in place of a source that the
                // other still needs.
                let [mut first, mut second] = std::mem::take(&mut self.scratch);
                for result in [&mut first, &mut second] {
                    result.clear();
                    result.resize(len, 0);
                }
                for (slice, src) in pages_of.iter_mut().zip(sources) {
                    *slice = self.get(src.0, len);
                }
                kernels::pq(&mut first, &mut second, &pages_of[..bufs.len()]);
                for (result, dst) in [(&first, p), (&second, q)] {
                    if dst != Buf::None {
                        let at = self.locate(engine, op, dst);
                        check_overlap(at, len, sources);
                        self.target(engine, op, dst, len).copy_from_slice(result);
                    }
                }
                self.scratch = [first, second];
            }
            Step::Gf { a, x, b, y, pages, dst } => {
                let len = page * usize::from(pages);
                let (x, y) = (self.locate(engine, op, x), self.locate(engine, op, y));
                self.produce(engine, op, dst, len, &[(x, len), (y, len)], |bytes, out| {
                    match (bytes.get(x, len), bytes.get(y, len)) {
                        // A factor of 0 makes the missing operand zero.
                        (Some(x), Some(y)) => kernels::gf(out, a, x, b, y),
                        (Some(x), None) => kernels::gf(out, a, x, 0, x),
                        (None, Some(y)) => kernels::gf(out, 0, y, b, y),
                        (None, None) => out.fill(0),
                    }
                });
            }
            Step::Compare { a, b, pages } => {
                assert!(pages <= 64, "a comparison of {pages} pages");
                let (a, b) = (self.locate(engine, op, a), self.locate(engine, op, b));
                let differs = |index: u16| {
                    let from = usize::from(index) * page;
                    let at = |at: ByteLocation| self.get(at.beyond(from as u32), page).unwrap_or(&self.zeros[..page]);
                    u64::from(at(a) != at(b)) << index
                };
                let differing = (0..pages).map(differs).sum();
                if differing != 0 {
                    outcome = StepOutcome::Differing(differing);
                }
            }
            Step::Encode { base, new, dst, .. } => {
                let (base, new) = (self.locate(engine, op, base), self.locate(engine, op, new));
                self.produce(engine, op, dst, page, &[(base, page), (new, page)], |bytes, out| {
                    let len = destage_delta::encode(bytes.page(base), bytes.page(new), out);
                    // Zeros after the delta, so that equal inputs give equal
                    // pages.
                    out[len..].fill(0);
                    outcome = StepOutcome::Length(len as u32);
                });
            }
            Step::Decode { base, delta, dst } => {
                let base = self.locate(engine, op, base);
                let (at, len) = (self.locate(engine, op, delta.buf).beyond(delta.offset), delta.len as usize);
                self.produce(engine, op, dst, page, &[(base, page), (at, len)], |bytes, out| {
                    let delta = bytes.get(at, len).unwrap_or_else(|| &bytes.zeros[..len]);
                    // A delta that does not fit its base is damage, and the plan
                    // decides about it.
                    if destage_delta::decode(bytes.page(base), delta, out).is_err() {
                        outcome = StepOutcome::Undecodable;
                    }
                });
            }
            Step::Pack { parts, dst } => {
                // Packed elsewhere first: a part may lie in the page that is
                // filled.
                let mut packed = std::mem::take(&mut self.scratch[1]);
                packed.clear();
                for part in engine.spans(op, parts) {
                    let at = self.locate(engine, op, part.buf).beyond(part.offset);
                    let end = packed.len() + part.len as usize;
                    packed.extend_from_slice(self.get(at, part.len as usize).unwrap_or_default());
                    packed.resize(end, 0);
                }
                assert!(packed.len() <= page, "parts of {} B for a page", packed.len());
                packed.resize(page, 0);
                self.target(engine, op, dst, page).copy_from_slice(&packed);
                self.scratch[1] = packed;
            }
            Step::Hold { .. } => self.change_nvram(engine, issue),
            Step::Read { .. }
            | Step::Write { .. }
            | Step::WriteList { .. }
            | Step::MetaWrite { .. }
            | Step::MetaRead { .. }
            | Step::FlushDev { .. }
            | Step::Duplicate { .. }
            | Step::Trim { .. }
            | Step::Collect { .. }
            | Step::NvCommit { .. }
            | Step::Intent { .. }
            | Step::Join
            | Step::Ack { .. } => return None,
        }
        Some(outcome)
    }

    fn range(&self, sectors: Sectors) -> std::ops::Range<usize> {
        let first = usize::from(sectors.first) * self.sector;
        first..first + usize::from(sectors.count) * self.sector
    }

    /// Lets `fill` fill `len` bytes of `dst` from sources.
    fn produce<C: Controller>(
        &mut self,
        engine: &Engine<C>,
        op: OpId,
        dst: Buf,
        len: usize,
        srcs: &[(ByteLocation, usize)],
        fill: impl FnOnce(&Self, &mut [u8]),
    ) {
        let at = self.locate(engine, op, dst);
        check_overlap(at, len, srcs);
        self.reserve(engine, op, at);
        // In place: sources are read until the end, so the result waits in scratch
        // memory.
        if srcs.iter().any(|src| src.0.shares(at)) {
            let mut result = std::mem::take(&mut self.scratch[0]);
            result.clear();
            result.resize(len, 0);
            fill(self, &mut result);
            let from = at.from();
            self.allocation(at)[from..from + len].copy_from_slice(&result);
            self.scratch[0] = result;
        } else {
            // Taken out of the table, so that `fill` may read the other buffers.
            let mut bytes = std::mem::take(self.allocation(at));
            let from = at.from();
            fill(self, &mut bytes[from..from + len]);
            *self.allocation(at) = bytes;
        }
    }
}

/// Fills a place with bytes, or with zeros.
pub(crate) fn put(to: &mut [u8], bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => to.copy_from_slice(bytes),
        None => to.fill(0),
    }
}

/// Checks that a result stands exactly where a source stood, or apart from it.
fn check_overlap(dst: ByteLocation, len: usize, srcs: &[(ByteLocation, usize)]) {
    for &(src, src_len) in srcs {
        let (a, b) = (dst.from(), src.from());
        let apart = !dst.shares(src) || a + len <= b || b + src_len <= a;
        assert!(apart || (a, len) == (b, src_len), "{dst:?} overlaps {src:?} in part");
    }
}
