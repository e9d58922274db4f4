//! Works the examples of the papers that are built in.

use std::path::Path;

use destage_reproduce::paper::{PaperFile, built_in};
use destage_reproduce::reproduce::reproduce;

/// The paper with its examples alone.
fn examples_of(name: &str) -> PaperFile {
    let mut paper = PaperFile::named(name).expect("it is built in");
    (paper.claim, paper.value, paper.figure) = (Vec::new(), Vec::new(), Vec::new());
    (paper.workload, paper.caches, paper.reason) = (Vec::new(), Vec::new(), Vec::new());
    paper.counted = Vec::new();
    "Verdict.".clone_into(&mut paper.verdict);
    paper
}

#[test]
fn every_example_ends_as_its_paper_says() {
    let mut with_examples = 0;
    for name in built_in() {
        let paper = examples_of(name);
        let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
        for example in &found.examples {
            assert!(
                example.holds(),
                "{name}, {}: {} in the paper, {} here",
                example.example.id,
                example.expected(),
                example.found()
            );
        }
        with_examples += u32::from(!found.examples.is_empty());
    }
    assert_eq!(with_examples, 5, "each of the five papers has some");
}

/// An array's example of this text.
fn of_array(array: &str) -> Result<PaperFile, String> {
    let text = format!(
        "name = \"p\"\ntitle = \"P\"\nabout = \"A\"\nverdict = \"V\"\nseeds = 2\npolicies = [\"none\"]\nsettings = {{}}\nworkload = []\n\
         [[example]]\nid = \"E\"\nwhere = \"here\"\nabout = \"a page\"\npolicy = \"none\"\nrequests = \"W0\"\narray = {array}\n"
    );
    PaperFile::parse(Path::new("p.toml"), &text).map_err(|error| error.to_string())
}

const SETTINGS: &str = r#"array = "raid5:4", chunk = "4KiB", device = "fixed", member-size = "1MiB""#;

#[test]
fn what_an_array_counts_is_compared() {
    let paper = of_array(&format!(
        r#"{{ settings = {{ {SETTINGS} }}, every = "1us", counts = {{ "traffic.data_writes" = 1, "traffic.parity_writes" = 2 }} }}"#
    ))
    .expect("a paper");
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    let example = &found.examples[0];
    assert!(!example.holds(), "one page of parity");
    assert_eq!(example.expected(), "traffic.data_writes 1, traffic.parity_writes 2");
    assert_eq!(example.found(), "traffic.data_writes 1, traffic.parity_writes 1");
}

#[test]
fn what_is_wrong_with_an_example_is_said() {
    let every = of_array(&format!(r#"{{ settings = {{ {SETTINGS} }}, every = "soon", counts = {{}} }}"#));
    assert!(every.expect_err("no time").contains("example E: every: "));
    for (array, expected) in [
        (
            format!(r#"{{ settings = {{ {SETTINGS} }}, every = "1us", counts = {{ nothing = 1 }} }}"#),
            "example E: counts: 'nothing' is no figure of it",
        ),
        (format!(r#"{{ settings = {{ {SETTINGS}, chunks = 1 }}, every = "1us", counts = {{}} }}"#), "example E: "),
        (r#"{ settings = {}, every = "1us", counts = {} }"#.to_owned(), "example E: "),
    ] {
        let paper = of_array(&array).expect("a paper");
        let error = reproduce(&paper, &[], &|_, _| {}).expect_err("it cannot run").to_string();
        assert!(error.contains(expected), "{error}\nshould contain\n{expected}");
    }
}
