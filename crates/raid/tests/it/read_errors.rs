//! Tests the count of pages that a device could not read lately.

use destage_plan::Nanos;
use destage_raid::array::ReadErrorCount;

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn half_of_the_pages_are_forgotten_in_each_hour_without_another() {
    let mut count = ReadErrorCount::default();
    let mut at = |time: u64| count.count(Nanos(time));
    assert!((1..=20).all(|number| at(u64::from(number) * HOUR / 100) == number), "within an hour each counts");
    let last = HOUR / 5;
    assert_eq!(at(last + HOUR - 1), 21);
    let last = last + HOUR - 1;
    assert_eq!(at(last + HOUR), 21 / 2 + 1);
    assert_eq!(at(last + 4 * HOUR), 11 / 8 + 1, "in three hours three times");
    assert_eq!(at(last + 5_000 * HOUR), 1);
}
