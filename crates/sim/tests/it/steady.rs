//! A device that begins steady stays as it was said to be, whatever layer maps its pages.

use destage_plan::{Nanos, PageGeometry, PageNo};
use destage_sim::ssd::{Ftl, Ssd, SsdConfig, SsdShape, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn shape(ftl: Ftl) -> SsdShape {
    let log = ftl != Ftl::Page;
    let config = SsdConfig {
        ftl,
        planes: 1,
        lanes: 1,
        blocks_per_plane: 128,
        stride: if log { 16 } else { 1 },
        summary_page: !log,
        ..SsdConfig::default()
    };
    SsdShape::new(config, PageGeometry::new(4096, 16).unwrap()).unwrap()
}

/// Pages programmed for hosts and moved by collection, by those programmed for hosts.
fn amplification(ssd: &Ssd) -> f64 {
    let total = ssd.total();
    (total.host_programs + total.gc_pages_moved) as f64 / total.host_programs as f64
}

#[test]
fn a_steady_device_stays_so() {
    for ftl in Ftl::ALL {
        let mut ssd = Ssd::new(shape(ftl), StartState::Steady { seed: 7 });
        let steady = ssd.steadiness().expect("it was to be steady");
        let [before, said] = steady.write_amplification_milli.map(|milli| milli as f64 / 1000.0);
        assert!(steady.reached && (said / before - 1.0).abs() <= 0.01, "{ftl:?}: {steady:?}");
        assert!(steady.overwrites_pct >= 200, "{ftl:?}: two windows at least: {steady:?}");
        assert_eq!((ssd.total().host_programs, ssd.total().erases), (0, 0), "counters begin with the run");
        ssd.check().unwrap();

        let pages = u64::from(ssd.shape().host_pages);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
        for _ in 0..100_000 {
            ssd.program(Nanos::ZERO, PageNo((random.next_u64() % pages) as u32));
        }
        let found = amplification(&ssd);
        assert!((found / said - 1.0).abs() < 0.02, "{ftl:?}: {said} was said, {found} is found");
    }
}

#[test]
fn where_nothing_was_to_be_steady_nothing_is_said_of_it() {
    for start in [StartState::Empty, StartState::Full, StartState::Random { seed: 1 }] {
        assert_eq!(Ssd::new(shape(Ftl::Page), start).steadiness(), None, "{start}");
    }
}

#[test]
fn the_seed_decides() {
    let began = |seed| {
        let mut ssd = Ssd::new(shape(Ftl::Page), StartState::Steady { seed });
        let steady = ssd.steadiness();
        (0..5000).for_each(|page| _ = ssd.program(Nanos::ZERO, PageNo(page % 97)));
        (steady, ssd.total())
    };
    assert_eq!(began(1), began(1));
    assert_ne!(began(1).1, began(2).1);
}
