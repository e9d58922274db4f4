//! Defines the types that every other crate uses.
//!
//! * Units, kinds of request, and how a request is split into page accesses.
//! * Policies and their parameters as a user writes them ([`PolicySpec`], [`Params`]).
//! * Plans of the host-side caches, which simulator, real devices and crash harness share. A [`Controller`] is told
//!   [`Event`]s and answers with operations made of [`Step`]s, an [`Engine`] orders them, and an executor carries
//!   them out.

// What all crates speak.
pub mod names; // names as people write them
pub mod path_text; // names of files as text, any of them
pub mod quantity; // sizes and times as people write them
mod request; // requests of a trace
mod spec; // policies and parameters as a user writes them
mod split; // requests to page accesses, for buffers
mod units;

// Plans of the host side.
mod buf; // where a step's bytes are
mod checksum; // of pages of a cache's device
mod claim; // who may touch which rows
mod copy; // a member to its successor
mod device; // devices, extents, rows, stripes
mod engine; // drives a controller
mod event; // what a controller is told
mod fragment; // requests to fragments, for arrays
mod ids; // names of operations, steps, fragments, timers
mod intents; // which rows may be inconsistent
mod kept; // what operations keep for their steps
mod list; // the names of lists
mod lists; // what steps name and is too long for them
mod lost; // ranges whose data cannot be known
mod nv; // slots of the NVRAM
mod out; // what a controller answers
mod placement; // streams of writes to a device
mod scrub; // comparing rows of an array
mod sequential; // runs of requests
mod sets; // sets of steps, devices, columns
mod status; // how far a life has come
mod step; // what an executor is asked to do

pub use buf::{Buf, NvHeld, NvPut, NvSlot, Sectors, Span, Tag};
pub use checksum::{PageChecksum, PageChecksums};
pub use claim::{Claim, ClaimTable, ClaimWait, Class};
pub use copy::{CopyEnd, CopyOutcome};
pub use device::{Column, Dev, DeviceChange, Ext, Quota, Row, Rows, Stripe};
pub use engine::{Controller, Engine, HostNotice, HostRequest};
pub use event::{Condition, Control, Event, Frag, HostOp, Start};
pub use fragment::{Piece, RangeError, Shape, ShapeError};
pub use ids::{FragId, OpId, StepNo, TimerId, TimerOwner};
pub use intents::Intents;
pub use list::{ByteList, List, PutList, RowList, SpanList};
pub use lost::{LostPages, PageRange};
pub use nv::NvSlots;
pub use out::{Issue, Out, Planned};
pub use placement::PlacementStream;
pub use request::{Op, Request};
pub use scrub::{ScrubOrder, ScrubTally};
pub use sequential::{RunPlace, SequentialRuns};
pub use sets::{ColumnSet, DevSet, StepSet};
pub use spec::{ParamSpec, Params, PolicySpec, SpecError, same_value};
pub use split::{PageGeometry, PageGeometryError, PageRun, Split};
pub use status::{Refusal, Status};
pub use step::{BadPage, PageFate, PageReport, Step, StepKind, StepOutcome};
pub use units::{BlockNo, Element, Nanos, PageNo, SECTOR_BYTES};
