//! Every policy over every real trace that lies in the folder `shared/traces` beside the checkout,
//! if it does.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Traces whose format the content does not decide.
const AMBIGUOUS: &[(&str, &str)] =
    &[("msr.cut.", "msr-cut"), ("alibaba.first1h.cut.", "msr-cut"), ("ssd-postmark-aligned2.", "disksim")];

fn folder() -> Option<PathBuf> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let shared = std::env::var_os("DESTAGE_SHARED").map_or(beside, PathBuf::from);
    let traces = shared.join("traces");
    traces.is_dir().then_some(traces)
}

#[test]
fn all_policies_run_over_all_real_traces() {
    let Some(folder) = folder() else {
        // Past the test harness, which keeps what a passing test prints.
        let _ = writeln!(std::io::stderr(), "SKIPPED: all_policies_run_over_all_real_traces: no folder shared/traces");
        return;
    };
    let mut traces: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.retain(|path| path.extension().is_some_and(|e| e == "zst"));
    traces.sort();
    assert!(!traces.is_empty());
    for trace in &traces {
        let name = trace.file_name().unwrap().to_str().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_destage"));
        command.args(["sim", "--cache", "1MiB,16MiB,256MiB", "--json", "--trace"]).arg(trace);
        let ambiguous = AMBIGUOUS.iter().find(|(start, _)| name.starts_with(start));
        if let Some((_, format)) = ambiguous {
            let refused = Command::new(env!("CARGO_BIN_EXE_destage")).args(["trace", "stat"]).arg(trace).output();
            let refused = refused.unwrap();
            let message = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success() && message.contains(&format!("--format {format}")), "{name}: {message}");
            command.args(["--format", format]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let runs: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(runs.len(), 15, "{name}");
        for run in &runs {
            let count = |field: &str| run[field].as_u64().unwrap();
            assert!(count("requests") > 0, "{name}");
            assert_eq!(count("hits") + count("misses"), count("accesses"), "{name}");
            let written = count("dirty_pages_flushed") + count("drain_pages_flushed") + count("bypassed_writes");
            assert!(written <= count("write_pages"), "{name}");
            assert_eq!(written > 0, count("write_pages") > 0, "{name}");
        }
    }
}
