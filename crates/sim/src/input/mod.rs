//! Feeds a simulation: requests as a host sends them, with their pages' places in one dense page space.

mod directory;
mod feed;
mod host;
mod host_queue;
mod space;
mod volumes;

pub use directory::BlockDirectory;
pub use feed::{FeedBuilder, FeedCounts, FeedRequest, PlaySpeed, RequestFeed, RequestOrigin, TraceOps};
pub use host::{HostModel, SubpageWrites, TrimMode, WarmupPart};
pub(crate) use host_queue::{HostQueue, QueuePlaces};
pub use space::{LbaOverflow, PageSpace, PageSpan, SpaceError, TouchedExtent};
pub use volumes::{VolumeChoice, VolumeSelection};
