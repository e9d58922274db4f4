//! The block service: an array and its cache, on real files, behind sockets of the NBD protocol.
//!
//! A [`ArrayDescription`] says which files an array consists of and how it is served; it [makes](ArrayDescription::create)
//! the array, which is [opened](ArrayBackend::open) and is a [`BlockBackend`] then; a [`BlockService`] serves that to clients. What
//! is decided about each request is the policy's and the RAID layer's, by the very code that the simulator
//! runs; the bytes are moved by [`destage_exec::FileExecutor`]. docs/service.md says how to use it and what it promises.

mod array;
mod as_text;
mod assembly;
mod backend;
mod budget;
mod buffer_pool;
mod byte_size;
mod connection;
mod control;
mod description;
mod descriptors;
mod device_timeout;
mod event;
mod holes;
mod load;
mod making;
pub mod marks;
mod md;
mod recorder;
mod replacement;
mod scrub;
mod sectors;
mod send_queue;
mod service;
mod socket;
mod spin;
mod status;
mod superblock;
mod waiter;
mod word;

pub use array::ArrayBackend;
pub use assembly::{ArrayAssembly, AssemblyMember, AssemblyReport};
pub use backend::BlockBackend;
pub use byte_size::ByteSize;
pub use control::{ControlReply, OrderError, ServiceCommand, order, order_with_progress};
pub use description::{
    ArrayDescription, ArrayPart, CachePart, DescribedArray, DescriptionError, IoPart, NvramOn, NvramPart, ServePart,
};
pub use descriptors::raise_descriptor_limit;
pub use destage_exec::{AcceptedLosses, MemberFreshness, ZeroingProgress, ZeroingWatch};
pub use destage_raid::settings;
pub use destage_ublk::{DeviceOffer, DeviceState, FoundDevice, UblkDevice, UblkError, find_device};
pub use device_timeout::DeviceTimeout;
pub use event::{EventSeverity, ServiceEvent};
pub use making::{ArrayMaking, MadeArray};
pub use recorder::RequestRecorder;
pub use replacement::{DeviceReplacement, ReplaceError, ReplaceOutcome};
pub use scrub::{ScrubError, ScrubRequest, ScrubState, ScrubStatus};
pub use service::{BlockService, DeviceControl, ExportSettings, ServiceError};
pub use socket::SocketListener;
pub use status::{
    ArrayState, ArrayStatus, ByteRange, CacheCount, CacheStatus, ClientCounts, CommandCounts, DeviceStatus,
    MemoryStatus, RequestCounts, ResynchronisedStatus, ServiceStatus, StateStatus, SuccessorStatus, TimeCount,
};
pub use superblock::{MdArray, MdError, MdOrigin};
pub use uuid::Uuid;
