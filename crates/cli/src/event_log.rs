//! The log of a service: a line on standard error for each event.

use std::io::{self, Write};

use anyhow::Result;
use chrono::{SecondsFormat, Utc};
use clap::{Arg, ArgMatches, ValueEnum, builder::PossibleValue, value_parser};
use destage_engine::{Event, Severity};
use serde::Serialize;

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// Text for people, with the time; in the system's journal, which has times itself, with the severity that it reads.
    Text,
    /// An object of JSON.
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

/// The severities, from the most serious on.
const SEVERITIES: [(&str, Severity); 6] = [
    ("critical", Severity::Critical),
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("notice", Severity::Notice),
    ("info", Severity::Info),
    ("debug", Severity::Debug),
];

/// Returns the name of a severity.
pub fn severity_name(severity: Severity) -> &'static str {
    SEVERITIES.iter().find(|(_, other)| *other == severity).map_or("", |(name, _)| name)
}

/// The options of a log.
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
    least: Severity,
    in_journal: bool,
}

/// A line of JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    severity: Severity,
    #[serde(flatten)]
    event: &'a Event,
    text: String,
}

impl EventLog {
    /// Returns the log that the [options](log_args) ask for.
    pub fn of(matches: &ArgMatches) -> Self {
        let name = matches.get_one::<String>("log-level").map_or("info", String::as_str);
        let least =
            SEVERITIES.iter().find(|(other, _)| *other == name).map_or(Severity::Info, |(_, severity)| *severity);
        let form = matches.get_one("log").copied().unwrap_or(LogForm::Text);
        Self { form, least, in_journal: is_journal() }
    }

    /// Returns the form of its lines.
    pub const fn form(self) -> LogForm {
        self.form
    }

    /// Writes an event down, if it is serious enough. Standard error may be gone: the service goes on without it.
    pub fn write(self, event: &Event) {
        if event.severity() <= self.least {
            drop(self.line(event).and_then(|line| Ok(io::stderr().lock().write_all(&line)?)));
        }
    }

    fn line(self, event: &Event) -> Result<Vec<u8>> {
        let (severity, time) = (event.severity(), Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true));
        let mut line = match self.form {
            LogForm::Json => serde_json::to_vec(&JsonLine { time, severity, event, text: event.to_string() })?,
            // Whatever names of files hold, an event is one line.
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
