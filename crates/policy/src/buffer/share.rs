//! A share of a buffer, as a user writes it: `0.5`.

/// Parts in a whole: a share is exact to the millionth.
pub(super) const WHOLE: u32 = 1_000_000;

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
    fn other_texts_are_refused() {
        for text in ["", ".", ".5", "5.", "-0.1", "+0.1", "1.000001", "2", "0.1234567", "1e-1", "half", "50%", " 0.5"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
