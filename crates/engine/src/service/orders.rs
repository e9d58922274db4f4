//! Takes orders from the operator's control connections.

use std::time::Instant;

use super::{BlockService, CONTROLS, EventSource, PAUSE, SILENCE, ServiceError, cannot};
use crate::control::{ControlConnection, ControlReply, ServiceCommand};
use crate::socket::SocketListener;
use crate::status::{ArrayState, ClientCounts, MemoryStatus, ServiceStatus};
use crate::waiter::IoInterest;
use crate::{BlockBackend, ServiceEvent};

impl<B: BlockBackend> BlockService<B> {
    /// Accepts control connections, if need be by the descriptor in reserve.
    pub(super) fn accept_controls(&mut self) -> Result<(), ServiceError> {
        loop {
            if self.controls.len() >= CONTROLS && !self.close_idlest_control() {
                return self.pause();
            }
            match self.control.as_ref().map_or(Ok(None), SocketListener::accept) {
                Ok(Some(stream)) => {
                    // An order needs descriptors for the files that it is about, so an idle connection gives up its own.
                    if !self.descriptors.has_room_beside_order(&stream) {
                        self.close_idlest_control();
                    }
                    let entry = self.controls.vacant_entry();
                    let number = EventSource::ControlClient(entry.key()).number();
                    if self.waiter.add(&stream, number, IoInterest::READ).is_ok() {
                        entry.insert(ControlConnection::new(stream));
                    }
                }
                Ok(None) => return Ok(()),
                // Descriptors or memory have run out. The reserve is for this: an operator must be heard when
                // clients use up the rest.
                Err(_) if self.descriptors.give_up_reserve() || self.close_idlest_control() => {}
                Err(_) => return self.pause(),
            }
        }
    }

    /// Has orders wait until there may be room.
    fn pause(&mut self) -> Result<(), ServiceError> {
        self.shut_control(IoInterest::default())?;
        self.unwelcome = Some(Instant::now() + PAUSE);
        Ok(())
    }

    /// Waits for this of the control socket.
    pub(super) fn shut_control(&self, interest: IoInterest) -> Result<(), ServiceError> {
        let changed = self
            .control
            .as_ref()
            .map_or(Ok(()), |listener| self.waiter.change(listener, EventSource::Control.number(), interest));
        changed.map_err(cannot("wait for orders"))
    }

    /// Dismisses the control connection that has given no order for longest, or else the one that has waited longest for
    /// an order, which is carried out all the same. Returns false if all have just come.
    fn close_idlest_control(&mut self) -> bool {
        // Nobody else would get the answer to a replacement, and a scrub would end with its connection.
        let others =
            self.controls.iter().filter(|(_, control)| !control.waits_for_replacement && !control.waits_for_scrub);
        let idlest = others.min_by_key(|(_, control)| (control.is_waiting(), control.since)).map(|(at, _)| at);
        let Some(at) =
            idlest.filter(|at| self.controls[*at].is_waiting() || self.controls[*at].since.elapsed() >= SILENCE)
        else {
            return false;
        };
        let mut control = self.controls.remove(at);
        control.give_up("others give orders: this one is carried out, and nobody is told when that is done");
        self.waiter.remove(control.stream());
        true
    }

    pub(super) fn read_control(&mut self, at: usize) {
        while let Some(order) = self.controls.get_mut(at).and_then(ControlConnection::next) {
            // Acknowledged before it begins, since it may take long: a client that has given up meanwhile does not
            // get it done.
            if order == ServiceCommand::Status || self.controls[at].acknowledge() {
                self.obey(at, order);
            }
        }
    }

    fn obey(&mut self, at: usize, order: ServiceCommand) {
        match order {
            ServiceCommand::Status => {
                let status = self.status();
                self.controls[at].reply(&ControlReply::Status(Box::new(status)));
            }
            ServiceCommand::Flush => {
                self.happened(|| ServiceEvent::Ordered { order: "flush".to_owned(), refused: None });
                if let Some(why) = self.broken.clone() {
                    self.controls[at].reply(&ControlReply::Failed(why));
                } else {
                    match self.backend.begin_drain() {
                        Ok(()) => self.controls[at].waits_for_drain = true,
                        Err(error) => self.stop_answering(&error),
                    }
                }
            }
            ServiceCommand::Replace(replacement) => self.replace(at, replacement),
            ServiceCommand::Scrub(order) => self.scrub(at, &order),
            ServiceCommand::Stop => {
                self.happened(|| ServiceEvent::Stopping { why: "destage stop".to_owned() });
                self.controls[at].waits_for_stop = true;
                // An order to stop may be refused while the block device is in use; a signal may not.
                self.begin_end(false);
            }
            ServiceCommand::Pause => match self.pause_device() {
                Ok(()) => {
                    self.happened(|| ServiceEvent::Stopping { why: "destage stop --pause".to_owned() });
                    self.controls[at].waits_for_stop = true;
                }
                Err(why) => self.controls[at].reply(&ControlReply::Failed(why.to_owned())),
            },
        }
    }

    pub(super) fn status(&self) -> ServiceStatus {
        let mut array = self.backend.status();
        if let Some(why) = &self.broken {
            array.state = ArrayState::Stopped(why.clone());
        }
        ServiceStatus {
            pid: std::process::id(),
            up_seconds: self.begin.elapsed().as_secs_f64(),
            uris: self.uris().collect(),
            block_device: self.block_device(),
            array,
            clients: ClientCounts {
                now: self.clients.len() as u64,
                came: self.load.clients,
                lost: self.load.lost_clients,
                last_loss: self.load.last_loss.clone(),
                turned_away: self.load.turned_away,
                under_way: self.pending.len() as u64,
            },
            memory: MemoryStatus {
                held_bytes: self.budget.held() as u64,
                limit_bytes: self.budget.limit() as u64,
                waiting_clients: self.budget.waiting() as u64,
                failed_requests: self.budget.failed(),
            },
            requests: self.load.requests(),
        }
    }

    /// Tells those who wait that what they wait for has come, and sends what is to be sent.
    pub(super) fn serve_controls(&mut self) {
        if self.broken.is_none() && !self.backend.is_draining() {
            self.controls.iter_mut().for_each(|(_, control)| control.drained(Ok(())));
        }
        // Whoever hears that an order is carried out finds its events in the log, however busy clients keep the
        // service.
        if self.controls.iter().any(|(_, control)| control.has_unsent()) {
            self.report_news();
        }
        let mut gone = Vec::new();
        for (at, control) in &mut self.controls {
            if control.attend() {
                let wanted = control.wanted();
                // A connection that cannot be waited for is gone as well.
                if wanted != control.interest
                    && self.waiter.change(control.stream(), EventSource::ControlClient(at).number(), wanted).is_ok()
                {
                    control.interest = wanted;
                }
            } else {
                gone.push(at);
                self.waiter.remove(control.stream());
            }
        }
        if !gone.is_empty() {
            for at in gone {
                drop(self.controls.remove(at));
            }
            self.descriptors.refill();
        }
    }
}
