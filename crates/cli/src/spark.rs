//! Response times over time, a line of characters for each run.

use std::io::{self, Write};

use destage_scenario::quantity::show_time;

use crate::screen::{ScreenPage, TerminalScreen};
use crate::table::{TextColumn, TextTable};

/// From the shortest to the longest response times.
const BLOCKS: [char; LEVELS] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same where there is only ASCII.
const ASCII: [char; LEVELS] = ['.', ':', '-', '=', '+', '*', '#', '@'];
/// Heights of a character.
const LEVELS: usize = 8;

/// Describes the line of a run.
#[derive(Clone, Debug)]
pub struct SparkLine {
    /// Policy and what else says which run it is.
    pub keys: Vec<String>,
    /// Width of a bin in ns.
    pub width: u64,
    /// Requests that arrived in each bin, and the sum of their response times in ns.
    pub bins: Vec<(u64, u64)>,
    /// Why there are no response times, in a word, if so.
    pub without: Option<&'static str>,
}

/// Prints the mean response times of runs over time, on one scale for all of them; nothing where no
/// run has two.
pub fn print(screen: &mut TerminalScreen, keys: Vec<TextColumn>, runs: &[SparkLine]) -> io::Result<()> {
    let mut table = TextTable::new(keys.clone());
    for run in runs {
        table.add(run.keys.clone());
    }
    let room = table.room(screen.page());
    let Some(chart) = SparkChart::new(runs, room) else { return Ok(()) };
    let mut table = TextTable::new(keys.into_iter().chain([TextColumn::word("")]));
    for (run, means) in runs.iter().zip(&chart.means) {
        let line = run.without.map_or_else(|| chart.line(means, screen.page()), str::to_owned);
        table.add(run.keys.iter().cloned().chain([line]));
    }
    writeln!(screen)?;
    let text = chart.legend(screen.page());
    screen.paragraph("", &text)?;
    writeln!(screen)?;
    table.print(screen)
}

/// Means of all runs on a common scale.
struct SparkChart {
    /// Time that a character stands for, in ns.
    step: u64,
    /// The mean of each character of each run, in ns; none where no request arrived.
    means: Vec<Vec<Option<f64>>>,
    /// The least and the greatest of them.
    range: (f64, f64),
    /// Holds the ratio of a height to the one below.
    factor: f64,
}

impl SparkChart {
    fn new(runs: &[SparkLine], room: usize) -> Option<Self> {
        // Bins are powers of two wide, so the widest fit all.
        let widest = runs.iter().map(|run| run.width).max().filter(|&width| width > 0)?;
        let span = |run: &SparkLine| (run.bins.len() as u64).div_ceil((widest / run.width).max(1));
        let longest = runs.iter().map(span).max()?;
        let step = widest.checked_mul(longest.div_ceil(room.max(1) as u64))?;
        let means: Vec<_> = runs.iter().map(|run| means(run, step)).collect();
        let known = || means.iter().flatten().filter_map(|mean| *mean).filter(|&mean| mean > 0.0);
        let most = known().max_by(f64::total_cmp)?;
        let least = known().min_by(f64::total_cmp)?;
        if means.iter().all(|means| means.iter().flatten().count() < 2) {
            return None;
        }
        // Small differences are not to look large: the scale spans a factor of two at least.
        let least = least.min(most / 2.0);
        // Square roots are the same on every machine, logarithms are not: the eighth root of the
        // range is the step of eight heights.
        let factor = (most / least).sqrt().sqrt().sqrt();
        Some(Self { step, means, range: (least, most), factor })
    }

    fn line(&self, means: &[Option<f64>], page: ScreenPage) -> String {
        let heights = if page.utf8 { BLOCKS } else { ASCII };
        let height = |mean: f64| {
            let mut bound = self.range.0 * self.factor;
            let mut level = 0;
            while level + 1 < LEVELS && mean > bound {
                bound *= self.factor;
                level += 1;
            }
            heights[level]
        };
        means.iter().map(|mean| mean.map_or(' ', height)).collect()
    }

    fn legend(&self, page: ScreenPage) -> String {
        let heights = if page.utf8 { BLOCKS } else { ASCII };
        let (least, most) = self.range;
        // A figure and its unit stay on one line.
        let time = |ns: f64| show_time(ns).replace(' ', "\u{a0}");
        format!(
            "Mean response time by time of arrival, {} a character: {} from {}, {} to {}, each height {:.2} times the \
             one below",
            time(self.step as f64),
            heights[0],
            time(least),
            heights[LEVELS - 1],
            time(most),
            self.factor
        )
    }
}

/// The mean of each span of `step` ns.
fn means(run: &SparkLine, step: u64) -> Vec<Option<f64>> {
    let bins = (step / run.width.max(1)).max(1) as usize;
    if run.without.is_some() {
        return Vec::new();
    }
    let mean = |bins: &[(u64, u64)]| {
        let (requests, time) = bins.iter().fold((0, 0.0), |(n, t), bin| (n + bin.0, t + bin.1 as f64));
        (requests > 0).then(|| time / requests as f64)
    };
    run.bins.chunks(bins).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(width: u64, bins: &[(u64, u64)]) -> SparkLine {
        SparkLine { keys: vec!["lru".into()], width, bins: bins.to_vec(), without: None }
    }

    fn lines(runs: &[SparkLine], room: usize, utf8: bool) -> Vec<String> {
        let chart = SparkChart::new(runs, room).expect("there are response times");
        chart.means.iter().map(|means| chart.line(means, ScreenPage { width: 80, utf8 })).collect()
    }

    #[test]
    fn heights_are_steps_of_a_common_factor() {
        // Means from 1 to 256, each twice the one before: the scale's eighth root is 2, and a bound
        // belongs to the height below it.
        let bins: Vec<_> = (0..9).map(|i| (1, 1 << i)).collect();
        assert_eq!(lines(&[run(1, &bins)], 80, true), ["▁▁▂▃▄▅▆▇█"]);
        assert_eq!(lines(&[run(1, &bins)], 80, false), ["..:-=+*#@"]);
        // All runs are on one scale.
        assert_eq!(lines(&[run(1, &bins), run(1, &[(2, 512), (0, 0), (4, 4)])], 80, true)[1], "█ ▁");
    }

    #[test]
    fn what_has_no_room_is_merged_by_its_requests() {
        let bins = [(1, 100), (3, 100), (0, 0), (0, 0), (1, 800), (0, 0)];
        // Means 50, none and 800.
        assert_eq!(lines(&[run(4, &bins)], 3, true), ["▁ █"]);
        // Bins of different widths begin at the same times: 2 of 4 ns make one of 8.
        assert_eq!(lines(&[run(4, &bins), run(8, &[(1, 50), (1, 800)])], 80, true), ["▁ █", "▁█"]);
    }

    #[test]
    fn small_differences_look_small() {
        assert_eq!(lines(&[run(1, &[(1, 1000), (1, 1001)])], 80, true), ["██"]);
        assert!(SparkChart::new(&[run(1, &[(1, 0), (1, 0)])], 80).is_none(), "no device with times");
        assert!(SparkChart::new(&[run(1, &[(1, 7)])], 80).is_none(), "no time passes");
    }
}
