//! Records the requests of a live block device through the kernel's block tracepoints.
//!
//! A [`Recorder`] has a tracing instance of its own, so that neither other tracers nor it disturb
//! each other; the kernel's filter passes events of the recorded [`Device`] alone. It reads the raw
//! pages of the per-CPU ring buffers ([`PageParser`]: times in nanoseconds, no text), puts the
//! CPUs' events in order of time ([`Merge`]), and pairs beginnings with completions ([`Pairing`]).
//! None of these grows with the length of a recording.
//!
//! [`PageParser`], [`EventLayout`], [`Merge`] and [`Pairing`] do no input or output and take any
//! bytes.

mod device;
mod error;
mod event;
mod instance;
mod layout;
mod merge;
mod page;
mod pairing;
mod recorder;
mod rwbs;

pub use device::Device;
pub use error::RecordError;
pub use event::{BlockEvent, EventLayouts, Step};
pub use instance::Losses;
pub use layout::{EventLayout, Field, LayoutError};
pub use merge::{Merge, Rings};
pub use page::{Page, PageEvent, PageEvents, PageFault, PageLayout, PageParser};
pub use pairing::{At, Counts, MAX_WAITING, Pairing, Recorded, View};
pub use recorder::{Options, Progress, Recorder, Summary};
pub use rwbs::{Asked, RequestKind};
