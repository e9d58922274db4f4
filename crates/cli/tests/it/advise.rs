//! Advice through the command line, beside all pairs of policies and sizes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::binary::{destage, quietly, refused};

fn parsed(args: &[&str]) -> Value {
    // What takes long tells on the standard error how far it is.
    serde_json::from_str(&quietly(&[args, &["--progress=false"]].concat())).unwrap()
}

/// Returns the cost of a run by its mean response time; none if it did not keep up.
fn mean(run: &Value) -> Option<f64> {
    run["saturated"].is_null().then(|| run["response"]["all"]["mean"].as_f64().unwrap())
}

/// The least cost of all pairs that advice considered, simulated by `destage sim` as the rest says.
fn best_of_all(advice: &Value, simulate: &[&str], cost: impl Fn(&Value) -> Option<f64>) -> f64 {
    let list = |key: &str| advice[key].as_array().unwrap().iter();
    let policies: Vec<_> = list("policies").map(|policy| policy.as_str().unwrap()).collect();
    let sizes: Vec<_> = list("considered_bytes").map(Value::to_string).collect();
    let (policies, sizes) = (policies.join(","), sizes.join(","));
    let runs = parsed(&[&["sim"], simulate, &["--policy", &policies, "--cache", &sizes, "--json"]].concat());
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), list("policies").len() * list("considered_bytes").len());
    runs.iter().filter_map(cost).fold(f64::INFINITY, f64::min)
}

#[test]
fn advice_is_within_two_percent_of_all_pairs() {
    let requests = ["--workload", "financial2", "--limit", "60000"];
    let few = ["--policy", "lru,fifo,arc,s3-fifo,bplru,gcar+bplru,lb-clock,cflru,ccf-lru,clc,2q,clock"];
    let advice = parsed(&[&["advise"], &requests[..], &few, &["--json"]].concat());
    let value = advice["best"]["value"].as_f64().unwrap();
    let least = best_of_all(&advice, &[&requests[..], &["--device", "ssd", "--ssd.preset", "pm9a3"]].concat(), mean);
    assert!(value <= 1.02 * least, "{value} against {least}");
    let pairs = advice["policies"].as_array().unwrap().len() * advice["considered_bytes"].as_array().unwrap().len();
    assert!(advice["work"].as_f64().unwrap() < 0.3 * pairs as f64, "{} of {pairs}", advice["work"]);
    // The call that it ends with gives what is advised.
    let call = advice["call"].as_str().unwrap();
    let words: Vec<_> = call.split(' ').skip(1).collect();
    let again = parsed(&[&words[..], &["--json"]].concat());
    assert_eq!(mean(&again[0]), Some(value));
    assert_eq!(again[0]["policy"], advice["best"]["policy"]);
}

#[test]
fn hits_without_a_device_and_caches_over_an_array() {
    let requests = ["--workload", "fiu-mail", "--limit", "20000"];
    let of = ["--device", "none", "--policy", "lru,fifo,arc,2q"];
    let advice = parsed(&[&["advise"], &requests[..], &of, &["--json"]].concat());
    assert_eq!((advice["objective"].as_str(), advice["unit"].as_str()), (Some("hit ratio"), Some("1")));
    let misses = |run: &Value| run["hit_ratio"].as_f64().map(|hits| -hits);
    let least = best_of_all(&advice, &requests, misses);
    let value = advice["best"]["value"].as_f64().unwrap();
    assert!(-value <= least + 0.02 * least.abs(), "{value} against {least}");
    let array = ["--array", "raid5:5", "--budget", "256MiB"];
    let advice = parsed(&[&["advise"], &requests[..], &array, &["--json"]].concat());
    let policies = advice["policies"].as_array().unwrap();
    assert!(policies.contains(&"kdd".into()) && policies.contains(&"write-through".into()), "{policies:?}");
    assert_eq!(advice["bare"]["policy"], "none");
    assert!(advice["best"]["cache_bytes"].as_u64().unwrap() <= 256 << 20);
    let of_nvram = ["--array", "raid5:5", "--device", "ssd", "--policy", "wow", "--budget", "4MiB"];
    let advice = parsed(&[&["advise"], &requests[..], &of_nvram, &["--json"]].concat());
    assert_eq!((advice["best"]["policy"].as_str(), advice["confidence"].as_str()), (Some("wow"), Some("high")));
}

/// The same as each search alone, of which the better one is advised.
#[test]
fn caches_on_a_device_and_in_the_nvram_are_searched_apart() {
    let array = ["advise", "--workload", "fiu-mail", "--limit", "8000", "--array", "raid5:5", "--json"];
    let with = |more: &[&str]| parsed(&[&array[..], more].concat());
    let device = with(&["--budget", "64MiB", "--policy", "write-through,kdd"]);
    let nvram = with(&["--nvram-budget", "2MiB", "--policy", "wow,lawc"]);
    let both = with(&["--budget", "64MiB", "--nvram-budget", "2MiB", "--policy", "write-through,wow,kdd,lawc"]);
    assert_eq!((device["place"].as_str(), nvram["place"].as_str()), (None, Some("nvram")));
    let value = |advice: &Value| advice["best"]["value"].as_f64().unwrap();
    let (better, other) = if value(&nvram) < 0.99 * value(&device) { (nvram, device) } else { (device, nvram) };
    for key in ["best", "runner_up", "bare", "sizes", "halves", "policies", "considered_bytes"] {
        assert_eq!(both[key], better[key], "{key}");
    }
    let elsewhere = &both["elsewhere"];
    for key in ["policies", "considered_bytes"] {
        assert_eq!(elsewhere[key], other[key], "{key}");
    }
    for key in ["policy", "cache_bytes", "value"] {
        assert_eq!(elsewhere["best"][key], other["best"][key], "{key}");
    }
    let largest = |list: &Value| list.as_array().unwrap().last().unwrap().as_u64().unwrap();
    let sizes = [largest(&both["considered_bytes"]), largest(&elsewhere["considered_bytes"])];
    assert_eq!(sizes.iter().min(), Some(&(2 << 20)), "{sizes:?}");
    let runs = |advice: &Value| advice["runs"].as_u64().unwrap();
    assert_eq!(runs(&both), runs(&better) + runs(&other));
    // All caches of both places are candidates where none is named.
    let all = ["advise", "--workload", "fiu-mail", "--limit", "500", "--array", "raid5:5", "--progress=false"];
    let shown = quietly(&[&all[..], &["--budget", "1MiB", "--nvram-budget", "1MiB"]].concat());
    for words in ["with up to 1 MiB", " of NVRAM", " on a device"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn advice_is_the_same_with_any_number_of_threads_and_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    let with = |threads: &str, more: &[&str]| {
        let requests = ["advise", "--workload", "exchange", "--limit", "6000", "--policy", "lru,fifo,lb-clock"];
        quietly(&[&requests[..], &["--progress=false", "--threads", threads], more].concat())
    };
    let shown = with("2", &["--report", page.to_str().unwrap()]);
    assert_eq!(with("1", &[]), shown);
    let runs: Value = serde_json::from_str(&fs::read_to_string(page.join("results.json")).unwrap()).unwrap();
    let advice: Value = serde_json::from_str(&with("1", &["--json"])).unwrap();
    let best =
        runs.as_array().unwrap().iter().find(|run| {
            run["policy"] == advice["best"]["policy"] && run["cache_bytes"] == advice["best"]["cache_bytes"]
        });
    assert_eq!(mean(best.expect("the page shows what is advised")), advice["best"]["value"].as_f64());
    for words in [
        "device      SSD pm9a3 (modern model): Samsung PM9A3",
        "advice      ",
        "runner-up   ",
        "confidence  ",
        "without any ",
        "searched    ",
        "again       destage sim",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

/// Requests that come faster than any buffer serves them: they are made to wait, and that is said.
#[test]
fn where_nothing_keeps_up_the_host_waits() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("fast.destage");
    let trace = trace.to_str().unwrap();
    let requests = "--length 60000 --space 256MiB --sizes 4KiB:1 --read 0 --arrivals constant:1us";
    let made = destage(&[&["trace", "synth", trace], &requests.split(' ').collect::<Vec<_>>()[..]].concat());
    assert!(made.status.success());
    let few = ["--policy", "lru,fifo", "--budget", "1MiB"];
    let advice = parsed(&[&["advise", trace, "--json"], &few[..]].concat());
    assert!(advice["changed"].as_str().unwrap().contains("--host bounded:32"), "{advice}");
    assert!(advice["call"].as_str().unwrap().contains("--host=bounded:32"), "{advice}");
    let error = refused(&[&["advise", trace, "--host", "open"], &few[..]].concat());
    assert!(error.contains("no run is a result"), "{error}");
}

/// Pads every eviction to a whole block, which takes longer than the next request is away.
#[test]
fn none_is_not_called_better_than_what_does_not_keep_up() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("media.csv");
    let lines: Vec<_> = (0..600).map(|n| format!("{},W,{},2048", n * 2_000, n % 400 * 2_048)).collect();
    fs::write(&trace, lines.join("\n")).unwrap();
    let trace = trace.to_str().unwrap();
    let of = ["advise", trace, "--format", "rq-csv", "--policy", "bplru", "--budget", "16MiB", "--progress=false"];
    let of = [&of[..], &["--ssd.model", "classic"]].concat();
    let text = quietly(&of);
    for told in [
        "advice      no buffer: nothing up to 16 MiB kept up with the requests\n",
        "to compare them all the same, have the trace wait for them: --host\n            bounded:32\n",
        ": nothing else has a result\n",
    ] {
        assert!(text.contains(told), "{told}\n{text}");
    }
    let text = quietly(&[&of[..], &["--host", "bounded:32"]].concat());
    assert!(!text.contains("kept up") && text.contains("nothing up to 16 MiB is more than 1 % better"), "{text}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let advise = |more: &[&str]| refused(&[&["advise", "--workload", "exchange", "--limit", "1000"], more].concat());
    assert!(advise(&["--set", "cache=1MiB"]).contains("sizes are looked for, up to --budget"));
    assert!(advise(&["--set", "latency-log=x"]).contains("'latency-log' has no meaning here"));
    assert!(advise(&["--budget", "much"]).contains("--budget much: "));
    assert!(advise(&["--budget", "4KiB"]).contains("at least two pages"));
    assert!(advise(&["--objective", "speed"]).contains("mean, p99"));
    assert!(advise(&["--policy", "lirs"]).contains("lirs"));
    assert!(advise(&["--nvram-budget", "1MiB"]).contains("--nvram-budget: a buffer inside an SSD has no use for it"));
    let over_array = ["--array", "raid5:5", "--nvram-budget", "1MiB"];
    assert!(advise(&[&over_array[..], &["--policy", "kdd"]].concat()).contains("none of the policies keeps data in"));
    // It goes through no SSD that places pages by their address.
    assert!(
        advise(&["--ssd", "gcar", "--policy", "cawr"])
            .contains("no policy can be advised: policy 'cawr' chooses the channel")
    );
    assert!(refused(&["advise", "-"]).contains("a pipe can be read only once"));
    assert!(refused(&["advise"]).contains("which trace?"));
}

fn documented(fields: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    for field in fields.as_array().into_iter().flatten() {
        let name = format!("{prefix}{}", field["name"].as_str().unwrap());
        documented(&field["fields"], &format!("{name}."), into);
        into.insert(name);
    }
}

fn seen(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| seen(item, prefix, into)),
        Value::Object(object) => {
            for (key, value) in object {
                into.insert(format!("{prefix}{key}"));
                seen(value, &format!("{prefix}{key}."), into);
            }
        }
        _ => {}
    }
}

#[test]
fn the_schema_names_every_field_of_advice() {
    let (mut told, mut found) = (BTreeSet::new(), BTreeSet::new());
    documented(&serde_json::from_str::<Value>(&quietly(&["schema", "--advise", "--json"])).unwrap(), "", &mut told);
    // Little of it is simulated, which is found; one policy goes with no such SSD.
    let some = ["--ssd", "lawc", "--policy", "lru,fifo,cawr", "--limit", "2500", "--json"];
    seen(&parsed(&[&["advise", "--workload", "exchange"], &some[..]].concat()), "", &mut found);
    let budgets = ["--budget", "1MiB", "--nvram-budget", "1MiB", "--policy", "write-through,wow"];
    let of_array = ["advise", "--workload", "exchange", "--limit", "1000", "--array", "raid5:5", "--json"];
    seen(&parsed(&[&of_array[..], &budgets].concat()), "", &mut found);
    assert_eq!(told, found);
}
