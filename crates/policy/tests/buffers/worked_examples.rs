//! The worked tables of the specification, row by row.
//!
//! A row's state is compared word for word with that of the naive model. The policy's own state is
//! seen by what it does: after each row policy and model must evict the same while fresh pages push
//! everything out.

use destage_plan::PageNo;
use destage_policy::buffer::{BufferConfig, BufferNotice, EvictionKind, PageAccess, policies};

use crate::driven::driven;
use crate::models::Left;
use crate::table::Table;

fn writes(pages: &[u32]) -> Vec<PageAccess> {
    pages.iter().map(|page| PageAccess::write(*page)).collect()
}

fn flush(pages: &[u32]) -> Left {
    Left::unit(EvictionKind::Flush, pages)
}

/// Specs §4.1.
#[test]
fn lru() {
    let mut t = Table::new("lru", 3, 1, 1);
    t.row(&[PageAccess::write(1), PageAccess::read(2), PageAccess::write(3)], "3d 2c 1d", &[]);
    t.row(&[PageAccess::read(1)], "1d 3d 2c", &[]);
    t.row(&[PageAccess::write(4)], "4d 1d 3d", &[Left::unit(EvictionKind::Drop, &[2])]);
    t.row(&[PageAccess::read(2)], "2c 4d 1d", &[flush(&[3])]);
    // Six accesses of lookup and move, two victims.
    assert_eq!(t.policy.memory_accesses(), 6 * 2 + 2);
}

/// Specs §4.2.
#[test]
fn clock() {
    let mut t = Table::new("clock", 3, 1, 1);
    t.row(&writes(&[1, 2, 3, 1]), "(1,1)(2,1)(3,1) hand 1", &[]);
    t.row(&writes(&[4]), "(4,1)(2,0)(3,0) hand 2", &[flush(&[1])]);
    // Lookup, bit; the hand inspects 1, 2, 3 and 1 again.
    assert_eq!(t.policy.memory_accesses(), 4 * 2 + 2 + 4);
    t.row(&writes(&[2]), "(4,1)(2,1)(3,0) hand 2", &[]);
    t.row(&writes(&[5]), "(4,1)(2,0)(5,1) hand 4", &[flush(&[3])]);
}

/// The oldest page leaves, used or not.
#[test]
fn fifo() {
    let mut t = Table::new("fifo", 3, 1, 1);
    t.row(&[PageAccess::write(1), PageAccess::read(2), PageAccess::write(3), PageAccess::write(1)], "1d 2c 3d", &[]);
    t.row(&[PageAccess::read(4)], "2c 3d 4c", &[flush(&[1])]);
    t.row(&[PageAccess::read(1)], "3d 4c 1c", &[Left::unit(EvictionKind::Drop, &[2])]);
    // Six lookups, five insertions, two victims.
    assert_eq!(t.policy.memory_accesses(), 6 + 5 + 2);
}

/// A1in | Am | A1out with Kin = 1 and Kout = 2.
#[test]
fn two_q() {
    let mut t = Table::new("2q", 4, 1, 1);
    t.row(&writes(&[1, 2, 3, 4, 1]), "1d 2d 3d 4d | - | -", &[]);
    t.row(&writes(&[5, 6]), "3d 4d 5d 6d | - | 1 2", &[flush(&[1]), flush(&[2])]);
    // 1 comes again, and leaves A1out before 3 enters.
    t.row(&writes(&[1]), "4d 5d 6d | 1d | 2 3", &[flush(&[3])]);
    t.row(&writes(&[3, 2]), "6d | 1d 3d 2d | 4 5", &[flush(&[4]), flush(&[5])]);
    // A1in has its share: Am gives up its least recently used page, which is not remembered.
    t.row(&writes(&[1, 4]), "6d | 2d 1d 4d | 5", &[flush(&[3])]);
    t.row(&writes(&[3]), "6d 3d | 1d 4d | 5", &[flush(&[2])]);
    // Thirteen lookups, eleven insertions, a move in Am, seven victims.
    assert_eq!(t.policy.memory_accesses(), 13 + 11 + 1 + 7);
}

/// Buffers of one to three pages.
#[test]
fn two_q_of_few_pages() {
    let mut t = Table::new("2q", 1, 1, 1);
    t.row(&writes(&[1, 1, 2, 1]), "1d | - | -", &[flush(&[1]), flush(&[2])]);
    let mut t = Table::new("2q", 2, 1, 1);
    t.row(&writes(&[1, 2, 3]), "2d 3d | - | 1", &[flush(&[1])]);
    t.row(&writes(&[1]), "3d | 1d | 2", &[flush(&[2])]);
    t.row(&writes(&[4]), "4d | 1d | 3", &[flush(&[3])]);
    let mut t = Table::new("2q", 3, 1, 1);
    t.row(&writes(&[1, 2, 3, 4, 1]), "3d 4d | 1d | 2", &[flush(&[1]), flush(&[2])]);
}

/// T1 | T2 | B1 | B2 | p.
#[test]
fn arc() {
    let mut t = Table::new("arc", 3, 1, 1);
    t.row(&[PageAccess::write(1), PageAccess::read(2), PageAccess::write(3)], "1d 2c 3d | - | - | - | 0", &[]);
    t.row(&[PageAccess::read(1)], "2c 3d | 1d | - | - | 0", &[]);
    // Case IV B: T1 is above its target.
    t.row(&writes(&[4]), "3d 4d | 1d | 2 | - | 0", &[Left::unit(EvictionKind::Drop, &[2])]);
    // Case II: a miss in B1 raises the target by one; T1 is still above it.
    t.row(&writes(&[2]), "4d | 1d 2d | 3 | - | 1", &[flush(&[3])]);
    // Case IV B: T1 is at its target, so that T2 gives up a page.
    t.row(&writes(&[5]), "4d 5d | 2d | 3 | 1 | 1", &[flush(&[1])]);
    // Case III: a miss in B2 lowers the target.
    t.row(&writes(&[1]), "5d | 2d 1d | 3 4 | - | 0", &[flush(&[4])]);
    // Case IV A: T1 and B1 have three entries, and the oldest ghost is forgotten.
    t.row(&writes(&[6]), "6d | 2d 1d | 4 5 | - | 0", &[flush(&[5])]);
    // Nine lookups and moves, five victims, a forgotten ghost.
    assert_eq!(t.policy.memory_accesses(), 9 * 2 + 5 + 1);
    // T1 has all pages: its oldest one leaves without a trace.
    let mut t = Table::new("arc", 2, 1, 1);
    t.row(&writes(&[1, 2, 3]), "2d 3d | - | - | - | 0", &[flush(&[1])]);
    let mut t = Table::new("arc", 1, 1, 1);
    t.row(&writes(&[1, 2, 2]), "- | 2d | - | - | 0", &[flush(&[1])]);
    t.row(&writes(&[3]), "3d | - | - | 2 | 0", &[flush(&[2])]);
    t.row(&writes(&[2]), "- | 2d | 3 | - | 0", &[flush(&[3])]);
    t.row(&writes(&[3]), "- | 3d | - | 2 | 1", &[flush(&[2])]);
}

/// Ghosts move the target by the ratio of their lists.
#[test]
fn arc_adapts_by_the_ratio_of_its_ghosts() {
    let mut t = Table::new("arc", 4, 1, 1);
    t.row(&writes(&[1, 1, 2, 2, 3, 3, 4]), "4d | 1d 2d 3d | - | - | 0", &[]);
    t.row(&writes(&[5]), "5d | 1d 2d 3d | 4 | - | 0", &[flush(&[4])]);
    t.row(&writes(&[4]), "5d | 2d 3d 4d | - | 1 | 1", &[flush(&[1])]);
    t.row(&writes(&[6, 7]), "6d 7d | 3d 4d | 5 | 1 2 | 1", &[flush(&[2]), flush(&[5])]);
    // |B2| / |B1| = 2.
    t.row(&writes(&[5]), "6d 7d | 4d 5d | - | 1 2 3 | 3", &[flush(&[3])]);
}

/// S | M | G, a star for each use: S has one page and G three.
#[test]
fn s3_fifo() {
    let mut t = Table::new("s3-fifo", 4, 1, 1);
    t.row(&writes(&[1, 2, 3, 4, 1, 1, 2]), "1d** 2d* 3d 4d | - | -", &[]);
    // 1 was used more than once and goes to M; 2 was not and leaves.
    t.row(&writes(&[5]), "3d 4d 5d | 1d | 2", &[flush(&[2])]);
    // 2 comes again and enters M.
    t.row(&writes(&[2, 1]), "4d 5d | 1d* 2d | 3", &[flush(&[3])]);
    t.row(&writes(&[3]), "5d | 1d* 2d 3d | 4", &[flush(&[4])]);
    t.row(&writes(&[4]), "- | 1d* 2d 3d 4d | 5", &[flush(&[5])]);
    // S has less than its share: M gives up a page, after 1 went around.
    t.row(&writes(&[6]), "6d | 3d 4d 1d | 5", &[flush(&[2])]);
    // All uses up to three count in M.
    t.row(&writes(&[3, 3, 3, 3, 3]), "6d | 3d*** 4d 1d | 5", &[]);
    // Of few pages S has one, of one page M has none.
    let mut t = Table::new("s3-fifo", 1, 1, 1);
    t.row(&writes(&[1, 2, 1]), "1d | - | -", &[flush(&[1]), flush(&[2])]);
    // All of S go to M, which gives one up.
    t.row(&writes(&[1, 1, 3]), "3d | - | -", &[flush(&[1])]);
    let mut t = Table::new("s3-fifo", 2, 1, 1);
    t.row(&writes(&[1, 2, 3, 1]), "3d | 1d | 2", &[flush(&[1]), flush(&[2])]);
}

/// Specs §4.3.
#[test]
fn cflru() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    let mut t = Table::new("cflru", 4, 1, 1);
    t.row(&[w(1), r(2), w(3), r(4)], "4c 3d | 2c 1d", &[]);
    t.row(&[r(5)], "5c 4c | 3d 1d", &[Left::unit(EvictionKind::Drop, &[2])]);
    t.row(&[w(6)], "6d 5c | 4c 3d", &[flush(&[1])]);
    t.row(&[r(7)], "7c 6d | 5c 3d", &[Left::unit(EvictionKind::Drop, &[4])]);
    // Seven accesses of lookup and move; 1 and 2 were inspected, then 1, 3 and 1 again, then 3 and
    // 4.
    assert_eq!(t.policy.memory_accesses(), 7 * 2 + 2 + 3 + 2);
}

/// A period of two evictions, costs of 8 and 1: 16 in six accesses, then 18 in two, so that the
/// window shrinks; then 8 in three, so that it shrinks again.
#[test]
fn cflru_adaptive() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    let mut t = Table::new("cflru:window=adaptive:period=2:step=0.25", 4, 1, 1);
    t.row(&writes(&[1, 2, 3, 4]), "4d 3d | 2d 1d", &[]);
    t.row(&writes(&[5, 6]), "6d | 5d 4d 3d", &[flush(&[1]), flush(&[2])]);
    t.row(&[r(7), r(8)], "8c 7c | 6d 5d", &[flush(&[3]), flush(&[4])]);
    t.row(&[r(7), w(9)], "9d 7c | 8c 6d", &[flush(&[5])]);
    t.row(&[w(10)], "10d 9d 7c | 6d", &[Left::unit(EvictionKind::Drop, &[8])]);
}

/// Specs §4.4.
#[test]
fn lru_wsr() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    let mut t = Table::new("lru-wsr", 3, 1, 1);
    t.row(&[w(1), r(2), w(3)], "3d 2c 1d", &[]);
    t.row(&[r(4)], "4c 1d* 3d", &[Left::unit(EvictionKind::Drop, &[2])]);
    t.row(&[w(3)], "3d 4c 1d*", &[]);
    t.row(&[r(5)], "5c 3d 4c", &[flush(&[1])]);
    t.row(&[w(6)], "6d 5c 3d", &[Left::unit(EvictionKind::Drop, &[4])]);
    // Seven accesses of lookup and move, three victims, one second chance.
    assert_eq!(t.policy.memory_accesses(), 7 * 2 + 3 + 2);
    // All have their second chances, and the first of them leaves.
    let mut t = Table::new("lru-wsr", 2, 1, 1);
    t.row(&writes(&[1, 2, 3]), "3d 2d*", &[flush(&[1])]);
}

/// Specs §4.5.
#[test]
fn ccf_lru() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    let mut t = Table::new("ccf-lru", 4, 1, 1);
    t.row(&[w(1), r(2), r(3)], "1d | 3c* 2c*", &[]);
    t.row(&[r(2)], "2c 1d | 3c*", &[]);
    t.row(&[w(4)], "4d 2c 1d | 3c*", &[]);
    t.row(&[w(5)], "5d 4d 2c 1d | -", &[Left::unit(EvictionKind::Drop, &[3])]);
    t.row(&[w(6)], "6d 1d* 5d 4d | -", &[Left::unit(EvictionKind::Drop, &[2])]);
    t.row(&[w(7)], "7d 5d* 4d* 6d | -", &[flush(&[1])]);
    // Eight accesses of lookup and move, three victims; 1, 2, 4 and 5 were inspected and moved.
    assert_eq!(t.policy.memory_accesses(), 8 * 2 + 3 + 4 * 2);
}

/// The other codes' readings of specs §4.5.
#[test]
fn ccf_lru_other_readings() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    let mut t = Table::new("ccf-lru:hot_clean=spare", 4, 1, 1);
    t.row(&[w(1), r(2), r(3), r(2), w(4), w(5)], "5d 4d 2c 1d | -", &[Left::unit(EvictionKind::Drop, &[3])]);
    t.row(&[w(6)], "6d 5d* 4d* | 2c*", &[flush(&[1])]);
    t.row(&[w(7)], "7d 6d 5d* 4d* | -", &[Left::unit(EvictionKind::Drop, &[2])]);
    // Nothing but hot clean pages.
    let mut t = Table::new("ccf-lru:hot_clean=spare", 2, 1, 1);
    t.row(&[r(1), r(2), r(1), r(2)], "2c 1c | -", &[]);
    t.row(&[w(3)], "3d | 2c*", &[Left::unit(EvictionKind::Drop, &[1])]);
    let mut t = Table::new("ccf-lru:new_dirty_cold=true", 2, 1, 1);
    t.row(&writes(&[1, 2, 3]), "3d* 2d* | -", &[flush(&[1])]);
    t.row(&writes(&[2, 4]), "4d* 2d | -", &[flush(&[3])]);
}

/// The accesses of specs §4.5 where reads enter the mixed list (§10.7 D12): 2 and 3 leave when the
/// scan meets them.
#[test]
fn ccf_lru_with_reads_in_the_mixed_list() {
    let (r, w) = (PageAccess::read, PageAccess::write);
    let mut t = Table::new("ccf-lru:new_clean_to=mixed", 4, 1, 1);
    t.row(&[w(1), r(2), r(3)], "3c 2c 1d | -", &[]);
    t.row(&[r(2), w(4)], "4d 2c 3c 1d | -", &[]);
    t.row(&[w(5)], "5d 1d* 4d 2c | -", &[Left::unit(EvictionKind::Drop, &[3])]);
    t.row(&[w(6)], "6d 5d 1d* 4d | -", &[Left::unit(EvictionKind::Drop, &[2])]);
    t.row(&[w(7)], "7d 4d* 6d 5d | -", &[flush(&[1])]);
}

/// Specs §4.6.
#[test]
fn recently_evicted() {
    let mut t = Table::new("ref", 6, 4, 1);
    t.row(&writes(&[0, 4, 1, 5, 8, 2]), "2 8 5 1 4 0 VB={}", &[]);
    t.row(&writes(&[12]), "12 2 8 5 1 4 VB={0}", &[flush(&[0])]);
    t.row(&writes(&[13]), "13 12 2 8 5 4 VB={0}", &[flush(&[1])]);
    t.row(&writes(&[14]), "14 13 12 2 8 5 VB={1}", &[flush(&[4])]);
    t.row(&writes(&[16]), "16 14 13 12 2 8 VB={1}", &[flush(&[5])]);
    // Ten writes of lookup and move; four victims, the first without a victim block.
    assert_eq!(t.policy.memory_accesses(), 10 * 2 + 4 + 3);
}

/// Two victim blocks, of which the first to come goes, used or not; and the block with the most
/// pages in the window.
#[test]
fn recently_evicted_victim_blocks() {
    let mut t = Table::new("ref:vw=1:nvb=2", 4, 4, 1);
    t.row(&writes(&[0, 4, 8, 1]), "1 8 4 0 VB={}", &[]);
    t.row(&writes(&[12, 13]), "13 12 8 4 VB={0}", &[flush(&[0]), flush(&[1])]);
    t.row(&writes(&[16]), "16 13 12 8 VB={0,1}", &[flush(&[4])]);
    t.row(&writes(&[5]), "5 16 13 12 VB={1,2}", &[flush(&[8])]);
    t.row(&writes(&[9]), "9 16 13 12 VB={1,2}", &[flush(&[5])]);
    let mut t = Table::new("ref:vw=1:new_vb=most_pages_in_vw", 6, 4, 1);
    t.row(&writes(&[0, 4, 5, 8, 1, 2]), "2 1 8 5 4 0 VB={}", &[]);
    t.row(&writes(&[12]), "12 2 1 8 5 4 VB={0}", &[flush(&[0])]);
    t.row(&writes(&[13, 14]), "14 13 12 8 5 4 VB={0}", &[flush(&[1]), flush(&[2])]);
    t.row(&writes(&[16]), "16 14 13 8 5 4 VB={3}", &[flush(&[12])]);
}

/// Specs §5.1.
#[test]
fn fab() {
    let mut t = Table::new("fab", 6, 4, 1);
    t.row(&writes(&[4, 5, 8, 9, 12]), "B3{12} B2{8,9} B1{4,5}", &[]);
    t.row(&writes(&[4]), "B1{4,5} B3{12} B2{8,9}", &[]);
    t.row(&writes(&[16]), "B4{16} B1{4,5} B3{12} B2{8,9}", &[]);
    t.row(&writes(&[20]), "B5{20} B4{16} B1{4,5} B3{12}", &[flush(&[8, 9])]);
    // Eight accesses of lookup and move; four blocks were inspected for the victim.
    assert_eq!(t.policy.memory_accesses(), 8 * 2 + 4);
}

/// FAB's victim with clean and dirty pages: the dirty are flushed in ascending order, clean ones
/// dropped (specs §5.1).
#[test]
fn fab_drops_the_clean_pages_of_its_victim() {
    let mut t = Table::new("fab", 4, 4, 1);
    let accesses = [PageAccess::write(7), PageAccess::read(6), PageAccess::write(4), PageAccess::read(12)];
    t.row(&accesses, "B3{12} B1{4,6,7}", &[]);
    t.row(
        &writes(&[16]),
        "B4{16} B3{12}",
        &[Left::part(EvictionKind::Flush, &[4, 7]), Left::unit(EvictionKind::Drop, &[6])],
    );
}

/// Specs §5.2.
#[test]
fn bplru() {
    let mut t = Table::new("bplru", 8, 4, 1);
    t.row(&writes(&[5, 6, 12, 15, 8, 9, 10]), "B2{8,9,10} B3{12,15} B1{5,6}", &[]);
    t.row(&writes(&[11]), "B3{12,15} B1{5,6} B2{8,9,10,11}", &[]);
    t.row(&writes(&[15]), "B3{12,15} B1{5,6} B2{8,9,10,11}", &[]);
    t.row(&writes(&[20]), "B5{20} B3{12,15} B1{5,6}", &[flush(&[8, 9, 10, 11])]);
    t.row(&writes(&[21, 22, 23]), "B3{12,15} B1{5,6} B5{20,21,22,23}", &[]);
    t.row(&writes(&[16]), "B4{16} B3{12,15} B1{5,6}", &[flush(&[20, 21, 22, 23])]);
    // Fourteen writes of lookup and move, two victims.
    assert_eq!(t.policy.memory_accesses(), 14 * 2 + 2);
}

/// The last row of specs §5.2.
#[test]
fn bplru_without_compensation() {
    let mut t = Table::new("bplru:compensation=off", 8, 4, 1);
    t.row(&writes(&[5, 6, 12, 15, 8, 9, 10, 11, 15]), "B3{12,15} B2{8,9,10,11} B1{5,6}", &[]);
    t.row(
        &writes(&[20]),
        "B5{20} B3{12,15} B2{8,9,10,11}",
        &[Left::part(EvictionKind::Pad, &[4, 7]), Left::unit(EvictionKind::Flush, &[5, 6])],
    );
}

/// "If a compensated block is written again it returns to MRU" (specs §5.2); reads move nothing and
/// are not cached.
#[test]
fn bplru_compensated_block_written_again() {
    let mut t = Table::new("bplru", 8, 4, 1);
    t.row(&writes(&[5, 8, 9, 10, 11]), "B1{5} B2{8,9,10,11}", &[]);
    t.row(&[PageAccess::read(9), PageAccess::read(6)], "B1{5} B2{8,9,10,11}", &[]);
    t.row(&writes(&[9]), "B2{8,9,10,11} B1{5}", &[]);
    // Offset 3 of a full block again: `ordered` sees a rewrite, `last_page_full` would compensate.
    t.row(&writes(&[5, 11]), "B2{8,9,10,11} B1{5}", &[]);
    let mut t = Table::new("bplru:seq_detect=last_page_full", 8, 4, 1);
    t.row(&writes(&[5, 10, 9, 8, 11]), "B1{5} B2{8,9,10,11}", &[]);
    t.row(&writes(&[9]), "B2{8,9,10,11} B1{5}", &[]);
    t.row(&writes(&[11]), "B1{5} B2{8,9,10,11}", &[]);
}

/// A share of the block is that share exactly: of 100 pages 7 are 0.07, although 0.07 · 100 is
/// above 7 in binary.
#[test]
fn bplru_padding_share_is_exact() {
    for percent in 0..=100_u32 {
        let spec = format!("bplru:padding={}.{:02}", percent / 100, percent % 100);
        for cached in 1..=100_u32 {
            let mut policy =
                driven(&spec, BufferConfig { capacity_pages: 100, pages_per_block: 100, elements: 1 }, 100);
            let mut left = Vec::new();
            for page in 0..cached {
                policy.access(PageAccess::write(page), &mut left);
            }
            policy.notify(BufferNotice::Flush, &mut left);
            let padded = left.iter().any(|group| group.kind == EvictionKind::Pad);
            assert_eq!(padded, cached >= percent && cached < 100, "{spec}, {cached} pages");
        }
    }
}

/// Specs §5.3.
#[test]
fn clc() {
    let mut t = Table::new("clc:si_max=2", 8, 4, 1);
    t.row(&writes(&[4, 5, 8, 12]), "B3 B2 | 2:B1", &[]);
    t.row(&writes(&[13, 14, 16]), "B4 B3 | 1:B2; 2:B1", &[]);
    t.row(&writes(&[20]), "B5 B4 | 1:B2; 2:B1; 3:B3", &[]);
    t.row(&writes(&[24]), "B6 B5 | 1:B4,B2; 2:B1", &[flush(&[12, 13, 14])]);
    t.row(&writes(&[5]), "B1 B6 | 1:B5,B4,B2", &[]);
    // Ten writes of lookup and move; B1 to B5 fell off SI; one victim.
    assert_eq!(t.policy.memory_accesses(), 10 * 2 + 5 + 1);
}

/// "If all D are empty, the LRU of SI" (specs §5.3), whatever its size; of the largest cold
/// clusters the LRU.
#[test]
fn clc_victims() {
    let mut t = Table::new("clc:si_max=3", 4, 4, 1);
    t.row(&writes(&[0, 4, 5, 8]), "B2 B1 B0 | ", &[]);
    t.row(&writes(&[9]), "B2 B1 | ", &[flush(&[0])]);
    let mut t = Table::new("clc:si_max=1", 5, 4, 1);
    t.row(&writes(&[0, 1, 4, 5, 8]), "B2 | 2:B1,B0", &[]);
    t.row(&writes(&[12]), "B3 | 1:B2; 2:B1", &[flush(&[0, 1])]);
}

/// The default: a tenth of the clusters buffered, rounded up, at the time of the write.
#[test]
fn clc_share() {
    let mut t = Table::new("clc", 12, 4, 1);
    let pages: Vec<u32> = (0..10).map(|cluster| 4 * cluster).collect();
    t.row(&writes(&pages), "B9 | 1:B8,B7,B6,B5,B4,B3,B2,B1,B0", &[]);
    t.row(&writes(&[40]), "B10 B9 | 1:B8,B7,B6,B5,B4,B3,B2,B1,B0", &[]);
    t.row(&writes(&[1]), "B0 B10 | 1:B9,B8,B7,B6,B5,B4,B3,B2,B1", &[]);
    // Down to ten clusters: only one in SI again.
    t.row(&writes(&[2]), "B0 | 1:B10,B9,B8,B7,B6,B5,B4,B3,B2", &[flush(&[4])]);
    t.row(&writes(&[41]), "B10 | 1:B9,B8,B7,B6,B5,B4,B3; 3:B0", &[flush(&[8])]);
}

/// Reads move nothing and are not cached; a trimmed cluster enters the list of its new size as the
/// most recent, or keeps its place in SI.
#[test]
fn clc_reads_and_trims() {
    let accesses =
        [PageAccess::write(0), PageAccess::write(1), PageAccess::write(4), PageAccess::write(8), PageAccess::write(9)];
    let mut t = Table::new("clc:si_max=1", 8, 4, 1);
    t.row(&accesses, "B2 | 1:B1; 2:B0", &[]);
    t.row(&[PageAccess::read(0), PageAccess::read(2)], "B2 | 1:B1; 2:B0", &[]);
    let mut left = Vec::new();
    for (page, state) in [(1, "B2 | 1:B0,B1"), (8, "B2 | 1:B0,B1"), (0, "B2 | 1:B1"), (9, " | 1:B1")] {
        t.model.notify(BufferNotice::Trim { page: PageNo(page) }, &mut left);
        assert_eq!(t.model.state(), state);
    }
}

/// Specs §5.4, at t = 7 and before; then at t = 8, where the IUG is empty.
#[test]
fn pud_lru() {
    let mut t = Table::new("pud-lru:threshold=2", 5, 4, 1);
    t.row(&writes(&[4]), "t=2: B1{4} none 1 1 FUG", &[]);
    t.row(&writes(&[8]), "t=3: B1{4} none 2 2 FUG; B2{8} none 1 1 FUG", &[]);
    t.row(&writes(&[5]), "t=4: B1{4,5} 1 1 1 FUG; B2{8} none 2 2 FUG", &[]);
    t.row(&writes(&[12, 13]), "t=6: B1{4,5} 1 3 2 FUG; B2{8} none 4 4 IUG; B3{12,13} 0 1 0.5 FUG", &[]);
    t.row(&writes(&[4]), "t=7: B1{4,5} 1.5 1 1.25 FUG; B2{8} none 5 5 IUG; B3{12,13} 0 2 1 FUG", &[]);
    t.row(&writes(&[16]), "t=8: B1{4,5} 1.5 2 1.75 FUG; B3{12,13} 0 3 1.5 FUG; B4{16} none 1 1 FUG", &[flush(&[8])]);
    // Seven writes of lookup and update; three blocks were inspected for the victim.
    assert_eq!(t.policy.memory_accesses(), 7 * 2 + 3);
    t.row(&writes(&[20]), "t=9: B3{12,13} 0 4 2 FUG; B4{16} none 2 2 FUG; B5{20} none 1 1 FUG", &[flush(&[4, 5])]);
}

/// The same with T the mean PUD: 7.25 / 3 at t = 7, 4.25 / 3 at t = 8, where two blocks of the same
/// size are above it.
#[test]
fn pud_lru_mean() {
    let mut t = Table::new("pud-lru", 5, 4, 1);
    t.row(&writes(&[4, 8, 5, 12, 13, 4]), "t=7: B1{4,5} 1.5 1 1.25 FUG; B2{8} none 5 5 IUG; B3{12,13} 0 2 1 FUG", &[]);
    t.row(&writes(&[16]), "t=8: B1{4,5} 1.5 2 1.75 IUG; B3{12,13} 0 3 1.5 IUG; B4{16} none 1 1 FUG", &[flush(&[8])]);
    t.row(&writes(&[20]), "t=9: B3{12,13} 0 4 2 IUG; B4{16} none 2 2 IUG; B5{20} none 1 1 FUG", &[flush(&[4, 5])]);
    t.row(
        &[PageAccess::read(12), PageAccess::read(21)],
        "t=9: B3{12,13} 0 4 2 IUG; B4{16} none 2 2 IUG; B5{20} none 1 1 FUG",
        &[],
    );
}

/// Of the IUG the largest block although others have larger PUDs; of equal PUDs the block written
/// earlier, in either group.
#[test]
fn pud_lru_order() {
    let mut t = Table::new("pud-lru:threshold=0", 4, 4, 1);
    t.row(&writes(&[0, 4, 8, 9]), "t=5: B0{0} none 4 4 IUG; B1{4} none 3 3 IUG; B2{8,9} 0 1 0.5 IUG", &[]);
    t.row(&writes(&[12]), "t=6: B0{0} none 5 5 IUG; B1{4} none 4 4 IUG; B3{12} none 1 1 IUG", &[flush(&[8, 9])]);
    for (spec, group) in [("pud-lru", "FUG"), ("pud-lru:threshold=0", "IUG"), ("pud-lru:threshold=5", "FUG")] {
        let mut t = Table::new(spec, 2, 4, 1);
        t.row(&writes(&[0, 0, 4, 4, 0]), &format!("t=6: B0{{0}} 1 1 1 {group}; B1{{4}} 0 2 1 {group}"), &[]);
        let mut left = Vec::new();
        t.policy.access(PageAccess::write(8), &mut left);
        assert_eq!(left, [flush(&[4])], "{spec}");
    }
}

/// UD is rounded down to a 4096th: here a third, so that the PUD is below the threshold of 2/3 and
/// not at it.
#[test]
fn pud_lru_rounds_the_mean_distance() {
    let mut t = Table::new("pud-lru:threshold=0.6666", 2, 4, 1);
    t.row(&writes(&[0, 0, 0, 4, 0]), "t=6: B0{0} 0.333251953125 1 0.6666259765625 IUG; B1{4} none 2 2 IUG", &[]);
    let mut t = Table::new("pud-lru:threshold=0.66665", 2, 4, 1);
    t.row(&writes(&[0, 0, 0, 4, 0]), "t=6: B0{0} 0.333251953125 1 0.6666259765625 FUG; B1{4} none 2 2 IUG", &[]);
}

/// The state of LB-CLOCK's Fig. 2(a). The recency bits of B7, B2, B1 and B4 are cleared by a whole
/// turn of the hand for page 20, which evicts B4 (so `prev` is 4) and leaves the hand at B7;
/// writing page 29 sets the bit of B7 again.
const FIGURE_2A: [u32; 12] = [28, 10, 4, 6, 19, 16, 17, 18, 20, 22, 23, 29];

/// Specs §5.5 and Fig. 2 of the paper.
#[test]
fn lb_clock() {
    let mut t = Table::new("lb-clock", 8, 4, 1);
    t.row(&writes(&FIGURE_2A[..8]), "B7r1{28} B2r1{10} B1r1{4,6} B4r1{16,17,18,19} prev 4", &[]);
    t.row(
        &writes(&FIGURE_2A[8..]),
        "B7r1{28,29} B2r0{10} B1r0{4,6} B5r1{20,22,23} prev 4",
        &[flush(&[16, 17, 18, 19])],
    );
    let before = t.policy.memory_accesses();
    t.row(&writes(&[12]), "B2r0{10} B5r1{20,22,23} B3r1{12} B7r0{28,29} prev 2", &[flush(&[4, 6])]);
    // Lookup, one step of the hand (B7), two candidates (B2, B1), bit of B3.
    assert_eq!(t.policy.memory_accesses() - before, 1 + 1 + 2 + 1);
    t.row(&writes(&[13]), "B2r0{10} B5r1{20,22,23} B3r1{12,13} B7r0{28,29} prev 2", &[]);
    t.row(&writes(&[14]), "B2r0{10} B5r1{20,22,23} B3r1{12,13,14} prev 2", &[flush(&[28, 29])]);
    let before = t.policy.memory_accesses();
    t.row(&writes(&[15]), "B2r0{10} B5r1{20,22,23} B3r0{12,13,14,15} prev 2", &[]);
    // Lookup, bit set, bit cleared by check 2.
    assert_eq!(t.policy.memory_accesses() - before, 1 + 1 + 1);
    t.row(&writes(&[8]), "B2r1{8,10} B5r1{20,22,23} prev 4", &[flush(&[12, 13, 14, 15])]);
    t.row(&writes(&[23]), "B2r1{8,10} B5r1{20,22,23} prev 4", &[]);
}

/// "If `prev` had been 2, the last step would have reset B5: check 3" (specs §5.5).
#[test]
fn lb_clock_check_3() {
    let mut t = Table::new("lb-clock:prev_init=2", 8, 4, 1);
    t.row(&writes(&[8, 10, 20, 22]), "B2r1{8,10} B5r1{20,22} prev 2", &[]);
    t.row(&writes(&[23]), "B2r1{8,10} B5r0{20,22,23} prev 2", &[]);
    let mut t = Table::new("lb-clock:prev_init=2:opt_preempt=false", 8, 4, 1);
    t.row(&writes(&[8, 10, 20, 22, 23]), "B2r1{8,10} B5r1{20,22,23} prev 2", &[]);
    t.row(&writes(&[21, 23]), "B2r1{8,10} B5r0{20,21,22,23} prev 2", &[]);
    let mut t = Table::new("lb-clock:prev_init=2:opt_preempt=false:opt_seq=false", 8, 4, 1);
    t.row(&writes(&[8, 10, 20, 22, 23, 21, 23]), "B2r1{8,10} B5r1{20,21,22,23} prev 2", &[]);
}

/// Fig. 2 under the other readings (specs §10.5, E1 and E5).
#[test]
fn lb_clock_other_readings() {
    // All blocks with bit 0: B7, just reset, is as large as B1, and B1 comes first clockwise from
    // the hand at B2.
    let mut t = Table::new("lb-clock:candidate_rule=all_zero", 8, 4, 1);
    t.row(&writes(&FIGURE_2A), "B7r1{28,29} B2r0{10} B1r0{4,6} B5r1{20,22,23} prev 4", &[flush(&[16, 17, 18, 19])]);
    t.row(&writes(&[12]), "B2r0{10} B5r1{20,22,23} B3r1{12} B7r0{28,29} prev 2", &[flush(&[4, 6])]);
    // The new block right before the hand where it is now.
    let mut t = Table::new("lb-clock:insert_anchor=current_hand", 8, 4, 1);
    t.row(&writes(&FIGURE_2A), "B7r1{28,29} B2r0{10} B1r0{4,6} B5r1{20,22,23} prev 4", &[flush(&[16, 17, 18, 19])]);
    t.row(&writes(&[12]), "B2r0{10} B5r1{20,22,23} B7r0{28,29} B3r1{12} prev 2", &[flush(&[4, 6])]);
}

/// With `protect_current` the block of the incoming page stays as long as there is another, even if
/// the others have their recency bits set and the hand stands on it.
#[test]
fn lb_clock_protects_the_current_block() {
    let mut t = Table::new("lb-clock:prev_init=0:protect_current=true", 2, 4, 1);
    t.row(&writes(&[3, 4]), "B0r0{3} B1r1{4} prev 0", &[]);
    t.row(&writes(&[0]), "B0r1{0,3} prev 1", &[flush(&[4])]);
    t.row(&writes(&[1]), "B0r1{1} prev 2", &[flush(&[0, 3])]);
    let mut t = Table::new("lb-clock:prev_init=0", 2, 4, 1);
    t.row(&writes(&[3, 4]), "B0r0{3} B1r1{4} prev 0", &[]);
    t.row(&writes(&[0]), "B1r1{4} B0r1{0} prev 1", &[flush(&[3])]);
}

/// `evict()` comes before the insertion and may choose the block that the new page belongs to
/// (specs §0.2).
#[test]
fn the_current_block_may_be_the_victim() {
    let mut t = Table::new("fab", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "B1{4} B0{0,1}", &[]);
    t.row(&writes(&[2]), "B0{2} B1{4}", &[flush(&[0, 1])]);
    let mut t = Table::new("fab:protect_current=true", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "B1{4} B0{0,1}", &[]);
    t.row(&writes(&[2]), "B0{0,1,2}", &[flush(&[4])]);
    t.row(&writes(&[3]), "B0{3}", &[flush(&[0, 1, 2])]);
    let mut t = Table::new("bplru:padding=never:protect_current=true", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "B1{4} B0{0,1}", &[]);
    t.row(&writes(&[2]), "B0{0,1,2}", &[flush(&[4])]);
    t.row(&writes(&[3]), "B0{3}", &[flush(&[0, 1, 2])]);
    let mut t = Table::new("clc:si_max=1:protect_current=true", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "B1 | 2:B0", &[]);
    t.row(&writes(&[2]), "B0 | ", &[flush(&[4])]);
    let mut t = Table::new("clc:si_max=1", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "B1 | 2:B0", &[]);
    t.row(&writes(&[2]), "B0 | 1:B1", &[flush(&[0, 1])]);
    let mut t = Table::new("pud-lru:threshold=0:protect_current=true", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "t=4: B0{0,1} 0 2 1 IUG; B1{4} none 1 1 IUG", &[]);
    t.row(&writes(&[2]), "t=5: B0{0,1,2} 0.5 1 0.75 IUG", &[flush(&[4])]);
    let mut t = Table::new("pud-lru:threshold=0", 3, 4, 1);
    t.row(&writes(&[0, 1, 4]), "t=4: B0{0,1} 0 2 1 IUG; B1{4} none 1 1 IUG", &[]);
    t.row(&writes(&[2]), "t=5: B1{4} none 2 2 IUG; B0{2} none 1 1 IUG", &[flush(&[0, 1])]);
}

/// Growing the page space later, or asking for less, changes nothing that is held.
#[test]
fn growing_keeps_the_content() {
    for spec in policies().iter().map(|policy| policy.name).filter(|name| *name != "none") {
        let mut policy = driven(spec, BufferConfig { capacity_pages: 4, pages_per_block: 4, elements: 1 }, 3);
        let mut left = Vec::new();
        policy.access(PageAccess::write(2), &mut left);
        policy.grow(101);
        policy.access(PageAccess::write(100), &mut left);
        policy.grow(1);
        policy.grow(0);
        policy.access(PageAccess::write(100), &mut left);
        assert_eq!((policy.len(), &left[..]), (2, &[][..]), "{spec}");
        policy.notify(BufferNotice::Trim { page: PageNo(100) }, &mut left);
        assert_eq!(left, [Left::unit(EvictionKind::Drop, &[100])], "{spec}");
        assert_eq!(policy.len(), 1, "{spec}");
    }
}
