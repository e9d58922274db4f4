//! Checks numbers and structures against Linux' `ublk_cmd.h`: its offsets, on a machine whose low bytes come first.
#![cfg(target_endian = "little")]

use destage_ublk::abi::{
    ADD_DEV, COMMIT_AND_FETCH_REQ, ControlCommand, DeviceInfo, DeviceParams, FETCH_REQ, GET_DEV_INFO2, GET_FEATURES,
    RequestCommand,
};

#[test]
fn commands_are_encoded_as_ioctls() {
    assert_eq!([ADD_DEV, GET_DEV_INFO2, GET_FEATURES], [0xc020_7504, 0x8020_7512, 0x8020_7513]);
    assert_eq!([FETCH_REQ, COMMIT_AND_FETCH_REQ], [0xc010_7520, 0xc010_7521]);
}

#[test]
fn commands_lie_where_the_driver_reads_them() {
    let control =
        ControlCommand { device: 0x0102_0304, buffer: (0x1122_3344_5566_7788, 0x0a0b), data: 9, path_len: 12 }.encode();
    let mut expected = [0; 80];
    expected[..4].copy_from_slice(&[4, 3, 2, 1]);
    expected[4..6].fill(0xff);
    expected[6..8].copy_from_slice(&[0x0b, 0x0a]);
    expected[8..16].copy_from_slice(&[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    (expected[16], expected[24]) = (9, 12);
    assert_eq!(control, expected);

    let request = RequestCommand { tag: 0x0102, result: -5, address: 0x1234 }.encode();
    let mut expected = [0; 80];
    expected[2..8].copy_from_slice(&[2, 1, 0xfb, 0xff, 0xff, 0xff]);
    expected[8..10].copy_from_slice(&[0x34, 0x12]);
    assert_eq!(request, expected);
}

#[test]
fn what_a_device_is_lies_where_the_driver_has_it() {
    let info = DeviceInfo {
        depth: 128,
        state: 2,
        longest: 1 << 20,
        device: 7,
        pid: 99,
        features: 0x1c,
        identity: 0xabcd,
        owner: 5,
    };
    let bytes = info.encode();
    let mut expected = [0; 64];
    (expected[0], expected[2], expected[4], expected[10], expected[12], expected[16]) = (1, 128, 2, 0x10, 7, 99);
    (expected[24], expected[32], expected[33], expected[40]) = (0x1c, 0xcd, 0xab, 5);
    assert_eq!(bytes, expected);
    assert_eq!(DeviceInfo::decode(&bytes), info);
}

#[test]
fn parameters_lie_where_the_driver_has_them() {
    let params = DeviceParams {
        attributes: 0xc,
        sector_shift: 9,
        block_shift: 12,
        longest: 2048,
        sectors: 0x10_0000_0000,
        longest_trim: 1 << 21,
    };
    let bytes = params.encode();
    let mut expected = [0; 60];
    (expected[0], expected[4], expected[8]) = (60, 3, 0xc);
    expected[12..16].copy_from_slice(&[9, 12, 12, 12]);
    (expected[17], expected[28]) = (8, 0x10);
    // Granularity, the longest trim and the longest zeros, one range at a time.
    (expected[45], expected[50], expected[54], expected[56]) = (0x10, 0x20, 0x20, 1);
    assert_eq!(bytes, expected);
    assert_eq!(DeviceParams::decode(&bytes), params);
}
