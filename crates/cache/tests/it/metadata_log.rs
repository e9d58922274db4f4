//! The metadata log beside a naive model: after any operations, with any page torn, what a replay
//! finds is what was durable.

use std::collections::{BTreeMap, VecDeque};

use destage_cache::metadata_log::{
    DeltaPlace, FrameFact, LogEntry, LogPage, LogReplay, LogShape, MetadataLog, ReplayedLog,
};
use destage_plan::{NvSlot, PageChecksum};
use proptest::prelude::*;

const FRAMES: u32 = 40;
const ARRAY_PAGES: u64 = 50;

/// Names the remains of a page's write after a crash.
#[derive(Clone, Copy, Debug)]
enum Left {
    Nothing,
    /// So many bytes, and of the rest what was there before, or something else.
    Torn(prop::sample::Index, bool),
    All,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// An entry is put, in the NVRAM or not.
    Put(u32, FrameFact, bool),
    /// A commit is planned that puts an entry, and frees the slot of the one before.
    Plan(u32, FrameFact),
    /// The commit that was planned first is done, or is not.
    Commit(bool),
    Seal,
    Written,
    Failed(Left),
    /// The power is cut; the slots that were to be freed are, or are not, and the log goes on with
    /// another limit.
    Cut(Left, bool, prop::sample::Index),
}

fn lefts() -> impl Strategy<Value = Left> {
    prop_oneof![
        Just(Left::Nothing),
        (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, kept)| Left::Torn(at, kept)),
        Just(Left::All),
    ]
}

fn facts(page_bytes: u32) -> impl Strategy<Value = FrameFact> {
    let offsets = 0..page_bytes as u16 - 9;
    let delta = (0..FRAMES, offsets, 1..10_u16).prop_map(|(frame, offset, len)| DeltaPlace { frame, offset, len });
    let checksum = any::<u32>().prop_map(PageChecksum::from_number);
    (0..5, 0..ARRAY_PAGES, prop::option::of(delta), checksum).prop_map(|(state, page, delta, checksum)| match state {
        0 => FrameFact::Free,
        1 => FrameFact::Clean { page, checksum },
        2 => FrameFact::Old { page, delta },
        3 => FrameFact::New { page },
        _ => FrameFact::Dirty { page, checksum },
    })
}

/// Operations of which a share, in quarters, goes through the NVRAM.
fn ops(page_bytes: u32, frames: u32, nvram: u32) -> impl Strategy<Value = Vec<Op>> {
    let frame = move || 0..frames;
    let put = (frame(), facts(page_bytes), 0..4_u32).prop_map(move |(f, fact, at)| Op::Put(f, fact, at < nvram));
    let plan = (frame(), facts(page_bytes))
        .prop_map(move |(frame, fact)| if nvram == 0 { Op::Put(frame, fact, false) } else { Op::Plan(frame, fact) });
    let cut =
        (lefts(), any::<bool>(), any::<prop::sample::Index>()).prop_map(|(l, freed, usage)| Op::Cut(l, freed, usage));
    let op = prop_oneof![
        20 => put,
        1 + 2 * nvram => plan,
        1 + 2 * nvram => prop::bool::weighted(0.8).prop_map(Op::Commit),
        8 => Just(Op::Seal),
        8 => Just(Op::Written),
        1 => lefts().prop_map(Op::Failed),
        1 => cut,
    ];
    prop::collection::vec(op, 0..300)
}

fn shapes() -> impl Strategy<Value = LogShape> {
    (3..9_u32, 1..6_u32, any::<prop::sample::Index>()).prop_map(|(pages, entries, usage)| LogShape {
        page_bytes: 128,
        pages,
        usage_max: 1 + usage.index(pages as usize - 2) as u32,
        entries,
        frames: FRAMES,
        array_pages: ARRAY_PAGES,
    })
}

/// The entries of frames that are not free.
type State = BTreeMap<u32, LogEntry>;

fn in_use(state: &State) -> State {
    state.iter().filter(|(_, entry)| entry.fact != FrameFact::Free).map(|(frame, entry)| (*frame, *entry)).collect()
}

fn learn(state: &mut State, entry: LogEntry) {
    if state.get(&entry.frame).is_none_or(|known| known.sequence <= entry.sequence) {
        state.insert(entry.frame, entry);
    }
}

struct Machine {
    log: MetadataLog,
    disk: Vec<Vec<u8>>,
    nvram: BTreeMap<u32, LogEntry>,
    /// To be freed by the next commit.
    free: Vec<NvSlot>,
    slots: u32,
    planned: VecDeque<(LogEntry, Option<NvSlot>)>,
    /// Holds the fact that was put under each frame and sequence.
    facts: BTreeMap<(u32, u64), FrameFact>,
    /// The newest entries that were put; those that are durable.
    newest: State,
    durable: State,
    /// The page that is being written, and its bytes.
    flying: Option<(u32, Vec<u8>)>,
    /// Entries of a page that was written although it failed.
    landed: Vec<LogEntry>,
}

impl Machine {
    fn new(shape: LogShape) -> Self {
        let disk = vec![vec![0; shape.page_bytes as usize]; shape.pages as usize];
        Self {
            log: MetadataLog::new(shape).expect("a shape"),
            disk,
            nvram: BTreeMap::new(),
            free: Vec::new(),
            slots: 0,
            planned: VecDeque::new(),
            facts: BTreeMap::new(),
            newest: State::new(),
            durable: State::new(),
            flying: None,
            landed: Vec::new(),
        }
    }

    fn make(&mut self, frame: u32, fact: FrameFact) -> LogEntry {
        let sequence = self.log.next_sequence();
        self.facts.insert((frame, sequence), fact);
        LogEntry { frame, sequence, fact }
    }

    fn slot(&mut self, entry: LogEntry) -> NvSlot {
        self.slots += 1;
        self.nvram.insert(self.slots, entry);
        NvSlot { index: self.slots, generation: 1 }
    }

    fn free(&mut self) {
        for slot in self.free.drain(..) {
            assert!(self.nvram.remove(&slot.index).is_some(), "{slot:?} is freed twice");
        }
    }

    fn put(&mut self, entry: LogEntry, slot: Option<NvSlot>) {
        learn(&mut self.newest, entry);
        if slot.is_some() {
            learn(&mut self.durable, entry);
        }
        self.free.extend(self.log.put(entry, slot));
    }

    fn run(&mut self, op: Op) -> Result<(), TestCaseError> {
        let is_planned = |machine: &Self, frame| machine.planned.iter().any(|(entry, _)| entry.frame == frame);
        match op {
            Op::Put(frame, fact, nvram) if !is_planned(self, frame) => {
                let entry = self.make(frame, fact);
                let slot = nvram.then(|| {
                    self.free();
                    self.slot(entry)
                });
                self.put(entry, slot);
            }
            Op::Plan(frame, fact) if !is_planned(self, frame) => {
                let (superseded, entry) = (self.log.supersede(frame), self.make(frame, fact));
                self.planned.push_back((entry, superseded));
            }
            Op::Commit(done) => match self.planned.pop_front() {
                Some((entry, superseded)) if done => {
                    self.free.extend(superseded);
                    self.free();
                    let slot = self.slot(entry);
                    self.put(entry, Some(slot));
                }
                Some((entry, _)) => self.log.keep(entry.frame),
                None => {}
            },
            Op::Seal => {
                self.free();
                let mut bytes = vec![9; 7];
                match self.log.seal(&mut bytes) {
                    Ok(Some(slot)) => self.flying = Some((slot, bytes)),
                    Ok(None) => {}
                    Err(_) => {
                        let LogShape { entries, usage_max, .. } = *self.log.shape();
                        prop_assert!(in_use(&self.newest).len() >= (entries * usage_max) as usize, "not all hold");
                    }
                }
            }
            Op::Written => {
                if let Some((slot, bytes)) = self.flying.take() {
                    self.log.sealed().for_each(|entry| learn(&mut self.durable, *entry));
                    self.disk[slot as usize] = bytes;
                    self.landed.clear();
                    let facts = &self.facts;
                    self.log.written(|frame, sequence| facts[&(frame, sequence)], &mut self.free);
                }
            }
            Op::Failed(left) => {
                if let Some((slot, _)) = self.flying {
                    (self.disk, self.landed) = self.left(left);
                    self.flying = None;
                    self.log.failed(&mut self.free);
                    let readable = LogPage::read(&self.disk[slot as usize]).is_ok();
                    prop_assert!(readable || !matches!(left, Left::All));
                }
            }
            Op::Cut(left, freed, usage) => {
                if freed {
                    self.free();
                }
                let (mut expected, found) = self.replay(left, usage.index(self.disk.len() - 2) as u32 + 1)?;
                // What the log has forgotten of a free frame it need not know: nothing older of it is left, so
                // that sequences may come again.
                expected.retain(|frame, entry| {
                    entry.fact != FrameFact::Free || found.log.sequence_of(*frame) == Some(entry.sequence)
                });
                self.disk = self.left(left).0;
                (self.newest, self.durable) = (expected.clone(), expected);
                (self.log, self.free) = (found.log, found.free);
                self.planned.clear();
                self.flying = None;
                self.landed.clear();
            }
            Op::Put(..) | Op::Plan(..) => {}
        }
        let LogShape { pages, entries, .. } = *self.log.shape();
        prop_assert!(self.log.usage() <= u64::from(pages) - 2, "{} pages are in use", self.log.usage());
        prop_assert!(self.log.sealed().len() <= entries as usize);
        Ok(())
    }

    /// The pages after the write that is under way was cut, and the entries of the one after the
    /// newest that is durable, if it can be read.
    fn left(&self, left: Left) -> (Vec<Vec<u8>>, Vec<LogEntry>) {
        let mut disk = self.disk.clone();
        let Some((slot, bytes)) = &self.flying else { return (disk, self.landed.clone()) };
        let page = &mut disk[*slot as usize];
        let before = page.clone();
        match left {
            Left::Nothing => {}
            Left::All => page.clone_from(bytes),
            Left::Torn(at, kept) => {
                let at = at.index(page.len() + 1);
                page[..at].copy_from_slice(&bytes[..at]);
                if !kept {
                    page[at..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(5) ^ 0x3c);
                }
            }
        }
        let landed = if *page == *bytes {
            self.log.sealed().copied().collect()
        } else if *page == before {
            self.landed.clone()
        } else {
            Vec::new()
        };
        (disk, landed)
    }

    /// Returns the state that must hold after a crash, and the result of a replay, which was compared with it.
    fn replay(&self, left: Left, usage_max: u32) -> Result<(State, ReplayedLog), TestCaseError> {
        let (disk, landed) = self.left(left);
        let mut expected = self.durable.clone();
        for entry in landed.iter().copied() {
            learn(&mut expected, entry);
        }
        let mut replay = LogReplay::new(LogShape { usage_max, ..*self.log.shape() }).expect("a shape");
        // Any order will do.
        for (number, page) in (0..disk.len() as u32).zip(&disk).rev() {
            replay.page(number, page).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        for (slot, entry) in &self.nvram {
            replay.nvram(NvSlot { index: *slot, generation: 1 }, *entry).expect("an entry of this cache");
        }
        let found = replay.end().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let entries: State = found.entries().map(|entry| (entry.frame, entry)).collect();
        prop_assert_eq!(in_use(&entries), in_use(&expected));
        prop_assert_eq!(found.log.next_page(), self.log.next_page() + u64::from(!landed.is_empty()));
        let newest = expected.values().filter(|entry| entry.fact != FrameFact::Free).map(|entry| entry.sequence).max();
        prop_assert!(newest.is_none_or(|newest| newest <= found.log.last_sequence()));
        prop_assert!(found.log.usage() <= u64::from(self.log.shape().pages) - 2);
        Ok((expected, found))
    }
}

fn cases() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 100_000 } else { 600 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn a_replay_finds_what_was_durable_at_every_point(
        (shape, nvram, ops) in (shapes(), 0..5_u32, 1..=FRAMES).prop_flat_map(|(shape, nvram, frames)|
            (Just(shape), Just(nvram), ops(shape.page_bytes, frames, nvram))),
        torn in any::<prop::sample::Index>(),
    ) {
        let mut machine = Machine::new(shape);
        for op in ops {
            machine.run(op)?;
            let usage_max = machine.log.shape().usage_max;
            for left in [Left::Nothing, Left::Torn(torn, true), Left::Torn(torn, false), Left::All] {
                machine.replay(left, usage_max)?;
                if machine.flying.is_none() {
                    break;
                }
            }
            if nvram == 4 {
                prop_assert_eq!(in_use(&machine.durable), in_use(&machine.newest), "all of it is in the NVRAM or the log");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_page_are_refused_and_never_believed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), entries in 0..3_u16,
    ) {
        prop_assert!(LogPage::read(&bytes).is_err());
        // With a header that is right.
        if bytes.len() >= 16 {
            bytes[..4].copy_from_slice(b"ML\x01\0");
            bytes[14..16].copy_from_slice(&entries.to_le_bytes());
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..]);
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            for entry in LogPage::read(&bytes).iter().flat_map(LogPage::entries).flatten() {
                prop_assert!(bytes.windows(22).any(|window| window == entry.encode()));
            }
        }
    }
}
