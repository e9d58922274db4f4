//! libCacheSim's records that begin with a header.

use super::*;

const MARK: u64 = 0x1234_5678_9abc_def0;

/// Returns a header of so many bytes.
fn header(bytes: usize, version: u64) -> Vec<u8> {
    let mut header = vec![0; bytes];
    header[..8].copy_from_slice(&MARK.to_le_bytes());
    header[8..16].copy_from_slice(&version.to_le_bytes());
    header[bytes - 8..].copy_from_slice(&MARK.to_le_bytes());
    header
}

/// Returns a record of a version.
fn record(version: u64, time: u32, object: u64, size: u32, operation: u8, tenant: u32) -> Vec<u8> {
    let mut record = [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes()].concat();
    if version > 2 {
        record.extend([0; 4]);
    }
    if version > 1 {
        record.extend((tenant << 8 | u32::from(operation)).to_le_bytes());
    }
    if version > 2 {
        record.extend(60_u32.to_le_bytes());
    }
    record.extend((-1_i64).to_le_bytes());
    let features = [0, 0, 0, 0, 1, 2, 4, 8, 16][version as usize];
    record.extend(vec![7; 4 * features]);
    record
}

#[test]
fn lcs_is_read_in_every_version() {
    let expected = [request(0, R, 3 * 4096, 4096, 0), request(2_000_000_000, W, 40960, 512, 1)];
    for version in 2..=8 {
        let records = [record(version, 5, 3, 4096, 12, 9), record(version, 7, 10, 512, 13, 0xff_ffff)].concat();
        for bytes in [1024, 8192] {
            let file = [header(bytes, version), records.clone()].concat();
            let mut trace = memory(file, &OpenOptions::default()).unwrap();
            assert_eq!((trace.format(), drain(&mut trace).unwrap()), (FormatId::Lcs, expected.to_vec()), "{version}");
            assert_eq!(trace.volume_names(), ["9", "16777215"]);
        }
    }
    // Version 1 tells neither kinds nor tenants, as oracle-general.
    let records = [record(1, 5, 3, 4096, 0, 0), record(1, 7, 10, 512, 0, 0)].concat();
    for bytes in [1024, 8192] {
        let file = [header(bytes, 1), records.clone()].concat();
        let refusal = error(file.clone(), "");
        assert!(
            refusal.contains("does not say whether its accesses read or write: give --format lcs:op=R"),
            "{refusal}"
        );
        for (op, kind) in [("R", R), ("W", W)] {
            let read_lcs = read(file.clone(), &format!("lcs:op={op},unit=512"), false).unwrap().0;
            let as_oracle = read(records.clone(), &format!("oracle-general:op={op},unit=512"), false).unwrap().0;
            assert_eq!((&read_lcs, read_lcs[0].op), (&as_oracle, kind));
        }
    }
}

#[test]
fn lcs_tells_operations() {
    let one = |operation: u8, format: &str| {
        let file = [header(1024, 2), record(2, 5, 3, 4096, operation, 0)].concat();
        read(file, format, false).map(|(requests, _)| requests[0].op)
    };
    for operation in [1, 2, 12] {
        assert_eq!(one(operation, ""), Ok(R), "{operation}");
    }
    for operation in [3, 4, 5, 6, 7, 8, 10, 11, 13, 14] {
        assert_eq!(one(operation, ""), Ok(W), "{operation}");
        assert_eq!(one(operation, "lcs:op=R"), Ok(W), "{operation}");
    }
    assert_eq!(one(9, ""), Ok(Discard));
    for operation in [0, 15, 255] {
        assert_eq!(one(operation, "lcs:op=W"), Ok(W), "{operation}");
        assert!(one(operation, "").unwrap_err().contains("give --format lcs:op=R or --format lcs:op=W"));
    }
    assert!(one(16, "lcs:op=R").unwrap_err().contains("the operation is 16, expected one of libCacheSim's"));
}

#[test]
fn what_is_no_lcs_is_refused() {
    let records = record(2, 5, 3, 4096, 12, 0);
    let version = |version: u64| error([header(1024, version), records.clone()].concat(), "");
    assert_eq!(version(9), "memory, byte 0: the version is 9, expected 1 to 8");
    // The first layout of such files had the fields' types there.
    assert!(version(u64::from_le_bytes(*b"<IQIQ\0\0\0")).contains("expected 1 to 8"));
    let mut open_end = header(8192, 2);
    open_end[8191] = 0;
    assert!(error(open_end.clone(), "lcs").contains("does not end in lcs's mark, at byte 1016 or 8184"));
    assert!(error(open_end, "").starts_with("memory: begins like lcs, but from byte 8 on it"));
    let mut millis = header(1024, 2);
    millis[124] = 2;
    assert!(error([millis, records.clone()].concat(), "").contains("unit of times is 2, expected 0 or 1"));
    let mut negative = [header(1024, 3), record(3, 5, 3, 4096, 12, 0)].concat();
    negative[1024 + 19] = 0x80;
    assert!(error(negative, "lcs").contains("expected none below 0"));
    let far = record(2, 5, u64::MAX / 4096 + 1, 1, 12, 0);
    assert!(error([header(1024, 2), far].concat(), "").contains("give a smaller unit="));
    let cut = [header(1024, 2), records.repeat(3), records[..27].to_vec()].concat();
    assert_eq!(error(cut.clone(), ""), "memory, byte 1108: the file ends inside a record, after 27 of its 28 bytes");
    assert_eq!(read(cut, "", true).unwrap().1.count, 1);
    // A header in front of something else, and one damaged record among many.
    let text = many_lines(40, "\n");
    assert!(error([&header(1024, 2)[..], text.as_bytes()].concat(), "").contains("from byte 1024 on it fits rq-csv"));
    let mut many = [header(1024, 2), records.repeat(40)].concat();
    many[1024 + 5 * 28 + 27] = 0x55;
    assert_eq!(read(many, "", false).unwrap().0.len(), 40);
    assert!(error(vec![0; 9000], "lcs").contains("does not begin with lcs's mark"));
}
