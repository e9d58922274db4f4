//! Division of page and block numbers by something that is known only at run time, without a
//! division.

/// A divisor with its reciprocal, 2^64 / divisor rounded up: the upper half of its product with any
/// 32-bit number is the exact quotient (Lemire, Kaser and Kurz, Software: Practice and Experience
/// 2019).
#[derive(Clone, Copy, Debug)]
pub(super) struct FastDivisor {
    divisor: u32,
    /// 0 stands for 2^64, the reciprocal of 1.
    reciprocal: u64,
}

impl FastDivisor {
    /// A divisor above 0.
    pub(super) const fn new(divisor: u32) -> Self {
        Self { divisor, reciprocal: (u64::MAX / divisor as u64).wrapping_add(1) }
    }

    /// Quotient and remainder.
    #[inline]
    pub(super) fn divide(self, number: u32) -> (u32, u32) {
        let quotient = if self.reciprocal == 0 {
            number
        } else {
            ((u128::from(self.reciprocal) * u128::from(number)) >> 64) as u32
        };
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_remainders_are_exact() {
        let edges = |n: u32| [n.saturating_sub(1), n, n.saturating_add(1)];
        let powers = (0..32).flat_map(|i| edges(1 << i));
        let numbers: Vec<u32> = powers.chain(edges(u32::MAX)).chain((1..2000).map(|i| i * 2_147_483)).collect();
        for &divisor in numbers.iter().filter(|&&n| n > 0) {
            let by = FastDivisor::new(divisor);
            for &number in &numbers {
                assert_eq!(by.divide(number), (number / divisor, number % divisor), "{number} / {divisor}");
            }
        }
    }
}
