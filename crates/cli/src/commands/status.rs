//! `destage status`: how a served array is.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_engine::{
    ArrayState, ArrayStatus, CommandCounts, ControlReply, DeviceStatus, MemoryStatus, ServiceCommand, ServiceStatus,
    SuccessorStatus,
};
use destage_plan::quantity::{show_bytes, show_count, show_time};

use super::served::{array_arg, control_arg, order, timeout_arg};
use crate::screen::TerminalScreen;

/// The command.
pub fn command() -> Command {
    Command::new("status")
        .about("Say how a served array is: its devices, its cache, its clients and their requests")
        .after_help(
            "Exit status, for monitors: 0 if nothing is lost, 3 if the array is degraded or being rebuilt, 4 if it has failed or \
             nothing is served any more, 1 if nobody answers. docs/failures.md has what each state means.",
        )
        .arg(array_arg())
        .arg(control_arg())
        .arg(timeout_arg("How long the service may take to answer"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON on standard output"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let ControlReply::Status(status) = order(matches, &ServiceCommand::Status)? else {
        bail!("the service answered something else than how it is");
    };
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &status)?;
        writeln!(out)?;
    } else {
        show(&status)?;
    }
    Ok(status.array.state.exit_status().into())
}

fn show(status: &ServiceStatus) -> Result<()> {
    let array = &status.array;
    let mut rows = vec![
        ("state", state(&array.state)),
        ("array", format!("{}, {} of {}", array.uuid, show_bytes(array.bytes), array.level)),
        ("cache", array.policy.clone()),
        ("devices", io(array)),
        ("process", format!("{}, for {}", status.pid, show_time(status.up_seconds * 1e9))),
    ];
    rows.extend(status.uris.iter().map(|uri| ("at", uri.clone())));
    rows.extend(status.block_device.iter().map(|path| ("at", path.clone())));
    let clients = &status.clients;
    rows.push((
        "clients",
        format!("{} now, {} came, {} requests under way", clients.now, clients.came, clients.under_way),
    ));
    if clients.lost > 0 {
        let why = clients.last_loss.as_deref().unwrap_or_default();
        rows.push(("lost clients", format!("{}, the last since {why}", show_count(clients.lost))));
    }
    if clients.turned_away > 0 {
        rows.push(("turned away", show_count(clients.turned_away)));
    }
    rows.push(("memory", memory(&status.memory)));
    let requests = &status.requests;
    for (name, kind) in [
        ("reads", &requests.reads),
        ("writes", &requests.writes),
        ("flushes", &requests.flushes),
        ("others", &requests.others),
    ] {
        rows.push((name, requests_of(kind)));
    }
    if let Some(cache) = &array.cache {
        rows.push((
            "hits",
            format!(
                "reads {}, writes {}{}",
                share(cache.read_hits, cache.read_misses),
                share(cache.write_hits, cache.write_misses),
                if cache.in_use { "" } else { "; out of use" }
            ),
        ));
        if cache.bypassed > 0 {
            rows.push(("past the cache", format!("{} pages of sequential runs", show_count(cache.bypassed))));
        }
    }
    if let Some(amplification) = amplification(status) {
        rows.push(("bytes written", amplification));
    }
    if array.stale_rows > 0 {
        rows.push(("rows with old parity", show_count(array.stale_rows)));
    }
    if let Some(scrub) = &array.scrub {
        rows.push(("scrub", scrub.to_string()));
    }
    let lost: u64 = array.lost.iter().map(|range| range.bytes).sum();
    if lost > 0 {
        rows.push(("lost for good", format!("{} in {} ranges", show_bytes(lost), array.lost.len())));
    }
    let mut screen = TerminalScreen::stdout();
    screen.pairs(rows)?;
    for device in &array.devices {
        let told = match &device.error {
            Some(error) => format!("lost: {error}"),
            None if !device.answers => format!("lost: {}", device.path),
            None => format!(
                "{}{}{}{}: {} reads ({}), {} writes ({}), {} flushes{}{}",
                device.path,
                waiting(device.waiting_seconds),
                device.filled_percent.map(|percent| format!(", filled to {percent:.1} %")).unwrap_or_default(),
                device.successor.as_ref().map(copied).unwrap_or_default(),
                show_count(device.reads),
                show_bytes(device.read_bytes),
                show_count(device.writes),
                show_bytes(device.written_bytes),
                show_count(device.flushes),
                if device.corrected_pages > 0 {
                    format!("; {} pages could not be read and were made anew", show_count(device.corrected_pages))
                } else {
                    String::new()
                },
                if device.mismatched_reads > 0 {
                    format!("; {} reads brought something else than was written", show_count(device.mismatched_reads))
                } else {
                    String::new()
                }
            ),
        };
        screen.pairs(vec![(device.name.as_str(), told)])?;
    }
    for (name, file) in [("nvram", &array.nvram), ("intents", &array.intents)] {
        let (steps, syncs) = (show_count(file.steps), show_count(file.syncs));
        let place = file.on.as_ref().map(|device| format!(", on the device of the {device}")).unwrap_or_default();
        let place = place + &waiting(file.waiting_seconds);
        let told = format!("{}{place}: {steps} changes ({}), {syncs} syncs", file.path, show_bytes(file.written_bytes));
        screen.pairs(vec![(name, told)])?;
    }
    Ok(())
}

/// Says how far a member is copied to the file that takes its place.
fn copied(successor: &SuccessorStatus) -> String {
    format!(", copied to {}: {:.1} %", successor.path, successor.filled_percent)
}

/// Says how long a slow device has had no answer.
fn waiting(seconds: Option<f64>) -> String {
    seconds.map(|seconds| format!(", slow: no answer for {}", show_time(seconds * 1e9))).unwrap_or_default()
}

/// Returns the bytes written for each byte that clients wrote, by device.
fn amplification(status: &ServiceStatus) -> Option<String> {
    let (array, asked) = (&status.array, status.requests.writes.bytes);
    let all = |kind: &dyn Fn(&DeviceStatus) -> bool| -> u64 {
        array.devices.iter().filter(|device| kind(device)).map(|device| device.written_bytes + device.mark_bytes).sum()
    };
    let is_cache = |device: &DeviceStatus| device.name == "cache";
    let (nvram, intents) = (array.nvram.written_bytes, array.intents.written_bytes);
    let each = |bytes: u64| bytes as f64 / asked as f64;
    // The NVRAM's writes wear out the device that it lies on.
    let (cache, state, of_them) = if array.nvram.on.is_some() {
        (nvram, intents, format!(", of which the nvram {:.2}, intents", each(nvram)))
    } else {
        (0, nvram + intents, ", nvram and intents".to_owned())
    };
    // Before the first write of a client there is nothing to divide by.
    (asked > 0).then(|| {
        format!(
            "for each of clients: members {:.2}, cache {:.2}{of_them} {:.2}",
            each(all(&|device| !is_cache(device))),
            each(all(&is_cache) + cache),
            each(state)
        )
    })
}

/// Names the I/O backend, and whether it is direct.
fn io(array: &ArrayStatus) -> String {
    let by = if array.io == "uring" { "io_uring" } else { "threads" };
    let why = array.no_uring.as_ref().map(|why| format!(", since there is no io_uring: {why}")).unwrap_or_default();
    let direct = array.devices.iter().filter(|device| device.direct).count();
    let how = match direct {
        0 => "buffered".to_owned(),
        all if all == array.devices.len() => "direct".to_owned(),
        some => format!("{some} of {} direct", array.devices.len()),
    };
    format!("by {by}, {how}{why}")
}

fn state(state: &ArrayState) -> String {
    match state {
        ArrayState::Recovering => "recovering: requests wait".to_owned(),
        ArrayState::Serving => "serving".to_owned(),
        ArrayState::Degraded => "serving, degraded".to_owned(),
        ArrayState::Rebuilding => "serving, rebuilding".to_owned(),
        ArrayState::Failed => "failed: more members are lost than the level can do without".to_owned(),
        ArrayState::Hanging => {
            "hanging: a device takes too long without which data would be lost; requests that need it fail".to_owned()
        }
        ArrayState::Stopped(why) => format!("stopped: {why}"),
    }
}

/// Says how much memory requests and replies hold.
fn memory(memory: &MemoryStatus) -> String {
    let MemoryStatus { held_bytes, limit_bytes, waiting_clients, failed_requests } = *memory;
    let waiting = if waiting_clients > 0 { format!(", {waiting_clients} clients wait") } else { String::new() };
    let failed = if failed_requests > 0 { format!(", {failed_requests} requests failed") } else { String::new() };
    format!("{} of {} for requests and replies{waiting}{failed}", show_bytes(held_bytes), show_bytes(limit_bytes))
}

fn requests_of(kind: &CommandCounts) -> String {
    if kind.count == 0 {
        return "none".to_owned();
    }
    let times = [kind.mean_ns, kind.p99_ns, kind.p999_ns].map(|ns| show_time(ns as f64));
    let failed = if kind.failed > 0 { format!(", {} failed", show_count(kind.failed)) } else { String::new() };
    format!(
        "{} of {}, mean {}, p99 {}, p99.9 {}{failed}",
        show_count(kind.count),
        show_bytes(kind.bytes),
        times[0],
        times[1],
        times[2]
    )
}

fn share(hits: u64, misses: u64) -> String {
    match hits + misses {
        0 => "none".to_owned(),
        all => format!("{:.1} % of {}", 100.0 * hits as f64 / all as f64, show_count(all)),
    }
}
