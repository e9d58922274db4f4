//! Settings whose values are words, as `array.toml` has them: those with which arrays are created.

use std::fmt;

use destage_raid::StripeCacheSize;
use destage_raid::array::{DurabilityMode, ParityMethod};
use destage_raid::settings::{ArraySetting, DURABILITY, PARITY, STRIPE_CACHE};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::ser::{self, Serializer};

/// Names the methods of updating parity.
pub(crate) mod parity {
    use super::{Deserializer, PARITY, ParityMethod, Serializer, deserialize_word, serialize_word};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(value: &ParityMethod, to: S) -> Result<S::Ok, S::Error> {
        serialize_word(&PARITY, value.word(), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ParityMethod, D::Error> {
        deserialize_word(&PARITY, from)
    }
}

/// Names the durability modes.
pub(crate) mod durability {
    use super::{DURABILITY, Deserializer, DurabilityMode, Serializer, deserialize_word, serialize_word};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(value: &DurabilityMode, to: S) -> Result<S::Ok, S::Error> {
        serialize_word(&DURABILITY, value.word(), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DurabilityMode, D::Error> {
        deserialize_word(&DURABILITY, from)
    }
}

/// Reads and writes sizes of stripe caches.
pub(crate) mod stripe_cache {
    use super::{Deserialize, Deserializer, STRIPE_CACHE, Serializer, StripeCacheSize, de};

    pub(crate) fn serialize<S: Serializer>(value: &StripeCacheSize, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StripeCacheSize, D::Error> {
        let text = String::deserialize(from)?;
        (STRIPE_CACHE.parse)(&text).map_err(|right| de::Error::custom(format_args!("\"{text}\" is not {right}")))
    }
}

fn serialize_word<T, S: Serializer>(setting: &ArraySetting<T>, word: &str, to: S) -> Result<S::Ok, S::Error> {
    // Words of other tools' settings could not be read again, so they are refused when they are written.
    if setting.words.contains(&word) {
        to.serialize_str(word)
    } else {
        Err(ser::Error::custom(format_args!("arrays are not created with {} = {word}", setting.created.name)))
    }
}

fn deserialize_word<'de, T, D: Deserializer<'de>>(setting: &ArraySetting<T>, from: D) -> Result<T, D::Error> {
    from.deserialize_enum(setting.created.name, setting.words, WordOf(setting))
}

/// Takes one of a setting's words, as the variant of an enumeration: so errors name the place of the word and all words.
struct WordOf<'a, T>(&'a ArraySetting<T>);

impl<'de, T> Visitor<'de> for WordOf<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.words.join(", "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        if !self.0.words.contains(&text) {
            return Err(E::unknown_variant(text, self.0.words));
        }
        (self.0.parse)(text).map_err(E::custom)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<T, A::Error> {
        let (value, rest) = data.variant_seed(self)?;
        rest.unit_variant()?;
        Ok(value)
    }
}

impl<'de, T> DeserializeSeed<'de> for WordOf<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_identifier(self)
    }
}
