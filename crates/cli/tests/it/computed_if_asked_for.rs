//! Statistics of the trace, which only results in files hold, are not computed for a table.

use std::io::Write;
use std::process::Command;

use tempfile::tempdir;

use crate::binary;

/// Callgrind's profile of a simulation with these arguments, which names all functions that were
/// called; `None` where there is no valgrind.
fn profile(args: &[&str]) -> Option<String> {
    let folder = tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let simulation = binary::command(&["sim", "--policy=lru", "--cache=1MiB", "--limit=2000", "--threads=1"]);
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
    valgrind.arg(simulation.get_program()).args(simulation.get_args()).args(args);
    valgrind.arg("--trace=../../traces/own.oltp-pgbench-ext4.destage");
    match valgrind.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(std::fs::read_to_string(out).expect("callgrind writes what it found"))
        }
        Err(_) => None,
    }
}

#[test]
fn statistics_of_the_trace_are_gathered_for_results_that_hold_them_alone() {
    let Some(of_table) = profile(&[]) else {
        // Not `eprintln!`: the test harness shows that only for tests that fail.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: statistics_of_the_trace_are_gathered_for_results_that_hold_them_alone: no valgrind"
        );
        return;
    };
    assert!(of_table.contains("destage_sim::buffer::run::BufferRun"), "the simulation is seen");
    assert!(!of_table.contains("TraceStat"), "a table does not show them");
    let of_json = profile(&["--json=-"]).expect("valgrind is there");
    assert!(of_json.contains("TraceStat"), "JSON holds them");
}
