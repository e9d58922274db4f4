//! Which rows may be inconsistent, as every member says it itself: what is left to go by when the NVRAM or the intents
//! are lost.
//!
//! A mark stands for some rows that follow each other. It is durable on every member that answers before the intent of
//! one of its rows is, and so before anything of that row is written; it is taken back late, many at a time, when more
//! than may be have no open row, so that rows that are written again and again cost nothing, also where each write ends
//! before the next. Marks are never fewer than intents. Beside them is what else only the NVRAM and the intents know: which file is which device's, which
//! members are not filled, whether the NVRAM has what is nowhere else.
//!
//! Each member has two copies, which are written in turn, each time as a whole: a write that is cut costs the copy that
//! nobody relies on any more. All members are written the same, with one sequence number; the next write begins when all
//! of them have ended. So the copy with the largest number on any member that is the array's says all that counts.
//!
//! ```text
//! copy c, behind the label at the next multiple of a page, and c times the bytes of a copy
//!   0   8  "dstgMARK"
//!   8   4  version, 1
//!  12   4  bytes of a copy: the bits' end, rounded up to pages
//!  16  16  drawn when the array was made
//!  32   8  sequence number; that of copy c is c modulo 2
//!  40   8  rows
//!  48   4  rows of a mark, a power of two
//!  52   4  epoch: how often the NVRAM and the intents were made anew after a loss
//!  56   4  bit 0: the NVRAM may hold what is nowhere else. Bit 1: it has notes of pages that are lost. Others: 0
//!  60   4  0
//!  64   8  members that are lost or not filled, a bit each
//!  72   8  0
//!  80 256  of each of 64 devices the generation of its file, as in the roster (`label.rs`)
//! 336 172  0
//! 508   4  CRC-32C of bytes 0 .. 508 and of all bytes from 512 to the end of the copy
//! 512   n  a bit for each mark: of mark m, bit m mod 8 of byte m / 8; behind the last one 0
//! ```

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{Condition, Dev, DevSet, Row, Rows};

use super::label::MAX_DEVICES;
use super::os::OsFile;
use super::sectors::{Reader, SECTOR, Sector, put};
use super::{FilesConfig, FilesError};
use crate::{Buffer, Handle, RowSet};

const MAGIC: [u8; 8] = *b"dstgMARK";
const VERSION: u32 = 1;
/// Where the generations begin and end.
const GENERATIONS: Range<usize> = 80..336;
/// Where the checksum is.
const CRC: usize = 508;
/// Where the bits begin.
const BITS: usize = SECTOR;
/// Marks at most: with what is before them they are one page of 4 KiB.
const MOST: u64 = (4096 - BITS as u64) * 8;
/// The NVRAM may hold what is nowhere else.
const HOLDS: u32 = 1;
/// The NVRAM has notes of pages that are lost.
const NOTES: u32 = 2;
/// Times that intents are cleared until a mark goes whose rows were all closed at the first of them.
const LINGERS: u32 = 2;

/// How many marks there are, and of how many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ground {
    rows: u64,
    per_mark: u32,
    copy: u32,
}

impl Ground {
    /// For so many rows, with so many to a mark at least, in pages of so many bytes.
    pub(super) fn new(rows: u64, finest: u32, page_bytes: u64) -> Self {
        let mut per_mark = u64::from(finest.max(1)).next_power_of_two();
        while rows.div_ceil(per_mark) > MOST {
            per_mark *= 2;
        }
        let bits = rows.div_ceil(per_mark).div_ceil(8);
        let copy = (BITS as u64 + bits).next_multiple_of(page_bytes) as u32;
        Self { rows, per_mark: per_mark as u32, copy }
    }

    const fn marks(&self) -> u64 {
        self.rows.div_ceil(self.per_mark as u64)
    }

    /// Bytes of both copies.
    pub(super) const fn bytes(&self) -> u64 {
        2 * self.copy as u64
    }

    fn of(&self, rows: Rows) -> Range<usize> {
        let per_mark = u64::from(self.per_mark);
        (rows.first.0 / per_mark) as usize..rows.end().0.div_ceil(per_mark) as usize
    }

    fn rows_of(&self, mark: u64) -> Rows {
        let first = mark * u64::from(self.per_mark);
        Rows::new(Row(first), u64::from(self.per_mark).min(self.rows - first) as u32)
    }
}

/// What a copy says beside its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Of all arrays.
    pub(super) drawn: [u8; 16],
    /// How often the NVRAM and the intents were made anew.
    pub(super) epoch: u32,
    /// Whether the NVRAM may hold what is nowhere else.
    pub(super) holds: bool,
    /// What the controller says of the array.
    pub(super) condition: Condition,
    /// The files' generations.
    pub(super) generations: [u32; MAX_DEVICES],
}

/// A copy that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its number.
    pub(super) sequence: u64,
    /// What it says.
    pub(super) head: Head,
    /// The rows of its marks.
    pub(super) rows: RowSet,
    /// How many marks these are.
    pub(super) marks: u64,
}

impl Found {
    /// Whether another copy was written later. Of two with one number, which different starts may have written that were
    /// cut short, that counts which knows of more losses.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        let known = |found: &Self| found.head.generations.iter().map(|one| u64::from(*one)).sum::<u64>();
        (self.sequence, known(self)) < (other.sequence, known(other))
    }
}

fn encode(ground: Ground, sequence: u64, head: &Head, bits: &[u8], into: &mut [u8]) {
    into.fill(0);
    let flags = if head.holds { HOLDS } else { 0 } | if head.condition.losses { NOTES } else { 0 };
    put(into, 0, &MAGIC);
    put(into, 8, &VERSION.to_le_bytes());
    put(into, 12, &ground.copy.to_le_bytes());
    put(into, 16, &head.drawn);
    put(into, 32, &sequence.to_le_bytes());
    put(into, 40, &ground.rows.to_le_bytes());
    put(into, 48, &ground.per_mark.to_le_bytes());
    put(into, 52, &head.epoch.to_le_bytes());
    put(into, 56, &flags.to_le_bytes());
    put(into, 64, &head.condition.unfilled.bits().to_le_bytes());
    for (at, generation) in GENERATIONS.step_by(4).zip(&head.generations) {
        put(into, at, &generation.to_le_bytes());
    }
    put(into, BITS, bits);
    let crc = checksum(into);
    put(into, CRC, &crc.to_le_bytes());
}

fn checksum(copy: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&copy[..CRC]), &copy[BITS..])
}

/// Reads a copy; none if it is torn or was never written. One that is whole and cannot be this array's is an error.
fn decode(ground: Ground, path: &Path, offset: u64, copy: &[u8]) -> Result<Option<Found>, FilesError> {
    let sector: &Sector = copy[..SECTOR].try_into().expect("a copy is longer than a sector");
    let reader = Reader::new(path, offset, sector);
    if sector[..8] != MAGIC || reader.u32(CRC) != checksum(copy) {
        return Ok(None);
    }
    reader.exactly("the version of marks", 8, reader.u32(8), VERSION)?;
    reader.exactly("the bytes of a copy of the marks", 12, reader.u32(12), ground.copy)?;
    reader.setting("rows", "the number of rows", 40, reader.u64(40), ground.rows)?;
    reader.exactly("the rows of a mark", 48, reader.u32(48), ground.per_mark)?;
    for (field, at, found, end) in [
        ("the sequence number of the marks", 32, reader.u64(32), 1 << 63),
        ("the epoch of the marks", 52, reader.u32(52).into(), 1 << 31),
    ] {
        if found >= end {
            return Err(reader.wrong(field, at, found, format_args!("below {end}")));
        }
    }
    let flags = reader.u32(56);
    if flags > HOLDS | NOTES {
        return Err(reader.wrong("the flags of the marks", 56, flags, "0 to 3"));
    }
    reader.exactly("a reserved field", 60, reader.u32(60), 0)?;
    reader.exactly("a reserved field", 72, reader.u64(72), 0)?;
    if let Some(at) = (GENERATIONS.end..CRC).find(|at| sector[*at] != 0) {
        return Err(reader.wrong("a reserved byte", at, sector[at], 0));
    }
    let marks = ground.marks();
    let (mut rows, mut count) = (RowSet::default(), 0);
    for (at, byte) in copy[BITS..].iter().enumerate().filter(|(_, byte)| **byte != 0) {
        for mark in (0..8).filter(|bit| byte >> bit & 1 != 0).map(|bit| at as u64 * 8 + bit) {
            if mark >= marks {
                return Err(reader.wrong("the bit of a mark", BITS + at, mark, format!("below {marks}")));
            }
            rows.set(ground.rows_of(mark), true);
            count += 1;
        }
    }
    let numbers = sector[GENERATIONS].as_chunks().0;
    let head = Head {
        drawn: sector[16..32].try_into().expect("sixteen bytes"),
        epoch: reader.u32(52),
        holds: flags & HOLDS != 0,
        condition: Condition { unfilled: DevSet::from_bits(reader.u64(64)), losses: flags & NOTES != 0 },
        generations: std::array::from_fn(|dev| u32::from_le_bytes(numbers[dev])),
    };
    Ok(Some(Found { sequence: reader.u64(32), head, rows, marks: count }))
}

/// The newest copy that a device has; the inner error if it cannot be read.
pub(super) fn newest(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
) -> Result<std::io::Result<Option<Found>>, FilesError> {
    let ground = config.ground();
    let mut newest: Option<Found> = None;
    let mut copy = vec![0; ground.copy as usize];
    for number in 0..2 {
        let offset = config.marks_offset(dev) + number * u64::from(ground.copy);
        if let Err(error) = file.read_exact_at(&mut copy, offset) {
            return Ok(Err(error));
        }
        let Some(found) = decode(ground, &config.devices[dev].path, offset, &copy)? else { continue };
        if newest.as_ref().is_none_or(|newest| newest.sequence < found.sequence) {
            newest = Some(found);
        }
    }
    Ok(Ok(newest))
}

/// The marks of an array that is served.
pub(super) struct Marks {
    ground: Ground,
    /// Members that have them; without any there are none.
    members: DevSet,
    /// The number of the last write that was begun.
    sequence: u64,
    /// What is to be.
    wanted: Image,
    /// What is durable on all members that answer.
    durable: Image,
    /// What is being written.
    sent: Image,
    /// Members at which that has not ended, and of these those that were not given it so far.
    under_way: DevSet,
    waiting: DevSet,
    /// Something is to be written as soon as can be.
    is_due: bool,
    /// Of each mark the intents of its rows that were asked for and are not durable so far.
    held: Vec<u32>,
    /// When its last row was opened, in times that intents were cleared.
    opened: Vec<u32>,
    clears: u32,
    /// Marks of which no row was open when that was looked at, each once.
    idle: Vec<u32>,
    /// Whether a mark is among them.
    is_idle: Vec<bool>,
    /// As many of them may stay.
    most_idle: usize,
    bytes: Handle,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    head: Head,
    bits: Vec<u8>,
}

impl Image {
    fn has(&self, mark: usize) -> bool {
        self.bits[mark / 8] >> (mark % 8) & 1 != 0
    }

    fn set(&mut self, mark: usize, to: bool) {
        let bit = 1 << (mark % 8);
        if to {
            self.bits[mark / 8] |= bit;
        } else {
            self.bits[mark / 8] &= !bit;
        }
    }
}

impl Marks {
    /// Marks as a start leaves them: of these rows, after the write with this number, which is still to be made.
    pub(super) fn new(config: &FilesConfig, head: &Head, open: &RowSet, sequence: u64) -> Self {
        let ground = config.ground();
        let marks = ground.marks() as usize;
        let mut wanted = Image { head: *head, bits: vec![0; marks.div_ceil(8)] };
        for rows in open.ranges() {
            ground.of(rows).for_each(|mark| wanted.set(mark, true));
        }
        // Those of a start, too, go when there are many.
        let is_idle: Vec<bool> = (0..marks).map(|mark| wanted.has(mark)).collect();
        Self {
            ground,
            members: DevSet::first(config.members as u32),
            sequence,
            durable: wanted.clone(),
            sent: wanted.clone(),
            wanted,
            under_way: DevSet::EMPTY,
            waiting: DevSet::EMPTY,
            is_due: false,
            held: vec![0; marks],
            opened: vec![0; marks],
            clears: 0,
            idle: (0..marks as u32).filter(|mark| is_idle[*mark as usize]).collect(),
            is_idle,
            most_idle: config.idle_marks as usize,
            bytes: Arc::new(Buffer::zeroed(ground.copy as usize)),
        }
    }

    /// The write that a start makes of them, before anything is served.
    pub(super) fn first_write(&self) -> Buffer {
        let mut copy = Buffer::zeroed(self.ground.copy as usize);
        encode(self.ground, self.sequence, &self.durable.head, &self.durable.bits, &mut copy);
        copy
    }

    /// Where the last write that was begun goes, behind the place of all copies.
    pub(super) fn place(&self) -> u64 {
        self.sequence % 2 * u64::from(self.ground.copy)
    }

    /// Whether there are any.
    const fn is_on(&self) -> bool {
        !self.members.is_empty()
    }

    /// These files are the devices'.
    pub(super) fn name(&mut self, generations: &[u32; MAX_DEVICES]) {
        self.wanted.head.generations = *generations;
        self.is_due |= self.is_on();
    }

    /// This is how the array is, as its controller has it.
    pub(super) fn note(&mut self, condition: Condition) {
        if self.wanted.head.condition != condition {
            self.wanted.head.condition = condition;
            self.is_due |= self.is_on();
        }
    }

    /// Intents of these rows are asked for.
    pub(super) fn open(&mut self, rows: Rows) {
        for mark in self.ground.of(rows) {
            self.held[mark] += 1;
            self.opened[mark] = self.clears;
            if !self.wanted.has(mark) {
                self.wanted.set(mark, true);
                self.is_due |= self.is_on();
            }
        }
    }

    /// They are durable.
    pub(super) fn opened(&mut self, rows: Rows) {
        self.ground.of(rows).for_each(|mark| self.held[mark] -= 1);
    }

    /// Intents were cleared; those of `open` are still open.
    pub(super) fn closed(&mut self, cleared: &[Rows], open: &RowSet) {
        self.clears = self.clears.wrapping_add(1);
        for mark in cleared.iter().flat_map(|rows| self.ground.of(*rows)) {
            if !self.is_idle[mark] && !open.holds_any(self.ground.rows_of(mark as u64)) {
                self.is_idle[mark] = true;
                self.idle.push(mark as u32);
            }
        }
        if self.idle.len() > self.most_idle {
            self.take_back(open);
        }
    }

    /// Marks go of which no row is open, nor was for some time.
    fn take_back(&mut self, open: &RowSet) {
        let (mut idle, mut gone) = (std::mem::take(&mut self.idle), 0);
        idle.retain(|&mark| {
            let at = mark as usize;
            let is_idle = self.held[at] == 0 && !open.holds_any(self.ground.rows_of(mark.into()));
            let stays = is_idle && self.clears.wrapping_sub(self.opened[at]) < LINGERS;
            if is_idle && !stays {
                self.wanted.set(at, false);
                gone += 1;
            }
            self.is_idle[at] = stays;
            stays
        });
        self.idle = idle;
        self.is_due |= gone > 0 && self.is_on();
    }

    /// After a clean stop: nothing is open, and the NVRAM has nothing that is nowhere else, unless it does.
    pub(super) fn end(&mut self, holds: bool) {
        self.wanted.bits.fill(0);
        self.wanted.head.holds = holds;
        self.is_due = self.is_on() && self.wanted != self.durable;
    }

    /// Whether a write is under way, or is to be made.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_due || !self.under_way.is_empty()
    }

    /// Whether a write is to be made, and can be begun.
    pub(super) const fn can_begin(&self) -> bool {
        self.is_due && self.under_way.is_empty()
    }

    /// Members that are lost or not filled as the marks have it: those that are durable, or those that are being written.
    pub(super) fn unfilled(&self) -> DevSet {
        self.durable.head.condition.unfilled | self.sent.head.condition.unfilled
    }

    /// Whether what is said beside the marks is durable.
    pub(super) fn is_noted(&self) -> bool {
        !self.is_on() || self.durable.head == self.wanted.head
    }

    /// Whether the marks of these rows are durable, and stay.
    pub(super) fn cover(&self, rows: &[Rows]) -> bool {
        let writes = !self.under_way.is_empty();
        let is_there = |mark| self.durable.has(mark) && (!writes || self.sent.has(mark));
        !self.is_on() || rows.iter().all(|rows| self.ground.of(*rows).all(is_there))
    }

    /// Begins a write to the members among these if one is due and none is under way.
    pub(super) fn begin(&mut self, answering: DevSet) {
        if !self.is_due || !self.under_way.is_empty() {
            return;
        }
        self.is_due = false;
        self.sequence += 1;
        self.sent.clone_from(&self.wanted);
        if Arc::get_mut(&mut self.bytes).is_none() {
            // A device that hangs has them still.
            self.bytes = Arc::new(Buffer::zeroed(self.ground.copy as usize));
        }
        let bytes = Arc::get_mut(&mut self.bytes).expect("nobody else has them");
        encode(self.ground, self.sequence, &self.sent.head, &self.sent.bits, bytes);
        self.under_way = self.members & answering;
        self.waiting = self.under_way;
        self.settle();
    }

    /// Devices that were not given the write under way.
    pub(super) const fn waiting(&self) -> DevSet {
        self.waiting
    }

    /// Its bytes, for a device that waits for them.
    pub(super) fn give(&mut self, dev: Dev) -> Handle {
        self.waiting.remove(dev);
        Arc::clone(&self.bytes)
    }

    /// The write has ended at a device, or never will.
    pub(super) fn ended(&mut self, dev: Dev) {
        if self.under_way.contains(dev) {
            self.under_way.remove(dev);
            self.waiting.remove(dev);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.under_way.is_empty() {
            self.durable.clone_from(&self.sent);
        }
    }
}
