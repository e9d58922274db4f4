//! Calling the binary.

use std::process::{Command, Output};

/// Variables that say which colours, characters and columns there are.
const SHOWN: [&str; 9] =
    ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "TERM", "LANG", "LC_CTYPE", "COLUMNS", "LINES"];

/// A call that is not made yet, in a locale with UTF-8 and on no terminal in particular.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_destage"));
    for name in SHOWN {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").args(args);
    command
}

/// A call that signals reach, even if those who started the test ignore them, as shells do for jobs
/// in the background.
pub fn signalled(args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_destage")]).args(args);
    command
}

/// A call.
pub fn destage(args: &[&str]) -> Output {
    command(args).output().expect("the binary starts")
}

/// Standard output of a call that must succeed and say nothing on the standard error.
pub fn quietly(args: &[&str]) -> String {
    let output = destage(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Standard error of a call that must fail with a message and without output.
pub fn refused(args: &[&str]) -> String {
    let output = destage(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).expect("messages are UTF-8")
}
