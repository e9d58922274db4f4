//! Settings of the analytic device, whose times are added up.

use destage_sim::buffer::AnalyticConfig;

use super::Result;
use crate::quantity as q;
use crate::{AppliesTo, Key, Settings};

/// Lists the settings of the table `[analytic]`.
pub(super) const KEYS: &[Key] = &[
    Key::one("analytic.read", "TIME", "25us", AppliesTo::Analytic, "Reading a page"),
    Key::one("analytic.program", "TIME", "200us", AppliesTo::Analytic, "Programming a page"),
    Key::one("analytic.erase", "TIME", "1.5ms", AppliesTo::Analytic, "Erasing a block"),
    Key::one("analytic.transfer", "TIME", "13.65us", AppliesTo::Analytic, "Moving a page"),
    Key::switch(
        "analytic.include-transfer",
        "true",
        AppliesTo::Analytic,
        "Whether reads and programs include the transfer",
    ),
    Key::one("analytic.memory-access", "NS", "2.5", AppliesTo::Analytic, "A memory access of the algorithm, in ns"),
];

pub(crate) fn analytic(settings: &Settings) -> Result<AnalyticConfig> {
    Ok(AnalyticConfig {
        read: settings.one("analytic.read", q::time)?,
        program: settings.one("analytic.program", q::time)?,
        erase: settings.one("analytic.erase", q::time)?,
        transfer: settings.one("analytic.transfer", q::time)?,
        include_transfer: settings.one("analytic.include-transfer", q::switch)?,
        memory_access_ps: settings.one("analytic.memory-access", |text| q::decimal(text, 1000))?,
    })
}
