//! The recorder: pages of ring buffers, pairing, and live devices.

mod machine;

mod against_fio;
mod loop_device;
mod pages;
mod pairing;
