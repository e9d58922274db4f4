//! Reads and writes sizes as descriptions have them.

use std::fmt;

use destage_plan::quantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Counts bytes, and is written like `64KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    /// Writes it exactly, in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        // A unit that does not divide the size would round, and a label would then not match its array.
        let unit = units.into_iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit));
        let (unit, name) = unit.unwrap_or((1, "B"));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        quantity::bytes(&text).map(Self).map_err(|right| de::Error::custom(format_args!("\"{text}\" is not {right}")))
    }
}
