//! Settings of flexible data placement, which the modern model of SSDs has.

use destage_sim::ssd::{HandleIsolation, ModernConfig, PlacementConfig};

use super::Result;
use crate::setting::declare_settings;
use crate::values::word;
use crate::{AppliesTo, ScenarioError, ScenarioSettings, TypedSetting};

/// Tells whether the drive heeds the labels of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementMode {
    /// Ignores them.
    Off,
    /// Keeps streams of writes apart.
    Streams,
}

declare_settings! {
    /// Lists the settings of flexible data placement.
    pub(super) table KEYS;

    pub(crate) const PLACEMENT: TypedSetting<PlacementMode> = TypedSetting::one(
        "ssd.placement",
        "off|streams",
        "off",
        AppliesTo::Ssd,
        "Modern: NVMe's Flexible Data Placement; streams: each of the streams that caches and arrays write (journal, delta, dirty, clean, \
         data, parity) has a placement handle of its own",
        mode,
    );
    pub(crate) const HANDLES: TypedSetting<u8> = TypedSetting::one(
        "ssd.placement-handles",
        "N",
        "",
        AppliesTo::Ssd,
        "With ssd.placement = streams: placement handles; streams beyond them share them in turn [default: 8]",
        handles,
    );
    pub(crate) const ISOLATION: TypedSetting<HandleIsolation> = TypedSetting::one(
        "ssd.placement-isolation",
        "initially|persistently",
        "",
        AppliesTo::Ssd,
        "With ssd.placement = streams: collection puts the pages of all handles into one reclaim unit, or those of each handle into one of \
         its own [default: initially]",
        isolation,
    );
}

fn mode(text: &str) -> std::result::Result<PlacementMode, String> {
    word(text, &[("off", PlacementMode::Off), ("streams", PlacementMode::Streams)])
}

fn handles(text: &str) -> std::result::Result<u8, String> {
    let most = PlacementConfig::MOST_HANDLES;
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| format!("a number between 1 and {most}"))
}

fn isolation(text: &str) -> std::result::Result<HandleIsolation, String> {
    word(text, &HandleIsolation::ALL.map(|isolation| (isolation.word(), isolation)))
}

/// Returns true if SSDs are to keep streams of writes apart.
pub(crate) fn keeps_streams(settings: &ScenarioSettings) -> Result<bool> {
    Ok(PLACEMENT.get(settings)? == PlacementMode::Streams)
}

/// Reads how a modern drive places writes; none if it ignores their labels.
pub(super) fn placement(settings: &ScenarioSettings) -> Result<Option<PlacementConfig>> {
    if !keeps_streams(settings)? {
        let given = [HANDLES.key(), ISOLATION.key()].into_iter().find(|key| settings.is_given(key));
        return match given {
            Some(key) => Err(ScenarioError::new(format_args!(
                "'{}' has no meaning with ssd.placement = off; leave it out, or set ssd.placement = streams",
                key.name
            ))),
            None => Ok(None),
        };
    }
    let usual = PlacementConfig::default();
    Ok(Some(PlacementConfig {
        handles: HANDLES.get_or(settings, usual.handles)?,
        isolation: ISOLATION.get_or(settings, usual.isolation)?,
    }))
}

/// Returns the settings that follow from a modern drive's placement, and their values.
pub(super) fn followed(modern: &ModernConfig) -> impl Iterator<Item = (&'static str, String)> {
    modern.placement.into_iter().flat_map(|placement| {
        [
            (PLACEMENT.name(), "streams".to_owned()),
            (HANDLES.name(), placement.handles.to_string()),
            (ISOLATION.name(), placement.isolation.word().to_owned()),
        ]
    })
}
