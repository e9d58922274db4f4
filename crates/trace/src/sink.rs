//! Collects parsed requests: the batch, the trace's zero of time, and its volumes.

use destage_plan::{Nanos, Op, Request};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::clock::{ClockWraps, TraceClock};
use crate::fields::{FieldFault, ParsedLine, shown};

/// Volumes that a trace may have; more of them mean that a column was misread.
const MAX_VOLUMES: usize = 65_536;
/// Bytes of a volume's name (as long as a path may be).
const MAX_NAME: usize = 4096;
/// Bytes of all volumes' names together: 256 for each volume that a trace may have. They are kept
/// twice, as names and to find them by.
const MAX_NAMES_BYTES: usize = 16 << 20;

/// The volumes of a trace in order of first appearance.
#[derive(Default)]
pub(crate) struct VolumeTable {
    names: Vec<String>,
    /// Bytes of `names`.
    bytes: usize,
    by_number: HashMap<u64, u32, FixedState>,
    by_text: HashMap<Box<[u8]>, u32, FixedState>,
    /// The volume of the line before, which is nearly always that of the line at hand.
    last_number: Option<(u64, u32)>,
    last_text: Vec<u8>,
    last_text_volume: Option<u32>,
    key: Vec<u8>,
}

impl VolumeTable {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The volume that the trace calls by a number.
    #[inline]
    pub(crate) fn number(&mut self, number: u64) -> ParsedLine<u32> {
        self.number_named(number, |n| n.to_string())
    }

    /// The volume with this number, called `name` on its first appearance.
    #[inline]
    pub(crate) fn number_named(&mut self, number: u64, name: impl FnOnce(u64) -> String) -> ParsedLine<u32> {
        if let Some((last, volume)) = self.last_number
            && last == number
        {
            return Ok(volume);
        }
        let volume = if let Some(&volume) = self.by_number.get(&number) {
            volume
        } else {
            let volume = self.add(name(number))?;
            self.by_number.insert(number, volume);
            volume
        };
        self.last_number = Some((number, volume));
        Ok(volume)
    }

    /// The volume with this text as its name.
    #[inline]
    pub(crate) fn text(&mut self, text: &[u8]) -> ParsedLine<u32> {
        if let Some(volume) = self.last_text_volume
            && self.last_text == text
        {
            return Ok(volume);
        }
        self.look_up(text, Self::name)
    }

    /// The volume that two columns name together: `first_second`.
    #[inline]
    pub(crate) fn pair(&mut self, first: &[u8], second: &[u8]) -> ParsedLine<u32> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(first);
        // No field of a line has an end of line, so that two pairs never share a key.
        key.push(b'\n');
        key.extend_from_slice(second);
        let volume = match self.last_text_volume {
            Some(volume) if self.last_text == key => Ok(volume),
            _ => self.look_up(&key, |_| Ok(format!("{}_{}", Self::name(first)?, Self::name(second)?))),
        };
        self.key = key;
        volume
    }

    fn look_up(&mut self, key: &[u8], name: impl FnOnce(&[u8]) -> ParsedLine<String>) -> ParsedLine<u32> {
        let volume = if let Some(&volume) = self.by_text.get(key) {
            volume
        } else {
            let volume = self.add(name(key)?)?;
            self.by_text.insert(key.into(), volume);
            volume
        };
        self.last_text.clear();
        self.last_text.extend_from_slice(key);
        self.last_text_volume = Some(volume);
        Ok(volume)
    }

    fn name(text: &[u8]) -> ParsedLine<String> {
        if text.len() > MAX_NAME {
            return Err(FieldFault::field("the volume's name", text, "at most 4096 bytes"));
        }
        match std::str::from_utf8(text) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => Err(FieldFault::new(format!("the volume's name is {}, expected UTF-8 text", shown(text)))),
        }
    }

    fn add(&mut self, name: String) -> ParsedLine<u32> {
        // A wrong column makes a new volume of each line; the bound tells so before the memory is full.
        if self.names.len() == MAX_VOLUMES {
            return Err(FieldFault::fatal(format!(
                "this is the {}th volume; that many mean that the volume column is something else, check --format",
                MAX_VOLUMES + 1
            )));
        }
        self.bytes += name.len();
        if self.bytes > MAX_NAMES_BYTES {
            return Err(FieldFault::fatal(
                "the names of all volumes are longer than 16 MiB together; that means that the volume's column is \
                 something else, check --format",
            ));
        }
        self.names.push(name);
        Ok((self.names.len() - 1) as u32)
    }
}

/// Holds the state of a reader from one batch to the next.
#[derive(Default)]
pub(crate) struct ReaderProgress {
    /// The trace's zero of time: the earliest absolute time in its first batch. Recorders reorder,
    /// but not far.
    zero: Option<u64>,
    clock: TraceClock,
    /// Requests yielded so far.
    pub(crate) requests: u64,
    pub(crate) volumes: VolumeTable,
}

impl ReaderProgress {
    /// Makes the times of a batch, which are as recorded until then, count from the earliest of the first batch. A later
    /// one before that counts as equal to it.
    pub(crate) fn settle(&mut self, out: &mut [Request]) {
        self.clock.follow(out);
        if self.zero.is_none() {
            self.zero = out.iter().map(|request| request.time.0).min();
        }
        let zero = self.zero.unwrap_or(0);
        for request in out {
            request.time.0 = request.time.0.saturating_sub(zero);
        }
    }

    /// Returns how often the clock wrapped.
    pub(crate) const fn clock_wraps(&self) -> ClockWraps {
        self.clock.wraps()
    }
}

/// Receives the requests of a format.
pub(crate) struct RequestSink<'a> {
    out: &'a mut Vec<Request>,
    /// The trace's volumes.
    pub(crate) volumes: &'a mut VolumeTable,
}

impl<'a> RequestSink<'a> {
    #[inline]
    pub(crate) fn new(out: &'a mut Vec<Request>, progress: &'a mut ReaderProgress) -> Self {
        Self { out, volumes: &mut progress.volumes }
    }

    /// Adds a request; `time` is as recorded.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, volume: u32, op: Op, fua: bool, offset: u64, len: u64) -> ParsedLine<()> {
        if offset.checked_add(len).is_none() {
            return Err(beyond(offset, len));
        }
        self.out.push(Request { time: Nanos(time), offset, len, volume, op, fua });
        Ok(())
    }

    /// Runs `parse` and takes back what it pushed if it fails.
    #[inline]
    pub(crate) fn whole(&mut self, parse: impl FnOnce(&mut Self) -> ParsedLine<()>) -> ParsedLine<()> {
        let len = self.out.len();
        let result = parse(self);
        if result.is_err() {
            self.out.truncate(len);
        }
        result
    }
}

#[cold]
fn beyond(offset: u64, len: u64) -> FieldFault {
    FieldFault::new(format!("{len} bytes at byte {offset} reach beyond 2^64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_numbered_in_order_of_appearance() {
        let mut volumes = VolumeTable::default();
        assert_eq!(volumes.number(7).unwrap(), 0);
        assert_eq!(volumes.number(3).unwrap(), 1);
        assert_eq!(volumes.number(7).unwrap(), 0);
        assert_eq!(volumes.pair(b"hm", b"0").unwrap(), 2);
        assert_eq!(volumes.pair(b"hm", b"1").unwrap(), 3);
        assert_eq!(volumes.pair(b"hm", b"0").unwrap(), 2);
        assert_eq!(volumes.text(b"a").unwrap(), 4);
        assert_eq!(volumes.text(b"a").unwrap(), 4);
        assert_eq!(volumes.names(), ["7", "3", "hm_0", "hm_1", "a"]);
        assert!(volumes.text(b"\xff").unwrap_err().into_reason().contains("UTF-8"));
    }

    #[test]
    fn too_many_volumes_stop_even_a_lenient_reader() {
        let mut volumes = VolumeTable::default();
        for n in 0..MAX_VOLUMES as u64 {
            volumes.number(n).unwrap();
        }
        assert!(volumes.number(MAX_VOLUMES as u64).unwrap_err().is_fatal());
        assert_eq!(volumes.number(5).unwrap(), 5);
    }

    #[test]
    fn too_long_names_stop_even_a_lenient_reader() {
        let mut volumes = VolumeTable::default();
        let long = |n: usize| format!("{n:04096}");
        for n in 0..MAX_NAMES_BYTES / MAX_NAME {
            volumes.text(long(n).as_bytes()).unwrap();
        }
        assert!(volumes.text(b"x").unwrap_err().is_fatal());
        assert_eq!(volumes.text(long(5).as_bytes()).unwrap(), 5);
        let longer = vec![b'x'; MAX_NAME + 1];
        assert!(!VolumeTable::default().text(&longer).unwrap_err().is_fatal());
    }

    #[test]
    fn a_failed_line_leaves_nothing() {
        let (mut out, mut progress) = (Vec::new(), ReaderProgress::default());
        let mut sink = RequestSink::new(&mut out, &mut progress);
        let failed = sink.whole(|s| {
            s.push(5, 0, Op::Flush, false, 0, 0)?;
            s.push(5, 0, Op::Write, false, u64::MAX, 2)
        });
        assert!(failed.is_err());
        sink.push(9, 0, Op::Write, false, 0, 1).unwrap();
        sink.push(7, 0, Op::Write, false, 0, 1).unwrap();
        sink.push(10, 0, Op::Write, false, 0, 1).unwrap();
        progress.settle(&mut out);
        assert_eq!(out.iter().map(|r| r.time.0).collect::<Vec<_>>(), [2, 0, 3]);
        // In a later batch the zero stands, and an earlier time counts as equal to it.
        out.clear();
        let mut sink = RequestSink::new(&mut out, &mut progress);
        sink.push(6, 0, Op::Write, false, 0, 1).unwrap();
        sink.push(8, 0, Op::Write, false, 0, 1).unwrap();
        progress.settle(&mut out);
        assert_eq!(out.iter().map(|r| r.time.0).collect::<Vec<_>>(), [0, 1]);
    }
}
