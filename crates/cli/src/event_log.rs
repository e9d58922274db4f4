//! Writes the log of a service: a line on standard error for each event.

use std::io::{self, Write};

use anyhow::Result;
use chrono::{SecondsFormat, Utc};
use clap::{Arg, ArgMatches, ValueEnum, builder::PossibleValue, value_parser};
use destage_engine::{EventSeverity, ServiceEvent};
use serde::Serialize;

/// Selects the form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// Writes text with the time; into the system's journal, which has times itself, with the severity that it reads.
    Text,
    /// Writes an object of JSON.
    Json,
}

impl ValueEnum for LogForm {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Text, Self::Json]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Text => PossibleValue::new("text"),
            Self::Json => PossibleValue::new("json"),
        })
    }
}

/// Lists the severities, from the most serious on.
const SEVERITIES: [(&str, EventSeverity); 6] = [
    ("critical", EventSeverity::Critical),
    ("error", EventSeverity::Error),
    ("warning", EventSeverity::Warning),
    ("notice", EventSeverity::Notice),
    ("info", EventSeverity::Info),
    ("debug", EventSeverity::Debug),
];

/// Returns the name of a severity.
pub fn severity_name(severity: EventSeverity) -> &'static str {
    SEVERITIES.iter().find(|(_, other)| *other == severity).map_or("", |(name, _)| name)
}

/// Returns the options of a log.
pub fn log_args() -> [Arg; 2] {
    [
        Arg::new("log")
            .long("log")
            .value_name("FORM")
            .value_parser(value_parser!(LogForm))
            .default_value("text")
            .help("The form of the log on standard error, a line for each event: text, or json"),
        Arg::new("log-level")
            .long("log-level")
            .value_name("SEVERITY")
            .value_parser(SEVERITIES.map(|(name, _)| name))
            .default_value("info")
            .help("The least serious events that are logged; debug has every client that comes and goes"),
    ]
}

/// Writes events down.
#[derive(Clone, Copy, Debug)]
pub struct EventLog {
    form: LogForm,
    least: EventSeverity,
    in_journal: bool,
}

/// Lays out a line of JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    severity: EventSeverity,
    #[serde(flatten)]
    event: &'a ServiceEvent,
    text: String,
}

impl EventLog {
    /// Returns the log that the [options](log_args) ask for.
    pub fn of(matches: &ArgMatches) -> Self {
        let name = matches.get_one::<String>("log-level").map_or("info", String::as_str);
        let least =
            SEVERITIES.iter().find(|(other, _)| *other == name).map_or(EventSeverity::Info, |(_, severity)| *severity);
        let form = matches.get_one("log").copied().unwrap_or(LogForm::Text);
        Self { form, least, in_journal: is_journal() }
    }

    /// Returns the form of its lines.
    pub const fn form(self) -> LogForm {
        self.form
    }

    /// Writes an event down, if it is serious enough. Standard error may be gone: the service goes on without it.
    pub fn write(self, event: &ServiceEvent) {
        if event.severity() <= self.least {
            // A closed terminal, or a full disk below a log file, is no reason to stop serving.
            drop(self.line(event).and_then(|line| Ok(io::stderr().lock().write_all(&line)?)));
        }
    }

    fn line(self, event: &ServiceEvent) -> Result<Vec<u8>> {
        let (severity, time) = (event.severity(), Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true));
        let mut line = match self.form {
            LogForm::Json => serde_json::to_vec(&JsonLine { time, severity, event, text: event.to_string() })?,
            // An event is one line, whatever names of files hold.
            LogForm::Text if self.in_journal => {
                format!("<{}>{}", severity.syslog(), event.to_string().replace('\n', " ")).into_bytes()
            }
            LogForm::Text => {
                format!("{time} {}: {}", severity_name(severity), event.to_string().replace('\n', " ")).into_bytes()
            }
        };
        line.push(b'\n');
        Ok(line)
    }
}

/// Returns true if standard error is the system's journal, which says so as `device:inode`.
fn is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    let Ok(found) = rustix::fs::fstat(io::stderr()) else { return false };
    stream == format!("{}:{}", found.st_dev, found.st_ino)
}
