//! Policy names with parameters as a user writes them, checked against what the policy declares.

use std::fmt;
use std::ops::RangeBounds;
use std::str::FromStr;

use crate::names::nearest;

/// A parameter that a policy declares.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The key.
    pub name: &'static str,
    /// The value where none is given.
    pub default: &'static str,
    /// The values allowed, for people.
    pub values: &'static str,
    /// The unit of a number, or "-".
    pub unit: &'static str,
    /// Describes the parameter's effect in one line, with the source.
    pub help: &'static str,
}

/// A policy and its parameters: `name` or `name:key=value:key=value`, where the name may have
/// layers before it: `gcar+lru`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// The policy's name.
    pub name: String,
    /// The parameters given, in the order given.
    pub given: Vec<(String, String)>,
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().trim();
        let given = parts
            .map(|part| match part.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().into(), value.trim().into())),
                _ => Err(SpecError::Syntax { spec: text.into(), part: part.into() }),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { name: name.into(), given })
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.given.iter().try_for_each(|(key, value)| write!(f, ":{key}={value}"))
    }
}

/// Reads the words of a switch.
fn as_switch(text: &str) -> Option<bool> {
    match text {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Returns true if two values mean the same: equal text, two words for the same position of a switch, or the same
/// number.
pub fn same_value(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let same_position = as_switch(one).is_some_and(|position| as_switch(other) == Some(position));
    one == other || same_position || number(one).is_some_and(|one| number(other) == Some(one))
}

/// The one of a list of names that may be meant.
fn suggestion(name: &str, known: &str) -> String {
    let near = nearest(name, known.split(", ").filter(|known| !known.contains(' ')));
    near.map_or_else(String::new, |near| format!("did you mean '{near}'? "))
}

/// Why a name with parameters names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not of the form `name:key=value`.
    #[error("policy '{spec}': '{part}' is not of the form key=value (write name:key=value:key=value)")]
    Syntax {
        /// The whole specification.
        spec: String,
        /// The part that is wrong.
        part: String,
    },
    /// No policy of this name.
    #[error("policy '{name}' is not known; {}the policies are: {known}", suggestion(name, known))]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The policy has no such parameter.
    #[error("policy '{policy}' has no parameter '{key}'; {known}")]
    UnknownParam {
        /// The policy, with its layers.
        policy: String,
        /// The key given.
        key: String,
        /// The keys there are.
        known: String,
    },
    /// A key was given twice.
    #[error("policy '{policy}': parameter '{key}' is given twice")]
    Twice {
        /// The policy.
        policy: &'static str,
        /// The key.
        key: String,
    },
    /// The value is none of those allowed.
    #[error("policy '{policy}': {key} = '{value}' is not {allowed}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The key.
        key: &'static str,
        /// The value given.
        value: String,
        /// The values allowed.
        allowed: String,
    },
    /// No layer of this name.
    #[error("policy '{spec}': there is no layer '{name}'; {}the layers are: {known}", suggestion(name, known))]
    UnknownLayer {
        /// The whole name.
        spec: String,
        /// The layer given.
        name: String,
        /// The layers there are.
        known: String,
    },
    /// Layers and policies that make no sense together.
    #[error("policy '{spec}': {reason}")]
    Composition {
        /// The whole name.
        spec: String,
        /// Why not, and what would be right.
        reason: String,
    },
}

/// The parameters of a policy or a layer: what was given, and defaults for the rest.
#[derive(Clone, Debug)]
pub struct Params {
    policy: &'static str,
    values: Vec<(&'static ParamSpec, String)>,
}

impl Params {
    /// Checks the keys given against those that the parts of a composition declare, and fills in
    /// the defaults; returns the parameters of each part. `parts` has a name and what is declared
    /// for each layer, the outermost first, and then for the policy itself, which there always is.
    pub fn resolve(parts: &[(&'static str, &'static [ParamSpec])], spec: &PolicySpec) -> Result<Vec<Self>, SpecError> {
        let (base, _) = parts[parts.len() - 1];
        for (i, (key, _)) in spec.given.iter().enumerate() {
            let mut names = parts.iter().flat_map(|(_, params)| params.iter().map(|p| p.name));
            if !names.clone().any(|name| name == key) {
                let known = if names.clone().next().is_none() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", names.by_ref().collect::<Vec<_>>().join(", "))
                };
                return Err(SpecError::UnknownParam { policy: spec.name.clone(), key: key.clone(), known });
            }
            // Taking the last of two values would hide a slip in a long command line.
            if spec.given[..i].iter().any(|(other, _)| other == key) {
                return Err(SpecError::Twice { policy: base, key: key.clone() });
            }
        }
        let value_of = |param: &ParamSpec| {
            let given = spec.given.iter().find(|(key, _)| key == param.name);
            given.map_or_else(|| param.default.to_owned(), |(_, value)| value.clone())
        };
        let resolved = parts
            .iter()
            .map(|&(policy, params)| Self { policy, values: params.iter().map(|p| (p, value_of(p))).collect() });
        Ok(resolved.collect())
    }

    /// Every parameter with the value in force, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(param, value)| (param.name, value.as_str()))
    }

    fn find(&self, key: &str) -> (&'static ParamSpec, &str) {
        let found = self.values.iter().find(|(param, _)| param.name == key);
        let (param, value) = found.unwrap_or_else(|| panic!("policy '{}' does not declare '{key}'", self.policy));
        (param, value)
    }

    /// The error for a value that is not allowed.
    pub fn refuse(&self, key: &str) -> SpecError {
        let (param, value) = self.find(key);
        SpecError::Value {
            policy: self.policy,
            key: param.name,
            value: value.into(),
            allowed: format!("one of: {}", param.values),
        }
    }

    /// The value of one of `choices`.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, SpecError> {
        let (_, value) = self.find(key);
        choices.iter().find(|(word, _)| *word == value).map(|&(_, choice)| choice).ok_or_else(|| self.refuse(key))
    }

    /// A switch: `true|on|yes|1` or `false|off|no|0`.
    pub fn switch(&self, key: &str) -> Result<bool, SpecError> {
        as_switch(self.find(key).1).ok_or_else(|| self.refuse(key))
    }

    /// A whole number of `range`, written in digits alone.
    pub fn number<T: FromStr + PartialOrd>(&self, key: &str, range: impl RangeBounds<T>) -> Result<T, SpecError> {
        let (_, value) = self.find(key);
        let number = value.parse().ok().filter(|number| range.contains(number));
        // `parse` takes a sign, which the documented values have not: `+8` is refused rather than written in two
        // ways.
        number.filter(|_| value.bytes().all(|b| b.is_ascii_digit())).ok_or_else(|| self.refuse(key))
    }

    /// A number with up to two decimals, in hundredths, which are of `range`.
    pub fn hundredths(&self, key: &str, range: impl RangeBounds<u64>) -> Result<u64, SpecError> {
        let (whole, decimals) = self.find(key).1.split_once('.').unwrap_or((self.find(key).1, "0"));
        // The digits are read as they stand: binary floating point cannot hold 0.59.
        let digits = [whole, decimals].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        let number = || {
            let hundredths = format!("{decimals:0<2}").parse().ok()?;
            whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(hundredths)
        };
        let number = if digits && decimals.len() <= 2 { number() } else { None };
        number.filter(|number| range.contains(number)).ok_or_else(|| self.refuse(key))
    }

    /// The text of a value.
    pub fn text(&self, key: &str) -> &str {
        self.find(key).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_alone_and_in_range() {
        const DECLARED: &[ParamSpec] =
            &[ParamSpec { name: "ways", default: "8", values: "1 to 16", unit: "pages", help: "pages of a set" }];
        let ways = |given: &str| {
            let spec = format!("cache{given}").parse()?;
            Params::resolve(&[("cache", DECLARED)], &spec)?[0].number("ways", 1..=16_u8)
        };
        assert_eq!([ways(""), ways(":ways=1"), ways(":ways=016")], [Ok(8), Ok(1), Ok(16)]);
        for value in ["0", "17", "256", "+1", "-1", "1.5", "1 1", ""] {
            let refusal = format!("policy 'cache': ways = '{value}' is not one of: 1 to 16");
            assert_eq!(ways(&format!(":ways={value}")).map_err(|error| error.to_string()), Err(refusal));
        }
    }

    #[test]
    fn hundredths_are_read_from_up_to_two_decimals() {
        const DECLARED: &[ParamSpec] =
            &[ParamSpec { name: "log", default: "1", values: "0 to 50", unit: "percent", help: "share" }];
        let log = |given: &str| {
            let spec = format!("cache:log={given}").parse()?;
            Params::resolve(&[("cache", DECLARED)], &spec)?[0].hundredths("log", 0..=5_000)
        };
        for (given, hundredths) in [("1", 100), ("0.59", 59), ("0.5", 50), ("12.05", 1_205), ("50.00", 5_000), ("0", 0)]
        {
            assert_eq!(log(given), Ok(hundredths), "{given}");
        }
        for value in ["50.01", "0.590", ".5", "1.", "-1", "+0.5", "1.-5", "1e1", "", "18446744073709551615"] {
            let refusal = format!("policy 'cache': log = '{value}' is not one of: 0 to 50");
            assert_eq!(log(value).map_err(|error| error.to_string()), Err(refusal));
        }
    }
}
