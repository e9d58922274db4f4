//! Reads and writes how long devices may take, as descriptions have it.

use std::fmt;
use std::time::Duration;

use destage_plan::quantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Sets the least limit: a sync of a healthy disk may take hundreds of milliseconds.
const LEAST: Duration = Duration::from_secs(1);
/// Names no limit.
const OFF: &str = "off";

/// Limits how long a device may take for a command, and is written like `30s`; `off` if it may take as long as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTimeout(pub Option<Duration>);

impl fmt::Display for DeviceTimeout {
    /// Writes it exactly, in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(limit) = self.0 else { return f.write_str(OFF) };
        let units = [(60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms")];
        let ns = limit.as_nanos();
        let (unit, name) = units.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit)).unwrap_or((1, "ns"));
        write!(f, "{}{name}", ns / unit)
    }
}

impl Serialize for DeviceTimeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceTimeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == OFF {
            return Ok(Self(None));
        }
        let limit =
            quantity::time(&text).ok().map(|limit| Duration::from_nanos(limit.0)).filter(|limit| *limit >= LEAST);
        let right = "a time of at least 1s, such as 30s or 2min, nor \"off\"";
        limit
            .map(|limit| Self(Some(limit)))
            .ok_or_else(|| de::Error::custom(format_args!("\"{text}\" is neither {right}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct WrittenLimit {
        limit: DeviceTimeout,
    }

    #[test]
    fn what_is_read_is_written_so_and_read_again() {
        for text in ["1s", "30s", "2min", "1500ms", "1000000001ns", "off"] {
            let toml = format!("limit = \"{text}\"\n");
            let read: WrittenLimit = toml::from_str(&toml).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(toml::to_string(&read).expect("it can be written"), toml);
        }
        let read = |text: &str| toml::from_str::<WrittenLimit>(&format!("limit = \"{text}\"")).map(|read| read.limit.0);
        assert_eq!(read("1.5s").ok(), Some(Some(Duration::from_millis(1500))));
        for text in ["0", "999ms", "30", "never", "-1s", ""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
