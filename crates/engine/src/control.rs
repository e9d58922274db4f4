//! Orders from whoever runs the service: a line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::outbox::Outbox;
use crate::replacement::Replacement;
use crate::socket::Stream;
use crate::status::Status;
use crate::waiter::Interest;

/// Bytes that an order has at most.
const LONGEST: usize = 4096;

/// What the service is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// To say how it is: answered by [`Reply::Status`].
    Status,
    /// To write back what members have not: answered when that is done.
    Flush,
    /// To put a file in the place of a device: answered when the file is the device's, and before it has been
    /// filled with what the others know of it.
    Replace(Replacement),
    /// To end: answered when nothing is left to be recovered.
    Stop,
}

/// What the service answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// How it is.
    Status(Box<Status>),
    /// What was ordered is done.
    Done,
    /// What was ordered was not done.
    Failed(String),
}

/// Gives an order to the service that takes them here, and waits for the answer.
///
/// # Errors
/// If nobody takes orders there, or the service ends without an answer.
pub fn order(path: &Path, order: &Order) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(path)?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer"));
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Somebody who gives orders.
#[derive(Debug)]
pub(crate) struct Control {
    stream: Stream,
    outbox: Outbox,
    input: Vec<u8>,
    ended: bool,
    pub(crate) interest: Interest,
    pub(crate) waits_for_drain: bool,
    pub(crate) waits_for_replacement: bool,
    pub(crate) waits_for_stop: bool,
}

impl Control {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            outbox: Outbox::default(),
            input: Vec::new(),
            ended: false,
            interest: Interest::READ,
            waits_for_drain: false,
            waits_for_replacement: false,
            waits_for_stop: false,
        }
    }

    pub(crate) fn stream(&self) -> impl AsFd + '_ {
        self.stream.as_fd()
    }

    pub(crate) const fn wanted(&self) -> Interest {
        Interest { read: !self.ended, write: self.outbox.left() > 0 }
    }

    /// The next order, if one has come. What is none is answered here.
    pub(crate) fn next(&mut self) -> Option<Order> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(order) => return Some(order),
                    Err(error) => self.reply(&Reply::Failed(format!("this is no order: {error}"))),
                }
                continue;
            }
            let mut bytes = [0; LONGEST];
            match self.stream.receive(&mut bytes) {
                Ok(Some(0)) | Err(_) => self.ended = true,
                Ok(Some(read)) if self.input.len() + read > LONGEST => {
                    self.reply(&Reply::Failed(format!("an order has at most {LONGEST} bytes")));
                    self.ended = true;
                }
                Ok(Some(read)) => {
                    self.input.extend_from_slice(&bytes[..read]);
                    continue;
                }
                Ok(None) => {}
            }
            return None;
        }
    }

    pub(crate) fn reply(&mut self, reply: &Reply) {
        self.outbox.text(|text| {
            // Strings and numbers can be written, and memory takes them.
            drop(serde_json::to_writer(&mut *text, reply));
            text.push(b'\n');
        });
    }

    /// What it waited for is done, if it did.
    pub(crate) fn drained(&mut self, how: Result<(), &str>) {
        if std::mem::take(&mut self.waits_for_drain) {
            self.finished(how);
        }
    }

    /// The service ends now; what it is told is sent at once.
    pub(crate) fn stopped(&mut self, how: Result<(), &str>) {
        if std::mem::take(&mut self.waits_for_replacement) {
            self.finished(Err("the service has ended before the cache was written back: it is not replaced"));
            drop(self.send());
        }
        if std::mem::take(&mut self.waits_for_stop) {
            self.finished(how);
            // Whoever does not read the answer does not get it.
            drop(self.send());
        }
    }

    fn finished(&mut self, how: Result<(), &str>) {
        self.reply(&match how {
            Ok(()) => Reply::Done,
            Err(why) => Reply::Failed(why.to_owned()),
        });
    }

    fn send(&mut self) -> io::Result<bool> {
        self.outbox.send(&mut self.stream, drop)
    }

    /// Sends what there is to send; whether there is still somebody.
    pub(crate) fn attend(&mut self) -> bool {
        let fine = self.send().is_ok();
        let waits = self.waits_for_drain || self.waits_for_replacement || self.waits_for_stop;
        let over = self.ended && self.outbox.left() == 0 && !waits;
        // Whose replacement is under way keeps its place, be it gone: nobody else gets its answer.
        (fine || self.waits_for_replacement) && !over
    }
}
