//! Describes the history of an array: requests and misfortunes, in order.

use std::fmt;

use destage_exec::ReplacementContent;
use destage_plan::{Dev, DevSet, HostOp};
use destage_raid::RaidLevel;

use crate::RandomDraws;
use crate::cell::{CrashCell, PAGE, PAGE_SECTORS};

/// Selects the order in which steps in flight end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// Any of them next.
    Random,
    /// In the order of issue.
    Oldest,
    /// Ends them in the order of their latencies.
    Latency,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryAction {
    /// The host asks. If too much is under way, steps end first until there is room.
    Request {
        /// Names the kind of request.
        op: HostOp,
        /// First sector.
        sector: u64,
        /// Sectors.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
    },
    /// So many steps end.
    Steps(u64),
    /// Everything under way ends.
    Drain,
    /// A device fails; the controller hears of it at once, or when a step fails. Nothing happens if
    /// it has failed already or, of a member, more would be lost than the level can do without,
    /// unless `beyond`.
    Lose {
        /// Numbers the device.
        dev: u8,
        /// Is true if the controller hears of it at once.
        told: bool,
        /// Even if data is lost with it.
        beyond: bool,
    },
    /// A failed device is replaced. Nothing happens if it has not failed.
    Replace {
        /// Numbers the device.
        dev: u8,
        /// By what.
        content: ReplacementContent,
    },
    /// Spoils a page: its member cannot read it until it is written. Nothing happens if that would lose data.
    Spoil {
        /// Numbers the member.
        dev: u8,
        /// Numbers its page, modulo the pages that it has.
        page: u64,
        /// Tells that its member cannot even read it when it is written.
        broken: bool,
    },
    /// Flips a bit of a page of the cache's device. Nothing happens if that would lose data.
    Rot {
        /// Numbers the page, modulo the pages that the device has.
        page: u64,
        /// Numbers the bit, modulo those of a page.
        bit: u32,
    },
    /// Rows are to be compared with each other. Nothing happens if others are being compared, or the array is not ready.
    Scrub {
        /// Numbers the first row, modulo the rows that there are.
        first: u64,
        /// Counts the rows after it, modulo those that there are.
        rows: u64,
        /// Tells that what differs is to be made anew.
        repairs: bool,
    },
    /// Damages what says which intents are open: after the next cut those of all rows are. Nothing happens to a start
    /// without all members, which would be refused over rows of which nobody knows what was lost.
    DamageIntents,
    /// The power fails, and comes back.
    Cut {
        /// Failed devices that answer again afterwards, with what they held.
        back: DevSet,
        /// A member that does not answer any more, if the level can do without it.
        gone: Option<u8>,
    },
    /// The array is stopped cleanly, and the power fails after that.
    Stop,
}

/// An action with the number that its chance is drawn from: it stays when others are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedAction {
    /// The number.
    pub number: u64,
    /// Describes the action.
    pub action: HistoryAction,
}

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct CrashHistory {
    /// Seeds all choices.
    pub seed: u64,
    /// Describes the array and its cache.
    pub cell: CrashCell,
    /// Selects the order in which steps end.
    pub order: CompletionOrder,
    /// Is true if computing steps end at once.
    pub compute_at_once: bool,
    /// Requests under way at most.
    pub requests: usize,
    /// Lists the actions.
    pub actions: Vec<NumberedAction>,
}

/// Limits what may be drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrawLimits {
    /// Only this level.
    pub level: Option<RaidLevel>,
    /// Neither cuts nor clean stops.
    pub no_cuts: bool,
    /// No device fails.
    pub no_losses: bool,
    /// So many requests, and no more misfortunes than a short history has.
    pub requests: Option<usize>,
}

impl CrashHistory {
    /// The history of a seed.
    pub fn draw(seed: u64, limits: &DrawLimits, caches: u8) -> Self {
        let mut dice = RandomDraws::new(seed);
        let cell = CrashCell::of_seed(seed, &mut dice, limits.level);
        let members = cell.geometry.members();
        // Short histories run fast and are easy to read. Long ones reach states that take many actions.
        let length = match (limits.requests, dice.below(4)) {
            (Some(requests), _) => requests as u64 * 2,
            (None, 0) => dice.within(2, 8),
            (None, 1 | 2) => dice.within(8, 40),
            (None, _) => dice.within(40, 90),
        };
        // Most histories have few kinds of misfortune: many at once excuse each other.
        let (cuts, losses) = (!limits.no_cuts && !dice.one_in(5), !limits.no_losses && dice.one_in(2));
        let cache_losses = !limits.no_losses && caches > 0 && dice.one_in(2);
        let beyond = dice.one_in(24);
        let rarity = dice.pick(&[6, 12, 30]);
        let hot = HotRange::draw(&mut dice, &cell);
        let mut actions = Vec::with_capacity(length as usize + 8);
        while (actions.len() as u64) < length {
            if dice.one_in(rarity) {
                let member = dice.below(u64::from(members)) as u8;
                match dice.below(8) {
                    0..=2 if cuts => {
                        // Two random words and-ed: about a quarter of the devices come back.
                        let back = DevSet::from_bits(dice.draw() & dice.draw());
                        let gone = (losses && dice.one_in(6)).then_some(member);
                        actions.push(HistoryAction::Cut { back, gone });
                        // Recovery is interrupted as well, and perhaps the next one: it writes, so its own states
                        // must recover.
                        while dice.one_in(3) {
                            actions.push(HistoryAction::Steps(dice.below(25)));
                            let gone = (losses && dice.one_in(12)).then_some(member);
                            actions
                                .push(HistoryAction::Cut { back: DevSet::from_bits(dice.draw() & dice.draw()), gone });
                        }
                    }
                    3 if cuts => actions.push(HistoryAction::Stop),
                    4 | 5 if losses => {
                        actions.push(HistoryAction::Lose {
                            dev: member,
                            told: dice.one_in(2),
                            beyond: beyond && dice.one_in(2),
                        });
                    }
                    6 if losses => actions.push(HistoryAction::Replace { dev: member, content: content(&mut dice) }),
                    7 if cache_losses => {
                        let dev = members + dice.below(u64::from(caches)) as u8;
                        actions.push(if dice.one_in(2) {
                            HistoryAction::Lose { dev, told: dice.one_in(2), beyond: false }
                        } else {
                            HistoryAction::Replace { dev, content: content(&mut dice) }
                        });
                    }
                    _ => {}
                }
                if losses && dice.one_in(3) {
                    // A number drawn blindly would seldom be that of the lost member.
                    actions.push(HistoryAction::Replace { dev: u8::MAX, content: content(&mut dice) });
                }
            }
            match dice.below(10) {
                0 => actions.push(HistoryAction::Drain),
                1 | 2 => actions.push(HistoryAction::Steps(dice.within(1, 40))),
                _ => actions.push(hot.request(&mut dice, &cell)),
            }
        }
        if cuts && losses {
            lose_and_cut(seed, members, &mut actions);
        }
        follow_runs(seed, &cell, &hot, &mut actions);
        overwrite_dirty(seed, &cell, &hot, (cuts, cache_losses), &mut actions);
        Self {
            seed,
            order: dice.pick(&[
                CompletionOrder::Random,
                CompletionOrder::Random,
                CompletionOrder::Random,
                CompletionOrder::Latency,
                CompletionOrder::Oldest,
            ]),
            compute_at_once: !dice.one_in(4),
            requests: dice.pick(&[1, 2, 4, 16]),
            cell,
            actions: (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect(),
        }
    }

    /// A history of so many requests, with steps in the order of issue and nothing going wrong but
    /// that a member may be lost before the first: to be cut everywhere.
    pub fn short(seed: u64, limits: &DrawLimits, requests: usize) -> Self {
        let mut history = Self::draw(seed, limits, 0);
        let mut dice = RandomDraws::part(seed, 1);
        let hot = HotRange::draw(&mut dice, &history.cell);
        // A short history is cut everywhere, so it has nothing random but its requests.
        let mut actions: Vec<HistoryAction> = Vec::new();
        if !limits.no_losses {
            let dev = dice.below(u64::from(history.cell.geometry.members())) as u8;
            // The loss is noted before the first request: the double-fault window is tried elsewhere.
            actions.extend([HistoryAction::Lose { dev, told: true, beyond: false }, HistoryAction::Drain]);
        }
        for _ in 0..requests {
            actions.push(hot.request(&mut dice, &history.cell));
            if dice.one_in(3) {
                actions.push(HistoryAction::Drain);
            }
        }
        history.actions = (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect();
        (history.order, history.compute_at_once, history.requests) = (CompletionOrder::Oldest, true, requests);
        history
    }
}

/// A misfortune of its own, in every third history with losses and cuts: a member is lost, the
/// power fails a few steps later, and the member is there again. Unless its loss was noted before
/// anything was acknowledged that relied on it, its old content is taken for the truth. Drawn on
/// its own, so that other histories stay what they are.
fn lose_and_cut(seed: u64, members: u8, actions: &mut Vec<HistoryAction>) {
    // A part of chance of its own leaves all other choices of the seed as they are.
    let mut dice = RandomDraws::part(seed, u64::MAX - 4);
    if !dice.one_in(3) {
        return;
    }
    for _ in 0..dice.within(1, 3) {
        let dev = dice.below(u64::from(members)) as u8;
        let lose = HistoryAction::Lose { dev, told: dice.one_in(2), beyond: false };
        let steps = HistoryAction::Steps(dice.within(1, 12));
        // The lost member answers after the crash, and its old content must not be believed.
        let back = HistoryAction::Cut { back: DevSet::one(Dev(dev)), gone: None };
        let at = dice.below(actions.len() as u64 + 1) as usize;
        actions.splice(at..at, [lose, steps, back]);
    }
}

/// Puts sequential runs into every third history: requests of as many pages each that follow each other, with others between
/// them or without, mostly where others go as well. They are drawn on their own, so that other histories stay what they are.
fn follow_runs(seed: u64, cell: &CrashCell, hot: &HotRange, actions: &mut Vec<HistoryAction>) {
    if !CrashCell::has_runs(seed) {
        return;
    }
    let mut dice = RandomDraws::part(seed, u64::MAX - 15);
    let chunk = u64::from(cell.geometry.chunk_pages());
    for _ in 0..dice.within(1, 4) {
        let pages = dice.pick(&[1, chunk, chunk, chunk, 2 * chunk, 2 * chunk, 3]).min(cell.geometry.data_pages());
        let (first, room) = if dice.one_in(4) {
            (0, cell.geometry.data_pages())
        } else {
            (hot.first / PAGE_SECTORS, hot.sectors / PAGE_SECTORS)
        };
        let Some(most) = std::num::NonZeroU64::new(room / pages) else { continue };
        let count = dice.within(2, 12).min(most.get());
        let first = first + dice.below(most.get() - count + 1) * pages;
        let reads = dice.one_in(6);
        let mut at = dice.below(actions.len() as u64 + 1) as usize;
        // With gaps other actions come between the requests of the run.
        let gaps = dice.one_in(4);
        for number in 0..count {
            let request = HistoryAction::Request {
                op: if reads { HostOp::Read } else { HostOp::Write },
                sector: (first + number * pages) * PAGE_SECTORS,
                sectors: pages * PAGE_SECTORS,
                fua: !reads && dice.one_in(12),
            };
            actions.insert(at, request);
            at += 1;
            if gaps {
                at += dice.below(3).min((actions.len() - at) as u64) as usize;
            }
        }
    }
}

/// Puts runs that pass the cache by, over pages that were just written, into every third history with a cutoff, and then what
/// must not find the older versions: flushes, reads and writes of the pages, a loss of the cache's device, steps and a cut. Drawn on their own as well.
fn overwrite_dirty(
    seed: u64,
    cell: &CrashCell,
    hot: &HotRange,
    (cuts, losses): (bool, bool),
    actions: &mut Vec<HistoryAction>,
) {
    let mut dice = RandomDraws::part(seed, u64::MAX - 16);
    if cell.cutoff == 0 || !dice.one_in(3) {
        return;
    }
    let request = |op: HostOp, page: u64, pages: u64| HistoryAction::Request {
        op,
        sector: page * PAGE_SECTORS,
        sectors: pages * PAGE_SECTORS,
        fua: false,
    };
    let write = |page, pages| request(HostOp::Write, page, pages);
    let flush = HistoryAction::Request { op: HostOp::Flush, sector: 0, sectors: 0, fua: false };
    let cutoff = cell.cutoff / PAGE as u64;
    let (start, room) = (hot.first / PAGE_SECTORS, hot.sectors / PAGE_SECTORS);
    for _ in 0..dice.within(1, 4) {
        let pages = dice.pick(&[1, 2, cutoff, room.div_ceil(4), room.div_ceil(2)]).min(room);
        let count = (room / pages).min(cutoff.div_ceil(pages) + dice.within(1, 6));
        let first = start + dice.below(room - count * pages + 1);
        let mut over = Vec::new();
        for number in 0..count {
            let page = first + number * pages;
            // Before the run is long enough its pages go into the cache, and are dirty when the rest passes by.
            if (number + 1) * pages >= cutoff {
                over.push(write(page + dice.below(pages), 1));
                over.extend(dice.one_in(3).then_some(flush));
                over.extend((!dice.one_in(4)).then(|| HistoryAction::Steps(dice.below(40))));
            }
            over.push(write(page, pages));
            over.extend(dice.one_in(6).then(|| write(first + dice.below((number + 1) * pages), 1)));
            over.extend(dice.one_in(3).then(|| request(HostOp::Read, page, pages.min(2))));
            over.extend(dice.one_in(6).then_some(flush));
            over.extend(dice.one_in(4).then(|| HistoryAction::Steps(dice.below(40))));
        }
        over.extend(dice.one_in(2).then_some(flush));
        let dev = cell.geometry.members();
        let lose = HistoryAction::Lose { dev, told: dice.one_in(2), beyond: false };
        over.extend((losses && dice.one_in(3)).then_some(lose));
        over.extend((cuts && dice.one_in(2)).then(|| HistoryAction::Steps(dice.below(40))));
        over.extend((cuts && !dice.one_in(3)).then_some(HistoryAction::Cut { back: DevSet::EMPTY, gone: None }));
        let at = dice.below(actions.len() as u64 + 1) as usize;
        actions.splice(at..at, over);
    }
}

/// Likewise of the device of a cache that holds what no member has, with a flush in between, which must not be
/// answered before the loss is noted.
pub(crate) fn lose_holder_and_cut(history: &mut CrashHistory) {
    let mut dice = RandomDraws::part(history.seed, u64::MAX - 9);
    if !dice.one_in(3) {
        return;
    }
    let dev = history.cell.geometry.members();
    let mut number = history.actions.iter().map(|action| action.number + 1).max().unwrap_or_default();
    for _ in 0..dice.within(1, 3) {
        let lose = HistoryAction::Lose { dev, told: dice.one_in(2), beyond: false };
        let flush = HistoryAction::Request { op: HostOp::Flush, sector: 0, sectors: 0, fua: false };
        let steps = HistoryAction::Steps(dice.within(1, 12));
        let back = HistoryAction::Cut { back: DevSet::one(Dev(dev)), gone: None };
        let at = dice.below(history.actions.len() as u64 + 1) as usize;
        let actions = [lose, flush, steps, back].map(|action| {
            number += 1;
            NumberedAction { number, action }
        });
        history.actions.splice(at..at, actions);
    }
}

fn content(dice: &mut RandomDraws) -> ReplacementContent {
    match dice.below(3) {
        0 => ReplacementContent::Zeros,
        1 => ReplacementContent::Garbage(dice.draw()),
        _ => ReplacementContent::Stale,
    }
}

/// Describes the range to which most requests go, so they meet.
struct HotRange {
    first: u64,
    sectors: u64,
    /// Of the sectors that a stripe has.
    stripe: u64,
}

impl HotRange {
    fn draw(dice: &mut RandomDraws, cell: &CrashCell) -> Self {
        let geometry = &cell.geometry;
        let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns()) * PAGE_SECTORS;
        let stripes = geometry.stripes();
        let count = dice.within(1, 3).min(stripes);
        let first = dice.below(stripes - count + 1);
        Self { first: first * stripe, sectors: count * stripe, stripe }
    }

    fn request(&self, dice: &mut RandomDraws, cell: &CrashCell) -> HistoryAction {
        let fua = dice.one_in(5);
        let op = match dice.below(20) {
            0..=4 => HostOp::Read,
            5 | 6 => HostOp::Flush,
            7 => HostOp::Discard,
            8 if cell.zeros_unmap() => HostOp::WriteZeroesUnmap,
            8 => HostOp::WriteZeroes,
            _ => HostOp::Write,
        };
        if op == HostOp::Flush {
            return HistoryAction::Request { op, sector: 0, sectors: 0, fua: false };
        }
        // Most requests keep to few stripes, since conflicts and folding need requests that overlap.
        let (first, room) = if dice.one_in(6) { (0, cell.sectors()) } else { (self.first, self.sectors) };
        let page = PAGE_SECTORS;
        let (sector, sectors) = match dice.below(8) {
            // Part of a page.
            0 | 1 => {
                let at = dice.below(room);
                (at, dice.within(1, page - at % page))
            }
            // Pages.
            2..=5 => {
                let at = dice.below(room / page) * page;
                (at, dice.within(1, 4) * page)
            }
            // A stripe.
            6 => {
                let at = dice.below(room / self.stripe) * self.stripe;
                (at, self.stripe)
            }
            // Anything.
            _ => {
                let at = dice.below(room);
                (at, dice.within(1, 2 * self.stripe))
            }
        };
        HistoryAction::Request {
            op,
            sector: first + sector,
            sectors: sectors.min(room - sector),
            fua: fua && op == HostOp::Write,
        }
    }
}

impl fmt::Display for CrashHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = &self.cell.geometry;
        write!(
            f,
            "seed {}: {} of {} members, chunk {}",
            self.seed,
            geometry.level(),
            geometry.members(),
            geometry.chunk_pages()
        )?;
        if let Some(layout) = geometry.layout() {
            write!(f, ", {layout}")?;
        }
        let CrashCell {
            regime,
            parity,
            max_open_rows,
            nv_slots,
            trims,
            rebuild_window,
            depth,
            max_pages,
            cache_pages,
            mode,
            cache_trims,
            cached_rows,
            cutoff,
            ..
        } = &self.cell;
        writeln!(
            f,
            ", {} pages a member, {regime:?}, {parity:?}, {max_open_rows} open rows, {nv_slots} slots, trims {trims}, idle {}, window \
             {rebuild_window}, depth {depth}, fragments of {max_pages}, cache of {cache_pages} in mode {mode}, trims {cache_trims}, runs of {cutoff} bytes past it, {cached_rows} rows in memory; {:?}, compute at once {}, {} requests at a time",
            geometry.member_pages(),
            self.cell.idle_flush,
            self.order,
            self.compute_at_once,
            self.requests
        )?;
        for NumberedAction { number, action } in &self.actions {
            writeln!(f, "  {number:>3} {action:?}")?;
        }
        Ok(())
    }
}
