//! The simulator against worked examples, naive models, conservation laws and golden tables.

mod arrays;
mod in_memory;
mod mixed;
mod real_traces;

mod admission;
mod array_closed_forms;
mod array_debt;
mod array_journal;
mod array_laws;
mod array_pairs;
mod array_volumes;
mod channel_model;
mod clock;
mod collecting;
mod curve;
mod determinism;
mod discards;
mod disk_laws;
mod disk_model;
mod disksim;
mod drive_cache;
mod drives;
mod foreign;
mod golden;
mod hosts;
mod laws;
mod log_block_model;
mod log_blocks;
mod per_volume;
mod queue_depth;
mod sampled;
mod ssd_model;
mod steady;
mod stop;
mod sweep;
