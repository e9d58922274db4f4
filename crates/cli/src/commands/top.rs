//! `destage top`: what a served array does, second by second.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use destage_engine::{ArrayState, CommandCounts, ControlReply, DeviceStatus, ServiceCommand, ServiceStatus};
use destage_plan::quantity::{self, show_bytes, show_count, show_time};

use super::served::{array_arg, control_arg, order, timeout_arg};

/// Clears a terminal from its first line on.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The command.
pub fn command() -> Command {
    Command::new("top")
        .about("Show what a served array does, again and again: requests, latencies, hits, devices")
        .after_help(
            "Rates are of the time between two looks; the first look is of the time since the service began. On a terminal each look \
             takes the place of the one before, until Ctrl-C. Elsewhere one follows the other.",
        )
        .arg(array_arg())
        .arg(
            Arg::new("interval")
                .long("interval")
                .value_name("TIME")
                .value_parser(interval)
                .default_value("1s")
                .help("Time between two looks, at least 100ms"),
        )
        .arg(
            Arg::new("looks")
                .long("looks")
                .value_name("NUMBER")
                .value_parser(value_parser!(u64).range(1..))
                .help("End after so many looks [default: go on]"),
        )
        .arg(control_arg())
        .arg(timeout_arg("How long the service may take to answer"))
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = quantity::time(text)?;
    let time = Duration::from_nanos(time.0);
    if time < Duration::from_millis(100) { Err("expected at least 100ms".to_owned()) } else { Ok(time) }
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let every = matches.get_one::<Duration>("interval").copied().unwrap_or(Duration::from_secs(1));
    let looks = matches.get_one::<u64>("looks").copied().unwrap_or(u64::MAX);
    let name = matches.get_one::<std::path::PathBuf>("array").map(|path| path.display().to_string());
    let is_terminal = std::io::stdout().is_terminal();
    let mut before: Option<Box<ServiceStatus>> = None;
    for look in 0..looks {
        if look > 0 {
            std::thread::sleep(every);
        }
        let ControlReply::Status(now) = order(matches, &ServiceCommand::Status)? else {
            bail!("the service answered something else than how it is");
        };
        let lines = lines(name.as_deref().unwrap_or_default(), before.as_deref(), &now);
        let mut out = anstream::stdout().lock();
        // One write, so that a slow terminal shows no half of it.
        write!(out, "{}{}\n\n", if is_terminal { CLEAR } else { "" }, lines.join("\n"))?;
        out.flush()?;
        before = Some(now);
    }
    let state = before.map(|status| status.array.state);
    Ok(state.as_ref().map_or(0, ArrayState::exit_status).into())
}

/// Shows what has happened between two looks, or since the service began.
fn lines(name: &str, before: Option<&ServiceStatus>, now: &ServiceStatus) -> Vec<String> {
    // A service that was started again meanwhile counts from its beginning.
    let before = before.filter(|before| before.pid == now.pid && before.up_seconds <= now.up_seconds);
    let seconds = (now.up_seconds - before.map_or(0.0, |before| before.up_seconds)).max(1e-3);
    let array = &now.array;
    let mut lines = vec![
        format!("{name}: {}, {}, cache {}", array.state, array.level, array.policy),
        format!(
            "up {}, {} clients, {} requests in flight, memory {} of {}",
            show_time(now.up_seconds * 1e9),
            now.clients.now,
            now.clients.under_way,
            show_bytes(now.memory.held_bytes),
            show_bytes(now.memory.limit_bytes)
        ),
        String::new(),
        format!(
            "{:<10}{:>12}{:>14}{:>12}{:>12}{:>10}",
            "requests", "a second", "bytes/s", "mean", "p99 within", "failed"
        ),
    ];
    let kinds = |status: &'_ ServiceStatus| {
        let requests = &status.requests;
        [&requests.reads, &requests.writes, &requests.flushes, &requests.others].map(Clone::clone)
    };
    let then = before.map(kinds);
    for (at, (name, kind)) in ["reads", "writes", "flushes", "others"].into_iter().zip(kinds(now)).enumerate() {
        let kind = since(then.as_ref().map(|then| &then[at]), &kind);
        let mean = if kind.count > 0 { show_time(kind.sum_ns as f64 / kind.count as f64) } else { "-".to_owned() };
        let within = percentile(&kind, 0.99).map_or("-".to_owned(), |ns| show_time(ns as f64));
        let (rate, bytes) = (rate(kind.count, seconds), byte_rate(kind.bytes, seconds));
        lines.push(format!("{name:<10}{rate:>12}{bytes:>14}{mean:>12}{within:>12}{:>10}", show_count(kind.failed)));
    }
    if let Some(cache) = &array.cache {
        let then = before.and_then(|before| before.array.cache.as_ref());
        let hits = |hits: u64, misses: u64, then_hits: u64, then_misses: u64| {
            let (hits, misses) = (hits.saturating_sub(then_hits), misses.saturating_sub(then_misses));
            let all = hits + misses;
            if all > 0 { format!("{:.1} %", 100.0 * hits as f64 / all as f64) } else { "-".to_owned() }
        };
        let of = then.map_or([0; 4], |then| [then.read_hits, then.read_misses, then.write_hits, then.write_misses]);
        let use_ = if cache.in_use { "" } else { ", out of use" };
        let bytes = |status: &ServiceStatus| {
            let caches = status.array.devices.iter().filter(|device| device.name == "cache");
            caches.map(|device| device.written_bytes).sum::<u64>()
        };
        let asked = now.requests.writes.bytes.saturating_sub(before.map_or(0, |before| before.requests.writes.bytes));
        let written = bytes(now).saturating_sub(before.map_or(0, bytes));
        let wear = if asked > 0 { format!("{:.2}", written as f64 / asked as f64) } else { "-".to_owned() };
        lines.push(String::new());
        lines.push(format!(
            "cache     hits: reads {}, writes {}; bytes written to it for each of clients {wear}{use_}",
            hits(cache.read_hits, cache.read_misses, of[0], of[1]),
            hits(cache.write_hits, cache.write_misses, of[2], of[3]),
        ));
    }
    if array.stale_rows > 0 {
        lines.push(format!("parity    {} rows are stale", show_count(array.stale_rows)));
    }
    lines.extend(array.scrub.iter().map(|scrub| format!("scrub     {scrub}")));
    lines.push(String::new());
    lines.push(format!(
        "{:<10}{:>12}{:>14}{:>12}{:>14}  {}",
        "devices", "reads/s", "bytes/s", "writes/s", "bytes/s", "state"
    ));
    for device in &array.devices {
        let then = before.and_then(|before| before.array.devices.iter().find(|then| then.name == device.name));
        let count = |of: fn(&DeviceStatus) -> u64| of(device).saturating_sub(then.map_or(0, of));
        let bytes = |of: fn(&DeviceStatus) -> u64| byte_rate(count(of), seconds);
        lines.push(format!(
            "{:<10}{:>12}{:>14}{:>12}{:>14}  {}",
            device.name,
            rate(count(|device| device.reads), seconds),
            bytes(|device| device.read_bytes),
            rate(count(|device| device.writes + device.marks), seconds),
            bytes(|device| device.written_bytes + device.mark_bytes),
            state(device)
        ));
    }
    lines
}

/// Returns what was counted since another look.
fn since(before: Option<&CommandCounts>, now: &CommandCounts) -> CommandCounts {
    let mut counts = now.clone();
    if let Some(before) = before {
        counts.count = now.count.saturating_sub(before.count);
        counts.failed = now.failed.saturating_sub(before.failed);
        counts.bytes = now.bytes.saturating_sub(before.bytes);
        counts.sum_ns = now.sum_ns.saturating_sub(before.sum_ns);
        for (time, then) in counts.times.iter_mut().zip(&before.times) {
            time.count = time.count.saturating_sub(then.count);
        }
    }
    counts
}

/// Returns the upper bound of the times of this share of the requests, in nanoseconds.
fn percentile(counts: &CommandCounts, share: f64) -> Option<u64> {
    let all: u64 = counts.times.iter().map(|time| time.count).sum();
    let mut left = ((all as f64 * share).ceil() as u64).max(1);
    counts.times.iter().filter(|time| time.count > 0).find_map(|time| {
        left = left.saturating_sub(time.count);
        (left == 0).then_some(time.up_to_ns)
    })
}

fn rate(count: u64, seconds: f64) -> String {
    let rate = count as f64 / seconds;
    if rate < 10.0 && count > 0 { format!("{rate:.1}") } else { show_count(rate.round() as u64) }
}

/// Shows bytes a second to a tenth of a unit.
fn byte_rate(bytes: u64, seconds: f64) -> String {
    let rate = bytes as f64 / seconds;
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| rate >= *size as f64);
    unit.map_or_else(|| format!("{rate:.0} B"), |(size, unit)| format!("{:.1} {unit}", rate / size as f64))
}

fn state(device: &DeviceStatus) -> String {
    match (device.answers, device.waiting_seconds, device.filled_percent, &device.successor) {
        (false, ..) => "lost".to_owned(),
        (_, Some(seconds), ..) => format!("no answer for {}", show_time(seconds * 1e9)),
        (_, _, Some(percent), _) => format!("rebuilt to {percent:.1} %"),
        (.., Some(successor)) => format!("copied to {:.1} %", successor.filled_percent),
        _ if device.bad_pages > 0 => format!("{} bad pages", show_count(device.bad_pages)),
        _ => "in use".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use destage_engine::TimeCount;

    use super::*;

    fn counts(times: &[(u64, u64)]) -> CommandCounts {
        let times: Vec<_> = times.iter().map(|&(up_to_ns, count)| TimeCount { up_to_ns, count }).collect();
        let count = times.iter().map(|time| time.count).sum();
        CommandCounts {
            count,
            failed: 0,
            bytes: 4096 * count,
            sum_ns: 1000 * count,
            times,
            mean_ns: 0,
            p50_ns: 0,
            p99_ns: 0,
            p999_ns: 0,
            max_ns: 0,
        }
    }

    #[test]
    fn a_percentile_is_of_what_came_between_two_looks() {
        let (first, second) =
            (counts(&[(4096, 1000), (8192, 0), (16384, 5)]), counts(&[(4096, 1000), (8192, 98), (16384, 7)]));
        assert_eq!(percentile(&first, 0.99), Some(4096));
        let between = since(Some(&first), &second);
        assert_eq!((between.count, between.bytes, between.sum_ns), (100, 409_600, 100_000));
        assert_eq!((percentile(&between, 0.98), percentile(&between, 0.99)), (Some(8192), Some(16384)));
        assert_eq!(percentile(&since(Some(&second), &second), 0.99), None);
        assert_eq!(since(None, &second).count, 1105);
    }

    #[test]
    fn rates_and_intervals_are_read_and_shown() {
        assert_eq!([rate(0, 2.0), rate(3, 2.0), rate(24_000, 2.0)], ["0", "1.5", "12,000"]);
        let rates = [byte_rate(0, 1.0), byte_rate(3000, 2.0), byte_rate(5 << 20, 2.0), byte_rate(3 << 30, 1.0)];
        assert_eq!(rates, ["0 B", "1.5 KiB", "2.5 MiB", "3.0 GiB"]);
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["0", "50ms", "soon", "-1s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
