//! Policies by name: what is refused, in which words, and that every default builds.

use destage_plan::{PolicySpec, SpecError};
use destage_policy::buffer::{
    BufferConfig, BufferPolicy, BuiltPolicy, EvictionUnit, PolicyError, PolicyVisitor, build, canonical, info, layers,
    policies,
};

use crate::models::values_of;

const CONFIG: BufferConfig = BufferConfig { capacity_pages: 8, pages_per_block: 4, elements: 1 };

/// Takes the parameters in force.
struct InForce;

impl PolicyVisitor for InForce {
    type Out = Vec<(String, String)>;
    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, built: BuiltPolicy) -> Self::Out {
        assert!(buffer.is_empty());
        built.params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// The parameters in force, with their values.
pub(crate) fn in_force(spec: &str) -> Result<Vec<(String, String)>, PolicyError> {
    build(&spec.parse::<PolicySpec>()?, CONFIG, InForce)
}

#[track_caller]
fn refused(spec: &str, message: &str) {
    let error = in_force(spec).expect_err(spec);
    assert_eq!(error.to_string(), message);
}

#[test]
fn unknown_policies() {
    let known = policies().iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ");
    assert!(known.starts_with("none, lru, clock"), "{known}");
    for (name, near) in [("", ""), ("lirs", ""), ("lur", "lru"), ("LRU", "lru"), ("lb_clock", "lb-clock")] {
        let near = if near.is_empty() { String::new() } else { format!("did you mean '{near}'? ") };
        refused(name, &format!("policy '{name}' is not known; {near}the policies are: {known}"));
    }
    for (name, listed) in
        [("LB_Clock", "lb-clock"), ("GCAR+ lruwsr", "gcar+lru-wsr"), ("Lirs+lru", "Lirs+lru"), ("S3FIFO", "s3-fifo")]
    {
        let spec = canonical(format!("{name}:reads=bypass").parse().unwrap());
        assert_eq!(spec.to_string(), format!("{listed}:reads=bypass"));
    }
    assert_eq!(PolicyError::Spec(info("lirs").unwrap_err()), in_force("lirs").unwrap_err());
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
    for pages in ["-1", "+1", "1.5", "4294967296", "many", ""] {
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
    for (policy, key) in [("cflru", "step"), ("ref", "vw")] {
        for share in ["-0.1", "1.000001", "0.1234567", "50%", "1/2", ".5", "", "adaptive"] {
            refused(
                &format!("{policy}:{key}={share}"),
                &format!(
                    "policy '{policy}': {key} = '{share}' is not one of: a share of the capacity from 0 to 1 with up to \
                     six decimals"
                ),
            );
        }
    }
    for window in ["-0.1", "1.1", "dynamic", "50%", ""] {
        refused(
            &format!("cflru:window={window}"),
            &format!(
                "policy 'cflru': window = '{window}' is not one of: a share of the capacity from 0 to 1 with up to six \
                 decimals, or adaptive"
            ),
        );
    }
    for period in ["0", "-1", "+1", "1.5", "4294967296", ""] {
        refused(
            &format!("cflru:period={period}"),
            &format!("policy 'cflru': period = '{period}' is not one of: capacity, or a number of evictions from 1"),
        );
    }
    for reads in ["-1", "+1", "1.5", "1000001", "much", ""] {
        refused(
            &format!("cflru:window=adaptive:write_cost={reads}"),
            &format!("policy 'cflru': write_cost = '{reads}' is not one of: a number of reads from 0 to 1000000"),
        );
    }
    for blocks in ["0", "65537", "+1", "all", ""] {
        refused(
            &format!("ref:nvb={blocks}"),
            &format!("policy 'ref': nvb = '{blocks}' is not one of: a number of blocks from 1 to 65536"),
        );
    }
    refused("ref:new_vb=lru", "policy 'ref': new_vb = 'lru' is not one of: lru_page, most_pages_in_vw");
    refused("ccf-lru:hot_clean=drop", "policy 'ccf-lru': hot_clean = 'drop' is not one of: evict, spare");
    refused("ccf-lru:new_clean_to=wl", "policy 'ccf-lru': new_clean_to = 'wl' is not one of: ccl, mixed");
    refused("ccf-lru:new_dirty_cold=2", "policy 'ccf-lru': new_dirty_cold = '2' is not one of: true, false");
    refused("lru-wsr:reads=all", "policy 'lru-wsr': reads = 'all' is not one of: cache, bypass");
    for percentage in ["100.01", "-1", "+1", "0.123", "1e1", ".5", "5.", "25%", "all", ""] {
        for (policy, key) in [("2q", "in"), ("s3-fifo", "small")] {
            refused(
                &format!("{policy}:{key}={percentage}"),
                &format!(
                    "policy '{policy}': {key} = '{percentage}' is not one of: a percentage from 0 to 100 with up to two \
                     decimals"
                ),
            );
        }
    }
    for (policy, key) in [("2q", "out"), ("s3-fifo", "ghost")] {
        refused(
            &format!("{policy}:{key}=1000.01"),
            &format!(
                "policy '{policy}': {key} = '1000.01' is not one of: a percentage from 0 to 1000 with up to two decimals"
            ),
        );
    }
    for uses in ["0", "4", "1.5", ""] {
        refused(
            &format!("s3-fifo:uses={uses}"),
            &format!("policy 's3-fifo': uses = '{uses}' is not one of: a number of uses from 1 to 3"),
        );
    }
    refused("lb-clock:read_sets_bit=y", "policy 'lb-clock': read_sets_bit = 'y' is not one of: true, false");
    for pages in ["0", "-1", "+1", "1.5", "4294967296", "many", ""] {
        refused(
            &format!("cawr:cdl_max={pages}"),
            &format!(
                "policy 'cawr': cdl_max = '{pages}' is not one of: a number of pages, at least 1 (4 to 16 in the paper)"
            ),
        );
    }
    refused("cawr:cawr_seq=head", "policy 'cawr': cawr_seq = 'head' is not one of: tail, any, same_block");
    refused("cawr:wait=none", "policy 'cawr': wait = 'none' is not one of: all, any");
    refused(
        "cave+fab:cave_block_channel=rr",
        "policy 'cave': cave_block_channel = 'rr' is not one of: per_page_rr, per_block",
    );
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
        let error =
            build(&spec, BufferConfig { capacity_pages: 0, pages_per_block: 4, elements: 1 }, InForce).unwrap_err();
        assert_eq!(error.to_string(), "a buffer needs room for at least one page");
        let error =
            build(&spec, BufferConfig { capacity_pages: 4, pages_per_block: 0, elements: 1 }, InForce).unwrap_err();
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
    let finer: [(&str, &str, &[&str]); 45] = [
        ("2q", "reads", &["cache", "bypass"]),
        ("2q", "in", &["0", "0.01", "25", "33.3", "100", "100.00"]),
        ("2q", "out", &["0", "0.5", "50", "1000"]),
        ("s3-fifo", "reads", &["cache", "bypass"]),
        ("s3-fifo", "small", &["0", "0.01", "10", "33.3", "100", "100.00"]),
        ("s3-fifo", "ghost", &["0", "0.5", "90", "1000"]),
        ("s3-fifo", "uses", &["1", "2", "3"]),
        ("cflru", "reads", &["cache", "bypass"]),
        ("cflru", "window", &["0", "0.5", "1", "1.000000", "0.123456", "adaptive"]),
        ("cflru", "period", &["capacity", "1", "4294967295"]),
        ("cflru", "step", &["0", "0.05", "1"]),
        ("cflru", "write_cost", &["0", "8", "1000000"]),
        ("ccf-lru", "reads", &["cache", "bypass"]),
        ("ccf-lru", "new_clean_to", &["ccl", "mixed"]),
        ("ccf-lru", "new_dirty_cold", switch),
        ("ccf-lru", "hot_clean", &["evict", "spare"]),
        ("ref", "reads", &["cache", "bypass"]),
        ("ref", "vw", &["0", "0.5", "1"]),
        ("ref", "nvb", &["1", "8", "65536"]),
        ("ref", "new_vb", &["lru_page", "most_pages_in_vw"]),
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
        ("cave", "ccf_new_clean_to", &["ccl", "mixed"]),
        ("cave", "ccf_new_dirty_cold", switch),
        ("cawr", "cdl_max", &["1", "4", "16", "4294967295"]),
        ("cawr", "cawr_seq", &["tail", "any", "same_block"]),
        ("cawr", "cawr_new_clean_to", &["wl", "ccl"]),
        ("cawr", "wait", &["all", "any"]),
    ];
    let all = policies().iter().flat_map(|policy| policy.params.iter().map(|param| (policy.name, param.name)));
    let others = all.filter(|(policy, key)| !finer.iter().any(|(p, k, _)| p == policy && k == key));
    let others = others.map(|(policy, key)| (policy, key, values_of(policy, key)));
    for (policy, key, values) in finer.into_iter().chain(others) {
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

#[test]
fn gcar_goes_around_every_policy_that_holds_pages() {
    let gcar = layers().iter().find(|layer| layer.name == "gcar").expect("a layer");
    assert!(gcar.avoids_collection);
    let declared: Vec<_> = gcar.params.iter().map(|p| (p.name.to_owned(), p.default.to_owned())).collect();
    for policy in policies() {
        assert_eq!(gcar.goes_over(policy), policy.name != "none", "{}", policy.name);
        if policy.name == "none" {
            continue;
        }
        let own = policy.params.iter().map(|p| (p.name.to_owned(), p.default.to_owned()));
        let all: Vec<_> = declared.iter().cloned().chain(own).collect();
        assert_eq!(in_force(&format!("gcar+{}", policy.name)).expect(policy.name), all);
    }
    for (key, values) in [
        ("gcar_pool", ["unified"].as_slice()),
        ("gcar_all_gc", &["base_victim", "bypass", "wait"]),
        ("gcar_max_share", &["0", "0.29", "1", "1.0"]),
        ("gcar_after", &["free", "keep_clean"]),
        ("gcar_destage_scope", &["deferred", "all_dirty_of_chip", "none"]),
        ("gcar_soon_margin", &["0", "3", "4294967295"]),
    ] {
        assert!(gcar.params.iter().any(|param| param.name == key));
        for value in values {
            let found = in_force(&format!("gcar+fab:reads=bypass:{key}={value}")).expect(value);
            assert!(found.contains(&(key.into(), (*value).into())), "{found:?}");
        }
    }
}

#[test]
fn gcar_is_refused_where_it_makes_no_sense() {
    refused("gcar+none", "policy 'gcar+none': gcar: a policy that holds nothing evicts nothing");
    refused("gcar+gcar+lru", "policy 'gcar+gcar+lru': gcar can be given only once");
    let known = layers().iter().map(|layer| layer.name).collect::<Vec<_>>().join(", ");
    refused("gc+lru", &format!("policy 'gc+lru': there is no layer 'gc'; the layers are: {known}"));
    assert!(matches!(in_force("lru+gcar"), Err(PolicyError::Spec(SpecError::Unknown { name, .. })) if name == "gcar"));
    for (key, values, allowed) in [
        (
            "gcar_pool",
            ["split", "split-20%", ""].as_slice(),
            "unified (two pools, for reads and writes, would be two policies and not a layer around one)",
        ),
        ("gcar_all_gc", &["base", ""], "base_victim, bypass, wait"),
        ("gcar_max_share", &["1.1", "-0.1", "nan", "half", ""], "a share from 0 to 1"),
        ("gcar_after", &["keep"], "free, keep_clean"),
        ("gcar_destage_scope", &["all"], "deferred, all_dirty_of_chip, none"),
        ("gcar_soon_margin", &["-1", "+1", "1.5", "4294967296", ""], "a number of blocks; 0 is off"),
    ] {
        for value in values {
            refused(
                &format!("gcar+lru:{key}={value}"),
                &format!("policy 'gcar': {key} = '{value}' is not one of: {allowed}"),
            );
        }
    }
    assert!(matches!(in_force("lru:gcar_after=free"), Err(PolicyError::Spec(SpecError::UnknownParam { .. }))));
}

/// Tests that a parameter is refused if its part cannot follow it for lack of another part. Other words for
/// the only possible value are accepted.
#[test]
fn parameters_that_cannot_hold_are_refused() {
    for (name, given, reason) in [
        (
            "cave+lb-clock",
            "insert_anchor=initial_hand",
            "below cave there is only insert_anchor=current_hand, not initial_hand",
        ),
        (
            "cawr+lb-clock",
            "insert_anchor=initial_hand",
            "below cawr there is only insert_anchor=current_hand, not initial_hand",
        ),
        ("cave+fab", "protect_current=true", "below cave there is only protect_current=false, not true"),
        ("gcar+cawr+clc", "protect_current=on", "below cawr there is only protect_current=false, not on"),
        (
            "gcar+gate+lru",
            "gcar_after=keep_clean",
            "around gate+lru there is only gcar_after=free, not keep_clean: dirty pages that can go to any element are \
             not deferred",
        ),
        (
            "gcar+bplru",
            "gcar_after=keep_clean",
            "around bplru there is only gcar_after=free, not keep_clean: it keeps no clean pages",
        ),
        (
            "gcar+cawr",
            "gcar_destage_scope=none",
            "around cawr there is only gcar_destage_scope=deferred, not none: dirty pages that can go to any element are \
             not deferred",
        ),
        (
            "gcar+cave+lb-clock",
            "gcar_max_share=0.5",
            "around cave+lb-clock there is only gcar_max_share=1.0, not 0.5: it keeps no clean pages",
        ),
    ] {
        refused(&format!("{name}:{given}"), &format!("policy '{name}': {reason}"));
    }
    for spec in [
        "cave+lb-clock:insert_anchor=current_hand",
        "cave+fab:protect_current=off",
        "cawr+bplru:protect_current=0:padding=never",
        "gcar+cave+lb-clock:gcar_max_share=1",
        "gcar+gate+lru:gcar_after=free:gcar_destage_scope=deferred",
        "gcar+cave+bplru:gcar_destage_scope=none",
        "gcar+lb-clock:protect_current=true:insert_anchor=initial_hand",
    ] {
        let given = spec.parse::<PolicySpec>().expect(spec).given;
        let found = in_force(spec).expect(spec);
        assert!(given.iter().all(|pair| found.contains(pair)), "{spec}: {found:?}");
    }
    for layer in ["cave", "cawr"] {
        let found = in_force(&format!("{layer}+lb-clock")).expect(layer);
        for settled in [("insert_anchor", "current_hand"), ("protect_current", "false")] {
            assert!(found.contains(&(settled.0.into(), settled.1.into())), "{layer}: {found:?}");
        }
    }
}

/// Layers that write through several channels go around policies of one kind, once, and leave the
/// channels to one part.
#[test]
fn compositions_that_write_through_several_channels() {
    for (spec, reason) in [
        ("gate+bplru", "gate is for page-level policies and bplru evicts blocks"),
        ("gate+fab", "gate is for page-level policies and fab evicts blocks"),
        ("cave+lru", "cave is for block-level policies and lru evicts pages"),
        ("cawr+clock", "cawr is for block-level policies and clock evicts pages"),
        ("cave+cave", "cave is for block-level policies and cave evicts pages"),
        ("cawr+cawr", "cawr is for block-level policies and cawr evicts pages"),
        ("gate+cave", "gate and cave both choose channels; give one of them"),
        ("gate+cawr", "gate and cawr both choose channels; give one of them"),
        ("gate+gate+lru", "gate can be given only once"),
        ("cave+cawr+fab", "cave and cawr both decide how many pages leave at once; choose one"),
        ("cawr+none", "cawr: a policy that holds nothing evicts nothing"),
        ("cawr+bplru:padding=always", "below cawr there is only padding=never, not always"),
        ("cawr+clc:padding=0.5", "below cawr there is only padding=never, not 0.5"),
    ] {
        let name = spec.split(':').next().expect("a name");
        refused(spec, &format!("policy '{name}': {reason}"));
    }
    refused("cawr+fab:padding=never", "policy 'cawr+fab' has no parameter 'padding'; it has reads, protect_current");
    let never = ("padding".to_owned(), "never".to_owned());
    for spec in ["cawr+bplru", "cawr+bplru:padding=never", "cawr+clc", "cawr+pud-lru"] {
        assert!(in_force(spec).expect(spec).contains(&never), "{spec}");
    }
    assert_eq!(
        in_force("cave+bplru").expect("cave")[..2],
        [("cave_block_channel".to_owned(), "per_page_rr".to_owned()), ("padding".to_owned(), "always".to_owned()),]
    );
}

/// Tests the policies around which each of these layers can be put directly.
#[test]
fn what_layers_go_over() {
    let over = |name: &str| {
        let layer = layers().iter().find(|layer| layer.name == name).expect(name);
        let over = policies().iter().filter(|policy| layer.goes_over(policy)).inspect(|policy| {
            let spec = format!("{name}+{}", policy.name);
            assert!(in_force(&spec).is_ok(), "{spec}");
        });
        over.map(|policy| policy.name).collect::<Vec<_>>()
    };
    let of = |unit: EvictionUnit| {
        let of_unit = policies().iter().filter(|policy| policy.unit == unit && !policy.chooses_channels);
        of_unit.map(|policy| policy.name).filter(|name| *name != "none").collect::<Vec<_>>()
    };
    assert_eq!(over("gate"), of(EvictionUnit::Page));
    assert_eq!(over("cave"), of(EvictionUnit::Block));
    assert_eq!(over("cawr"), of(EvictionUnit::Block));
    assert!(over("gate").contains(&"2q") && over("cawr").contains(&"fab"));
}
