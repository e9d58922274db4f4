//! Synthetic traces: a specification, and the source that generates its requests.
//!
//! The same specification gives the same requests on every machine: draws are integers wherever
//! they can be, and where a logarithm or a power is needed it comes from `libm`, in software, never
//! from the platform. Each property draws from a random stream of its own, so that changing one
//! (the read share, say) leaves the others as they were: the n-th read, write or discard keeps its
//! size, its volume, its random address and its arrival time. (Where the footprint follows the time
//! or the sizes, as `filling` and `append` do, the address depends on those too.)

mod arrivals;
mod footprint;
mod mix;
mod quantity;
mod random;
mod size_mix;
mod volumes;
mod zipf;

use std::fmt;
use std::num::NonZeroU64;
use std::path::Path;
use std::str::FromStr;

use destage_plan::{Nanos, Op, Request};

pub use arrivals::ArrivalProcess;
pub use footprint::AccessFootprint;
pub use mix::{AddressStripe, MAX_PARTS, MixError, MixPart, MixSpec, MixTrace};
pub use quantity::{PercentShare, parse_bytes};
pub use size_mix::SizeMix;
pub use volumes::SynthVolumes;

use crate::error::{FilePlace, TraceError};
use crate::source::{BATCH_REQUESTS, TraceSource};
use arrivals::ArrivalClock;
use footprint::{AddressStream, VolumePiece as Room};
use quantity::{MILLION, parse_duration};
use random::{RandomStream, StreamPurpose};

/// A value of a specification that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {allowed}")]
pub struct SynthError {
    /// The key: a field of [`SynthSpec`].
    pub key: &'static str,
    /// The value it has.
    pub value: String,
    /// Says what would be right.
    pub allowed: String,
}

impl SynthError {
    pub(super) fn new(key: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Sets the length of the trace: `1000000` (requests) or `60s` (a time, with unit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynthLength {
    /// So many requests, flushes included; at least 1.
    Requests(u64),
    /// The requests that arrive before this time; at least 1 ns.
    Duration(Nanos),
}

impl FromStr for SynthLength {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        if let Ok(n) = text.parse() {
            return Ok(Self::Requests(n));
        }
        parse_duration(text)
            .map(Self::Duration)
            .ok_or_else(|| SynthError::new("length", text, "a number of requests, or a time such as 500ms, 60s or 2h"))
    }
}

/// Describes a trace to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthSpec {
    /// Sets the number of requests, or the duration.
    pub length: SynthLength,
    /// Sizes of reads, writes and discards.
    pub sizes: SizeMix,
    /// Share of reads among reads, writes and discards.
    pub read_share: PercentShare,
    /// Share of discards among reads, writes and discards; with the read share at most 100 %.
    pub discard_share: PercentShare,
    /// Selects the arrivals of requests.
    pub arrivals: ArrivalProcess,
    /// Share of requests that begin where the one before them of the same kind on the same volume
    /// ended (the first: at 0). One that would pass the end of the volume begins at 0 again.
    pub sequential_share: PercentShare,
    /// Selects the addresses of the other requests.
    pub footprint: AccessFootprint,
    /// Bytes of which the addresses of the other requests are multiples; at most 1 GiB. The
    /// volume's slots are this large. A sequential request begins at the exact end of the one
    /// before it.
    pub align: u64,
    /// Bytes of each volume, at most 2^62; at least 1 and at most 2^48 times `align`. A request
    /// that would pass the end moves back to the last aligned address where it fits.
    pub space: u64,
    /// Sets the number of volumes, and how unequal they are.
    pub volumes: SynthVolumes,
    /// A flush follows every so many writes, at the same time and on the same volume.
    pub flush_every: Option<NonZeroU64>,
    /// Selects one of the traces with these properties.
    pub seed: u64,
}

impl SynthSpec {
    fn check(&self) -> Result<(), SynthError> {
        match self.length {
            SynthLength::Requests(0) => return Err(SynthError::new("length", 0, "at least 1 request")),
            SynthLength::Duration(Nanos(0)) => return Err(SynthError::new("length", "0 ns", "at least 1 ns")),
            SynthLength::Duration(time) if self.arrivals == ArrivalProcess::Closed => {
                return Err(SynthError::new(
                    "length",
                    time,
                    "a number of requests, since arrivals = closed never advances",
                ));
            }
            _ => {}
        }
        self.sizes.check()?;
        self.arrivals.check()?;
        self.volumes.check()?;
        if self.read_share.millionths() + self.discard_share.millionths() > MILLION {
            let allowed = format!("with read_share = {} at most 100 in all", self.read_share);
            return Err(SynthError::new("discard_share", self.discard_share, allowed));
        }
        if !(1..=1 << 30).contains(&self.align) {
            return Err(SynthError::new("align", self.align, "between 1 B and 1 GiB"));
        }
        let largest = self.sizes.largest();
        let least = largest.max(self.align);
        if !(least..=1 << 62).contains(&self.space) {
            let allowed = format!("between {least} B (the largest size and align must fit) and 2^62 B");
            return Err(SynthError::new("space", self.space, allowed));
        }
        if matches!(self.footprint, AccessFootprint::Append { .. }) && self.sequential_share != PercentShare::NONE {
            let allowed = "0 with footprint = append, whose streams are sequential themselves";
            return Err(SynthError::new("sequential_share", self.sequential_share, allowed));
        }
        self.footprint.check(&self.room())
    }

    fn room(&self) -> Room {
        Room { space: self.space, align: self.align, largest: self.sizes.largest() }
    }
}

/// Generates the requests of a [`SynthSpec`]. [`Request::volume`] is the specification's number of
/// the volume, whichever appears first.
pub struct SynthTrace {
    spec: SynthSpec,
    clock: ArrivalClock,
    kinds: RandomStream,
    sizes: RandomStream,
    volumes: RandomStream,
    sequence: RandomStream,
    addresses: AddressStream,
    /// Of each volume, where the last read, write and discard ended.
    ends: Vec<[u64; 3]>,
    writes_since_flush: u64,
    /// A flush that is due.
    flush: Option<Request>,
    generated: u64,
    ended: bool,
}

impl SynthTrace {
    /// Begins a trace.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn new(spec: SynthSpec) -> Result<Self, SynthError> {
        let scatter_seed = spec.seed;
        Self::scattered_by(spec, scatter_seed)
    }

    /// Begins a trace whose frequent addresses lie where they lie in that with `scatter_seed`.
    fn scattered_by(spec: SynthSpec, scatter_seed: u64) -> Result<Self, SynthError> {
        spec.check()?;
        let stream = |component| RandomStream::new(spec.seed, component);
        Ok(Self {
            clock: ArrivalClock::new(spec.arrivals, spec.seed),
            kinds: stream(StreamPurpose::Kind),
            sizes: stream(StreamPurpose::Size),
            volumes: stream(StreamPurpose::Volume),
            sequence: stream(StreamPurpose::Sequence),
            addresses: AddressStream::new(spec.footprint, spec.room(), spec.seed, scatter_seed),
            ends: vec![[0; 3]; spec.volumes.count as usize],
            writes_since_flush: 0,
            flush: None,
            generated: 0,
            ended: false,
            spec,
        })
    }

    /// The next request, if there is one, and counts it.
    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        let request = self.generate()?;
        self.generated += u64::from(request.is_some());
        Ok(request)
    }

    /// The next request, if there is one.
    fn generate(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ended || matches!(self.spec.length, SynthLength::Requests(n) if n == self.generated) {
            return Ok(None);
        }
        if let Some(flush) = self.flush.take() {
            return Ok(Some(flush));
        }
        let Some(time) = self.clock.next() else {
            let reason = format!("after {} requests the time exceeds 2^64 ns; arrivals must be closer", self.generated);
            return Err(TraceError::new(Path::new("synthetic trace"), FilePlace::File, reason));
        };
        if matches!(self.spec.length, SynthLength::Duration(end) if time >= end) {
            self.ended = true;
            return Ok(None);
        }

        let kind = self.kinds.below(u64::from(MILLION)) as u32;
        let op = if kind < self.spec.read_share.millionths() {
            Op::Read
        } else if kind >= MILLION - self.spec.discard_share.millionths() {
            Op::Discard
        } else {
            Op::Write
        };
        let len = self.spec.sizes.draw(&mut self.sizes);
        let volume = self.spec.volumes.draw(&mut self.volumes);
        let address = self.addresses.draw(len, time);
        let end = &mut self.ends[volume as usize][match op {
            Op::Read => 0,
            Op::Write | Op::Flush => 1,
            Op::Discard => 2,
        }];
        let offset = if self.sequence.happens(self.spec.sequential_share) {
            if *end + len > self.spec.space { 0 } else { *end }
        } else {
            address
        };
        *end = offset + len;
        if op == Op::Write {
            self.writes_since_flush += 1;
            if self.spec.flush_every.is_some_and(|n| n.get() == self.writes_since_flush) {
                self.writes_since_flush = 0;
                self.flush = Some(Request { time, offset: 0, len: 0, volume, op: Op::Flush, fua: false });
            }
        }
        Ok(Some(Request { time, offset, len, volume, op, fua: false }))
    }
}

impl TraceSource for SynthTrace {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        while out.len() < BATCH_REQUESTS {
            match self.next_request()? {
                Some(request) => out.push(request),
                None => break,
            }
        }
        Ok(())
    }

    fn len_hint(&self) -> Option<u64> {
        match self.spec.length {
            SynthLength::Requests(n) => Some(n),
            SynthLength::Duration(_) => None,
        }
    }

    fn progress(&self) -> Option<f64> {
        Some(match self.spec.length {
            SynthLength::Requests(n) => self.generated as f64 / n as f64,
            SynthLength::Duration(_) if self.ended => 1.0,
            SynthLength::Duration(end) => (self.clock.now().0 as f64 / end.0 as f64).min(1.0),
        })
    }
}
