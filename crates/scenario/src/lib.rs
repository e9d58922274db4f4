//! Scenarios: every setting once, by one name, from a command line, from `KEY=VALUE` or from a TOML
//! file, and the experiments and workloads that they describe.
//!
//! [`ScenarioSettings`] holds what was given and remembers where, so that an error names the flag or the
//! file and line; [`sim`], [`synth`] and [`workload`] say which keys there are and what they mean.

mod array;
mod device_name;
mod error;
mod key;
pub mod keys;
pub mod mrc;
mod print;
mod resolved;
mod setting;
mod settings;
pub mod sim;
mod simulation;
mod sizes;
pub mod synth;
mod values;
pub mod workload;

pub use array::makes_deltas;
pub use destage_plan::{path_text, quantity};
pub use device_name::device_name;
pub use error::ScenarioError;
pub use key::{AppliesTo, RecordedPlace, SettingKey, ValueCount};
pub use print::scenario;
pub use resolved::{ResolveError, TraceLooks};
pub use setting::TypedSetting;
pub use settings::{ScenarioSettings, line_of, read};
pub use simulation::{CountError, DescribedSimulation, SizesError, count, find_sizes, simulation};
pub use sizes::{CacheSize, RelativeSize, chosen};
