//! Several synthetic streams in one trace: the applications of a server, or the files and the
//! metadata of one.

use std::fmt;
use std::path::Path;

use destage_plan::{Nanos, Request};

use super::random::hash;
use super::{ArrivalProcess, SynthError, SynthLength, SynthSpec, SynthTrace};
use crate::error::{FilePlace, TraceError};
use crate::source::{BATCH_REQUESTS, TraceSource};

/// Parts that a mix may have.
pub const MAX_PARTS: usize = 64;

/// The volumes of a trace are fewer than this.
const MAX_VOLUMES: u32 = 1 << 16;
/// A part begins before this byte, so that no sum of addresses overflows.
const MAX_BASE: u64 = 1 << 62;

/// Several streams merged by time; at equal times the part with the lower number comes first.
#[derive(Clone, Debug, PartialEq)]
pub struct MixSpec {
    /// Sets the number of requests in all, or the duration.
    pub length: SynthLength,
    /// Selects one of the traces with these properties. Part 0 draws from this seed, the others from seeds
    /// derived from it. The scattered addresses of parts with the same number of slots (or clusters) lie at
    /// the same places, so that such parts share their frequent addresses.
    pub seed: u64,
    /// 1 to [`MAX_PARTS`].
    pub parts: Vec<MixPart>,
}

/// One stream of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MixPart {
    /// The stream. Its seed does not count; its length is its own end, `SynthLength::Requests(u64::MAX)`
    /// for none. Its space includes what a stripe leaves out.
    pub spec: SynthSpec,
    /// Sets the begin, at most 2^62 ns.
    pub start: Nanos,
    /// Bytes that its addresses are moved up by, at most 2^62.
    pub base: u64,
    /// The number of its first volume.
    pub volume: u32,
    /// Leaves out some of the addresses.
    pub stripe: Option<AddressStripe>,
}

/// The first `window` bytes of every `period`. As text: `128KiB/1MiB`. A request that would pass
/// the end of a window moves back to where it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressStripe {
    /// Bytes used, at least the part's largest size.
    pub window: u64,
    /// Bytes of which they are the first, at most the part's space.
    pub period: u64,
}

impl AddressStripe {
    /// Bytes used in the whole periods of a space.
    const fn used(self, space: u64) -> u64 {
        space / self.period * self.window
    }

    fn place(self, offset: u64, len: u64) -> u64 {
        offset / self.window * self.period + (offset % self.window).min(self.window - len)
    }
}

impl fmt::Display for AddressStripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.window, self.period)
    }
}

impl std::str::FromStr for AddressStripe {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        let Some((window, period)) = text.split_once('/') else {
            return Err(SynthError::new(STRIPE, text, "WINDOW/PERIOD, such as 128KiB/1MiB"));
        };
        Ok(Self {
            window: super::parse_bytes(STRIPE, window.trim())?,
            period: super::parse_bytes(STRIPE, period.trim())?,
        })
    }
}

const STRIPE: &str = "stripe";

/// A value of a mix that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixError {
    /// The part, from 0; `None` if it is a value of the mix itself.
    pub part: Option<usize>,
    /// The key and what would be right.
    pub error: SynthError,
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "part {part}: {}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for MixError {}

/// Generates the requests of a [`MixSpec`].
pub struct MixTrace {
    length: SynthLength,
    streams: Vec<PartStream>,
    generated: u64,
    now: Nanos,
    ended: bool,
}

struct PartStream {
    synth: SynthTrace,
    start: u64,
    base: u64,
    volume: u32,
    stripe: Option<AddressStripe>,
    /// The part's next request, where the mix has it.
    head: Option<Request>,
}

/// The seed of a part: the mix's for part 0, else a hash of both.
fn part_seed(seed: u64, part: usize) -> u64 {
    // A mix of one part is the same trace as the part alone.
    if part == 0 { seed } else { hash(seed ^ (part as u64).wrapping_mul(0xd134_2543_de82_ef95)) }
}

impl MixTrace {
    /// Begins a trace.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn new(spec: MixSpec) -> Result<Self, MixError> {
        let whole = |key, value: &dyn fmt::Display, allowed: &str| MixError {
            part: None,
            error: SynthError::new(key, value, allowed),
        };
        match spec.length {
            SynthLength::Requests(0) => return Err(whole("length", &0, "at least 1 request")),
            SynthLength::Duration(Nanos(0)) => return Err(whole("length", &"0 ns", "at least 1 ns")),
            _ => {}
        }
        let count = spec.parts.len();
        if !(1..=MAX_PARTS).contains(&count) {
            return Err(whole("part", &count, &format!("between 1 and {MAX_PARTS} parts")));
        }
        // Each part keeps where it is on each of its volumes.
        let volumes: u64 = spec.parts.iter().map(|part| u64::from(part.spec.volumes.count)).sum();
        if volumes > u64::from(MAX_VOLUMES) {
            return Err(whole("volumes", &volumes, &format!("at most {MAX_VOLUMES} in all parts together")));
        }
        let endless_alone = count == 1 && matches!(spec.length, SynthLength::Requests(_));
        let mut streams = Vec::with_capacity(count);
        for (number, part) in spec.parts.into_iter().enumerate() {
            let stream = PartStream::new(part, spec.seed, number, endless_alone);
            streams.push(stream.map_err(|error| MixError { part: Some(number), error })?);
        }
        let mut mix = Self { length: spec.length, streams, generated: 0, now: Nanos::ZERO, ended: false };
        // Each part has its next request ready, so that choosing the earliest is a comparison.
        for (number, stream) in mix.streams.iter_mut().enumerate() {
            // Only the time of a later request can be out of range.
            stream.advance().map_err(|error| MixError {
                part: Some(number),
                error: SynthError::new("arrivals", "the first request", error.reason),
            })?;
        }
        Ok(mix)
    }

    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ended || matches!(self.length, SynthLength::Requests(n) if n == self.generated) {
            return Ok(None);
        }
        let heads = self.streams.iter_mut().filter_map(|stream| stream.head.map(|head| (head.time, stream)));
        // The first of several minima.
        let next = heads.min_by_key(|&(time, _)| time);
        let Some((time, stream)) = next.filter(|&(time, _)| match self.length {
            SynthLength::Requests(_) => true,
            SynthLength::Duration(end) => time < end,
        }) else {
            self.ended = true;
            return Ok(None);
        };
        let request = stream.head;
        stream.advance()?;
        self.now = time;
        self.generated += 1;
        Ok(request)
    }
}

impl PartStream {
    fn new(part: MixPart, seed: u64, number: usize, endless_alone: bool) -> Result<Self, SynthError> {
        let MixPart { mut spec, start, base, volume, stripe } = part;
        if start.0 > MAX_BASE {
            return Err(SynthError::new("start", start, "at most 2^62 ns"));
        }
        if base > MAX_BASE {
            return Err(SynthError::new("base", base, "at most 2^62 B"));
        }
        if volume.checked_add(spec.volumes.count).is_none_or(|end| end > MAX_VOLUMES) {
            let allowed = format!("with volumes = {} at most {MAX_VOLUMES} in all", spec.volumes);
            return Err(SynthError::new("volume", volume, allowed));
        }
        if spec.arrivals == ArrivalProcess::Closed && spec.length == SynthLength::Requests(u64::MAX) && !endless_alone {
            let allowed = "closed arrivals never advance: give this part a length of its own, in requests";
            return Err(SynthError::new("arrivals", spec.arrivals, allowed));
        }
        if let Some(stripe) = stripe {
            let largest = spec.sizes.largest().max(1);
            if stripe.window < largest || stripe.window > stripe.period || stripe.period > spec.space {
                let allowed = format!(
                    "WINDOW/PERIOD, the window at least {largest} B (the largest size) and at most the period, \
                     the period at most {} B (space)",
                    spec.space
                );
                return Err(SynthError::new(STRIPE, stripe, allowed));
            }
            // The part draws in a space without gaps, which is spread out afterwards.
            spec.space = stripe.used(spec.space);
        }
        spec.seed = part_seed(seed, number);
        let synth = SynthTrace::scattered_by(spec, seed)?;
        Ok(Self { synth, start: start.0, base, volume, stripe, head: None })
    }

    /// Fetches the part's next request.
    fn advance(&mut self) -> Result<(), TraceError> {
        self.head = None;
        if let Some(mut request) = self.synth.next_request()? {
            request.time.0 = request.time.0.checked_add(self.start).ok_or_else(|| {
                let reason = "the time of a part exceeds 2^64 ns; it must begin earlier or its arrivals be closer";
                TraceError::new(Path::new("synthetic trace"), FilePlace::File, reason)
            })?;
            request.volume += self.volume;
            // A flush has no place.
            if request.len > 0 {
                let offset = self.stripe.map_or(request.offset, |s| s.place(request.offset, request.len));
                request.offset = self.base + offset;
            }
            self.head = Some(request);
        }
        Ok(())
    }
}

impl TraceSource for MixTrace {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        while out.len() < BATCH_REQUESTS {
            match self.next_request() {
                Ok(Some(request)) => out.push(request),
                Ok(None) => break,
                Err(error) => {
                    out.clear();
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn progress(&self) -> Option<f64> {
        Some(match self.length {
            _ if self.ended => 1.0,
            SynthLength::Requests(n) => self.generated as f64 / n as f64,
            SynthLength::Duration(end) => (self.now.0 as f64 / end.0 as f64).min(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_read_and_place_requests() {
        let stripe: AddressStripe = "128KiB/1MiB".parse().unwrap();
        assert_eq!(stripe.to_string(), "131072/1048576");
        assert_eq!(stripe.used((5 << 20) + 7), 5 << 17);
        assert_eq!(stripe.place(0, 4096), 0);
        assert_eq!(stripe.place((128 << 10) + 4096, 4096), (1 << 20) + 4096);
        // It would end behind the window.
        assert_eq!(stripe.place((128 << 10) - 512, 4096), (128 << 10) - 4096);
        for text in ["", "4KiB", "4KiB/", "4KiB/x", "4XB/1MiB"] {
            assert!(text.parse::<AddressStripe>().unwrap_err().to_string().starts_with("stripe = "), "{text}");
        }
    }

    #[test]
    fn parts_have_seeds_of_their_own() {
        let seeds: std::collections::BTreeSet<u64> = (0..MAX_PARTS).map(|part| part_seed(1, part)).collect();
        assert_eq!(seeds.len(), MAX_PARTS);
        assert_eq!(part_seed(7, 0), 7);
    }
}
