//! Settings of an array, declared once for all that have them: `destage sim --array`, `destage create`, and the
//! descriptions of arrays (`array.toml`).

use std::fmt;
use std::str::FromStr;

use destage_plan::quantity;

use crate::array::{DurabilityMode, ParityMethod};
use crate::{ParityLayout, RaidLevel, StripeCacheSize};

/// Describes a setting as one command shows it.
#[derive(Clone, Copy, Debug)]
pub struct ShownSetting {
    /// The flag without `--`, and the key in files.
    pub name: &'static str,
    /// Placeholder of its value in the help.
    pub value: &'static str,
    /// Help text.
    pub help: &'static str,
}

/// A setting of an array, whose values are of this type.
#[derive(Clone, Copy, Debug)]
pub struct ArraySetting<T> {
    /// Name and help in `destage sim` and in scenario files.
    pub simulated: ShownSetting,
    /// As `destage create` has it, and under the same name descriptions.
    pub created: ShownSetting,
    /// The value where none is given; empty where there is none.
    pub default: &'static str,
    /// The words that arrays are created with; none where values are no words.
    pub words: &'static [&'static str],
    /// Reads a value, or says what would be right.
    pub parse: fn(&str) -> Result<T, String>,
}

impl<T> ArraySetting<T> {
    /// Returns the value where none is given.
    ///
    /// # Panics
    /// If there is none.
    pub fn default_value(&self) -> T {
        (self.parse)(self.default).expect("a declared default is a value")
    }
}

/// Declares the level and the number of members.
pub const LEVEL: ArraySetting<(RaidLevel, u32)> = ArraySetting {
    simulated: ShownSetting {
        name: "array",
        value: "LEVEL:MEMBERS",
        help: "A redundant array, such as raid5:5, and host-side policies in front of it",
    },
    created: ShownSetting { name: "level", value: "LEVEL:MEMBERS", help: "The level and the members, such as raid5:5" },
    default: "",
    words: &[],
    parse: level_and_members,
};

/// Declares the parity layout; the default is md's.
pub const LAYOUT: ArraySetting<ParityLayout> = ArraySetting {
    simulated: ShownSetting {
        name: "layout",
        value: "NAME",
        help: "Where the array's parity lies, by mdadm's names [default: left-symmetric]",
    },
    created: ShownSetting {
        name: "layout",
        value: "LAYOUT",
        help: "Where parity lies, by md's names [default: left-symmetric]",
    },
    default: "",
    words: &[],
    parse: parsed,
};

/// Declares the bytes of contiguous data on a member.
pub const CHUNK: ArraySetting<u64> = ArraySetting {
    simulated: ShownSetting { name: "chunk", value: "SIZE", help: "Contiguous data on a member" },
    created: ShownSetting { name: "chunk", value: "SIZE", help: "A chunk" },
    default: "64KiB",
    words: &[],
    parse: quantity::bytes,
};

/// Declares the bytes of a page.
pub const PAGE: ArraySetting<u64> = ArraySetting {
    simulated: ShownSetting { name: "page", value: "SIZE", help: "Page size" },
    created: ShownSetting { name: "page", value: "SIZE", help: "A page, in which caches and parity work" },
    default: "4KiB",
    words: &[],
    parse: quantity::bytes,
};

/// Declares the bytes used of each member.
pub const MEMBER_SIZE: ArraySetting<u64> = ArraySetting {
    simulated: ShownSetting {
        name: "member-size",
        value: "SIZE",
        help: "What is used of each member [default: of a disk all of it, else what the trace takes, or as ssd.capacity says]",
    },
    created: ShownSetting { name: "member-size", value: "SIZE", help: "What is used of each member" },
    default: "",
    words: &[],
    parse: quantity::bytes,
};

/// Declares the parity update method of partial row writes. `disksim` exists for comparison with `DiskSim`.
pub const PARITY: ArraySetting<ParityMethod> = ArraySetting {
    simulated: ShownSetting {
        name: "parity",
        value: "min|rmw|rcw|disksim",
        help: "How parity is updated: what reads least, read-modify-write, reconstruct-write, or as DiskSim chooses",
    },
    created: ShownSetting {
        name: "parity",
        value: "METHOD",
        help: "How the parity of a row that is written in part is made",
    },
    default: "min",
    words: &["min", "rmw", "rcw"],
    parse: parity,
};

/// Declares the durability mode of acknowledged writes.
pub const DURABILITY: ArraySetting<DurabilityMode> = ArraySetting {
    simulated: ShownSetting {
        name: "regime",
        value: "flush|every-write",
        help: "What the array promises: durable after a flush or with FUA, or each acknowledged write",
    },
    created: ShownSetting {
        name: "durability",
        value: "REGIME",
        help: "What is durable: what a flush covers and what is written with FUA, or every write",
    },
    default: "flush",
    words: &["flush", "every-write"],
    parse: regime,
};

/// Declares what is kept in memory of recently written rows.
pub const STRIPE_CACHE: ArraySetting<StripeCacheSize> = ArraySetting {
    simulated: ShownSetting {
        name: "raid.stripe-cache",
        value: "SIZE|ROWS",
        help: "Pages of recently written rows that are kept in memory, such as md's 256rows, or 16MiB; 0: none",
    },
    created: ShownSetting {
        name: "stripe-cache",
        value: "SIZE|ROWS",
        help: "Pages of recently written rows that are kept in memory, such as 16MiB or 256rows; 0: none",
    },
    default: "0",
    words: &[],
    parse: parsed,
};

fn level_and_members(text: &str) -> Result<(RaidLevel, u32), String> {
    let right =
        || "a level and its members, such as raid5:5; the levels are raid0, raid1, raid4, raid5 and raid6".to_owned();
    let (level, members) = text.split_once(':').ok_or_else(right)?;
    let level = level.parse::<RaidLevel>().map_err(|error| error.to_string())?;
    Ok((level, members.parse().map_err(|_| right())?))
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn parity(text: &str) -> Result<ParityMethod, String> {
    chosen(text, &ParityMethod::ALL, ParityMethod::word)
}

fn regime(text: &str) -> Result<DurabilityMode, String> {
    chosen(text, &DurabilityMode::ALL, DurabilityMode::word)
}

fn chosen<T: Copy>(text: &str, all: &[T], word: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|&one| word(one) == text).ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|&one| word(one)).collect();
        format!("one of {}", words.join(", "))
    })
}
