//! `destage`: decides when, where and how written data leaves a fast cache.

mod array_output;
mod commands;
mod flags;
mod output;
mod progress;

use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = commands::command().get_matches();
    match commands::run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("destage: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of our output has gone, as `head` does: not an error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let own = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        own.or_else(|| cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind))
    };
    error.chain().any(|cause| kind(cause) == Some(std::io::ErrorKind::BrokenPipe))
}
