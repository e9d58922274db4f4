//! Zipf-distributed ranks by rejection-inversion.
//!
//! W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996: the integral of `x^-alpha` is inverted, and the few
//! points where the histogram does not cover the curve are rejected. Set-up and draw take constant
//! time and no table, whatever the number of ranks; an exponent of 1 (and near it) is handled by
//! `expm1(x)/x` and `log1p(x)/x`, which are smooth there.

use super::random::RandomStream;

/// Draws ranks 0 to n - 1 with probability proportional to `1 / (rank + 1)^alpha`.
#[derive(Clone, Debug)]
pub(super) struct ZipfRanks {
    n: u64,
    alpha: f64,
    /// The integral up to 1.5, less the first rank's own height: the lower end of what is drawn.
    low: f64,
    /// The integral up to n + 0.5: the upper end.
    high: f64,
    /// Within this distance below a rank a point is under the histogram for certain.
    sure: f64,
}

impl ZipfRanks {
    /// `n` from 1 to 2^48, `alpha` from 0 to 10.
    pub(super) fn new(n: u64, alpha: f64) -> Self {
        let mut z = Self { n, alpha, low: 0.0, high: 0.0, sure: 0.0 };
        z.low = z.integral(1.5) - 1.0;
        z.high = z.integral(n as f64 + 0.5);
        z.sure = 2.0 - z.inverse(z.integral(2.5) - z.height(2.0));
        z
    }

    pub(super) fn draw(&self, stream: &mut RandomStream) -> u64 {
        loop {
            let u = self.high + stream.unit() * (self.low - self.high);
            let x = self.inverse(u);
            #[expect(clippy::cast_sign_loss, reason = "x is an exponential")]
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let k = rank as f64;
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.height(k) {
                return rank - 1;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        libm::exp(-self.alpha * libm::log(x))
    }

    /// The integral of the height from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.alpha) * log) * log
    }

    /// The x up to which the integral is this.
    fn inverse(&self, integral: f64) -> f64 {
        // Below -1 only by rounding, far out where the integral hardly grows any more.
        let t = (integral * (1.0 - self.alpha)).max(-1.0);
        libm::exp(log1p_over(t) * integral)
    }
}

/// `expm1(x) / x`, by its series where the quotient would lose digits.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 * (1.0 + x * (1.0 / 3.0) * (1.0 + x * 0.25)) }
}

/// `log1p(x) / x`, likewise.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - x * 0.25)) }
}

#[cfg(test)]
mod tests {
    use super::super::random::StreamPurpose;
    use super::*;

    /// Exact probabilities against counts: Pearson's statistic over the first ranks and the rest.
    fn chi_square(n: u64, alpha: f64, draws: u64) -> (f64, usize) {
        let zipf = ZipfRanks::new(n, alpha);
        let mut stream = RandomStream::new(42, StreamPurpose::Address);
        let cells = n.min(50) as usize;
        let mut counts = vec![0_u64; cells + 1];
        for _ in 0..draws {
            let rank = zipf.draw(&mut stream);
            assert!(rank < n);
            counts[(rank as usize).min(cells)] += 1;
        }
        let weight = |k: u64| libm::pow((k + 1) as f64, -alpha);
        let total: f64 = (0..n).map(weight).sum();
        let mut expected: Vec<f64> = (0..cells as u64).map(|k| weight(k) / total * draws as f64).collect();
        expected.push((draws as f64 - expected.iter().sum::<f64>()).max(0.0));
        let mut sum = 0.0;
        let mut used = 0;
        for (count, expected) in counts.iter().zip(&expected) {
            if *expected >= 5.0 {
                sum += (*count as f64 - expected) * (*count as f64 - expected) / expected;
                used += 1;
            }
        }
        (sum, used)
    }

    #[test]
    fn ranks_have_their_exact_probabilities() {
        for alpha in [0.0, 0.2, 0.6, 0.99, 1.0, 1.000_000_001, 1.2, 2.0, 5.0, 10.0] {
            for n in [1, 2, 3, 10, 1000, 100_000] {
                let (statistic, cells) = chi_square(n, alpha, 200_000);
                // Mean of chi-square is its degrees of freedom, its standard deviation sqrt(2 of
                // them).
                let freedom = cells.saturating_sub(1) as f64;
                let bound = freedom + 4.5 * libm::sqrt(2.0 * freedom.max(1.0));
                assert!(statistic <= bound, "alpha {alpha}, n {n}: {statistic} of {cells} cells, bound {bound}");
            }
        }
    }

    #[test]
    fn the_largest_space_draws() {
        for alpha in [0.0, 0.5, 1.0, 3.0, 10.0] {
            let zipf = ZipfRanks::new(1 << 48, alpha);
            let mut stream = RandomStream::new(1, StreamPurpose::Address);
            for _ in 0..10_000 {
                assert!(zipf.draw(&mut stream) < 1 << 48);
            }
        }
    }
}
