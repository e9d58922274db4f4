//! The setting that chooses the devices.

use crate::{AppliesTo, Key, Recorded};

/// Lists the setting that chooses devices.
pub(super) const KEYS: &[Key] = &[Key::one(
    "device",
    "none|analytic|ssd|disk|fixed",
    "none",
    AppliesTo::All,
    "Below the buffer: none, analytic or ssd; the members of an array: disk (the default there), ssd or fixed",
)
.recorded(Recorded::Field)];
