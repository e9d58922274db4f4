//! Grades of claims and of printed figures, by example and by law.

use std::path::Path;

use destage_reproduce::grade::{ClaimGrade, of_figure, seeds_needed};
use destage_reproduce::metric::ClaimMetric;
use destage_reproduce::paper::{PaperClaim, PaperFile};
use destage_reproduce::score::GradeCounts;
use destage_sim::measure::MeanEstimate;
use proptest::prelude::*;

/// Returns a claim about this figure.
fn claim(metric: &str, claimed: [f64; 2], more: &str) -> PaperClaim {
    let [least, greatest] = claimed;
    let text = format!(
        "name = \"p\"\ntitle = \"\"\nabout = \"\"\nverdict = \"\"\nseeds = 3\npolicies = [\"lru\", \"fab\"]\n[settings]\n[[workload]]\nname = \
         \"w\"\nprovenance = \"synthetic\"\nstands-for = [\"w\"]\nsynthetic = \"random\"\n[[claim]]\nid = \"C\"\nwhere = \"\"\nworkload = \
         \"w\"\nmetric = \"{metric}\"\nnew = \"lru\"\nthan = \"fab\"\ncaches = [\"1MiB\"]\nclaimed = [{least:?}, {greatest:?}]\n{more}\n"
    );
    PaperFile::parse(Path::new("p.toml"), &text).expect("a paper").claim.remove(0)
}

const fn measured(mean: f64, half_width: f64) -> MeanEstimate {
    MeanEstimate { mean, half_width, samples: 3 }
}

#[test]
fn claims_are_graded_by_their_intervals() {
    use ClaimGrade::{Alike, Claimed, Double, Not, Sign, Size, Undecided};
    let percent = claim("response", [40.0, 40.0], "");
    let most = claim("response", [90.0, 90.0], "");
    let bound = claim("cache-metadata", [0.0, 0.0], "at-most = 1.5");
    let range = claim("evictions", [4.0, 70.0], "");
    let worse = claim("response", [-10.0, -10.0], "");
    let better = claim("response", [1.0, 1.0], "sign-only = true");
    let alike = claim("erases", [0.0, 0.0], "");
    let similar = claim("response", [0.0, 0.0], "alike = 8.19");
    for (claim, mean, half_width, expected) in [
        // 40 % saved are 67 % more against one, so that 50 to 83 % are in size: 33.3 to 45.5 % saved, and half a point for rounding.
        (&percent, 39.0, 6.0, Size),
        // The mean is where it should be, the interval is not.
        (&percent, 39.0, 8.0, Double),
        // From 33 to 133 % more.
        (&percent, 26.0, 0.5, Double),
        (&percent, 56.0, 0.5, Double),
        (&percent, 24.0, 0.5, Sign),
        (&percent, 58.0, 0.5, Sign),
        // Ten times as much: 90 % are claimed, and 80 are five times.
        (&most, 90.0, 1.0, Size),
        (&most, 85.0, 1.0, Double),
        (&most, 80.0, 1.0, Sign),
        (&most, 96.0, 1.0, Sign),
        (&percent, 3.0, 1.0, Sign),
        (&percent, 40.0, 45.0, Undecided),
        (&percent, 5.0, 10.0, Undecided),
        (&percent, -40.0, 10.0, Not),
        // Below the noise of a mean.
        (&percent, 0.3, 0.1, Not),
        (&range, 3.0, 0.4, Size),
        (&range, 80.0, 5.0, Size),
        (&range, 130.0, 5.0, Double),
        (&range, 0.2, 0.05, Sign),
        (&range, 0.05, 0.01, Not),
        (&worse, -10.0, 2.0, Size),
        (&worse, -15.0, 2.0, Double),
        (&worse, 10.0, 2.0, Not),
        (&worse, -10.0, 12.0, Undecided),
        (&better, 1.0, 0.9, Claimed),
        (&better, 0.1, 0.3, Not),
        (&better, 0.2, 0.4, Undecided),
        (&better, 4.0, 6.0, Undecided),
        (&alike, 1.0, 0.9, Alike),
        (&alike, 1.0, 1.5, Undecided),
        (&alike, 5.0, 1.5, Not),
        (&similar, -7.0, 1.0, Alike),
        (&similar, -7.0, 2.0, Undecided),
        (&bound, 1.0, 0.4, Alike),
        (&bound, -3.0, 0.4, Alike),
        (&bound, 1.5, 0.4, Undecided),
        (&bound, 2.0, 0.4, Not),
    ] {
        assert_eq!(
            ClaimGrade::of(claim, &measured(mean, half_width), claim.likeness()),
            expected,
            "{mean} ± {half_width} of {claim:?}"
        );
    }
}

#[test]
fn comparisons_make_one_grade() {
    use ClaimGrade::{Alike, Double, Not, Part, Sign, Size, Undecided, Untried};
    for (all, expected) in [
        (&[][..], Untried),
        (&[Size, Double], Double),
        (&[Alike, Alike], Alike),
        (&[Size, Sign, Double], Sign),
        (&[Size, Not], Part),
        (&[Size, Undecided], Part),
        (&[Not, Undecided], Undecided),
        (&[Not, Not], Not),
    ] {
        assert_eq!(ClaimGrade::of_all(all), expected, "{all:?}");
    }
}

#[test]
fn more_seeds_are_told_where_they_would_decide() {
    let percent = claim("response", [40.0, 40.0], "");
    // Twice the distance: four times the seeds.
    assert_eq!(seeds_needed(&percent, &measured(20.0, 40.0)), Some(12));
    // Below the noise, from 0.5 on.
    assert_eq!(seeds_needed(&percent, &measured(0.3, 0.4)), Some(12));
    assert_eq!(seeds_needed(&percent, &measured(0.48, 40.0)), None, "no number tells");
    assert_eq!(seeds_needed(&percent, &MeanEstimate { samples: 1, ..measured(20.0, 0.0) }), None);
    let alike = claim("erases", [0.0, 0.0], "");
    assert_eq!(seeds_needed(&alike, &measured(1.0, 2.0)), Some(12));
}

#[test]
fn single_runs_have_the_interval_of_their_metric() {
    let one = |metric: &str, mean: f64| {
        let claim = claim(metric, [0.0, 0.0], "");
        ClaimGrade::of(&claim, &MeanEstimate { mean, half_width: 0.0, samples: 1 }, claim.likeness())
    };
    // Half of what is alike: 2.5 % of means, 1 % of counts.
    assert_eq!(one("response", 2.4), ClaimGrade::Alike);
    assert_eq!(one("response", 2.6), ClaimGrade::Undecided);
    assert_eq!(one("response", 7.6), ClaimGrade::Not);
    assert_eq!(one("erases", 1.1), ClaimGrade::Undecided);
    let percent = claim("response", [3.0, 3.0], "sign-only = true");
    let graded = |mean| ClaimGrade::of(&percent, &MeanEstimate { mean, half_width: 0.0, samples: 1 }, 5.0);
    assert_eq!((graded(2.4), graded(2.6)), (ClaimGrade::Undecided, ClaimGrade::Claimed));
}

#[test]
fn shares_are_alike_within_a_tenth() {
    let metric = ClaimMetric::named("hit-ratio").expect("a metric");
    // A point where much is hit, a tenth where hardly anything is.
    assert!((metric.likeness_of(0.5, 0.4) - 1.0).abs() < 1e-9);
    assert!((metric.likeness_of(0.004, 0.003) - 0.04).abs() < 1e-9);
}

#[test]
fn printed_figures_are_graded_by_ratio() {
    let metric = ClaimMetric::named("response").expect("a metric");
    // Of runs in ns, printed in ms.
    let of = |mean: f64, half_width: f64| of_figure(metric, 0.25, &measured(mean * 1e6, half_width * 1e6));
    assert_eq!(of(0.28, 0.03), ClaimGrade::Size);
    assert_eq!(of(0.28, 0.05), ClaimGrade::Double);
    assert_eq!(of(0.45, 0.04), ClaimGrade::Double);
    assert_eq!(of(0.6, 0.05), ClaimGrade::Not);
    assert_eq!(of(0.45, 0.1), ClaimGrade::Undecided);
}

#[test]
fn grades_are_counted() {
    let counts: GradeCounts = [ClaimGrade::Size, ClaimGrade::Size, ClaimGrade::Untried].into_iter().collect();
    assert_eq!((counts.of(ClaimGrade::Size), counts.all(), counts.tried()), (2, 3, 2));
    assert_eq!(counts.having(ClaimGrade::is_in_sign), 2);
}

fn anything() -> impl Strategy<Value = (PaperClaim, MeanEstimate)> {
    let claims = (0_usize..4, 0.5_f64..100.0, 1.0_f64..3.0).prop_map(|(kind, least, times)| match kind {
        0 => claim("response", [least, least * times], ""),
        1 => claim("evictions", [-least, -least * times], ""),
        2 => claim("hit-ratio", [1.0, 1.0], "sign-only = true"),
        _ => claim("erases", [0.0, 0.0], &format!("alike = {least:?}")),
    });
    (claims, -200.0_f64..200.0, 0.0_f64..100.0).prop_map(|(claim, mean, half)| (claim, measured(mean, half)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A wider interval around the same mean never holds better, and never makes a claim fail.
    #[test]
    fn less_evidence_never_helps((claim, estimate) in anything(), more in 0.0_f64..100.0) {
        let rank = |grade| match grade {
            ClaimGrade::Size => 0,
            ClaimGrade::Double => 1,
            ClaimGrade::Claimed | ClaimGrade::Alike | ClaimGrade::Sign => 2,
            ClaimGrade::Undecided => 3,
            other => panic!("{other:?} at one size"),
        };
        let (before, after) =
            (ClaimGrade::of(&claim, &estimate, claim.likeness()), ClaimGrade::of(&claim, &MeanEstimate { half_width: estimate.half_width + more, ..estimate }, claim.likeness()));
        if before == ClaimGrade::Not {
            prop_assert!(matches!(after, ClaimGrade::Not | ClaimGrade::Undecided), "{before:?} {after:?}");
        } else {
            prop_assert!(rank(after) >= rank(before), "{before:?} {after:?}");
        }
    }

    /// Whoever of two is called better, a claim and its mirror image fare alike: so much saved, or so much more the other way round.
    #[test]
    fn better_and_worse_are_judged_alike(least in 1.0_f64..90.0, mean in -100.0_f64..95.0, half in 0.0_f64..4.0) {
        let more = |saved: f64| if saved > 0.0 { 100.0 * saved / (100.0 - saved) } else { saved };
        let (low, high) = (more(mean - half), more(mean + half));
        let other = measured(-f64::midpoint(low, high), (high - low) / 2.0);
        let saved = ClaimGrade::of(&claim("response", [least, least], ""), &measured(mean, half), 5.0);
        let spent = ClaimGrade::of(&claim("response", [-more(least), -more(least)], ""), &other, 5.0);
        // Noise and rounding are of percentages.
        if mean.abs() - half > 1.0 {
            prop_assert_eq!(saved.is_in_sign(), spent.is_in_sign());
        }
        if saved == ClaimGrade::Size {
            prop_assert!(spent.is_borne_out() || least < 5.0, "{:?}", spent);
        }
    }

    /// Tests that a claim that holds in size is within a factor of two: both ends of the interval are, but for the rounding of
    /// what is printed.
    #[test]
    fn what_holds_in_size_is_near(least in 5.0_f64..95.0, mean in 0.0_f64..100.0, half in 0.0_f64..20.0) {
        let claim = claim("response", [least, least], "");
        if ClaimGrade::of(&claim, &measured(mean, half), 5.0) == ClaimGrade::Size {
            let times = |saved: f64| saved / (100.0 - saved);
            prop_assert!(times(mean - half) > times(least) / 2.0 && times(mean + half) < 2.0 * times(least));
        }
    }
}
