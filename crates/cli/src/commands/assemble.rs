//! `destage assemble`: goes on with the freshest members where the level cannot do without those that are missing.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_engine::{ArrayAssembly, ArrayDescription, AssemblyMember, AssemblyReport, MemberFreshness};

use super::served::{array_arg, description};
use crate::screen::TerminalScreen;

/// Builds the command.
pub fn command() -> Command {
    Command::new("assemble")
        .about("Say how fresh the members of an array are, and go on with the freshest, as mdadm --assemble --force does")
        .after_help(
            "For an array that nobody serves and that destage serve refuses, since more members are missing, or were left behind, \
             than the level can do without. Without --force nothing is changed: it says which members would be believed and what \
             that may cost. What it has to say of an array that needs no force is which members are current.",
        )
        .arg(array_arg())
        .arg(Arg::new("force").long("force").action(ArgAction::SetTrue).help(
            "Believe the freshest members, as many as the level needs, and accept what is lost by that; destage serve then serves it",
        ))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let path = description(matches);
    let assembly = ArrayAssembly::inspect(ArrayDescription::read(&path)?, &path)?;
    let array = matches.get_raw("array").and_then(|mut given| given.next()).map_or(Path::new("."), Path::new);
    let rows = assembly.members().iter().map(|member| (format!("member {}", member.number), says(member)));
    let rows: Vec<(String, String)> = rows.collect();
    let mut screen = TerminalScreen::stderr();
    screen.pairs(rows.iter().map(|(name, text)| (name.as_str(), text.clone())))?;
    let forced: Vec<&AssemblyMember> = assembly.members().iter().filter(|member| member.is_forced).collect();
    if assembly.short() > 0 {
        bail!(
            "the level needs {} members, and {} of them cannot be had from what is there: bring more of them back, or make an array of \
             what the members hold (destage create --adopt, with all options), which nothing can make whole",
            assembly.needed(),
            assembly.short()
        );
    }
    if !forced.is_empty() {
        screen.pairs([("costs", costs(&forced, assembly.holds_data()))])?;
    }
    if !matches.get_flag("force") {
        if forced.is_empty() {
            screen.pairs([("next", format!(
                    "destage serve {0} has the members that it needs; if it is refused over files of different times, destage assemble \
                     {0} --force goes on with the newest",
                    array.display()
                ))])?;
            return Ok(());
        }
        bail!("nothing was changed; destage assemble {} --force goes on like that", array.display());
    }
    let believed: Vec<String> = forced.iter().map(|member| member.number.to_string()).collect();
    let done = assembly.force().context("the array is not assembled")?;
    screen.pairs(told(&believed, &done))?;
    screen.pairs([(
        "next",
        format!("destage serve {}; then destage replace each member that is not current", array.display()),
    )])?;
    Ok(())
}

/// Says what a member is like.
fn says(member: &AssemblyMember) -> String {
    let mut text = format!("{}: ", member.path);
    let is_written = match &member.freshness {
        MemberFreshness::Current => write!(text, "current"),
        MemberFreshness::Stale { count, newest } if count == newest => {
            write!(text, "left behind since the last start or clean shutdown (event count {count})")
        }
        MemberFreshness::Stale { count, newest } => {
            write!(
                text,
                "left behind {} starts or clean shutdowns ago (event count {count}, the array has {newest})",
                newest - count
            )
        }
        MemberFreshness::Unusable(why) => write!(text, "not usable: {why}"),
    };
    is_written.expect("a text can be written to");
    if member.is_forced {
        text.push_str("; would be believed");
    }
    text
}

/// Says what it may cost to believe members that were left behind.
fn costs(forced: &[&AssemblyMember], holds_data: bool) -> String {
    let numbers: Vec<String> = forced.iter().map(|member| member.number.to_string()).collect();
    let numbers = numbers.join(", ");
    let mut text = format!(
        "what was written since member {numbers} was left behind is missing there: pages of it are as they were then, and pages of \
         members that are still missing are computed with these. Which pages nobody knows; nothing of the others is changed. Rows \
         that were being written are made consistent as far as can be, and told"
    );
    if holds_data {
        text.push_str(". If NVRAM or intents are older than the members or missing, writes that were answered and are on no member are given up as well");
    }
    text
}

/// Says what was done.
fn told(believed: &[String], done: &AssemblyReport) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if believed.is_empty() {
        rows.push(("done", "no member had to be believed".to_owned()));
    } else {
        rows.push(("done", format!("member {} is believed as it is", believed.join(", "))));
    }
    if !done.remade.is_empty() {
        let lost = if done.data_lost {
            "; writes that were answered and are on no member are given up, if there were any"
        } else {
            ""
        };
        rows.push(("made anew", format!("{}{lost}", done.remade.join(", "))));
    }
    let bytes: u64 = done.lost.iter().map(|range| range.bytes).sum();
    if bytes > 0 {
        const NAMED: usize = 8;
        let named = done.lost.iter().take(NAMED).map(|range| format!("{} from byte {}", range.bytes, range.offset));
        let more = done.lost.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(", and {more} ranges more") } else { String::new() };
        rows.push((
            "given up",
            format!("{bytes} bytes that were being written: {}{more}", named.collect::<Vec<_>>().join(", ")),
        ));
    }
    rows
}
