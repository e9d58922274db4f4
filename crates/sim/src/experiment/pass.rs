//! One pass over a trace: it is read once, and fed to all runs.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use destage_plan::Request;
use destage_trace::{ClockWraps, SkippedLines};
use rayon::prelude::*;

use super::passes::TraceReading;
use super::{ExperimentError, OpenedInput, StopSignal, is_told};
use crate::input::{FeedBuilder, FeedCounts, RequestFeed, TouchedExtent};
use crate::measure::InputResult;

/// Requests in a feed of a single run, whose tables are to stay in the processor's cache beside it.
const REQUESTS_PER_ONLY_FEED: usize = 1 << 13;
/// A feed of long requests ends once it has so many times as many spans of pages as it may have
/// requests.
const SPANS_PER_REQUEST: usize = 4;
/// Feeds that the reader may be ahead.
const FEEDS_AHEAD: usize = 2;

/// A run that takes requests.
pub(crate) trait ConsumeFeeds: Send {
    /// Holds the findings of a run.
    type Outcomes: Send;

    /// Requests in a feed of several runs: enough work for a thread to be worth waking, and for a run to fetch its
    /// tables anew. Little enough that progress is told every few seconds.
    const REQUESTS_PER_FEED: usize = 1 << 18;

    /// Simulates a batch, or as much of it as there is time for until it is told to end.
    fn feed(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>);

    /// Does what is left to do after the last batch, and tells what was found.
    /// They mean nothing once it is told to end. `show` hears now and then which part of a rebuild is done, where that
    /// is what is left.
    fn finish(&mut self, stop: Option<&StopSignal>, show: &(dyn Fn(f64) + Sync)) -> Self::Outcomes;
}

/// Holds the counts at the end of a pass.
pub(crate) struct PassEnd {
    pub(crate) counts: FeedCounts,
    pub(crate) skipped: SkippedLines,
    pub(crate) clock_wraps: ClockWraps,
    pub(crate) passed_over: u64,
    /// Requests in front of the window.
    pub(crate) outside: u64,
    pub(crate) format: String,
    /// Holds the blocks that the trace touches, where there is no device.
    pub(crate) extent: Option<TouchedExtent>,
    /// Lists the blocks that it touches, ranges in order, where the feeder keeps these.
    pub(crate) touched: Vec<Range<u64>>,
    /// Lists the volumes that were chosen, and what was asked for and is none; nothing if all take part.
    pub(crate) chosen: Option<(String, Option<String>)>,
    /// The trace's names of its volumes, where the feeder keeps where requests come from.
    pub(crate) volume_names: Vec<String>,
}

impl PassEnd {
    /// Fails if nothing was measured.
    pub(crate) fn check(&self, measured: bool) -> Result<(), ExperimentError> {
        if measured { Ok(()) } else { Err(ExperimentError::Warmup { requests: self.counts.read }) }
    }

    /// Returns the input's counts for the results.
    pub(crate) fn input(&self, trace: &str) -> InputResult {
        InputResult {
            trace: trace.to_owned(),
            format: self.format.clone(),
            trace_requests: self.counts.read,
            outside_requests: self.outside,
            left_out_requests: self.counts.left_out,
            chosen_volumes: self.chosen.as_ref().map(|(chosen, _)| chosen.clone()),
            overflowed_requests: self.counts.overflowed,
            cut_discards: self.counts.cut_discards,
            cut_discard_bytes: self.counts.cut_bytes,
            reversed_requests: self.counts.reversed,
            skipped_lines: self.skipped.count,
            passed_over_lines: self.passed_over,
            characteristics: None,
            sizes: None,
        }
    }
}

/// Reads the trace once and feeds it to all jobs; `progress` is told the share and the requests
/// read.
pub(super) fn run<J: ConsumeFeeds>(
    pool: &rayon::ThreadPool,
    jobs: &mut [J],
    input: OpenedInput,
    feeder: FeedBuilder,
    (reading, stop): (&TraceReading<'_>, Option<&StopSignal>),
    progress: &mut dyn FnMut(Option<f64>, u64),
) -> Result<PassEnd, ExperimentError> {
    // One run works best on feeds that stay in the cache; several runs each have tables of their own to
    // fetch.
    let per_feed = if jobs.len() == 1 { REQUESTS_PER_ONLY_FEED } else { J::REQUESTS_PER_FEED };
    let (trace, left) = (reading.trace, reading.limit.unwrap_or(u64::MAX));
    let reader = ReaderThread { trace, input, feeder, per_feed, left, batch: Vec::new(), taken: 0 };
    // Bounded channels bound the memory, and the feeds circulate, so that none is allocated during the
    // pass.
    let (full_sender, full) = sync_channel(FEEDS_AHEAD);
    let (empty_sender, empty) = sync_channel(FEEDS_AHEAD + 1);
    for _ in 0..=FEEDS_AHEAD {
        empty_sender.send(RequestFeed::default()).expect("the channel has room for all feeds");
    }
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new()
            .name("trace reader".into())
            .spawn_scoped(scope, move || reader.run(&full_sender, &empty))
            .map_err(|error| ExperimentError::Threads(error.to_string()))?;
        let mut requests = 0;
        // Moved in, so that the reader does not wait for ever should a run panic.
        let empty_sender = empty_sender;
        for (feed, share) in full {
            if is_told(stop) {
                return Err(ExperimentError::Stopped);
            }
            // A single run stays on this thread: handing each feed to a pool would only add waits.
            if let [only] = jobs {
                only.feed(&feed, stop);
            } else {
                pool.install(|| jobs.par_iter_mut().with_max_len(1).for_each(|job| job.feed(&feed, stop)));
            }
            requests += feed.requests.len() as u64;
            progress(share, requests);
            // The reader may be gone already; then the feed is not needed any more.
            let _ = empty_sender.send(feed);
        }
        reading.join().map_err(|_| ExperimentError::Threads("the trace reader panicked".into()))?
    })
}

/// Reads the trace, and at most so many requests of it, for a job that takes no time; `progress` is told the share
/// and the requests read.
pub(crate) fn look<J: ConsumeFeeds>(
    job: &mut J,
    input: OpenedInput,
    feeder: FeedBuilder,
    reading: &TraceReading<'_>,
    progress: &mut dyn FnMut(Option<f64>, u64),
) -> Result<PassEnd, ExperimentError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.map_err(|error| ExperimentError::Threads(error.to_string()))?;
    run(&pool, std::slice::from_mut(job), input, feeder, (reading, None), progress)
}

/// The thread that turns the trace into feeds.
struct ReaderThread<'a> {
    trace: &'a str,
    input: OpenedInput,
    feeder: FeedBuilder,
    per_feed: usize,
    left: u64,
    batch: Vec<Request>,
    /// Requests of the batch that are in a feed already.
    taken: usize,
}

impl ReaderThread<'_> {
    fn run(
        mut self,
        full: &SyncSender<(RequestFeed, Option<f64>)>,
        empty: &Receiver<RequestFeed>,
    ) -> Result<PassEnd, ExperimentError> {
        let mut ended = false;
        while !ended {
            // Only a consumer that has given up hangs up.
            let Ok(mut feed) = empty.recv() else { break };
            feed.clear();
            // Large requests have many spans, so the number of requests alone would not bound a feed.
            let most_spans = SPANS_PER_REQUEST * self.per_feed;
            while feed.requests.len() < self.per_feed && feed.spans.len() < most_spans {
                if self.taken == self.batch.len() {
                    self.input.source.next_batch(&mut self.batch)?;
                    self.taken = 0;
                    // A volume is named no later than its first request, so the names are known in time.
                    self.feeder.learn_volumes(self.input.source.volume_names());
                }
                let left = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.per_feed - feed.requests.len());
                let requests = &self.batch[self.taken..];
                let requests = &requests[..requests.len().min(left)];
                if requests.is_empty() {
                    ended = true;
                    break;
                }
                let taken = self.feeder.append(requests, most_spans, &mut feed);
                let next = taken.map_err(|(request, error)| {
                    let (trace, request) = (self.trace.to_owned(), request + self.input.source.outside());
                    ExperimentError::Space { trace, request, error }
                })?;
                self.taken += next;
                self.left -= next as u64;
            }
            if full.send((feed, self.input.source.progress())).is_err() {
                break;
            }
        }
        Ok(PassEnd {
            counts: self.feeder.counts(),
            skipped: self.input.source.skipped(),
            clock_wraps: self.input.source.clock_wraps(),
            passed_over: self.input.source.passed_over(),
            outside: self.input.source.outside(),
            format: std::mem::take(&mut self.input.format),
            extent: self.feeder.extent(),
            touched: self.feeder.touched(),
            chosen: self.feeder.chosen_volumes(),
            volume_names: if self.feeder.is_keeping_origins() {
                self.input.source.volume_names().to_vec()
            } else {
                Vec::new()
            },
        })
    }
}
