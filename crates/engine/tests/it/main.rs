//! The block service from outside, over devices in memory.

mod block_device;
mod clients;
mod commands;
mod driver;
mod memory;
mod orders;
mod overdue;
mod served;
mod unaligned;
