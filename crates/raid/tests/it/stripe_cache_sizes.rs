//! Sizes of stripe caches as users write them.

use destage_raid::StripeCacheSize;
use destage_raid::settings::STRIPE_CACHE;

#[test]
fn what_is_read_is_written_so_and_gives_rows_of_all_members() {
    for (text, members, rows) in [
        ("0", 5, 0),
        ("16MiB", 5, 816),
        ("160KiB", 5, 8),
        ("256rows", 24, 256),
        ("263rows", 4, 256),
        ("1GiB", 8, 32_768),
        ("327680B", 5, 16),
    ] {
        let size = (STRIPE_CACHE.parse)(text).expect(text);
        let canonical = if text == "327680B" { "320KiB" } else { text };
        assert_eq!(size.to_string(), canonical);
        assert_eq!(size.rows(4096, members), Ok(rows), "{text}");
    }
    assert_eq!((STRIPE_CACHE.parse)("256 rows"), Ok(StripeCacheSize::Rows(256)));
    assert_eq!(STRIPE_CACHE.default_value(), StripeCacheSize::OFF);
}

#[test]
fn what_cannot_be_says_what_could() {
    for text in ["", "rows", "-8rows", "16 pages", "many", "4294967296rows"] {
        let right = (STRIPE_CACHE.parse)(text).expect_err(text);
        assert!(right.contains("16MiB") && right.contains("256rows"), "{text}: {right}");
    }
    for text in ["1B", "159KiB", "7rows", "16777217rows", "1TiB"] {
        let size = (STRIPE_CACHE.parse)(text).expect(text);
        let right = size.rows(4096, 5).expect_err(text);
        assert!(right.contains("160 KiB (8 rows of 5 pages)") && right.contains("16777216 rows"), "{text}: {right}");
    }
}
