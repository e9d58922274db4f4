//! `destage policies NAME`: every policy, layer and composition has a page that says what it does,
//! and the call that it ends with works.

use serde_json::Value;

use crate::binary::{destage, quietly, refused};

fn json(args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&quietly(args)).expect("an array")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// The sentences of a text.
fn sentences(text: &str) -> usize {
    text.split_inclusive(". ").count()
}

/// The words of a call on the command line, without the name of the binary.
fn words(call: &str) -> Vec<&str> {
    let words: Vec<&str> = call.split(' ').collect();
    assert_eq!(words[0], "destage", "{call}");
    words[1..].to_vec()
}

#[test]
fn every_policy_and_layer_says_what_it_does() {
    let all = json(&["policies", "--json"]);
    assert!(all.len() > 30, "{}", all.len());
    for listed in &all {
        let (name, about) = (text(listed, "name"), text(listed, "about"));
        assert!((2..=4).contains(&sentences(about)) && about.ends_with('.'), "{name}: {about}");
        assert!(!about.contains("  ") && about.is_ascii(), "{name}: {about}");
        let pages = json(&["policies", name, "--json"]);
        let own: Vec<_> = pages.iter().filter(|page| page["place"] == listed["place"]).collect();
        assert_eq!(own.len(), 1, "{name}: {pages:?}");
        // What the list says, and an example.
        for (key, value) in listed.as_object().expect("an object") {
            assert_eq!(&own[0][key], value, "{name}: {key}");
        }
        let page = quietly(&["policies", name]);
        let flowing = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [text(listed, "title"), about, text(listed, "paper")] {
            assert!(flowing.contains(part), "{name}: {part}\n{page}");
        }
        for param in listed["params"].as_array().expect("a list") {
            for part in ["name", "default"] {
                assert!(flowing.contains(text(param, part)), "{name}: {param}\n{page}");
            }
        }
        // The call can be copied line by line.
        let (_, call) = page.rsplit_once("Example\n\n").expect("an example");
        let calls: Vec<_> =
            page.split("Example\n\n").skip(1).map(|rest| rest.split("\n\n").next().unwrap_or_default()).collect();
        let copied: Vec<String> = calls
            .iter()
            .map(|call| call.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let examples: Vec<_> = pages.iter().map(|page| text(page, "example")).collect();
        assert_eq!(copied, examples, "{call}");
    }
}

#[test]
fn the_calls_at_the_ends_of_pages_work() {
    let names = json(&["policies", "--json"]);
    let names = names.iter().map(|listed| text(listed, "name").to_owned());
    let composed = ["gcar+lb-clock", "gcar+cave+bplru", "ggc+kdd", "ggc+sync+wow"].map(str::to_owned);
    for name in names.chain(composed) {
        for page in json(&["policies", &name, "--json"]) {
            let example = text(&page, "example");
            let mut call = words(example);
            assert!(call[0] == "sim" && example.contains(&name), "{name}: {example}");
            // Enough to see that it goes through.
            call.extend(["--limit", "200", "--json"]);
            let done = destage(&call);
            assert!(done.status.success(), "{example}: {}", String::from_utf8_lossy(&done.stderr));
            let runs: Vec<Value> = serde_json::from_slice(&done.stdout).expect("an array");
            let own = |run: &&Value| text(run, "policy").contains(&name) || text(run, "policy") == name;
            assert!(runs.len() == 2 && runs.iter().any(|run| own(&run)), "{example}");
        }
    }
}

#[test]
fn a_composition_has_the_parameters_in_force() {
    let page = json(&["policies", "GCaR+cawr+lbclock", "--json"]).remove(0);
    assert_eq!((text(&page, "name"), text(&page, "unit")), ("gcar+cawr+lb-clock", "page"));
    assert_eq!(text(&page, "title"), "gcar around cawr around lb-clock");
    let parts: Vec<_> = page["parts"].as_array().expect("a list").iter().map(|part| text(part, "name")).collect();
    assert_eq!(parts, ["gcar", "cawr", "lb-clock"]);
    let params = page["params"].as_array().expect("a list");
    let find = |name: &str| params.iter().find(|param| param["name"] == name).unwrap_or_else(|| panic!("{name}"));
    // What the layer settles stands there, as in the results of a run.
    let anchor = find("insert_anchor");
    assert_eq!((text(anchor, "of"), text(anchor, "default")), ("lb-clock", "current_hand"));
    let alone = json(&["policies", "lb-clock", "--json"]).remove(0);
    let alone = alone["params"].as_array().expect("a list").iter().find(|param| param["name"] == "insert_anchor");
    let alone = text(alone.expect("a parameter"), "default").to_owned();
    assert_ne!(alone, "current_hand");
    let shown = quietly(&["policies", "gcar+cawr+lb-clock"]);
    let flowing = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowing.contains(&format!("alone {alone}]")) && flowing.contains("gcar: What lies on"), "{shown}");
    let mut call = words(text(&page, "example"));
    call.extend(["--limit", "100", "--json"]);
    let runs = json(&call);
    let run = runs.iter().find(|run| run["policy"] == "gcar+cawr+lb-clock").expect("its run");
    let pairs = |list: &Value, value: &str| -> Vec<(String, String)> {
        let list = list.as_array().expect("a list").iter();
        list.map(|param| (text(param, "name").to_owned(), text(param, value).to_owned())).collect()
    };
    assert_eq!(pairs(&page["params"], "default"), pairs(&run["params"], "value"));
}

#[test]
fn one_name_can_be_several_things() {
    let places = |name: &str| -> Vec<String> {
        json(&["policies", name, "--json"]).iter().map(|page| text(page, "place").to_owned()).collect()
    };
    assert_eq!(places("none"), ["ssd", "host"]);
    assert_eq!(places("cawr"), ["ssd", "layer"]);
    assert_eq!(places("ggc"), ["host-layer"]);
    assert_eq!(places("ggc+kdd"), ["host"]);
    assert_eq!(places("WriteBack"), ["host"]);
}

#[test]
fn names_that_are_not_known_get_the_nearest() {
    for (name, message) in [
        ("lb-clok", "there is no policy 'lb-clok'; did you mean 'lb-clock'? `destage policies` lists all"),
        ("wirte-back", "did you mean 'write-back'?"),
        ("gacr", "did you mean 'gcar'?"),
        ("tape", "there is no policy 'tape'; `destage policies` lists all"),
        ("gacr+lru", "there is no layer 'gacr'; did you mean 'gcar'?"),
        ("gcar+lb-clok", "'gcar+lb-clok': there is no policy 'lb-clok'; did you mean 'lb-clock'?"),
        ("gcar+kdd", "policy 'gcar+kdd' is not known; "),
        ("sync+lawc", "its members write together already"),
        ("cave+lru", "cave is for block-level policies and lru evicts pages"),
        ("bplru:padding=never", "give the name alone"),
        ("", "there is no policy ''"),
    ] {
        let refusal = refused(&["policies", name]);
        assert!(refusal.contains(message), "{name}: {refusal}");
        assert_eq!(refused(&["policies", name, "--json"]), refusal);
    }
}
