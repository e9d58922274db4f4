//! What is computed of a row: parity of its data, new parity from the old, lost data from the rest (specs §2.1).

use destage_plan::{Buf, OpId, Out, Step};

use super::write::{Pages, What};
use super::{Array, bits, has};
use crate::{MAX_DEVICES, field};

impl Array {
    /// New parity from the old one and what changes.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn modify_parity(
        &mut self,
        op: OpId,
        what: What,
        parity: u64,
        fresh: &Pages,
        old: &Pages,
        ready: u64,
        out: &mut Out,
    ) -> (Buf, Buf, u64) {
        let pages = what.rows.count as u16;
        let p_column = self.data.count_ones() as usize;
        let (has_p, has_q) = (has(parity, p_column as u32), has(parity, p_column as u32 + 1));
        let mut done = ready;
        let mut list = [Buf::None; 2 * MAX_DEVICES + 1];
        let mut delta = Buf::None;
        let single = what.mask.is_power_of_two();
        if has_q && single {
            let column = what.mask.trailing_zeros() as usize;
            delta = out.tmp(op, pages);
            let both = [old[column], fresh[column]];
            // The new page may be zeros.
            let srcs = out.list(op, if fresh[column] == Buf::Zero { &both[..1] } else { &both });
            done |= out.step(op, Step::Xor { srcs, pages, dst: delta }, ready);
        }
        let mut new_p = Buf::None;
        if has_p {
            new_p = out.tmp(op, pages);
            let mut n = 0;
            let mut push = |buf| {
                if buf != Buf::Zero {
                    list[n] = buf;
                    n += 1;
                }
            };
            push(old[p_column]);
            if delta == Buf::None {
                bits(what.mask).for_each(|column| {
                    push(old[column as usize]);
                    push(fresh[column as usize]);
                });
            } else {
                push(delta);
            }
            let srcs = out.list(op, &list[..n]);
            done |= out.step(op, Step::Xor { srcs, pages, dst: new_p }, done);
        }
        let mut new_q = Buf::None;
        if has_q {
            new_q = out.tmp(op, pages);
            let old_q = old[p_column + 1];
            if single {
                let b =
                    crate::field::pow2(self.config.geometry.exponent(what.stripe, what.mask.trailing_zeros() as u8));
                let step = Step::Gf { a: 1, x: old_q, b, y: delta, pages, dst: new_q };
                done |= out.step(op, step, done);
            } else {
                let (before, after) = (out.tmp(op, pages), out.tmp(op, pages));
                let computed = self.syndromes(op, what.stripe, old, what.mask, pages, Buf::None, before, ready, out)
                    | self.syndromes(op, what.stripe, fresh, what.mask, pages, Buf::None, after, ready, out);
                let srcs = out.list(op, &[old_q, before, after]);
                done |= out.step(op, Step::Xor { srcs, pages, dst: new_q }, ready | computed);
            }
        }
        (new_p, new_q, done)
    }

    /// Parity of all data columns.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn compute_parity(
        &mut self,
        op: OpId,
        stripe: u64,
        parity: u64,
        data: &Pages,
        pages: u16,
        ready: u64,
        out: &mut Out,
    ) -> (Buf, Buf, u64) {
        let p_column = self.data.count_ones();
        let (mut p, mut q) = (Buf::None, Buf::None);
        if has(parity, p_column) {
            p = out.tmp(op, pages);
        }
        if has(parity, p_column + 1) {
            q = out.tmp(op, pages);
        }
        if parity == 0 {
            return (p, q, ready);
        }
        let done = self.syndromes(op, stripe, data, self.data, pages, p, q, ready, out);
        (p, q, ready | done)
    }

    /// P, Q or both of some columns, as if the others were zeros.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn syndromes(
        &self,
        op: OpId,
        stripe: u64,
        data: &Pages,
        mask: u64,
        pages: u16,
        p: Buf,
        q: Buf,
        after: u64,
        out: &mut Out,
    ) -> u64 {
        let mut list = [Buf::Zero; 2 * MAX_DEVICES + 1];
        if q == Buf::None {
            let mut n = 0;
            for column in bits(mask) {
                if data[column as usize] != Buf::Zero {
                    list[n] = data[column as usize];
                    n += 1;
                }
            }
            let srcs = out.list(op, &list[..n]);
            return out.step(op, Step::Xor { srcs, pages, dst: p }, after);
        }
        let geometry = &self.config.geometry;
        for column in bits(mask) {
            list[geometry.exponent(stripe, column as u8) as usize] = data[column as usize];
        }
        let srcs = out.list(op, &list[..usize::from(geometry.slots())]);
        out.step(op, Step::Pq { srcs, pages, p, q }, after)
    }

    /// The parity columns from which so many lost data columns are computed.
    pub(super) fn equations(&self, live: u64, lost: u64) -> u64 {
        let live = live & self.parity();
        if lost.is_power_of_two() { live & live.wrapping_neg() } else { live }
    }

    /// Computes the lost data columns from all other data columns and as much parity, into the buffers named for them, or new ones
    /// where there is none. There must be enough parity.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn compute_lost(
        &self,
        op: OpId,
        stripe: u64,
        columns: &mut [Buf; MAX_DEVICES],
        lost: u64,
        live: u64,
        pages: u16,
        after: u64,
        out: &mut Out,
    ) -> u64 {
        let p_column = self.data.count_ones();
        let others = self.data & !lost;
        let parity = self.equations(live, lost);
        let (first, second) = (lost.trailing_zeros(), (lost & (lost - 1)).trailing_zeros());
        for column in bits(lost) {
            if columns[column as usize] == Buf::None {
                columns[column as usize] = out.tmp(op, pages);
            }
        }
        let exponent = |column: u32| self.config.geometry.exponent(stripe, column as u8);
        let (old_p, old_q) = (columns[p_column as usize], columns[p_column as usize + 1]);
        let dst = columns[first as usize];
        if lost.is_power_of_two() && parity == 1 << p_column {
            let mut list = [Buf::None; MAX_DEVICES];
            let mut n = 0;
            for column in bits(others | parity) {
                list[n] = columns[column as usize];
                n += 1;
            }
            let srcs = out.list(op, &list[..n]);
            return out.step(op, Step::Xor { srcs, pages, dst }, after);
        }
        if lost.is_power_of_two() {
            let syndrome = out.tmp(op, pages);
            let computed = self.syndromes(op, stripe, columns, others, pages, Buf::None, syndrome, after, out);
            let a = field::by_q(exponent(first));
            return out.step(op, Step::Gf { a, x: old_q, b: a, y: syndrome, pages, dst }, after | computed);
        }
        let (without_p, without_q) = (out.tmp(op, pages), out.tmp(op, pages));
        let (xor_p, xor_q) = (out.tmp(op, pages), out.tmp(op, pages));
        let computed = self.syndromes(op, stripe, columns, others, pages, without_p, without_q, after, out);
        let srcs = out.list(op, &[old_p, without_p]);
        let done_p = out.step(op, Step::Xor { srcs, pages, dst: xor_p }, after | computed);
        let srcs = out.list(op, &[old_q, without_q]);
        let done_q = out.step(op, Step::Xor { srcs, pages, dst: xor_q }, after | computed);
        let (a, b) = field::by_p_and_q(exponent(first), exponent(second));
        let done_x = out.step(op, Step::Gf { a, x: xor_p, b, y: xor_q, pages, dst }, done_p | done_q);
        let srcs = out.list(op, &[xor_p, dst]);
        done_x | out.step(op, Step::Xor { srcs, pages, dst: columns[second as usize] }, done_x)
    }
}
