//! Sizes of caches as people write them: in bytes, as ranges, and by what a trace touches.

use std::str::FromStr;

use destage_sim::curve::PassFindings;
use destage_sim::measure::SizesResult;

use crate::quantity as q;

/// Sizes of a range at most.
const MOST_OF_RANGE: u32 = 1000;
/// `auto` takes these multiples of the knee, in quarters of it.
const AUTO_QUARTERS: [u64; 5] = [1, 2, 4, 8, 16];

/// Describes one cache size or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSize {
    /// One size.
    One(RelativeSize),
    /// So many sizes between two, both included, each as much larger than the one before.
    Range(RelativeSize, RelativeSize, u32),
    /// Five sizes from a quarter of the size at which LRU's curve of hits bends to four times as much.
    Auto,
}

/// A size in bytes, or by what a trace touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativeSize {
    /// Bytes.
    Bytes(u64),
    /// Hundredths of a percent of the footprint.
    Share(u32),
}

impl FromStr for RelativeSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.trim_end().ends_with('%') {
            return q::bytes(text).map(Self::Bytes);
        }
        match q::basis_points(text) {
            Ok(share) if share > 0 => Ok(Self::Share(share)),
            _ => Err("a share of the footprint above 0% and up to 100%, with at most two decimals".into()),
        }
    }
}

impl FromStr for CacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let Some((from, rest)) = text.split_once("..") else {
            let other = |right| format!("{right}; or a share such as 10%, a range such as 1MiB..1GiB/8, or auto");
            return text.parse().map(Self::One).map_err(other);
        };
        let (to, sizes) = rest.split_once('/').ok_or("a range has its number of sizes behind it: 1MiB..1GiB/8")?;
        let sizes = q::count32(sizes).ok().filter(|sizes| (2..=MOST_OF_RANGE).contains(sizes));
        let sizes = sizes.ok_or_else(|| format!("a range has from 2 to {MOST_OF_RANGE} sizes: 1MiB..1GiB/8"))?;
        let (from, to) = (from.parse()?, to.parse()?);
        match (from, to) {
            (RelativeSize::Bytes(from), RelativeSize::Bytes(to)) => ascends(from, to)?,
            (RelativeSize::Share(from), RelativeSize::Share(to)) => ascends(from.into(), to.into())?,
            _ => {}
        }
        Ok(Self::Range(from, to, sizes))
    }
}

/// A range goes from a size to a larger one.
fn ascends(from: u64, to: u64) -> Result<(), String> {
    if from > 0 && from < to { Ok(()) } else { Err("a range goes from a size above 0 to a larger one".into()) }
}

impl RelativeSize {
    fn needs_trace(self) -> bool {
        matches!(self, Self::Share(_))
    }

    /// In bytes; shares are whole pages, at least one.
    fn bytes(self, page: u64, found: Option<&PassFindings>) -> Result<u64, String> {
        match (self, found) {
            (Self::Bytes(bytes), _) => Ok(bytes),
            (Self::Share(share), Some(found)) => {
                let pages = u128::from(found.footprint.pages) * u128::from(share);
                Ok((pages.saturating_add(5_000) / 10_000).max(1) as u64 * page)
            }
            (Self::Share(_), None) => Err(UNKNOWN.into()),
        }
    }
}

/// Holds the error for sizes that depend on the trace, where no pass over the trace comes first.
const UNKNOWN: &str =
    "shares of the footprint and auto have no meaning here, since the trace is not looked at first: give sizes";

impl CacheSize {
    /// Is true if the size depends on what the trace touches.
    pub fn needs_trace(self) -> bool {
        match self {
            Self::One(size) => size.needs_trace(),
            Self::Range(from, to, _) => from.needs_trace() || to.needs_trace(),
            Self::Auto => true,
        }
    }

    /// The sizes in bytes, ascending; a range has fewer where there are fewer pages between its ends, and `auto` none
    /// above the footprint.
    fn bytes(self, page: u64, found: Option<&PassFindings>) -> Result<Vec<u64>, String> {
        match self {
            Self::One(size) => Ok(vec![size.bytes(page, found)?]),
            Self::Range(from, to, sizes) => {
                let (from, to) = (from.bytes(page, found)?, to.bytes(page, found)?);
                ascends(from, to)?;
                Ok(range(from, to, sizes, page))
            }
            Self::Auto => {
                let found = found.ok_or(UNKNOWN)?;
                let knee = found.knee().ok_or(
                    "no page comes back, so that LRU has no hits at any size and its curve does not bend: give sizes, or shares \
                     such as 1%,10%",
                )?;
                let pages = AUTO_QUARTERS.map(|quarters| (knee * quarters / 4).clamp(1, found.footprint.pages));
                let mut pages = pages.to_vec();
                pages.dedup();
                Ok(pages.into_iter().map(|pages| pages * page).collect())
            }
        }
    }
}

/// So many sizes from one to another, in geometric progression, those between them of whole pages.
fn range(from: u64, to: u64, sizes: u32, page: u64) -> Vec<u64> {
    let step = root(to as f64 / from as f64, sizes - 1);
    let mut all = vec![from];
    let mut size = from as f64 / page as f64;
    for _ in 1..sizes - 1 {
        size *= step;
        let bytes = (size + 0.5) as u64 * page;
        if bytes > all[all.len() - 1] && bytes < to {
            all.push(bytes);
        }
    }
    all.push(to);
    all
}

/// The root of a number of at least 1, by what all machines calculate alike: powers of the library they do not.
fn root(of: f64, degree: u32) -> f64 {
    let (mut low, mut high) = (1.0, of);
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return low;
        }
        let power = (0..degree).fold(1.0, |power, _| power * middle);
        *(if power <= of { &mut low } else { &mut high }) = middle;
    }
}

/// The sizes of a list in its order, each once where it was chosen.
///
/// # Errors
/// Tells what would be right, where the trace does not allow what is asked, or nothing is `found` of it.
pub fn chosen(asked: &[CacheSize], page: u64, found: Option<&PassFindings>) -> Result<Vec<u64>, String> {
    let mut all: Vec<u64> = Vec::new();
    for size in asked {
        let plain = matches!(size, CacheSize::One(RelativeSize::Bytes(_)));
        for bytes in size.bytes(page, found)? {
            if plain || !all.contains(&bytes) {
                all.push(bytes);
            }
        }
    }
    Ok(all)
}

/// Returns the part of a result that says how sizes were chosen for `asked`, or none if each was given in
/// bytes.
pub(crate) fn result(
    asked: &str,
    sizes: &[CacheSize],
    caches: &[u64],
    found: Option<&PassFindings>,
) -> Option<SizesResult> {
    if sizes.iter().all(|size| matches!(size, CacheSize::One(RelativeSize::Bytes(_)))) {
        return None;
    }
    let page = found.map_or(0, |found| found.footprint.page_bytes);
    let knee = found.and_then(PassFindings::knee);
    Some(SizesResult {
        asked: asked.to_owned(),
        chosen: caches.to_vec(),
        footprint_bytes: found.map(|found| found.footprint.bytes()),
        footprint_written_bytes: found.map(|found| found.footprint.written_pages * page),
        knee_bytes: knee.map(|knee| knee * page),
        knee_hit_ratio: found.zip(knee).and_then(|(found, knee)| found.lru.hit_ratio(knee)),
        full_bytes: found.map(|found| found.lru.full() * page),
        full_hit_ratio: found.and_then(|found| found.lru.hit_ratio(u64::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_geometric_with_both_ends() {
        let parse = |text: &str| text.parse::<CacheSize>();
        let sizes = |text: &str| chosen(&[parse(text).unwrap()], 4096, None);
        let mib = |n: u64| n << 20;
        assert_eq!(sizes("1MiB..128MiB/8").unwrap(), [1, 2, 4, 8, 16, 32, 64, 128].map(mib));
        assert_eq!(sizes("1MiB..1GiB/2").unwrap(), [1, 1024].map(mib));
        // 1, 1.41, 2, 2.83 and 4 MiB in pages.
        assert_eq!(sizes("1MiB..4MiB/5").unwrap(), [256, 362, 512, 724, 1024].map(|pages| pages * 4096));
        // There are no five sizes between.
        assert_eq!(sizes("4KiB..16KiB/7").unwrap(), [1, 2, 3, 4].map(|pages| pages * 4096));
        for (wrong, right) in [
            ("1MiB..2MiB", "1MiB..1GiB/8"),
            ("1MiB..2MiB/1", "from 2 to 1000"),
            ("2MiB..1MiB/3", "to a larger one"),
            ("10%..5%/3", "to a larger one"),
            ("0..5MiB/3", "above 0"),
            ("101%", "up to 100%"),
            ("0%", "above 0%"),
            ("much", "or auto"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(right), "{wrong}: {error}");
        }
        assert!(sizes("auto").unwrap_err().contains("give sizes"));
    }

    #[test]
    fn roots_are_those_of_powers() {
        for (base, degree) in [(2.0, 7), (1.5, 3), (10.0, 4), (1.25, 1)] {
            let power = (0..degree).fold(1.0, |power: f64, _| power * base);
            assert!((root(power, degree) - base).abs() < 1e-12);
        }
        assert!((root(1.0, 3) - 1.0).abs() < 1e-12);
    }
}
