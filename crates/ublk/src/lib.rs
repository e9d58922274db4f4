//! Block devices of the kernel that this process serves: Linux' ublk.
//!
//! A [`UblkDevice`] is made, or found again after its server has died, and started and stopped over the driver's control device. Its requests come by a
//! [`RequestQueue`], which is driven by whoever owns it: it waits for nothing, and tells by a [file](RequestQueue::file)
//! when there is something to be taken. The bytes of a write are copied when there is room for them and not before, so that memory
//! is bounded by what the server allows.
//!
//! Everything about the kernel is behind [`QueueKernel`], of which a model stands in for it in tests.

pub mod abi;
mod control;
mod device;
mod error;
mod kernel;
mod queue;

pub use device::{DeviceOffer, DeviceState, FoundDevice, UblkDevice, find_device};
pub use error::UblkError;
pub use queue::{BlockOp, BlockRequest, KernelEvent, QueueEvent, QueueKernel, RequestQueue};
