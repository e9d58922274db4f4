//! Why a buffer could not be built.

use destage_plan::SpecError;

/// Why a buffer could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Refuses a wrong name or wrong parameters.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The buffer cannot hold a page.
    #[error("a buffer needs room for at least one page")]
    NoCapacity,
    /// The device has no element.
    #[error("a device has at least one element or channel")]
    NoElement,
    /// More channels than a policy that chooses them can tell apart.
    #[error("a policy that chooses channels tells {most} of them apart and the device has {channels}")]
    TooManyChannels {
        /// Channels of the device.
        channels: u32,
        /// The most that there may be.
        most: u32,
    },
    /// A logical block has no page.
    #[error("a logical block has at least one page")]
    EmptyBlock,
}
