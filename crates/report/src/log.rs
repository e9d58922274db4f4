//! The table of what became of each request.

use crate::ColumnKind;

/// Lists the columns of the log of a run's requests, in order. Times are nanoseconds. `response_ns` is null where the device
/// takes no time, where an array cannot serve the request, and inside an SSD of what is neither a read nor a write of some
/// bytes; `hit_pages` is null before an array.
pub const LATENCY_LOG: [(&str, ColumnKind); 12] = [
    ("policy", ColumnKind::Text),
    ("cache_bytes", ColumnKind::Integer),
    ("request", ColumnKind::Integer),
    ("arrival_ns", ColumnKind::Integer),
    ("volume", ColumnKind::Integer),
    ("offset", ColumnKind::Integer),
    ("bytes", ColumnKind::Integer),
    ("kind", ColumnKind::Text),
    ("response_ns", ColumnKind::Integer),
    ("pages", ColumnKind::Integer),
    ("hit_pages", ColumnKind::Integer),
    ("gc_delayed", ColumnKind::Integer),
];
