//! A share of a buffer, as a user writes it: `0.5`, or `50` percent.

/// Parts in a whole: a share is exact to the millionth.
pub(super) const WHOLE: u32 = 1_000_000;

/// A whole in hundredths of a percent, for shares that are written as percentages.
pub(super) const HUNDRED_PERCENT: u64 = 10_000;

/// A share from 0 to 1 with up to six decimals, in [`WHOLE`]ths.
pub(super) fn parse(text: &str) -> Option<u32> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 6 {
        return None;
    }
    format!("{whole}{decimals:0<6}").parse().ok().filter(|share| *share <= WHOLE)
}

/// A share of so many pages, rounded up.
#[inline]
pub(super) fn of(share: u32, pages: u32) -> u32 {
    (u64::from(share) * u64::from(pages)).div_ceil(u64::from(WHOLE)) as u32
}

/// Hundredths of a percent of so many pages, rounded down.
pub(super) fn floor(hundredths: u64, pages: u32) -> u32 {
    u32::try_from(hundredths * u64::from(pages) / HUNDRED_PERCENT).unwrap_or(u32::MAX)
}

/// Hundredths of a percent of so many pages, rounded up.
pub(super) fn ceil(hundredths: u64, pages: u32) -> u32 {
    u32::try_from((hundredths * u64::from(pages)).div_ceil(HUNDRED_PERCENT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_rounded_up() {
        let of = |text: &str, pages| of(parse(text).expect(text), pages);
        assert_eq!([of("0.5", 0), of("0.5", 1), of("0.5", 10), of("0.5", 11)], [0, 1, 5, 6]);
        // In binary 0.07 · 100 is above 7.
        assert_eq!([of("0.07", 100), of("0.070", 101), of("0.000001", 1_000_000)], [7, 8, 1]);
        assert_eq!([of("0", 1000), of("1", u32::MAX), of("1.000000", 7), of("00.5", 2)], [0, u32::MAX, 7, 1]);
    }

    #[test]
    fn percentages_are_rounded_as_asked() {
        assert_eq!([1, 2, 3, 4, 5, 8].map(|pages| floor(2_500, pages)), [0, 0, 0, 1, 1, 2]);
        assert_eq!([1, 9, 10, 11, 20, 21].map(|pages| ceil(1_000, pages)), [1, 1, 1, 2, 2, 3]);
        assert_eq!([floor(0, 7), ceil(0, 7), floor(10_000, u32::MAX), ceil(10_000, 7)], [0, 0, u32::MAX, 7]);
        assert_eq!([floor(100_000, u32::MAX), ceil(100_000, u32::MAX), floor(1, 10_000)], [u32::MAX, u32::MAX, 1]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", ".", ".5", "5.", "-0.1", "+0.1", "1.000001", "2", "0.1234567", "1e-1", "half", "50%", " 0.5"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
