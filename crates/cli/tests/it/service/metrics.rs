//! Checks metrics over HTTP: against `destage status`, against what fio has counted, and under Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use destage_metrics::{FAMILIES, MetricKind};
use serde_json::Value;

use super::programs::{Daemon, have, run};
use super::{Array, IoMode, PATIENCE, page};
use crate::binary;

io_mode_tests! {
    metrics_say_what_status_says,
}

/// Has metrics of an array served, at a port that the system chooses.
fn with_metrics(array: &Array, address: &str) {
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    let changed = text.replace("[serve]\n", &format!("[serve]\nmetrics = \"{address}\"\n"));
    assert_ne!(changed, text);
    fs::write(array.file("array.toml"), changed).expect("a description");
}

/// Returns the address that the service has said.
fn address(array: &Array) -> String {
    let begin = Instant::now();
    loop {
        let log = array.log();
        if let Some(rest) = log.split("http://").nth(1) {
            return rest.split('/').next().expect("an address").to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "{log}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns head and body of the answer to a request.
fn asked(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(stream, "{request} HTTP/1.1\r\nHost: destage\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Returns each sample with its labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}: no number")))
    };
    lines.map(sample).collect()
}

fn metrics_say_what_status_says(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    with_metrics(&array, "127.0.0.1:0");
    array.serve(&[]);
    let mut client = array.client();
    for at in 0..300 {
        client.write(at % 60 * 4096, &page(1 + at), at % 7 == 0).expect("a write");
    }
    let mut bytes = vec![0; 8 * 4096];
    client.read(0, &mut bytes).expect("a read");
    client.flush().expect("a flush");
    assert!(array.command("flush", &[]).status.success());
    let address = address(&array);
    // Rows may be cleaned in the background meanwhile: the two are compared when status says the same before and after.
    let begin = Instant::now();
    let (status, found) = loop {
        let before = array.status();
        let (head, body) = asked(&address, "GET /metrics");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/openmetrics-text"), "{head}");
        assert!(body.ends_with("# EOF\n"), "{body}");
        let mut after = array.status();
        after["up_seconds"] = before["up_seconds"].clone();
        if after == before {
            for family in
                FAMILIES.iter().filter(|family| !family.name.contains("scrub") && !family.name.contains("rebuilt"))
            {
                assert!(body.contains(&format!("# HELP {} {}", family.name, family.help)), "{}:\n{body}", family.name);
                let has_unit =
                    family.unit.is_none_or(|unit| body.contains(&format!("# UNIT {} {unit}\n", family.name)));
                assert!(has_unit, "{}:\n{body}", family.name);
            }
            break (before, samples(&body));
        }
        assert!(begin.elapsed() < PATIENCE, "it does not come to rest");
    };
    let is = |name: &str, value: &Value| {
        let expected = value.as_f64().unwrap_or_else(|| panic!("{name}: {value} is no number"));
        assert!(
            found.get(name).is_some_and(|found| (found - expected).abs() <= expected.abs() * 1e-9),
            "{name}: {:?}, {expected}",
            found.get(name)
        );
    };
    for (op, kind) in [("read", "reads"), ("write", "writes"), ("flush", "flushes"), ("other", "others")] {
        let of = &status["requests"][kind];
        let (count, failed) = (of["count"].as_u64().expect("a count"), of["failed"].as_u64().expect("a count"));
        is(&format!("destage_requests_total{{op=\"{op}\",result=\"ok\"}}"), &(count - failed).into());
        is(&format!("destage_requests_total{{op=\"{op}\",result=\"error\"}}"), &of["failed"]);
        is(&format!("destage_request_bytes_total{{op=\"{op}\"}}"), &of["bytes"]);
        is(&format!("destage_request_duration_seconds_count{{op=\"{op}\"}}"), &of["count"]);
        let sum = of["sum_ns"].as_f64().expect("a sum") / 1e9;
        is(&format!("destage_request_duration_seconds_sum{{op=\"{op}\"}}"), &sum.into());
        is(&format!("destage_request_duration_seconds_bucket{{le=\"+Inf\",op=\"{op}\"}}"), &of["count"]);
    }
    assert_eq!(status["requests"]["writes"]["count"], 300);
    let devices = status["array"]["devices"].as_array().expect("devices");
    for device in devices {
        let name = device["name"].as_str().expect("a name");
        for (op, count, bytes) in
            [("read", "reads", "read_bytes"), ("write", "writes", "written_bytes"), ("mark", "marks", "mark_bytes")]
        {
            is(&format!("destage_device_commands_total{{device=\"{name}\",op=\"{op}\"}}"), &device[count]);
            is(&format!("destage_device_bytes_total{{device=\"{name}\",op=\"{op}\"}}"), &device[bytes]);
        }
        is(&format!("destage_device_up{{device=\"{name}\"}}"), &1.into());
    }
    for (file, of) in [("nvram", &status["array"]["nvram"]), ("intents", &status["array"]["intents"])] {
        is(&format!("destage_journal_syncs_total{{file=\"{file}\"}}"), &of["syncs"]);
        is(&format!("destage_journal_written_bytes_total{{file=\"{file}\"}}"), &of["written_bytes"]);
    }
    let cache = &status["array"]["cache"];
    for (op, result) in [("read", "hit"), ("read", "miss"), ("write", "hit"), ("write", "miss")] {
        let field = format!("{op}_{}", if result == "hit" { "hits" } else { "misses" });
        is(&format!("destage_cache_pages_total{{op=\"{op}\",result=\"{result}\"}}"), &cache[&field]);
    }
    for figure in cache["figures"].as_array().expect("figures") {
        let (name, unit) = (figure["name"].as_str().expect("a name"), figure["unit"].as_str().expect("a unit"));
        is(&format!("destage_cache_figure{{name=\"{name}\",unit=\"{unit}\"}}"), &figure["value"]);
    }
    is("destage_state{state=\"serving\"}", &1.into());
    is("destage_state{state=\"degraded\"}", &0.into());
    is("destage_stale_rows", &status["array"]["stale_rows"]);
    is("destage_clients", &status["clients"]["now"]);
    drop(client);
    array.stop();
    assert!(TcpStream::connect(&address).is_err(), "nobody answers once the service has ended");
}

#[test]
fn other_requests_are_told_where_metrics_are() {
    let mut array = Array::new(IoMode::BufferedThreads, &[]);
    with_metrics(&array, "127.0.0.1:0");
    array.serve(&[]);
    let address = address(&array);
    for (request, status, part) in [
        ("GET /", "200", "metrics are at /metrics"),
        ("GET /nothing", "404", "metrics are at /metrics"),
        ("POST /metrics", "405", "expected GET or HEAD"),
        ("DELETE /", "405", "expected GET or HEAD"),
    ] {
        let (head, body) = asked(&address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && body.contains(part), "{request}: {head}\n{body}");
    }
    let (head, body) = asked(&address, "HEAD /metrics");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}\n{body}");
    // What is no request ends its connection alone.
    let mut stream = TcpStream::connect(&address).expect("it listens");
    stream.write_all(&vec![0xff; 64 << 10]).unwrap_or(());
    assert!(asked(&address, "GET /metrics").0.starts_with("HTTP/1.1 200 "));
    array.stop();
}

/// Connections that never ask for anything hold up neither clients nor, for long, who asks for metrics.
#[test]
fn connections_that_say_nothing_are_closed() {
    let mut array = Array::new(IoMode::BufferedThreads, &[]);
    with_metrics(&array, "127.0.0.1:0");
    array.serve(&[]);
    let address = address(&array);
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    let mut client = array.client();
    client.write(0, &page(1), true).expect("a write");
    assert!(asked(&address, "GET /metrics").0.starts_with("HTTP/1.1 200 "));
    drop(silent);
    array.stop();
}

#[test]
fn addresses_of_the_network_have_to_be_allowed() {
    let array = Array::new(IoMode::BufferedThreads, &[]);
    with_metrics(&array, "0.0.0.0:0");
    let refused = array.command("serve", &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("metrics = \"0.0.0.0:0\"") && said.contains("metrics-open = true"),
        "{said}"
    );
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    for (from, to, part) in [
        ("metrics = \"0.0.0.0:0\"", "metrics = \"localhost\"", "metrics"),
        (
            "metrics = \"0.0.0.0:0\"",
            "metrics = \"192.0.2.1:1\"\nmetrics-open = true",
            "cannot serve metrics at 192.0.2.1:1",
        ),
    ] {
        fs::write(array.file("array.toml"), text.replace(from, to)).expect("a description");
        let refused = array.command("serve", &[]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(part), "{said}");
    }
    let mut array = array;
    fs::write(
        array.file("array.toml"),
        text.replace("metrics = \"0.0.0.0:0\"", "metrics = \"0.0.0.0:0\"\nmetrics-open = true"),
    )
    .expect("a description");
    array.serve(&[]);
    let port = address(&array).rsplit_once(':').expect("a port").1.to_owned();
    assert!(asked(&format!("127.0.0.1:{port}"), "GET /metrics").0.starts_with("HTTP/1.1 200 "));
    array.stop();
}

/// fio counts its requests itself.
#[test]
fn metrics_count_what_fio_counts() {
    if !have("metrics_count_what_fio_counts", &["fio"]) {
        return;
    }
    let mut array = Array::new(IoMode::BufferedThreads, &["--policy", "write-through", "--cache", "1MiB"]);
    with_metrics(&array, "127.0.0.1:0");
    array.serve(&[]);
    let uri = format!("--uri=nbd+unix:///?socket={}", array.file("nbd.sock").display());
    let job = [
        "--name=j",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bs=4k",
        "--size=4m",
        "--iodepth=8",
        "--output-format=json",
    ];
    let said = run("fio", &job);
    let said: Value = serde_json::from_str(&said[said.find('{').expect("JSON")..]).expect("JSON");
    let found = samples(&asked(&address(&array), "GET /metrics").1);
    for op in ["read", "write"] {
        let counted = said["jobs"][0][op]["total_ios"].as_u64().expect("a count");
        assert!(counted > 100, "{counted} {op}s");
        let requests = found[&format!("destage_requests_total{{op=\"{op}\",result=\"ok\"}}")];
        let bytes = found[&format!("destage_request_bytes_total{{op=\"{op}\"}}")];
        assert_eq!((requests as u64, bytes as u64), (counted, counted * 4096), "{op}s");
    }
    array.stop();
}

/// An operator sees the same numbers: first since the beginning, then between two looks.
#[test]
fn top_shows_what_has_come_since_the_look_before() {
    let mut array = Array::new(IoMode::BufferedThreads, &["--policy", "write-through", "--cache", "1MiB"]);
    array.serve(&[]);
    let mut client = array.client();
    (0..50).for_each(|at| client.write(at * 4096, &page(1 + at), false).expect("a write"));
    let seen = array.command("top", &["--looks", "2", "--interval", "100ms"]);
    let text = String::from_utf8_lossy(&seen.stdout);
    assert_eq!(seen.status.code(), Some(0), "{text}");
    let looks: Vec<_> = text.trim_end().split("\n\n").collect();
    // A head, requests, the cache and devices for each of them.
    assert_eq!(looks.len(), 8, "{text}");
    let writes = |look: &str| {
        let line = look.lines().find(|line| line.starts_with("writes")).expect("a line").to_owned();
        line.split_whitespace().nth(1).expect("a rate").replace(',', "").parse::<f64>().expect("a number")
    };
    assert!(writes(looks[1]) > 0.0, "{text}");
    assert!(writes(looks[5]).abs() < f64::EPSILON, "nothing came between them: {text}");
    assert!(looks[0].contains(": serving, raid5:4, cache write-through"), "{text}");
    assert!(looks[3].lines().filter(|line| line.starts_with("member ")).count() == 4, "{text}");
    drop(client);
    array.stop();
    let gone = array.command("top", &[]);
    assert!(gone.status.code() == Some(1) && String::from_utf8_lossy(&gone.stderr).contains("nobody serves"));
    for wrong in [["--interval", "50ms"], ["--looks", "0"]] {
        assert_eq!(array.command("top", &wrong).status.code(), Some(2), "{wrong:?}");
    }
}

const CONTRIB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib");

/// Returns every name of a metric as it is in the text that Prometheus reads.
fn told_names() -> BTreeSet<String> {
    let names = FAMILIES.iter().flat_map(|family| match family.kind {
        MetricKind::Counter => vec![format!("{}_total", family.name)],
        MetricKind::Gauge => vec![family.name.to_owned()],
        MetricKind::Histogram => ["bucket", "count", "sum"].map(|part| format!("{}_{part}", family.name)).to_vec(),
        MetricKind::Info => vec![format!("{}_info", family.name)],
    });
    names.collect()
}

/// Alerts and the dashboard ask for metrics that there are, and every panel asks for some.
#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let names = told_names();
    for file in ["prometheus/destage.rules.yml", "prometheus/destage.test.yml", "grafana/destage.json"] {
        let text = fs::read_to_string(format!("{CONTRIB}/{file}")).expect("a file");
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: BTreeSet<_> = words.filter(|word| word.starts_with("destage_")).collect();
        assert!(asked.len() >= 5, "{file}: {asked:?}");
        let unknown: Vec<_> = asked.into_iter().filter(|name| !names.contains(*name)).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
    let dashboard = fs::read(format!("{CONTRIB}/grafana/destage.json")).expect("a file");
    let dashboard: Value = serde_json::from_slice(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty() && ids.insert(panel["id"].as_u64().expect("a number")), "{panel}");
        assert!(
            targets.iter().all(|target| target["expr"].as_str().is_some_and(|expr| expr.contains("destage_"))),
            "{panel}"
        );
        let place = &panel["gridPos"];
        assert!(
            place["x"].as_u64() < Some(24)
                && place["x"].as_u64().zip(place["w"].as_u64()).is_some_and(|(x, w)| x + w <= 24),
            "{panel}"
        );
    }
}

/// The alerts are what Prometheus takes, and come when they should.
#[test]
fn alerts_come_when_they_should() {
    if !have("alerts_come_when_they_should", &["promtool"]) {
        return;
    }
    run("promtool", &["check", "rules", &format!("{CONTRIB}/prometheus/destage.rules.yml")]);
    run("promtool", &["test", "rules", &format!("{CONTRIB}/prometheus/destage.test.yml")]);
}

/// Prometheus takes the metrics, and has each under its name.
#[test]
fn prometheus_scrapes_every_metric() {
    if !have("prometheus_scrapes_every_metric", &["prometheus"]) {
        return;
    }
    let mut array = Array::new(IoMode::BufferedThreads, &["--policy", "kdd", "--cache", "1MiB"]);
    with_metrics(&array, "127.0.0.1:0");
    array.serve(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("prometheus.yml");
    let scraped = address(&array);
    let text = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n  - job_name: destage\n    static_configs: [{{targets: ['{scraped}']}}]\n"
    );
    fs::write(&config, text).expect("a file");
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (config, data) = (
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", folder.path().join("data").display()),
    );
    let listen = format!("--web.listen-address={free}");
    let mut prometheus = Daemon::start("prometheus", &[&config, &data, &listen], &folder.path().join("log"));
    let mut client = array.client();
    let names = || {
        for at in 0..20 {
            client.write(at * 4096, &page(1 + at), false).expect("a write");
        }
        TcpStream::connect(free).is_ok()
    };
    let writes = std::cell::RefCell::new(names);
    prometheus.until(|| (writes.borrow_mut())()).unwrap_or_else(|log| panic!("it does not start: {log}"));
    let has = |name: &str| {
        let (_, body) = asked(&free.to_string(), &format!("GET /api/v1/query?query={name}"));
        body.contains("\"__name__\"")
    };
    for family in FAMILIES.iter().filter(|family| !family.name.contains("scrub") && !family.name.contains("rebuilt")) {
        let name = match family.kind {
            MetricKind::Counter => format!("{}_total", family.name),
            MetricKind::Gauge => family.name.to_owned(),
            MetricKind::Histogram => format!("{}_bucket", family.name),
            MetricKind::Info => format!("{}_info", family.name),
        };
        prometheus.until(|| has(&name)).unwrap_or_else(|log| panic!("{name} is not there: {log}"));
    }
    // What the panels of the dashboard ask for, as Grafana would put it.
    let dashboard = fs::read_to_string(format!("{CONTRIB}/grafana/destage.json")).expect("a file");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    for target in
        dashboard["panels"].as_array().into_iter().flatten().filter_map(|panel| panel["targets"].as_array()).flatten()
    {
        let asked_for = target["expr"].as_str().expect("a query");
        let query = asked_for.replace("$instance", &scraped).replace("$__rate_interval", "1m");
        let query = percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
        let (_, body) = asked(&free.to_string(), &format!("GET /api/v1/query?query={query}"));
        assert!(body.contains("\"status\":\"success\""), "{asked_for}: {body}");
    }
    prometheus.terminate();
    array.stop();
    assert!(binary::destage(&["status", &array.path()]).status.code() == Some(1), "it has ended");
}
