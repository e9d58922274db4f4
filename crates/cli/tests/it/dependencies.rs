//! Every dependency, on every platform, is as deny.toml allows: its licence, where it comes from,
//! that it is not banned, and that nobody takes just any version of it.
//!
//! cargo-deny checks the same from the same file, but is itself built from four hundred crates for
//! longer than everything here; it is only asked for advisories.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;
use spdx::{Expression, LicenseReq, ParseMode};
use toml::Value as Toml;

/// Holds the rules of deny.toml.
struct DenyToml {
    allowed: Vec<String>,
    /// Licences that are allowed for one crate.
    exceptions: Vec<(String, Vec<String>)>,
    /// Crates that are not to be had, with the reason.
    banned: Vec<(String, String)>,
}

fn texts(value: &Toml) -> Vec<String> {
    let list = value.as_array().expect("a list");
    list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

fn text(table: &Toml, key: &str) -> String {
    table.get(key).and_then(Toml::as_str).unwrap_or_else(|| panic!("{key} in {table}")).to_owned()
}

impl DenyToml {
    fn parse(policy: &str) -> Self {
        let all: Toml = toml::from_str::<toml::Table>(policy).expect("deny.toml is TOML").into();
        let at = |table: &str, key: &str| all[table].get(key).unwrap_or_else(|| panic!("{table}.{key}")).clone();
        let list = |value: Toml| value.as_array().expect("a list").clone();
        for (table, key, value) in
            [("bans", "wildcards", "deny"), ("sources", "unknown-registry", "deny"), ("sources", "unknown-git", "deny")]
        {
            assert_eq!(at(table, key).as_str(), Some(value), "this test knows no other value of {table}.{key}");
        }
        let exceptions = list(at("licenses", "exceptions"));
        let banned = list(at("bans", "deny"));
        Self {
            allowed: texts(&at("licenses", "allow")),
            exceptions: exceptions.iter().map(|e| (text(e, "crate"), texts(&e["allow"]))).collect(),
            banned: banned.iter().map(|b| (text(b, "crate"), text(b, "reason"))).collect(),
        }
    }

    /// Returns the rules that a package of `cargo metadata` breaks.
    fn violations(&self, package: &Json) -> Vec<String> {
        let name = package["name"].as_str().expect("a package has a name");
        let mut wrong = Vec::new();
        if let Some((_, reason)) = self.banned.iter().find(|(banned, _)| banned == name) {
            wrong.push(format!("{name} is banned: {reason}"));
        }
        match package["source"].as_str() {
            None => {}
            Some("registry+https://github.com/rust-lang/crates.io-index") => self.license(name, package, &mut wrong),
            Some(source) => wrong.push(format!("{name} comes from {source}, not from crates.io")),
        }
        for dependency in package["dependencies"].as_array().expect("a list") {
            if dependency["req"] == "*" && dependency["path"].is_null() {
                wrong.push(format!("{name} takes any version of {}", dependency["name"]));
            }
        }
        wrong
    }

    fn license(&self, name: &str, package: &Json, wrong: &mut Vec<String>) {
        let Some(license) = package["license"].as_str() else {
            return wrong.push(format!("{name} names no licence"));
        };
        let excepted = self.exceptions.iter().filter(|(of, _)| of == name).flat_map(|(_, allowed)| allowed);
        let allowed: Vec<&str> = self.allowed.iter().chain(excepted).map(String::as_str).collect();
        // A licence with an exception allows more than the same without.
        let allows = |req: &LicenseReq| req.license.id().is_some_and(|id| allowed.contains(&id.name));
        match Expression::parse_mode(license, ParseMode::LAX) {
            Ok(expression) if expression.evaluate(allows) => {}
            Ok(_) => wrong.push(format!("{name} is under {license}, which is not among {}", allowed.join(", "))),
            Err(error) => wrong.push(format!("{name}: {license} is no licence expression: {}", error.reason)),
        }
    }
}

fn packages(manifest: &Path) -> Vec<Json> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--locked", "--format-version", "1", "--all-features", "--manifest-path"]);
    let output = metadata.arg(manifest).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).expect("metadata are JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace")
}

fn policy() -> DenyToml {
    DenyToml::parse(&std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml"))
}

#[test]
fn every_dependency_is_as_the_policy_allows() {
    let policy = policy();
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let packages = packages(&root().join(manifest));
        assert!(packages.len() > 50, "{manifest}: only {} packages", packages.len());
        let wrong: Vec<_> = packages.iter().flat_map(|package| policy.violations(package)).collect();
        assert!(wrong.is_empty(), "{manifest}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn what_the_policy_forbids_is_found() {
    let policy = policy();
    let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
    let package = |name: &str, license: Json, source: &str| serde_json::json!({"name": name, "license": license, "source": source, "dependencies": []});
    let found = |package: &Json| policy.violations(package).join("; ");
    assert_eq!(found(&package("fine", "MIT/Apache-2.0".into(), crates_io)), "");
    assert_eq!(found(&package("fine", "GPL-3.0-only OR MIT".into(), crates_io)), "");
    assert_eq!(found(&package("tiny-keccak", "CC0-1.0".into(), crates_io)), "");
    assert!(found(&package("other", "CC0-1.0".into(), crates_io)).contains("other is under CC0-1.0"));
    assert!(found(&package("both", "MIT AND GPL-2.0-only".into(), crates_io)).contains("both is under MIT AND GPL"));
    assert!(found(&package("odd", "Free".into(), crates_io)).contains("no licence expression"));
    assert!(found(&package("mute", Json::Null, crates_io)).contains("mute names no licence"));
    assert!(found(&package("minilzo", "MIT".into(), crates_io)).contains("minilzo is banned: GPL"));
    assert!(found(&package("git", "MIT".into(), "git+https://example.org/git")).contains("not from crates.io"));
    let wild = serde_json::json!({
        "name": "wild", "source": null,
        "dependencies": [{"name": "a", "req": "*", "path": null}, {"name": "b", "req": "*", "path": "/b"}],
    });
    assert_eq!(found(&wild), "wild takes any version of \"a\"");
}
