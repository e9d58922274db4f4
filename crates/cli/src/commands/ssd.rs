//! `destage ssd`: what concerns simulated SSDs: settings from measurements.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Arg, ArgMatches, Command, ValueHint};
use destage_scenario::quantity as q;

use crate::candidates;
use crate::drive_fit::{self, DriveSheet, FittedDrive, fio};
use crate::screen::TerminalScreen;
use crate::table::{TextColumn, TextTable};

/// Sets the bytes of flash of a die where the dies are not given.
const DIE_BYTES: u64 = 64 << 30;
/// Limits the bytes of fio's JSON; that of the jobs has some tens of KiB.
const MAX_BYTES: u64 = 64 << 20;

/// Holds the command.
pub fn command() -> Command {
    Command::new("ssd")
        .about("Simulated SSDs: settings of a drive of your own")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(fit_command())
}

fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn fit_command() -> Command {
    Command::new("fit")
        .about("Settings of the modern model for a drive that fio measured, and how well they fit")
        .after_help(
            "RESULT is what `fio --output-format=json --output=RESULT contrib/drive.fio` writes: jobs idle-read, idle-write, \
             steady-write-1, steady-write-2 and, if there, mixed-*. They give ssd.read, ssd.command-write and ssd.program; what \
             fio cannot see is told by the flags (docs/drives.md).",
        )
        .arg(
            Arg::new("result")
                .value_name("RESULT")
                .required(true)
                .value_parser(candidates::path())
                .value_hint(ValueHint::FilePath)
                .help("fio's JSON"),
        )
        .arg(number("capacity", "SIZE", "What the drive exports, such as 960GB").required(true))
        .arg(number("raw", "SIZE", "Its flash [default: the next power of two of GiB]"))
        .arg(number("dies", "N", "Its dies [default: one for each 64 GiB of flash]"))
        .arg(number("planes", "N", "Planes of a die").default_value("2"))
        .arg(
            number("pages-per-word-line", "N", "Flash pages of a word line: 3 of TLC, 4 of QLC").default_value("3"),
        )
        .arg(number("transfer", "NS", "Moving a byte over the pins, in ns").default_value("0.83"))
        .arg(number("command-rate", "N", "Commands a second at most: the sheet's random reads [default: no limit]"))
        .arg(number("link", "SIZE", "Bytes a second at most: the sheet's sequential reads [default: no limit]"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("fit", matches)) => fit(matches),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

/// Reads a flag's value, or says what would be right.
fn value<T>(matches: &ArgMatches, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
    let text = matches.get_one::<String>(name);
    text.map(|text| read(text).map_err(|right| anyhow!("--{name} {text}: {right}"))).transpose()
}

/// Reads a count from 1 to a limit.
fn counted(text: &str, most: u32) -> Result<u32, String> {
    match q::count32(text) {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("expected a number between 1 and {most}")),
    }
}

/// Reads the data sheet from the flags.
fn sheet(matches: &ArgMatches) -> Result<DriveSheet> {
    let size = |text: &str| match q::bytes(text) {
        Ok(bytes) if bytes >= 1 << 20 => Ok(bytes),
        _ => Err("expected a size such as 960GB".to_owned()),
    };
    let exported_bytes = value(matches, "capacity", size)?.context("clap asks for --capacity")?;
    let gib = exported_bytes.div_ceil(1 << 30).next_power_of_two();
    let raw_bytes = value(matches, "raw", size)?.unwrap_or(gib << 30);
    ensure!(
        raw_bytes > exported_bytes && raw_bytes - exported_bytes < raw_bytes / 20 * 19,
        "--raw {raw_bytes} B: expected more than the {exported_bytes} B of --capacity, and at most 20 times as much"
    );
    let rate = |text: &str| match q::count(text) {
        Ok(rate) if (1..=1_000_000_000).contains(&rate) => Ok(rate),
        _ => Err("expected a number between 1 and 1000000000".to_owned()),
    };
    let transfer = |text: &str| match q::decimal(text, 1000) {
        Ok(ps) if ps <= 1_000_000 => Ok(ps),
        _ => Err("expected ns between 0 and 1000, such as 0.83".to_owned()),
    };
    Ok(DriveSheet {
        exported_bytes,
        raw_bytes,
        dies: value(matches, "dies", |text| counted(text, 4096))?
            .unwrap_or_else(|| u32::try_from(raw_bytes.div_ceil(DIE_BYTES)).unwrap_or(4096).min(4096)),
        planes: value(matches, "planes", |text| counted(text, 16))?.unwrap_or(2),
        pages_per_word_line: value(matches, "pages-per-word-line", |text| counted(text, 5))?.unwrap_or(3),
        transfer_ps: value(matches, "transfer", transfer)?.unwrap_or(830),
        command_rate: value(matches, "command-rate", rate)?,
        link_rate: value(matches, "link", size)?,
    })
}

/// Reads fio's JSON, of reasonable size.
fn read(file: &str) -> Result<String> {
    use std::io::Read;
    let path = destage_scenario::path_text::path(file);
    let opened = std::fs::File::open(Path::new(&path)).with_context(|| format!("{file}: cannot be read"))?;
    let mut bytes = Vec::new();
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("{file}: cannot be read"))?;
    ensure!(bytes.len() as u64 <= MAX_BYTES, "{file}: is larger than {MAX_BYTES} B: not what fio writes");
    String::from_utf8(bytes)
        .map_err(|_| anyhow!("{file}: is not what fio --output-format=json writes: it is not UTF-8"))
}

fn fit(matches: &ArgMatches) -> Result<()> {
    let file = matches.get_one::<String>("result").context("clap asks for RESULT")?;
    let sheet = sheet(matches)?;
    let measured = fio::read(&read(file)?).map_err(|error| anyhow!("{file}: {error:#}"))?;
    let step = |what: &str| eprintln!("fit: {what}");
    let fitted = drive_fit::fit(&measured, &sheet, &step).map_err(|error| anyhow!("{file}: {error:#}"))?;
    let mut screen = TerminalScreen::stdout();
    show(&mut screen, file, &fitted, &measured.ignored)?;
    screen.flush()?;
    let (all, off) = (fitted.figures.len(), fitted.figures.iter().filter(|figure| figure.is_off()).count());
    if 2 * off > all {
        eprintln!(
            "destage: warning: {off} of {all} figures are off by more than half: the model does not do what this drive does. \
             Expected a flash drive that fio writes to directly: no file, no virtual disk, and no limit of the steady jobs' rate"
        );
    }
    Ok(())
}

/// Writes the settings as a scenario file, with how well they fit in comments: the output as a whole is such a file.
fn show(screen: &mut TerminalScreen, file: &str, fitted: &FittedDrive, ignored: &[String]) -> Result<()> {
    writeln!(
        screen,
        "# A drive fitted to {}: read, program and command-write are from fio, the rest from flags",
        file.escape_debug()
    )?;
    writeln!(
        screen,
        "# and the preset. Give this file to destage sim --scenario, with device = \"ssd\" or --device ssd."
    )?;
    writeln!(screen, "[ssd]")?;
    for (key, value) in &fitted.settings {
        writeln!(screen, "{key} = {value}")?;
    }
    writeln!(screen, "\n# How well it fits:")?;
    let mut table = TextTable::new([
        TextColumn::word("# job"),
        TextColumn::word("figure"),
        TextColumn::number("drive"),
        TextColumn::number("model"),
        TextColumn::number("error"),
    ]);
    for figure in &fitted.figures {
        let shown = |value: f64| if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let error = |model: f64| format!("{:+.1} %", 100.0 * (model / figure.drive - 1.0));
        table.add([
            format!("# {}", figure.job),
            figure.name.to_owned(),
            shown(figure.drive),
            figure.model.map_or_else(|| "cannot keep up".to_owned(), shown),
            figure.model.map_or_else(|| "-".to_owned(), error),
        ]);
    }
    table.print(screen)?;
    writeln!(screen, "# write amplification of the steady writes on the model: {:.2}", fitted.amplification)?;
    if !ignored.is_empty() {
        let names: Vec<_> = ignored.iter().map(|name| name.escape_debug().to_string()).collect();
        writeln!(screen, "# not looked at: {}", names.join(", "))?;
    }
    Ok(())
}
