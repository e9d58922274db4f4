//! Settings of the analytic device, whose times are added up.

use destage_plan::Nanos;
use destage_sim::buffer::AnalyticConfig;

use super::Result;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::thousandths;
use crate::{AppliesTo, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of the table `[analytic]`.
    pub(super) table KEYS;

    pub(crate) const READ: TypedSetting<Nanos> = TypedSetting::one(
        "analytic.read",
        "TIME",
        "25us",
        AppliesTo::Analytic,
        "Reading a page",
        q::time,
    );
    pub(crate) const PROGRAM: TypedSetting<Nanos> = TypedSetting::one(
        "analytic.program",
        "TIME",
        "200us",
        AppliesTo::Analytic,
        "Programming a page",
        q::time,
    );
    pub(crate) const ERASE: TypedSetting<Nanos> = TypedSetting::one(
        "analytic.erase",
        "TIME",
        "1.5ms",
        AppliesTo::Analytic,
        "Erasing a block",
        q::time,
    );
    pub(crate) const TRANSFER: TypedSetting<Nanos> = TypedSetting::one(
        "analytic.transfer",
        "TIME",
        "13.65us",
        AppliesTo::Analytic,
        "Moving a page",
        q::time,
    );
    pub(crate) const INCLUDE_TRANSFER: TypedSetting<bool> = TypedSetting::switch(
        "analytic.include-transfer",
        "true",
        AppliesTo::Analytic,
        "Whether reads and programs include the transfer",
    );
    pub(crate) const MEMORY_ACCESS: TypedSetting<u64> = TypedSetting::one(
        "analytic.memory-access",
        "NS",
        "2.5",
        AppliesTo::Analytic,
        "A memory access of the algorithm, in ns",
        thousandths,
    );
}

/// Reads the times of the analytic device.
pub(crate) fn analytic(settings: &ScenarioSettings) -> Result<AnalyticConfig> {
    Ok(AnalyticConfig {
        read: READ.get(settings)?,
        program: PROGRAM.get(settings)?,
        erase: ERASE.get(settings)?,
        transfer: TRANSFER.get(settings)?,
        include_transfer: INCLUDE_TRANSFER.get(settings)?,
        memory_access_ps: MEMORY_ACCESS.get(settings)?,
    })
}
