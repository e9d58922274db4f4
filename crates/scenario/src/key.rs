//! Keys: the names of settings, what the help says of them, and which simulations look at them.

use destage_sim::buffer::DeviceConfig;

/// Describes a setting in the help, and says to which simulations it applies.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// Names the setting: `--NAME`, and in a scenario file a key (`ssd.planes` is `planes` in the table
    /// `[ssd]`).
    pub name: &'static str,
    /// Placeholder of its value in the help.
    pub value: &'static str,
    /// The value where none is given; empty where there is none.
    pub default: &'static str,
    /// Names the simulations that read the setting.
    pub applies_to: AppliesTo,
    /// Help text.
    pub help: &'static str,
    /// Number of values that it takes.
    pub takes: ValueCount,
    /// Place of its value in a result.
    pub recorded: RecordedPlace,
}

impl SettingKey {
    /// Declares a key that results record among their settings.
    pub(crate) const fn new(
        takes: ValueCount,
        name: &'static str,
        value: &'static str,
        default: &'static str,
        applies_to: AppliesTo,
        help: &'static str,
    ) -> Self {
        Self { name, value, default, applies_to, help, takes, recorded: RecordedPlace::Settings }
    }

    /// Returns true if results depend on the setting, false if it decides only how a simulation is carried out or shown.
    pub fn decides_results(&self) -> bool {
        self.recorded != RecordedPlace::Nowhere
    }
}

/// Names the simulations that read a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliesTo {
    /// All.
    All,
    /// Those of buffers inside an SSD.
    Buffers,
    /// Those of buffers over a simulated SSD.
    TimedBuffers,
    /// Those in which requests take time: of buffers over a simulated SSD, and of arrays.
    Timed,
    /// Those with a simulated SSD, below a buffer or in an array.
    Ssd,
    /// Those of buffers over the analytic device.
    Analytic,
    /// Those of arrays.
    Array,
    /// Those of arrays with disks.
    Disk,
    /// Those of arrays with fixed devices.
    Fixed,
    /// Those of arrays whose policies make deltas.
    Deltas,
}

impl AppliesTo {
    /// Returns true if only simulations of arrays look at the setting.
    pub(crate) const fn needs_array(self) -> bool {
        matches!(self, Self::Array | Self::Disk | Self::Fixed | Self::Deltas)
    }

    /// Returns true if only simulations of buffers look at the setting.
    pub(crate) const fn needs_buffers(self) -> bool {
        matches!(self, Self::Buffers | Self::TimedBuffers | Self::Analytic)
    }

    /// Returns the kind of device that an array must have for the setting to be looked at, if it must have one.
    pub(crate) const fn array_device(self) -> Option<&'static str> {
        match self {
            Self::Ssd => Some("ssd"),
            Self::Disk => Some("disk"),
            Self::Fixed => Some("fixed"),
            _ => None,
        }
    }

    /// Returns true if simulations of buffers over this device look at the setting.
    pub(crate) const fn buffers_over(self, device: &DeviceConfig) -> bool {
        match self {
            Self::All | Self::Buffers => true,
            Self::TimedBuffers | Self::Timed | Self::Ssd => matches!(device, DeviceConfig::Ssd(..)),
            Self::Analytic => matches!(device, DeviceConfig::Analytic(_)),
            Self::Array | Self::Disk | Self::Fixed | Self::Deltas => false,
        }
    }

    /// Returns true if simulations of arrays with these kinds of devices look at the setting.
    pub(crate) fn array_of(self, kinds: &[&str], makes_deltas: bool) -> bool {
        !self.needs_buffers()
            && self.array_device().is_none_or(|kind| kinds.contains(&kind))
            && (self != Self::Deltas || makes_deltas)
    }
}

/// Tells the place of a setting's value in a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedPlace {
    /// Among its settings.
    Settings,
    /// In a field of its own.
    Field,
    /// In a field of its own if it is about buffers, else among its settings.
    BufferField,
    /// In a field of its own if it is about an array, else among its settings.
    ArrayField,
    /// By having more figures, or not.
    Figures,
    /// Nowhere, as it depends on none: such a setting decides only how a simulation is carried out or shown.
    Nowhere,
}

/// Tells the number of values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueCount {
    /// One.
    One,
    /// Several, separated by commas or given one after the other.
    Several,
    /// `true` or `false`; the bare flag is `true`.
    Switch,
    /// One, or none: the bare flag means the standard output, `-`.
    File,
}

/// Counts the keys of these tables.
pub(crate) const fn count(tables: &[&[SettingKey]]) -> usize {
    let (mut count, mut table) = (0, 0);
    while table < tables.len() {
        count += tables[table].len();
        table += 1;
    }
    count
}

/// Joins these tables, which have `N` keys together.
pub(crate) const fn joined<const N: usize>(tables: &[&[SettingKey]]) -> [SettingKey; N] {
    assert!(count(tables) == N, "the length of the joined list is that of the tables");
    let mut all = [tables[0][0]; N];
    let (mut at, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            all[at] = tables[table][row];
            (at, row) = (at + 1, row + 1);
        }
        table += 1;
    }
    all
}
