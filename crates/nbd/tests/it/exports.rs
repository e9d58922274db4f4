//! Checks which exports can be served, and their flags.

use destage_nbd::{BlockSizes, ExportError, ExportFeatures, ExportList, NbdExport};

fn wrong(export: NbdExport) -> String {
    ExportList::new(vec![export], None).expect_err("it cannot be served").to_string()
}

fn blocks(minimum: u32, preferred: u32, maximum: u32) -> NbdExport {
    NbdExport { blocks: BlockSizes { minimum, preferred, maximum }, ..NbdExport::new("a", 1 << 20) }
}

#[test]
fn block_sizes_are_those_that_the_protocol_allows() {
    for (minimum, preferred, maximum) in [(1, 512, 65_536), (65_536, 1 << 20, 1 << 20), (512, 4096, u32::MAX)] {
        assert!(ExportList::new(vec![blocks(minimum, preferred, maximum)], None).is_ok());
    }
    let minimum = "a power of 2 up to 65536";
    for size in [0, 3, 1 << 17] {
        assert!(wrong(blocks(size, 1 << 20, 1 << 20)).ends_with(minimum));
    }
    assert!(wrong(blocks(1, 256, 1 << 20)).ends_with("it is a power of 2 from 512 up"));
    assert!(wrong(blocks(4096, 2048, 1 << 20)).ends_with("it is a power of 2 from 4096 up"));
    assert!(wrong(blocks(1, 5000, 1 << 20)).contains("5000 B"));
    assert!(wrong(blocks(1, 512, 65_535)).ends_with("65536 have to be allowed"));
    assert!(wrong(blocks(1, 1 << 20, 65_536)).ends_with("1048576 have to be allowed"));
    let uneven = NbdExport { size: 1000, ..blocks(512, 512, 65_536) };
    assert_eq!(wrong(uneven), "export \"a\": 1000 B are no multiple of the minimum block size, 512 B");
}

#[test]
fn names_are_text_and_are_there_once() {
    let export = |name: &str| NbdExport::new(name, 0);
    let of = |names: &[&str], default| ExportList::new(names.iter().map(|name| export(name)).collect(), default);
    assert!(of(&["", "a", "\u{e4}"], Some("a")).is_ok());
    assert_eq!(of(&["a", "b", "a"], None), Err(ExportError::Twice("a".to_owned())));
    assert_eq!(of(&["a"], Some("b")), Err(ExportError::NoDefault("b".to_owned())));
    assert!(wrong(export("a\0")).contains("without NUL"));
    assert!(wrong(export(&"a".repeat(4097))).contains("of at most 4096 bytes"));
    assert!(wrong(NbdExport { description: "x".repeat(4097), ..export("a") }).contains("description"));
}

#[test]
fn contexts_have_a_namespace_and_are_there_once() {
    let with = |contexts: &[&str]| NbdExport {
        contexts: contexts.iter().map(|&name| name.to_owned()).collect(),
        ..NbdExport::new("a", 0)
    };
    assert!(ExportList::new(vec![with(&["base:allocation", "destage:a:b"])], None).is_ok());
    for bad in ["allocation", ":x", "base:", "ba se:x"] {
        assert!(wrong(with(&[bad])).contains("NAMESPACE:NAME"), "{bad}");
    }
    assert!(wrong(with(&["a:b", "a:b"])).contains("stands there twice"));
    let many: Vec<String> = (0..33).map(|n| format!("a:{n}")).collect();
    assert!(wrong(NbdExport { contexts: many, ..NbdExport::new("a", 0) }).contains("more than 32"));
}

#[test]
fn flags_tell_what_an_export_can_do() {
    let none = ExportFeatures::default();
    assert_eq!((none.flags(false), none.flags(true)), (1, 1 | 1 << 7));
    for (features, bits) in [
        (ExportFeatures { read_only: true, ..none }, 1 << 1),
        (ExportFeatures { flush: true, ..none }, 1 << 2),
        (ExportFeatures { fua: true, ..none }, 1 << 3),
        (ExportFeatures { rotational: true, ..none }, 1 << 4),
        (ExportFeatures { trim: true, ..none }, 1 << 5),
        (ExportFeatures { write_zeroes: true, ..none }, 1 << 6),
        (ExportFeatures { multi_conn: true, ..none }, 1 << 8),
        (ExportFeatures { cache: true, ..none }, 1 << 10),
        (ExportFeatures { write_zeroes: true, fast_zero: true, ..none }, 1 << 6 | 1 << 11),
    ] {
        assert_eq!(features.flags(false), 1 | bits);
        assert_eq!(ExportFeatures::of_flags(features.flags(true)), features);
    }
    // What would change a read-only export is not offered.
    let all = ExportFeatures { read_only: true, trim: true, write_zeroes: true, fast_zero: true, ..none };
    assert_eq!(all.flags(false), 1 | 1 << 1);
    let fast = NbdExport { features: ExportFeatures { fast_zero: true, ..none }, ..NbdExport::new("a", 0) };
    assert_eq!(wrong(fast), "export \"a\": fast zeroes are offered without zeroes");
}
