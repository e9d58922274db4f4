//! Computes the share of a cache that its metadata log takes.

use destage_plan::{ParamSpec, Params, SpecError};

/// Hundredths of a percent of a cache that its log may take.
const MOST_SHARE: u64 = 50 * 100;

pub(in crate::ssd) const LOG: ParamSpec = ParamSpec {
    name: "log",
    default: "1",
    values: "0 to 50, with up to two decimals",
    unit: "percent",
    help: "share of the cache that logs what is in the rest of it, or as much more as that takes; 0: what is in the cache is not known after a start",
};

/// Entries that go into a page of the log.
pub(super) const fn entries(page_bytes: u32) -> u32 {
    crate::ssd::log::room(page_bytes)
}

/// Pages of a log for so many frames at least: they fit into those that may be in use, and another page.
pub(super) const fn least(frames: u64, entries: u32) -> u64 {
    // Two of the three pages stay out of use (`usage_max`).
    frames.div_ceil(entries as u64) + 3
}

/// Pages of the log of a cache with so many pages, if it is to have one.
pub(in crate::ssd) fn log_pages(pages: u64, page_bytes: u32, params: &Params) -> Result<u64, SpecError> {
    let share = params.hundredths(LOG.name, 0..=MOST_SHARE)?;
    let entries = entries(page_bytes);
    // A page too small for one entry cannot have a log; then nothing is known after
    // a restart.
    if share == 0 || entries == 0 {
        return Ok(0);
    }
    let mut log = (pages * share).div_ceil(10_000);
    // One more page in the log is one fewer to be logged.
    while log < pages && log < least(pages - log, entries) {
        log += 1;
    }
    Ok(log)
}

/// Bytes of memory for each page of the cache: what is known of a frame's entry, and of which frames the entries
/// of a log of this share are.
pub(in crate::ssd) fn bytes_per_page(params: &Params) -> u64 {
    // The array's page size is not known here, so memory is estimated for pages of
    // 4 KiB.
    let entries = u64::from(entries(4096));
    let share = params.hundredths(LOG.name, 1..=MOST_SHARE);
    share.map_or(0, |share: u64| 12 + (4 * entries * share).div_ceil(10_000).max(4))
}

/// Pages of the smallest cache with a log, of two frames.
pub(in crate::ssd) fn min_pages(page_bytes: u32, params: &Params) -> u64 {
    let logs = params.hundredths(LOG.name, 1..=MOST_SHARE).is_ok() && entries(page_bytes) > 0;
    if logs { 2 + least(2, entries(page_bytes)) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_takes_its_share_or_what_an_entry_of_each_frame_takes() {
        let pages = |pages: u64, given: &str| {
            let spec = format!("cache:log={given}").parse()?;
            log_pages(pages, 4096, &Params::resolve(&[("cache", &[LOG])], &spec)?[0])
        };
        // 128 MiB, of which 180 pages hold 185 entries each of the others, and three pages more.
        let all = ["0", "0.01", "0.39", "0.59", "0.98", "1", "2", "50"].map(|given| pages(32_768, given).unwrap());
        assert_eq!(all, [0, 180, 180, 194, 322, 328, 656, 16_384]);
        assert!(pages(32_768, "50.01").is_err() && pages(32_768, "0.001").is_err());
    }
}
