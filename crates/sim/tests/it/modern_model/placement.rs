//! Flexible data placement of a drive: what streams are for, and which handles they get.

use destage_plan::{Nanos, PageNo, PlacementStream};
use destage_sim::ssd::{
    CollectionPoint, HandleIsolation, PlacementConfig, Ssd, SsdConfig, SsdGeometryError, SsdShape, StartState,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::examples::{drive, geometry};
use super::naive::below;

/// Returns a drive of four dies with so many handles; 0: without placement.
pub(super) fn placed(pages: u64, handles: u8, isolation: HandleIsolation) -> SsdConfig {
    let mut config = drive(4, 2, pages);
    let placement = (handles > 0).then_some(PlacementConfig { handles, isolation });
    config.modern.as_mut().expect("modern").placement = placement;
    config
}

fn built(config: SsdConfig) -> Ssd {
    Ssd::new(SsdShape::new(config, geometry()).expect("a shape"), StartState::Steady { seed: 1 })
}

/// Writes hot and cold pages, half of all writes each: a twentieth of the pages is hot and written around in a circle, as a
/// journal is, and the others at random. Returns the write amplification of the second half of the writes.
fn hot_and_cold(mut ssd: Ssd) -> f64 {
    let pages = u64::from(ssd.shape().host_pages);
    let (hot, mut at) = (pages / 20, 0);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let writes = pages * 12;
    for number in 0..writes {
        let is_hot = below(&mut random, 2) == 0;
        let page = if is_hot {
            at = (at + 1) % hot;
            at
        } else {
            hot + below(&mut random, pages - hot)
        };
        ssd.label_writes(if is_hot { PlacementStream::Journal } else { PlacementStream::Clean });
        ssd.program(Nanos(number * 100_000), PageNo(page as u32));
        if number == writes / 2 {
            ssd.reset_counters();
        }
    }
    ssd.check().expect("its laws");
    let total = ssd.total();
    let streams: Vec<_> = ssd.streams().collect();
    if ssd.has_placement() {
        assert_eq!(streams.iter().map(|own| own.written).sum::<u64>(), total.host_programs);
        assert_eq!(streams.iter().map(|own| own.copied).sum::<u64>(), total.gc_pages_moved);
    }
    (total.host_programs + total.gc_pages_moved) as f64 / total.host_programs as f64
}

#[test]
fn separation_lowers_write_amplification() {
    let pages = 192 * 200;
    let off = hot_and_cold(built(placed(pages, 0, HandleIsolation::Initially)));
    for isolation in HandleIsolation::ALL {
        let streams = hot_and_cold(built(placed(pages, 8, isolation)));
        assert!(streams < 0.95 * off, "{isolation:?}: {streams} with streams, {off} without");
        let one = hot_and_cold(built(placed(pages, 1, isolation)));
        assert!((one / off - 1.0).abs() < 1e-9, "{isolation:?}: {one} with one handle, {off} without");
    }
}

/// Checks that one handle for all streams is no placement, to the nanosecond.
#[test]
fn one_handle_is_none() {
    for isolation in HandleIsolation::ALL {
        let mut drives = [0, 1].map(|handles| built(placed(192 * 40, handles, isolation)));
        let pages = u64::from(drives[0].shape().host_pages);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        let mut now = 0;
        for _ in 0..30_000 {
            now += below(&mut random, 120_000);
            let page = PageNo(below(&mut random, pages) as u32);
            let stream = PlacementStream::ALL[below(&mut random, 7) as usize];
            let is_read = below(&mut random, 3) == 0;
            let [without, with] = drives.each_mut().map(|ssd| {
                ssd.label_writes(stream);
                if is_read { ssd.read(Nanos(now), page) } else { ssd.program(Nanos(now), page) }
            });
            assert_eq!(without, with);
        }
        let [without, with] = drives.map(|ssd| ssd.total());
        assert_eq!(without, with);
    }
}

#[test]
fn streams_beyond_the_handles_share_them() {
    let mut ssd = built(placed(192 * 40, 2, HandleIsolation::Initially));
    for (stream, page) in [(PlacementStream::Parity, 0), (PlacementStream::Delta, 1), (PlacementStream::Journal, 2)] {
        ssd.label_writes(stream);
        ssd.program(Nanos(0), PageNo(page));
    }
    let handles: Vec<_> = ssd
        .streams()
        .filter(|own| own.written > 0)
        .map(|own| (own.stream, own.handle, own.written, own.copied))
        .collect();
    let of = |stream, handle| (stream, handle, 1, 0);
    // In the order of their first writes; writes without a label have the first handle.
    let expected = [of(PlacementStream::Journal, 1), of(PlacementStream::Delta, 0), of(PlacementStream::Parity, 1)];
    assert_eq!(handles, expected);
}

/// Checks that a sector that waits to be programmed is read from the write cache, however long ago its superblock was begun.
#[test]
fn a_slow_stream_is_read_from_the_write_cache() {
    let config = placed(192 * 40, 2, HandleIsolation::Persistently);
    let modern = config.modern.clone().expect("modern");
    let mut ssd = built(config);
    let write = |ssd: &mut Ssd, stream, at, page: u64| {
        ssd.label_writes(stream);
        ssd.program(Nanos(at), PageNo(page as u32))
    };
    // All but the last sector of a unit, and then superblocks of the other stream.
    let (unit, mut now) = (24, 0);
    for page in 0..unit - 1 {
        now = write(&mut ssd, PlacementStream::Journal, now, page).0;
    }
    for page in 0..192 * 8 {
        now = write(&mut ssd, PlacementStream::Clean, now, 100 + page).0;
    }
    // The dies have as much to do as the cache holds.
    now += 10_000_000_000;
    for page in 0..unit * 4 {
        write(&mut ssd, PlacementStream::Clean, now, 100 + page);
    }
    let written = write(&mut ssd, PlacementStream::Journal, now, unit - 1);
    let read = ssd.read(written, PageNo(unit as u32 - 1));
    assert_eq!(read.0 - written.0, modern.command_hit.0, "it is answered by the cache");
}

#[test]
fn isolation_needs_write_points() {
    let refused = |config| SsdShape::new(config, geometry()).expect_err("a refusal");
    let shared =
        |isolation| SsdConfig { collection_write_point: CollectionPoint::Shared, ..placed(192 * 40, 2, isolation) };
    assert_eq!(refused(shared(HandleIsolation::Initially)), SsdGeometryError::IsolationOfShared);
    SsdShape::new(shared(HandleIsolation::Persistently), geometry()).expect("a shape");
    let mut small = placed(192 * 40, 8, HandleIsolation::Initially);
    small.modern.as_mut().expect("modern").write_cache_bytes = 7 * 24 * 4096;
    assert!(refused(small).to_string().contains("it must hold 8 units"));
    let tight = SsdConfig { reserve_bp: 1500, ..placed(192 * 40, 8, HandleIsolation::Persistently) };
    let message = refused(tight).to_string();
    assert!(message.contains("collection needs 17"), "{message}");
}
