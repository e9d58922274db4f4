//! Keys: the names of settings, and what the help says of them.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name: `--NAME`, and in a scenario file a key (`ssd.planes` is `planes` in the table
    /// `[ssd]`).
    pub name: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// The value where none is given; empty where there is none.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// How many values it takes.
    pub takes: Takes,
}

impl Key {
    /// A setting with one value.
    pub const fn one(name: &'static str, value: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, value, default, help, takes: Takes::One }
    }

    /// A setting with several values.
    pub const fn list(name: &'static str, value: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, value, default, help, takes: Takes::Several }
    }

    /// A switch.
    pub const fn switch(name: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, value: "true|false", default, help, takes: Takes::Switch }
    }

    /// A file to write.
    pub const fn file(name: &'static str, help: &'static str) -> Self {
        Self { name, value: "FILE", default: "", help, takes: Takes::File }
    }
}

/// How many values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// One.
    One,
    /// Several, separated by commas or given one after the other.
    Several,
    /// `true` or `false`; the bare flag is `true`.
    Switch,
    /// One, or none: the bare flag means the standard output, `-`.
    File,
}
