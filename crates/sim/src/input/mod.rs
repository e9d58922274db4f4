//! What comes into a simulation: requests as a host sends them, with their pages' places in one
//! dense page space.

mod directory;
mod feed;
mod host;
mod host_queue;
mod space;
mod volumes;

pub use directory::BlockDirectory;
pub use feed::{Feed, FeedCounts, FeedRequest, Feeder, Ops, Origin, Speed};
pub use host::{HostModel, Subpage, TrimMode, Warmup};
pub(crate) use host_queue::{HostQueue, Places};
pub use space::{Extent, LbaOverflow, PageSpace, PageSpan, SpaceError};
pub use volumes::{VolumeChoice, VolumeSelection};
