//! Orders from whoever runs the service: a line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};

use crate::replacement::DeviceReplacement;
use crate::scrub::{ScrubRequest, ScrubStatus};
use crate::send_queue::SendQueue;
use crate::socket::ClientStream;
use crate::status::ServiceStatus;
use crate::waiter::IoInterest;

/// Bytes that an order has at most.
const LONGEST: usize = 4096;

/// Lists the orders that a service takes, one line of JSON each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceCommand {
    /// To say how it is: answered by [`ControlReply::Status`].
    Status,
    /// To write back what members have not: answered when that is done.
    Flush,
    /// To put a file in the place of a device: answered when the file is the device's, and before it has been
    /// filled with what the others know of it; or when the device begins to be copied to it ([`ControlReply::Copying`]).
    Replace(DeviceReplacement),
    /// Compares rows. [`ControlReply::Scrubbing`] tells how far it is, [`ControlReply::Scrubbed`] how it has ended. It ends early if the
    /// connection closes.
    Scrub(ScrubRequest),
    /// Ends the service, unless its block device is in use: answered when nothing is left to be recovered.
    Stop,
    /// Ends the service and has its block device wait for the next one: answered as [`Stop`](Self::Stop) is.
    Pause,
}

/// Lists the answers of a service to an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlReply {
    /// Acknowledges the order, which is carried out now. The answer proper follows. [`ServiceCommand::Status`] is answered at once
    /// instead.
    Heard,
    /// Returns the status of the service.
    Status(Box<ServiceStatus>),
    /// Tells how far a scrub has come; more replies follow.
    Scrubbing(Box<ScrubStatus>),
    /// Tells how a scrub has ended.
    Scrubbed(Box<ScrubStatus>),
    /// Tells that the order is carried out.
    Done,
    /// Tells that a member is copied to the file that was ordered in its place, and stays in it until that is done.
    Copying,
    /// Tells why the order was not carried out.
    Failed(String),
}

/// Tells why there is no answer to an order.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// Tells that the service let nobody in, or did not acknowledge the order. It does not carry the order out later.
    #[error("the service did not answer within {} s", after.as_secs_f64())]
    Unheard {
        /// Counts how long the caller waited.
        after: Duration,
    },
    /// Tells that nobody takes orders there, or that the service ended without an answer. The error is in the message and
    /// no source: a broken pipe is a failure here, not a reader of the output that has gone.
    #[error("{0}")]
    Io(io::Error),
}

/// Gives an order to the service that takes them here, and waits for the answer. The service must let us in and
/// say that it has heard within the time-out; [`ServiceCommand::Status`] must be answered within it. All others take as long
/// as they take once they are heard.
///
/// # Errors
/// If nobody takes orders there, the service does not hear, or it ends without an answer.
pub fn order(path: &Path, order: &ServiceCommand, timeout: Duration) -> Result<ControlReply, OrderError> {
    order_with_progress(path, order, timeout, &mut drop)
}

/// Gives an [order], and calls `tell` with how far it is until the answer comes.
///
/// # Errors
/// As [`order`].
pub fn order_with_progress(
    path: &Path,
    order: &ServiceCommand,
    timeout: Duration,
    tell: &mut dyn FnMut(ScrubStatus),
) -> Result<ControlReply, OrderError> {
    let begin = Instant::now();
    let failed = |error: io::Error| match error.kind() {
        // Linux reports the time-out of a socket as `EAGAIN`.
        io::ErrorKind::WouldBlock => OrderError::Unheard { after: timeout },
        _ => OrderError::Io(error),
    };
    let mut stream = connect_within(path, timeout).map_err(failed)?;
    let mut line = serde_json::to_vec(order).map_err(|error| OrderError::Io(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    // A time-out of zero means none at all to the kernel.
    let left = timeout.saturating_sub(begin.elapsed()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left)).map_err(OrderError::Io)?;
    let mut answers = BufReader::new(&stream);
    let reply = next_reply(&mut answers).map_err(failed)?;
    if !matches!(reply, ControlReply::Heard) {
        return Ok(reply);
    }
    // Once acknowledged, the order may take hours, as a scrub does: only the acknowledgement has a limit.
    stream.set_read_timeout(None).map_err(OrderError::Io)?;
    loop {
        match next_reply(&mut answers).map_err(OrderError::Io)? {
            ControlReply::Scrubbing(status) => tell(*status),
            reply => return Ok(reply),
        }
    }
}

/// Connects to a socket, whose queue may be full for as long as the time-out.
fn connect_within(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // On Unix sockets the time-out for sending holds for connecting, too, which blocks while the queue is full.
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    loop {
        match connect(&socket, &SocketAddrUnix::new(path)?) {
            Err(Errno::INTR) => {}
            connected => return Ok(connected.map(|()| socket.into())?),
        }
    }
}

fn next_reply(answers: &mut impl BufRead) -> io::Result<ControlReply> {
    let mut line = Vec::new();
    answers.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer"));
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Somebody who gives orders.
#[derive(Debug)]
pub(crate) struct ControlConnection {
    stream: ClientStream,
    send_queue: SendQueue,
    input: Vec<u8>,
    ended: bool,
    pub(crate) interest: IoInterest,
    pub(crate) waits_for_drain: bool,
    pub(crate) waits_for_replacement: bool,
    pub(crate) waits_for_scrub: bool,
    pub(crate) waits_for_stop: bool,
    /// Notes when it came.
    pub(crate) since: Instant,
}

impl ControlConnection {
    pub(crate) fn new(stream: ClientStream) -> Self {
        Self {
            stream,
            send_queue: SendQueue::default(),
            input: Vec::new(),
            ended: false,
            interest: IoInterest::READ,
            waits_for_drain: false,
            waits_for_replacement: false,
            waits_for_scrub: false,
            waits_for_stop: false,
            since: Instant::now(),
        }
    }

    pub(crate) fn stream(&self) -> impl AsFd + '_ {
        self.stream.as_fd()
    }

    pub(crate) const fn wanted(&self) -> IoInterest {
        IoInterest { read: !self.ended, write: self.has_unsent() }
    }

    /// Returns true if something has been answered that is not sent yet.
    pub(crate) const fn has_unsent(&self) -> bool {
        self.send_queue.left() > 0
    }

    /// The next order, if one has come. What is none is answered here.
    pub(crate) fn next(&mut self) -> Option<ServiceCommand> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(order) => return Some(order),
                    Err(error) => self.reply(&ControlReply::Failed(format!("this is no order: {error}"))),
                }
                continue;
            }
            let mut bytes = [0; LONGEST];
            match self.stream.receive(&mut bytes) {
                Ok(Some(0)) | Err(_) => self.ended = true,
                // Whoever sends no line within the limit speaks another protocol, and its bytes would fill memory.
                Ok(Some(read)) if self.input.len() + read > LONGEST => {
                    self.reply(&ControlReply::Failed(format!("an order has at most {LONGEST} bytes")));
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

    pub(crate) fn reply(&mut self, reply: &ControlReply) {
        self.send_queue.text(|text| {
            // A status is made of strings and numbers, which always serialise, and memory takes them.
            drop(serde_json::to_writer(&mut *text, reply));
            text.push(b'\n');
        });
    }

    /// Says that an order has come; whether there is still somebody who wants it carried out.
    pub(crate) fn acknowledge(&mut self) -> bool {
        self.reply(&ControlReply::Heard);
        self.send().is_ok()
    }

    /// Returns true while an order of its is being carried out.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.waits_for_drain || self.waits_for_replacement || self.waits_for_scrub || self.waits_for_stop
    }

    /// Says why it is told no more, if it waits.
    pub(crate) fn give_up(&mut self, why: &str) {
        if self.is_waiting() {
            self.finished(Err(why));
        }
        // Whoever does not read the answer does not get it: nothing waits for one client.
        drop(self.send());
    }

    /// Answers an order to flush, if this connection gave one.
    pub(crate) fn drained(&mut self, how: Result<(), &str>) {
        if std::mem::take(&mut self.waits_for_drain) {
            self.finished(how);
        }
    }

    /// Tells how far something is, unless the last time has not been heard yet.
    pub(crate) fn tell_progress(&mut self, reply: &ControlReply) {
        // Progress that piles up at a slow reader would be stale and take memory.
        if self.send_queue.left() == 0 {
            self.reply(reply);
        }
    }

    /// Answers the order of a scrub.
    pub(crate) fn scrubbed(&mut self, reply: &ControlReply) {
        self.waits_for_scrub = false;
        self.reply(reply);
    }

    /// The service ends now; what it is told is sent at once.
    pub(crate) fn stopped(&mut self, how: Result<(), &str>) {
        if std::mem::take(&mut self.waits_for_replacement) {
            self.finished(Err("the service has ended before the cache was written back: it is not replaced"));
            drop(self.send());
        }
        if std::mem::take(&mut self.waits_for_scrub) {
            self.finished(Err("the service has ended, and rows were still being compared"));
            drop(self.send());
        }
        if std::mem::take(&mut self.waits_for_stop) {
            self.finished(how);
            // Whoever does not read the answer does not get it: the service ends now.
            drop(self.send());
        }
    }

    /// Refuses the order to end, if it gave one.
    pub(crate) fn refused_stop(&mut self, why: &str) {
        if std::mem::take(&mut self.waits_for_stop) {
            self.finished(Err(why));
        }
    }

    fn finished(&mut self, how: Result<(), &str>) {
        self.reply(&match how {
            Ok(()) => ControlReply::Done,
            Err(why) => ControlReply::Failed(why.to_owned()),
        });
    }

    fn send(&mut self) -> io::Result<bool> {
        self.send_queue.send(&mut self.stream, drop)
    }

    /// Sends what there is to send; whether there is still somebody.
    pub(crate) fn attend(&mut self) -> bool {
        let fine = self.send().is_ok();
        let over = self.ended && self.send_queue.left() == 0 && !self.is_waiting();
        // A connection whose replacement is in flight keeps its number even if it is gone, so nobody else gets
        // its answer.
        (fine || self.waits_for_replacement) && !over
    }
}
