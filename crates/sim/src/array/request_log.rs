//! The log of an array's requests, each of which is added when it is answered.

use destage_plan::Nanos;

use crate::measure::{LoggedRequest, PendingLog, RequestLog};

/// Holds a log and the requests without an answer, which are as many as are outstanding.
pub(super) struct AnswerLog {
    pending: PendingLog,
    /// Holds them by tag.
    unanswered: Vec<Option<LoggedRequest>>,
}

impl AnswerLog {
    /// Begins with nothing.
    pub(super) fn new(to: Box<dyn RequestLog>) -> Self {
        Self { pending: PendingLog::new(to), unanswered: Vec::new() }
    }

    /// Notes a request whose answer comes under this tag.
    pub(super) fn begin(&mut self, tag: u32, request: LoggedRequest) {
        let tag = tag as usize;
        if self.unanswered.len() <= tag {
            self.unanswered.resize(tag + 1, None);
        }
        self.unanswered[tag] = Some(request);
    }

    /// Adds the request with this tag, unless it was not to be measured.
    pub(super) fn answered(&mut self, tag: u32, response: Option<Nanos>, gc_delayed: bool) {
        let request = self.unanswered.get_mut(tag as usize).and_then(Option::take);
        self.pending.extend(request.map(|request| LoggedRequest { response, gc_delayed, ..request }));
    }

    /// Adds a request that asks the array for nothing.
    pub(super) fn answered_at_once(&mut self, request: LoggedRequest) {
        self.pending.extend([request]);
    }

    /// Gives the log what was added.
    pub(super) fn hand_over(&mut self) {
        self.pending.hand_over();
    }

    /// Returns true if the log takes no more.
    pub(super) fn has_given_up(&self) -> bool {
        self.pending.has_given_up()
    }
}
