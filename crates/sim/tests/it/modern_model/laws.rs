//! Laws of the modern drive that follow from theory, or from what suspension is.

use std::collections::BTreeMap;

use destage_plan::{Element, Nanos, PageGeometry, PageNo};
use destage_policy::buffer::DeviceView;
use destage_sim::ssd::{CollectionPoint, Ssd, SsdConfig, SsdShape, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::examples::{drive, geometry};
use super::naive::below;

fn built(config: SsdConfig, page: PageGeometry) -> Ssd {
    Ssd::new(SsdShape::new(config, page).expect("a shape"), StartState::Full)
}

/// Reads alone: a plane is a queue with one server, and each read takes 57 µs (Pollaczek and Khinchine). The planes of a die
/// read independently, so that a die of two at twice the rate waits as long.
#[test]
fn a_plane_is_an_md1_queue() {
    const SERVICE: f64 = 57_000.0;
    for (planes, load) in [(1, 0.3), (1, 0.6), (1, 0.8), (2, 0.6)] {
        let config = SsdConfig { planes, ..drive(1, 2, 1920) };
        let mut ssd = built(config, geometry());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(planes.into());
        let (mut now, mut waited) = (0.0, 0.0);
        let reads = 400_000;
        for _ in 0..reads {
            let unit = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            now += -SERVICE / load / f64::from(planes) * unit.ln();
            let page = PageNo(below(&mut random, 1920) as u32);
            waited += ssd.read(Nanos(now as u64), page).0 as f64 - now - 64_000.0;
        }
        let (mean, theory) = (waited / f64::from(reads), load * SERVICE / (2.0 * (1.0 - load)));
        assert!((mean / theory - 1.0).abs() < 0.03, "{planes} planes, load {load}: {mean} and {theory}");
    }
}

/// A suspended program loses no time but what its die spends on reads: from when one arrives that suspends it until the last
/// has left the die.
#[test]
fn suspended_programs_lose_no_time() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for _ in 0..300 {
        let mut config = drive(1, 2, 1920);
        config.modern.as_mut().expect("modern").bypass = 1000;
        let mut ssd = built(config, geometry());
        (1000..1024).for_each(|page| _ = ssd.program(Nanos(100_000), PageNo(page)));
        let (mut now, mut lost, mut reads_until) = (100_000, 0, 0);
        for _ in 0..below(&mut random, 12) {
            now += 1 + below(&mut random, 200_000);
            if ssd.busy_until(Element(0)).0 <= now {
                break;
            }
            // Sectors 0 and 4 lie on planes 0 and 1.
            let page = PageNo(4 * below(&mut random, 2) as u32);
            let end = ssd.read(Nanos(now), page).0 - 7_000;
            lost += end.saturating_sub(reads_until.max(now));
            reads_until = reads_until.max(end);
        }
        assert_eq!(ssd.busy_until(Element(0)).0, 100_000 + 987_000 + lost);
    }
}

/// Each die is as long busy as what it was told to do takes: reads, programs of units, slices and erases. Without reads it
/// does one after the other, with nothing between.
#[test]
fn dies_are_busy_as_long_as_their_operations_take() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(21);
    for reads_pct in [0, 50] {
        let config = SsdConfig { collection_write_point: CollectionPoint::Shared, ..drive(3, 2, 5184) };
        let mut ssd = built(config, geometry());
        let pages = u64::from(ssd.shape().host_pages);
        for number in 0..60_000_u64 {
            let page = PageNo(below(&mut random, pages) as u32);
            ssd.begin_command();
            if below(&mut random, 100) < reads_pct {
                ssd.read(Nanos(number * 30_000), page);
            } else {
                ssd.program(Nanos(if reads_pct > 0 { number * 30_000 } else { 0 }), page);
            }
        }
        for (die, own) in (0..).map(Element).zip(ssd.counters()) {
            // Filling left no unit open.
            let units = (own.host_programs + own.gc_pages_moved) / 24;
            let expected = own.flash_reads * 57_000 + units * 987_000 + own.gc_time.0;
            assert_eq!(own.busy_time.0, expected, "{die:?}");
            assert!(own.erases > 20 && own.gc_time.0 > own.erases * 25_000, "{die:?}: {own:?}");
            if reads_pct == 0 {
                // The cache is full, so that every die always has something to do.
                assert_eq!(ssd.busy_until(die).0, own.busy_time.0, "{die:?}");
            }
        }
    }
}

/// Sectors are conserved: all that were written and not trimmed are valid, whatever collection moves.
#[test]
fn sectors_are_conserved() {
    let mut ssd = built(drive(3, 2, 5 * 1024), geometry());
    let pages = ssd.shape().host_pages;
    let raw = ssd.page_states();
    let raw = raw.valid + raw.free + raw.invalid;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut is_written = vec![true; pages as usize];
    for number in 0..60_000_u64 {
        let page = below(&mut random, pages.into()) as u32;
        let trims = below(&mut random, 10) == 0;
        is_written[page as usize] = !trims;
        if trims {
            ssd.trim(PageNo(page));
        } else {
            ssd.program(Nanos(number * 20_000), PageNo(page));
        }
        if number.is_multiple_of(5_000) {
            ssd.check().expect("its laws");
            let states = ssd.page_states();
            assert_eq!(states.valid, is_written.iter().filter(|is| **is).count() as u64);
            assert_eq!(states.valid + states.free + states.invalid, raw);
        }
    }
    assert!(ssd.total().gc_pages_moved > 0);
}

/// Holds the notices of a drive's slices, as an executor takes them.
#[derive(Default)]
struct ToldSlices {
    begun: BTreeMap<u32, u64>,
    /// Lists dies, begins and ends.
    ended: Vec<(u32, u64, u64)>,
}

impl ToldSlices {
    /// Takes the notices that are due before `now`, or at any time if `now` is none.
    fn take(&mut self, ssd: &mut Ssd, now: Option<u64>) {
        let mut latest = 0;
        while let Some(at) = ssd.next_slice_notice().filter(|at| now.is_none_or(|now| at.0 < now)) {
            assert!(at.0 >= latest, "time goes back");
            latest = at.0;
            match ssd.take_slice_notice(at) {
                Some((die, true)) => {
                    let begun = self.begun.insert(die.0, at.0);
                    assert_eq!(begun, None, "slices of a die follow each other");
                }
                Some((die, false)) => {
                    let begin = self.begun.remove(&die.0).expect("what ends has begun");
                    self.ended.push((die.0, begin, at.0));
                }
                None => {
                    assert!(ssd.next_slice_notice().is_none_or(|next| next > at), "what is delayed comes later");
                }
            }
        }
    }
}

/// Checks that slices are told with the times that they take, in order, and that reads wait for those that are under way.
#[test]
fn slices_are_told_as_they_begin_and_end() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    // Blocks of 2 word lines; it is given for such of 400.
    let erase = drive(4, 2, 192 * 40).erase.0 * 2 / 400;
    let mut ssd =
        Ssd::new(SsdShape::new(drive(4, 2, 192 * 40), geometry()).expect("a shape"), StartState::Steady { seed: 3 });
    ssd.note_collections();
    let before = ssd.total();
    let pages = u64::from(ssd.shape().host_pages);
    let (mut told, mut now, mut waits) = (ToldSlices::default(), 0, Vec::new());
    for _ in 0..40_000 {
        now += below(&mut random, 60_000);
        told.take(&mut ssd, Some(now));
        let page = PageNo(below(&mut random, pages) as u32);
        if below(&mut random, 2) == 0 {
            ssd.program(Nanos(now), page);
            assert_eq!(ssd.waited_for_collection(page, Nanos(now), Nanos(now)), Nanos(0));
            continue;
        }
        let die = ssd.element_of(page).0;
        let end = ssd.read(Nanos(now), page);
        let waited = ssd.waited_for_collection(page, Nanos(now), end).0;
        // Once its data has left the die, which has 7 us to go then, the die collects on.
        waits.push((die, now, end.0 - 7_000, waited, end.0 - now < 50_000));
    }
    told.take(&mut ssd, None);
    assert!(told.begun.is_empty());
    let sum: u64 = told.ended.iter().map(|&(_, begin, end)| end - begin).sum();
    let total = ssd.total();
    let erased = (total.erases - before.erases) * erase;
    assert_eq!(sum, total.gc_time.0 - before.gc_time.0 - erased);
    let mut some = 0;
    for (die, at, end, waited, of_cache) in waits {
        let slices = told.ended.iter().filter(|own| own.0 == die);
        let expected: u64 = slices.map(|&(_, from, until)| until.min(end).saturating_sub(from.max(at))).sum();
        assert_eq!(waited, if of_cache { 0 } else { expected }, "die {die} from {at} to {end}");
        some += usize::from(waited > 0);
    }
    assert!(some > 1_000, "{some} reads waited");
}
