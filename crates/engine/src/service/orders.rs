//! Who runs the service says what it is to do.

use super::{Service, ServiceError, Source, cannot};
use crate::control::{Control, Order, Reply};
use crate::status::{Clients, State, Status};
use crate::waiter::Interest;
use crate::{Backend, Event};

impl<B: Backend> Service<B> {
    pub(super) fn welcome_boss(&mut self) -> Result<(), ServiceError> {
        // Who cannot be taken in tries again.
        while let Some(stream) = self.control.as_ref().and_then(|listener| listener.accept().ok().flatten()) {
            let entry = self.bosses.vacant_entry();
            let number = Source::Boss(entry.key()).number();
            self.waiter.add(&stream, number, Interest::READ).map_err(cannot("wait for orders"))?;
            entry.insert(Control::new(stream));
        }
        Ok(())
    }

    pub(super) fn hear_boss(&mut self, at: usize) {
        while let Some(order) = self.bosses.get_mut(at).and_then(Control::next) {
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
                self.happened(|| Event::Ordered { order: "flush".to_owned(), refused: None });
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
            Order::Stop => {
                self.happened(|| Event::Stopping { why: "destage stop".to_owned() });
                self.bosses[at].waits_for_stop = true;
                self.stopping = true;
            }
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
            array,
            clients: Clients {
                now: self.clients.len() as u64,
                came: self.load.clients,
                lost: self.load.lost_clients,
                last_loss: self.load.last_loss.clone(),
                turned_away: self.load.turned_away,
                under_way: self.pending.len() as u64,
            },
            requests: self.load.requests(),
        }
    }

    /// Tells those who wait that what they wait for has come, and sends what is to be sent.
    pub(super) fn tend_bosses(&mut self) {
        let drained = !self.backend.is_draining();
        let mut gone = Vec::new();
        for (at, boss) in &mut self.bosses {
            if boss.waits_for_drain && drained && self.broken.is_none() {
                boss.drained(Ok(()));
            }
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
        for at in gone {
            drop(self.bosses.remove(at));
        }
    }
}
