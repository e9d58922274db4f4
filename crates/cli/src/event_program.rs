//! Runs a program for each event of a service, as `mdadm --monitor --program` does.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use destage_engine::{EventSeverity, ServiceEvent};

use crate::event_log::{EventLog, severity_name};

/// Limits the events that wait for the program; it is not told of what comes beyond them.
const WAITING: usize = 64;
/// Limits how long the end of the service waits for the program.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a shell command for each event that is a notice or more serious, one after the other.
pub struct EventProgram {
    events: SyncSender<ServiceEvent>,
    done: Receiver<()>,
    command: String,
    log: EventLog,
}

impl EventProgram {
    /// Begins to run this command for events of this array.
    // A thread of its own runs the program: the service must not wait for a mail to be sent.
    pub fn start(command: String, array: &Path, log: EventLog) -> Self {
        let (events, waiting) = sync_channel::<ServiceEvent>(WAITING);
        let (ends, done) = sync_channel(1);
        let (array, name) = (array.to_owned(), command.clone());
        thread::spawn(move || {
            for event in waiting {
                let run = Command::new("sh")
                    .args(["-c", &command])
                    .env("DESTAGE_EVENT", event.name())
                    .env("DESTAGE_SEVERITY", severity_name(event.severity()))
                    .env("DESTAGE_ARRAY", &array)
                    .env("DESTAGE_DEVICE", event.device().unwrap_or_default())
                    .env("DESTAGE_TEXT", event.to_string())
                    .stdin(Stdio::null())
                    .status();
                let why = match run {
                    Ok(status) if status.success() => continue,
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                };
                log.write(&ServiceEvent::ProgramFailed { command: command.clone(), why });
            }
            drop(ends);
        });
        Self { events, done, command: name, log }
    }

    /// Has the command run for an event, if it is serious enough.
    pub fn tell(&self, event: &ServiceEvent) {
        // A program that hangs must not fill memory with events: what it misses is logged.
        if event.severity() <= EventSeverity::Notice && self.events.try_send(event.clone()).is_err() {
            self.failed(format!("it is behind, and is not told that {event}"));
        }
    }

    /// Waits until it has run for all events, but not for long.
    pub fn finish(self) {
        let Self { events, done, command, log } = self;
        drop(events);
        // The end of the service must not depend on somebody's script.
        if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            log.write(&ServiceEvent::ProgramFailed {
                command,
                why: "it is still at work, and is left to itself".to_owned(),
            });
        }
    }

    fn failed(&self, why: String) {
        self.log.write(&ServiceEvent::ProgramFailed { command: self.command.clone(), why });
    }
}
