//! `destage`: decides when, where and how written data leaves a fast cache.

#![warn(clippy::disallowed_methods)]

mod advice_output;
mod array_output;
mod best_output;
mod buffer_output;
mod candidates;
mod commands;
mod compare_output;
mod drive_fit;
mod event_log;
mod event_program;
mod examples;
mod findings_output;
mod flags;
mod latency_log;
mod markdown;
mod output;
mod pace;
mod progress;
mod resume;
mod run_table;
mod screen;
mod share_bar;
mod signals;
mod spark;
mod sweep_output;
mod table;
mod teller;
mod volume_table;
mod workers;

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::screen::ErrorCauses;

fn main() -> ExitCode {
    // Before the arguments are parsed, since the parser's own messages have colours.
    screen::settle_colours(std::env::args_os().skip(1));
    let command = commands::command();
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let joined = match output::joined(&command, arguments) {
        Ok(joined) => joined,
        Err(error) => {
            screen::fail(ErrorCauses(&error));
            return ExitCode::FAILURE;
        }
    };
    let matches = match command.try_get_matches_from(name.into_iter().chain(joined)) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => {
            let wrong = std::env::args_os().skip(1).find(|argument| argument.to_str().is_none()).unwrap_or_default();
            let wrong = wrong.as_encoded_bytes().escape_ascii();
            screen::fail(format_args!(
                "the argument \"{wrong}\" is not UTF-8, and stands where no file is named: in text (--set, scenario files) write a \
                 file's name with \\xHH for each byte that is not UTF-8"
            ));
            // The status of a wrong command line, as the parser's own errors have it.
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    if let Err(error) = signals::watch() {
        screen::fail(format_args!("cannot wait for signals: {error}"));
        return ExitCode::FAILURE;
    }
    match commands::run(&matches) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            screen::fail(ErrorCauses(&error));
            ExitCode::FAILURE
        }
    }
}

/// Returns true if the reader of the output has gone, as `head` does: that is no error of this program.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let own = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        // An error of JSON hides the error of the stream below it.
        own.or_else(|| cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind))
    };
    error.chain().any(|cause| kind(cause) == Some(std::io::ErrorKind::BrokenPipe))
}
