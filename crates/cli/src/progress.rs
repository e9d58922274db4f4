//! Progress on a terminal; nothing in a pipe.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use destage_scenario::quantity::show_count;
use destage_sim::experiment::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::screen;

/// Steps of the bar.
const STEPS: u64 = 1000;

/// The style with characters that the locale has.
fn drawn(style: ProgressStyle) -> ProgressStyle {
    if screen::utf8() { style } else { style.progress_chars("##-") }
}

/// A bar with rate and remaining time.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    /// A bar, hidden where nobody would see it.
    pub fn new(wanted: bool) -> Self {
        let seen = wanted && std::io::stderr().is_terminal();
        let target = if seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        let style = ProgressStyle::with_template("{bar:20} {percent:>3} %  {eta} left  {wide_msg}");
        if let Ok(style) = style {
            bar.set_style(drawn(style));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, started: Instant::now() }
    }

    /// Shows how far an experiment is.
    pub fn show(&self, progress: Progress) {
        let (pass, passes) = progress.pass;
        let share = (f64::from(pass) + progress.share.unwrap_or(0.0)) / f64::from(passes.max(1));
        let rate = progress.simulated as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_position((share * STEPS as f64) as u64);
        self.bar.set_message(format!(
            "{} requests x {} runs, {} requests/s",
            show_count(progress.requests),
            progress.runs,
            show_count(rate as u64)
        ));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar that counts steps.
pub struct Count {
    bar: ProgressBar,
}

impl Count {
    /// A bar for this, hidden where nobody would see it.
    pub fn new(what: &str) -> Self {
        let seen = std::io::stderr().is_terminal();
        let target = if seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos} of {len} runs  {eta} left  {wide_msg}") {
            bar.set_style(drawn(style));
        }
        Self { bar }
    }

    /// Shows how many steps are done.
    pub fn show(&self, done: usize, of: usize) {
        self.bar.set_length(of as u64);
        // Threads may report out of order.
        self.bar.set_position(self.bar.position().max(done as u64));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line of text that changes, for what has no known end.
pub struct Line {
    bar: ProgressBar,
}

impl Line {
    /// A line, hidden where nobody would see it.
    pub fn new() -> Self {
        let seen = std::io::stderr().is_terminal();
        // Often enough to see that it lives.
        let target = if seen { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Shows a text, if anybody can see it.
    pub fn show(&self, text: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text());
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
