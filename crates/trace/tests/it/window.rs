//! Windows of traces, and traces again and again, against a model that looks at all requests at once.

use std::path::Path;

use destage_trace::{Nanos, Op, RepeatedTrace, Request, TraceError, TraceSource, TraceWindow, WindowedTrace};
use proptest::prelude::*;

use crate::in_memory::InMemory;

fn requests(times: &[u64]) -> Vec<Request> {
    let request = |(n, &time): (usize, &u64)| Request {
        time: Nanos(time),
        offset: 4096 * n as u64,
        len: 4096,
        volume: 0,
        op: Op::Write,
        fua: false,
    };
    times.iter().enumerate().map(request).collect()
}

/// Offsets and times of what a source yields, how many lay in front of them, and the error.
type Yield = (Vec<(u64, u64)>, u64, Option<String>);

fn read(source: &mut dyn TraceSource) -> Yield {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    let error = loop {
        match source.next_batch(&mut batch) {
            Ok(()) if batch.is_empty() => break None,
            Ok(()) => {
                let mut latencies = Vec::new();
                assert!(source.latencies(&mut latencies).unwrap());
                // In memory the latency of a request is where it begins.
                assert!(latencies.iter().map(|l| l.0).eq(batch.iter().map(|r| r.offset)), "{latencies:?}");
                all.extend(batch.iter().map(|r| (r.offset / 4096, r.time.0)));
            }
            Err(error) => break Some(error.to_string()),
        }
    };
    (all, source.outside(), error)
}

fn windowed(times: &[u64], batch: usize, window: TraceWindow) -> Yield {
    let inner = Box::new(InMemory::new(requests(times), batch));
    read(&mut WindowedTrace::new(inner, Path::new("memory"), window))
}

/// Models the window as the documentation describes it, with all requests at hand.
fn model(times: &[u64], window: TraceWindow) -> Yield {
    let mut latest = 0;
    let mut arrivals = Vec::new();
    for &time in times {
        latest = latest.max(time);
        arrivals.push(latest);
    }
    let Some(&first) = arrivals.first() else { return (Vec::new(), 0, None) };
    let skip = usize::try_from(window.skip).unwrap().min(times.len());
    let from = window.from.map_or(0, |from| from.0);
    let begin = (skip..times.len()).find(|&n| arrivals[n] - first >= from).unwrap_or(times.len());
    let to = window.to.map_or(u64::MAX, |to| to.0);
    let end = (begin..times.len()).find(|&n| arrivals[n] - first >= to).unwrap_or(times.len());
    let end = end.min(begin.saturating_add(usize::try_from(window.limit.unwrap_or(u64::MAX)).unwrap()));
    // Where nothing is left out, nothing is changed.
    let time = |n: usize| if begin == 0 { times[n] } else { first + times[n].max(arrivals[begin]) - arrivals[begin] };
    let taken = (begin..end).map(|n| (n as u64, time(n)));
    let error = (begin == end).then(|| format!("the trace has {} requests in {} ns", times.len(), latest - first));
    (taken.collect(), begin as u64, error)
}

fn same(times: &[u64], batch: usize, window: TraceWindow) {
    let (found, wanted) = (windowed(times, batch, window), model(times, window));
    assert_eq!((&found.0, found.1), (&wanted.0, wanted.1), "{times:?} {window:?}");
    match (found.2, wanted.2) {
        (None, None) => {}
        (Some(found), Some(wanted)) => assert!(found.ends_with(&wanted), "{found}; {wanted}"),
        (found, wanted) => panic!("{found:?}; {wanted:?}; {times:?} {window:?}"),
    }
}

const TIMES: [u64; 6] = [5, 10, 20, 15, 40, 50];

#[test]
fn a_window_by_hand() {
    let window = |skip, from: Option<u64>, to: Option<u64>, limit| {
        let window = TraceWindow { skip, from: from.map(Nanos), to: to.map(Nanos), limit };
        same(&TIMES, 2, window);
        windowed(&TIMES, 4, window)
    };
    assert!(TraceWindow::default().is_all());
    assert_eq!(window(1, None, None, Some(2)), (vec![(1, 5), (2, 15)], 1, None));
    // The fourth is dated before the third, and arrives with it.
    assert_eq!(window(0, Some(15), Some(45), None), (vec![(2, 5), (3, 5), (4, 25)], 2, None));
    assert_eq!(window(3, Some(10), None, Some(1)), (vec![(3, 5)], 3, None));
    let (none, outside, error) = window(0, Some(36), Some(40), None);
    assert_eq!((none, outside), (vec![], 5));
    assert_eq!(
        error.unwrap(),
        "memory: no request lies in the window (from = 36 ns, to = 40 ns): the trace has 6 requests in 45 ns"
    );
    assert!(window(7, None, None, None).2.unwrap().contains("(skip = 7)"));
    assert_eq!(windowed(&[], 4, TraceWindow { skip: 1, ..TraceWindow::default() }), (vec![], 0, None));
}

fn repeated(times: &[u64], batch: usize, window: TraceWindow, passes: u32) -> Yield {
    let times = times.to_owned();
    let open = move || -> Result<Box<dyn TraceSource>, TraceError> {
        let inner = Box::new(InMemory::new(requests(&times), batch));
        Ok(Box::new(WindowedTrace::new(inner, Path::new("memory"), window)))
    };
    read(&mut RepeatedTrace::new(Box::new(open), passes).unwrap())
}

/// Each time begins a mean interarrival time after the latest arrival of the one before.
fn repeated_model(times: &[u64], window: TraceWindow, passes: u32) -> Yield {
    let (once, outside, error) = model(times, window);
    if error.is_some() || once.is_empty() {
        return (once, outside, error);
    }
    let (first, latest) = (once[0].1, once.iter().map(|&(_, time)| time).max().unwrap());
    let gap = (latest - first).checked_div(once.len() as u64 - 1).unwrap_or(0);
    let shift = |pass: u32| u64::from(pass) * (latest - first + gap);
    let all = (0..passes).flat_map(|pass| once.iter().map(move |&(n, time)| (n, time + shift(pass))));
    (all.collect(), outside * u64::from(passes), None)
}

#[test]
fn a_trace_three_times_by_hand() {
    let window = TraceWindow { skip: 1, limit: Some(3), ..TraceWindow::default() };
    // Arrivals at 5, 15 and (in the order of the file) 10, so that 5 lie between them on average.
    let times: Vec<_> = [5, 15, 10, 20, 30, 25, 35, 45, 40].into_iter().zip([1, 2, 3].into_iter().cycle()).collect();
    let times: Vec<_> = times.into_iter().map(|(time, n)| (n, time)).collect();
    assert_eq!(repeated(&TIMES, 2, window, 3), (times, 3, None));
    assert_eq!(repeated(&[7], 2, TraceWindow::default(), 3), (vec![(0, 7); 3], 0, None));
    assert_eq!(repeated(&[], 2, TraceWindow::default(), 3), (vec![], 0, None));
}

proptest! {
    #[test]
    fn repeated_windows_are_those_of_the_model(
        times in prop::collection::vec(0_u64..40, 0..40),
        batch in 1_usize..9,
        skip in 0_u64..10,
        limit in prop::option::of(1_u64..45),
        passes in 1_u32..5,
    ) {
        let window = TraceWindow { skip, limit, ..TraceWindow::default() };
        let (found, wanted) = (repeated(&times, batch, window, passes), repeated_model(&times, window, passes));
        assert_eq!((found.0, found.1, found.2.is_some()), (wanted.0, wanted.1, wanted.2.is_some()));
    }

    #[test]
    fn windows_are_those_of_the_model(
        times in prop::collection::vec(0_u64..40, 0..40),
        batch in 1_usize..9,
        skip in 0_u64..45,
        from in prop::option::of(0_u64..45),
        to in prop::option::of(1_u64..45),
        limit in prop::option::of(1_u64..45),
    ) {
        let skip = if skip > 41 { 0 } else { skip / 2 };
        let window = TraceWindow { skip, from: from.map(Nanos), to: to.map(Nanos), limit };
        same(&times, batch, window);
    }
}
