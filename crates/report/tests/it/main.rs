//! Results that are kept, and read back.

mod kept;
mod read_back;
mod seeds;
