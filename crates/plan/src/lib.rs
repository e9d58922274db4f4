//! The lowest floor: units that every other crate speaks, the kinds of request, how a request is
//! split into page accesses, policies and their parameters as a user writes them ([`PolicySpec`],
//! [`Params`]); and the plans of the host-side caches, which simulator, real devices and crash
//! harness share: a [`Controller`] is told [`Event`]s and answers with operations made of
//! [`Step`]s, an [`Engine`] orders them, an executor carries them out.

mod buf;
mod claim;
mod device;
mod engine;
mod event;
mod fragment;
mod intents;
mod nv;
mod out;
pub mod quantity;
mod request;
mod sets;
mod spec;
mod split;
mod step;
mod units;

pub use buf::{Buf, List, NvSlot, RowList, Sectors, Tag};
pub use claim::{Claim, ClaimTable, ClaimWait, Class};
pub use device::{Column, Dev, DeviceChange, Ext, Row, Rows, Stripe};
pub use engine::{Controller, Engine, HostNotice, HostRequest};
pub use event::{Control, Event, Frag, FragId, HostOp, Start};
pub use fragment::{Piece, RangeError, Shape, ShapeError};
pub use intents::Intents;
pub use nv::NvSlots;
pub use out::{Issue, OpId, Out, Refusal, Status};
pub use request::{Op, Request};
pub use sets::{ColumnSet, DevSet, StepSet};
pub use spec::{ParamSpec, Params, PolicySpec, SpecError, same_value};
pub use split::{PageGeometry, PageGeometryError, PageRun, Split};
pub use step::{Step, StepKind, StepNo, StepOutcome};
pub use units::{BlockNo, Nanos, PageNo, SECTOR_BYTES};
