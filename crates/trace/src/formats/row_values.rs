//! Numbers and times in the columns of a described table.

use crate::fields::{FieldFault, ParsedLine, TimeUnit, date_time, decimal_time, whole_number};

/// Reads a whole number of units, in bytes: also in hexadecimal (`0x10`), or with decimals that are all zero (`4096.0`).
#[inline]
pub(super) fn scaled(name: &str, text: &[u8], unit: u64) -> ParsedLine<u64> {
    let number = match text {
        [b'0', b'x' | b'X', digits @ ..] => {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'));
            let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            number.ok_or_else(|| FieldFault::field(name, text, "a hexadecimal number below 2^64"))?
        }
        // Most are plain digits, and are looked at once.
        _ => whole_number(name, text).or_else(|_| without_decimals(name, text))?,
    };
    number.checked_mul(unit).ok_or_else(|| FieldFault::field(name, text, "a number of units below 2^64 bytes"))
}

/// Reads a whole number whose decimals are all zero.
#[cold]
fn without_decimals(name: &str, text: &[u8]) -> ParsedLine<u64> {
    let point = text.iter().position(|&b| b == b'.');
    let point = point.filter(|&at| at > 0 && text[at + 1..].iter().all(|&b| b == b'0'));
    whole_number(name, &text[..point.unwrap_or(text.len())])
        .map_err(|_| FieldFault::field(name, text, lost_digits(text).unwrap_or("a whole number below 2^64")))
}

/// Says what is expected in place of a number with an exponent.
fn lost_digits(text: &[u8]) -> Option<&'static str> {
    let number = std::str::from_utf8(text).ok().filter(|text| text.contains(['e', 'E']));
    number.and_then(|text| text.parse::<f64>().ok()).map(|_| {
        "all digits: a number with an exponent has lost some; write the table with integers, or with enough decimals"
    })
}

/// Reads a time: a plain number of units, or a date with a time of day.
#[inline]
pub(super) fn moment(text: &[u8], unit: TimeUnit) -> ParsedLine<u64> {
    match text {
        [_, _, _, _, b'-', ..] => date_time("ts", text),
        _ => decimal_time("ts", text, unit).map_err(|fault| match lost_digits(text) {
            Some(expected) => FieldFault::field("ts", text, expected),
            None => fault,
        }),
    }
}
