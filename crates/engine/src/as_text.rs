//! Names of files in what is written as text: `#[serde(with = "as_text")]`.

use std::path::PathBuf;

use destage_plan::path_text;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A file's name, or as many as there are.
pub trait FileNames: Sized {
    /// The same as text.
    type Text: Serialize + DeserializeOwned;

    /// The text of each name.
    fn text(&self) -> Self::Text;

    /// The names that have these texts.
    fn of(text: Self::Text) -> Self;
}

impl FileNames for PathBuf {
    type Text = String;

    fn text(&self) -> String {
        path_text::of(self)
    }

    fn of(text: String) -> Self {
        path_text::path(&text)
    }
}

impl FileNames for Option<PathBuf> {
    type Text = Option<String>;

    fn text(&self) -> Option<String> {
        self.as_ref().map(PathBuf::text)
    }

    fn of(text: Option<String>) -> Self {
        text.map(PathBuf::of)
    }
}

impl FileNames for Vec<PathBuf> {
    type Text = Vec<String>;

    fn text(&self) -> Vec<String> {
        self.iter().map(PathBuf::text).collect()
    }

    fn of(text: Vec<String>) -> Self {
        text.into_iter().map(PathBuf::of).collect()
    }
}

/// Writes them as text.
///
/// # Errors
/// Those of the format.
pub fn serialize<N: FileNames, S: Serializer>(names: &N, to: S) -> Result<S::Ok, S::Error> {
    names.text().serialize(to)
}

/// Reads them from text.
///
/// # Errors
/// Those of the format.
pub fn deserialize<'de, N: FileNames, D: Deserializer<'de>>(from: D) -> Result<N, D::Error> {
    N::Text::deserialize(from).map(N::of)
}
