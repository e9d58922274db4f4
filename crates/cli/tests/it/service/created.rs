//! Reads what `destage create` writes into an array's description.

use std::fs;

use super::binary;

#[test]
fn what_is_not_said_of_a_policy_is_added() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (asked, written)) in [
        ("kdd", "kdd:staged-in=memory:clean=stripes:sequential-cutoff=4MiB"),
        ("kdd:ways=8", "kdd:ways=8:staged-in=memory:clean=stripes:sequential-cutoff=4MiB"),
        ("kdd:staged-in=nvram:clean=rows", "kdd:staged-in=nvram:clean=rows:sequential-cutoff=4MiB"),
        ("leavo:sequential-cutoff=0", "leavo:sequential-cutoff=0:clean=stripes"),
        ("write-back:dirty-high=40", "write-back:dirty-high=40:destage-unit=stripe:sequential-cutoff=4MiB"),
        ("write-through", "write-through:sequential-cutoff=4MiB"),
        ("lawc", "lawc"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("array{number}"));
        let args = ["--level", "raid5:4", "--member-size", "1MiB", "--cache", "1MiB", "--policy", asked];
        let made = binary::destage(&[&["create", &path.display().to_string()][..], &args].concat());
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        let description = fs::read_to_string(path.join("array.toml")).expect("a description");
        assert!(description.contains(&format!("policy = \"{written}\"\n")), "{description}");
        assert!(description.contains("stripe-cache = \"16MiB\"\n"), "{description}");
    }
}

#[test]
fn a_stripe_cache_is_for_arrays_with_parity_and_can_be_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let asked = [["--level", "raid1:2", "--stripe-cache"], ["--level", "raid5:4", "--stripe-cache"]];
    for (number, (args, size)) in asked.iter().zip([None, Some("0")]).enumerate() {
        let path = folder.path().join(format!("array{number}"));
        let args = if size.is_some() { &args[..] } else { &args[..2] };
        let at = path.display().to_string();
        let args = [&["create", &at, "--member-size", "1MiB"], args].concat();
        let made = binary::destage(&args.into_iter().chain(size).collect::<Vec<_>>());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let description = fs::read_to_string(path.join("array.toml")).expect("a description");
        assert!(!description.contains("16MiB"), "{description}");
    }
}
