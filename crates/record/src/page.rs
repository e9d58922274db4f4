//! A page of the kernel's trace ring buffer, as `trace_pipe_raw` gives it
//! (`kernel/trace/ring_buffer.c`; the layout of a page's head is in tracefs' `events/header_page`,
//! that of an event's head in `events/header_event`).
//!
//! An event's head is 32 bits: the lower five say its length or kind, the upper 27 the nanoseconds
//! since the event before it:
//!
//! | lower bits | meaning |
//! |---|---|
//! | 0 | the next 32 bits are the length in bytes, these four included; then the data |
//! | 1 to 28 | four times as many bytes of data |
//! | 29 | padding: to the end of the page if the upper bits are 0, else as many bytes as the next 32 bits say |
//! | 30 | more time: the next 32 bits are bits 27 and up of what passes |
//! | 31 | the time itself: the next 32 bits are its bits 27 to 58, the head its lower 27 |

use crate::layout::{LayoutError, fields, le};

/// Set in a page's count of bytes: events before this page were lost.
const MISSED_EVENTS: u64 = 1 << 31;
/// Set as well if the number of lost events stands behind the page's last event.
const MISSED_STORED: u64 = 1 << 30;
/// Masks the count of bytes. A page is far smaller than it can count.
const BYTES_MASK: u64 = (1 << 27) - 1;
/// Bits of an absolute time that an event can hold; the others are those of the time before it.
const STAMP_BITS: u32 = 59;

/// Holds the places of the parts of a page's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Byte of the first event's time, 8 bytes.
    pub time: usize,
    /// Byte of the count of bytes in events, and the count's own size (4 or 8 bytes).
    pub commit: (usize, usize),
    /// Byte of the first event.
    pub data: usize,
    /// Bytes of a whole page, head included.
    pub page_bytes: usize,
}

impl PageLayout {
    /// Reads the text of `events/header_page`.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let fields = fields("header_page", text)?;
        let find = |name: &'static str| {
            fields.iter().find(|f| f.name == name).ok_or(LayoutError::missing("header_page", name))
        };
        let (time, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        let sizes_fit = time.size == 8 && matches!(commit.size, 4 | 8);
        // A bound on the size keeps a garbled description from asking for gigabytes of buffer.
        let page_bytes = data.offset.checked_add(data.size).filter(|&bytes| bytes <= 1 << 24);
        let inside = |offset: usize, size: usize| offset.checked_add(size).is_some_and(|end| end <= data.offset);
        match page_bytes {
            Some(page_bytes) if sizes_fit && inside(time.offset, 8) && inside(commit.offset, commit.size) => {
                Ok(Self { time: time.offset, commit: (commit.offset, commit.size), data: data.offset, page_bytes })
            }
            _ => Err(LayoutError::new("header_page", "its fields have sizes that no known kernel gives them")),
        }
    }
}

/// Tells what is wrong with a page, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of a trace page: {reason}")]
pub struct PageFault {
    /// Byte of the page.
    pub at: usize,
    /// Says what is wrong.
    pub reason: &'static str,
}

/// Reads pages of one layout.
#[derive(Clone, Copy, Debug)]
pub struct PageParser {
    layout: PageLayout,
}

/// A page whose head has been read.
#[derive(Clone, Copy, Debug)]
pub struct RingPage<'a> {
    /// Nanoseconds of the trace clock from which the first event counts.
    pub time: u64,
    /// Events that were overwritten before this page: `Some(0)` if the kernel does not say how
    /// many.
    pub lost: Option<u64>,
    data: &'a [u8],
    head: usize,
}

/// An event of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent<'a> {
    /// Nanoseconds of the trace clock.
    pub time: u64,
    /// The event's fields, [`EventLayout`](crate::EventLayout) says where. May be longer than the
    /// fields by up to 3 bytes.
    pub data: &'a [u8],
}

impl PageParser {
    /// A parser for this layout.
    #[must_use]
    pub const fn new(layout: PageLayout) -> Self {
        Self { layout }
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> PageLayout {
        self.layout
    }

    /// Reads the head of `page`, which may be longer than what its head counts. Numbers are
    /// little-endian.
    pub fn page<'a>(&self, page: &'a [u8]) -> Result<RingPage<'a>, PageFault> {
        let PageLayout { time, commit: (commit, commit_bytes), data, .. } = self.layout;
        let short = PageFault { at: page.len(), reason: "it ends inside its head" };
        let time = le(page, time, 8).ok_or(short.clone())?;
        let word = le(page, commit, commit_bytes).ok_or(short.clone())?;
        let events = page.get(data..).ok_or(short)?;
        let bytes = (word & BYTES_MASK) as usize;
        let Some((events, behind)) = events.split_at_checked(bytes) else {
            return Err(PageFault { at: commit, reason: "it counts more bytes than there are" });
        };
        let lost = (word & MISSED_EVENTS != 0).then(|| {
            // The number has the size of the kernel's `long`, which is that of the count.
            if word & MISSED_STORED != 0 { le(behind, 0, commit_bytes).unwrap_or(0) } else { 0 }
        });
        Ok(RingPage { time, lost, data: events, head: data })
    }
}

impl<'a> RingPage<'a> {
    /// The events, in the order in which they came.
    #[must_use]
    pub const fn events(&self) -> PageEvents<'a> {
        PageEvents { time: self.time, data: self.data, at: 0, head: self.head }
    }
}

/// The events of a page; after a fault there are none.
#[derive(Clone, Debug)]
pub struct PageEvents<'a> {
    time: u64,
    data: &'a [u8],
    at: usize,
    head: usize,
}

impl<'a> PageEvents<'a> {
    /// The next event's data, or `None` at the end of the page. Every step takes at least four
    /// bytes.
    fn step(&mut self) -> Result<Option<&'a [u8]>, PageFault> {
        while self.at < self.data.len() {
            let start = self.at;
            let fault = |reason| PageFault { at: self.head + start, reason };
            let inside = || fault("an event ends behind the last one");
            let head = le(self.data, start, 4).ok_or_else(inside)?;
            let (kind, delta) = (head & 31, head >> 5);
            let word = || le(self.data, start + 4, 4).ok_or_else(inside);
            let (skip, len) = match kind {
                0 => {
                    let len = word()? as usize;
                    if len < 4 {
                        return Err(fault("an event is shorter than its own length"));
                    }
                    (8, len - 4)
                }
                // The kernel pads the rest of a page that has no room for an event.
                29 if delta == 0 => {
                    self.at = self.data.len();
                    return Ok(None);
                }
                29 => (4, word()? as usize),
                30 | 31 => (8, 0),
                words => (4, words as usize * 4),
            };
            self.time = match kind {
                30 => self.time.wrapping_add((word()? << 27) + delta),
                31 => absolute((word()? << 27) + delta, self.time),
                // A damaged page may hold any numbers, which must not end the recording.
                _ => self.time.wrapping_add(delta),
            };
            // The kernel aligns data and events to 4 bytes.
            let data = start + skip;
            let end = data.checked_add(len).ok_or_else(inside)?;
            let data = self.data.get(data..end).ok_or_else(inside)?;
            self.at = end.next_multiple_of(4);
            if kind <= 28 {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for PageEvents<'a> {
    type Item = Result<PageEvent<'a>, PageFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        // After a fault the next event could begin anywhere, so the page ends here.
        if step.is_err() {
            self.at = self.data.len();
        }
        step.map(|data| data.map(|data| PageEvent { time: self.time, data })).transpose()
    }
}

/// The time whose lower 59 bits are `stamp`, not before `last` (`rb_fix_abs_ts`).
const fn absolute(stamp: u64, last: u64) -> u64 {
    // A stamp has 59 bits alone, so the upper ones come from the time before it.
    let high = last >> STAMP_BITS << STAMP_BITS;
    let time = high | stamp;
    if high != 0 && time < last { time.wrapping_add(1 << STAMP_BITS) } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { time: 0, commit: (8, 8), data: 16, page_bytes: 4096 };

    /// A page with these events, each a head and what follows it.
    fn page(time: u64, flags: u64, events: &[&[u32]]) -> Vec<u8> {
        let words: Vec<u8> = events.iter().flat_map(|e| e.iter()).flat_map(|w| w.to_le_bytes()).collect();
        [&time.to_le_bytes()[..], &(words.len() as u64 | flags).to_le_bytes(), &words].concat()
    }

    fn events(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let page = PageParser::new(LAYOUT).page(bytes).unwrap();
        page.events().map(|e| e.map(|e| (e.time, e.data.to_vec())).unwrap()).collect()
    }

    const fn head(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn the_kernels_text_is_read() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(PageLayout::parse(text), Ok(LAYOUT));
        assert!(PageLayout::parse(&text.replace("commit", "comit")).unwrap_err().to_string().contains("commit"));
        assert!(PageLayout::parse(&text.replace("size:8", "size:3")).is_err());
        assert!(PageLayout::parse(&text.replace("size:4080", "size:99999999999")).is_err());
    }

    #[test]
    fn every_kind_of_event_is_read() {
        let bytes = page(
            1000,
            0,
            &[
                &[head(1, 5), 0xaa],
                &[head(30, 1), 2],
                &[head(2, 3), 0xbb, 0xcc],
                &[head(29, 1), 8, 0],
                &[head(0, 1), 12, 0x11, 0x22],
                &[head(31, 77), 1 << 20],
                &[head(1, 1), 0xdd],
                &[head(29, 0), 99, 99],
            ],
        );
        let extended = 1005 + (2 << 27) + 1 + 3;
        // Padding passes time, too: its head has some.
        let stamp = (1_u64 << 47) + 77;
        assert_eq!(
            events(&bytes),
            [
                (1005, vec![0xaa, 0, 0, 0]),
                (extended, vec![0xbb, 0, 0, 0, 0xcc, 0, 0, 0]),
                (extended + 2, vec![0x11, 0, 0, 0, 0x22, 0, 0, 0]),
                (stamp + 1, vec![0xdd, 0, 0, 0]),
            ]
        );
    }

    #[test]
    fn high_bits_of_an_absolute_time_are_those_of_the_page() {
        assert_eq!(absolute(5, 0), 5);
        assert_eq!(absolute(5, 3 << 59), (3 << 59) + 5);
        assert_eq!(absolute(5, (3 << 59) + 6), (4 << 59) + 5);
        assert_eq!(absolute(7, u64::MAX), 7, "584 years: it wraps");
    }

    #[test]
    fn lost_events_are_told() {
        let parser = PageParser::new(LAYOUT);
        let lost = |bytes: &[u8]| parser.page(bytes).unwrap().lost;
        let mut bytes = page(1, MISSED_EVENTS | MISSED_STORED, &[&[head(1, 5), 1]]);
        assert_eq!(lost(&bytes), Some(0), "the number is cut off");
        bytes.extend(12_u64.to_le_bytes());
        assert_eq!(lost(&bytes), Some(12));
        assert_eq!(events(&bytes).len(), 1);
        assert_eq!(lost(&page(1, MISSED_EVENTS, &[])), Some(0));
        assert_eq!(lost(&page(1, 0, &[])), None);
    }

    #[test]
    fn a_malformed_page_is_named() {
        let parser = PageParser::new(LAYOUT);
        assert_eq!(parser.page(&[0; 15]).unwrap_err().at, 15);
        let mut bytes = page(1, 0, &[&[head(3, 5), 1, 2, 3]]);
        assert!(parser.page(&bytes[..bytes.len() - 1]).unwrap_err().to_string().contains("more bytes than there are"));
        bytes[16] = 4;
        let mut all = parser.page(&bytes).unwrap().events();
        assert_eq!(all.next().unwrap().unwrap_err().at, 16);
        assert!(all.next().is_none(), "nothing after a fault");
        let short = page(1, 0, &[&[head(0, 5), 3]]);
        assert!(parser.page(&short).unwrap().events().next().unwrap().is_err());
        for words in [&[head(0, 5)][..], &[head(30, 5)], &[head(29, 5)], &[head(29, 5), u32::MAX], &[0, u32::MAX]] {
            let bytes = page(1, 0, &[words]);
            assert!(parser.page(&bytes).unwrap().events().next().unwrap().is_err(), "{words:x?}");
        }
    }
}
