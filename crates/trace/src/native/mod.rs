//! The compact native format: columnar blocks of requests that decode at memory speed
//! (docs/trace-format.md).
//!
//! A file is a header and a chain of records: blocks of requests, volume names, and one end record.
//! Every record holds a CRC-32C over itself and the checksum of the record before it, so that a
//! damaged, reordered or truncated file is recognised. A block holds a column per field of a
//! request; a column is a prediction and what remains of its values, split into byte planes, each
//! of which is stored as it is or compressed by zstd on its own.
//!
//! Invariants:
//! - every field of [`Request`](destage_plan::Request) comes back exactly, whatever its value;
//! - the writer never seeks, and the same requests, names and level give the same bytes, however
//!   they are cut into calls;
//! - the reader allocates nothing that a file declares without a bound.

mod column;
mod layout;
mod reader;
mod writer;

pub use layout::MAGIC as NATIVE_MAGIC;
pub(crate) use layout::{held, pieces};
pub use reader::NativeReader;
pub use writer::{DEFAULT_LEVEL as NATIVE_DEFAULT_LEVEL, NativeWriter};
