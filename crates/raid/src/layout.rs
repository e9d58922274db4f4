//! The levels and layouts of an array, by the names that mdadm gives them.

use std::fmt;
use std::str::FromStr;

/// Selects the redundancy of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RaidLevel {
    /// Striping without redundancy.
    Raid0,
    /// Every device holds the same.
    Raid1,
    /// One parity, always on the last device.
    Raid4,
    /// One parity, placed by the layout.
    Raid5,
    /// Two parities P and Q, placed by the layout.
    Raid6,
}

impl RaidLevel {
    /// All levels, ascending.
    pub const ALL: [Self; 5] = [Self::Raid0, Self::Raid1, Self::Raid4, Self::Raid5, Self::Raid6];

    /// The name, as mdadm prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
        }
    }

    /// The fewest devices that make sense.
    pub const fn min_devices(self) -> u32 {
        match self {
            Self::Raid0 => 1,
            Self::Raid1 => 2,
            Self::Raid4 | Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }

    /// The layouts to choose from; none where there is nothing to choose.
    pub const fn layouts(self) -> &'static [ParityLayout] {
        match self {
            Self::Raid0 | Self::Raid1 => &[],
            Self::Raid4 => &[ParityLayout::ParityLast],
            Self::Raid5 => ParityLayout::ALL.split_at(9).0,
            Self::Raid6 => &ParityLayout::ALL,
        }
    }

    /// The layout used where none is given: md's.
    pub const fn default_layout(self) -> Option<ParityLayout> {
        match self {
            Self::Raid0 | Self::Raid1 => None,
            Self::Raid4 => Some(ParityLayout::ParityLast),
            Self::Raid5 | Self::Raid6 => Some(ParityLayout::LeftSymmetric),
        }
    }
}

impl fmt::Display for RaidLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No level has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no RAID level {name:?}; there are raid0, raid1, raid4, raid5 and raid6")]
pub struct ParseLevelError {
    /// Holds the given name.
    pub name: String,
}

impl FromStr for RaidLevel {
    type Err = ParseLevelError;

    /// The level of one of mdadm's names: `raid5` or `5`, and `stripe` and `mirror`.
    fn from_str(name: &str) -> Result<Self, ParseLevelError> {
        Ok(match name {
            "raid0" | "0" | "stripe" => Self::Raid0,
            "raid1" | "1" | "mirror" => Self::Raid1,
            "raid4" | "4" => Self::Raid4,
            "raid5" | "5" => Self::Raid5,
            "raid6" | "6" => Self::Raid6,
            _ => return Err(ParseLevelError { name: name.to_owned() }),
        })
    }
}

/// Selects how parity moves from stripe to stripe, and the order of data.
///
/// *Left*: parity begins on the last device and moves down; *right*: it begins on the first and moves up.
/// *Symmetric*: data begins after the parity and goes around; *asymmetric*: data begins on the first device
/// that holds no parity. With RAID-6, Q follows P around unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParityLayout {
    /// Parity moves down, data begins on the first device.
    LeftAsymmetric,
    /// Parity moves up, data begins on the first device.
    RightAsymmetric,
    /// Parity moves down, data begins after it. The default of md.
    #[default]
    LeftSymmetric,
    /// Parity moves up, data begins after it.
    RightSymmetric,
    /// Parity stays on the first device (RAID-6: the first two).
    ParityFirst,
    /// Parity stays on the last device (RAID-6: the last two).
    ParityLast,
    /// DDF "rotating zero restart": as right-asymmetric, but P and Q count as gaps in the Q
    /// syndrome.
    DdfZeroRestart,
    /// DDF "rotating N restart": as left-asymmetric with Q last in the first stripe; P and Q count
    /// as gaps.
    DdfNRestart,
    /// DDF "rotating N continue": as left-symmetric, but Q is before P; both count as gaps.
    DdfNContinue,
    /// RAID-5's left-asymmetric on all but the last device, which holds Q.
    LeftAsymmetric6,
    /// RAID-5's right-asymmetric on all but the last device, which holds Q.
    RightAsymmetric6,
    /// RAID-5's left-symmetric on all but the last device, which holds Q.
    LeftSymmetric6,
    /// RAID-5's right-symmetric on all but the last device, which holds Q.
    RightSymmetric6,
    /// P on the first device, Q on the last.
    ParityFirst6,
}

impl ParityLayout {
    /// All layouts; those from the tenth on exist for RAID-6 only.
    pub const ALL: [Self; 14] = [
        Self::LeftAsymmetric,
        Self::RightAsymmetric,
        Self::LeftSymmetric,
        Self::RightSymmetric,
        Self::ParityFirst,
        Self::ParityLast,
        Self::DdfZeroRestart,
        Self::DdfNRestart,
        Self::DdfNContinue,
        Self::LeftAsymmetric6,
        Self::RightAsymmetric6,
        Self::LeftSymmetric6,
        Self::RightSymmetric6,
        Self::ParityFirst6,
    ];

    /// The name, as mdadm spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightAsymmetric => "right-asymmetric",
            Self::LeftSymmetric => "left-symmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::ParityFirst => "parity-first",
            Self::ParityLast => "parity-last",
            Self::DdfZeroRestart => "ddf-zero-restart",
            Self::DdfNRestart => "ddf-N-restart",
            Self::DdfNContinue => "ddf-N-continue",
            Self::LeftAsymmetric6 => "left-asymmetric-6",
            Self::RightAsymmetric6 => "right-asymmetric-6",
            Self::LeftSymmetric6 => "left-symmetric-6",
            Self::RightSymmetric6 => "right-symmetric-6",
            Self::ParityFirst6 => "parity-first-6",
        }
    }

    /// The layout that this one is on `level`: without Q the three of DDF are three of the others,
    /// and mdadm takes them as names for those.
    #[must_use]
    pub const fn on(self, level: RaidLevel) -> Self {
        match (level, self) {
            (RaidLevel::Raid5, Self::DdfZeroRestart) => Self::RightAsymmetric,
            (RaidLevel::Raid5, Self::DdfNRestart) => Self::LeftAsymmetric,
            (RaidLevel::Raid5, Self::DdfNContinue) => Self::LeftSymmetric,
            _ => self,
        }
    }
}

impl fmt::Display for ParityLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The names of layouts, for messages.
pub(crate) struct LayoutNames(pub &'static [ParityLayout]);

impl fmt::Display for LayoutNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, layout) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, layout.name())?;
        }
        Ok(())
    }
}

/// No layout has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no layout {name:?}; there are {}, and la, ra, ls and rs for the first four", LayoutNames(&ParityLayout::ALL))]
pub struct ParseLayoutError {
    /// Holds the given name.
    pub name: String,
}

impl FromStr for ParityLayout {
    type Err = ParseLayoutError;

    /// The layout of one of mdadm's names or short names.
    fn from_str(name: &str) -> Result<Self, ParseLayoutError> {
        match name {
            "la" => return Ok(Self::LeftAsymmetric),
            "ra" => return Ok(Self::RightAsymmetric),
            "ls" => return Ok(Self::LeftSymmetric),
            "rs" => return Ok(Self::RightSymmetric),
            _ => {}
        }
        let found = Self::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| ParseLayoutError { name: name.to_owned() })
    }
}
