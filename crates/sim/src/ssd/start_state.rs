//! Says what the flash holds when a run begins.

/// Describes the content of the flash when the run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartState {
    /// Nothing: collection begins only once the device has been written through.
    Empty,
    /// Every exported page, mapped in ascending order (the MSR extension's initial state).
    #[default]
    Full,
    /// Every exported page, written once in random order.
    Random {
        /// Seed of the order.
        seed: u64,
    },
    /// Full, and then overwritten at random.
    Aged {
        /// Sets how often the exported size is overwritten, in hundredths.
        overwrites_pct: u32,
        /// Seed of the overwrites.
        seed: u64,
    },
    /// Full, and then overwritten at random until the write amplification stays what it is
    /// ([`SteadyState`](super::SteadyState)).
    Steady {
        /// Seed of the overwrites.
        seed: u64,
    },
}

impl std::fmt::Display for StartState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Full => f.write_str("full"),
            Self::Random { seed } => write!(f, "random:{seed}"),
            Self::Aged { overwrites_pct, seed } => {
                write!(f, "aged:{}.{:02}:{seed}", overwrites_pct / 100, overwrites_pct % 100)
            }
            Self::Steady { seed } => write!(f, "steady:{seed}"),
        }
    }
}

impl StartState {
    /// Is true if the state takes so long to reach that copies are better.
    pub const fn takes_long(self) -> bool {
        matches!(self, Self::Random { .. } | Self::Aged { .. } | Self::Steady { .. })
    }
}
