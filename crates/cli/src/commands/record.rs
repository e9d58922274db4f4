//! `destage trace record`: a live device's requests as a trace.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_record::{
    KernelLosses, RecordError, RecordOptions, RecordProgress, RecordSummary, RecordedDevice, RecordedMoments,
    TraceRecorder,
};
use destage_scenario::quantity::{self as q, show_bytes, show_count};
use destage_sim::measure::{LatencyHistogram, LatencySummary};
use destage_trace::{LATENCY_UNKNOWN, NATIVE_DEFAULT_LEVEL, Nanos, NativeWriter, Op, Request};
use serde_json::json;

use super::trace::level_arg;
use crate::output::{CommandOutputs, folder, followed, opened, refused};
use crate::progress::ProgressLine;
use crate::screen::{self, TerminalScreen};
use crate::signals;

/// The least and the most that a CPU's buffer may have: a few pages, and what fits the kernel's
/// counters.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 32;

/// The command.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("record")
        .about("Record the requests to a live block device, through the kernel's tracepoints (needs root)")
        .after_help(
            "Recording goes on until the duration is over, the number of requests is reached or the command ends, or \
             until Ctrl-C. docs/recording.md says what is recorded.",
        )
        .arg(
            Arg::new("device")
                .value_name("DEVICE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("A disk or a partition, such as /dev/nvme0n1"),
        )
        .arg(
            Arg::new("out")
                .value_name("OUT")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The new trace; - for the standard output"),
        )
        .arg(
            text("at", "POINT")
                .value_parser(["issue", "queue"])
                .default_value("issue")
                .help("What the device was given after merging and splitting (issue), or what was asked of it (queue)"),
        )
        .arg(text("duration", "TIME").help("Stop after this time, such as 60s or 5min"))
        .arg(text("limit", "REQUESTS").alias("requests").help("Stop after this many requests"))
        .arg(text("buffer", "SIZE").default_value("4MiB").help("The kernel's buffer per CPU; more if events are lost"))
        .arg(level_arg())
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("The summary as JSON on standard output"))
        .arg(
            Arg::new("own-writes")
                .long("own-writes")
                .action(ArgAction::SetTrue)
                .help("Record even though the trace is written to the recorded device, and so records itself"),
        )
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .last(true)
                .num_args(1..)
                .value_parser(value_parser!(std::ffi::OsString))
                .value_hint(ValueHint::CommandWithArguments)
                .help("Record while this runs; where the standard output is taken, its output goes to standard error"),
        )
}

/// Why a recording ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordingEnd {
    Signal,
    Duration,
    Requests,
    Command,
}

impl RecordingEnd {
    const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Duration => "duration",
            Self::Requests => "requests",
            Self::Command => "command",
        }
    }
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let argument = |name| matches.get_one::<String>(name).map(String::as_str);
    let asked = |name, right: String| anyhow::anyhow!("--{name} {}: {right}", argument(name).unwrap_or_default());
    let duration = argument("duration").map(q::time).transpose().map_err(|right| asked("duration", right))?;
    let requests = argument("limit").map(q::count).transpose().map_err(|right| asked("limit", right))?;
    let buffer = q::bytes(argument("buffer").unwrap_or("4MiB")).map_err(|right| asked("buffer", right))?;
    if !BUFFER_BYTES.contains(&buffer) {
        bail!("--buffer {}: between {} and {}", show_bytes(buffer), show_bytes(64 << 10), show_bytes(1 << 32));
    }
    if requests == Some(0) {
        bail!("--limit 0: at least 1");
    }
    let path = |name| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    let (file, to) = (path("device"), path("out"));
    if matches.get_flag("json") && to == Path::new("-") {
        bail!("--json and - both want the standard output; write the trace to a file");
    }
    let level = matches.get_one::<i32>("level").copied().unwrap_or(NATIVE_DEFAULT_LEVEL);
    let at = if argument("at") == Some("queue") { RecordedMoments::Queue } else { RecordedMoments::Issue };

    let device = RecordedDevice::open(&file)?;
    check_output(&device, &to, matches.get_flag("own-writes"))?;
    // Before anything is begun: a long command should not be run for a recording that has no place.
    let mut outputs = CommandOutputs::apart_from([file])?;
    let file = outputs.file(&to)?;
    let replaces = file.replaces();
    // From here on a signal ends the recording and keeps it; before, it ends the program.
    let stop = Arc::new(AtomicBool::new(false));
    signals::tell(&stop);
    let options = RecordOptions { at, buffer_bytes: buffer, requests, ..RecordOptions::default() };
    let recorder = TraceRecorder::start(&device, &options)?;
    // The command's own output would end up in the middle of the trace or the summary.
    let stdout_is_taken = to == Path::new("-") || matches.get_flag("json");
    let command = matches.get_many::<std::ffi::OsString>("command");
    let mut job = command.map(|words| RecordedJob::start(words, stdout_is_taken)).transpose()?;
    let failed = refused(&to);
    let created = NativeWriter::with_level(file, level).and_then(|mut writer| {
        writer.volume_names(std::slice::from_ref(&device.name))?;
        Ok(writer)
    });
    let mut writer = match created {
        Ok(writer) => writer,
        Err(error) => {
            job.map(|job| job.finish(true, &stop)).transpose()?;
            return Err(failed(error));
        }
    };
    let duration = duration.map(|time| Duration::from_nanos(time.0));
    let line = ProgressLine::new();
    let mut end = RecordingEnd::Requests;
    let mut known = LatencyHistogram::default();
    let (mut batch, mut latencies): (Vec<Request>, Vec<Nanos>) = (vec![], vec![]);
    let result = recorder.run(
        &mut |progress| {
            line.show(|| progress_line(&device.name, progress));
            end = match () {
                // The recorder ends by itself, and may still drop retracted requests.
                () if progress.full => RecordingEnd::Requests,
                () if stop.swap(false, Ordering::Relaxed) => RecordingEnd::Signal,
                () if duration.is_some_and(|duration| progress.elapsed >= duration) => RecordingEnd::Duration,
                () if job.as_mut().is_some_and(RecordedJob::has_ended) => RecordingEnd::Command,
                () => {
                    end = RecordingEnd::Requests;
                    return true;
                }
            };
            progress.full
        },
        &mut |recorded| {
            batch.clear();
            latencies.clear();
            for r in recorded {
                batch.push(r.request);
                latencies.push(r.latency.unwrap_or(LATENCY_UNKNOWN));
                if let Some(latency) = r.latency {
                    known.record(latency);
                }
            }
            writer.write_with_latencies(&batch, &latencies)
        },
    );
    line.finish();
    // Whatever the kernel did, the requests so far make a whole trace, unless an older one would have to give way
    // to it.
    let finished = match &result {
        Err(RecordError::Sink(_)) => Ok(()),
        Err(_) if replaces => Ok(()),
        _ => writer.finish().map_err(&failed).and_then(|file| outputs.commit([file])),
    };
    // The command is waited for even after a failure, so it does not outlive its recording unnoticed.
    let ended = job.map(|job| job.finish(result.is_err() || end == RecordingEnd::Signal, &stop)).transpose()?;
    let summary = match result {
        Ok(summary) => summary,
        Err(RecordError::Sink(error)) => return Err(failed(error)),
        Err(error) if replaces => bail!("{error}; {} is left as it was", to.display()),
        Err(error) => return Err(error.into()),
    };
    finished?;
    let latency = known.summary();
    let report = RecordingReport { device: &device, at, end, buffer, summary: &summary, latency: latency.as_ref() };
    report.warn();
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &report.json())?;
        writeln!(out)?;
    } else {
        report.print(&to)?;
    }
    match ended {
        Some(CommandEnd::Left(pid)) => bail!("the command, process {pid}, is still running; its recording is complete"),
        Some(CommandEnd::Alone(status)) if !status.success() => {
            bail!("the command ended with {status}; its recording is complete")
        }
        Some(CommandEnd::Alone(_) | CommandEnd::Asked) | None => Ok(()),
    }
}

/// Refuses an output that would be recorded while it is written.
fn check_output(device: &RecordedDevice, to: &Path, allowed: bool) -> Result<()> {
    let on_device = |name: &dyn std::fmt::Display| {
        format!(
            "{name} lies on {}, so that the recording would record itself; write it to another disk or to memory \
             (/dev/shm), pipe it away with -, or say --own-writes",
            device.name
        )
    };
    let is_disk = |metadata: &std::fs::Metadata| metadata.file_type().is_block_device();
    if to == Path::new("-") {
        // A closed output is an error when it is written to.
        let Ok(stdout) = opened(std::io::stdout()) else { return Ok(()) };
        if is_disk(&stdout) {
            bail!("the standard output is a block device; name a file for the trace");
        }
        if !allowed && stdout.is_file() && device.holds_open(&stdout) {
            bail!(on_device(&"the standard output's file"));
        }
        return Ok(());
    }
    if std::fs::metadata(to).is_ok_and(|metadata| is_disk(&metadata)) {
        bail!("{} is a block device; name a file for the trace", to.display());
    }
    // The folder of the new file counts, and the file that it replaces, which may be a mount point of its own.
    let target = followed(to).with_context(|| format!("cannot create {}", to.display()))?;
    let folder = folder(&target);
    if !folder.exists() {
        bail!("cannot create {}: there is no folder {}", to.display(), folder.display());
    }
    if !allowed && (device.holds(folder)? || (target.exists() && device.holds(&target)?)) {
        bail!(on_device(&to.display()));
    }
    Ok(())
}

/// Sets how often a command that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The command that is recorded.
struct RecordedJob {
    child: Child,
    ended: Option<ExitStatus>,
}

/// Tells how a command came to its end.
enum CommandEnd {
    /// By itself.
    Alone(ExitStatus),
    /// Because it was asked to.
    Asked,
    /// Tells that it has not ended; holds its process number.
    Left(u32),
}

impl RecordedJob {
    /// Starts it; with `aside` what it writes to the standard output goes to the standard error,
    /// because ours is taken.
    fn start<'a>(mut words: impl Iterator<Item = &'a std::ffi::OsString>, aside: bool) -> Result<Self> {
        let name = words.next().context("a command is missing after --")?;
        let mut command = std::process::Command::new(name);
        if aside {
            // The trace or the summary goes to the standard output, and must not be mixed with the command's.
            command.stdout(std::io::stderr());
        }
        let child = command.args(words).spawn().with_context(|| format!("cannot run {}", name.display()))?;
        Ok(Self { child, ended: None })
    }

    fn has_ended(&mut self) -> bool {
        self.ended = self.child.try_wait().unwrap_or_default();
        self.ended.is_some()
    }

    /// Waits for its end. It is asked for that if it is `unwanted`, or once the user wants to
    /// `stop`; who wants that again does not want to wait any more.
    fn finish(mut self, unwanted: bool, stop: &AtomicBool) -> Result<CommandEnd> {
        let (mut wishes, mut asked) = (u32::from(unwanted), false);
        loop {
            if let Some(status) = self.ended {
                return Ok(if asked { CommandEnd::Asked } else { CommandEnd::Alone(status) });
            }
            wishes += u32::from(stop.swap(false, Ordering::Relaxed));
            if wishes > 0 && !asked {
                asked = true;
                let pid = rustix::process::Pid::from_child(&self.child);
                // The command may have ended just now.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            // A second wish to end leaves the command alone, so a command which ignores SIGTERM holds nobody
            // up.
            if wishes > 1 {
                return Ok(CommandEnd::Left(self.child.id()));
            }
            std::thread::sleep(LOOK);
            self.ended = self.child.try_wait().context("cannot wait for the command")?;
        }
    }
}

fn progress_line(device: &str, progress: &RecordProgress) -> String {
    // A rate over no time would be infinite.
    let seconds = progress.elapsed.as_secs_f64().max(1e-3);
    format!(
        "recording {device}: {:.0} s, {} requests, {}/s, {} outstanding, {} lost",
        seconds,
        show_count(progress.requests),
        show_count((progress.requests as f64 / seconds) as u64),
        progress.outstanding,
        show_count(progress.lost)
    )
}

/// Holds the report at the end.
struct RecordingReport<'a> {
    device: &'a RecordedDevice,
    at: RecordedMoments,
    end: RecordingEnd,
    buffer: u64,
    summary: &'a RecordSummary,
    latency: Option<&'a LatencySummary>,
}

impl RecordingReport<'_> {
    const fn at(&self) -> &'static str {
        match self.at {
            RecordedMoments::Issue => "issue",
            RecordedMoments::Queue => "queue",
        }
    }

    fn warn(&self) {
        let KernelLosses { dropped, overrun, commit_overrun } = self.summary.losses;
        if self.summary.losses.total() > 0 {
            screen::warn(format_args!(
                "the kernel lost {} events ({dropped} for want of room, {overrun} overwritten, \
                 {commit_overrun} in interrupts), so requests or their latencies are missing; record with a larger \
                 --buffer (it was {} per CPU)",
                show_count(self.summary.losses.total()),
                show_bytes(self.buffer)
            ));
        }
        let c = &self.summary.counts;
        let strange = c.unknown + self.summary.strange;
        if strange > 0 {
            screen::warn(format_args!(
                "{} events are of a kind that destage does not know, or of sectors that no device has; they \
                 are left out",
                show_count(strange)
            ));
        }
        if c.zone_commands > 0 {
            screen::warn(format_args!(
                "{} zone commands are left out: a trace cannot hold them",
                show_count(c.zone_commands)
            ));
        }
    }

    fn print(&self, to: &Path) -> Result<()> {
        let (s, c) = (self.summary, &self.summary.counts);
        let mut rows = vec![
            ("device", format!("{} at {}, ended by {}", self.device.name, self.at(), self.end.word())),
            ("requests", format!("{} in {:.3} s", show_count(c.total()), s.span.as_secs_f64())),
            ("reads, writes, flushes, discards", Op::ALL.map(|op| show_count(s.of(op))).join(", ")),
        ];
        if let Some(l) = self.latency {
            let times = [l.mean, l.p50 as f64, l.p99 as f64, l.p99_9 as f64, l.max as f64].map(q::show_time);
            rows.push(("latency mean, p50, p99, p99.9, max", times.join(", ")));
        }
        // Counts of 0 need no line.
        for (name, count) in [
            ("with FUA", c.fua),
            ("write zeroes, among the writes", c.write_zeroes),
            ("secure erases, among the discards", c.secure_erases),
            ("failed", c.failed),
            ("sent back by the device at first", c.requeued),
            ("refused rather than waited for", c.retracted),
            ("without a known latency", c.without_completion + self.flushes_before_data()),
            ("begun before the recording", c.without_beginning),
            ("commands passed through, left out", c.passed_through),
            ("zone commands, left out", c.zone_commands),
            ("out of order", s.late),
        ] {
            if count > 0 {
                rows.push((name, show_count(count)));
            }
        }
        rows.push(("events lost", show_count(s.losses.total())));
        let mut screen = TerminalScreen::stderr();
        if to != Path::new("-") {
            let bytes = std::fs::metadata(to).map(|meta| format!(", {} bytes", show_count(meta.len())));
            writeln!(screen, "wrote {}{}", to.display(), bytes.unwrap_or_default())?;
        }
        screen.pairs(rows)?;
        Ok(())
    }

    /// Flushes that came with a write and have no end of their own.
    fn flushes_before_data(&self) -> u64 {
        let c = &self.summary.counts;
        c.total() - self.summary.latencies - c.without_completion
    }

    fn json(&self) -> serde_json::Value {
        let (s, c) = (self.summary, &self.summary.counts);
        json!({
            "device": self.device.name,
            "at": self.at(),
            "ended_by": self.end.word(),
            "elapsed_ns": s.elapsed.as_nanos() as u64,
            "duration_ns": s.span.0,
            "requests": c.total(),
            "reads": s.of(Op::Read),
            "writes": s.of(Op::Write),
            "flushes": s.of(Op::Flush),
            "discards": s.of(Op::Discard),
            "fua": c.fua,
            "write_zeroes": c.write_zeroes,
            "secure_erases": c.secure_erases,
            "failed": c.failed,
            "requeued": c.requeued,
            "retracted": c.retracted,
            "latencies": s.latencies,
            "latency_ns": self.latency,
            "without_completion": c.without_completion,
            "without_beginning": c.without_beginning,
            "passed_through": c.passed_through,
            "zone_commands": c.zone_commands,
            "unknown": c.unknown + s.strange,
            "out_of_order": s.late,
            "buffer_bytes": self.buffer,
            "lost": {
                "dropped": s.losses.dropped,
                "overrun": s.losses.overrun,
                "commit_overrun": s.losses.commit_overrun,
                "gaps": s.gaps,
            },
        })
    }
}
