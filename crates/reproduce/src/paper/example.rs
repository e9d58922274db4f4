//! Worked examples: a few requests of which a paper says what becomes of them.

use std::collections::BTreeMap;

use destage_plan::{Nanos, Op, Request};
use destage_scenario::{ScenarioError, quantity};
use serde::Deserialize;

/// Pages of an example are few.
pub(crate) const EXAMPLE_PAGES: u32 = 1 << 16;
/// Bytes of a page of an example over an array.
const PAGE: u64 = 4096;

/// An example of the paper: a policy, some requests and their outcome.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkedExample {
    /// Identifies the example.
    pub id: String,
    /// Says where the paper shows the example.
    #[serde(rename = "where")]
    pub place: String,
    /// Describes the example.
    pub about: String,
    /// Names the policy.
    pub policy: String,
    /// Lists the requests in order, as `W4 R7 W0-3`: what is read or written, a page or several.
    pub requests: String,
    /// Describes the buffer inside an SSD that they go to.
    pub buffer: Option<BufferExample>,
    /// Describes the array that they go to.
    pub array: Option<ArrayExample>,
}

/// A buffer that an example is about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BufferExample {
    /// Pages that the buffer holds.
    pub capacity: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Counts the channels of the device.
    #[serde(default = "one")]
    pub elements: u32,
    /// Lists pages on the element that collects, the last one; others are on those before it.
    #[serde(default)]
    pub collecting: Vec<u32>,
    /// Lists the pages that the last request evicts, in ascending order.
    pub evicts: Vec<u32>,
}

/// An array that an example is about, with pages of 4 KiB and members that take no time to speak of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ArrayExample {
    /// Settings of `destage sim` beside the policy.
    pub settings: BTreeMap<String, toml::Value>,
    /// Says how long after a request the next one comes.
    pub every: String,
    /// Lists figures of the result, by their names in it, and their values.
    pub counts: BTreeMap<String, u64>,
}

const fn one() -> u32 {
    1
}

/// A request of an example: it reads or writes pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExampleRequest {
    pub(crate) is_write: bool,
    pub(crate) first: u32,
    pub(crate) pages: u32,
}

impl WorkedExample {
    /// Returns the requests.
    ///
    /// # Errors
    /// Names the request that is none.
    pub(crate) fn parsed(&self) -> Result<Vec<ExampleRequest>, ScenarioError> {
        let all = self.requests.split_whitespace().map(|text| {
            let parsed = || {
                let (op, pages) = text.split_at_checked(1)?;
                let (first, last) = pages.split_once('-').unwrap_or((pages, pages));
                let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
                let is_few = first <= last && last < EXAMPLE_PAGES;
                let is_write = match op {
                    "W" => true,
                    "R" => false,
                    _ => return None,
                };
                is_few.then(|| ExampleRequest { is_write, first, pages: last - first + 1 })
            };
            let expected = format_args!(
                "'{text}' is no request: expected R or W and a page, or several as in W0-3, below {EXAMPLE_PAGES}"
            );
            parsed().ok_or_else(|| ScenarioError::new(expected).at(format_args!("example {}: requests", self.id)))
        });
        all.collect()
    }

    /// Checks what can be checked without running it.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError::new(what).at(format_args!("example {}", self.id)));
        if self.parsed()?.is_empty() {
            return wrong("requests: there is none");
        }
        match (&self.buffer, &self.array) {
            (Some(buffer), None) => {
                let bounds = 1..=EXAMPLE_PAGES;
                if !bounds.contains(&buffer.capacity) || !bounds.contains(&buffer.pages_per_block) {
                    return wrong(&format!("capacity and pages-per-block: expected 1 to {EXAMPLE_PAGES}"));
                }
                if !(1..=64).contains(&buffer.elements) {
                    return wrong("elements: expected 1 to 64");
                }
                Ok(())
            }
            (None, Some(array)) => array.interval(&self.id).map(drop),
            _ => wrong("expected either 'buffer' or 'array'"),
        }
    }
}

impl ArrayExample {
    fn interval(&self, id: &str) -> Result<Nanos, ScenarioError> {
        quantity::time(&self.every).map_err(|error| ScenarioError::new(error).at(format_args!("example {id}: every")))
    }

    /// Returns the requests as a trace has them.
    ///
    /// # Errors
    /// Says what is wrong with the interval.
    pub(crate) fn requests(&self, id: &str, requests: &[ExampleRequest]) -> Result<Vec<Request>, ScenarioError> {
        let every = self.interval(id)?;
        let request = |(number, request): (u64, &ExampleRequest)| Request {
            time: Nanos(number * every.0),
            offset: u64::from(request.first) * PAGE,
            len: u64::from(request.pages) * PAGE,
            volume: 0,
            op: if request.is_write { Op::Write } else { Op::Read },
            fua: false,
        };
        Ok((0..).zip(requests).map(request).collect())
    }
}
