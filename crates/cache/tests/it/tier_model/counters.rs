//! Lists the commands to members, SSD and NVRAM, and counts them.

use super::Op;

/// A column of the array's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    Data(u64),
    P,
    Q,
}

impl Column {
    /// The parity columns.
    pub fn parity(m: u64) -> impl Iterator<Item = Self> {
        [Self::P, Self::Q].into_iter().take(m as usize)
    }
}

/// A page of the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Of the sets, counted from the first page of set 0.
    Slot(u64),
    /// Of the log.
    Log(u64),
}

/// Gives the reason for a request to the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A read miss is cached.
    Fill,
    /// The host's data, or the base of what it writes or reads.
    Data,
    Delta,
    Metadata,
    Cleaning,
}

/// Identifies the subject of an entry of the log (§9.8.12, §9.8.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Slot(u64),
    /// A page of the array of which only a delta is held.
    Page(u64),
}

/// One page asked of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    MemberRead { column: Column, row: u64 },
    MemberWrite { column: Column, row: u64 },
    SsdRead { place: Place, cause: Cause },
    SsdWrite { place: Place, cause: Cause },
    PutDelta { page: u64, len: u32 },
    PutEntry { key: Key },
}

/// Names the purpose of a phase, which begins when the one before has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Reads that the answer to the host, or what is written before it, needs.
    Reads,
    /// Comes before the answer to a write.
    Writes,
    /// The SSD's copy of a read miss, after the answer.
    Fill,
    /// Staged deltas into a page of the SSD.
    Commit,
    /// Entries into the log's buffer, and pages of the log.
    Log,
    CleanReads,
    CleanWrites,
    /// Cleaned pages written to the SSD.
    Reclaim,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    pub of: For,
    pub asks: Vec<Ask>,
}

/// Holds what one access led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub hit: bool,
    pub phases: Vec<Phase>,
}

impl Outcome {
    /// A phase, if it asks for anything.
    pub fn phase(&mut self, of: For, asks: Vec<Ask>) {
        if !asks.is_empty() {
            self.phases.push(Phase { of, asks });
        }
    }

    /// Appends the phases of another outcome.
    pub fn extend(&mut self, next: Self) {
        self.phases.extend(next.phases);
    }

    /// All that is asked for, in order.
    pub fn asks(&self) -> impl Iterator<Item = Ask> + '_ {
        self.phases.iter().flat_map(|phase| phase.asks.iter().copied())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub read_hits: u64,
    pub write_hits: u64,
    /// Pages of members.
    pub data_reads: u64,
    pub parity_reads: u64,
    pub data_writes: u64,
    pub parity_writes: u64,
    /// Those of them that cleaning reads and writes.
    pub late_data_reads: u64,
    pub late_parity_reads: u64,
    pub late_parity_writes: u64,
    /// Requests to members: what cleaning asks of one member in one phase is one.
    pub member_requests: u64,
    /// Pages of the SSD.
    pub ssd_reads: u64,
    pub fills: u64,
    pub data: u64,
    pub deltas: u64,
    pub metadata: u64,
    pub cleaning: u64,
    /// Puts into the NVRAM.
    pub staged: u64,
    pub entries: u64,
    /// Clean pages evicted.
    pub evictions: u64,
    /// Accesses that found no room in their set.
    pub shortages: u64,
    /// Writes with parity since too many pages have a delta only.
    pub crowded: u64,
    /// Rows whose parity was brought up to date, WB: pages written back.
    pub cleaned: u64,
    /// Entries put into the log's buffer again from its head.
    pub reinserted: u64,
}

impl Counters {
    pub const fn member_reads(&self) -> u64 {
        self.data_reads + self.parity_reads
    }

    pub const fn member_writes(&self) -> u64 {
        self.data_writes + self.parity_writes
    }

    pub const fn ssd_writes(&self) -> u64 {
        self.fills + self.data + self.deltas + self.metadata + self.cleaning
    }

    /// Counts an access and what it asked.
    pub fn access(&mut self, op: Op, outcome: &Outcome) {
        self.page(op, outcome.hit);
        self.count(outcome);
    }

    /// Counts a page that was read or written.
    pub const fn page(&mut self, op: Op, is_hit: bool) {
        let (all, hits) = match op {
            Op::Read => (&mut self.reads, &mut self.read_hits),
            Op::Write => (&mut self.writes, &mut self.write_hits),
        };
        *all += 1;
        *hits += is_hit as u64;
    }

    /// Counts what cleaning asks of members: whether it writes, and what.
    fn count_late(&mut self, members: &[(bool, Column)]) {
        for member in members {
            match member {
                (false, Column::Data(_)) => self.late_data_reads += 1,
                (false, _) => self.late_parity_reads += 1,
                (true, Column::Data(_)) => {}
                (true, _) => self.late_parity_writes += 1,
            }
        }
    }

    /// Counts what was asked.
    pub fn count(&mut self, outcome: &Outcome) {
        for phase in &outcome.phases {
            let mut members: Vec<_> = phase.asks.iter().filter_map(member).collect();
            if matches!(phase.of, For::CleanReads | For::CleanWrites) {
                self.count_late(&members);
                members.sort_unstable();
                members.dedup();
            }
            self.member_requests += members.len() as u64;
        }
        for ask in outcome.asks() {
            let counter = match ask {
                Ask::MemberRead { column: Column::Data(_), .. } => &mut self.data_reads,
                Ask::MemberRead { .. } => &mut self.parity_reads,
                Ask::MemberWrite { column: Column::Data(_), .. } => &mut self.data_writes,
                Ask::MemberWrite { .. } => &mut self.parity_writes,
                Ask::SsdRead { .. } => &mut self.ssd_reads,
                Ask::SsdWrite { cause: Cause::Fill, .. } => &mut self.fills,
                Ask::SsdWrite { cause: Cause::Data, .. } => &mut self.data,
                Ask::SsdWrite { cause: Cause::Delta, .. } => &mut self.deltas,
                Ask::SsdWrite { cause: Cause::Metadata, .. } => &mut self.metadata,
                Ask::SsdWrite { cause: Cause::Cleaning, .. } => &mut self.cleaning,
                Ask::PutDelta { .. } => &mut self.staged,
                Ask::PutEntry { .. } => &mut self.entries,
            };
            *counter += 1;
        }
    }
}

const fn member(ask: &Ask) -> Option<(bool, Column)> {
    match *ask {
        Ask::MemberRead { column, .. } => Some((false, column)),
        Ask::MemberWrite { column, .. } => Some((true, column)),
        _ => None,
    }
}
