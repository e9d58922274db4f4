//! Checks that documents and comments refer to what exists.
//!
//! Each "specs §4.5" is a section of docs/specs and each "specs D6" an ambiguity resolved in it. Files that Markdown or
//! a comment names exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Folders with text of our own; what is named in them by its path begins with one of these.
const FOLDERS: [&str; 7] = [".ci", "crates", "docs", "fuzz", "scenarios", "scripts", "traces"];

/// Whose sections are not ours: "LAWC §2.2" is a section of the paper.
const PAPERS: [&str; 6] = ["LAWC", "GCaR", "KDD", "CAWR", "LB-CLOCK", "paper"];

/// A text file, by its path in the checkout.
struct Document {
    path: String,
    text: String,
}

impl Document {
    /// Returns the lines without comment marks, with the number of each; of code only the comments if so asked.
    fn lines(&self, comments_only: bool) -> impl Iterator<Item = (usize, &str)> {
        let mark = if extension(&self.path) == "rs" { "//" } else { "#" };
        let markdown = extension(&self.path) == "md";
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            let line = line.trim();
            let text = if markdown {
                Some(line)
            } else if line.starts_with(mark) {
                Some(line.trim_start_matches(['/', '!', '#']).trim())
            } else if comments_only {
                line.split_once(&format!(" {mark} ")).map(|(_, comment)| comment)
            } else {
                Some(line)
            };
            text.map(|text| (index + 1, text))
        })
    }
}

/// Every text file of our own.
fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    let mut left: Vec<String> = FOLDERS.map(str::to_owned).to_vec();
    let top = fs::read_dir(CHECKOUT).expect("the checkout").map(|entry| entry.expect("an entry").file_name());
    left.extend(top.filter_map(|name| name.into_string().ok()).filter(|name| is_text(name)));
    while let Some(path) = left.pop() {
        let full = Path::new(CHECKOUT).join(&path);
        if full.is_dir() {
            let names = fs::read_dir(&full).expect("a folder").map(|entry| entry.expect("an entry").file_name());
            let names = names.filter_map(|name| name.into_string().ok()).filter(|name| name != "target");
            left.extend(names.map(|name| format!("{path}/{name}")));
        } else if is_text(&path) {
            let text = fs::read_to_string(&full).unwrap_or_else(|error| panic!("{path}: {error}"));
            found.push(Document { path, text });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn is_text(path: &str) -> bool {
    let script = path.starts_with("scripts/") || path.starts_with(".ci/") || path == "Makefile";
    match extension(path) {
        "rs" | "md" | "toml" | "sh" => true,
        other => other.is_empty() && script,
    }
}

/// The number at the start of a text, with its subsection: `4.5` of `4.5. Then`.
fn section(text: &str) -> Option<&str> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(text);
    let part = text[whole..].strip_prefix('.').map_or(0, digits);
    (whole > 0).then(|| &text[..if part > 0 { whole + 1 + part } else { whole }])
}

/// The number of an ambiguity at the start of a text: `A7b` of `A7b)`.
fn ambiguity(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(|c: char| ('A'..='F').contains(&c))?;
    let rest = section(rest).filter(|number| !number.contains('.')).map(|number| &rest[number.len()..])?;
    let rest = rest.strip_prefix(|c: char| c.is_ascii_lowercase()).unwrap_or(rest);
    (!rest.starts_with(|c: char| c.is_alphanumeric())).then(|| &text[..text.len() - rest.len()])
}

/// The sections and ambiguities that a text refers to, with the place of each.
fn references(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let at = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    for (place, sign) in text.match_indices('§') {
        let (before, after) = (text[..place].trim_end(), &text[place + sign.len()..]);
        let Some(first) = section(after) else { continue };
        let rest = &after[first.len()..];
        if PAPERS.iter().any(|paper| before.ends_with(paper)) || rest.starts_with(" of the paper") {
            continue;
        }
        found.push((place, first));
        let last = rest.strip_prefix('–').and_then(section);
        found.extend(last.map(|last| (at(last), last)));
        let rest = last.map_or(rest, |last| &rest['–'.len_utf8() + last.len()..]);
        found.extend(ambiguities(rest).into_iter().map(|id| (at(id), id)));
    }
    for word in ["specs ", "Specs "] {
        let direct = text.match_indices(word).map(|(place, word)| &text[place + word.len() - 1..]);
        found.extend(direct.flat_map(ambiguities).map(|id| (at(id), id)));
    }
    found
}

/// The ambiguities that a text begins with: those of `, E1 and E5: what`.
fn ambiguities(mut text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    loop {
        let next = [", ", " and ", " "].iter().find_map(|link| ambiguity(text.strip_prefix(link)?));
        let Some(id) = next else { return found };
        found.push(id);
        text = &text[id.as_ptr() as usize + id.len() - text.as_ptr() as usize..];
    }
}

#[test]
fn references_are_found_in_lists_ranges_and_across_lines() {
    let of = |text| references(text).into_iter().map(|(_, number)| number).collect::<Vec<_>>();
    assert_eq!(of("specs §6.2, §6.3, §6.5), naively"), ["6.2", "6.3", "6.5"]);
    assert_eq!(of("Resolved (specs §7 and §10.2): D7"), ["7", "10.2"]);
    assert_eq!(of("specs §1.1–1.2, §8.0–§8.9."), ["1.1", "1.2", "8.0", "8.9"]);
    assert_eq!(of("specs §10.5, E1 and E5; §10.7 D12; specs A7b"), ["10.5", "E1", "E5", "10.7", "D12", "A7b"]);
    assert_eq!(of("LAWC §2.2, paper §4, §3.3 of the paper, §IV.A, specs §6.4, Algorithm 1, block B7"), ["6.4"]);
}

/// All of its lines as one, with the number of the line on which each byte stands.
fn joined(document: &Document) -> (String, impl Fn(usize) -> usize) {
    let (mut text, mut starts) = (String::new(), Vec::new());
    for (number, line) in document.lines(false) {
        starts.push((text.len(), number));
        text.push_str(line);
        text.push(' ');
    }
    (text, move |place| starts[starts.partition_point(|start| start.0 <= place) - 1].1)
}

#[test]
fn every_reference_to_the_specification_leads_somewhere() {
    let documents = documents();
    let mut known = BTreeSet::new();
    let mut wrong = Vec::new();
    for document in documents.iter().filter(|document| document.path.starts_with("docs/specs/")) {
        for (number, line) in document.lines(false) {
            let heading = line.trim_start_matches('#').trim_start().strip_prefix('§').filter(|_| line.starts_with('#'));
            let row = line.strip_prefix("| ").filter(|_| document.path.ends_with("/ambiguities.md"));
            let new = heading.and_then(section).or_else(|| row.and_then(ambiguity));
            if new.is_some_and(|new| !known.insert(new)) {
                wrong.push(format!("{}:{number}: there is another {}", document.path, new.unwrap_or_default()));
            }
        }
    }
    let mut count = 0;
    // The test's own samples lead nowhere.
    for document in documents.iter().filter(|document| !document.path.ends_with("it/documents.rs")) {
        let (text, line) = joined(document);
        for (place, number) in references(&text) {
            count += 1;
            if !known.contains(number) {
                wrong.push(format!("{}:{}: docs/specs has no {number}", document.path, line(place)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "only {count} references were found");
}

/// Returns the part of a word that names a file or folder: without quotes and the end of a sentence, up to the
/// first placeholder.
fn named(word: &str) -> &str {
    let word = word.trim_end_matches('.');
    let placeholder = |part: &str| {
        part.contains(['*', '{', '$', '<']) || part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase())
    };
    let mut end = 0;
    for part in word.split_inclusive('/') {
        if placeholder(part.trim_end_matches('/')) {
            break;
        }
        end += part.len();
    }
    word[..end].trim_end_matches('/')
}

#[test]
fn every_file_that_documents_and_comments_name_exists() {
    let documents = documents();
    let exists = |path: &str| Path::new(CHECKOUT).join(path).exists();
    let ends = |name: &str| {
        documents.iter().any(|document| {
            document.path == name || document.path.strip_suffix(name).is_some_and(|folder| folder.ends_with('/'))
        })
    };
    let mut wrong = Vec::new();
    for document in &documents {
        let beside = |name: &str| match document.path.rsplit_once('/') {
            Some((folder, _)) => exists(&format!("{folder}/{name}")),
            None => exists(name),
        };
        for (number, line) in document.lines(true) {
            let words = line.split(|c: char| c.is_whitespace() || "`()[]\"',;:|=".contains(c)).map(named);
            for word in words.filter(|word| !word.contains("//")) {
                let (root, rest) = word.split_once('/').unwrap_or(("", word));
                let file = matches!(extension(rest), "rs" | "md");
                if (FOLDERS.contains(&root) || file) && !exists(word) && !beside(word) && !(file && ends(word)) {
                    wrong.push(format!("{}:{number}: there is no {word}", document.path));
                }
            }
            for link in line.split("](").skip(1).filter(|_| extension(&document.path) == "md") {
                let target = link.split([')', '#']).next().unwrap_or_default();
                if !target.contains("://") && !target.is_empty() && !beside(target) {
                    wrong.push(format!("{}:{number}: the link to {target} leads nowhere", document.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect();
        found.insert(anchor);
    }
    found
}

#[test]
fn anchors_are_made_of_headings() {
    let text = "# A page\n```\n# no heading\n```\n## Who hears of it?\n### As a block device (ublk)";
    let expected = ["a-page", "who-hears-of-it", "as-a-block-device-ublk"];
    assert_eq!(anchors(text), BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn every_link_to_a_heading_leads_to_one() {
    let documents = documents();
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents.iter().filter(|document| extension(&document.path) == "md") {
        let folder = Path::new(&document.path).parent().unwrap_or(Path::new(""));
        for (number, line) in document.lines(false) {
            for link in line.split("](").skip(1) {
                let target = link.split(')').next().unwrap_or_default();
                let Some((page, anchor)) = target.split_once('#').filter(|_| !target.contains("://")) else { continue };
                let text = if page.is_empty() {
                    document.text.clone()
                } else {
                    fs::read_to_string(Path::new(CHECKOUT).join(folder).join(page)).unwrap_or_default()
                };
                count += 1;
                if !anchors(&text).contains(anchor) {
                    wrong.push(format!("{}:{number}: {target} leads to no heading", document.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 20, "only {count} links to headings were found");
}

/// Checks docs/SUMMARY.md, the table of contents of the site that book.toml describes.
#[test]
fn every_page_is_in_the_table_of_contents() {
    let summary = fs::read_to_string(Path::new(CHECKOUT).join("docs/SUMMARY.md")).expect("a table of contents");
    let listed: Vec<_> =
        summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or_default().to_owned()).collect();
    let unique: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice");
    let pages = documents().into_iter().filter_map(|document| {
        let page = document.path.strip_prefix("docs/").filter(|page| extension(page) == "md")?;
        Some(page.to_owned()).filter(|page| page != "SUMMARY.md")
    });
    assert_eq!(pages.collect::<BTreeSet<_>>(), unique);
}

/// A row's cells in a table of Markdown.
fn cells(line: &str) -> Vec<&str> {
    line.split('|').map(|cell| cell.trim().trim_matches('`')).collect()
}

/// The table of docs/arrays.md has the means that docs/linux-caches.md has.
#[test]
fn figures_that_stand_in_two_documents_are_the_same() {
    let read = |name: &str| fs::read_to_string(Path::new(CHECKOUT).join(name)).expect(name);
    let (arrays, measured) = (read("docs/arrays.md"), read("docs/linux-caches.md"));
    let section = measured.split("\n## ").find(|section| section.starts_with("linux-caches\n")).expect("a section");
    let (_, measured) = section.split_once("\n**zipf, 0 % reads** ").expect("a workload");
    let measured = measured.split("\n**").next().expect("its tables");
    let (owing, paid) = measured.split_once("*the debt paid*").expect("two tables");
    // The pages written to the cache, and the requests to members, rounded.
    let means = |table: &str, policy: &str| {
        let row = table.lines().map(cells).find(|row| row.get(2) == Some(&policy)).expect(policy);
        let mean = |cell: &str| cell.split(' ').next().and_then(|mean| mean.parse::<f64>().ok()).expect("a number");
        [row[3], row[4]].map(|cell| format!("{:.2}", mean(cell)))
    };
    let table = arrays.lines().skip_while(|line| !line.starts_with("| policy | pages written to the SSD |"));
    let rows: Vec<_> = table.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(rows.len() > 4, "{rows:?}");
    for row in rows {
        let [written, requests] = means(owing, row[1]);
        let [_, with_debt] = means(paid, row[1]);
        assert_eq!(row[2..5], [written, requests, with_debt], "{}", row[1]);
    }
}
