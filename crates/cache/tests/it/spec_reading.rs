//! The two ways in which the naive models serve a request of several pages.

/// Selects how a naive model serves a request of several pages, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecReading {
    /// Follows the caches. `model` and `tier_model::request` list where these depart from the specs.
    #[default]
    AsBuilt,
    /// Follows the specs and the papers.
    Paper,
}
