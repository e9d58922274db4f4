//! The policies, a file for each as published, and the one list of them.
//!
//! A new policy is a file here and two lines below: its module and its place in the list.

mod arc;
mod bplru;
mod bypass;
mod cave;
mod cawr;
mod ccf_lru;
mod cflru;
mod clc;
mod clock;
mod fab;
mod fifo;
mod lb_clock;
mod lru;
mod lru_wsr;
mod pud_lru;
mod recently_evicted;
mod s3_fifo;
mod two_q;

use super::block_buffer::BlockBuffer;
use super::list_buffer::ListBuffer;
use super::queue_buffer::QueueBuffer;
use super::registry::{PolicyInfo, RegisteredPolicy, TypeVisitor};

/// The name of the policy that holds nothing.
pub(super) const NO_BUFFER: &str = bypass::NoBuffer::INFO.name;

macro_rules! register {
    ($($policy:ty),+ $(,)?) => {
        /// Every policy, in the order of the documentation.
        pub fn policies() -> &'static [PolicyInfo] {
            const ALL: &[PolicyInfo] = &[$(<$policy>::INFO),+];
            ALL
        }

        /// Hands the type of the policy of this name to a visitor.
        pub(super) fn with_type<V: TypeVisitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == <$policy>::INFO.name {
                return Some(visitor.visit::<$policy>());
            })+
            None
        }
    };
}

register!(
    bypass::NoBuffer,
    ListBuffer<lru::Lru>,
    clock::Clock,
    QueueBuffer<fifo::Fifo, 1, 1>,
    QueueBuffer<two_q::TwoQ, 2, 3>,
    QueueBuffer<arc::Arc, 2, 4>,
    QueueBuffer<s3_fifo::S3Fifo, 2, 3>,
    ListBuffer<cflru::Cflru>,
    ListBuffer<lru_wsr::LruWsr>,
    ListBuffer<ccf_lru::CcfLru>,
    ListBuffer<recently_evicted::RecentlyEvicted>,
    BlockBuffer<fab::Fab>,
    BlockBuffer<bplru::Bplru>,
    BlockBuffer<clc::Clc>,
    BlockBuffer<pud_lru::PudLru>,
    BlockBuffer<lb_clock::LbClock>,
    cave::Cave,
    cawr::Cawr,
);
