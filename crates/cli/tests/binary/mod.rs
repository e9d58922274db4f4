//! Calling the binary.

#![allow(dead_code, reason = "each test uses a part")]

use std::process::{Command, Output};

/// A call.
pub fn destage(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_destage")).args(args).output().expect("the binary starts")
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
