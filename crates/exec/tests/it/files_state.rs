//! The NVRAM and the intents in their files: what was made durable is found again, torn writes are
//! told from damage, and damage is an error that names file and field.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use destage_exec::{ExistingFiles, FileExecutor, FilesConfig, FilesError};
use destage_plan::{Frag, HostOp, HostRequest, List, NvPut, NvSlot, Out, Row, Rows, Shape, Step, StepSet, Tag};
use destage_testkit::{ScriptedController, TestRng, folder, soak};
use proptest::prelude::*;

use crate::scribe::{
    self, Found, PAGE, PAGES, ROWS, Scribe, intent, intents, length, nvram, open, put, request, rows, serve, tag,
    whole_sectors,
};

const SECTOR: usize = 512;

/// Holds the content that must be found.
#[derive(Clone, Default)]
struct Model {
    /// The bytes of each slot in use.
    slots: BTreeMap<u64, Vec<u8>>,
    intents: Vec<bool>,
}

impl Model {
    fn new() -> Self {
        Self { slots: BTreeMap::new(), intents: vec![false; ROWS as usize] }
    }

    fn set(&mut self, page: u64, to: bool) {
        rows(page).iter().for_each(|row| self.intents[row.0 as usize] = to);
    }

    fn assert_found(&self, found: &Found) {
        let slots: Vec<_> = found.slots.iter().map(|(slot, tag)| (u64::from(slot.index), *tag)).collect();
        let of = |(page, bytes): (&u64, &Vec<u8>)| (*page, tag(*page, bytes.len() as u32));
        assert_eq!(slots, self.slots.iter().map(of).collect::<Vec<_>>());
        assert_eq!(bits(&found.intents), self.intents);
    }
}

impl Model {
    /// Of slots that this life found.
    fn assert_read(&self, files: &mut FileExecutor<Scribe>) {
        for (page, bytes) in &self.slots {
            let (read, kept) = (serve(files, request(HostOp::Read, *page), Vec::new()), whole_sectors(bytes));
            assert_eq!(read[..kept.len()], *kept);
        }
    }
}

fn bits(intents: &[Rows]) -> Vec<bool> {
    let mut bits = vec![false; ROWS as usize];
    intents.iter().flat_map(|rows| rows.iter()).for_each(|row| bits[row.0 as usize] = true);
    bits
}

/// Does something of all that can be done, here and in the model.
fn act(dice: &mut TestRng, files: &mut FileExecutor<Scribe>, model: &mut Model) {
    let page = dice.below(PAGES);
    match dice.below(6) {
        4 | 5 if page + 1 < PAGES => {
            let pages = dice.within(2, (PAGES - page).min(6));
            let data: Vec<u8> = (0..pages).flat_map(|_| dice.draw().to_le_bytes().repeat(PAGE as usize / 8)).collect();
            serve(files, HostRequest { len: pages * PAGE, ..request(HostOp::Write, page) }, data.clone());
            for (of, bytes) in (page..page + pages).zip(data.chunks(PAGE as usize)) {
                if model.slots.remove(&of).is_none() {
                    let len = length(of, page, pages as u16) as usize;
                    model.slots.insert(of, bytes[..len].to_vec());
                }
            }
        }
        0 => {
            intent(files, page, true);
            model.set(page, true);
        }
        1 => {
            intent(files, page, false);
            model.set(page, false);
        }
        _ if model.slots.remove(&page).is_some() => drop(serve(files, request(HostOp::Discard, page), Vec::new())),
        _ => {
            let bytes = dice.draw().to_le_bytes().repeat(PAGE as usize / 8);
            let fua = dice.below(3) == 0;
            serve(files, HostRequest { fua, ..request(HostOp::Write, page) }, bytes.clone());
            model.slots.insert(page, if fua { Vec::new() } else { bytes });
        }
    }
}

#[test]
fn what_was_done_is_found_in_the_next_life() {
    let lives = if soak() { 5_000 } else { 200 };
    let folder = folder();
    let mut files = scribe::create(folder.path());
    let mut model = Model::new();
    let mut dice = TestRng::new(1);
    for _ in 0..lives {
        for _ in 0..dice.below(12) {
            act(&mut dice, &mut files, &mut model);
        }
        drop(files);
        let found;
        (files, found) = open(folder.path()).expect("the array is there");
        model.assert_found(&found);
        model.assert_read(&mut files);
    }
}

#[test]
fn steps_take_effect_in_the_order_of_issue_at_every_depth() {
    for depth in 1..=3 {
        let folder = folder();
        let config = FilesConfig { depth, ..scribe::config(folder.path()) };
        // As many puts as the thread is given at a time; intents, which wait; and what clears them
        // again: issued when the first put is done and there is room, but after those that wait.
        let script = ScriptedController(move |frag: Frag, op, out: &mut Out| {
            let put = |index: usize, out: &mut Out| {
                let slot = NvSlot { index: index as u32, generation: 1 };
                let puts = out.puts(op, &[NvPut::tag(slot, tag(index as u64, 0))]);
                out.step(op, Step::NvCommit { puts, frees: List::EMPTY }, StepSet::EMPTY)
            };
            let first = put(0, out);
            let puts = (1..depth).fold(first, |puts, index| puts | put(index, out));
            let list = out.rows(op, &[rows(3)]);
            let set = out.step(op, Step::Intent { rows: list, set: true }, StepSet::EMPTY);
            let cleared = out.step(op, Step::Intent { rows: list, set: false }, first);
            out.step(op, Step::Ack { frag: frag.id, pages: 1, ok: true }, puts | set | cleared);
            out.close(op);
        });
        let mut files = FileExecutor::create(script, config, ExistingFiles::Refuse).expect("a new array");
        files.submit(request(HostOp::Flush, 0), Vec::new()).expect("a request in range");
        assert!(files.wait().expect("it is served").is_some_and(|completion| completion.ok));
        drop(files);
        let (_, found) = open(folder.path()).expect("the array is there");
        assert_eq!((found.slots.len(), &found.intents[..]), (depth, &[][..]), "at depth {depth}");
    }
}

/// Reads all files: NVRAM, intents and the device.
fn images(folder: &Path) -> [Vec<u8>; 3] {
    [nvram(folder), intents(folder), folder.join("dev0")].map(|path| fs::read(path).expect("the file is there"))
}

fn put_back(folder: &Path, images: &[Vec<u8>; 3]) {
    for (path, bytes) in [nvram(folder), intents(folder), folder.join("dev0")].iter().zip(images) {
        fs::write(path, bytes).expect("the file can be written");
    }
}

#[test]
fn a_step_that_is_torn_anywhere_is_done_or_not_and_stays_so() {
    let rounds = if soak() { 20_000 } else { 500 };
    let folder = folder();
    let mut files = scribe::create(folder.path());
    let mut model = Model::new();
    let mut dice = TestRng::new(2);
    let (mut torn_puts, mut torn_commits) = (0, 0);
    for _ in 0..rounds {
        let (before, old) = (images(folder.path()), model.clone());
        act(&mut dice, &mut files, &mut model);
        drop(files);
        let after = images(folder.path());
        let mut torn = before.clone();
        for (torn, after) in torn.iter_mut().zip(&after) {
            for (torn, after) in torn.chunks_mut(SECTOR).zip(after.chunks(SECTOR)) {
                if dice.below(2) == 0 {
                    torn.copy_from_slice(after);
                }
            }
        }
        put_back(folder.path(), &torn);
        let (reopened, found) = open(folder.path()).expect("a torn step is no damage");
        for (row, open) in bits(&found.intents).into_iter().enumerate() {
            assert!(open == old.intents[row] || open == model.intents[row], "row {row}");
        }
        let is_found = |model: &Model| {
            let of = |(page, bytes): (&u64, &Vec<u8>)| (*page, tag(*page, bytes.len() as u32));
            found.slots.iter().map(|(slot, tag)| (u64::from(slot.index), *tag)).eq(model.slots.iter().map(of))
        };
        if !is_found(&model) {
            assert!(is_found(&old), "the slots in use are those before the step or after it");
            let changed = |page: &u64| old.slots.get(page) != model.slots.get(page);
            let slots = (0..PAGES).filter(changed).count();
            torn_puts += u32::from(slots == 1 && old.slots.len() < model.slots.len() && torn[0] != before[0]);
            torn_commits += u32::from(slots > 1 && torn[0] != before[0]);
            model.slots = old.slots;
        }
        model.intents = bits(&found.intents);
        drop(reopened);
        let again;
        (files, again) = open(folder.path()).expect("what was torn is mended");
        assert_eq!(again, found);
        model.assert_read(&mut files);
    }
    assert!(torn_puts > rounds / 50 && torn_commits > rounds / 10, "torn: {torn_puts} puts, {torn_commits} commits");
}

/// An array with slots of all kinds and open intents; what was there before its last step: a commit that puts two slots
/// and frees three.
fn written(folder: &Path) -> Found {
    let mut files = scribe::create(folder);
    for page in 0..6 {
        put(&mut files, page, page as u8 + 1);
    }
    serve(&mut files, HostRequest { fua: true, ..request(HostOp::Write, 7) }, vec![0; PAGE as usize]);
    serve(&mut files, request(HostOp::Discard, 2), Vec::new());
    intent(&mut files, 6, true);
    intent(&mut files, 14, true);
    drop(files);
    let (mut files, before) = open(folder).expect("the array is there");
    serve(&mut files, HostRequest { len: 5 * PAGE, ..request(HostOp::Write, 4) }, vec![0x77; 5 * PAGE as usize]);
    before
}

/// As [`written`], and found by a start; what is there.
fn sample(folder: &Path) -> (Found, Found) {
    let before = written(folder);
    (open(folder).expect("the array is there").1, before)
}

/// A number of a file.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Sectors of the ring in these, of which the first round is not over: those of which the header says that all is there.
fn sealed(nvram: &[u8]) -> std::ops::Range<usize> {
    1 + number(nvram, 56, 8) as usize..1 + number(nvram, 64, 8) as usize
}

/// Damage of the header is an error; of other sectors it opens the intents of their rows, and is told.
#[test]
fn every_byte_of_the_intents_is_covered() {
    let folder = folder();
    let (found, _) = sample(folder.path());
    let whole = images(folder.path());
    for at in 0..whole[1].len() {
        let mut damaged = whole.clone();
        damaged[1][at] ^= 1 << (at % 8);
        put_back(folder.path(), &damaged);
        match open(folder.path()) {
            Err(FilesError::Field { path, .. }) if at < SECTOR => assert_eq!(path, intents(folder.path())),
            Ok((files, now)) if at >= SECTOR => {
                assert!(opens_more(&now, &found), "byte {at} is damaged: {now:?}");
                let told = files.damaged_intents().expect("it is told");
                let name = format!("{}: the ", intents(folder.path()).display());
                assert!(told.errors.len() == 1 && told.errors[0].starts_with(&name), "{told:?}");
                assert_eq!(
                    (told.rows, told.of),
                    (bits(&now.intents).iter().filter(|open| **open).count() as u64, ROWS)
                );
                // It is written anew.
                drop(files);
                let (files, again) = open(folder.path()).expect("it is whole");
                assert!(files.damaged_intents().is_none() && again == now, "{again:?}");
            }
            other => panic!("byte {at} is damaged: {:?}", other.map(|found| found.1)),
        }
    }
}

/// Returns true if both have the same slots, and `now` has at least the open intents of `than`.
fn opens_more(now: &Found, than: &Found) -> bool {
    let open = bits(&now.intents).into_iter().zip(bits(&than.intents));
    now.slots == than.slots && open.into_iter().all(|(now, before)| now || !before)
}

/// Checks that what was found is this, but for the bytes of slots that are told of as damaged; the others hold what they did.
fn assert_holds(
    files: &mut FileExecutor<Scribe>,
    now: &Found,
    found: &Found,
    content: &BTreeMap<u32, Vec<u8>>,
    what: &str,
) {
    assert_eq!((&now.slots, &now.intents), (&found.slots, &found.intents), "{what}");
    for (slot, bytes) in content.iter().filter(|(slot, _)| now.damaged.iter().all(|other| other.index != **slot)) {
        let read = serve(files, request(HostOp::Read, u64::from(*slot)), Vec::new());
        assert!(read[..bytes.len()] == *bytes, "{what}: slot {slot}");
    }
}

/// Returns the whole sectors of the bytes in each slot.
fn content(files: &mut FileExecutor<Scribe>, found: &Found) -> BTreeMap<u32, Vec<u8>> {
    let whole = |(slot, tag): &(NvSlot, Tag)| {
        let len = number(tag, 16, 4) as usize / 64 * 64;
        (slot.index, serve(files, request(HostOp::Read, u64::from(slot.index)), Vec::new())[..len].to_vec())
    };
    found.slots.iter().map(whole).collect()
}

/// Damages each byte: a start loses the bytes of one slot at most, says so, and still reads every table.
#[test]
fn every_byte_of_the_nvram_that_says_something_is_covered() {
    let folder = folder();
    let (found, _) = sample(folder.path());
    let whole = images(folder.path());
    let (mut files, again) = open(folder.path()).expect("the array is there");
    assert_eq!(again, found);
    let content = content(&mut files, &found);
    drop(files);
    let sealed = sealed(&whole[0]);
    assert!(sealed.len() > 15 && 2 * sealed.end * SECTOR < whole[0].len(), "{sealed:?}");
    let (mut damaged_slots, mut told, mut flips) = (0, 0, 0);
    for at in (0..whole[0].len()).step_by(if soak() { 1 } else { 47 }) {
        let mut damaged = whole.clone();
        damaged[0][at] ^= 1 << (at % 8);
        put_back(folder.path(), &damaged);
        let what = format!("byte {at}");
        let says = at < SECTOR || sealed.contains(&(at / SECTOR));
        let (mut files, now) = open(folder.path()).expect("one bit is not the end");
        assert_holds(&mut files, &now, &found, &content, &what);
        let report = files.damaged_nvram().cloned();
        assert!(now.damaged.len() <= usize::from(says && at >= SECTOR), "{what}: {now:?}");
        if let Some(report) = &report {
            let name = format!("{}: ", nvram(folder.path()).display());
            assert!(report.errors.len() == 1 && report.errors[0].starts_with(&name), "{what}: {report:?}");
            assert_eq!(report.slots, now.damaged.len() as u64, "{what}");
        }
        // Zeros behind a record say nothing, and the last one is a seal. Nor does anything behind that but the second header.
        let is_second = at >= whole[0].len() - SECTOR;
        assert!(report.is_none() || says || is_second, "{what}: {report:?}");
        assert!(now.damaged.is_empty() || report.is_some(), "{what}");
        flips += u32::from(says);
        damaged_slots += now.damaged.len() as u32;
        told += u32::from(report.is_some());
        drop(files);
        // What a record says of slots was restored; bytes that are damaged stay so.
        let (mut files, again) = open(folder.path()).expect("the array is there");
        assert_eq!(again, now, "{what}");
        assert_holds(&mut files, &again, &found, &content, &what);
        assert_eq!(files.damaged_nvram().is_some(), !now.damaged.is_empty(), "{what}");
    }
    assert!(told > flips / 3 && damaged_slots > flips / 8, "{told} and {damaged_slots} of {flips}");
}

/// Damages two records in a row: nobody knows what the first one said.
#[test]
fn an_nvram_of_which_nobody_knows_what_it_said_is_refused_by_name() {
    let folder = folder();
    sample(folder.path());
    let whole = images(folder.path());
    let first = sealed(&whole[0]).start * SECTOR;
    for (places, is_known) in [
        (&[first][..], true),
        (&[first, first + 2 * SECTOR], false),
        (&[0], true),
        (&[0, whole[0].len() - SECTOR], false),
    ] {
        let mut damaged = whole.clone();
        for at in places {
            damaged[0][at + 57] ^= 1;
        }
        put_back(folder.path(), &damaged);
        match open(folder.path()) {
            Ok((files, _)) => assert!(is_known && files.damaged_nvram().is_some(), "{places:?}"),
            Err(error) => {
                let named = matches!(&error, FilesError::DamagedNvram { path, .. } if *path == nvram(folder.path()));
                assert!(!is_known && named && error.to_string().contains("--accept-losses"), "{places:?}: {error}");
            }
        }
    }
}

/// The newest record is torn as far as anybody can know; one before it was durable when that was written.
#[test]
fn damage_since_the_last_start_is_told_from_a_torn_step() {
    let folder = folder();
    let before = written(folder.path());
    let one = images(folder.path());
    let newest = sealed(&one[0]).end;
    let (mut files, _) = open(folder.path()).expect("the array is there");
    put(&mut files, 12, 1);
    put(&mut files, 13, 1);
    drop(files);
    let two = images(folder.path());
    let (first, second) = (sealed(&two[0]).end, sealed(&two[0]).end + 2);
    let has = |found: &Found, page: u32| found.slots.iter().any(|(slot, _)| slot.index == page);
    for (whole, sector, was_durable) in [(&one, newest, false), (&two, first, true), (&two, second, false)] {
        // But for zeros behind what the record says.
        for at in (sector * SECTOR..sector * SECTOR + 640).step_by(7) {
            let mut damaged = whole.clone();
            damaged[0][at] ^= 1 << (at % 8);
            put_back(folder.path(), &damaged);
            let (files, now) = open(folder.path()).expect("one bit is not the end");
            if was_durable {
                assert!(has(&now, 12) && has(&now, 13) && files.damaged_nvram().is_some(), "byte {at}: {now:?}");
                assert!(now.damaged.iter().all(|slot| slot.index == 12), "byte {at}: {now:?}");
            } else if sector == newest {
                assert_eq!(now, before, "byte {at}");
            } else {
                assert!(!has(&now, 13) && now.damaged.is_empty(), "byte {at}: {now:?}");
            }
        }
    }
}

/// Demands that a write which an opening has not found never counts, even if it lies where the next record
/// ends.
#[test]
fn what_a_start_has_not_found_is_never_found() {
    let folder = folder();
    let mut files = scribe::create(folder.path());
    for page in 0..4 {
        put(&mut files, page, 7);
    }
    drop(files);
    let mut images = images(folder.path());
    // The second of four.
    images[0][3 * SECTOR..5 * SECTOR].fill(0);
    // As if none had been known to be durable.
    for record in [5, 7] {
        let bytes = &mut images[0][record * SECTOR..(record + 2) * SECTOR];
        bytes[40..48].fill(0);
        let crc = crc32c::crc32c(&bytes[8..88 + 40]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    put_back(folder.path(), &images);
    for count in 1..4 {
        let (mut files, found) = open(folder.path()).expect("the array is there");
        assert_eq!(found.slots.len(), count, "{:?}", found.slots);
        put(&mut files, 10 + count as u64, 8);
    }
}

/// Ways to damage a file.
#[derive(Clone, Debug)]
enum Damage {
    Fill { at: usize, len: usize, byte: u8 },
    Scramble { at: usize, len: usize, seed: u64 },
    Swap { a: usize, b: usize },
    Cut(usize),
    Grow(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || 0..40_000_usize;
    prop_oneof![
        (at(), 1..3000_usize, any::<u8>()).prop_map(|(at, len, byte)| Damage::Fill { at, len, byte }),
        (at(), 1..3000_usize, any::<u64>()).prop_map(|(at, len, seed)| Damage::Scramble { at, len, seed }),
        (0..80_usize, 0..80_usize).prop_map(|(a, b)| Damage::Swap { a, b }),
        at().prop_map(Damage::Cut),
        (1..3000_usize).prop_map(Damage::Grow),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let len = bytes.len();
    match *damage {
        Damage::Fill { at, len: count, byte } => {
            let at = at % len;
            bytes[at..(at + count).min(len)].fill(byte);
        }
        Damage::Scramble { at, len: count, seed } => {
            let at = at % len;
            let mut dice = TestRng::new(seed);
            bytes[at..(at + count).min(len)].iter_mut().for_each(|byte| *byte = dice.draw() as u8);
        }
        Damage::Swap { a, b } => {
            let sectors = len / SECTOR;
            let (a, b) = (a % sectors * SECTOR, b % sectors * SECTOR);
            for at in 0..SECTOR {
                bytes.swap(a + at, b + at);
            }
        }
        Damage::Cut(to) => bytes.truncate(to % len),
        Damage::Grow(by) => bytes.resize(len + by, 0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if soak() { 20_000 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn damage_is_an_error_that_names_the_file_or_changes_nothing(which in 0..2_usize, damage in damage()) {
        let folder = folder();
        let (found, before) = sample(folder.path());
        let mut images = images(folder.path());
        apply(&mut images[which], &damage);
        put_back(folder.path(), &images);
        let path = [nvram(folder.path()), intents(folder.path())][which].clone();
        match open(folder.path()) {
            Ok((files, now)) if files.damaged_intents().is_some() => {
                prop_assert!(which == 1 && opens_more(&now, &found), "{:?}", now);
            }
            Ok((files, now)) if files.damaged_nvram().is_some() => {
                prop_assert!(which == 0 && now.slots == found.slots && now.intents == found.intents, "{:?}", now);
            }
            Ok((_, now)) => prop_assert!(now == found || which == 0 && now == before, "{:?}", now),
            Err(
                error @ (FilesError::Field { .. }
                | FilesError::Size { .. }
                | FilesError::Missing(_)
                | FilesError::DamagedNvram { .. }),
            ) => {
                prop_assert!(error.to_string().contains(&path.display().to_string()), "{}", error);
            }
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn the_formats_are_as_described() {
    let folder = folder();
    sample(folder.path());
    let [nvram, intents, device] = images(folder.path());
    let sealed = |sector: &[u8]| assert_eq!(number(sector, 508, 4), u64::from(crc32c::crc32c(&sector[..508])));
    assert_eq!((&nvram[..8], &intents[..8]), (&b"dstgNVRM"[..], &b"dstgINTS"[..]));
    for (file, version) in [(&nvram, 7), (&intents, 4)] {
        assert_eq!((number(file, 8, 4), number(file, 12, 4)), (version, 512));
        assert_eq!(number(file, 16, 8), 0x0102_0304_0506_0708);
        sealed(&file[..SECTOR]);
    }
    assert_eq!((number(&nvram, 24, 4), number(&nvram, 28, 4), number(&nvram, 32, 4)), (PAGE, PAGES, 1));
    // All slots alone, twice the longest record, and room; a header before that and behind it.
    assert_eq!(nvram.len(), SECTOR * (2 + 16 * 3 + 2 * 20 + 2 * 16 * 2));
    assert_eq!(nvram[..SECTOR], nvram[nvram.len() - SECTOR..]);
    // Made, and opened twice; six puts, one more, a free, a seal, a commit of two puts and three frees, and a seal: of each
    // record its place and sectors, after which opening it was written, what was durable then, puts and frees.
    let long = length(6, 4, 5) + length(8, 4, 5);
    let last = (88 + 2 * 40 + 3 * 8 + u64::from(long)).div_ceil(512);
    let puts = (0..6).map(|page| (2 * page, 2, 1, 2 * page, 1, 0));
    let others = [
        (12, 1, 1, 12, 1, 0),
        (13, 1, 1, 13, 0, 1),
        (14, 1, 2, 14, 0, 0),
        (15, last, 2, 15, 2, 3),
        (15 + last, 1, 3, 15 + last, 0, 0),
    ];
    assert_eq!([56, 64, 72, 88].map(|at| number(&nvram, at, 8)), [0, 16 + last, 3, 15 + last]);
    let mut before = (0, 0, 0, Vec::new());
    for (place, sectors, opening, durable, puts, frees) in puts.chain(others) {
        let record = &nvram[SECTOR * (1 + place as usize)..][..SECTOR * sectors as usize];
        let table = 88 + 40 * puts as usize + 8 * frees as usize;
        assert_eq!((&record[..4], number(record, 4, 4)), (&b"jrnl"[..], u64::from(crc32c::crc32c(&record[8..table]))));
        assert_eq!([8, 32, 40, 48].map(|at| number(record, at, 8)), [place, opening, durable, sectors]);
        assert_eq!([56, 60].map(|at| number(record, at, 4)), [puts, frees]);
        assert_eq!(record[16..32], nvram[36..52]);
        assert_eq!(
            (number(record, 64, 8), number(record, 72, 4), number(record, 76, 4)),
            (before.0, before.1, before.2)
        );
        assert_eq!((number(record, 80, 4), number(record, 84, 4)), (u64::from(crc32c::crc32c(&before.3)), 0));
        let bytes: u64 = (0..puts as usize).map(|put| number(record, 88 + 40 * put + 8, 4)).sum();
        let end = table + bytes as usize;
        assert_eq!(record[end..][..before.3.len()], before.3);
        assert!(record[end + before.3.len()..].iter().all(|byte| *byte == 0));
        before = (place, puts, frees, record[88..table].to_vec());
    }
    let first = &nvram[SECTOR..3 * SECTOR];
    assert_eq!([88, 92, 96, 100].map(|at| number(first, at, 4)), [0, 1, PAGE, u64::from(crc32c::crc32c(&[1; 512]))]);
    assert_eq!((&first[104..128], &first[128..][..512]), (&tag(0, 512)[..], &[1; 512][..]));
    let last = &nvram[SECTOR * 16..];
    let slots = [88, 128].map(|at| [0, 4, 8].map(|field| number(last, at + field, 4)));
    assert_eq!(slots, [[6, 1, length(6, 4, 5).into()], [8, 1, length(8, 4, 5).into()]]);
    assert_eq!([168, 176, 184].map(|at| [number(last, at, 4), number(last, at + 4, 4)]), [[4, 1], [5, 1], [7, 1]]);
    assert_eq!(last[192..][..long as usize], vec![0x77; long as usize]);
    assert_eq!((number(&intents, 24, 8), intents.len()), (ROWS, 4 * SECTOR));
    // The event count: made, and started twice; no shutdown was clean.
    assert_eq!((number(&nvram, 80, 8), [308, 316].map(|at| number(&intents, at, 8))), (3, [3, 3]));
    for (place, numbers) in [(PAGE as usize + SECTOR, [3, 3]), (PAGE as usize + 2 * SECTOR, [2, 3])] {
        let record = &device[place..][..SECTOR];
        assert_eq!((&record[..8], number(record, 8, 4), number(record, 12, 4)), (&b"dstgEVNT"[..], 1, 0));
        assert_eq!((&record[16..32], [32, 40].map(|at| number(record, at, 8))), (&nvram[36..52], numbers));
        assert_eq!(number(record, 60, 4), u64::from(crc32c::crc32c(&record[..60])));
        assert!(record[48..60].iter().chain(&record[64..]).all(|byte| *byte == 0));
    }
    for (index, sector) in intents.chunks(SECTOR).skip(1).enumerate() {
        assert_eq!(number(sector, 0, 8), index as u64);
        sealed(sector);
        for bit in 0..3968 {
            let row = index * 3968 + bit;
            let open = [6, 14].iter().any(|page| rows(*page).contains(Row(row as u64)));
            assert_eq!(sector[8 + bit / 8] >> (bit % 8) & 1 != 0, open && row < ROWS as usize, "row {row}");
        }
    }
}

#[test]
fn files_of_another_array_or_shape_are_refused_by_name() {
    let folder = folder();
    sample(folder.path());
    let (nvram, intents) = (nvram(folder.path()), intents(folder.path()));
    let refused = |change: fn(&mut FilesConfig), file: &Path, message: &str| {
        let mut config = scribe::config(folder.path());
        change(&mut config);
        let error = FileExecutor::open(Scribe::new(&Arc::default()), config).expect_err("it is another");
        assert_eq!(error.to_string(), format!("{}{message}", file.display()));
    };
    refused(
        |config| config.array = 8,
        &nvram,
        " was made with array = 72623859790382856, as the array's number at byte 16 says; it cannot be opened with array = 8",
    );
    refused(
        |config| config.shape = Shape::new(2 * PAGE, 64, 1, 1, PAGES).expect("a shape that can be"),
        &nvram,
        " was made with page-bytes = 512, as the page's size at byte 24 says; it cannot be opened with page-bytes = 1024",
    );
    refused(
        |config| config.nv_slots += 1,
        &nvram,
        " was made with nv-slots = 16, as the number of slots at byte 28 says; it cannot be opened with nv-slots = 17",
    );
    refused(
        |config| config.devices.push(config.devices[0].clone()),
        &nvram,
        " was made with devices = 1, as the number of devices at byte 32 says; it cannot be opened with devices = 2",
    );
    for rows in [10_001, 20_000] {
        let mut config = scribe::config(folder.path());
        config.rows = rows;
        let error = FileExecutor::open(Scribe::new(&Arc::default()), config).expect_err("it has other rows");
        let message = "was made with rows = 10000, as the number of rows at byte 24 says; it cannot be opened with";
        assert_eq!(error.to_string(), format!("{} {message} rows = {rows}", intents.display()));
    }
    let whole = images(folder.path());
    let mut other = whole.clone();
    other[0][8] = 6;
    let crc = crc32c::crc32c(&other[0][..508]);
    other[0][508..512].copy_from_slice(&crc.to_le_bytes());
    put_back(folder.path(), &other);
    refused(
        |_| {},
        &nvram,
        " is of version 6, this destage reads version 7; serve it with the destage that wrote it, stop that in order (destage stop), \
         and move the file away: nothing is lost with it then",
    );
    other = whole.clone();
    other[1][..8].copy_from_slice(b"dstgNVRM");
    put_back(folder.path(), &other);
    refused(
        |_| {},
        &intents,
        ": the magic at byte 0 is \"dstgNVRM\"; it must be dstgINTS. Put the array's file there, or move this one away: it counts as \
         missing then",
    );
    for len in [78_847, 100] {
        other = whole.clone();
        other[0].truncate(len);
        put_back(folder.path(), &other);
        let message = format!(" is {len} bytes long; with nv-slots = 16 and page-bytes = 512 it must be 78848");
        refused(|_| {}, &nvram, &message);
    }
    // One whose making was cut short is none.
    for file in [0, 1] {
        other = whole.clone();
        other[file][..SECTOR].fill(0);
        put_back(folder.path(), &other);
        let missing = " does not exist; without it nobody knows which rows are consistent but for the members' marks";
        refused(|_| {}, [&nvram, &intents][file], missing);
    }
    other = whole;
    other[1].push(0);
    put_back(folder.path(), &other);
    refused(|_| {}, &intents, " is 2049 bytes long; with rows = 10000 it must be 2048");
}
