//! Every level and layout against Linux md.
//!
//! `md` below restates what `raid5_compute_sector`, `raid6_d0` and `raid6_idx_to_slot` of
//! `drivers/md/raid5.c` compute, in sectors and with md's closed formulas, layout by layout. It
//! shares nothing with the crate, which makes tables of a few rules instead.
//!
//! 10⁵ stripes of each shape are compared, up to 16 devices, and up to 32 with `DESTAGE_SOAK`.

use destage_plan::{DevSet, Stripe};
use destage_raid::{Geometry, PagePlace, ParityLayout, RaidLevel};

const SECTORS_PER_PAGE: u64 = 8;

/// Holds md's place of a sector of an array.
struct Sector {
    disk: u64,
    /// Sector on that disk.
    on_disk: u64,
    p: Option<u64>,
    q: Option<u64>,
    /// Numbers the source of the syndrome.
    slot: Option<u64>,
}

/// md's map for a sector of an array of `disks` with chunks of `chunk_sectors`.
fn md(level: RaidLevel, layout: ParityLayout, disks: u64, chunk_sectors: u64, logical: u64) -> Sector {
    let parities = match level {
        RaidLevel::Raid0 | RaidLevel::Raid1 => 0,
        RaidLevel::Raid4 | RaidLevel::Raid5 => 1,
        RaidLevel::Raid6 => 2,
    };
    let data_disks = if level == RaidLevel::Raid1 { 1 } else { disks - parities };
    let (chunk, offset) = (logical / chunk_sectors, logical % chunk_sectors);
    let (stripe, index) = (chunk / data_disks, chunk % data_disks);
    let turn = stripe % disks;
    let last = disks - 1;

    let skip_one = |p: u64| if index >= p { index + 1 } else { index };
    // With two parities side by side: D D P Q D, or Q D D D P.
    let skip_two = |p: u64| match () {
        () if p == last => index + 1,
        () if index >= p => index + 2,
        () => index,
    };
    let (disk, p, q, ddf) = match level {
        RaidLevel::Raid0 => (index, None, None, false),
        RaidLevel::Raid1 => (0, None, None, false),
        RaidLevel::Raid4 => (index, Some(last), None, false),
        RaidLevel::Raid5 => {
            let (disk, p) = match layout {
                ParityLayout::LeftAsymmetric | ParityLayout::DdfNRestart => (skip_one(last - turn), last - turn),
                ParityLayout::RightAsymmetric | ParityLayout::DdfZeroRestart => (skip_one(turn), turn),
                ParityLayout::LeftSymmetric | ParityLayout::DdfNContinue => {
                    ((last - turn + 1 + index) % disks, last - turn)
                }
                ParityLayout::RightSymmetric => ((turn + 1 + index) % disks, turn),
                ParityLayout::ParityFirst => (index + 1, 0),
                ParityLayout::ParityLast => (index, last),
                other => panic!("{other} is not a layout of RAID-5"),
            };
            (disk, Some(p), None, false)
        }
        RaidLevel::Raid6 => {
            // The layouts "-6" turn over all disks but the last.
            let turn5 = stripe % last;
            let (disk, p, q, ddf) = match layout {
                ParityLayout::LeftAsymmetric => {
                    let p = last - turn;
                    (skip_two(p), p, if p == last { 0 } else { p + 1 }, false)
                }
                ParityLayout::RightAsymmetric => (skip_two(turn), turn, if turn == last { 0 } else { turn + 1 }, false),
                ParityLayout::LeftSymmetric => {
                    let p = last - turn;
                    ((p + 2 + index) % disks, p, (p + 1) % disks, false)
                }
                ParityLayout::RightSymmetric => ((turn + 2 + index) % disks, turn, (turn + 1) % disks, false),
                ParityLayout::ParityFirst => (index + 2, 0, 1, false),
                ParityLayout::ParityLast => (index, data_disks, data_disks + 1, false),
                ParityLayout::DdfZeroRestart => (skip_two(turn), turn, if turn == last { 0 } else { turn + 1 }, true),
                ParityLayout::DdfNRestart => {
                    let p = last - (stripe + 1) % disks;
                    (skip_two(p), p, if p == last { 0 } else { p + 1 }, true)
                }
                ParityLayout::DdfNContinue => {
                    let p = last - turn;
                    ((p + 1 + index) % disks, p, (p + last) % disks, true)
                }
                ParityLayout::LeftAsymmetric6 => (skip_one(data_disks - turn5), data_disks - turn5, last, false),
                ParityLayout::RightAsymmetric6 => (skip_one(turn5), turn5, last, false),
                ParityLayout::LeftSymmetric6 => {
                    let p = data_disks - turn5;
                    ((p + 1 + index) % last, p, last, false)
                }
                ParityLayout::RightSymmetric6 => ((turn5 + 1 + index) % last, turn5, last, false),
                ParityLayout::ParityFirst6 => (index + 1, 0, last, false),
            };
            (disk, Some(p), Some(q), ddf)
        }
    };
    // The syndrome counts disks from the one after Q, or from the first; DDF counts P and Q too.
    let slot = q.zip(p).map(|(q, p)| {
        let from = if ddf || q == last { 0 } else { q + 1 };
        let distance = |to: u64| (to + disks - from) % disks;
        let parities_before = [p, q].iter().filter(|parity| distance(**parity) < distance(disk)).count() as u64;
        distance(disk) - if ddf { 0 } else { parities_before }
    });
    Sector { disk, on_disk: stripe * chunk_sectors + offset, p, q, slot }
}

const STRIPES: u64 = 100_000;

/// Compares all stripes: the device of every column, a page of every chunk, the inverses, and that
/// every device is used exactly once.
fn compare(level: RaidLevel, layout: Option<ParityLayout>, devices: u32, chunk: u32) {
    let shape = format!("{level} {layout:?} {devices} devices, chunks of {chunk}");
    let geometry = Geometry::new(level, layout, devices, chunk, STRIPES * u64::from(chunk)).expect(&shape);
    let (k, n) = (geometry.data_columns(), geometry.members());
    let chunk_sectors = u64::from(chunk) * SECTORS_PER_PAGE;
    let disks = u64::from(n);
    assert_eq!(geometry.stripes(), STRIPES, "{shape}");
    assert_eq!(geometry.data_pages(), STRIPES * u64::from(chunk) * u64::from(k), "{shape}");
    for stripe in (0..STRIPES).map(Stripe) {
        let here = geometry.devices(stripe);
        let used: DevSet = here.iter().copied().collect();
        assert!(used.len() == u32::from(n) && here.len() == usize::from(n), "{shape}, {stripe:?}: {here:?}");
        let row_in_chunk = (stripe.0 % u64::from(chunk)) as u32;
        for column in geometry.data_set().iter() {
            let place = PagePlace { stripe, row_in_chunk, column };
            let page = geometry.page_of(place);
            // Pages of a chunk are consecutive, chunks of a stripe too.
            let number = (stripe.0 * u64::from(k) + u64::from(column.0)) * u64::from(chunk) + u64::from(row_in_chunk);
            assert!(page == number && geometry.locate(page) == place, "{shape}, {place:?}: {page}");
            let device = geometry.device(stripe, column);
            let row = geometry.row(stripe, row_in_chunk);
            assert_eq!(geometry.stripe_of(row), (stripe, row_in_chunk), "{shape}");

            let expected = md(level, layout.unwrap_or_default(), disks, chunk_sectors, page * SECTORS_PER_PAGE);
            let same = u64::from(device.0) == expected.disk
                && row.0 * SECTORS_PER_PAGE == expected.on_disk
                && expected.p.is_none_or(|p| u64::from(geometry.device(stripe, geometry.p_column()).0) == p)
                && expected.q.is_none_or(|q| u64::from(geometry.device(stripe, geometry.q_column()).0) == q)
                && expected.slot.is_none_or(|slot| u64::from(geometry.exponent(stripe, column)) == slot);
            assert!(same, "{shape}, {place:?}: device {device}, row {row}");
        }
        for column in geometry.column_set().iter() {
            assert_eq!(geometry.column(stripe, geometry.device(stripe, column)), column, "{shape}, {stripe:?}");
        }
    }
}

/// The largest number of devices that is compared.
fn most_devices() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 32 } else { 16 }
}

fn compare_all(level: RaidLevel, layout: Option<ParityLayout>) {
    for devices in level.min_devices()..=most_devices() {
        // Powers of two and others; chunks of one page too.
        let chunk = [16, 1, 3, 128][devices as usize % 4];
        compare(level, layout, devices, chunk);
    }
}

#[test]
fn raid0_is_striped_in_order() {
    compare_all(RaidLevel::Raid0, None);
}

#[test]
fn raid1_has_every_page_everywhere() {
    compare_all(RaidLevel::Raid1, None);
}

#[test]
fn raid4_is_as_md_has_it() {
    compare_all(RaidLevel::Raid4, None);
    compare_all(RaidLevel::Raid4, Some(ParityLayout::ParityLast));
}

#[test]
fn raid5_is_as_md_has_it() {
    assert_eq!(RaidLevel::Raid5.layouts().len(), 9);
    for layout in RaidLevel::Raid5.layouts() {
        compare_all(RaidLevel::Raid5, Some(*layout));
    }
    compare_all(RaidLevel::Raid5, None);
}

#[test]
fn raid6_is_as_md_has_it() {
    assert_eq!(RaidLevel::Raid6.layouts().len(), 14);
    for layout in RaidLevel::Raid6.layouts() {
        compare_all(RaidLevel::Raid6, Some(*layout));
    }
    compare_all(RaidLevel::Raid6, None);
}
