//! `destage`: decides when, where and how written data leaves a fast cache.

#![warn(clippy::disallowed_methods)]

mod array_output;
mod buffer_output;
mod candidates;
mod characteristics;
mod commands;
mod flags;
mod markdown;
mod output;
mod progress;
mod results;
mod run_table;
mod screen;
mod signals;
mod spark;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    screen::settle_colours(std::env::args_os().skip(1));
    let matches = commands::command().get_matches();
    if let Err(error) = signals::watch() {
        screen::fail(format_args!("cannot wait for signals: {error}"));
        return ExitCode::FAILURE;
    }
    match commands::run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            screen::fail(format_args!("{error:#}"));
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
