//! Describes the durability of acknowledged writes in words, beside the wear of cache devices. Wear alone
//! would compare runs with different guarantees.

use destage_scenario::quantity::{show_bytes, show_count};

use crate::ReportRun;

/// Returns the guarantee of a durability mode.
fn promise(regime: &str) -> &'static str {
    match regime {
        "flush" => ": acknowledged writes are durable after a flush or with FUA",
        "every-write" => ": every acknowledged write is durable",
        _ => "",
    }
}

/// The slots of the NVRAM that caches have, each policy once.
fn of_caches(runs: &[&ReportRun]) -> String {
    let mut all: Vec<(String, u64, u64)> = Vec::new();
    for run in runs.iter().filter(|run| run.cache().is_some()) {
        let slots = run.number("cache_nv_slots").unwrap_or(0.0) as u64;
        match all.iter_mut().find(|(policy, _, _)| *policy == run.policy()) {
            Some((_, least, most)) => (*least, *most) = ((*least).min(slots), (*most).max(slots)),
            None => all.push((run.policy(), slots, slots)),
        }
    }
    let told = all.into_iter().map(|(policy, least, most)| match (least, most) {
        (0, 0) => format!("none for {policy}"),
        _ if least == most => format!("{} for {policy}", show_count(least)),
        _ => format!("{} to {} for {policy}", show_count(least), show_count(most)),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Regime and NVRAM of runs.
pub fn durability(runs: &[&ReportRun]) -> String {
    let mut regimes: Vec<String> = Vec::new();
    for run in runs {
        let regime = run.text("array.regime");
        let regime = format!("{regime}{}", promise(regime));
        if !regimes.contains(&regime) {
            regimes.push(regime);
        }
    }
    let mut slots: Vec<String> = Vec::new();
    for run in runs {
        let count = run.number("array.nv_slots").unwrap_or(0.0) as u64;
        let of = show_bytes(run.number("page_bytes").unwrap_or(0.0) as u64);
        let on = match run.text("array.nvram_on") {
            "cache-device" => "none, a journal on the cache device has ",
            _ => "",
        };
        let told = format!("{on}{} slots of {of}", show_count(count));
        if !slots.contains(&told) {
            slots.push(told);
        }
    }
    let (regimes, slots, caches) = (regimes.join("; or "), slots.join(" or "), of_caches(runs));
    let beside = if caches.is_empty() { String::new() } else { format!("; beside them for caches: {caches}") };
    format!("regime {regimes}; NVRAM: {slots} for the array{beside}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn regime_and_nvram_are_told_once_for_all_that_are_alike() {
        let run = |policy: &str, cache: Option<u64>, slots: u64, regime: &str| ReportRun {
            result: json!({
                "policy": policy, "params": [], "cache_bytes": cache, "page_bytes": 4096, "cache_nv_slots": slots,
                "array": {"regime": regime, "nv_slots": 1024}
            }),
            is_array: true,
        };
        let runs = [
            run("none", None, 0, "flush"),
            run("write-through", Some(1 << 20), 0, "flush"),
            run("kdd", Some(1 << 20), 5, "flush"),
            run("kdd", Some(1 << 30), 1700, "every-write"),
        ];
        let all: Vec<_> = runs.iter().collect();
        assert_eq!(
            durability(&all[..3]),
            "regime flush: acknowledged writes are durable after a flush or with FUA; NVRAM: 1,024 slots of 4 KiB for the \
             array; beside them for caches: none for write-through, 5 for kdd"
        );
        let both = durability(&all);
        assert!(both.contains("; or every-write: every acknowledged write is durable;"), "{both}");
        assert!(both.ends_with("5 to 1,700 for kdd"), "{both}");
        let mut without = run("kdd", Some(1 << 20), 5, "every-write");
        without.result["array"]["nvram_on"] = json!("cache-device");
        assert!(
            durability(&[&without])
                .contains("; NVRAM: none, a journal on the cache device has 1,024 slots of 4 KiB for the")
        );
        assert!(durability(&all[..1]).ends_with("1,024 slots of 4 KiB for the array"));
    }
}
