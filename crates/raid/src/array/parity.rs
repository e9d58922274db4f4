//! Computes pages of a row: parity from its data, new parity from the old, lost data from the rest (specs
//! §2.1).

use destage_plan::{Buf, Column, ColumnSet, OpId, Out, Step, StepSet, Stripe};

use super::RaidArray;
use super::write::{ColumnPages, WriteExtent};
use crate::{MAX_DEVICES, field};

impl RaidArray {
    /// New parity from the old one and what changes.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn modify_parity(
        &mut self,
        op: OpId,
        what: WriteExtent,
        parity: ColumnSet,
        fresh: &ColumnPages,
        old: &ColumnPages,
        ready: StepSet,
        out: &mut Out,
    ) -> (Buf, Buf, StepSet) {
        self.modify_parity_in(op, what, parity, fresh, old, None, ready, out)
    }

    /// Does what [`modify_parity`](Self::modify_parity) does, and puts P and Q into buffers that are there.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn modify_parity_in(
        &mut self,
        op: OpId,
        what: WriteExtent,
        parity: ColumnSet,
        fresh: &ColumnPages,
        old: &ColumnPages,
        into: Option<(Buf, Buf)>,
        ready: StepSet,
        out: &mut Out,
    ) -> (Buf, Buf, StepSet) {
        let pages = what.rows.count as u16;
        let geometry = &self.config.geometry;
        let (p_column, q_column) = (geometry.p_column(), geometry.q_column());
        let (has_p, has_q) = (parity.contains(p_column), parity.contains(q_column));
        let mut done = ready;
        let mut list = [Buf::None; 2 * MAX_DEVICES + 1];
        let mut delta = Buf::None;
        // One changed column is the common case: P and Q share its delta, so no syndromes are computed.
        let single = what.columns.lowest().filter(|_| what.columns.is_single());
        if has_q && let Some(column) = single {
            let column = column.index();
            delta = out.tmp(op, pages);
            let both = [old[column], fresh[column]];
            // The new page may be zeros.
            let srcs = out.list(op, if fresh[column] == Buf::Zero { &both[..1] } else { &both });
            done |= out.step(op, Step::Xor { srcs, pages, dst: delta }, ready);
        }
        let mut new_p = Buf::None;
        if has_p {
            new_p = into.map_or_else(|| out.tmp(op, pages), |(p, _)| p);
            let mut n = 0;
            let mut push = |buf| {
                // Zeros change no exclusive or, and a discard has no buffer to read.
                if buf != Buf::Zero {
                    list[n] = buf;
                    n += 1;
                }
            };
            push(old[p_column.index()]);
            if delta == Buf::None {
                what.columns.iter().for_each(|column| {
                    push(old[column.index()]);
                    push(fresh[column.index()]);
                });
            } else {
                push(delta);
            }
            let srcs = out.list(op, &list[..n]);
            done |= out.step(op, Step::Xor { srcs, pages, dst: new_p }, done);
        }
        let mut new_q = Buf::None;
        if has_q {
            new_q = into.map_or_else(|| out.tmp(op, pages), |(_, q)| q);
            let old_q = old[q_column.index()];
            if let Some(column) = single {
                let b = field::pow2(geometry.exponent(what.stripe, column));
                let step = Step::Gf { a: 1, x: old_q, b, y: delta, pages, dst: new_q };
                done |= out.step(op, step, done);
            } else {
                let (before, after) = (out.tmp(op, pages), out.tmp(op, pages));
                let computed = self.syndromes(op, what.stripe, old, what.columns, pages, Buf::None, before, ready, out)
                    | self.syndromes(op, what.stripe, fresh, what.columns, pages, Buf::None, after, ready, out);
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
        stripe: Stripe,
        parity: ColumnSet,
        data: &ColumnPages,
        pages: u16,
        ready: StepSet,
        out: &mut Out,
    ) -> (Buf, Buf, StepSet) {
        let geometry = &self.config.geometry;
        let (mut p, mut q) = (Buf::None, Buf::None);
        if parity.contains(geometry.p_column()) {
            p = out.tmp(op, pages);
        }
        if parity.contains(geometry.q_column()) {
            q = out.tmp(op, pages);
        }
        if parity.is_empty() {
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
        stripe: Stripe,
        data: &ColumnPages,
        columns: ColumnSet,
        pages: u16,
        p: Buf,
        q: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let mut list = [Buf::Zero; 2 * MAX_DEVICES + 1];
        // P alone is an exclusive or, which needs no exponents.
        if q == Buf::None {
            let mut n = 0;
            for column in columns.iter() {
                if data[column.index()] != Buf::Zero {
                    list[n] = data[column.index()];
                    n += 1;
                }
            }
            let srcs = out.list(op, &list[..n]);
            return out.step(op, Step::Xor { srcs, pages, dst: p }, after);
        }
        let geometry = &self.config.geometry;
        for column in columns.iter() {
            list[geometry.exponent(stripe, column) as usize] = data[column.index()];
        }
        let srcs = out.list(op, &list[..usize::from(geometry.slots())]);
        out.step(op, Step::Pq { srcs, pages, p, q }, after)
    }

    /// The parity columns from which so many lost data columns are computed.
    pub(super) fn equations(&self, live: ColumnSet, lost: ColumnSet) -> ColumnSet {
        // One lost column takes one equation. The lowest live parity is P where it is live, and P needs no
        // multiplication.
        let live = live & self.parity();
        match live.lowest() {
            Some(parity) if lost.is_single() => ColumnSet::one(parity),
            _ => live,
        }
    }

    /// Computes the lost data columns from all other data columns and as much parity, into the
    /// buffers named for them, or new ones where there is none. There must be enough parity.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn compute_lost(
        &self,
        op: OpId,
        stripe: Stripe,
        columns: &mut [Buf; MAX_DEVICES],
        lost: ColumnSet,
        live: ColumnSet,
        pages: u16,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let geometry = &self.config.geometry;
        let (p_column, q_column) = (geometry.p_column(), geometry.q_column());
        let others = self.data - lost;
        let parity = self.equations(live, lost);
        for column in lost.iter() {
            if columns[column.index()] == Buf::None {
                columns[column.index()] = out.tmp(op, pages);
            }
        }
        let exponent = |column: Column| geometry.exponent(stripe, column);
        let (old_p, old_q) = (columns[p_column.index()], columns[q_column.index()]);
        let mut each = lost.iter();
        let first = each.next().expect("a column is lost");
        let second = each.next();
        let dst = columns[first.index()];
        if second.is_none() && parity == ColumnSet::one(p_column) {
            let mut list = [Buf::None; MAX_DEVICES];
            let mut n = 0;
            for column in (others | parity).iter() {
                list[n] = columns[column.index()];
                n += 1;
            }
            let srcs = out.list(op, &list[..n]);
            return out.step(op, Step::Xor { srcs, pages, dst }, after);
        }
        let Some(second) = second else {
            let syndrome = out.tmp(op, pages);
            let computed = self.syndromes(op, stripe, columns, others, pages, Buf::None, syndrome, after, out);
            let a = field::by_q(exponent(first));
            return out.step(op, Step::Gf { a, x: old_q, b: a, y: syndrome, pages, dst }, after | computed);
        };
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
        done_x | out.step(op, Step::Xor { srcs, pages, dst: columns[second.index()] }, done_x)
    }
}
