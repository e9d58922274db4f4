//! The examples of specs §2, the names, and what cannot be.

use destage_plan::{Column, Dev, Row, Stripe};
use destage_raid::{ArrayGeometryError, Geometry, MAX_DEVICES, PagePlace, ParityLayout, RaidLevel};

/// The stripes of an array, a line each, drawn as specs §2 draws them: what each device holds, data
/// numbered by page.
fn drawn(level: RaidLevel, layout: ParityLayout, devices: u32, stripes: u64) -> Vec<String> {
    let geometry = Geometry::new(level, Some(layout), devices, 1, stripes).expect("a possible shape");
    let k = geometry.data_columns();
    let part = |stripe, device| match geometry.column(stripe, device) {
        column if column.0 < k => format!("D{}", geometry.page_of(PagePlace { stripe, row_in_chunk: 0, column })),
        column if column.0 == k => "P".to_owned(),
        _ => "Q".to_owned(),
    };
    let line = |stripe| (0..geometry.members()).map(|device| part(stripe, Dev(device))).collect::<Vec<_>>().join(" ");
    (0..stripes).map(Stripe).map(line).collect()
}

#[test]
fn raid5_left_symmetric_is_the_table_of_the_specification() {
    let table = ["D0 D1 D2 P", "D4 D5 P D3", "D8 P D6 D7", "P D9 D10 D11", "D12 D13 D14 P"];
    assert_eq!(drawn(RaidLevel::Raid5, ParityLayout::LeftSymmetric, 4, 5), table);
}

#[test]
fn raid6_left_symmetric_is_the_table_of_the_specification() {
    let table = ["Q D0 D1 D2 P", "D3 D4 D5 P Q", "D7 D8 P Q D6", "D11 P Q D9 D10", "P Q D12 D13 D14"];
    assert_eq!(drawn(RaidLevel::Raid6, ParityLayout::LeftSymmetric, 5, 5), table);
}

/// From the comments of raid5.c: `SecondParityPlace D D D ParityPlace` for left-asymmetric, `D D D ParityPlace SecondParityPlace` for DDF's rotating N
/// restart in stripe 0, and `ParityPlace D D D SecondParityPlace` and `D D SecondParityPlace ParityPlace D` for rotating N continue.
#[test]
fn ddf_begins_as_md_says() {
    assert_eq!(drawn(RaidLevel::Raid6, ParityLayout::LeftAsymmetric, 5, 2), ["Q D0 D1 D2 P", "D3 D4 D5 P Q"]);
    assert_eq!(drawn(RaidLevel::Raid6, ParityLayout::DdfNRestart, 5, 2), ["D0 D1 D2 P Q", "D3 D4 P Q D5"]);
    let continued = drawn(RaidLevel::Raid6, ParityLayout::DdfNContinue, 5, 5);
    assert_eq!(continued, ["D0 D1 D2 Q P", "D4 D5 Q P D3", "D8 Q P D6 D7", "Q P D9 D10 D11", "P D12 D13 D14 Q"]);
}

#[test]
fn the_syndrome_begins_after_q_and_ddf_counts_gaps() {
    let exponents = |layout, stripe| {
        let geometry = Geometry::new(RaidLevel::Raid6, Some(layout), 5, 1, 5).expect("a possible shape");
        (geometry.slots(), geometry.map(Stripe(stripe)).exponents().to_vec())
    };
    // Q D0 D1 D2 P, then D6 D7 P Q D8: the device after Q comes first.
    assert_eq!(exponents(ParityLayout::LeftAsymmetric, 0), (3, vec![0, 1, 2]));
    assert_eq!(exponents(ParityLayout::LeftAsymmetric, 2), (3, vec![1, 2, 0]));
    assert_eq!(exponents(ParityLayout::LeftSymmetric, 2), (3, vec![0, 1, 2]));
    // D4 D5 P D3 Q: devices in order, whatever the order of the data.
    assert_eq!(exponents(ParityLayout::LeftSymmetric6, 1), (3, vec![2, 0, 1]));
    // P Q D0 D1 D2: P and Q are gaps.
    assert_eq!(exponents(ParityLayout::DdfZeroRestart, 0), (5, vec![2, 3, 4]));
    assert_eq!(exponents(ParityLayout::DdfNRestart, 0), (5, vec![0, 1, 2]));

    let five = Geometry::new(RaidLevel::Raid5, None, 5, 1, 5).expect("a possible shape");
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
    assert_eq!(counts(RaidLevel::Raid0, 1), (1, 0, 8, 8));
    assert_eq!(counts(RaidLevel::Raid0, 5), (5, 0, 8, 40));
    assert_eq!(counts(RaidLevel::Raid4, 5), (4, 1, 8, 32));
    assert_eq!(counts(RaidLevel::Raid5, 3), (2, 1, 8, 16));
    assert_eq!(counts(RaidLevel::Raid6, 4), (2, 2, 8, 16));
    // RAID-1 uses every page.
    assert_eq!(counts(RaidLevel::Raid1, 3), (1, 2, 11, 11));
}

#[test]
fn raid1_lists_every_copy() {
    let geometry = Geometry::new(RaidLevel::Raid1, None, 3, 64, 100).expect("a possible shape");
    assert_eq!(geometry.chunk_pages(), 4, "the largest that divides the members");
    assert_eq!(geometry.locate(77), PagePlace { stripe: Stripe(19), row_in_chunk: 1, column: Column(0) });
    assert_eq!((geometry.row(Stripe(19), 1), geometry.devices(Stripe(19))), (Row(77), &[0, 1, 2].map(Dev)[..]));
}

#[test]
fn names_are_those_of_mdadm() {
    let names: Vec<_> = ParityLayout::ALL.iter().map(ToString::to_string).collect();
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
    for (layout, name) in ParityLayout::ALL.iter().zip(&names) {
        assert_eq!(name.parse(), Ok(*layout));
    }
    assert_eq!("ls".parse(), Ok(ParityLayout::LeftSymmetric));
    assert_eq!("ra".parse(), Ok(ParityLayout::RightAsymmetric));
    let error = "left".parse::<ParityLayout>().expect_err("no such layout").to_string();
    assert!(names.iter().all(|name| error.contains(name.as_str())) && error.contains("\"left\""), "{error}");

    for level in RaidLevel::ALL {
        assert_eq!(level.to_string().parse(), Ok(level));
        assert_eq!(level.to_string().trim_start_matches("raid").parse(), Ok(level));
    }
    assert_eq!(("stripe".parse(), "mirror".parse()), (Ok(RaidLevel::Raid0), Ok(RaidLevel::Raid1)));
    let error = "raid10".parse::<RaidLevel>().expect_err("no such level").to_string();
    assert!(error.contains("raid10") && error.contains("raid6"), "{error}");
}

#[test]
fn without_a_layout_it_is_the_default_of_md() {
    let layout = |level, given| Geometry::new(level, given, 6, 16, 1 << 20).expect("a possible shape").layout();
    assert_eq!(layout(RaidLevel::Raid0, None), None);
    assert_eq!(layout(RaidLevel::Raid1, None), None);
    assert_eq!(layout(RaidLevel::Raid4, None), Some(ParityLayout::ParityLast));
    assert_eq!(layout(RaidLevel::Raid5, None), Some(ParityLayout::LeftSymmetric));
    assert_eq!(layout(RaidLevel::Raid6, None), Some(ParityLayout::LeftSymmetric));
    // On RAID-5 mdadm takes DDF's names for these.
    assert_eq!(layout(RaidLevel::Raid5, Some(ParityLayout::DdfZeroRestart)), Some(ParityLayout::RightAsymmetric));
    assert_eq!(layout(RaidLevel::Raid5, Some(ParityLayout::DdfNRestart)), Some(ParityLayout::LeftAsymmetric));
    assert_eq!(layout(RaidLevel::Raid5, Some(ParityLayout::DdfNContinue)), Some(ParityLayout::LeftSymmetric));
}

#[test]
fn what_cannot_be_is_explained() {
    let error = |level, layout, devices, chunk, member| {
        Geometry::new(level, layout, devices, chunk, member).expect_err("an impossible shape")
    };
    for level in RaidLevel::ALL {
        for devices in [0, level.min_devices() - 1, MAX_DEVICES as u32 + 1, u32::MAX] {
            let error = error(level, None, devices, 16, 1 << 20);
            assert_eq!(error, ArrayGeometryError::Devices { level, devices });
            let expected = format!("array.devices = {devices} is not between {} and 32 ({level})", level.min_devices());
            assert_eq!(error.to_string(), expected);
        }
        assert!(Geometry::new(level, None, level.min_devices(), 16, 16).is_ok());
        assert!(Geometry::new(level, None, MAX_DEVICES as u32, 16, 16).is_ok());
    }
    let text = error(RaidLevel::Raid1, Some(ParityLayout::LeftSymmetric), 2, 16, 1 << 20).to_string();
    assert_eq!(text, "array.layout = left-symmetric, but raid1 has no layouts; leave it out");
    let text = error(RaidLevel::Raid4, Some(ParityLayout::LeftSymmetric), 4, 16, 1 << 20).to_string();
    assert_eq!(text, "array.layout = left-symmetric is not one of raid4: parity-last");
    let text = error(RaidLevel::Raid5, Some(ParityLayout::ParityFirst6), 4, 16, 1 << 20).to_string();
    assert!(text.starts_with("array.layout = parity-first-6 is not one of raid5: left-asymmetric,"), "{text}");
    assert!(text.ends_with("ddf-N-continue"), "{text}");

    assert_eq!(error(RaidLevel::Raid5, None, 4, 0, 1 << 20), ArrayGeometryError::Chunk);
    let small = error(RaidLevel::Raid5, None, 4, 16, 15);
    assert_eq!(small, ArrayGeometryError::TooSmall { member_pages: 15, chunk_pages: 16 });
    let large = error(RaidLevel::Raid5, None, 4, 16, u64::MAX / 2);
    assert_eq!(large, ArrayGeometryError::TooLarge { member_pages: u64::MAX / 2, data_columns: 3 });
}

#[test]
fn the_largest_array_has_no_overflow() {
    let member = u64::MAX / 30;
    let geometry = Geometry::new(RaidLevel::Raid6, None, 32, u32::MAX, member).expect("a possible shape");
    let last = geometry.data_pages() - 1;
    let place = geometry.locate(last);
    assert_eq!(
        place,
        PagePlace { stripe: Stripe(geometry.stripes() - 1), row_in_chunk: u32::MAX - 1, column: Column(29) }
    );
    assert_eq!(geometry.page_of(place), last);
    assert_eq!(geometry.row(place.stripe, place.row_in_chunk), Row(geometry.member_pages() - 1));
}
