//! Progress of one thing of which a share is done: a bar on a terminal, elsewhere a line now and then.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::pace::ProgressPace;
use crate::progress::{STEPS, bar_on_stderr, lock};
use crate::teller::PeriodicMessage;

/// Holds what is known of how far it is.
#[derive(Debug, Default)]
struct ShareProgress {
    pace: ProgressPace,
    done: f64,
    words: Option<String>,
}

impl ShareProgress {
    fn line(&self, now: Duration) -> Option<String> {
        self.words.as_ref().map(|words| format!("{words}, {}", self.pace.words(now)))
    }
}

/// Shows how far something is, until it is dropped.
pub struct ShareBar {
    shown: ProgressBar,
    started: Instant,
    state: Arc<Mutex<ShareProgress>>,
    _teller: Option<PeriodicMessage>,
}

impl ShareBar {
    /// Makes one on the standard error.
    pub fn new() -> Self {
        let shown = bar_on_stderr(true, Some(STEPS), "{bar:20} {percent:>3} %  {wide_msg}");
        let (started, state) = (Instant::now(), Arc::<Mutex<ShareProgress>>::default());
        let told = Arc::clone(&state);
        let teller = PeriodicMessage::to_stderr(move || {
            let state = lock(&told);
            state.line(started.elapsed()).map(|line| format!("{:.0} %: {line}", 100.0 * state.done))
        });
        Self { shown, started, state, _teller: teller }
    }

    /// Shows what share is done, from 0 to 1, and these words with it.
    pub fn show(&self, share: f64, words: String) {
        let now = self.started.elapsed();
        let mut state = lock(&self.state);
        state.pace.reach(now, share);
        (state.done, state.words) = (share, Some(words));
        if !self.shown.is_hidden() {
            self.shown.set_position((share * STEPS as f64) as u64);
            self.shown.set_message(state.line(now).unwrap_or_default());
        }
    }
}

impl Drop for ShareBar {
    fn drop(&mut self) {
        self.shown.finish_and_clear();
        lock(&self.state).words = None;
    }
}
