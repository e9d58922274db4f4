//! What no output asks for is not computed.

mod binary;

use std::io::Write;
use std::process::Command;

use tempfile::tempdir;

/// The functions that a simulation with these arguments calls, as callgrind names them; `None` where there is no valgrind.
fn called(args: &[&str]) -> Option<String> {
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
    let Some(table) = called(&[]) else {
        // Past the harness, so that it is seen of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: statistics_of_the_trace_are_gathered_for_results_that_hold_them_alone: no valgrind"
        );
        return;
    };
    assert!(table.contains("destage_sim::buffer::run::Simulation"), "the simulation is seen");
    assert!(!table.contains("TraceStat"), "a table does not show them");
    let json = called(&["--json=-"]).expect("valgrind is there");
    assert!(json.contains("TraceStat"), "JSON holds them");
}
