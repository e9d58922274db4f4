//! Policies by name: what is refused, in which words, and that every default builds.

use destage_policy::buffer::{
    BufferConfig, Params, PolicyError, PolicySpec, Registered, Visitor, build, info, policies,
};

const CONFIG: BufferConfig = BufferConfig { capacity_pages: 8, pages_per_block: 4 };

/// Takes the parameters in force.
struct InForce;

impl Visitor for InForce {
    type Out = Vec<(String, String)>;
    fn visit<B: Registered>(self, buffer: B, params: Params) -> Self::Out {
        assert!(buffer.is_empty());
        params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

fn in_force(spec: &str) -> Result<Vec<(String, String)>, PolicyError> {
    build(&spec.parse()?, CONFIG, InForce)
}

#[track_caller]
fn refused(spec: &str, message: &str) {
    let error = in_force(spec).expect_err(spec);
    assert_eq!(error.to_string(), message);
}

#[test]
fn unknown_policies() {
    refused("lur", "policy 'lur' is not known; the policies are: none, lru, clock, fab, bplru, clc, pud-lru, lb-clock");
    refused("", "policy '' is not known; the policies are: none, lru, clock, fab, bplru, clc, pud-lru, lb-clock");
    refused("LRU", "policy 'LRU' is not known; the policies are: none, lru, clock, fab, bplru, clc, pud-lru, lb-clock");
    refused(
        "lb_clock",
        "policy 'lb_clock' is not known; the policies are: none, lru, clock, fab, bplru, clc, pud-lru, lb-clock",
    );
    assert_eq!(info("arc").unwrap_err(), in_force("arc").unwrap_err());
}

#[test]
fn unknown_keys() {
    refused("lru:size=4", "policy 'lru' has no parameter 'size'; it has reads");
    refused("none:reads=cache", "policy 'none' has no parameter 'reads'; it has none");
    refused(
        "bplru:reads=cache",
        "policy 'bplru' has no parameter 'reads'; it has padding, compensation, seq_detect, protect_current",
    );
    refused(
        "lb-clock:anchor=x",
        "policy 'lb-clock' has no parameter 'anchor'; it has opt_preempt, opt_seq, insert_anchor, candidate_rule, \
         prev_init, read_sets_bit, protect_current",
    );
}

#[test]
fn keys_given_twice() {
    refused("lru:reads=cache:reads=cache", "policy 'lru': parameter 'reads' is given twice");
    refused("lb-clock:opt_seq=on:prev_init=3:opt_seq=off", "policy 'lb-clock': parameter 'opt_seq' is given twice");
}

#[test]
fn values_that_are_not_allowed() {
    refused("lru:reads=maybe", "policy 'lru': reads = 'maybe' is not one of: cache, bypass");
    refused("clock:reads=", "policy 'clock': reads = '' is not one of: cache, bypass");
    refused("fab:protect_current=2", "policy 'fab': protect_current = '2' is not one of: true, false");
    refused("bplru:compensation=maybe", "policy 'bplru': compensation = 'maybe' is not one of: on, off");
    refused("bplru:seq_detect=x", "policy 'bplru': seq_detect = 'x' is not one of: ordered, last_page_full");
    // A bad value is refused even where the parameter has no effect.
    refused(
        "bplru:compensation=off:seq_detect=x",
        "policy 'bplru': seq_detect = 'x' is not one of: ordered, last_page_full",
    );
    for share in ["1.01", "-0.1", "nan", "inf", "half", "1/2", ""] {
        refused(
            &format!("bplru:padding={share}"),
            &format!(
                "policy 'bplru': padding = '{share}' is not one of: always, never, or a share f of 0 to 1: if at least \
                 f·N pages are buffered"
            ),
        );
    }
    for most in ["-1", "1.5", "4294967296", "all", "", "%", "101%", "0.1234567%"] {
        refused(
            &format!("clc:si_max={most}"),
            &format!(
                "policy 'clc': si_max = '{most}' is not one of: a share of the clusters buffered, from 0% to 100% \
                 with up to six decimals, or a number of clusters"
            ),
        );
    }
    for writes in ["-1", "nan", "inf", "281474976710657", "median", "10%", ""] {
        refused(
            &format!("pud-lru:threshold={writes}"),
            &format!(
                "policy 'pud-lru': threshold = '{writes}' is not one of: mean, or a number of page writes from 0 to \
                 2^48"
            ),
        );
    }
    refused(
        "clc:padding=2",
        "policy 'clc': padding = '2' is not one of: always, never, or a share f of 0 to 1: if at least f·N pages are \
         buffered",
    );
    for pages in ["-1", "1.5", "4294967296", "many", ""] {
        refused(
            &format!("lb-clock:prev_init={pages}"),
            &format!("policy 'lb-clock': prev_init = '{pages}' is not one of: block (N), or a number of pages"),
        );
    }
    refused(
        "lb-clock:insert_anchor=hand",
        "policy 'lb-clock': insert_anchor = 'hand' is not one of: initial_hand, current_hand",
    );
    refused(
        "lb-clock:candidate_rule=zero",
        "policy 'lb-clock': candidate_rule = 'zero' is not one of: prior_zero, all_zero",
    );
    refused("lb-clock:read_sets_bit=y", "policy 'lb-clock': read_sets_bit = 'y' is not one of: true, false");
    refused("lb-clock:opt_preempt=", "policy 'lb-clock': opt_preempt = '' is not one of: true, false");
}

#[test]
fn syntax() {
    let message = |spec: &str, part: &str| {
        format!("policy '{spec}': '{part}' is not of the form key=value (write name:key=value:key=value)")
    };
    for (spec, part) in [("lru:reads", "reads"), ("lru:", ""), ("lru:=cache", "=cache"), ("fab:reads=cache::", "")] {
        refused(spec, &message(spec, part));
    }
}

#[test]
fn no_capacity() {
    for policy in policies() {
        let spec: PolicySpec = policy.name.parse().expect("a name");
        let error = build(&spec, BufferConfig { capacity_pages: 0, pages_per_block: 4 }, InForce).unwrap_err();
        assert_eq!(error.to_string(), "a buffer needs room for at least one page");
        let error = build(&spec, BufferConfig { capacity_pages: 4, pages_per_block: 0 }, InForce).unwrap_err();
        assert_eq!(error.to_string(), "a logical block has at least one page");
    }
}

#[test]
fn every_default_builds_and_is_what_holds_without_it() {
    for policy in policies() {
        let declared: Vec<_> = policy.params.iter().map(|p| (p.name.to_owned(), p.default.to_owned())).collect();
        assert_eq!(in_force(policy.name).expect(policy.name), declared);
        for param in policy.params {
            let spec = format!("{}:{}={}", policy.name, param.name, param.default);
            assert_eq!(in_force(&spec).expect(&spec), declared);
            assert!(!param.help.is_empty() && !param.values.is_empty() && !param.unit.is_empty(), "{spec}");
        }
        let all = PolicySpec { name: policy.name.into(), given: declared.clone() }.to_string();
        assert_eq!(in_force(&all).expect(&all), declared);
    }
}

#[test]
fn every_value_named_builds() {
    let switch = ["true", "on", "yes", "1", "false", "off", "no", "0"].as_slice();
    let values: [(&str, &str, &[&str]); 21] = [
        ("lru", "reads", &["cache", "bypass"]),
        ("clock", "reads", &["cache", "bypass"]),
        ("fab", "reads", &["cache", "bypass"]),
        ("fab", "protect_current", switch),
        ("bplru", "padding", &["always", "never", "0", "0.5", "1", "1.0"]),
        ("bplru", "compensation", switch),
        ("bplru", "seq_detect", &["ordered", "last_page_full"]),
        ("bplru", "protect_current", switch),
        ("clc", "si_max", &["10%", "0", "2", "4294967295", "0%", "100%", "12.345678%", "100.000000%"]),
        ("clc", "padding", &["always", "never", "0", "0.5", "1", "1.0"]),
        ("clc", "protect_current", switch),
        ("pud-lru", "threshold", &["mean", "0", "2", "7.5", "281474976710656"]),
        ("pud-lru", "padding", &["always", "never", "0", "0.5", "1", "1.0"]),
        ("pud-lru", "protect_current", switch),
        ("lb-clock", "opt_preempt", switch),
        ("lb-clock", "opt_seq", switch),
        ("lb-clock", "insert_anchor", &["initial_hand", "current_hand"]),
        ("lb-clock", "candidate_rule", &["prior_zero", "all_zero"]),
        ("lb-clock", "prev_init", &["block", "0", "64", "4294967295"]),
        ("lb-clock", "read_sets_bit", switch),
        ("lb-clock", "protect_current", switch),
    ];
    for policy in policies() {
        for param in policy.params {
            assert!(values.iter().any(|(p, k, _)| *p == policy.name && *k == param.name), "{}", param.name);
        }
    }
    for (policy, key, values) in values {
        for value in values {
            let spec = format!("{policy}:{key}={value}");
            let found = in_force(&spec).expect(&spec).into_iter().find(|(k, _)| k == key).expect(key);
            assert_eq!(found.1, *value);
        }
    }
}

#[test]
fn a_specification_prints_as_it_is_written() {
    for text in ["none", "lru:reads=bypass", "bplru:padding=0.5:compensation=off"] {
        assert_eq!(text.parse::<PolicySpec>().expect(text).to_string(), text);
    }
    assert_eq!(" lru : reads = bypass ".parse::<PolicySpec>().expect("spaces").to_string(), "lru:reads=bypass");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = policies().iter().map(|p| p.name).collect();
    assert_eq!(names, ["none", "lru", "clock", "fab", "bplru", "clc", "pud-lru", "lb-clock"]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), policies().len());
    for policy in policies() {
        assert_eq!(info(policy.name).expect(policy.name).title, policy.title);
        let mut keys: Vec<_> = policy.params.iter().map(|p| p.name).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|w| w[0] != w[1]), "{}", policy.name);
    }
}
