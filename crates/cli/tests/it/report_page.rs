//! Checks the first screen of a report, from results that are changed so that one thing is so.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use destage_report::{RankingObjective, RunsReport};
use scraper::{ElementRef, Html};
use serde_json::{Value, json};

use crate::binary::quietly;
use crate::html::{self, all};

/// Results of a small trace of mixed requests.
fn simulated(arguments: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.spc");
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..3000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let op = if x >> 60 < 4 { 'R' } else { 'W' };
        let lba = (x >> 33) % 50_000 / 8 * 8;
        writeln!(text, "0,{lba},{},{op},{}.{:06}", 512 * (1 + (x >> 20) % 40), i / 200, i % 200 * 5_000).unwrap();
    }
    fs::write(&path, text).unwrap();
    let base = ["sim", path.to_str().unwrap(), "--json"];
    serde_json::from_str(&quietly(&[base.as_slice(), arguments].concat())).unwrap()
}

/// Returns the results of two policies at two sizes.
fn results(extra: &[&str]) -> Vec<Value> {
    simulated(&[&["--policy=lru,fab", "--cache=1MiB,2MiB"], extra].concat())
}

const SSD: [&str; 10] = [
    "--device=ssd",
    "--ssd.elements=2",
    "--ssd.planes=2",
    "--ssd.model=classic",
    "--ssd.blocks-per-plane=64",
    "--ssd.transfer=1",
    "--start=full",
    "--pages-per-block=32",
    "--lba-overflow=wrap",
    "--host=closed:1",
];

fn report(runs: &[Value]) -> RunsReport {
    RunsReport::new(destage_report::read("results.json", json!(runs).to_string().as_bytes()).unwrap())
}

fn page(runs: &[Value]) -> Html {
    let page = report(runs).page();
    html::inert(&page);
    Html::parse_document(&page)
}

fn words(element: ElementRef<'_>) -> String {
    element.text().collect()
}

fn told(html: &Html, css: &str) -> Vec<String> {
    all(html, css).into_iter().map(words).collect()
}

/// Gives the runs, which are lru and fab at 1 MiB and at 2 MiB, these mean response times in ms.
fn with_means(runs: &mut [Value], ms: [f64; 4]) {
    let names = [("lru", 1_u64 << 20), ("lru", 2 << 20), ("fab", 1 << 20), ("fab", 2 << 20)];
    for run in runs {
        let at = names.iter().position(|(policy, bytes)| run["policy"] == *policy && run["cache_bytes"] == *bytes);
        run["response"]["all"]["mean"] = json!(1e6 * ms[at.unwrap()]);
    }
}

fn saturate(run: &mut Value) {
    run["saturated"] = json!({"cause": "backlog", "max_backlog": 10_000, "at": 5});
    run["response"] = Value::Null;
    run["findings"] = json!([{"kind": "saturated", "severity": "void", "message": "It did not keep up.", "mend": "--host closed:32"}]);
}

#[test]
fn the_cards_name_the_best_how_far_ahead_it_is_and_the_smallest_that_will_do() {
    let mut runs = results(&SSD);
    with_means(&mut runs, [6.0, 5.0, 4.3, 4.0]);
    let html = page(&runs);
    assert_eq!(told(&html, ".card .big")[..2], ["fab at 2 MiB", "1 MiB"]);
    let sentences = told(&html, ".card p:last-child");
    assert_eq!(sentences[0], "Mean response time 4.000 ms, 20 % less than the next of that size, lru (5.000 ms).");
    assert_eq!(sentences[1], "fab has a mean response time of 4.300 ms there, within 10 % of the best.");
    assert!(sentences[2].contains("p99.9 of fab at 2 MiB is"), "{}", sentences[2]);
    with_means(&mut runs, [60.0, 50.0, 8.0, 4.0]);
    let sentences = told(&page(&runs), ".card p:last-child");
    assert!(sentences[0].contains("12 times less than the next"), "{}", sentences[0]);
    assert_eq!(
        sentences[1],
        "Nothing smaller comes within 10 %: at 1 MiB the best has 8.000 ms, 2.0 times as much. A larger one may be \
         better still: none was simulated."
    );
}

#[test]
fn nothing_behind_a_certain_loser_is_part_of_a_tie() {
    let mut runs = simulated(&[&["--policy=lru,fab,clock", "--cache=1MiB"][..], &SSD].concat());
    let bins = runs[0]["series"]["bins"].clone();
    let count = bins.as_array().unwrap().len();
    assert!(count >= 40, "enough to tell what chance does");
    // FAB is always slower than LRU; CLOCK, the slowest of all, is so in some stretches and much faster in others.
    for (run, (ms, share)) in runs.iter_mut().zip([(4.0, [1.0, 1.0]), (4.4, [1.1, 1.1]), (4.6, [0.3, 2.0])]) {
        run["response"]["all"]["mean"] = json!(1e6 * ms);
        run["series"]["bins"] = bins.clone();
        for (index, bin) in run["series"]["bins"].as_array_mut().unwrap().iter_mut().enumerate() {
            for (key, value) in [("requests", 100.0), ("responses", 100.0), ("read_response_sum", 0.0)] {
                bin[key] = json!(value as u64);
            }
            bin["write_response_sum"] = json!((4e8 * share[20 * index / count % 2]) as u64);
        }
    }
    assert_eq!(told(&page(&runs), ".card .big")[0], "lru at 1 MiB");
    let without = [runs[0].clone(), runs[2].clone()];
    assert_eq!(told(&page(&without), ".card .big")[0], "lru and clock at 1 MiB", "which by themselves are a tie");
}

#[test]
fn what_is_within_noise_is_a_tie() {
    let mut runs = results(&SSD);
    for (means, range) in [([70.0, 65.74, 70.0, 65.80], "65.74 ms to 65.80 ms"), ([7.0, 5.0, 7.0, 5.0], "5.000 ms")] {
        with_means(&mut runs, means);
        let html = page(&runs);
        assert_eq!(told(&html, ".card h3")[0], "Best buffer: a tie");
        assert_eq!(told(&html, ".card .big")[0], "lru and fab at 2 MiB");
        let sentence = &told(&html, ".card p:last-child")[0];
        assert_eq!(
            *sentence,
            format!("Mean response time {range}: no further apart than chance, or 1 %, may put them.")
        );
        let answer = &told(&html, ".answers dd")[0];
        assert!(answer.contains("lru at 2 MiB and fab at 2 MiB are a tie") && answer.contains(range), "{answer}");
        let stars =
            all(&html, "td.best").into_iter().map(words).filter(|cell| range.split(" to ").any(|m| cell.contains(m)));
        assert_eq!(stars.count(), 2, "both are marked in the table");
    }
    // What is as good in a smaller cache is better.
    with_means(&mut runs, [5.01, 5.0, 7.0, 7.0]);
    assert_eq!(told(&page(&runs), ".card .big")[..2], ["lru at 1 MiB", "1 MiB"]);
}

#[test]
fn what_is_not_known_is_not_told() {
    let mut runs = results(&SSD);
    for run in &mut runs {
        for key in ["write_amplification", "erases_per_block_mean", "lifetime_host_bytes"] {
            run["ssd"][key] = Value::Null;
        }
    }
    let html = page(&runs);
    for text in told(&html, ".card, .answers dd") {
        assert!(!text.contains('–') && !text.contains("amplification"), "{text}");
    }
}

#[test]
fn saturated_runs_are_shown_apart_and_win_nothing() {
    let mut runs = results(&SSD);
    with_means(&mut runs, [6.0, 5.0, 4.3, 4.0]);
    let best = runs.iter().position(|run| run["policy"] == "fab" && run["cache_bytes"] == 2 << 20).unwrap();
    saturate(&mut runs[best]);
    runs[best]["erases"] = json!(1);
    runs[best]["hit_ratio"] = json!(1.0);
    let html = page(&runs);
    assert_eq!(told(&html, ".card .big")[0], "fab at 1 MiB");
    assert_eq!(told(&html, "tbody.saturated tr").len(), 2, "a heading and the run");
    assert!(all(&html, "tbody.saturated .best").is_empty() && !all(&html, "td.best").is_empty());
    assert!(!told(&html, ".answers dd").iter().any(|answer| answer.contains("fab at 2 MiB erases fewest")));
    let finding = &told(&html, ".findings li.void")[0];
    assert!(finding.contains("saturated: 1 of 4 runs") && finding.contains("--host closed:32"), "{finding}");
    let view: Value = serde_json::from_str(&told(&html, "script#view")[0]).unwrap();
    assert_eq!(view[0]["figures"][0]["values"][best], Value::Null, "the picture does not have it");

    runs.iter_mut().for_each(saturate);
    let html = page(&runs);
    assert_eq!(told(&html, ".card .big"), ["no run kept up"]);
    assert_eq!(told(&html, "figure.picture strong"), ["Hit ratio"], "which is still true");
    assert_eq!(told(&page(&runs[..1]), ".card .big"), ["it did not keep up"]);
    assert!(all(&html, "figure[data-figure=mean-time], figure[data-figure=delayed-time], td.best").is_empty());
}

#[test]
fn equal_findings_are_told_once() {
    let mut runs = results(&SSD);
    let finding = |kind: &str, severity: &str, mend: Value| json!({"kind": kind, "severity": severity, "message": format!("Because of <{kind}>."), "mend": mend});
    // The third also has what the others have not.
    for (i, run) in runs.iter_mut().enumerate() {
        let mut own = vec![finding("short", "weak", json!("--repeat 10"))];
        if i == 2 {
            own.push(finding("wrapped", "note", Value::Null));
            own.push(finding("overrun", "void", Value::Null));
        }
        run["findings"] = json!(own);
    }
    let html = page(&runs);
    let classes: Vec<_> = all(&html, ".findings li").iter().map(|li| li.attr("class").unwrap()).collect();
    assert_eq!(classes, ["void", "weak", "note"], "the gravest first");
    let notes = told(&html, ".findings li");
    assert!(notes[0].contains("overrun: 1 of 4 runs") && notes[0].contains("Because of <overrun>."), "{}", notes[0]);
    assert!(notes[1].contains("short: all runs") && notes[1].contains("Try --repeat 10."), "{}", notes[1]);
    assert!(!notes[2].contains("Try"), "{}", notes[2]);
    assert!(all(&page(&results(&SSD)), ".findings .void").is_empty());
}

#[test]
fn charts_with_nothing_to_show_are_a_sentence() {
    let runs = results(&["--device=ssd", "--ssd.capacity=4GiB", "--start=empty"]);
    assert!(runs.iter().all(|run| run["gc_invocations"] == 0));
    let html = page(&runs);
    let ids = ["gc-tail", "gc-time", "delayed-time", "wa-time", "erases", "wear"];
    assert!(ids.iter().all(|id| all(&html, &format!("figure[data-figure={id}]")).is_empty()));
    let sentence = told(&html, ".left-out").concat();
    assert!(
        sentence.starts_with("No run had collection:") && sentence.contains("“Wear: blocks by erases”"),
        "{sentence}"
    );
    assert_eq!(told(&html, ".card .big")[2], "not to be said");
    // What collects has all of these.
    let html = page(&results(&SSD));
    assert!(ids.iter().all(|id| all(&html, &format!("figure[data-figure={id}]")).len() == 1));
    assert!(!told(&html, ".left-out").concat().contains("collection"));
}

#[test]
fn runs_are_ranked_by_what_is_asked_for() {
    let mut runs = results(&SSD);
    with_means(&mut runs, [6.0, 5.0, 4.3, 4.0]);
    for (run, tail) in runs.iter_mut().zip([4e6, 9e6, 9e6, 9e6]) {
        run["response"]["all"]["p99_9"] = json!(tail);
    }
    let first = format!("{} at 1 MiB", runs[0]["policy"].as_str().unwrap());
    assert_eq!(runs[0]["cache_bytes"], 1 << 20);
    let html = Html::parse_document(&report(&runs).ranked_by(RankingObjective::named("p99.9").unwrap()).page());
    assert_eq!(told(&html, ".card .big")[0], first);
    assert_eq!(told(&html, "figure.picture strong"), ["99.9th percentile of response times"]);
    let count = |id: &str| all(&html, &format!("figure[data-figure={id}]")).len();
    assert_eq!((count("p99-9"), count("mean")), (0, 1), "what is in the picture has no other chart");
    assert!(RankingObjective::named("speed").is_err());
}

#[test]
fn a_mean_is_called_a_mean() {
    let runs = simulated(&[
        "--array=raid1:2",
        "--device=fixed",
        "--policy=none",
        "--member-size=64MiB",
        "--lba-overflow=wrap",
    ]);
    let html = page(&runs);
    let heads = told(&html, "table.runs thead th");
    assert!(
        heads.iter().any(|head| head == "mean queue") && !heads.iter().any(|head| head.contains("longest")),
        "{heads:?}"
    );
}

#[test]
fn the_strip_says_what_was_run() {
    let html = page(&results(&SSD));
    let strip = told(&html, ".trust")[0].clone();
    for part in [
        "small.spc, 3,000 requests, over",
        "SSD lawc (classic model): LAWC Table 1",
        "full, never overwritten",
        "closed loop: 1 requests outstanding",
    ] {
        assert!(strip.contains(part), "{part}: {strip}");
    }
}

/// An axis of which all values are zero says 0 and nothing else.
#[test]
fn an_axis_without_values_reads_zero() {
    let found = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(found) else {
        eprintln!("SKIPPED: no chromium on this machine, so that no axis is drawn");
        return;
    };
    let mut runs = results(&["--device=none"]);
    for run in runs.iter_mut().filter(|run| run["cache_bytes"] == 1 << 20) {
        run["hit_ratio"] = json!(0.9);
        for bin in run["series"]["bins"].as_array_mut().unwrap() {
            bin["evictions"] = json!(0);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.html");
    fs::write(&path, report(&runs).page()).unwrap();
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let html = Html::parse_document(&String::from_utf8_lossy(&output.stdout));
    let labels = told(&html, "figure[data-figure=evictions-time] svg text");
    assert!(labels.iter().any(|label| label == "0"), "{labels:?}");
    // Names of the panels and times aside.
    let values: Vec<_> = labels.iter().filter(|label| label.parse::<f64>().is_ok_and(|value| value != 0.0)).collect();
    assert!(values.is_empty(), "{values:?}");
}
