//! `--json FILE`: what follows an option for a file after a blank.
//!
//! Such an option can stand alone, and then means the standard output; so the word after it may as
//! well be another argument, such as a trace. Only a word that cannot be spoilt is taken as the
//! file: of something that is not there yet, or that an earlier call wrote. Whatever else has that
//! name is kept, and the call refused with what to write.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Command;

/// Options of files that can stand alone, with the commands that have them and what results begin
/// with.
const OPTIONS: [(&str, &str, &str); 5] = [
    ("advise", "--json", "{\n  \"device\": "),
    ("sim", "--json", "[\n  {\n    \"policy\": "),
    ("sim", "--csv", "policy,params,cache_bytes,"),
    ("sim", "--latency-log", "policy,cache_bytes,request,"),
    ("reproduce", "--markdown", "# Reproduction: what papers claim, and what destage measures\n"),
];

/// The arguments of a command line, without the binary's name, with what follows such an option
/// after a blank behind a `=`.
///
/// # Errors
/// Where it is not clear whether what follows is the file.
pub fn joined(root: &Command, arguments: impl Iterator<Item = OsString>) -> Result<Vec<OsString>> {
    let (mut joined, mut command) = (Vec::new(), None);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            joined.push(argument);
            break;
        }
        if command.is_none() && root.find_subcommand(&argument).is_some() {
            command = argument.to_str().map(str::to_owned);
        }
        let is_option = |(of, option, _): &&(&str, &str, &str)| Some(*of) == command.as_deref() && argument == *option;
        let follows = arguments.peek().filter(|next| is_word(next));
        match (OPTIONS.iter().find(is_option), follows) {
            (Some((_, option, beginning)), Some(word)) => {
                check(option, Path::new(word), beginning)?;
                let mut whole = argument;
                whole.push("=");
                whole.push(word);
                joined.push(whole);
                arguments.next();
            }
            // The value of an option that all commands have is no command.
            (None, Some(_)) if argument == "--color" && command.is_none() => {
                joined.push(argument);
                joined.extend(arguments.next());
            }
            _ => joined.push(argument),
        }
    }
    joined.extend(arguments);
    Ok(joined)
}

/// Returns true if the argument is no option.
fn is_word(argument: &OsStr) -> bool {
    argument == "-" || !argument.as_encoded_bytes().starts_with(b"-") && !argument.is_empty()
}

/// Checks that `path` can be given to `option`, whose results begin so.
///
/// # Errors
/// If a file is there that no earlier call of the option has written.
fn check(option: &str, path: &Path, beginning: &str) -> Result<()> {
    let shown = path.display();
    let is = match path.metadata() {
        _ if path == Path::new("-") => return Ok(()),
        // A new name costs nothing, whatever it was meant as.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(meta) if meta.file_type().is_char_device() => return Ok(()),
        Ok(meta) if meta.is_dir() => "is a folder",
        Ok(meta) if !meta.is_file() => "is a device or a pipe",
        _ if begins(path, beginning).unwrap_or(false) => return Ok(()),
        _ => "is there, and not from an earlier call with this option",
    };
    bail!(
        "{option} {shown}: this {is}, so it is kept. To write there, write {option}={shown}; to read it, put it in front of \
         {option}, which alone writes to the standard output"
    );
}

/// Returns true if a file is empty or begins so.
fn begins(path: &Path, beginning: &str) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(beginning.len() as u64).read_to_end(&mut bytes)?;
    Ok(bytes.is_empty() || bytes == beginning.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    fn of(line: &str) -> Result<Vec<String>> {
        let words = line.split(' ').map(OsString::from);
        let joined = joined(&commands::bare(), words)?;
        Ok(joined.into_iter().map(|word| word.into_string().expect("words here are UTF-8")).collect())
    }

    #[test]
    fn options_take_the_words_that_cannot_be_spoilt() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).to_str().expect("temporary paths are UTF-8").to_owned();
        for (name, content) in [
            ("old.json", "[\n  {\n    \"policy\": \"lru\""),
            ("old.csv", "policy,params,cache_bytes,page_bytes\n"),
            ("empty", ""),
            ("trace.csv", "128166372003061629,hm,1,Read,383496192,32768,413\n"),
            ("short", "["),
        ] {
            std::fs::write(at(name), content).expect("a file");
        }
        let is_taken = |option: &str, name: &str| {
            let joined = of(&format!("sim a.trace {option} {name} --policy lru"));
            joined.is_ok_and(|words| words[2] == format!("{option}={name}") && words.len() == 5)
        };
        for name in ["new.json", "old.json", "empty"] {
            assert!(is_taken("--json", &at(name)), "{name}");
        }
        assert!(is_taken("--csv", "-") && is_taken("--csv", "/dev/null") && is_taken("--csv", &at("old.csv")));
        for (option, name) in [
            ("--json", "old.csv"),
            ("--csv", "old.json"),
            ("--csv", "trace.csv"),
            ("--json", "trace.csv"),
            ("--json", "short"),
            ("--csv", "."),
        ] {
            let refusal = of(&format!("sim {option} {}", at(name))).expect_err("it is kept").to_string();
            assert!(refusal.contains(&format!("write {option}={}", at(name))), "{refusal}");
        }
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for line in [
            "sim --json --csv=x",
            "sim --csv --policy lru a.trace",
            "policies --json lru",
            "trace stat --json a.trace",
            "sim --json=x a.trace",
            "reproduce --markdown --traces x gcar",
            "sim -- --json x",
        ] {
            assert_eq!(of(line).expect("nothing is unclear").join(" "), line);
        }
        assert_eq!(of("--color never sim --json x-1").expect("clear").join(" "), "--color never sim --json=x-1");
        assert_eq!(of("reproduce gcar --markdown x.md").expect("clear").join(" "), "reproduce gcar --markdown=x.md");
        assert_eq!(of("--color sim policies --json x").expect("clear").join(" "), "--color sim policies --json x");
    }
}
