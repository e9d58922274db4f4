//! Clients come and go.

use std::sync::Arc;
use std::time::Instant;

use super::{BlockService, CLIENTS, EventSource, HANDSHAKE, PAUSE, ServiceError, WATCH, cannot};
use crate::connection::{ClientConnection, ConnectionLoss};
use crate::descriptors::DescriptorReserve;
use crate::waiter::IoInterest;
use crate::{BlockBackend, ServiceEvent};

impl<B: BlockBackend> BlockService<B> {
    /// Returns how many clients there can be at a time, if the limit of open files makes them fewer than they might be.
    pub fn clients_for_want_of_files(&self) -> Option<u64> {
        let room = DescriptorReserve::room_for_clients()? + self.clients.len() as u64;
        (room < CLIENTS as u64).then_some(room)
    }

    pub(super) fn accept_clients(&mut self, at: usize) -> Result<(), ServiceError> {
        loop {
            let stream = match self.listeners[at].accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => break,
                Err(_) => {
                    // Descriptors or memory have run out: accepting is tried again when some may be free. Trying at
                    // once would spin.
                    self.load.turned_away += 1;
                    self.set_listening(IoInterest::default())?;
                    self.unwelcome = Some(Instant::now() + PAUSE);
                    break;
                }
            };
            let is_full = self.clients.len() >= CLIENTS;
            let entry = self.clients.vacant_entry();
            let number = entry.key();
            // A client that is turned away finds its connection closed.
            if is_full
                || !self.descriptors.has_room_beside_client(&stream)
                || self.waiter.add(&stream, EventSource::Client(number).number(), IoInterest::READ).is_err()
            {
                self.load.turned_away += 1;
                continue;
            }
            entry.insert(ClientConnection::new(stream, Arc::clone(&self.exports)));
            self.load.clients += 1;
            let clients = self.clients.len();
            self.happened(|| ServiceEvent::ClientCame { clients });
            // In NBD the server speaks first.
            self.mark_ready(number);
        }
        Ok(())
    }

    /// Waits for this of all listeners.
    pub(super) fn set_listening(&self, interest: IoInterest) -> Result<(), ServiceError> {
        for (at, listener) in self.listeners.iter().enumerate() {
            let changed = self.waiter.change(listener, EventSource::Listener(at).number(), interest);
            changed.map_err(cannot("wait for clients"))?;
        }
        Ok(())
    }

    pub(super) fn drop_client(&mut self, at: usize, lost: Option<&ConnectionLoss>) {
        let client = self.clients.get_mut(at);
        let Some(client) = client else { return };
        if lost.is_some() {
            self.load.lost_clients += 1;
            self.load.last_loss = lost.map(ToString::to_string);
        }
        self.waiter.remove(&client.stream);
        client.leave();
        self.budget.leave(at);
        self.budget.settle(at, client.held());
        // The number stays taken until the last request is answered, so no reply goes to another client.
        let (is_idle, clients) = (client.requests == 0, self.clients.len() - 1);
        self.happened(|| ServiceEvent::ClientGone { clients, why: lost.map(ToString::to_string) });
        if is_idle {
            drop(self.clients.remove(at));
            self.descriptors.refill();
        }
    }

    /// Takes note that a client's socket has something to be received, room for what is to be sent, or an end.
    pub(super) fn client_is_ready(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at) else { return };
        client.readable = true;
        if client.is_waiting() && client.interest == IoInterest::default() {
            // No event was waited for, so this is the end of the connection, which epoll would report again and
            // again.
            self.drop_client(at, Some(&ConnectionLoss::Cut));
        } else {
            self.mark_ready(at);
        }
    }

    /// Dismisses clients that hold memory which others wait for, and move hardly anything of it.
    pub(super) fn drop_stalled(&mut self) {
        if self.budget.waiting() == 0 {
            self.watched = None;
            return;
        }
        if self.holds_requests() {
            // The service itself holds requests back, so clients cannot be blamed for not moving.
            for (_, client) in &mut self.clients {
                client.excuse();
            }
        }
        let now = Instant::now();
        if self.watched.is_some_and(|last| now - last < WATCH) {
            return;
        }
        self.watched = Some(now);
        let stalled = |(at, client): (usize, &mut ClientConnection)| {
            // Within its floor a client keeps nothing that others could use.
            (self.budget.is_beyond_floor(at) && client.is_stalled(now)).then_some(at)
        };
        let stalled: Vec<_> = self.clients.iter_mut().filter_map(stalled).collect();
        for at in stalled {
            self.drop_client(at, Some(&ConnectionLoss::Stalled));
        }
    }

    /// Dismisses clients that have not agreed on an export in time: each keeps one of 1,024 places.
    pub(super) fn drop_silent(&mut self) {
        let silent = |client: &ClientConnection| client.session().is_none() && client.since.elapsed() >= HANDSHAKE;
        let silent: Vec<_> = self.clients.iter().filter(|(_, client)| silent(client)).map(|(at, _)| at).collect();
        for at in silent {
            self.drop_client(at, Some(&ConnectionLoss::Cut));
        }
    }
}
