//! Compares the steps of the cache with those of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use destage_cache::{CacheFigure, ServedTier, host_cache, serve};
use destage_exec::{CrashRemains, ExecutorConduct, MemoryExecutor, NextStep, NoCheck};
use destage_plan::{Column, Control, Dev, Ext, HostNotice, HostOp, HostRequest, Issue, Row, Shape as Host, Step};
use destage_raid::Geometry;
use destage_raid::array::{DeltaPlace, PageDelta, RowSources, VersionDelta, VersionSource};
use destage_testkit::TestRng;

use super::{Bytes, Case, DrawnRequest, PAGE, SECTOR};
use crate::tier_model::counters::{self, Ask, Cause, Counters, For, Outcome, Place};
use crate::tier_model::kdd::Where;
use crate::tier_model::params::{Params, Shape};
use crate::tier_model::request::{FragmentKind, StripeFragment, pieces};
use crate::tier_model::sets::Slot;
use crate::tier_model::staging::Role;
use crate::tier_model::{Model, Op, State, build};

/// Cache and model side by side.
pub struct Pair {
    memory: MemoryExecutor<Box<dyn ServedTier>>,
    model: Box<dyn Model>,
    shape: Shape,
    geometry: Geometry,
    figures: &'static [CacheFigure],
    issued: Arc<Mutex<Vec<(Issue, Step)>>>,
    /// Commands of devices in flight, in the order of issue: of each the row that it cleans, if it does, and the first that
    /// its operation has claimed.
    flight: Vec<(Option<Row>, Option<Row>)>,
    /// Rows that the model cleans, in order.
    cleaned: Vec<u64>,
    /// All that were issued since the last comparison.
    recent: Vec<(Option<Row>, Step)>,
    bytes: Bytes,
    /// Slots of the NVRAM are told by the deltas in them.
    has_deltas: bool,
    cleans_stripes: bool,
    /// Pages of parity read and written between those of rows that were cleaned at a time.
    beside: [u64; 2],
    /// Dirty pages are on no member.
    is_back: bool,
    params: Params,
    /// The first page of the SSD that is a slot.
    first: u64,
    accesses: u64,
}

impl Pair {
    pub fn new(case: &Case) -> Self {
        let config = case.config();
        let geometry = config.geometry.clone();
        let Shape { k, m, chunk } = case.params.shape;
        let pages = geometry.data_pages();
        let host = Host::new(PAGE, SECTOR, k * chunk, k * chunk, pages).expect("a tiny array");
        let first = case.log_pages();
        let controller = serve(&case.cache, &config, first + case.params.pages).expect("a cache that can be");
        let members = (0..k + m).map(|_| geometry.member_pages());
        let devices = members.chain([first + case.params.pages]).map(|pages| (pages * PAGE) as usize);
        let mut memory = MemoryExecutor::prepare(controller, CrashRemains::fresh(devices), host, 1);
        let issued = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&issued);
        memory.set_tamper(Box::new(move |issue, step| {
            if step.dev().is_some() {
                list.lock().expect("nobody panics over it").push((issue, *step));
            }
            ExecutorConduct::Honest
        }));
        memory.begin();
        let mut pair = Self {
            memory,
            model: build(case.model(), case.params),
            shape: case.params.shape,
            geometry,
            figures: host_cache(case.name).expect("it is registered").figures,
            issued,
            flight: Vec::new(),
            cleaned: Vec::new(),
            recent: Vec::new(),
            bytes: Bytes::new(pages),
            has_deltas: case.name == "kdd",
            cleans_stripes: case.params.clean_stripes,
            beside: [0; 2],
            is_back: case.name == "write-back",
            params: case.params,
            first,
            accesses: 0,
        };
        pair.settle();
        pair
    }

    /// Pages of the array.
    pub fn pages(&self) -> u64 {
        self.geometry.data_pages()
    }

    /// Evictions, accesses without room in their set, rows cleaned, pages of deltas, those with one delta
    /// that is no shorter than a page.
    pub fn seen(&self) -> [u64; 5] {
        let counters = self.model.counters();
        let raw = self.figure("raw").unwrap_or_default();
        [counters.evictions, counters.shortages, counters.cleaned, counters.deltas, raw]
    }

    /// Returns what the model has counted.
    pub fn counters(&self) -> Counters {
        self.model.counters()
    }

    /// Returns true if the cache cleans nothing while it serves the request; neither reading says what it would clean.
    /// Requires that no parity or member is stale or becomes stale, or that all sets have room for the request and the
    /// thresholds are far. Modes beyond the paper serve single pages only.
    pub fn has_room(&self, request: DrawnRequest) -> bool {
        let fragments = self.outline(request);
        let pages: BTreeSet<u64> = fragments.into_iter().flat_map(|fragment| fragment.pages).collect();
        let (count, state) = (pages.len() as u64, self.model.state());
        let owing = |slot: &&Slot| !matches!(slot, Slot::Free | Slot::Clean(_));
        let owed = state.slots.iter().filter(owing).count() as u64;
        if self.is_back && request.op == HostOp::Discard {
            return false;
        }
        let is_beyond_paper = self.params.delay_misses || self.params.keep_clean;
        if self.params.dirty_high == 0 || request.op == HostOp::Read && owed == 0 && !is_beyond_paper && !self.is_back {
            return true;
        }
        if is_beyond_paper || count <= 1 && !self.is_back {
            return !is_beyond_paper;
        }
        let all = state.slots.len() as u64;
        let deltas = if self.has_deltas { count } else { 0 };
        let rows: BTreeSet<u64> = pages.iter().map(|&page| self.shape.row(page)).collect();
        let has_set_room = |(set, slots): (u64, &[Slot])| {
            let is_room = |slot: &&Slot| match slot {
                Slot::Free => true,
                Slot::Clean(page) => !self.is_back && !rows.contains(&self.shape.row(*page)),
                _ => false,
            };
            let needed = pages.iter().filter(|page| self.params.set(**page) == set).count() as u64 + deltas;
            slots.iter().filter(is_room).count() as u64 >= needed
        };
        (owed + 2 * count) * 100 <= self.params.dirty_high * all
            && owed + 3 * count + 2 <= all
            && (0..).zip(state.slots.chunks(self.params.set_pages() as usize)).all(has_set_room)
    }

    /// Serves a request by both, and compares them.
    pub fn serve(&mut self, request: DrawnRequest, dice: &mut TestRng) -> Result<(), String> {
        let DrawnRequest { op, offset, len } = request;
        self.accesses += 1;
        let tag = self.accesses;
        let fragments = self.fragments(request, dice);
        let bytes = self.newest(request);
        let mut asked = Outcome::default();
        for fragment in &fragments {
            let is_page = fragment.pages.len() == 1 && !fragment.is_part;
            asked.extend(match fragment.kind {
                FragmentKind::Read if is_page => self.model.access(Op::Read, fragment.pages[0], None),
                FragmentKind::Write if is_page => {
                    let page = fragment.pages[0];
                    self.model.access(Op::Write, page, fragment.deltas.get(&page).copied())
                }
                _ => self.model.serve(fragment),
            });
        }
        self.cleaned = cleaned_by(&asked);
        let data = if matches!(op, HostOp::Write) { &bytes[..] } else { &[] };
        self.memory.submit(HostRequest { tag, op, offset, len, fua: false }, data).expect("a request in range");
        self.settle();
        let at = |why| format!("{request:?}, in {fragments:?}: {why}");
        let mut answered = false;
        while let Some(notice) = self.memory.next_notice() {
            let HostNotice::Acked { tag, ok, .. } = notice else { continue };
            answered = ok;
            if op == HostOp::Read && self.memory.request_bytes(tag) != bytes {
                return Err(at("wrong bytes".to_owned()));
            }
        }
        if !answered {
            return Err(at("it is not answered".to_owned()));
        }
        let state = self.compare(&asked).map_err(at)?;
        let rows: BTreeSet<u64> = fragments.iter().flat_map(|of| &of.pages).map(|page| self.shape.row(*page)).collect();
        rows.into_iter().try_for_each(|row| self.compare_row(row, &state)).map_err(at)
    }

    /// Cuts a request into fragments, without deltas.
    fn outline(&self, DrawnRequest { op, offset, len }: DrawnRequest) -> Vec<StripeFragment> {
        let kind = match op {
            HostOp::Read => FragmentKind::Read,
            HostOp::Write => FragmentKind::Write,
            HostOp::WriteZeroes | HostOp::WriteZeroesUnmap => FragmentKind::Zero,
            HostOp::Discard => FragmentKind::Trim,
            HostOp::Flush => return Vec::new(),
        };
        let stripe = |page| self.shape.stripe(self.shape.row(page));
        let mut fragments: Vec<StripeFragment> = Vec::new();
        for page in offset / PAGE..(offset + len).div_ceil(PAGE) {
            let is_part = covers(offset, len, page) != (0..PAGE);
            if kind == FragmentKind::Trim && is_part {
                continue;
            }
            let goes_on =
                |last: &&mut StripeFragment| !is_part && !last.is_part && stripe(last.pages[0]) == stripe(page);
            match fragments.last_mut().filter(goes_on) {
                Some(last) => last.pages.push(page),
                None => fragments.push(StripeFragment { kind, pages: vec![page], is_part, deltas: BTreeMap::new() }),
            }
        }
        fragments
    }

    /// Applies a request to the bytes. Returns its fragments with their deltas, for the model.
    fn fragments(&mut self, request: DrawnRequest, dice: &mut TestRng) -> Vec<StripeFragment> {
        let mut fragments = self.outline(request);
        for fragment in &mut fragments {
            let whole_rows =
                pieces(self.shape, fragment).concat().into_iter().filter(|row| row.len() as u64 == self.shape.k);
            let trimmed: Vec<u64> = whole_rows.flatten().collect();
            for &page in &fragment.pages {
                let bytes = covers(request.offset, request.len, page);
                match fragment.kind {
                    FragmentKind::Write => drop(fragment.deltas.insert(page, self.bytes.change(page, bytes, dice))),
                    FragmentKind::Zero => self.bytes.clear(page, bytes),
                    FragmentKind::Trim if trimmed.contains(&page) => self.bytes.clear(page, bytes),
                    FragmentKind::Read | FragmentKind::Trim => {}
                }
            }
        }
        fragments
    }

    /// Returns the newest bytes of what a request covers.
    fn newest(&self, DrawnRequest { offset, len, .. }: DrawnRequest) -> Vec<u8> {
        let byte = |at: u64| self.bytes.newest[(at / PAGE) as usize][(at % PAGE) as usize];
        (offset..offset + len).map(byte).collect()
    }

    /// Nothing is asked for long: all rows are cleaned.
    pub fn idle(&mut self) -> Result<(), String> {
        let asked = self.model.clean_all();
        self.cleaned = cleaned_by(&asked);
        while self.memory.engine().controller().stale_rows() > 0 {
            if self.memory.run(NextStep::Earliest, &NoCheck).expect("it goes on").is_none()
                && self.memory.engine().next_timer().is_none()
            {
                return Err("idle, and rows stay stale".to_owned());
            }
            self.settle();
        }
        self.compare_cleaned("idle", &asked)
    }

    /// All rows are cleaned because that is ordered.
    pub fn clean(&mut self) -> Result<(), String> {
        let asked = self.model.stop();
        self.cleaned = cleaned_by(&asked);
        self.memory.control(Control::Clean);
        self.settle();
        if !self.is_back && self.memory.nvram().slots().next().is_some() {
            return Err("clean, and something is in the NVRAM".to_owned());
        }
        self.compare_cleaned("clean", &asked)
    }

    fn compare_cleaned(&mut self, what: &str, asked: &Outcome) -> Result<(), String> {
        self.compare(asked).map(|_| ()).map_err(|why| format!("{what}: {why}"))
    }

    fn note_issues(&mut self) {
        let issued = std::mem::take(&mut *self.issued.lock().expect("nobody panics over it"));
        for (Issue { op, .. }, step) in issued {
            let engine = self.memory.engine();
            let first = |claim: destage_plan::Claim| self.geometry.row(claim.stripe, claim.first);
            let claim = engine.claim(op);
            let cleans = claim.filter(|claim| engine.request_of(op).is_none() && !claim.w.is_empty()).map(first);
            self.flight.push((cleans, claim.map(first)));
            self.recent.push((cleans, step));
        }
    }

    /// Lets all end but timers, and what cleans last: that of an access begins when its row is found to be behind, but
    /// does not change what the access finds. Rows that are cleaned at the same time end in the model's order, and pieces
    /// of a request in that of their rows, after what they have given to the cache.
    fn settle(&mut self) {
        self.note_issues();
        while self.memory.runnable() > 0 {
            // Behind the commands of devices is what the NVRAM does next.
            let mut at = self.flight.len();
            if at == self.memory.runnable() {
                let place = |row: Row| self.cleaned.iter().position(|other| *other == row.0).unwrap_or(usize::MAX);
                let order = |(cleans, row): (Option<Row>, _)| (cleans.map(place), row);
                at = (0..at).min_by_key(|at| order(self.flight[*at])).expect("something is in flight");
                self.flight.remove(at);
            }
            self.memory.run(NextStep::At(at), &NoCheck).expect("the controller goes on");
            self.note_issues();
        }
    }

    /// Returns the commands to members and SSD since the last call, in the model's terms.
    fn asked(&mut self) -> Vec<Ask> {
        let (mut asks, mut seen) = (Vec::new(), BTreeSet::new());
        for (cleans, step) in std::mem::take(&mut self.recent) {
            let (reads, ext) = match step {
                Step::Read { ext, .. } => (true, ext),
                Step::Write { ext, .. } | Step::WriteList { ext, .. } => (false, ext),
                _ => continue,
            };
            for page in (0..).take(ext.pages().into()) {
                asks.extend(self.ask(reads, Ext::new(ext.dev(), ext.first() + page, 1), cleans, &mut seen));
            }
        }
        asks
    }

    /// One of them; none if a row that is cleaned has it already: where it is read again for the next of its
    /// deltas, that is the array's.
    fn ask(&self, reads: bool, ext: Ext, cleans: Option<Row>, seen: &mut BTreeSet<(Row, u64)>) -> Option<Ask> {
        if ext.dev() == Dev(self.geometry.members()) {
            let place = Place::Slot(ext.first() - self.first);
            return match reads {
                true if cleans.is_some_and(|row| !seen.insert((row, ext.first()))) => None,
                true => Some(Ask::SsdRead { place, cause: Cause::Data }),
                false => Some(Ask::SsdWrite { place, cause: Cause::Data }),
            };
        }
        let row = ext.first();
        let (stripe, _) = self.geometry.stripe_of(Row(row));
        let column = match self.geometry.column(stripe, ext.dev()) {
            column if column == self.geometry.p_column() => counters::Column::P,
            column if column == self.geometry.q_column() => counters::Column::Q,
            column => counters::Column::Data(column.index() as u64),
        };
        Some(if reads { Ask::MemberRead { column, row } } else { Ask::MemberWrite { column, row } })
    }

    /// Both have done the same since the last comparison; what the model holds.
    fn compare(&mut self, outcome: &Outcome) -> Result<State, String> {
        let mut asked = self.asked();
        let without_cause = |ask| match ask {
            Ask::SsdRead { place, .. } => Some(Ask::SsdRead { place, cause: Cause::Data }),
            Ask::SsdWrite { cause: Cause::Metadata, .. } | Ask::PutDelta { .. } | Ask::PutEntry { .. } => None,
            Ask::SsdWrite { place, .. } => Some(Ask::SsdWrite { place, cause: Cause::Data }),
            member => Some(member),
        };
        let mut by_model: Vec<Ask> = outcome.asks().filter_map(without_cause).collect();
        // While deltas are packed they can be had from the NVRAM, so that what cleans at once need not read them
        // again.
        let written = |ask| match ask {
            Ask::SsdWrite { place, cause: Cause::Delta } => Some(place),
            _ => None,
        };
        let packed: BTreeSet<Place> = outcome.asks().filter_map(written).collect();
        let read_back = |ask: &Ask| matches!(ask, Ask::SsdRead { place, .. } if packed.contains(place));
        asked.retain(|ask| !read_back(ask));
        by_model.retain(|ask| !read_back(ask));
        // What both ask is left out.
        by_model.retain(|ask| match asked.iter().position(|other| other == ask) {
            Some(at) => {
                asked.swap_remove(at);
                false
            }
            None => true,
        });
        // Parity between that of rows that are cleaned at a time goes with theirs.
        let of_parity = |ask: &Ask| match ask {
            Ask::MemberRead { column, .. } | Ask::MemberWrite { column, .. } => {
                !matches!(column, counters::Column::Data(_))
            }
            _ => false,
        };
        if self.cleans_stripes {
            for ask in asked.extract_if(.., |ask| of_parity(ask)) {
                self.beside[usize::from(matches!(ask, Ask::MemberWrite { .. }))] += 1;
            }
        }
        same("asked beside what both ask", &asked, &by_model)?;
        let (served, counters) = (self.memory.engine().controller(), self.model.counters());
        let counts = served.counts().expect("they are counted");
        let misses = [counters.reads - counters.read_hits, counters.writes - counters.write_hits];
        same("hits", &[counts.read_hits, counts.write_hits], &[counters.read_hits, counters.write_hits])?;
        same("misses", &[counts.read_misses, counts.write_misses], &misses)?;
        same(
            "written after misses, by writes, with deltas and by cleaning",
            &[counts.read_fills, counts.write_fills, counts.delta_writes, counts.clean_writes],
            &[counters.fills, counters.data, counters.deltas, counters.cleaning],
        )?;
        if !self.is_back {
            // What that writes back is no parity that was left for later.
            let stats = served.array().stats();
            same(
                "pages of members read and written to clean",
                &[stats.late_data_reads, stats.late_parity_reads, stats.late_parity_writes],
                &[
                    counters.late_data_reads,
                    counters.late_parity_reads + self.beside[0],
                    counters.late_parity_writes + self.beside[1],
                ],
            )?;
        }
        for (name, by_model) in
            [("staged", counters.staged), ("cleaned_rows", counters.cleaned), ("written_back", counters.cleaned)]
        {
            same(name, &self.figure(name).unwrap_or(by_model), &by_model)?;
        }
        if self.has_deltas {
            // Else it writes with parity where the model cleans: the cases are to be roomy enough.
            same("without room for deltas", &self.figure("no_room"), &Some(counters.crowded))?;
        }
        let state = self.model.state();
        assert!(!state.log_full, "the model's log has room");
        let dirty: BTreeSet<u64> = dirty_of(&state).map(|page| self.shape.row(page)).collect();
        same("stale rows", &served.stale_rows(), &(state.stale.len() + dirty.len()))?;
        let bare = state.pages.iter().filter(|(_, held)| held.slot.is_none()).map(|(page, _)| *page);
        let old: BTreeSet<u64> = old_of(&state).chain(bare).collect();
        for page in 0..self.pages() {
            if !old.contains(&page) {
                self.bytes.covered[page as usize] = self.bytes.newest[page as usize];
            }
            // What is kept with a delta that the parity covers stays what it was.
            if state.pages.get(&page).is_none_or(|held| held.covered.is_none()) {
                self.bytes.base[page as usize] = self.bytes.covered[page as usize];
            }
        }
        Ok(state)
    }

    fn figure(&self, name: &str) -> Option<u64> {
        let at = self.figures.iter().position(|figure| figure.name == name)?;
        Some(self.memory.engine().controller().figures()[at])
    }

    /// The cache says of a row what the model holds, and the members hold what they must.
    fn compare_row(&self, row: u64, state: &State) -> Result<(), String> {
        let sources = self.memory.engine().controller().sources(Row(row));
        let ext = |slot| Ext::new(Dev(self.geometry.members()), self.first + slot, 1);
        let slots = slots_of(state);
        let is_stale = state.stale.contains(&row);
        for (column, page) in (0..).map(Column).zip(self.shape.pages(row)) {
            let slot = slots.get(&page).map(|&slot| ext(slot));
            let at_member = VersionSource::Member;
            let (mut newest, mut covered) =
                (slot.map_or(at_member, VersionSource::Page), slot.map_or(at_member, VersionSource::Page));
            let what = slot.map(|ext| state.slots[(ext.first() - self.first) as usize]);
            match (what, state.pages.get(&page)) {
                (Some(Slot::Old(_)), Some(held)) => {
                    let VersionSource::Delta(said) = sources.newest(column) else {
                        return Err(format!("the newest of page {page} is {:?}", sources.newest(column)));
                    };
                    newest = self.made(said, held.newest, Role::Newest, page, state)?;
                    let base = said.base;
                    self.makes(
                        &self.page(base.dev(), base.first()),
                        change(said),
                        &self.bytes.newest[page as usize],
                        false,
                    )?;
                    if held.covered.is_some() {
                        covered = self.covered(&sources, column, held.covered, page, state)?;
                    }
                }
                (Some(Slot::Clean(_)), Some(held)) if held.covered.is_some() && is_stale => {
                    covered = self.covered(&sources, column, held.covered, page, state)?;
                    newest = covered;
                }
                (None, Some(held)) if held.newest.is_some() => {
                    let VersionSource::Before(said) = sources.covered(column) else {
                        return Err(format!("what is covered of page {page} is {:?}", sources.covered(column)));
                    };
                    covered = VersionSource::Before(self.delta(said, held.newest, Role::Newest, page, state)?);
                    self.makes(&self.bytes.newest[page as usize], said, &self.bytes.covered[page as usize], true)?;
                }
                (Some(Slot::New(_)), _) => {
                    let old = state.slots.iter().position(|slot| *slot == Slot::Old(page));
                    covered = old.map_or(at_member, |old| VersionSource::Page(ext(old as u64)));
                }
                _ => {}
            }
            if what == Some(Slot::Dirty(page)) {
                covered = at_member;
            } else if !is_stale {
                (newest, covered) = (at_member, at_member);
            }
            same("where the newest is", &sources.newest(column), &newest)?;
            same("what the parity covers", &sources.covered(column), &covered)?;
        }
        self.check_row(row)
    }

    /// Returns the source of the version that the parity covers of a page that is made with a delta.
    fn covered(
        &self,
        sources: &RowSources,
        column: Column,
        at: Option<Where>,
        page: u64,
        state: &State,
    ) -> Result<VersionSource, String> {
        let VersionSource::Delta(said) = sources.covered(column) else {
            return Err(format!("what is covered of page {page} is {:?}", sources.covered(column)));
        };
        let (base, covered) = (self.page(said.base.dev(), said.base.first()), &self.bytes.covered[page as usize]);
        self.makes(&base, change(said), covered, false)?;
        self.made(said, at, Role::Covered, page, state)
    }

    /// A page that is made with a delta of what is in its slot.
    fn made(
        &self,
        said: PageDelta,
        at: Option<Where>,
        role: Role,
        page: u64,
        state: &State,
    ) -> Result<VersionSource, String> {
        let slot = slots_of(state)[&page];
        let base = Ext::new(Dev(self.geometry.members()), self.first + slot, 1);
        let VersionDelta { place, offset, len } = self.delta(change(said), at, role, page, state)?;
        Ok(VersionSource::Delta(PageDelta { base, place, offset, len }))
    }

    /// Returns the place of an old page's delta. In the NVRAM it must be in the slot that the cache names.
    fn delta(
        &self,
        said: VersionDelta,
        at: Option<Where>,
        role: Role,
        page: u64,
        state: &State,
    ) -> Result<VersionDelta, String> {
        Ok(match (at, said.place) {
            (Some(Where::Ssd(at)), _) => {
                let ext = Ext::new(Dev(self.geometry.members()), at.slot, 1);
                VersionDelta { place: DeltaPlace::Page(ext), offset: at.offset, len: at.len }
            }
            (Some(Where::Staged), DeltaPlace::Nv(_)) => {
                let staged = state
                    .staged
                    .iter()
                    .find(|staged| staged.page == page && staged.role == role)
                    .expect("it is staged");
                VersionDelta { place: said.place, offset: 0, len: staged.len }
            }
            _ => return Err(format!("the delta of page {page} is {said:?}, by the model {at:?}")),
        })
    }

    /// A delta makes one page of another. Of a page that is kept as it was it may be the new page itself.
    fn makes(&self, base: &[u8], delta: VersionDelta, expected: &[u8], alone: bool) -> Result<(), String> {
        let bytes = match delta.place {
            DeltaPlace::Page(ext) => self.page(ext.dev(), ext.first()),
            DeltaPlace::Nv(slot) => self.memory.view().slot(slot).to_vec(),
        };
        let bytes = &bytes[delta.offset as usize..(delta.offset + delta.len) as usize];
        let mut made = [0; PAGE as usize];
        let decoded = if alone && bytes.len() == made.len() {
            (made.iter_mut().zip(base).zip(bytes)).for_each(|((made, base), byte)| *made = base ^ byte);
            true
        } else {
            destage_delta::decode(base, bytes, &mut made).is_ok()
        };
        if decoded && made == expected { Ok(()) } else { Err(format!("{delta:?} makes something else")) }
    }

    fn page(&self, dev: Dev, page: u64) -> Vec<u8> {
        self.memory.view().page(dev, page).expect("no device is lost").to_vec()
    }

    /// Members hold the newest data of a row, or what the parity covers of dirty pages, and the parity of what it
    /// covers.
    fn check_row(&self, row: u64) -> Result<(), String> {
        let (stripe, _) = self.geometry.stripe_of(Row(row));
        let on = |column: u64| self.page(self.geometry.device(stripe, Column(column as u8)), row);
        for (column, page) in self.shape.pages(row).enumerate() {
            let held = if self.is_back { &self.bytes.covered } else { &self.bytes.newest };
            if on(column as u64) != held[page as usize] {
                return Err(format!("row {row}, column {column} is not what was written"));
            }
        }
        let covered = self.shape.pages(row).map(|page| &self.bytes.covered[page as usize][..]);
        for (parity, column) in Bytes::parity(covered).iter().zip(self.shape.k..self.shape.k + self.shape.m) {
            if on(column) != parity {
                return Err(format!("row {row}: column {column} is not the parity of what it covers"));
            }
        }
        Ok(())
    }

    /// All rows, and all that is in the SSD.
    pub fn check_all(&self) -> Result<(), String> {
        self.model.check();
        let (state, bytes) = (self.model.state(), &self.bytes);
        for row in 0..self.geometry.member_pages() {
            self.compare_row(row, &state)?;
        }
        for (number, slot) in (0..).zip(&state.slots) {
            let expected = match *slot {
                Slot::Free | Slot::Delta(_) => continue,
                Slot::New(page) | Slot::Dirty(page) => bytes.newest[page as usize],
                Slot::Clean(page) | Slot::Old(page) => bytes.base[page as usize],
            };
            if self.page(Dev(self.geometry.members()), self.first + number) != expected {
                return Err(format!("slot {number}, {slot:?}, has something else"));
            }
        }
        Ok(())
    }
}

/// Returns the bytes of a page that a request covers.
fn covers(offset: u64, len: u64, page: u64) -> Range<u64> {
    let at = |byte: u64| byte.clamp(page * PAGE, (page + 1) * PAGE) - page * PAGE;
    at(offset)..at(offset + len)
}

/// The rows that the model has cleaned, in order.
fn cleaned_by(outcome: &Outcome) -> Vec<u64> {
    let phases = outcome.phases.iter().filter(|phase| phase.of == For::CleanWrites);
    let row = |ask: &Ask| if let Ask::MemberWrite { row, .. } = ask { Some(*row) } else { None };
    phases.flat_map(|phase| phase.asks.iter().filter_map(row)).collect()
}

const fn change(delta: PageDelta) -> VersionDelta {
    VersionDelta { place: delta.place, offset: delta.offset, len: delta.len }
}

/// Pages of which the parity covers an older version.
fn old_of(state: &State) -> impl Iterator<Item = u64> {
    let old = |slot: &Slot| if let Slot::Old(page) | Slot::Dirty(page) = slot { Some(*page) } else { None };
    state.slots.iter().filter_map(old)
}

/// Pages that are newer than what their members have.
fn dirty_of(state: &State) -> impl Iterator<Item = u64> {
    state.slots.iter().filter_map(|slot| if let Slot::Dirty(page) = slot { Some(*page) } else { None })
}

/// By page the slot with what the cache finds it by: its newest version, or the base of that.
fn slots_of(state: &State) -> BTreeMap<u64, u64> {
    let mut slots = BTreeMap::new();
    for (number, slot) in (0..).zip(&state.slots) {
        match *slot {
            Slot::New(page) => drop(slots.insert(page, number)),
            Slot::Clean(page) | Slot::Old(page) | Slot::Dirty(page) => drop(slots.entry(page).or_insert(number)),
            Slot::Free | Slot::Delta(_) => {}
        }
    }
    slots
}

fn same<T: PartialEq + Debug>(what: &str, cache: &T, model: &T) -> Result<(), String> {
    if cache == model { Ok(()) } else { Err(format!("{what}: {cache:?}, by the model {model:?}")) }
}
