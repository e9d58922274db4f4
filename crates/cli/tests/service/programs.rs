//! Others' programs: whether they are there, and running them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Says that a test is skipped.
pub fn skip(test: &str, why: &str) {
    // Past the harness's capture, so that the count of what was skipped sees it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Whether these programs are there; if one is not, the test says that it is skipped.
pub fn have(test: &str, programs: &[&str]) -> bool {
    // Not all of them know the option; those that are there can be begun.
    let begun = |program: &&&str| Command::new(program).arg("--version").stdin(Stdio::null()).output().is_err();
    let missing = programs.iter().find(begun);
    if let Some(program) = missing {
        skip(test, &format!("no {program}"));
    }
    missing.is_none()
}

/// Runs a program to its end.
pub fn end(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().expect("it can be run")
}

/// Runs a program to its end, which has to be a good one; gives what it printed.
pub fn run(program: &str, args: &[&str]) -> String {
    let output = end(program, args);
    assert!(output.status.success(), "{program} {args:?}: {}\n{}", output.status, said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All that a program said.
pub fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.join("\n").trim().to_owned()
}
