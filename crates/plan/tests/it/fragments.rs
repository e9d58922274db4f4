//! Splitting requests: the pieces cover the request exactly, in order, each inside one stripe.

use destage_plan::{Ext, HostOp, RangeError, Shape, ShapeError};
use proptest::prelude::*;

/// Returns the bytes of which fragments of several stripes have no more.
fn wide(shape: Shape) -> u64 {
    (shape.bytes() / 512).clamp(1 << 20, 16 << 20)
}

const OPS: [HostOp; 5] = [HostOp::Read, HostOp::Write, HostOp::WriteZeroes, HostOp::WriteZeroesUnmap, HostOp::Discard];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DESTAGE_SOAK").is_some() { 200_000 } else { 4_000 }))]

    #[test]
    fn pieces_cover_the_request_in_order(
        page_sectors in prop::sample::select(vec![1_u64, 4, 8, 128]),
        sector in prop::sample::select(vec![16_u64, 512]),
        stripe in 1..40_u64,
        most in 1..50_u64,
        pages in 1..300_u64,
        (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        op in prop::sample::select(OPS.to_vec()),
    ) {
        let page = page_sectors * sector;
        let shape = Shape::new(page, sector, stripe, most, pages).expect("a shape that can be");
        let sectors = (pages * page_sectors) as usize;
        let (from, to) = (from.index(sectors), to.index(sectors) + 1);
        let (offset, end) = (from.min(to) as u64 * sector, from.max(to) as u64 * sector);
        prop_assert!(shape.check(offset, end - offset).is_ok());
        let (mut at, wide) = (offset, wide(shape));
        while at < end {
            let piece = shape.piece(op, at, end - at);
            let begin = piece.page * page + piece.sectors.map_or(0, |sectors| u64::from(sectors.first) * sector);
            prop_assert_eq!(begin, at, "a piece begins where the last one ended");
            if let Some(sectors) = piece.sectors {
                prop_assert_eq!((piece.pages, piece.bytes), (1, u64::from(sectors.count) * sector));
                prop_assert!(piece.bytes < page && u64::from(sectors.first) + u64::from(sectors.count) <= page_sectors);
                prop_assert_eq!(piece.serve, op != HostOp::Discard, "a page covered in part is not discarded");
            } else {
                prop_assert_eq!(piece.bytes, u64::from(piece.pages) * page);
                prop_assert!(piece.serve && piece.pages > 0);
                let (count, next) = (u64::from(piece.pages), piece.page + u64::from(piece.pages));
                let rest = end - next * page;
                if count > stripe {
                    prop_assert!(op == HostOp::Discard || op == HostOp::WriteZeroesUnmap && most >= stripe);
                    prop_assert!(piece.page.is_multiple_of(stripe) && count.is_multiple_of(stripe), "whole stripes");
                    prop_assert!(count * page <= wide && shape.is_wide(piece.pages));
                    prop_assert!(rest < stripe * page || (count + stripe) * page > wide, "no shorter than it must be");
                } else {
                    prop_assert!(count <= most && !shape.is_wide(piece.pages));
                    prop_assert_eq!(piece.page / stripe, (next - 1) / stripe);
                    // No shorter than it must be.
                    let cut = next.is_multiple_of(stripe) || count == most;
                    prop_assert!(cut || rest < page);
                    let is_whole = piece.page.is_multiple_of(stripe) && count == stripe && op == HostOp::Discard;
                    prop_assert!(!is_whole || rest < stripe * page || 2 * stripe * page > wide);
                }
            }
            prop_assert!(piece.bytes > 0);
            at += piece.bytes;
        }
        prop_assert_eq!(at, end);
    }
}

#[test]
fn trims_are_at_work_on_a_small_share_of_an_array() {
    const MIB: u64 = 1 << 20;
    for (array, fragment) in [(64, 1), (512, 1), (1024, 2), (4096, 8), (8192, 16), (1 << 20, 16)] {
        let shape = Shape::new(4096, 512, 64, 64, array * MIB / 4096).expect("a shape that can be");
        assert_eq!(shape.piece(HostOp::Discard, 0, shape.bytes()).bytes, fragment * MIB, "of {array} MiB");
    }
}

#[test]
fn ranges_are_whole_sectors_inside() {
    let shape = Shape::new(4096, 512, 16, 64, 10).expect("a shape that can be");
    assert_eq!(shape.bytes(), 40_960);
    assert_eq!(shape.check(512, 40_448), Ok(()));
    assert_eq!(shape.check(512, 40_960), Err(RangeError::Beyond { bytes: 40_960 }));
    assert_eq!(shape.check(u64::MAX - 511, 1024), Err(RangeError::Beyond { bytes: 40_960 }));
    assert_eq!(shape.check(100, 512), Err(RangeError::Misaligned { sector_bytes: 512 }));
    assert_eq!(shape.check(512, 100), Err(RangeError::Misaligned { sector_bytes: 512 }));
}

#[test]
fn shapes_that_cannot_be_say_why() {
    assert_eq!(Shape::new(4096, 500, 1, 1, 1), Err(ShapeError::Page { page_bytes: 4096, sector_bytes: 500 }));
    assert_eq!(Shape::new(256, 512, 1, 1, 1), Err(ShapeError::Page { page_bytes: 256, sector_bytes: 512 }));
    assert_eq!(Shape::new(1 << 20, 512, 1, 1, 1), Err(ShapeError::Page { page_bytes: 1 << 20, sector_bytes: 512 }));
    assert_eq!(Shape::new(4096, 512, 0, 1, 1), Err(ShapeError::Stripe));
    let pages = Ext::MAX_DEVICE_PAGES + 1;
    assert_eq!(Shape::new(4096, 512, 1, 1, pages), Err(ShapeError::Capacity(pages)));
}
