//! Tests the values that `kdd` takes and refuses for what it admits and retains.

use destage_cache::{HostCacheSpec, serve};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

fn geometry() -> Geometry {
    Geometry::new(RaidLevel::Raid5, None, 5, 16, 1024).expect("a shape that can be")
}

fn spec(cache: &str) -> Result<HostCacheSpec, String> {
    cache.parse().map_err(|why: destage_plan::SpecError| why.to_string())
}

/// Refuses settings under which nothing is ever admitted. `tier_caches_model` of `crates/exec` tests the writes
/// that reach cached pages.
#[test]
fn a_cache_into_which_nothing_comes_is_refused() {
    for good in ["kdd:admit=2", "kdd:admit=255", "kdd:misses=delay:admit=never"] {
        assert_eq!(spec(good).map(drop), Ok(()), "{good}");
    }
    for bad in ["kdd:admit=never", "kdd:admit=0", "kdd:admit=256"] {
        let why = spec(bad).expect_err("it is refused");
        assert!(why.contains("admit") && why.contains("with misses=delay also never"), "{why}");
    }
}

/// Stages no more than 512 deltas, none of which is longer than a page.
#[test]
fn pages_for_deltas_that_are_never_filled_are_refused() {
    let (array, pages) = (ArrayConfig::new(geometry()), 4096);
    assert!(serve("kdd:staging=512", &array, pages).is_ok());
    for bad in ["kdd:staging=0", "kdd:staging=513", "kdd:staging=65536"] {
        let why = serve(bad, &array, pages).map(drop).expect_err("it is refused").to_string();
        assert!(why.contains("staging") && why.contains("1 to 512"), "{why}");
    }
}

#[test]
fn pages_that_were_written_lately_take_eight_bytes() {
    let bytes = |cache: &str| spec(cache).expect("a cache that can be").bytes_per_page();
    assert_eq!(bytes("kdd:admit=2") - bytes("kdd"), 8);
    assert_eq!(bytes("kdd:misses=delay:admit=2"), bytes("kdd:misses=delay"), "there it is with their deltas");
}

#[test]
fn a_second_delta_of_each_page_takes_ten_bytes() {
    let bytes = |cache: &str| spec(cache).expect("a cache that can be").bytes_per_page();
    for reclaim in ["keep", "rewrite"] {
        assert_eq!(bytes(&format!("kdd:reclaim={reclaim}")) - bytes("kdd:reclaim=free"), 10, "{reclaim}");
    }
    assert_eq!(bytes("kdd:reclaim=free"), bytes("kdd"));
    assert!(spec("kdd:reclaim=kept").expect_err("it is refused").contains("free, rewrite or keep"));
}
