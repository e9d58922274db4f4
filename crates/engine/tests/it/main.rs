//! The block service from outside, over devices in memory.

mod clients;
mod commands;
mod memory;
mod orders;
mod overdue;
mod served;
mod unaligned;
