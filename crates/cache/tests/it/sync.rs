//! Lists the caches whose members write together, and the reasons why there are no others (specs §8.5).

use destage_cache::{HostCacheSpec, host_cache, host_caches};

#[test]
fn each_cache_can_be_synchronised_or_says_why_not() {
    let mut synchronised = Vec::new();
    for cache in host_caches() {
        let name = format!("sync+{}", cache.name);
        match cache.synchronised {
            Ok(_) => {
                let of = host_cache(&name).expect("it is registered");
                assert!(of.synchronised.is_err(), "{name}: not twice");
                assert!(cache.params.iter().all(|param| of.params.iter().any(|own| own.name == param.name)), "{name}");
                assert!(of.params.iter().any(|param| param.name == "timeout"), "{name}");
                synchronised.push(cache.name);
            }
            Err(why) => {
                assert!(host_cache(&name).is_none(), "{name}");
                for name in [name.clone(), format!("ggc+{name}")] {
                    let error = name.parse::<HostCacheSpec>().expect_err("there is no such cache").to_string();
                    assert!(error.starts_with(&format!("policy '{name}': ")) && error.contains(why), "{error}");
                    assert!(error.ends_with("there are sync+wow, sync+stow, sync+iwc"), "{error}");
                }
            }
        }
    }
    assert_eq!(synchronised, ["wow", "stow", "iwc"]);
    let error = "sync+lru".parse::<HostCacheSpec>().expect_err("no cache of a host").to_string();
    assert!(error.starts_with("policy 'sync+lru' is not known"), "{error}");
}
