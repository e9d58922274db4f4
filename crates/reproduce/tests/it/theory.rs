//! The formulas against other ways to the same numbers, and the simulator against the formulas on
//! small devices. `destage validate` does the latter at full size.

use destage_reproduce::theory::{greedy_write_amplification, greedy_write_amplification_of_large_blocks, md1_wait};

/// Van Houdt's mean-field model of the d-choices algorithm, integrated until it stands still:
/// `share[i]` of the blocks have `i` valid pages; d of them are drawn, the one with the fewest is
/// cleaned and filled up again.
fn d_choices(pages: usize, rho: f64, d: f64) -> f64 {
    let b = pages as f64;
    let mut share = vec![0.0; pages + 1];
    // Any distribution with the right mean.
    let below = (rho * b).floor();
    share[below as usize] = 1.0 - (rho * b - below);
    share[below as usize + 1] = rho * b - below;
    let mut amplification = 0.0;
    let mut last = 0.0;
    for step in 0..4_000_000 {
        let mut at_least = 1.0_f64;
        let mut victim = vec![0.0; pages + 1];
        let mut valid = 0.0;
        for (i, &s) in share.iter().enumerate() {
            let more = (at_least - s).max(0.0);
            victim[i] = at_least.powf(d) - more.powf(d);
            at_least = more;
            valid += i as f64 * victim[i];
        }
        amplification = b / (b - valid);
        // One step is dt cleanings per block; each is followed by b - valid page writes, which
        // invalidate at random.
        let dt = 0.2 / b / d.sqrt();
        let rate = (b - valid) / (rho * b);
        let old = share.clone();
        for i in 0..=pages {
            let from_above = if i < pages { (i + 1) as f64 * old[i + 1] } else { 0.0 };
            let filled = if i == pages { 1.0 } else { 0.0 };
            share[i] += dt * (rate * (from_above - i as f64 * old[i]) - victim[i] + filled);
        }
        if step % 20_000 == 0 {
            if (amplification - last).abs() < 1e-7 {
                break;
            }
            last = amplification;
        }
    }
    amplification
}

#[test]
fn greedy_is_what_many_choices_come_to() {
    for (pages, rho) in [(8, 0.7), (16, 0.8), (32, 0.88)] {
        let greedy = greedy_write_amplification(pages, rho);
        let few = d_choices(pages as usize, rho, 10.0) / greedy - 1.0;
        let many = d_choices(pages as usize, rho, 300.0) / greedy - 1.0;
        assert!(few > many && few < 0.1, "{pages} pages, ρ {rho}: 10 choices {few:+}");
        assert!(many.abs() < 0.003, "{pages} pages, ρ {rho}: 300 choices {many:+}");
    }
}

#[test]
fn large_blocks_come_to_their_limit() {
    for rho in [0.5, 0.7, 0.8, 0.88, 0.93] {
        let limit = greedy_write_amplification_of_large_blocks(rho);
        let difference = |pages| greedy_write_amplification(pages, rho) / limit - 1.0;
        assert!(difference(1 << 16).abs() < 1e-3, "{rho}: {}", difference(1 << 16));
        assert!(difference(32) < difference(64) && difference(64) < difference(256), "small blocks do better");
    }
    // The example of Xiang and Kurkoski: overprovisioning of 0.3, 2.36.
    let example = greedy_write_amplification_of_large_blocks(1.0 / 1.3);
    assert!((2.355..2.365).contains(&example), "{example}");
}

#[test]
fn blocks_of_one_and_two_pages_by_hand() {
    // One page: a block is valid or not, and there is always one that is not.
    assert!((greedy_write_amplification(1, 0.9) - 1.0).abs() < 1e-12);
    // Two pages, ρ = 3/4: shares φ/2 with two, x with one; φ/2 + x = 1 and φ + x = 3/2, so φ = 1, x
    // = 1/2; half of the victims are empty and half have one page: 2 / (2 - 1/2).
    assert!((greedy_write_amplification(2, 0.75) - 4.0 / 3.0).abs() < 1e-12);
    assert!((md1_wait(1.0, 0.5) - 0.5).abs() < 1e-12);
}
