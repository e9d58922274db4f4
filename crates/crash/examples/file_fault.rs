//! Looks for a fault that was planted in the file executor by hand, and says how soon it is found:
//! `cargo run -p destage-crash --example file_fault [ROUNDS]`. Fails if nothing is.

use std::process::ExitCode;

use destage_crash::{FilesOptions, first_files_failure};

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).map_or(Ok(60), |text| text.parse());
    let Ok(rounds) = rounds else {
        eprintln!("ROUNDS is a whole number");
        return ExitCode::FAILURE;
    };
    let Some((round, cuts, what)) = first_files_failure(FilesOptions::default(), rounds) else {
        eprintln!("nothing is found in {rounds} rounds");
        return ExitCode::FAILURE;
    };
    println!("found in round {round}, after {cuts} cuts: {what}");
    ExitCode::SUCCESS
}
