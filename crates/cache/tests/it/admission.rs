//! Which pages `kdd` is to let in, and what it is to keep: what it takes, and refuses.

use destage_cache::HostCacheSpec;

fn spec(cache: &str) -> Result<HostCacheSpec, String> {
    cache.parse().map_err(|why: destage_plan::SpecError| why.to_string())
}

/// Which writes come to what is cached is in `tier_caches_model` of `crates/exec`.
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
