//! The examples of specs §2, the names, and what cannot be.

use destage_plan::{Column, Dev, Row, Stripe};
use destage_raid::{ArrayGeometryError, Geometry, Layout, Level, MAX_DEVICES, Place};

/// The stripes of an array, a line each, drawn as specs §2 draws them: what each device holds, data
/// numbered by page.
fn drawn(level: Level, layout: Layout, devices: u32, stripes: u64) -> Vec<String> {
    let geometry = Geometry::new(level, Some(layout), devices, 1, stripes).expect("a possible shape");
    let k = geometry.data_columns();
    let part = |stripe, device| match geometry.column(stripe, device) {
        column if column.0 < k => format!("D{}", geometry.page_of(Place { stripe, row_in_chunk: 0, column })),
        column if column.0 == k => "P".to_owned(),
        _ => "Q".to_owned(),
    };
    let line = |stripe| (0..geometry.members()).map(|device| part(stripe, Dev(device))).collect::<Vec<_>>().join(" ");
    (0..stripes).map(Stripe).map(line).collect()
}

#[test]
fn raid5_left_symmetric_is_the_table_of_the_specification() {
    let table = ["D0 D1 D2 P", "D4 D5 P D3", "D8 P D6 D7", "P D9 D10 D11", "D12 D13 D14 P"];
    assert_eq!(drawn(Level::Raid5, Layout::LeftSymmetric, 4, 5), table);
}

#[test]
fn raid6_left_symmetric_is_the_table_of_the_specification() {
    let table = ["Q D0 D1 D2 P", "D3 D4 D5 P Q", "D7 D8 P Q D6", "D11 P Q D9 D10", "P Q D12 D13 D14"];
    assert_eq!(drawn(Level::Raid6, Layout::LeftSymmetric, 5, 5), table);
}

/// From the comments of raid5.c: `Q D D D P` for left-asymmetric, `D D D P Q` for DDF's rotating N
/// restart in stripe 0, and `P D D D Q` and `D D Q P D` for rotating N continue.
#[test]
fn ddf_begins_as_md_says() {
    assert_eq!(drawn(Level::Raid6, Layout::LeftAsymmetric, 5, 2), ["Q D0 D1 D2 P", "D3 D4 D5 P Q"]);
    assert_eq!(drawn(Level::Raid6, Layout::DdfNRestart, 5, 2), ["D0 D1 D2 P Q", "D3 D4 P Q D5"]);
    let continued = drawn(Level::Raid6, Layout::DdfNContinue, 5, 5);
    assert_eq!(continued, ["D0 D1 D2 Q P", "D4 D5 Q P D3", "D8 Q P D6 D7", "Q P D9 D10 D11", "P D12 D13 D14 Q"]);
}

#[test]
fn the_syndrome_begins_after_q_and_ddf_counts_gaps() {
    let exponents = |layout, stripe| {
        let geometry = Geometry::new(Level::Raid6, Some(layout), 5, 1, 5).expect("a possible shape");
        (geometry.slots(), geometry.map(Stripe(stripe)).exponents().to_vec())
    };
    // Q D0 D1 D2 P, then D6 D7 P Q D8: the device after Q comes first.
    assert_eq!(exponents(Layout::LeftAsymmetric, 0), (3, vec![0, 1, 2]));
    assert_eq!(exponents(Layout::LeftAsymmetric, 2), (3, vec![1, 2, 0]));
    assert_eq!(exponents(Layout::LeftSymmetric, 2), (3, vec![0, 1, 2]));
    // D4 D5 P D3 Q: devices in order, whatever the order of the data.
    assert_eq!(exponents(Layout::LeftSymmetric6, 1), (3, vec![2, 0, 1]));
    // P Q D0 D1 D2: P and Q are gaps.
    assert_eq!(exponents(Layout::DdfZeroRestart, 0), (5, vec![2, 3, 4]));
    assert_eq!(exponents(Layout::DdfNRestart, 0), (5, vec![0, 1, 2]));

    let five = Geometry::new(Level::Raid5, None, 5, 1, 5).expect("a possible shape");
    assert_eq!((five.slots(), five.map(Stripe(0)).exponents()), (0, &[][..]));
}

#[test]
fn columns_are_counted_by_level() {
    let counts = |level, devices| {
        let geometry = Geometry::new(level, None, devices, 4, 11).expect("a possible shape");
        assert_eq!(u32::from(geometry.members()), devices);
        (geometry.data_columns(), geometry.parity_columns(), geometry.member_pages(), geometry.data_pages())
    };
    // Three pages after the last whole chunk are not used.
    assert_eq!(counts(Level::Raid0, 1), (1, 0, 8, 8));
    assert_eq!(counts(Level::Raid0, 5), (5, 0, 8, 40));
    assert_eq!(counts(Level::Raid4, 5), (4, 1, 8, 32));
    assert_eq!(counts(Level::Raid5, 3), (2, 1, 8, 16));
    assert_eq!(counts(Level::Raid6, 4), (2, 2, 8, 16));
    // RAID-1 uses every page.
    assert_eq!(counts(Level::Raid1, 3), (1, 2, 11, 11));
}

#[test]
fn raid1_lists_every_copy() {
    let geometry = Geometry::new(Level::Raid1, None, 3, 64, 100).expect("a possible shape");
    assert_eq!(geometry.chunk_pages(), 4, "the largest that divides the members");
    assert_eq!(geometry.locate(77), Place { stripe: Stripe(19), row_in_chunk: 1, column: Column(0) });
    assert_eq!((geometry.row(Stripe(19), 1), geometry.devices(Stripe(19))), (Row(77), &[0, 1, 2].map(Dev)[..]));
}

#[test]
fn names_are_those_of_mdadm() {
    let names: Vec<_> = Layout::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "left-asymmetric",
            "right-asymmetric",
            "left-symmetric",
            "right-symmetric",
            "parity-first",
            "parity-last",
            "ddf-zero-restart",
            "ddf-N-restart",
            "ddf-N-continue",
            "left-asymmetric-6",
            "right-asymmetric-6",
            "left-symmetric-6",
            "right-symmetric-6",
            "parity-first-6",
        ]
    );
    for (layout, name) in Layout::ALL.iter().zip(&names) {
        assert_eq!(name.parse(), Ok(*layout));
    }
    assert_eq!("ls".parse(), Ok(Layout::LeftSymmetric));
    assert_eq!("ra".parse(), Ok(Layout::RightAsymmetric));
    let error = "left".parse::<Layout>().expect_err("no such layout").to_string();
    assert!(names.iter().all(|name| error.contains(name.as_str())) && error.contains("\"left\""), "{error}");

    for level in Level::ALL {
        assert_eq!(level.to_string().parse(), Ok(level));
        assert_eq!(level.to_string().trim_start_matches("raid").parse(), Ok(level));
    }
    assert_eq!(("stripe".parse(), "mirror".parse()), (Ok(Level::Raid0), Ok(Level::Raid1)));
    let error = "raid10".parse::<Level>().expect_err("no such level").to_string();
    assert!(error.contains("raid10") && error.contains("raid6"), "{error}");
}

#[test]
fn without_a_layout_it_is_the_default_of_md() {
    let layout = |level, given| Geometry::new(level, given, 6, 16, 1 << 20).expect("a possible shape").layout();
    assert_eq!(layout(Level::Raid0, None), None);
    assert_eq!(layout(Level::Raid1, None), None);
    assert_eq!(layout(Level::Raid4, None), Some(Layout::ParityLast));
    assert_eq!(layout(Level::Raid5, None), Some(Layout::LeftSymmetric));
    assert_eq!(layout(Level::Raid6, None), Some(Layout::LeftSymmetric));
    // On RAID-5 mdadm takes DDF's names for these.
    assert_eq!(layout(Level::Raid5, Some(Layout::DdfZeroRestart)), Some(Layout::RightAsymmetric));
    assert_eq!(layout(Level::Raid5, Some(Layout::DdfNRestart)), Some(Layout::LeftAsymmetric));
    assert_eq!(layout(Level::Raid5, Some(Layout::DdfNContinue)), Some(Layout::LeftSymmetric));
}

#[test]
fn what_cannot_be_is_explained() {
    let error = |level, layout, devices, chunk, member| {
        Geometry::new(level, layout, devices, chunk, member).expect_err("an impossible shape")
    };
    for level in Level::ALL {
        for devices in [0, level.min_devices() - 1, MAX_DEVICES as u32 + 1, u32::MAX] {
            let error = error(level, None, devices, 16, 1 << 20);
            assert_eq!(error, ArrayGeometryError::Devices { level, devices });
            let expected = format!("array.devices = {devices} is not between {} and 32 ({level})", level.min_devices());
            assert_eq!(error.to_string(), expected);
        }
        assert!(Geometry::new(level, None, level.min_devices(), 16, 16).is_ok());
        assert!(Geometry::new(level, None, MAX_DEVICES as u32, 16, 16).is_ok());
    }
    let text = error(Level::Raid1, Some(Layout::LeftSymmetric), 2, 16, 1 << 20).to_string();
    assert_eq!(text, "array.layout = left-symmetric, but raid1 has no layouts; leave it out");
    let text = error(Level::Raid4, Some(Layout::LeftSymmetric), 4, 16, 1 << 20).to_string();
    assert_eq!(text, "array.layout = left-symmetric is not one of raid4: parity-last");
    let text = error(Level::Raid5, Some(Layout::ParityFirst6), 4, 16, 1 << 20).to_string();
    assert!(text.starts_with("array.layout = parity-first-6 is not one of raid5: left-asymmetric,"), "{text}");
    assert!(text.ends_with("ddf-N-continue"), "{text}");

    assert_eq!(error(Level::Raid5, None, 4, 0, 1 << 20), ArrayGeometryError::Chunk);
    let small = error(Level::Raid5, None, 4, 16, 15);
    assert_eq!(small, ArrayGeometryError::TooSmall { member_pages: 15, chunk_pages: 16 });
    let large = error(Level::Raid5, None, 4, 16, u64::MAX / 2);
    assert_eq!(large, ArrayGeometryError::TooLarge { member_pages: u64::MAX / 2, data_columns: 3 });
}

#[test]
fn the_largest_array_has_no_overflow() {
    let member = u64::MAX / 30;
    let geometry = Geometry::new(Level::Raid6, None, 32, u32::MAX, member).expect("a possible shape");
    let last = geometry.data_pages() - 1;
    let place = geometry.locate(last);
    assert_eq!(place, Place { stripe: Stripe(geometry.stripes() - 1), row_in_chunk: u32::MAX - 1, column: Column(29) });
    assert_eq!(geometry.page_of(place), last);
    assert_eq!(geometry.row(place.stripe, place.row_in_chunk), Row(geometry.member_pages() - 1));
}
