//! The block service from outside, over devices in memory.

mod clients;
mod orders;
mod served;
