//! Grades claims: how far what is measured bears out what a paper says, by one rule for every claim, metric and length of run.
//!
//! * Intervals count, not means: at 95 %, over the seeds of a workload.
//! * What is smaller than a metric's [noise](ClaimMetric::noise) is no difference; what is smaller than its
//!   [likeness](ClaimMetric::likeness) is alike, unless the paper itself says what it calls alike.
//! * A claim that is neither borne out nor excluded is undecided, with the seeds that it would take.

use destage_sim::measure::MeanEstimate;

use crate::metric::ClaimMetric;
use crate::paper::PaperClaim;

/// Widens the ends of a claimed range by this share of themselves, so that figures read from a chart have room.
const SLACK: f64 = 0.25;
/// Widens them by half of the last digit that papers print, too: percent, or points.
const ROUNDING: f64 = 0.5;

/// Says how far a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimGrade {
    /// Holds in size: the whole interval lies in the claimed range, its ends widened by a quarter and half a point.
    Size,
    /// Holds within a factor of two: the interval lies between half of the least and twice the greatest that is claimed.
    Double,
    /// Holds in sign, and the paper states no size.
    Claimed,
    /// Holds as one of likeness: the interval lies within what counts as alike.
    Alike,
    /// Holds in sign, not within a factor of two.
    Sign,
    /// Holds at some buffer sizes only.
    Part,
    /// Cannot be decided: the interval leaves room for what is claimed, and for the contrary.
    Undecided,
    /// Does not hold.
    Not,
    /// Was not tried: there is no such trace, nothing is evicted, or a device is saturated.
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
            Self::Alike => "alike, as claimed",
            Self::Sign => "in sign, not in size",
            Self::Part => "at some buffer sizes",
            Self::Undecided => "undecided",
            Self::Not => "no",
            Self::Untried => "not tried",
        }
    }

    /// Returns true if the sign is as claimed at every size, or both are alike as claimed.
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

    /// Returns the grade of a claim that has these at its buffer sizes: the least of all where it holds at every size.
    pub fn of_sizes(all: &[Self]) -> Self {
        let worst = all.iter().max_by_key(|grade| Self::ALL.iter().position(|other| other == *grade));
        let Some(&worst) = worst else { return Self::Untried };
        let holds = all.iter().filter(|grade| grade.is_in_sign()).count();
        match holds {
            _ if holds == all.len() => worst,
            0 if all.contains(&Self::Undecided) => Self::Undecided,
            0 => Self::Not,
            _ => Self::Part,
        }
    }

    /// Grades what is measured of a claim at one buffer size, or of their mean or best.
    pub fn of(claim: &PaperClaim, measured: &MeanEstimate) -> Self {
        let (low, high) = measured.interval();
        let sign = f64::from(claim.sign());
        if claim.sign() == 0 {
            let most = claim.likeness();
            return match () {
                () if -most <= low && high <= most => Self::Alike,
                () if high < -most || low > most => Self::Not,
                () => Self::Undecided,
            };
        }
        // As if better were claimed.
        let (low, high) = if sign > 0.0 { (low, high) } else { (-high, -low) };
        let noise = claim.metric.noise();
        if low > 0.0 && sign * measured.mean >= noise {
            return match claim.claimed.map(f64::abs) {
                _ if claim.sign_only => Self::Claimed,
                [least, greatest] if least - slack(least) <= low && high <= greatest + slack(greatest) => Self::Size,
                [least, greatest] if least / 2.0 <= low && high <= 2.0 * greatest => Self::Double,
                _ => Self::Sign,
            };
        }
        if high < noise { Self::Not } else { Self::Undecided }
    }
}

/// Returns by how much an end of a claimed range is widened.
fn slack(end: f64) -> f64 {
    SLACK * end + ROUNDING
}

/// Returns about how many seeds it would take until the interval decides a claim that is undecided at this size, if what is
/// measured stays as it is: an interval shrinks with the root of their number. Returns nothing if there is one run only, or
/// if the mean lies where no number decides.
pub fn seeds_needed(claim: &PaperClaim, measured: &MeanEstimate) -> Option<u64> {
    let mean = if claim.sign() < 0 { -measured.mean } else { measured.mean };
    let noise = claim.metric.noise();
    // How far the mean is from where the interval must not reach.
    let room = match claim.sign() {
        0 => (claim.likeness() - mean.abs()).abs(),
        _ if mean >= noise => mean,
        _ => noise - mean,
    };
    let is_open = measured.samples > 1 && room > noise / 10.0;
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
