//! Draws the addresses of requests.

use std::fmt;
use std::str::FromStr;

use destage_plan::Nanos;

use super::quantity::{MILLION, parse_duration};
use super::random::{RandomStream, StreamPurpose, hash};
use super::zipf::ZipfRanks;
use super::{PercentShare, SynthError, parse_bytes};

/// Selects how accesses spread over a volume's slots (pieces of `align` bytes). As text: `uniform`,
/// `zipf:0.99`, `zipf:0.99,scattered`, `hot-cold:20,80`, `clusters:0.9,128KiB,0.5`, `drift:64KiB,8`,
/// `append:4,1MiB`, `filling:64,128KiB,8KiB,200ms`, or `filling:64,128KiB,8KiB,200ms,0.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccessFootprint {
    /// All slots alike.
    Uniform,
    /// The k-th most frequent slot has a weight of `1 / k^alpha`.
    Zipf {
        /// The exponent, 0 to 10.
        alpha: f64,
        /// The frequent slots lie all over the volume (by a permutation that depends on the seed);
        /// else in order of their frequency at its beginning.
        scattered: bool,
    },
    /// The first slots of a volume, a share of its space, get a share of the accesses; within and
    /// without all slots are alike. A volume needs 2 slots.
    HotCold {
        /// The hot share of the space, more than 0 and less than 100 %.
        space: PercentShare,
        /// The share of the accesses that goes there.
        accesses: PercentShare,
    },
    /// Locality in time and space: the volume consists of clusters of equal size (what is left at
    /// its end stays unused), of which the k-th most frequent has a weight of `1 / k^alpha`. They
    /// lie all over the volume, by a permutation that depends on the seed.
    Clusters {
        /// The exponent, 0 to 10.
        alpha: f64,
        /// Bytes of a cluster, a multiple of the slot's and at most the space.
        size: u64,
        /// The k-th slot of each cluster has a weight of `1 / k^inner` in it; 0 to 10, at 0 all
        /// slots are alike.
        inner: f64,
    },
    /// A window that moves: all its slots are alike, and after every so many requests it moves on
    /// by one slot. What lies behind it is not touched again until it comes round.
    Drift {
        /// Bytes of the window, a multiple of the slot's and at most the space.
        window: u64,
        /// Requests after which it moves, at least 1.
        every: u64,
    },
    /// Files that grow: each request continues one of several streams, all alike. A stream whose
    /// extent has no room for the request takes the next extent of the volume, and after the last
    /// the first again. Requests are not aligned otherwise; none may be larger than an extent.
    Append {
        /// Counts the streams, 1 to 4,096.
        streams: u32,
        /// Bytes of an extent, at most the space.
        extent: u64,
    },
    /// Tables that are filled and rewritten while they are: short-lived locality that wanders. Each
    /// of several streams uses a piece of an extent, whose slots are alike. In turn, one at a time,
    /// the streams go on to their next piece, and after the last of an extent to the first of
    /// another one, anywhere in the space. Of the streams the k-th latest to have gone on has a
    /// weight of `1 / k`. Or the streams have paces of their own: the k-th has a weight of
    /// `1 / k^pace` and goes on as much more rarely than the first, so that all pieces get as many
    /// requests. Where they are depends on the time alone, so that reads and writes are at the same
    /// places; with arrivals that are closed they stay where they are.
    Filling {
        /// Counts the streams, 1 to 4,096.
        streams: u32,
        /// Bytes of an extent, a multiple of the piece's and at most the space; what is left of the
        /// space stays unused.
        extent: u64,
        /// Bytes of a piece, a multiple of the slot's.
        piece: u64,
        /// The time between two moves, with paces of their own that between two of the first
        /// stream; at least 1 ns.
        every: Nanos,
        /// The exponent of the streams' own paces, 0 to 10; in turn if there is none.
        pace: Option<f64>,
    },
}

const KEY: &str = "footprint";
const MAX_SLOTS: u64 = 1 << 48;
const MAX_STREAMS: u32 = 4096;

impl AccessFootprint {
    fn check_parameters(&self) -> Result<(), SynthError> {
        match *self {
            Self::Zipf { alpha, .. } if !(0.0..=10.0).contains(&alpha) => {
                Err(SynthError::new(KEY, self, "the exponent is between 0 and 10"))
            }
            Self::Clusters { alpha, inner, .. } if !(0.0..=10.0).contains(&alpha) || !(0.0..=10.0).contains(&inner) => {
                Err(SynthError::new(KEY, self, "the exponents are between 0 and 10"))
            }
            Self::Filling { pace: Some(pace), .. } if !(0.0..=10.0).contains(&pace) => {
                Err(SynthError::new(KEY, self, "the exponent is between 0 and 10"))
            }
            Self::Drift { every: 0, .. } => {
                Err(SynthError::new(KEY, self, "the window moves after at least 1 request"))
            }
            Self::Filling { every: Nanos(0), .. } => {
                Err(SynthError::new(KEY, self, "the time between two moves is at least 1 ns"))
            }
            Self::Append { streams, .. } | Self::Filling { streams, .. } if !(1..=MAX_STREAMS).contains(&streams) => {
                Err(SynthError::new(KEY, self, format!("between 1 and {MAX_STREAMS} streams")))
            }
            Self::HotCold { space: PercentShare::NONE | PercentShare::ALL, .. } => {
                Err(SynthError::new(KEY, self, "the hot share of the space is more than 0 and less than 100"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check(&self, place: &VolumePiece) -> Result<(), SynthError> {
        self.check_parameters()?;
        let slots = place.slots();
        if slots > MAX_SLOTS {
            return Err(SynthError::new("space", format!("{slots} times align"), "at most 2^48 times align"));
        }
        if slots < 2 && matches!(self, Self::HotCold { .. }) {
            return Err(SynthError::new(KEY, self, "space must be at least 2 times align"));
        }
        match *self {
            Self::Clusters { size: piece, .. } | Self::Drift { window: piece, .. }
                if piece == 0 || piece % place.align != 0 || piece > place.space =>
            {
                let allowed = format!(
                    "its size is a multiple of align ({} B) and at most space ({} B)",
                    place.align, place.space
                );
                Err(SynthError::new(KEY, self, allowed))
            }
            Self::Filling { extent, piece, .. }
                if piece == 0
                    || piece % place.align != 0
                    || extent == 0
                    || extent % piece != 0
                    || extent > place.space =>
            {
                let allowed = format!(
                    "the piece a multiple of align ({} B), the extent one of the piece and at most space ({} B)",
                    place.align, place.space
                );
                Err(SynthError::new(KEY, self, allowed))
            }
            Self::Append { extent, .. } if !(place.largest..=place.space).contains(&extent) => {
                let allowed = format!(
                    "an extent is between {} B (the largest size) and {} B (space)",
                    place.largest, place.space
                );
                Err(SynthError::new(KEY, self, allowed))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for AccessFootprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Zipf { alpha, scattered } => write!(f, "zipf:{alpha}{}", if *scattered { ",scattered" } else { "" }),
            Self::HotCold { space, accesses } => write!(f, "hot-cold:{space},{accesses}"),
            Self::Clusters { alpha, size, inner } => write!(f, "clusters:{alpha},{size},{inner}"),
            Self::Drift { window, every } => write!(f, "drift:{window},{every}"),
            Self::Append { streams, extent } => write!(f, "append:{streams},{extent}"),
            Self::Filling { streams, extent, piece, every, pace } => {
                write!(f, "filling:{streams},{extent},{piece},{}ns", every.0)?;
                pace.map_or(Ok(()), |pace| write!(f, ",{pace}"))
            }
        }
    }
}

impl FromStr for AccessFootprint {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        let footprint = match (kind, &parts[..]) {
            ("uniform", [""]) => Some(Self::Uniform),
            ("zipf", [alpha]) => alpha.parse().ok().map(|alpha| Self::Zipf { alpha, scattered: false }),
            ("zipf", [alpha, "scattered"]) => alpha.parse().ok().map(|alpha| Self::Zipf { alpha, scattered: true }),
            ("hot-cold", [space, accesses]) => match (space.parse(), accesses.parse()) {
                (Ok(space), Ok(accesses)) => Some(Self::HotCold { space, accesses }),
                _ => None,
            },
            ("clusters", [alpha, size, rest @ ..]) if rest.len() <= 1 => {
                match (alpha.parse(), rest.first().map_or(Ok(0.0), |inner| inner.parse())) {
                    (Ok(alpha), Ok(inner)) => Some(Self::Clusters { alpha, size: parse_bytes(KEY, size)?, inner }),
                    _ => None,
                }
            }
            ("drift", [window, every]) => match every.parse() {
                Ok(every) => Some(Self::Drift { window: parse_bytes(KEY, window)?, every }),
                Err(_) => None,
            },
            ("append", [streams, extent]) => match streams.parse() {
                Ok(streams) => Some(Self::Append { streams, extent: parse_bytes(KEY, extent)? }),
                Err(_) => None,
            },
            ("filling", [streams, extent, piece, every, rest @ ..]) if rest.len() <= 1 => {
                let pace = rest.first().map(|pace| pace.parse()).transpose();
                match (streams.parse(), parse_duration(every), pace) {
                    (Ok(streams), Some(every), Ok(pace)) => Some(Self::Filling {
                        streams,
                        extent: parse_bytes(KEY, extent)?,
                        piece: parse_bytes(KEY, piece)?,
                        every,
                        pace,
                    }),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(footprint) = footprint else {
            let allowed = "uniform, zipf:ALPHA, zipf:ALPHA,scattered, hot-cold:SPACE,ACCESSES (percent), \
                           clusters:ALPHA,SIZE[,INNER], drift:WINDOW,REQUESTS, append:STREAMS,EXTENT or \
                           filling:STREAMS,EXTENT,PIECE,TIME[,PACE]";
            return Err(SynthError::new(KEY, text, allowed));
        };
        footprint.check_parameters()?;
        Ok(footprint)
    }
}

/// The piece of a volume that requests go to, and what goes there.
#[derive(Clone, Copy, Debug)]
pub(super) struct VolumePiece {
    /// Bytes.
    pub(super) space: u64,
    /// Bytes of a slot.
    pub(super) align: u64,
    /// Bytes of the largest request, at most the space.
    pub(super) largest: u64,
}

impl VolumePiece {
    pub(super) const fn slots(&self) -> u64 {
        self.space / self.align
    }
}

/// Gives one address after another.
pub(super) struct AddressStream {
    stream: RandomStream,
    place: VolumePiece,
    kind: AddressPattern,
}

enum AddressPattern {
    Uniform,
    Zipf(ZipfRanks, Option<IndexPermutation>),
    HotCold { hot: u64, accesses: PercentShare },
    Clusters { ranks: ZipfRanks, scatter: IndexPermutation, inner: Option<ZipfRanks>, slots: u64 },
    Drift { window: u64, every: u64, drawn: u64, first: u64 },
    Append { extent: u64, next: u64, streams: Vec<GrowingExtent> },
    Filling(FillingState),
}

/// A stream that grows in its extent.
#[derive(Clone, Copy, Default)]
struct GrowingExtent {
    /// Holds the end of the stream so far.
    at: u64,
    /// Holds the end of the stream's extent.
    stop: u64,
}

/// Draws for [`AccessFootprint::Filling`]: a place is computed from the time.
struct FillingState {
    ranks: ZipfRanks,
    streams: u64,
    /// Extents in the space.
    extents: u64,
    /// Pieces in an extent.
    pieces: u64,
    /// Slots in a piece.
    slots: u64,
    every: u64,
    /// Of each stream with a pace of its own, the time between two moves.
    paces: Vec<u64>,
    key: u64,
}

impl FillingState {
    /// A stream, and how often it has gone on.
    fn choose(&self, stream: &mut RandomStream, time: Nanos) -> (u64, u64) {
        let rank = self.ranks.draw(stream);
        if let Some(&every) = self.paces.get(rank as usize) {
            // They do not all go on together.
            let ahead = hash(self.key ^ !rank) % every;
            return (rank, time.0.saturating_add(ahead) / every);
        }
        // Nothing overflows: near the end of time the walk repeats places. With the number of streams added
        // no rank is larger.
        let moves = (time.0 / self.every).saturating_add(self.streams);
        let latest = moves - rank;
        (latest % self.streams, latest / self.streams)
    }

    fn draw(&self, stream: &mut RandomStream, time: Nanos) -> u64 {
        let (file, visit) = self.choose(stream, time);
        let key = hash(self.key ^ file);
        // The streams begin at different pieces, lest all change their extents together.
        let walked = visit.wrapping_add(key % self.pieces);
        let chosen = hash(key ^ (walked / self.pieces).wrapping_add(1));
        // Multiplying uses the upper bits of the hash, and needs no division.
        let extent = ((u128::from(chosen) * u128::from(self.extents)) >> 64) as u64;
        (extent * self.pieces + walked % self.pieces) * self.slots + stream.below(self.slots)
    }
}

/// `k^pace` times this, or the end of time.
fn slower(every: Nanos, k: u32, pace: f64) -> u64 {
    (every.0 as f64 * libm::pow(f64::from(k), pace) + 0.5) as u64
}

impl AddressStream {
    /// For a footprint that [`AccessFootprint::check`] accepts for this place. Where the frequent slots
    /// lie depends on `scatter_seed`, which of them is drawn on `seed`.
    pub(super) fn new(footprint: AccessFootprint, place: VolumePiece, seed: u64, scatter_seed: u64) -> Self {
        let slots = place.slots();
        let kind = match footprint {
            AccessFootprint::Uniform => AddressPattern::Uniform,
            AccessFootprint::Zipf { alpha, scattered } => AddressPattern::Zipf(
                ZipfRanks::new(slots, alpha),
                scattered.then(|| IndexPermutation::new(slots, scatter_seed)),
            ),
            AccessFootprint::HotCold { space, accesses } => {
                let exact = u128::from(slots) * u128::from(space.millionths());
                // Integers give the same number of slots on every machine.
                let rounded = (exact + u128::from(MILLION / 2)) / u128::from(MILLION);
                AddressPattern::HotCold { hot: (rounded as u64).clamp(1, slots - 1), accesses }
            }
            AccessFootprint::Clusters { alpha, size, inner } => {
                let clusters = place.space / size;
                let slots = size / place.align;
                AddressPattern::Clusters {
                    ranks: ZipfRanks::new(clusters, alpha),
                    scatter: IndexPermutation::new(clusters, scatter_seed),
                    inner: (inner > 0.0).then(|| ZipfRanks::new(slots, inner)),
                    slots,
                }
            }
            AccessFootprint::Drift { window, every } => {
                AddressPattern::Drift { window: window / place.align, every, drawn: 0, first: 0 }
            }
            AccessFootprint::Append { streams, extent } => {
                AddressPattern::Append { extent, next: 0, streams: vec![GrowingExtent::default(); streams as usize] }
            }
            AccessFootprint::Filling { streams, extent, piece, every, pace } => AddressPattern::Filling(FillingState {
                ranks: ZipfRanks::new(u64::from(streams), pace.unwrap_or(1.0)),
                streams: u64::from(streams),
                extents: place.space / extent,
                pieces: extent / piece,
                slots: piece / place.align,
                every: every.0,
                paces: pace.map_or(vec![], |pace| (1..=streams).map(|k| slower(every, k, pace)).collect()),
                key: RandomStream::new(scatter_seed, StreamPurpose::Scatter).next(),
            }),
        };
        Self { stream: RandomStream::new(seed, StreamPurpose::Address), place, kind }
    }

    /// The first byte of the next request, which has this length and arrives at this time.
    pub(super) fn draw(&mut self, len: u64, time: Nanos) -> u64 {
        let slots = self.place.slots();
        let stream = &mut self.stream;
        let slot = match &mut self.kind {
            AddressPattern::Uniform => stream.below(slots),
            AddressPattern::Zipf(zipf, scatter) => {
                let rank = zipf.draw(stream);
                scatter.as_ref().map_or(rank, |permutation| permutation.of(rank))
            }
            &mut AddressPattern::HotCold { hot, accesses } => {
                if stream.happens(accesses) {
                    stream.below(hot)
                } else {
                    hot + stream.below(slots - hot)
                }
            }
            AddressPattern::Clusters { ranks, scatter, inner, slots } => {
                let cluster = scatter.of(ranks.draw(stream));
                let slot = match inner {
                    Some(inner) => inner.draw(stream),
                    None => stream.below(*slots),
                };
                cluster * *slots + slot
            }
            AddressPattern::Drift { window, every, drawn, first } => {
                if *drawn == *every {
                    *drawn = 0;
                    *first = if *first + 1 == slots { 0 } else { *first + 1 };
                }
                *drawn += 1;
                (*first + stream.below(*window)) % slots
            }
            AddressPattern::Append { extent, next, streams } => {
                let chosen = stream.below(streams.len() as u64) as usize;
                let file = &mut streams[chosen];
                if file.stop - file.at < len {
                    // The space is used again from the start, as a log that wraps.
                    if self.place.space - *next < *extent {
                        *next = 0;
                    }
                    *file = GrowingExtent { at: *next, stop: *next + *extent };
                    *next += *extent;
                }
                file.at += len;
                return file.at - len;
            }
            AddressPattern::Filling(filling) => filling.draw(stream, time),
        };
        // A request that would reach beyond the space is moved down, so that all sizes fit everywhere.
        let last = (self.place.space - len) / self.place.align;
        slot.min(last) * self.place.align
    }
}

/// A permutation of the numbers below n: a bijective hash of as many bits as n needs, repeated
/// until its result is below n (cycle walking), which takes fewer than two steps on average.
struct IndexPermutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 4],
}

impl IndexPermutation {
    fn new(n: u64, seed: u64) -> Self {
        let bits = (64 - (n - 1).leading_zeros()).max(1);
        let mut stream = RandomStream::new(seed, StreamPurpose::Scatter);
        Self { n, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), keys: std::array::from_fn(|_| stream.next()) }
    }

    fn of(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            for key in self.keys {
                // Each step can be undone within the mask: adding, multiplying by an odd number,
                // and the shift.
                x = x.wrapping_add(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
                x ^= x >> self.shift;
            }
            // The mask covers at most twice the number, so that few rounds are needed.
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_are_read_and_written() {
        for text in [
            "uniform",
            "zipf:0.99",
            "zipf:1,scattered",
            "hot-cold:20,80",
            "hot-cold:0.5,99.5",
            "clusters:0.9,131072,0.5",
            "drift:65536,8",
            "append:4,1048576",
            "filling:64,131072,8192,200000000ns",
            "filling:64,131072,8192,200000000ns,0.5",
        ] {
            assert_eq!(text.parse::<AccessFootprint>().unwrap().to_string(), text);
        }
        assert_eq!(
            "clusters:1,128KiB".parse(),
            Ok(AccessFootprint::Clusters { alpha: 1.0, size: 128 << 10, inner: 0.0 }),
            "the slots of a cluster are alike"
        );
        for text in [
            "",
            "uniform:1",
            "zipf",
            "zipf:-1",
            "zipf:11",
            "zipf:nan",
            "zipf:1,near",
            "hot-cold:0,80",
            "hot-cold:20",
            "clusters:1",
            "clusters:11,4KiB",
            "clusters:1,4KiB,nan",
            "clusters:1,4XB",
            "clusters:1,4KiB,1,1",
            "drift:4KiB",
            "drift:4KiB,0",
            "append:0,4KiB",
            "append:4097,4KiB",
            "append:4",
            "filling:4,8KiB,4KiB",
            "filling:0,8KiB,4KiB,1ms",
            "filling:4,8KiB,4KiB,0ns",
            "filling:4,8KiB,4KiB,1ms,11",
            "filling:4,8KiB,4KiB,1ms,1,1",
        ] {
            assert!(text.parse::<AccessFootprint>().unwrap_err().to_string().starts_with("footprint = "), "{text}");
        }
    }

    #[test]
    fn a_permutation_hits_every_slot_once() {
        for n in (1..=130).chain([1000, 4096, 4097]) {
            let permutation = IndexPermutation::new(n, 5);
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                assert!(!std::mem::replace(&mut seen[permutation.of(rank) as usize], true));
            }
        }
    }

    #[test]
    fn a_permutation_parts_neighbours() {
        let permutation = IndexPermutation::new(1_000_000, 5);
        let near = (0..1000).filter(|&rank| permutation.of(rank).abs_diff(permutation.of(rank + 1)) < 1000).count();
        assert!(near < 20, "{near} of 1000 neighbours stay within a thousandth of the space");
    }
}
