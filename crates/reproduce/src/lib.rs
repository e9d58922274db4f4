//! Evidence: destage against theory and conservation laws ([`validate`]), and against what papers
//! claim ([`mod@reproduce`]; the claims are data, see [`paper`]; [`search`] looks for the assumptions under which most of them hold).

mod compare;
pub mod counted;
mod drives;
pub mod figure;
mod finding;
pub mod grade;
pub mod metric;
mod needed;
pub mod originals;
pub mod page;
pub mod panel;
pub mod paper;
mod parallel;
mod peers;
pub mod placeholders;
mod plan;
pub mod prose;
pub mod reasons;
pub mod report;
pub mod reproduce;
mod run;
pub mod score;
pub mod search;
pub mod several;
mod skew;
pub mod summary;
pub mod theory;
pub mod validate;
pub mod watch;
mod wording;
mod worked;

pub use run::EvidenceError;
