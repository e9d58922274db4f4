//! Records the requests of a live block device through the kernel's block tracepoints.
//!
//! A [`TraceRecorder`] has a tracing instance of its own, so that neither other tracers nor it disturb
//! each other; the kernel's filter passes events of the recorded [`RecordedDevice`] alone. It reads the raw
//! pages of the per-CPU ring buffers ([`PageParser`]: times in nanoseconds, no text), puts the
//! CPUs' events in order of time ([`EventMerge`]), and pairs beginnings with completions ([`EventPairing`]).
//! None of these grows with the length of a recording.
//!
//! [`PageParser`], [`EventLayout`], [`EventMerge`] and [`EventPairing`] do no input or output and take any
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

pub use device::RecordedDevice;
pub use error::RecordError;
pub use event::{BlockEvent, EventLayouts, RequestStep};
pub use instance::KernelLosses;
pub use layout::{EventField, EventLayout, LayoutError};
pub use merge::{CpuRings, EventMerge};
pub use page::{PageEvent, PageEvents, PageFault, PageLayout, PageParser, RingPage};
pub use pairing::{EventPairing, MAX_WAITING, PairingCounts, RecordedMoments, RecordedRequest, RecordedView};
pub use recorder::{RecordOptions, RecordProgress, RecordSummary, TraceRecorder};
pub use rwbs::{RequestKind, RwbsFlags};
