//! One file for each format; the layout of its fields stands at the head.

pub(crate) mod alibaba;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod block_events;
pub(crate) mod columns;
pub(crate) mod diskmon;
pub(crate) mod disksim;
pub(crate) mod fio;
pub(crate) mod msr;
pub(crate) mod msr_cut;
pub(crate) mod oracle_general;
pub(crate) mod rq_csv;
pub(crate) mod spc;
pub(crate) mod srt;
pub(crate) mod ssdsim;
pub(crate) mod systor;
pub(crate) mod tencent;
pub(crate) mod vscsi;
pub(crate) mod wiscsee;
