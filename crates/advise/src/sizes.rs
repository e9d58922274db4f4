//! The sizes that are considered.

use destage_scenario::{CacheSize, RelativeSize, chosen};
use destage_sim::curve::PassFindings;

use crate::AdviseError;

/// Tells how large something may be.
pub type SizeBudget = RelativeSize;

/// Tells how large caches may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheBudgets {
    /// Limits a buffer inside an SSD, or a cache on a device before an array. None: by the curve of LRU.
    pub size: Option<SizeBudget>,
    /// Limits a cache in the NVRAM before an array. None: there is no NVRAM for one.
    pub nvram: Option<SizeBudget>,
}

/// Without a budget it may be so many times as large as where LRU's curve bends,
const KNEES: u64 = 4;
/// but no larger than this part of what is touched: nobody buffers most of a device.
const PART: u64 = 10;
/// Of so few pages all may be held.
const MOST_OF_LITTLE: u64 = 1_024;
/// Sizes are told in few digits: they are whole multiples of at least this part of them.
const DIGITS: u32 = 4;
/// The smallest size is this part of the largest.
const SPAN: u64 = 128;
/// Sizes from the smallest to the largest: each is by a quarter larger than the one before.
const SIZES: u32 = 22;

/// Returns sizes up to the budget, or up to four times where LRU's curve bends.
///
/// # Errors
/// Where no page comes back and nothing says how large it may be; the error names the option.
pub(crate) fn considered(
    budget: Option<SizeBudget>,
    option: &str,
    found: &PassFindings,
) -> Result<Vec<u64>, AdviseError> {
    let page = found.footprint.page_bytes;
    let wrong = |right: String| AdviseError::Asked(format!("{option}: {right}"));
    let largest = if let Some(size) = budget {
        // A cache cannot hold more than the trace touches.
        (chosen(&[CacheSize::One(size)], page, Some(found)).map_err(wrong)?[0] / page).min(found.footprint.pages)
    } else {
        let knee = found.knee().ok_or_else(|| {
            wrong("no page is used twice, and nothing else tells a size: give one, such as 64MiB".to_owned())
        })?;
        few_digits((KNEES * knee).min(found.footprint.pages / PART).max(MOST_OF_LITTLE.min(found.footprint.pages)))
    };
    if largest < 2 {
        return Err(wrong(format!("a size of at least two pages of {page} B")));
    }
    let [smallest, largest] = [(largest / SPAN).max(1), largest].map(|pages| RelativeSize::Bytes(pages * page));
    // Sizes grow by a constant factor, since hits change with the ratio of sizes rather than with their difference.
    let mut sizes = chosen(&[CacheSize::Range(smallest, largest, SIZES)], page, Some(found)).map_err(wrong)?;
    if let [rest @ .., _] = &mut sizes[..] {
        for size in rest {
            *size = few_digits(*size / page) * page;
        }
    }
    // Rounding to few digits makes small sizes equal.
    sizes.dedup();
    Ok(sizes)
}

/// The next whole multiple, below or equal, of a power of two that is a small part of it.
fn few_digits(pages: u64) -> u64 {
    let step = pages.checked_ilog2().map_or(1, |log2| 1 << log2.saturating_sub(DIGITS));
    pages / step * step
}
