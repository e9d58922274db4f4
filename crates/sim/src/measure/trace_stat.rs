//! The statistics of a trace as `destage trace stat --json` writes them: with names, units and
//! meanings.

use destage_trace::{TraceSummary, VolumeTraffic};

use super::{LatencySummary, record};

record! {
    /// Holds the figures of `destage trace stat`.
    pub struct TraceStatResult {
        file: String ["-"] "the trace as the user named it",
        format: String ["-"] "its format",
        page_bytes: u64 ["B"] "size of the pages that are counted",
        requests: u64 ["1"] "requests of every kind",
        reads: u64 ["1"] "read requests",
        writes: u64 ["1"] "write requests",
        flushes: u64 ["1"] "flush requests",
        discards: u64 ["1"] "discard requests",
        fua_requests: u64 ["1"] "requests with force unit access",
        zero_length_requests: u64 ["1"] "reads, writes and discards of no bytes",
        sector_misaligned_requests: u64 ["1"] "reads, writes and discards that begin or end inside a sector of 512 B",
        page_misaligned_requests: u64 ["1"] "reads, writes and discards that begin or end inside a page",
        out_of_order_requests: u64 ["1"] "requests earlier than one before them",
        longest_out_of_order_ns: u64 ["ns"] "the most that one of these is earlier",
        read_bytes: u64 ["B"] "bytes read",
        write_bytes: u64 ["B"] "bytes written",
        discard_bytes: u64 ["B"] "bytes discarded",
        read_share: f64 ["1"] "reads of reads and writes; 0 where there are none",
        read_page_touches: u64 ["1"] "pages that reads touch, each as often as it is touched",
        write_page_touches: u64 ["1"] "pages that writes touch, each as often as it is touched",
        unique_pages: u64 ["1"] "different pages read or written",
        unique_pages_read: u64 ["1"] "different pages read",
        unique_pages_written: u64 ["1"] "different pages written",
        footprint_bytes: u64 ["B"] "of the different pages read or written",
        mean_read_bytes: f64 ["B"] "of a read request, mean",
        mean_write_bytes: f64 ["B"] "of a write request, mean",
        duration_ns: u64 ["ns"] "from the earliest arrival to the latest",
        mean_inter_arrival_ns: f64 ["ns"] "between two arrivals, mean",
        write_sizes: Vec<u64> ["1"] "writes of up to 4 KiB, over 4 to 16 KiB, over 16 to 64 KiB, and over 64 KiB",
        write_size_shares: Vec<f64> ["1"] "the same as parts of all writes",
        sequential: u64 ["1"] "reads, writes and discards that begin where the one before on their volume ended",
        sequential_share: f64 ["1"] "the same as a part of all reads, writes and discards",
        volumes: u64 ["1"] "different volumes",
        max_address: u64 ["B"] "the byte after the highest one touched on any volume",
        latency_ns: Option<LatencySummary> ["-"] "latencies that the trace holds; null where it holds none" = LatencySummary,
        by_volume: Vec<VolumeTrafficResult> ["-"] "what each volume is asked for, the one with most traffic first" = VolumeTrafficResult,
    }
}

record! {
    /// Holds the traffic of a volume.
    pub struct VolumeTrafficResult {
        name: String ["-"] "as the trace calls it, or its number",
        volume: u32 ["-"] "its number, in order of first appearance",
        requests: u64 ["1"] "requests of every kind",
        reads: u64 ["1"] "read requests",
        writes: u64 ["1"] "write requests",
        read_bytes: u64 ["B"] "bytes read",
        write_bytes: u64 ["B"] "bytes written",
        traffic_share: Option<f64> ["1"] "its part of all bytes read and written; null where there are none",
    }
}

impl TraceStatResult {
    /// The statistics with what else is known of the trace.
    pub fn new(
        file: &str,
        format: &str,
        s: &TraceSummary,
        latency_ns: Option<LatencySummary>,
        by_volume: Vec<VolumeTrafficResult>,
    ) -> Self {
        let share = |percent: f64| percent / 100.0;
        Self {
            file: file.to_owned(),
            format: format.to_owned(),
            page_bytes: s.page_bytes,
            requests: s.requests,
            reads: s.reads,
            writes: s.writes,
            flushes: s.flushes,
            discards: s.discards,
            fua_requests: s.fua,
            zero_length_requests: s.zero_length,
            sector_misaligned_requests: s.sector_misaligned,
            page_misaligned_requests: s.page_misaligned,
            out_of_order_requests: s.time_reversals,
            longest_out_of_order_ns: s.longest_reversal.0,
            read_bytes: s.read_bytes,
            write_bytes: s.write_bytes,
            discard_bytes: s.discard_bytes,
            read_share: share(s.read_percent()),
            read_page_touches: s.read_page_touches,
            write_page_touches: s.write_page_touches,
            unique_pages: s.unique_pages,
            unique_pages_read: s.unique_pages_read,
            unique_pages_written: s.unique_pages_written,
            footprint_bytes: s.footprint_bytes(),
            mean_read_bytes: s.mean_read_kib() * 1024.0,
            mean_write_bytes: s.mean_write_kib() * 1024.0,
            duration_ns: s.duration.0,
            mean_inter_arrival_ns: s.mean_inter_arrival_ns(),
            write_sizes: s.write_sizes.to_vec(),
            write_size_shares: s.write_size_percent().map(share).to_vec(),
            sequential: s.sequential,
            sequential_share: share(s.sequential_percent()),
            volumes: s.volumes,
            max_address: s.max_address,
            latency_ns,
            by_volume,
        }
    }
}

impl VolumeTrafficResult {
    /// A volume's traffic with the volume's name and its part of all traffic.
    pub fn new(name: &str, of: &VolumeTraffic, traffic_share: Option<f64>) -> Self {
        let VolumeTraffic { volume, requests, reads, writes, read_bytes, write_bytes } = *of;
        Self { name: name.to_owned(), volume, requests, reads, writes, read_bytes, write_bytes, traffic_share }
    }
}
