//! `destage man`: manual pages.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use clap_mangen::Man;

use crate::examples::{self, CallExample};
use crate::output::{CommandOutputs, NewFile};

/// The command.
pub fn command() -> Command {
    Command::new("man")
        .about("Write the manual page of a command, or those of all commands into a folder")
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .num_args(0..)
                .conflicts_with("out")
                .help("The command, such as trace stat [default: destage itself]"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .help("Write a page for each command into this folder, such as /usr/local/share/man/man1"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut root = super::bare().disable_help_subcommand(true);
    root.build();
    if let Some(folder) = matches.get_one::<PathBuf>("out") {
        if !folder.is_dir() {
            bail!("--out {}: there is no such folder", folder.display());
        }
        let mut outputs = CommandOutputs::apart_from([] as [PathBuf; 0])?;
        let mut files = Vec::new();
        write_all(&root, folder, &mut outputs, &mut files)?;
        return outputs.commit(files);
    }
    let mut command = &root;
    for word in matches.get_many::<String>("command").into_iter().flatten() {
        let Some(inner) = command.find_subcommand(word) else {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let has = if known.is_empty() { "has no commands".into() } else { format!("has {}", known.join(", ")) };
            bail!("there is no command '{word}'; {} {has}", full_name(command));
        };
        command = inner;
    }
    std::io::stdout().lock().write_all(&page(command)?)?;
    Ok(())
}

fn full_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// Writes the pages of a command and of those in it.
fn write_all(command: &Command, folder: &Path, outputs: &mut CommandOutputs, files: &mut Vec<NewFile>) -> Result<()> {
    let mut file = outputs.file(&folder.join(format!("{}.1", full_name(command))))?;
    file.write_all(&page(command)?)?;
    files.push(file);
    command.get_subcommands().try_for_each(|inner| write_all(inner, folder, outputs, files))
}

/// The words of a command, without the binary's name.
fn words(command: &Command) -> String {
    // Names of pages have hyphens in place of blanks, as names of commands may; none has both.
    full_name(command).split('-').skip(1).collect::<Vec<_>>().join(" ")
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let source = concat!("destage ", env!("CARGO_PKG_VERSION"));
    // An empty date would be left out of `.TH`, and the next argument read as the date.
    Man::new(command.clone()).date(" ").source(source).manual("destage").render(&mut text)?;
    writeln!(text, ".SH EXAMPLES")?;
    for CallExample { call, what } in examples::of(&words(command)) {
        writeln!(text, ".PP\n{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE", escaped(what), escaped(call))?;
    }
    writeln!(text, ".SH \"EXIT STATUS\"")?;
    for (status, meaning) in examples::STATUSES {
        writeln!(text, ".TP\n\\fB{status}\\fR\n{}", escaped(meaning))?;
    }
    Ok(text)
}

/// A line of text as it stands in a manual page.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // A point at the beginning would make a request of it.
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
