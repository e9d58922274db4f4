//! Every implementation that this machine can run against the reference; the reference against
//! arithmetic by hand; recovery of every pair of lost devices.

use destage_plan::{Column, Stripe};
use destage_raid::kernels::{self, ParityKernels, field, reference};
use destage_raid::{Geometry, ParityLayout, RaidLevel};
use proptest::collection::vec;
use proptest::prelude::*;

/// Long division of polynomials, bit by bit.
fn product(a: u8, b: u8) -> u8 {
    let mut product = 0_u16;
    for bit in 0..8 {
        if b >> bit & 1 != 0 {
            product ^= u16::from(a) << bit;
        }
    }
    for bit in (8..16).rev() {
        if product >> bit & 1 != 0 {
            product ^= 0x11D << (bit - 8);
        }
    }
    product as u8
}

#[test]
fn the_field_is_that_of_0x11d() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(field::mul(a, b), product(a, b), "{a}·{b}");
        }
    }
    for a in 1..=255 {
        assert_eq!(product(a, field::inv(a)), 1, "1/{a}");
    }
    let mut power = 1;
    for i in 0..600 {
        assert_eq!(field::pow2(i), power, "2^{i}");
        power = product(power, 2);
    }
    // From the Linux kernel's raid6_gfexp and raid6_gfinv tables.
    assert_eq!((field::pow2(8), field::pow2(254), field::inv(2), field::inv(255)), (0x1D, 0x8E, 0x8E, 0xFD));
}

#[test]
#[should_panic(expected = "0 has no inverse")]
fn zero_has_no_inverse() {
    field::inv(0);
}

#[test]
fn coefficients_solve_the_equations_of_two_lost_pages() {
    for x in 0..255 {
        assert_eq!(product(field::by_q(x), field::pow2(x)), 1);
        for y in (0..255).filter(|y| *y != x) {
            let (a, b) = field::by_p_and_q(x, y);
            // a·(X ⊕ Y) ⊕ b·(gˣX ⊕ gʸY) is X for all X and Y.
            assert_eq!(a ^ product(b, field::pow2(x)), 1, "{x} {y}");
            assert_eq!(a ^ product(b, field::pow2(y)), 0, "{x} {y}");
        }
    }
}

#[test]
#[should_panic(expected = "same exponent")]
fn a_page_is_not_lost_twice() {
    field::by_p_and_q(3, 3);
}

#[test]
fn small_parities_are_those_worked_out_by_hand() {
    // Q = 0x80 ⊕ 2·0x80 ⊕ 4·0x80 = 0x80 ⊕ 0x1D ⊕ 0x3A.
    for (name, kernels) in all() {
        let (mut p, mut q) = ([0xFF], [0xFF]);
        kernels.pq(&mut p, &mut q, &[Some(&[0x80]), Some(&[0x80]), Some(&[0x80])]);
        assert_eq!((p, q), ([0x80], [0x80 ^ 0x1D ^ 0x3A]), "{name}");
        kernels.pq(&mut p, &mut q, &[None, Some(&[0x80]), None, Some(&[1]), None]);
        assert_eq!((p, q), ([0x81], [0x1D ^ 8]), "{name}");
        kernels.pq(&mut p, &mut q, &[]);
        assert_eq!((p, q), ([0], [0]), "{name}");
    }
}

/// Everything that this machine can run.
fn all() -> Vec<(&'static str, ParityKernels)> {
    ParityKernels::all_available().collect()
}

#[test]
fn there_is_always_a_portable_implementation_and_the_best_is_the_first() {
    let names: Vec<_> = all().iter().map(|(name, _)| *name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    assert_eq!(names.first(), Some(&ParityKernels::best().name()));
}

/// Bytes that differ from each other at every place.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

/// Pages of noise that begin `offset` bytes after where they would be aligned.
fn pages(count: usize, offset: usize, len: usize, seed: u64) -> Vec<Vec<u8>> {
    (0..count as u64).map(|i| noise(offset + len, seed ^ (i << 40))).collect()
}

/// Runs every kernel of every implementation over `len` bytes, and compares with the reference. The
/// bytes before and after the destination must stay as they were.
fn compare(len: usize, count: usize, offset: usize, holes: u32, (a, b): (u8, u8), seed: u64) {
    let pages = pages(count, offset, len, seed);
    let srcs: Vec<&[u8]> = pages.iter().map(|page| &page[offset..]).collect();
    let sparse: Vec<Option<&[u8]>> =
        (0..).zip(&srcs).map(|(i, src)| (holes >> (i % 32) & 1 == 0).then_some(*src)).collect();
    let before = noise(offset + len + 64, !seed);
    let (x, y) = (noise(len, seed ^ 1), noise(len, seed ^ 2));
    let guarded = |run: &dyn Fn(&mut [u8], &mut [u8])| {
        let (mut one, mut two) = (before.clone(), before.clone());
        run(&mut one[offset..offset + len], &mut two[offset..offset + len]);
        (one, two)
    };
    let expected = [
        guarded(&|dst, _| reference::xor(dst, &srcs)),
        guarded(&|dst, _| reference::xor_into(dst, &x)),
        guarded(&|p, q| reference::pq(p, q, &sparse)),
        guarded(&|dst, _| reference::gf(dst, a, &x, b, &y)),
        guarded(&|dst, _| reference::gf_into(dst, a, &x)),
    ];
    for (name, kernels) in all() {
        let got = [
            guarded(&|dst, _| kernels.xor(dst, &srcs)),
            guarded(&|dst, _| kernels.xor_into(dst, &x)),
            guarded(&|p, q| kernels.pq(p, q, &sparse)),
            guarded(&|dst, _| kernels.gf(dst, a, &x, b, &y)),
            guarded(&|dst, _| kernels.gf_into(dst, a, &x)),
        ];
        for (kernel, (got, expected)) in
            ["xor", "xor_into", "pq", "gf", "gf_into"].iter().zip(got.iter().zip(&expected))
        {
            assert!(
                got == expected,
                "{name} {kernel}: len {len}, {count} sources, offset {offset}, a {a}, b {b}, holes {holes:x}"
            );
        }
    }
}

#[test]
fn every_short_length_is_right() {
    for len in 0..600 {
        compare(len, len % 9, len % 5, 0x5a, (len as u8, 0x8E), len as u64);
    }
}

#[test]
fn every_number_of_sources_is_right() {
    for count in 0..40 {
        compare(1100, count, 1, 0, (2, 3), count as u64);
        compare(1100, count, 0, 0xF00F_A5C3, (0, 1), count as u64);
    }
}

#[test]
fn every_constant_is_right_for_every_byte() {
    let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
    for (name, kernels) in all() {
        for a in 0..=255_u8 {
            let b = a.wrapping_mul(7) ^ 0x35;
            let mut dst = vec![0; bytes.len()];
            kernels.gf(&mut dst, a, &bytes, b, &bytes);
            let right = dst.iter().zip(&bytes).all(|(got, x)| *got == product(a ^ b, *x));
            assert!(right, "{name}: {a} and {b}");
            let mut dst = bytes.clone();
            kernels.gf_into(&mut dst, a, &bytes);
            let right = dst.iter().zip(&bytes).all(|(got, x)| *got == x ^ product(a, *x));
            assert!(right, "{name}: {a}");
        }
    }
}

fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("DESTAGE_SOAK").is_some() { 20_000 } else { 300 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn all_implementations_agree(
        len in prop_oneof![0..300_usize, 3900..4300_usize, Just(4096), 0..20_000_usize],
        count in 0..34_usize,
        offset in 0..70_usize,
        holes in any::<u32>(),
        constants in any::<(u8, u8)>(),
        seed in any::<u64>(),
    ) {
        compare(len, count, offset, holes, constants, seed);
    }

    /// Whatever one or two devices are lost, the stripe comes back, by the exponents that the
    /// geometry gives.
    #[test]
    fn any_two_devices_come_back(
        layout in 0..ParityLayout::ALL.len(),
        devices in 4..33_u32,
        stripe in 0..1000_u64,
        len in 1..500_usize,
        lost in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        seed in any::<u64>(),
    ) {
        let geometry = Geometry::new(RaidLevel::Raid6, Some(ParityLayout::ALL[layout]), devices, 1, 1000).expect("a possible shape");
        let n = usize::from(geometry.members());
        let k = usize::from(geometry.data_columns());
        let exponent = |column: usize| geometry.exponent(Stripe(stripe), Column(column as u8));
        let data = pages(k, 0, len, seed);
        // The syndrome's sources with the pages of these columns missing.
        let parities = |missing: [usize; 2]| {
            let mut slots = vec![None; usize::from(geometry.slots())];
            for (column, page) in data.iter().enumerate().filter(|(column, _)| !missing.contains(column)) {
                slots[exponent(column) as usize] = Some(&page[..]);
            }
            let (mut p, mut q) = (vec![0; len], vec![0; len]);
            kernels::pq(&mut p, &mut q, &slots);
            (p, q)
        };
        let (p, q) = parities([n, n]);
        // Columns; the same one twice is a single loss.
        let (x, y) = (lost.0.index(n), lost.1.index(n));
        let (x, y) = (x.min(y), x.max(y));
        let (mut dp, mut dq) = parities([x, y]);
        kernels::xor_into(&mut dp, &p);
        kernels::xor_into(&mut dq, &q);
        let mut found = vec![0; len];
        if y < k && x != y {
            let (a, b) = field::by_p_and_q(exponent(x), exponent(y));
            kernels::gf(&mut found, a, &dp, b, &dq);
            prop_assert_eq!(&found, &data[x]);
            kernels::xor_into(&mut found, &dp);
            prop_assert_eq!(&found, &data[y]);
        } else if x < k {
            // Data and P, then data and Q or data alone.
            kernels::gf_into(&mut found, field::by_q(exponent(x)), &dq);
            prop_assert_eq!(&found, &data[x]);
            prop_assert_eq!(&dp, &data[x]);
        } else {
            prop_assert!(dp.iter().chain(&dq).all(|byte| *byte == 0));
        }
    }

    /// A small write: the change times gⁱ is what Q changes by, and the change itself is what P
    /// changes by.
    #[test]
    fn parity_follows_a_small_write(
        mut data in (1..300_usize, 1..32_usize).prop_flat_map(|(len, count)| vec(vec(any::<u8>(), len), count)),
        written in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let len = data[0].len();
        let parities = |data: &[Vec<u8>]| {
            let slots: Vec<_> = data.iter().map(|page| Some(&page[..])).collect();
            let (mut p, mut q) = (vec![0; len], vec![0; len]);
            kernels::pq(&mut p, &mut q, &slots);
            (p, q)
        };
        let (mut p, mut q) = parities(&data);
        let exponent = written.index(data.len());
        let new = noise(len, seed);
        let mut change = vec![0; len];
        kernels::xor(&mut change, &[&data[exponent], &new]);
        kernels::xor_into(&mut p, &change);
        kernels::gf_into(&mut q, field::pow2(exponent as u32), &change);
        data[exponent] = new;
        prop_assert_eq!((p, q), parities(&data));
    }
}

/// Runs a kernel with one slice too short, and gives what it says.
fn complaint(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let cause = std::panic::catch_unwind(run).expect_err("the lengths differ");
    cause.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn slices_of_different_lengths_are_named() {
    let text = "a source of 15 bytes with a destination of 16";
    for (name, kernels) in all() {
        let complaints = [
            complaint(|| kernels.xor(&mut [0; 16], &[&[0; 16], &[0; 15]])),
            complaint(|| kernels.xor_into(&mut [0; 16], &[0; 15])),
            complaint(|| kernels.pq(&mut [0; 16], &mut [0; 15], &[])),
            complaint(|| kernels.pq(&mut [0; 16], &mut [0; 16], &[None, Some(&[0; 15])])),
            complaint(|| kernels.gf(&mut [0; 16], 1, &[0; 16], 2, &[0; 15])),
            complaint(|| kernels.gf(&mut [0; 16], 1, &[0; 15], 2, &[0; 16])),
            complaint(|| kernels.gf_into(&mut [0; 16], 1, &[0; 15])),
        ];
        for (complaint, kernel) in complaints.iter().zip(["xor", "xor_into", "pq", "pq", "gf", "gf", "gf_into"]) {
            assert_eq!(*complaint, format!("{kernel}: {text}"), "{name}");
        }
    }
}
