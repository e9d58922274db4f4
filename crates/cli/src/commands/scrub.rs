//! `destage scrub`: the rows of a served array are compared with each other, and made consistent if that is wanted.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_engine::{ByteSize, ControlReply, ScrubRequest, ScrubState, ScrubStatus, ServiceCommand};
use destage_plan::quantity::{self, show_bytes, show_count, show_time};

use super::served::{HEARD, array_arg, control_arg, order_with_progress, timeout_arg};
use crate::screen::TerminalScreen;
use crate::share_bar::ShareBar;
use crate::signals;

/// Sets the exit status if not all rows are known to be consistent.
const WRONG: u8 = 3;

/// Builds the command.
pub fn command() -> Command {
    Command::new("scrub")
        .about("Compare the rows of a served array with each other: parity with its data, copies with copies")
        .after_help(
            "Reads all that members have, so that bad sectors are found and made anew while the others can make them up, as md does \
             by check and repair. Requests are served meanwhile. Parity that a cache has delayed is compared with what it covers. \
             Which page of a row is the wrong one nothing tells: members carry no checksums (dm-integrity below them does). \
             --repair takes the data for right, and of copies the first. Ctrl-C ends it, and says how to go on. Exit status 0 means \
             that all rows compared are consistent, 3 that some are not, or that too much is lost to tell; the log of the service \
             names them, the first hundred ranges of each scrub.",
        )
        .arg(array_arg())
        .arg(
            Arg::new("repair")
                .long("repair")
                .action(ArgAction::SetTrue)
                .help("Write anew what differs: parity as the data makes it, copies as the first of them is"),
        )
        .arg(Arg::new("rate").long("rate").value_name("SIZE|off").default_value("200MiB").help(
            "Bytes of each member that are read in a second, at most; a tenth beside requests of clients. off: as fast as the \
             devices go, beside requests too",
        ))
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("SIZE")
                .default_value("0")
                .help("Begin at this byte of each member, as a scrub says that has ended before"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("What was found as JSON on standard output"))
        .arg(control_arg())
        .arg(timeout_arg(HEARD))
}

/// Reads an option that is a size.
fn size(name: &str, text: &str) -> Result<u64> {
    quantity::bytes(text).map_err(|right| anyhow!("--{name} {text}: {right}"))
}

/// Returns what is ordered.
fn request(matches: &ArgMatches) -> Result<ScrubRequest> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let rate_bytes = if text("rate") == "off" { None } else { Some(size("rate", text("rate"))?) };
    if rate_bytes.is_some_and(|rate| rate < ScrubRequest::LEAST_RATE) {
        bail!("--rate {}: at least {} a second, or off", text("rate"), ByteSize(ScrubRequest::LEAST_RATE));
    }
    Ok(ScrubRequest { repair: matches.get_flag("repair"), rate_bytes, from_bytes: size("from", text("from"))? })
}

/// Returns the command that goes on from where a scrub has ended.
fn how_to_go_on(array: &str, status: &ScrubStatus) -> String {
    let repair = if status.order.repair { " --repair" } else { "" };
    format!("destage scrub {array}{repair} --from {}", status.position_bytes)
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let request = request(matches)?;
    let array = matches.get_one::<PathBuf>("array").map(|path| path.display().to_string()).unwrap_or_default();
    let last = Arc::<Mutex<Option<ScrubStatus>>>::default();
    let (seen, of) = (Arc::clone(&last), array.clone());
    // A scrub takes hours, so whoever ends one by Ctrl-C hears with which call it goes on.
    signals::call(move |signal| {
        if let Some(status) = &*seen.lock().unwrap_or_else(PoisonError::into_inner) {
            eprintln!("\nended at {:.1} %; {} goes on", status.percent(), how_to_go_on(&of, status));
        }
        signals::end_now(signal);
    });
    let bar = ShareBar::new();
    let reply = order_with_progress(matches, &ServiceCommand::Scrub(request), &mut |status| {
        bar.show(status.percent() / 100.0, words(&status));
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    });
    drop(bar);
    let reply = reply.map_err(|error| match &*last.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(status) => {
            error.context(format!("ended at {:.1} %; {} goes on", status.percent(), how_to_go_on(&array, status)))
        }
        None => error,
    })?;
    let ControlReply::Scrubbed(status) = reply else {
        bail!("the service answered something else than what it has found")
    };
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &status)?;
        writeln!(out)?;
    } else {
        show(&array, &status)?;
    }
    if let ScrubState::Stopped(why) = &status.state {
        bail!("{why}; {} goes on", how_to_go_on(&array, &status));
    }
    Ok(ExitCode::from(if status.is_fine() { 0 } else { WRONG }))
}

/// Says how far it is.
fn words(status: &ScrubStatus) -> String {
    let repaired =
        if status.order.repair { format!(", {} made anew", show_count(status.repaired_rows)) } else { String::new() };
    let (bytes, all) = (show_bytes(status.position_bytes), show_bytes(status.member_bytes));
    format!("{bytes} of {all}, {} rows mismatched{repaired}", show_count(status.mismatched_rows))
}

/// Shows what was found.
fn show(array: &str, status: &ScrubStatus) -> Result<()> {
    let counted = |rows: u64| format!("{} of {} rows", show_count(rows), show_count(status.rows));
    let bytes = status.position_bytes - status.order.from_bytes.min(status.position_bytes);
    let mut rows = vec![
        ("compared", format!("{} of each member, in {}", show_bytes(bytes), show_time(status.seconds * 1e9))),
        ("mismatched", counted(status.mismatched_rows)),
    ];
    if status.order.repair {
        rows.push(("repaired", counted(status.repaired_rows)));
    } else if status.mismatched_rows > 0 {
        let from = format!("the service's log names them; destage scrub {array} --repair takes their data for right");
        rows.push(("what to do", from));
    }
    if status.unchecked_rows > 0 {
        rows.push(("not compared", format!("{}: too much of them is lost", counted(status.unchecked_rows))));
    }
    Ok(TerminalScreen::stdout().pairs(rows)?)
}
