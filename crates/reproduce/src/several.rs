//! Values as papers' files give them: one or several, sizes as texts.

use destage_scenario::quantity;
use serde::Deserialize;

/// One or several of something.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    /// All of them.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// As it is shown.
    pub fn text(&self) -> String {
        self.all().join(", ")
    }
}

/// Buffer sizes in bytes.
pub(crate) fn bytes(caches: &[String]) -> impl Iterator<Item = u64> {
    caches.iter().filter_map(|cache| quantity::bytes(cache).ok())
}
