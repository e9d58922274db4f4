//! Means with confidence intervals.

/// A mean over independent samples with its 95 % confidence interval (Student's t, two-sided).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanEstimate {
    /// The mean.
    pub mean: f64,
    /// Half the interval's width; 0 for a single sample, which has no interval.
    pub half_width: f64,
    /// Counts the samples.
    pub samples: usize,
}

/// The 97.5 % quantiles of Student's t for 1, 2, 3 ... 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl MeanEstimate {
    /// Of these samples, at least one.
    pub fn of(samples: &[f64]) -> Self {
        let n = samples.len();
        assert!(n > 0, "a mean of nothing");
        let mean = samples.iter().sum::<f64>() / n as f64;
        if n == 1 {
            return Self { mean, half_width: 0.0, samples: 1 };
        }
        let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
        let deviation = (squares / (n - 1) as f64).sqrt();
        // With more samples the quantile of 30 degrees is a little too wide, never too narrow.
        let t = T_975[(n - 2).min(T_975.len() - 1)];
        Self { mean, half_width: t * deviation / (n as f64).sqrt(), samples: n }
    }

    /// The interval's ends.
    pub fn interval(&self) -> (f64, f64) {
        (self.mean - self.half_width, self.mean + self.half_width)
    }

    /// The mean's sign: -1 or 1 where the interval excludes zero, else 0.
    pub fn sign(&self) -> i8 {
        let (low, high) = self.interval();
        if low > 0.0 {
            1
        } else if high < 0.0 {
            -1
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_known_samples() {
        // Mean 3, standard deviation sqrt(2.5), t = 2.776.
        let e = MeanEstimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((e.mean - 3.0).abs() < 1e-12 && (e.half_width - 2.776 * 0.5_f64.sqrt()).abs() < 1e-3, "{e:?}");
        assert_eq!(e.sign(), 1);
        assert_eq!(MeanEstimate::of(&[-1.0, 1.0]).sign(), 0);
        assert_eq!(MeanEstimate::of(&[-1.0, -1.0]).sign(), -1);
        assert_eq!(MeanEstimate::of(&[7.0]), MeanEstimate { mean: 7.0, half_width: 0.0, samples: 1 });
    }
}
