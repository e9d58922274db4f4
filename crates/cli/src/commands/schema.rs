//! `destage schema`: name, unit and meaning of every field of a result.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_advise::TraceAdvice;
use destage_sim::array::ArrayResult;
use destage_sim::buffer::RunResult;
use destage_sim::curve::CurveResult;
use destage_sim::measure::{FieldDoc, TraceLocality, TraceStatResult};

use crate::screen::TerminalScreen;
use crate::table::{TextColumn, TextTable};

/// The command.
pub fn command() -> Command {
    Command::new("schema")
        .about("Explain every field of `destage sim --json`, with its unit")
        .arg(Arg::new("array").long("array").action(ArgAction::SetTrue).help("Of `destage sim --array`"))
        .arg(
            Arg::new("locality")
                .long("locality")
                .action(ArgAction::SetTrue)
                .conflicts_with("array")
                .help("Of the key locality of `destage trace stat --locality --json`"),
        )
        .arg(
            Arg::new("stat")
                .long("stat")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["array", "locality", "mrc"])
                .help("Of `destage trace stat --json`"),
        )
        .arg(
            Arg::new("mrc")
                .long("mrc")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["array", "locality"])
                .help("Of `destage trace mrc --json`"),
        )
        .arg(
            Arg::new("advise")
                .long("advise")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["array", "locality", "mrc", "stat"])
                .help("Of `destage advise --json`"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let [array, locality, mrc, stat] = ["array", "locality", "mrc", "stat"].map(|of| matches.get_flag(of));
    let advise = matches.get_flag("advise");
    let fields = match (array, locality, mrc, stat) {
        _ if advise => TraceAdvice::FIELDS.to_vec(),
        (true, ..) => ArrayResult::fields(),
        (_, true, ..) => TraceLocality::FIELDS.to_vec(),
        (_, _, true, _) => CurveResult::FIELDS.to_vec(),
        (.., true) => TraceStatResult::FIELDS.to_vec(),
        _ => RunResult::fields(),
    };
    if matches.get_flag("json") {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &fields)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut screen = TerminalScreen::stdout();
    let about = if advise {
        "`destage advise --json` prints one object. Absent values are null; the unit of values of the objective is that of \
         the field unit."
            .to_owned()
    } else if locality {
        "`destage trace stat --locality --json` prints a list with one object per file; these are the fields of its key \
         locality."
            .to_owned()
    } else if stat {
        "`destage trace stat --json` prints a list with one object per file. Absent values are null; with --locality there \
         is a key locality, too (`destage schema --locality`)."
            .to_owned()
    } else if mrc {
        "`destage trace mrc --json` prints a list with one object per file. Absent values are null.".to_owned()
    } else {
        let (call, other) = if array {
            ("sim --array", "of buffers: destage schema")
        } else {
            ("sim", "with --array: destage schema --array")
        };
        format!("`destage {call} --json` prints a list with one object per run. Absent values are null. ({other})")
    };
    screen.paragraph("", &about)?;
    writeln!(screen)?;
    let mut table = TextTable::new([TextColumn::word("field"), TextColumn::word("unit"), TextColumn::text("meaning")]);
    add_rows(&mut table, "", &fields);
    table.print(&mut screen)?;
    Ok(())
}

fn add_rows(table: &mut TextTable, prefix: &str, fields: &[FieldDoc]) {
    for field in fields {
        let full = format!("{prefix}{}", field.name);
        table.add([full.as_str(), field.unit, field.meaning]);
        add_rows(table, &format!("{full}."), field.fields);
    }
}
