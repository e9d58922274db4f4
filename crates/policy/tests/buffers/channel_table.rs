//! CAWR's comparison of buffer policies (Table 1 there; specs §6.6) as far as it is about what
//! writes through several channels: does a policy treat clean and dirty pages differently, does it
//! keep the pattern of the writes, does it keep the channels busy?
//!
//! What the table says of CAVE is said of the technique. Over CCF-LRU it spares dirty pages, as
//! CCF-LRU does by itself, and over FAB it does not; the same is true of the gate. The rows here
//! are about techniques, over policies that have no preference of their own, except that the policy
//! `cave` comes with CCF-LRU and is not asked about preferences.

use std::collections::{BTreeMap, BTreeSet};

use destage_policy::buffer::{BufferConfig, EvictionKind, PageAccess, policies};

use crate::driven::driven;
use crate::models::Left;

const CHANNELS: u32 = 4;
const CONFIG: BufferConfig = BufferConfig { capacity_pages: 64, pages_per_block: 8, elements: CHANNELS };
const ROOM: u32 = 100_000;

/// Says how far the pattern of the writes is preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// Pages go where the page before them went no more often than by chance.
    Lost,
    /// Many do.
    Partial,
    /// All do.
    Kept,
}

/// Returns true if dirty pages outlive clean ones that were used later. The buffer is full of dirty pages
/// that were written first and clean ones read after them; then as many pages come in as were read.
fn prefers_clean(spec: &str) -> bool {
    let mut policy = driven(spec, CONFIG, ROOM);
    let mut left = Vec::new();
    // Each in a block of its own; blocks of one page leave in the order of their use.
    let page = |number: u32| number * 8;
    for number in 0..96 {
        let page = page(number);
        policy.access(if number < 32 { PageAccess::write(page) } else { PageAccess::read(page) }, &mut left);
    }
    let written: usize =
        left.iter().filter(|group| group.kind == EvictionKind::Flush).map(|group| group.pages.len()).sum();
    assert!(written == 0 || written >= 28, "{spec}: neither one nor the other");
    written == 0
}

/// Writes many short runs of pages and returns what leaves: runs of three pages each in a block of
/// its own, so that runs are no blocks, and every other run is of two pages only.
fn runs(spec: &str) -> Vec<Left> {
    let mut policy = driven(spec, CONFIG, ROOM);
    let mut left = Vec::new();
    for run in 0..2000 {
        let first = (run * 7919 % 4001) * 16;
        for page in first..first + 3 - run % 2 {
            policy.access(PageAccess::write(page), &mut left);
        }
    }
    left
}

/// Compares the channel of each page that left with that of the page before it.
fn pattern(spec: &str) -> Pattern {
    let mut channel_of = BTreeMap::new();
    for group in runs(spec) {
        channel_of.extend(group.pages.iter().copied().zip(group.channels.expect("channels")));
    }
    let neighbours = channel_of.iter().filter_map(|(page, channel)| Some(channel_of.get(&(page + 1))? == channel));
    let (together, apart): (Vec<bool>, Vec<bool>) = neighbours.partition(|same| *same);
    assert!(together.len() + apart.len() > 2500, "{spec}: {} and {}", together.len(), apart.len());
    if apart.is_empty() {
        Pattern::Kept
    } else if together.len() * CHANNELS as usize <= together.len() + apart.len() {
        Pattern::Lost
    } else {
        Pattern::Partial
    }
}

/// Returns true if pages are written at the same time through all channels.
fn keeps_channels_busy(spec: &str) -> bool {
    let left = runs(spec);
    let busy = left.iter().filter(|group| {
        let channels: BTreeSet<u16> = group.channels.iter().flatten().copied().collect();
        channels.len() == CHANNELS as usize && group.pages.len() == CHANNELS as usize
    });
    // Rounds of blocks that have different sizes are not all full.
    2 * busy.count() > left.len()
}

#[test]
fn gating_buffer() {
    for spec in ["gate+lru", "gate+clock"] {
        assert!(!prefers_clean(spec));
        assert_eq!(pattern(spec), Pattern::Lost, "{spec}");
        assert!(keeps_channels_busy(spec), "{spec}");
    }
}

/// "CAVE" and "CAVE + page-level".
#[test]
fn cave_over_pages() {
    assert_eq!(pattern("cave"), Pattern::Lost);
    assert!(keeps_channels_busy("cave"));
}

#[test]
fn cave_over_blocks() {
    assert!(!prefers_clean("cave+fab"));
    let spec = "cave+bplru:padding=never";
    assert_eq!(pattern(spec), Pattern::Partial);
    assert!(keeps_channels_busy(spec));
    // What CAWR criticises is gone where a block has one channel.
    assert_eq!(pattern("cave+bplru:padding=never:cave_block_channel=per_block"), Pattern::Kept);
}

#[test]
fn cawr() {
    assert!(prefers_clean("cawr"));
    for spec in ["cawr", "cawr+fab", "cawr+bplru"] {
        assert_eq!(pattern(spec), Pattern::Kept, "{spec}");
        assert!(keeps_channels_busy(spec), "{spec}");
    }
}

/// "Block-level buffer" and the page-level rows: one victim at a time, and the device chooses its
/// channels.
#[test]
fn policies_without_channels() {
    let all = policies().iter().filter(|policy| !policy.chooses_channels && policy.name != "none");
    for spec in all.map(|policy| if policy.name == "bplru" { "bplru:padding=never" } else { policy.name }) {
        assert!(runs(spec).iter().all(|group| group.channels.is_none()), "{spec}");
        assert!(!keeps_channels_busy(spec), "{spec}");
    }
}
