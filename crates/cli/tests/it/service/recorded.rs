//! Compares a served array with the simulation of its recorded trace.
//!
//! The code of the policy and of the array is the same, so hits, bytes and flushes are the same as well. Times are not;
//! so only caches that do nothing in the background agree to the last page.

use std::time::Instant;

use serde_json::Value;

use super::{Array, Draws, IoMode, binary, page, pages};

io_mode_tests! {
    a_record_is_simulated_as_it_was_served,
}

/// Gives the seconds after which an array without requests flushes what was written.
const IDLE_FLUSH: u64 = 5;

/// Figures of a cache that must be the same.
const CACHE: [&str; 4] = ["read_hits", "read_misses", "write_hits", "write_misses"];

fn a_record_is_simulated_as_it_was_served(io_mode: IoMode) {
    for (policy, cache) in [("none", None), ("write-around", Some("1MiB")), ("write-through", Some("1MiB"))] {
        let settings: Vec<&str> =
            [Some("--policy"), Some(policy), cache.map(|_| "--cache"), cache].into_iter().flatten().collect();
        let mut array = Array::new(io_mode, &settings);
        let trace = array.folder.path().join("live.destage").display().to_string();
        array.serve(&["--record", &trace]);
        let begin = Instant::now();
        let mut client = array.client();
        let mut draws = Draws(11);
        for number in 0..1500 {
            let at = draws.below(40) * draws.below(37);
            match draws.below(30) {
                0..9 => client.read(at * 4096, &mut [0; 4096]).expect("a read"),
                9 => client.flush().expect("a flush"),
                10 => {
                    let bytes = pages(number..number + 5);
                    client.write(at * 4096, &bytes, false).expect("a write of five pages");
                }
                _ => client.write(at * 4096, &page(number), draws.below(4) == 0).expect("a write"),
            }
        }
        client.goodbye().expect("a goodbye");
        let status = array.status();
        // Flushes of its own, which a service makes where requests take that long.
        let idle = begin.elapsed().as_secs() / IDLE_FLUSH;
        array.stop();
        let mut sim = vec!["sim", "--trace", &trace, "--array", "raid5:4", "--member-size", "2MiB"];
        sim.extend(["--device", "fixed", "--host", "closed:1", "--raid.stripe-cache", "16MiB", "--json"]);
        sim.extend(&settings);
        if cache.is_some() {
            sim.extend(["--cache-device", "fixed"]);
        }
        let simulated: Value = serde_json::from_str(&binary::quietly(&sim)).expect("JSON");
        let run = &simulated[0];
        if cache.is_some() {
            for figure in CACHE {
                assert_eq!(status["array"]["cache"][figure], run["cache"][figure], "{figure} of {policy}");
            }
        }
        let served = status["array"]["devices"].as_array().expect("devices");
        let devices = run["devices"].as_array().expect("devices");
        assert_eq!(served.len(), devices.len());
        for (served, simulated) in served.iter().zip(devices) {
            let count = |value: &Value, name: &str| value[name].as_u64().expect("a count");
            let ours = [count(served, "read_bytes"), count(served, "written_bytes")];
            let theirs = ["pages_read", "pages_written"].map(|name| count(simulated, name) * 4096);
            assert_eq!(ours, theirs, "bytes read and written of {} under {policy}", served["name"]);
            let flushes = [served, simulated].map(|device| count(device, "flushes"));
            let told = format!("{flushes:?} flushes of {} under {policy}, {idle} of them idle", served["name"]);
            assert!(flushes[0].abs_diff(flushes[1]) <= idle, "{told}");
        }
    }
}
