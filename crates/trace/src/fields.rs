//! Fields out of one line of text, parsed by hand, and what to say about a line that cannot be
//! read.

use std::borrow::Cow;

use destage_plan::SECTOR_BYTES;

/// Limits the part of a malformed field that a message shows, in bytes.
const SHOWN: usize = 40;

/// Why a line or record cannot be read. One pointer wide, so that the success path returns in
/// registers.
#[derive(Debug)]
pub(crate) struct FieldFault(Box<FaultReason>);

#[derive(Debug)]
struct FaultReason {
    text: String,
    fatal: bool,
}

pub(crate) type ParsedLine<T> = Result<T, FieldFault>;

/// Returns the last field of a text whose fields stand between blanks, and what stands before it.
pub(crate) fn last_field(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_end();
    let start = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    (&text[start..], &text[..start])
}

impl FieldFault {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(Box::new(FaultReason { text: reason.into(), fatal: false }))
    }

    /// One at which even a lenient reader stops.
    #[cold]
    pub(crate) fn fatal(reason: impl Into<String>) -> Self {
        Self(Box::new(FaultReason { text: reason.into(), fatal: true }))
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.0.fatal
    }

    /// Returns the fault and what would be right.
    pub(crate) fn into_reason(self) -> String {
        self.0.text
    }

    /// `name` holds `text`, where `expected` is expected.
    #[cold]
    pub(crate) fn field(name: &str, text: &[u8], expected: &str) -> Self {
        if text.first() == Some(&b'"') {
            return Self::new(format!("{name} is {}: quoted fields are not read, remove the quotes", shown(text)));
        }
        if text.is_empty() {
            return Self::new(format!("{name} is empty, expected {expected}"));
        }
        Self::new(format!("{name} is {}, expected {expected}", shown(text)))
    }

    #[cold]
    fn missing(name: &str) -> Self {
        Self::new(format!("the line ends before {name}"))
    }
}

/// The text in quotation marks, escaped, cut to 40 characters.
pub(crate) fn shown(text: &[u8]) -> String {
    let (cut, more) = if text.len() > SHOWN { (&text[..SHOWN], "...") } else { (text, "") };
    format!("\"{}\"{more}", cut.escape_ascii())
}

/// The units in which traces count time, as a power of ten of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Millis,
    Micros,
    /// Windows file time: ticks of 100 ns.
    Filetime,
    Nanos,
}

impl TimeUnit {
    /// Lists all units.
    pub(crate) const ALL: [Self; 5] = [Self::Seconds, Self::Millis, Self::Micros, Self::Filetime, Self::Nanos];

    /// Returns the word in descriptions of tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Filetime => "filetime",
            Self::Nanos => "ns",
        }
    }

    /// Decimal digits between this unit and a nanosecond.
    #[inline(always)]
    pub(crate) const fn exponent(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Millis => 6,
            Self::Micros => 3,
            Self::Filetime => 2,
            Self::Nanos => 0,
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Millis => "milliseconds",
            Self::Micros => "microseconds",
            Self::Filetime => "100 ns ticks",
            Self::Nanos => "nanoseconds",
        }
    }
}

const POW10: [u64; 10] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// A cursor over the fields of a line. `SEP` separates them; a space stands for any run of spaces
/// and tabs.
pub(crate) struct LineFields<'a, const SEP: u8> {
    line: &'a [u8],
    /// Holds the offset of the next field; beyond the line's length when there is none.
    at: usize,
}

/// `SEP` for runs of spaces and tabs.
pub(crate) const BLANKS: u8 = b' ';

const fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// Is true for a line of blanks alone.
#[inline]
pub(crate) fn all_blank(line: &[u8]) -> bool {
    line.iter().all(|&b| is_blank(b))
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b, rest @ ..] = text
        && is_blank(*b)
    {
        text = rest;
    }
    while let [rest @ .., b] = text
        && is_blank(*b)
    {
        text = rest;
    }
    text
}

impl<'a, const SEP: u8> LineFields<'a, SEP> {
    #[inline]
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    #[inline(always)]
    const fn ends(&self, i: usize) -> bool {
        i >= self.line.len() || self.line[i] == SEP || (SEP == BLANKS && self.line[i] == b'\t')
    }

    /// Returns the offset at which the next field begins.
    #[inline(always)]
    fn begin(&self) -> usize {
        let mut i = self.at;
        if SEP == BLANKS {
            while i < self.line.len() && is_blank(self.line[i]) {
                i += 1;
            }
        }
        i
    }

    /// The next field without the blanks around it, or `None` at the end of the line. May be empty
    /// only where the separator is not a blank.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.begin();
        let len = self.line.len();
        if start > len || (SEP == BLANKS && start == len) {
            return None;
        }
        let mut i = start;
        while !self.ends(i) {
            i += 1;
        }
        self.at = i + 1;
        let text = &self.line[start..i];
        Some(if SEP == BLANKS { text } else { trim(text) })
    }

    /// Passes over the next field, whatever it holds.
    #[inline]
    pub(crate) fn skip(&mut self, name: &str) -> ParsedLine<()> {
        if self.next().is_some() { Ok(()) } else { Err(FieldFault::missing(name)) }
    }

    /// The next field's text.
    #[inline]
    pub(crate) fn text(&mut self, name: &str) -> ParsedLine<&'a [u8]> {
        match self.next() {
            Some(b"") => Err(FieldFault::field(name, b"", "text")),
            Some(text @ [b'"', ..]) => Err(FieldFault::field(name, text, "text")),
            Some(text) => Ok(text),
            None => Err(FieldFault::missing(name)),
        }
    }

    /// The next field as a whole number.
    #[inline]
    pub(crate) fn number(&mut self, name: &str) -> ParsedLine<u64> {
        let start = self.begin();
        let (value, i) = digits(self.line, start);
        // Nineteen digits always fit.
        if i.wrapping_sub(start + 1) < 19 && self.ends(i) {
            self.at = i + 1;
            return Ok(value);
        }
        self.number_slow(name)
    }

    #[cold]
    #[inline(never)]
    fn number_slow(&mut self, name: &str) -> ParsedLine<u64> {
        whole_number(name, self.next().ok_or_else(|| FieldFault::missing(name))?)
    }

    /// The next field as a count of sectors, in bytes.
    #[inline]
    pub(crate) fn sectors(&mut self, name: &str) -> ParsedLine<u64> {
        let n = self.number(name)?;
        if n >> 55 == 0 { Ok(n * SECTOR_BYTES) } else { Err(too_many_sectors(name, n)) }
    }

    /// The next field as a time in nanoseconds, exact.
    #[inline(always)]
    pub(crate) fn time(&mut self, name: &str, unit: TimeUnit) -> ParsedLine<u64> {
        let exponent = unit.exponent();
        let start = self.begin();
        let (whole, mut i) = digits(self.line, start);
        if i.wrapping_sub(start + 1) < 19 {
            let mut fraction = 0;
            let mut missing = exponent;
            if i < self.line.len() && self.line[i] == b'.' && exponent > 0 {
                let from = i + 1;
                let to = self.line.len().min(from + exponent);
                let (value, end) = digits(&self.line[..to], from);
                fraction = value;
                missing -= end - from;
                i = end;
                while i < self.line.len() && self.line[i].is_ascii_digit() {
                    i += 1;
                }
                if i == from {
                    return self.time_slow(name, unit);
                }
            }
            let nanos = whole.checked_mul(POW10[exponent]).and_then(|n| n.checked_add(fraction * POW10[missing]));
            if self.ends(i)
                && let Some(nanos) = nanos
            {
                self.at = i + 1;
                return Ok(nanos);
            }
        }
        self.time_slow(name, unit)
    }

    #[cold]
    #[inline(never)]
    fn time_slow(&mut self, name: &str, unit: TimeUnit) -> ParsedLine<u64> {
        decimal_time(name, self.next().ok_or_else(|| FieldFault::missing(name))?, unit)
    }

    /// Returns what has not been read.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.line[self.at.min(self.line.len())..]
    }

    /// Nothing may follow.
    #[inline]
    pub(crate) fn end(&mut self) -> ParsedLine<()> {
        let start = self.begin();
        if start > self.line.len() || (SEP == BLANKS && start == self.line.len()) {
            return Ok(());
        }
        Err(self.further())
    }

    #[cold]
    fn further(&mut self) -> FieldFault {
        let text = self.next().unwrap_or_default();
        FieldFault::new(format!("there is a further field {} where the line should end", shown(text)))
    }
}

/// The value (modulo 2^64) of the digits from `start`, and where they end.
#[inline(always)]
fn digits(line: &[u8], start: usize) -> (u64, usize) {
    let mut value = 0_u64;
    let mut i = start;
    while i < line.len() {
        let d = line[i].wrapping_sub(b'0');
        if d > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(d));
        i += 1;
    }
    (value, i)
}

#[cold]
fn too_many_sectors(name: &str, n: u64) -> FieldFault {
    FieldFault::new(format!("{name} is {n} sectors, more than 2^64 bytes"))
}

/// The value of plain digits, or `None` if it exceeds 64 bits.
fn checked_digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0_u64, |v, &b| v.checked_mul(10)?.checked_add(u64::from(b - b'0')))
}

/// A field that is a whole number.
pub(crate) fn whole_number(name: &str, text: &[u8]) -> ParsedLine<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(FieldFault::field(name, text, "a whole number"));
    }
    checked_digits(text).ok_or_else(|| FieldFault::field(name, text, "a whole number below 2^64"))
}

/// A field that is a time: digits, optionally a point and further digits.
pub(crate) fn decimal_time(name: &str, text: &[u8], unit: TimeUnit) -> ParsedLine<u64> {
    let expected = || -> Cow<'static, str> {
        if unit == TimeUnit::Nanos {
            "a whole number of nanoseconds".into()
        } else {
            format!("a plain decimal number of {} such as 12.345", unit.words()).into()
        }
    };
    let point = text.iter().position(|&b| b == b'.');
    let (whole, fraction) = match point {
        Some(p) => (&text[..p], &text[p + 1..]),
        None => (text, &[][..]),
    };
    let plain = |t: &[u8]| t.iter().all(u8::is_ascii_digit);
    let shaped = !whole.is_empty() && plain(whole) && plain(fraction) && point.is_none_or(|_| !fraction.is_empty());
    if !shaped || (point.is_some() && unit == TimeUnit::Nanos) {
        return Err(FieldFault::field(name, text, &expected()));
    }
    let exponent = unit.exponent();
    let kept = &fraction[..fraction.len().min(exponent)];
    let nanos = || {
        let below = checked_digits(kept)? * POW10[exponent - kept.len()];
        checked_digits(whole)?.checked_mul(POW10[exponent])?.checked_add(below)
    };
    nanos().ok_or_else(|| FieldFault::field(name, text, "a time below 2^64 nanoseconds (584 years)"))
}

/// Reads a field that is a date and a time of day, `2024-01-15 10:30:45.123456`, in nanoseconds since 1970: with a `T` between
/// them, too, and behind them nothing, `Z` or a difference such as `+01:00`; nothing is UTC.
pub(crate) fn date_time(name: &str, text: &[u8]) -> ParsedLine<u64> {
    moment(text).ok_or_else(|| {
        FieldFault::field(name, text, "a date from 1970 on and a time of day, such as 2024-01-15 10:30:45.123456")
    })
}

fn moment(text: &[u8]) -> Option<u64> {
    let number = |range: std::ops::Range<usize>, most: u64| {
        let digits = text.get(range).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        checked_digits(digits).filter(|&number| number <= most)
    };
    let (year, month, day) = (number(0..4, 2500)?, number(5..7, 12)?, number(8..10, 31)?);
    let (hour, minute, second) = (number(11..13, 23)?, number(14..16, 59)?, number(17..19, 60)?);
    let marks = [(4, b"-"), (7, b"-"), (13, b":"), (16, b":")];
    let is_marked = marks.iter().all(|(at, mark)| text.get(*at..=*at) == Some(&mark[..]));
    if !is_marked || !matches!(text[10], b' ' | b'T') || year < 1970 || month == 0 || day == 0 {
        return None;
    }
    let rest = &text[19..];
    let digits = match rest {
        [b'.', fraction @ ..] => fraction.iter().take_while(|b| b.is_ascii_digit()).count(),
        _ => 0,
    };
    if rest.first() == Some(&b'.') && digits == 0 {
        return None;
    }
    let kept = &rest[usize::from(digits > 0)..][..digits.min(9)];
    let nanos = checked_digits(kept)? * POW10[9 - kept.len()];
    let zone = &rest[if digits > 0 { digits + 1 } else { 0 }..];
    let ahead: i64 = match zone {
        [] | b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()) => {
            let two = |tens: &u8, ones: &u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
            let seconds = two(h1, h2) * 3600 + two(m1, m2) * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    // Days since 1970 in the Gregorian calendar, whose years begin in March here.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    seconds.checked_add_signed(-ahead)?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str, unit: TimeUnit) -> Result<u64, String> {
        let fast = LineFields::<b','>::new(text.as_bytes()).time("ts", unit).map_err(FieldFault::into_reason);
        let slow = decimal_time("ts", text.as_bytes(), unit).map_err(FieldFault::into_reason);
        assert_eq!(fast, slow, "{text}");
        fast
    }

    #[test]
    fn decimal_times_are_exact() {
        assert_eq!(time("1450000000.123456000", TimeUnit::Seconds), Ok(1_450_000_000_123_456_000));
        assert_eq!(time("0.1", TimeUnit::Seconds), Ok(100_000_000));
        assert_eq!(time("0.000000001999", TimeUnit::Seconds), Ok(1));
        assert_eq!(time("1384.873", TimeUnit::Millis), Ok(1_384_873_000));
        assert_eq!(time("7.12345678901234567890", TimeUnit::Millis), Ok(7_123_456));
        assert_eq!(time("128000000000000001", TimeUnit::Filetime), Ok(12_800_000_000_000_000_100));
        assert_eq!(time("5.25", TimeUnit::Micros), Ok(5_250));
        assert_eq!(time("18446744073709551615", TimeUnit::Nanos), Ok(u64::MAX));
        assert_eq!(time("18446744073.709551615", TimeUnit::Seconds), Ok(u64::MAX));
        assert_eq!(time("00000000000000000000000001", TimeUnit::Seconds), Ok(1_000_000_000));
    }

    #[test]
    fn other_ways_to_write_times_are_refused() {
        for bad in ["1e3", "-1", "+1", "0x10", "1.", ".5", "1.2.3", "", "1 2", "nan", "1.5e-5", "1,5"] {
            let text = decimal_time("ts", bad.as_bytes(), TimeUnit::Seconds);
            assert!(text.is_err(), "{bad}");
        }
        assert_eq!(
            time("1e3", TimeUnit::Seconds).unwrap_err(),
            "ts is \"1e3\", expected a plain decimal number of seconds such as 12.345"
        );
        assert!(time("1.5", TimeUnit::Nanos).unwrap_err().contains("whole number of nanoseconds"));
        assert!(time("18446744074", TimeUnit::Seconds).unwrap_err().contains("584 years"));
        assert!(time("18446744073.709551616", TimeUnit::Seconds).unwrap_err().contains("584 years"));
    }

    #[test]
    fn dates_are_times_since_1970() {
        let of = |text: &str| date_time("ts", text.as_bytes()).map_err(FieldFault::into_reason);
        assert_eq!(of("1970-01-01 00:00:00"), Ok(0));
        assert_eq!(of("2024-01-15 10:30:45.123456"), Ok(1_705_314_645_123_456_000));
        assert_eq!(of("2024-02-29T23:59:59.5Z"), Ok(1_709_251_199_500_000_000));
        assert_eq!(of("2000-03-01 00:00:00"), Ok(951_868_800_000_000_000));
        assert_eq!(of("2024-01-15 11:30:45.1234567899+01:00"), Ok(1_705_314_645_123_456_789));
        for wrong in [
            "2024-13-01 00:00:00",
            "2024-01-15",
            "2024-01-15 10:30",
            "2024-01-15 10:30:45.",
            "2024/01/15 10:30:45",
            "1969-12-31 23:59:59",
            "2024-01-00 00:00:00",
            "2024-01-15 24:00:00",
            "2024-01-15 10:30:45 CET",
            "1970-01-01 00:00:00+01:00",
        ] {
            assert!(of(wrong).is_err_and(|reason| reason.contains("a date from 1970 on")), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_checked() {
        let number = |text: &str| LineFields::<b','>::new(text.as_bytes()).number("n").map_err(FieldFault::into_reason);
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(number(" 12 ,3"), Ok(12));
        assert!(number("18446744073709551616").unwrap_err().contains("below 2^64"));
        assert_eq!(number("1\u{0}2").unwrap_err(), "n is \"1\\x002\", expected a whole number");
        assert_eq!(number("\u{e9}").unwrap_err(), "n is \"\\xc3\\xa9\", expected a whole number");
        assert_eq!(number(",1").unwrap_err(), "n is empty, expected a whole number");
        assert_eq!(number("\"1\"").unwrap_err(), "n is \"\\\"1\\\"\": quoted fields are not read, remove the quotes");
        assert!(LineFields::<b','>::new(b"36028797018963968").sectors("lba").is_err());
        assert_eq!(LineFields::<b','>::new(b"36028797018963967").sectors("lba").unwrap(), 36_028_797_018_963_967 * 512);
    }

    #[test]
    fn blanks_run_together_and_commas_do_not() {
        let mut fields = LineFields::<BLANKS>::new(b"  1 \t 2  ");
        assert_eq!((fields.number("a").unwrap(), fields.number("b").unwrap()), (1, 2));
        assert!(fields.end().is_ok());
        assert_eq!(fields.number("c").unwrap_err().into_reason(), "the line ends before c");
        let mut fields = LineFields::<b','>::new(b"1,,2,");
        assert_eq!(fields.next(), Some(&b"1"[..]));
        assert_eq!(fields.next(), Some(&b""[..]));
        assert_eq!(fields.next(), Some(&b"2"[..]));
        assert!(fields.end().is_err());
        assert_eq!(fields.next(), None);
        assert!(fields.end().is_ok());
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(shown(&[b'x'; 41]), format!("\"{}\"...", "x".repeat(40)));
    }
}
