//! Who runs the service says what it is to do.

use std::time::Instant;

use super::{BOSSES, PAUSE, SILENCE, Service, ServiceError, Source, cannot};
use crate::control::{ControlConnection, Order, Reply};
use crate::socket::Listener;
use crate::status::{Clients, MemoryStatus, State, Status};
use crate::waiter::Interest;
use crate::{Backend, ServiceEvent};

impl<B: Backend> Service<B> {
    /// Accepts control connections, if need be by the descriptor in reserve.
    pub(super) fn welcome_bosses(&mut self) -> Result<(), ServiceError> {
        loop {
            if self.bosses.len() >= BOSSES && !self.dismiss_idlest_boss() {
                return self.pause();
            }
            match self.control.as_ref().map_or(Ok(None), Listener::accept) {
                Ok(Some(stream)) => {
                    // Orders themselves leave room for the files that they are about.
                    if !self.descriptors.has_room_beside_order(&stream) {
                        self.dismiss_idlest_boss();
                    }
                    let entry = self.bosses.vacant_entry();
                    let number = Source::Boss(entry.key()).number();
                    if self.waiter.add(&stream, number, Interest::READ).is_ok() {
                        entry.insert(ControlConnection::new(stream));
                    }
                }
                Ok(None) => return Ok(()),
                // Files or memory have run out.
                Err(_) if self.descriptors.give_up_reserve() || self.dismiss_idlest_boss() => {}
                Err(_) => return self.pause(),
            }
        }
    }

    /// Has orders wait until there may be room.
    fn pause(&mut self) -> Result<(), ServiceError> {
        self.shut_control(Interest::default())?;
        self.unwelcome = Some(Instant::now() + PAUSE);
        Ok(())
    }

    /// Waits for this of the control socket.
    pub(super) fn shut_control(&self, interest: Interest) -> Result<(), ServiceError> {
        let changed = self
            .control
            .as_ref()
            .map_or(Ok(()), |listener| self.waiter.change(listener, Source::Control.number(), interest));
        changed.map_err(cannot("wait for orders"))
    }

    /// Dismisses the control connection that has given no order for longest, or else the one that has waited longest for
    /// an order, which is carried out all the same. Returns false if all have just come.
    fn dismiss_idlest_boss(&mut self) -> bool {
        // Nobody else gets the answer to a replacement, and a scrub would end.
        let others = self.bosses.iter().filter(|(_, boss)| !boss.waits_for_replacement && !boss.waits_for_scrub);
        let idlest = others.min_by_key(|(_, boss)| (boss.is_waiting(), boss.since)).map(|(at, _)| at);
        let Some(at) = idlest.filter(|at| self.bosses[*at].is_waiting() || self.bosses[*at].since.elapsed() >= SILENCE)
        else {
            return false;
        };
        let mut boss = self.bosses.remove(at);
        boss.give_up("others give orders: this one is carried out, and nobody is told when that is done");
        self.waiter.remove(boss.stream());
        true
    }

    pub(super) fn hear_boss(&mut self, at: usize) {
        while let Some(order) = self.bosses.get_mut(at).and_then(ControlConnection::next) {
            // Before it is begun, since that may take long: who has given it up meanwhile does not get it.
            if order == Order::Status || self.bosses[at].acknowledge() {
                self.obey(at, order);
            }
        }
    }

    fn obey(&mut self, at: usize, order: Order) {
        match order {
            Order::Status => {
                let status = self.status();
                self.bosses[at].reply(&Reply::Status(Box::new(status)));
            }
            Order::Flush => {
                self.happened(|| ServiceEvent::Ordered { order: "flush".to_owned(), refused: None });
                if let Some(why) = self.broken.clone() {
                    self.bosses[at].reply(&Reply::Failed(why));
                } else {
                    match self.backend.begin_drain() {
                        Ok(()) => self.bosses[at].waits_for_drain = true,
                        Err(error) => self.give_up(&error),
                    }
                }
            }
            Order::Replace(replacement) => self.replace(at, replacement),
            Order::Scrub(order) => self.scrub(at, &order),
            Order::Stop => {
                self.happened(|| ServiceEvent::Stopping { why: "destage stop".to_owned() });
                self.bosses[at].waits_for_stop = true;
                self.begin_end(false);
            }
            Order::Pause => match self.pause_device() {
                Ok(()) => {
                    self.happened(|| ServiceEvent::Stopping { why: "destage stop --pause".to_owned() });
                    self.bosses[at].waits_for_stop = true;
                }
                Err(why) => self.bosses[at].reply(&Reply::Failed(why.to_owned())),
            },
        }
    }

    pub(super) fn status(&self) -> Status {
        let mut array = self.backend.status();
        if let Some(why) = &self.broken {
            array.state = State::Stopped(why.clone());
        }
        Status {
            pid: std::process::id(),
            up_seconds: self.begin.elapsed().as_secs_f64(),
            uris: self.uris().collect(),
            block_device: self.block_device(),
            array,
            clients: Clients {
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
    pub(super) fn tend_bosses(&mut self) {
        if self.broken.is_none() && !self.backend.is_draining() {
            self.bosses.iter_mut().for_each(|(_, boss)| boss.drained(Ok(())));
        }
        // Who hears that an order is carried out finds what it did in the log, however busy clients keep the service.
        if self.bosses.iter().any(|(_, boss)| boss.has_unsent()) {
            self.tell_news();
        }
        let mut gone = Vec::new();
        for (at, boss) in &mut self.bosses {
            if boss.attend() {
                let wanted = boss.wanted();
                // A boss that cannot be waited for is gone as well.
                if wanted != boss.interest
                    && self.waiter.change(boss.stream(), Source::Boss(at).number(), wanted).is_ok()
                {
                    boss.interest = wanted;
                }
            } else {
                gone.push(at);
                self.waiter.remove(boss.stream());
            }
        }
        if !gone.is_empty() {
            for at in gone {
                drop(self.bosses.remove(at));
            }
            self.descriptors.refill();
        }
    }
}
