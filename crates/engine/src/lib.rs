//! The block service: an array and its cache, on real files, behind sockets of the NBD protocol.
//!
//! A [`Description`] says which files an array consists of and how it is served; it [makes](Description::create)
//! the array, which is [opened](Array::open) and is a [`Backend`] then; a [`Service`] serves that to clients. What
//! is decided about each request is the policy's and the RAID layer's, by the very code that the simulator
//! runs; the bytes are moved by [`destage_exec::Files`]. docs/service.md says how to use it and what it promises.

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
mod outbox;
mod recorder;
mod replacement;
mod scrub;
mod sectors;
mod service;
mod socket;
mod spin;
mod status;
mod superblock;
mod waiter;
mod word;

pub use array::Array;
pub use assembly::{ArrayAssembly, AssemblyMember, AssemblyReport};
pub use backend::Backend;
pub use byte_size::ByteSize;
pub use control::{Order, OrderError, Reply, order, order_with_progress};
pub use description::{
    ArrayPart, CachePart, Described, Description, DescriptionError, IoPart, NvramOn, NvramPart, ServePart,
};
pub use descriptors::raise_descriptor_limit;
pub use destage_exec::{Accepted, MemberFreshness, ZeroingProgress, ZeroingWatch};
pub use destage_raid::settings;
pub use destage_ublk::{DeviceOffer, DeviceState, FoundDevice, UblkDevice, UblkError, find_device};
pub use device_timeout::DeviceTimeout;
pub use event::{EventSeverity, ServiceEvent};
pub use making::{ArrayMaking, MadeArray};
pub use recorder::Recorder;
pub use replacement::{DeviceReplacement, ReplaceError, ReplaceOutcome};
pub use scrub::{ScrubError, ScrubRequest, ScrubState, ScrubStatus};
pub use service::{DeviceControl, Offer, Service, ServiceError};
pub use socket::Listener;
pub use status::{
    ArrayStatus, ByteRange, CacheStatus, Clients, DeviceStatus, Figure, Kind, MemoryStatus, Requests,
    ResynchronisedStatus, State, StateStatus, Status, SuccessorStatus,
};
pub use superblock::{MdArray, MdError, MdOrigin};
pub use uuid::Uuid;
