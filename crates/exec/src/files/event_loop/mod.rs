//! The executor and its main loop: what happens next.

mod bad_page;
mod clock;
mod completion;
mod device;
mod dispatch;
mod event_count;
mod executor;
mod moving;
mod nvram_move;
mod replace;
mod request;
mod roster;
mod serve;
mod start;
mod status;
mod submission;
mod succession;
mod successor;
mod timeout;
mod turn;
mod watch;

pub use device::DeviceTraffic;
pub use executor::FileExecutor;
pub use replace::FileProbe;
pub use request::RequestCompletion;
pub use successor::{DroppedSuccessor, SuccessionPhase, SuccessorLabelling};
