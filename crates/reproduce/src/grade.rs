//! Grades claims: how far what is measured bears out what a paper says, by one rule for every claim, metric and length of run.
//!
//! * Intervals count, not means: at 95 %, over the seeds of a workload. A single run has none; it counts as one that may be off by
//!   [half of what is alike](ClaimMetric::single_run).
//! * What is smaller than a metric's [noise](ClaimMetric::noise) is no difference; what is smaller than its
//!   [likeness](ClaimMetric::likeness) is alike, unless the paper itself says what it calls alike.
//! * Sizes are compared by [how much more](ClaimMetric::excess) the worse of two has than the better: 90 % saved are ten times as much
//!   against one, and 80 % five times. As percentages they would lie close to each other.
//! * A claim that is neither borne out nor excluded is undecided, with the seeds that it would take.

use destage_sim::measure::MeanEstimate;

use crate::metric::ClaimMetric;
use crate::paper::PaperClaim;

/// Widens the ends of a claimed range by this share of themselves, as [excesses](ClaimMetric::excess), so that figures read from a
/// chart have room.
const SLACK: f64 = 0.25;
/// Widens them by half of the last digit that papers print, too, in percent or points.
const ROUNDING: f64 = 0.5;

/// Says how far a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimGrade {
    /// Holds in size: the whole interval lies in the claimed range, its ends widened by a quarter and half a point.
    Size,
    /// Holds within a factor of two: the interval lies between half of the least and twice the greatest that is claimed.
    Double,
    /// Holds in sign, and the paper states no size.
    Claimed,
    /// Holds as one of likeness, or as a bound: the interval lies within what counts as alike, or below the bound.
    Alike,
    /// Holds in sign, not within a factor of two.
    Sign,
    /// Holds in part: at some of the buffer sizes, workloads and pairs of policies that it is about, while others do not hold or are
    /// missing.
    Part,
    /// Cannot be decided: the interval leaves room for what is claimed, and for the contrary.
    Undecided,
    /// Does not hold.
    Not,
    /// Was not tried: there is no such trace, nothing is evicted, or both of what is compared saturate the device.
    Untried,
}

impl ClaimGrade {
    /// Lists all of them, the best first.
    pub const ALL: [Self; 9] = [
        Self::Size,
        Self::Double,
        Self::Claimed,
        Self::Alike,
        Self::Sign,
        Self::Part,
        Self::Undecided,
        Self::Not,
        Self::Untried,
    ];

    /// Returns it in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Size => "in size",
            Self::Double => "within a factor of 2",
            Self::Claimed => "in sign (no size is claimed)",
            Self::Alike => "alike or within bounds, as claimed",
            Self::Sign => "in sign, not in size",
            Self::Part => "in part",
            Self::Undecided => "undecided",
            Self::Not => "no",
            Self::Untried => "not tried",
        }
    }

    /// Returns true if the sign is as claimed wherever it is claimed, or both are alike as claimed.
    pub const fn is_in_sign(self) -> bool {
        matches!(self, Self::Size | Self::Double | Self::Claimed | Self::Alike | Self::Sign)
    }

    /// Returns true if it is borne out as it was stated, in size within a factor of two.
    pub const fn is_borne_out(self) -> bool {
        matches!(self, Self::Size | Self::Double | Self::Claimed | Self::Alike)
    }

    /// Returns true if nothing is left to explain.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Size | Self::Claimed | Self::Alike)
    }

    /// Returns the grade of a claim that has these at its buffer sizes, on its workloads and for its pairs of policies: the least of
    /// all where it holds everywhere.
    pub fn of_all(all: &[Self]) -> Self {
        let worst = all.iter().max_by_key(|grade| Self::ALL.iter().position(|other| other == *grade));
        let Some(&worst) = worst else { return Self::Untried };
        let holds = all.iter().filter(|grade| grade.is_in_sign() || **grade == Self::Part).count();
        match holds {
            _ if holds == all.len() => worst,
            0 if all.iter().all(|grade| *grade == Self::Untried) => Self::Untried,
            0 if all.contains(&Self::Undecided) => Self::Undecided,
            0 => Self::Not,
            _ => Self::Part,
        }
    }

    /// Returns this grade, or that of a claim of which something could not be compared: it holds in part at best.
    #[must_use]
    pub const fn with_missing(self) -> Self {
        if self.is_in_sign() { Self::Part } else { self }
    }

    /// Grades what is measured of a claim at one buffer size, on one workload, of one pair of policies; or of their mean or best.
    /// Both are alike if they differ by `alike` percent or points at most, where likeness is what is claimed.
    pub fn of(claim: &PaperClaim, measured: &MeanEstimate, alike: f64) -> Self {
        let measured = with_interval(claim.metric, measured);
        let (low, high) = measured.interval();
        if let Some(most) = claim.at_most {
            let most = most + claim.metric.noise();
            return match () {
                () if high <= most => Self::Alike,
                () if low > most => Self::Not,
                () => Self::Undecided,
            };
        }
        let sign = f64::from(claim.sign());
        if claim.sign() == 0 {
            return match () {
                () if -alike <= low && high <= alike => Self::Alike,
                () if high < -alike || low > alike => Self::Not,
                () => Self::Undecided,
            };
        }
        // As if better were claimed.
        let (better_low, better_high) = if sign > 0.0 { (low, high) } else { (-high, -low) };
        let noise = claim.metric.noise();
        if better_low > 0.0 && sign * measured.mean >= noise {
            let excess = |improvement: f64| sign * claim.metric.excess(sign * improvement);
            let (low, high) = (excess(better_low), excess(better_high));
            let [least, greatest] = claim.claimed.map(f64::abs);
            let wide = [
                excess(least - ROUNDING) - SLACK * excess(least),
                excess(greatest + ROUNDING) + SLACK * excess(greatest),
            ];
            return match () {
                () if claim.sign_only => Self::Claimed,
                () if wide[0] <= low && high <= wide[1] => Self::Size,
                () if excess(least) / 2.0 <= low && high <= 2.0 * excess(greatest) => Self::Double,
                () => Self::Sign,
            };
        }
        if better_high < noise { Self::Not } else { Self::Undecided }
    }
}

/// Returns what is measured; of a single run, which has no interval, with that which its metric is given.
fn with_interval(metric: &ClaimMetric, measured: &MeanEstimate) -> MeanEstimate {
    let half_width =
        if measured.samples > 1 { measured.half_width } else { measured.half_width.max(metric.single_run()) };
    MeanEstimate { half_width, ..*measured }
}

/// Returns about how many seeds it would take until the interval decides a claim that is undecided at this size, if what is
/// measured stays as it is: an interval shrinks with the root of their number. Returns nothing if there is one run only, or
/// if the mean lies where no number decides.
pub fn seeds_needed(claim: &PaperClaim, measured: &MeanEstimate) -> Option<u64> {
    let mean = if claim.sign() < 0 { -measured.mean } else { measured.mean };
    let noise = claim.metric.noise();
    // How far the mean is from where the interval must not reach.
    let room = match claim.sign() {
        _ if claim.at_most.is_some() => (claim.at_most.unwrap_or_default() + noise - measured.mean).abs(),
        0 => (claim.likeness() - mean.abs()).abs(),
        _ if mean >= noise => mean,
        _ => noise - mean,
    };
    let is_open = measured.samples > 1 && room > noise / 10.0;
    // The interval shrinks with the root of the samples.
    is_open.then(|| {
        let times = measured.half_width / room;
        (measured.samples as f64 * times * times).ceil() as u64
    })
}

/// Grades a figure that a paper prints, by the ratio of what is measured to it.
pub fn of_figure(metric: &ClaimMetric, published: f64, measured: &MeanEstimate) -> ClaimGrade {
    let (low, high) = measured.interval();
    let (scale, places) = metric.scale();
    let (low, high) = (low / scale, high / scale);
    // The last digit that is printed is rounded.
    let rounding = (0..places).fold(0.5, |digit, _| digit / 10.0);
    let slack = SLACK * published.abs() + rounding;
    match () {
        () if published - slack <= low && high <= published + slack => ClaimGrade::Size,
        () if published / 2.0 <= low && high <= 2.0 * published => ClaimGrade::Double,
        () if high < published / 2.0 || low > 2.0 * published => ClaimGrade::Not,
        () => ClaimGrade::Undecided,
    }
}
