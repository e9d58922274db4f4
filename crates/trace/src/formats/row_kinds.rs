//! Reads a row's operation from a column of a described table.

use std::fmt;

use destage_plan::Op;

use super::block_events::{EventRequest, rwbs};
use crate::fields::{FieldFault, ParsedLine};

const fn plain(op: Op, fua: bool) -> EventRequest {
    EventRequest { flush_before: false, op: Some(op), fua }
}

/// Stands for a row that asks nothing: it is passed over.
const NOTHING: EventRequest = EventRequest { flush_before: false, op: None, fua: false };

const KINDS: [(&str, EventRequest); 6] = [
    ("R", plain(Op::Read, false)),
    ("W", plain(Op::Write, false)),
    ("WF", plain(Op::Write, true)),
    ("F", EventRequest { flush_before: true, op: None, fua: false }),
    ("D", plain(Op::Discard, false)),
    ("_", NOTHING),
];

/// Names the value that stands for all others.
const ANY: &str = "*";

/// Returns the letters of a kind.
pub(super) fn letters(asked: EventRequest) -> &'static str {
    KINDS.iter().find(|(_, kind)| *kind == asked).map_or("W", |(name, _)| name)
}

/// Returns the kind that letters name.
pub(super) fn parse(text: &str) -> Result<EventRequest, String> {
    KINDS
        .iter()
        .find(|(name, _)| *name == text)
        .map(|&(_, kind)| kind)
        .ok_or_else(|| format!("the kind of request \"{}\" is not R, W, WF, F, D or _", text.escape_debug()))
}

/// Returns the kind of a word, or of the letters in which the kernel tells it (RWBS).
fn word(text: &[u8]) -> Option<EventRequest> {
    const WORDS: [(&[u8], usize); 10] = [
        (b"r", 0),
        (b"read", 0),
        (b"w", 1),
        (b"write", 1),
        (b"wf", 2),
        (b"f", 3),
        (b"flush", 3),
        (b"d", 4),
        (b"discard", 4),
        (b"trim", 4),
    ];
    let word = WORDS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|&(_, i)| KINDS[i].1);
    word.or_else(|| rwbs(text).ok())
}

/// Says how a column tells the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowKinds {
    /// Takes the usual words.
    Words,
    /// Has one value and its kind; every other value is the second kind.
    OneOf(String, EventRequest, EventRequest),
    /// Has exactly these values, unless one stands for all others.
    Exactly(Vec<(String, EventRequest)>),
}

impl RowKinds {
    /// Parses what stands in the parentheses behind `op`.
    pub(super) fn parse(inside: &str) -> Result<Self, String> {
        let mut pairs: Vec<(String, EventRequest)> = Vec::new();
        for pair in inside.split([',', ';']) {
            let (value, kind) = pair
                .rsplit_once('=')
                .filter(|(value, _)| !value.is_empty())
                .ok_or_else(|| format!("op({}): expected VALUE=KIND", inside.escape_debug()))?;
            if pairs.iter().any(|(v, _)| v == value) {
                return Err(format!(
                    "op({}): the value {} is given twice",
                    inside.escape_debug(),
                    value.escape_debug()
                ));
            }
            pairs.push((value.to_owned(), parse(kind)?));
        }
        if pairs.iter().all(|(_, kind)| *kind == NOTHING) {
            return Err(format!("op({}): nothing is a request", inside.escape_debug()));
        }
        if pairs.len() > 1 {
            return Ok(Self::Exactly(pairs));
        }
        let (value, kind) = pairs.remove(0);
        let other = match kind {
            k if k == KINDS[0].1 => KINDS[1].1,
            k if k == KINDS[1].1 => KINDS[0].1,
            _ => {
                return Err(format!(
                    "op({}): with one value its kind must be R or W; name the other values too",
                    inside.escape_debug()
                ));
            }
        };
        Ok(Self::OneOf(value, kind, other))
    }

    /// Returns what a value asks.
    pub(super) fn of(&self, text: &[u8]) -> ParsedLine<EventRequest> {
        match self {
            Self::Words => word(text).ok_or_else(|| {
                let words = "R, Read, W, Write, WF, F, Flush, D, Discard or Trim, or the kernel's letters such as WS";
                FieldFault::field("op", text, words)
            }),
            Self::OneOf(value, this, other) => Ok(if text == value.as_bytes() { *this } else { *other }),
            Self::Exactly(pairs) => {
                let of = |is: &dyn Fn(&str) -> bool| pairs.iter().find(|(value, _)| is(value)).map(|&(_, kind)| kind);
                of(&|value| text == value.as_bytes()).or_else(|| of(&|value| value == ANY)).ok_or_else(|| {
                    let values: Vec<&str> = pairs.iter().map(|(v, _)| v.as_str()).collect();
                    let expected =
                        format!("one of {}; name it too, with =_ if such rows are no requests", values.join(", "));
                    FieldFault::field("op", text, &expected)
                })
            }
        }
    }
}

impl fmt::Display for RowKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => f.write_str("op"),
            Self::OneOf(value, kind, _) => write!(f, "op({value}={})", letters(*kind)),
            Self::Exactly(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(v, k)| format!("{v}={}", letters(*k))).collect();
                write!(f, "op({})", pairs.join(","))
            }
        }
    }
}
