//! Adapts text for people to its destination: its width, its characters and its colours.
//!
//! On a terminal lines fit its width, with at least [`WIDTH`] columns. Elsewhere (pipes, files) there are [`WIDTH`]
//! columns, whatever the terminal. So the same call gives the same bytes wherever the locale's characters are the same.
//! Where those are not UTF-8, characters beyond ASCII are replaced.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

/// Columns where there is no terminal, and the least that a terminal is taken to have.
pub const WIDTH: usize = 80;

/// Columns of the names of [`TerminalScreen::pairs`].
const NAME_COLUMNS: usize = 37;

/// Marks good results, or the best.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Marks warnings, and results with a reservation.
pub const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
/// Marks errors.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Marks the heads of tables and of their parts.
pub const HEADING: Style = Style::new().bold();
/// Marks explanations.
pub const NOTE: Style = AnsiColor::Cyan.on_default();

/// Settles for the whole run whether there are colours: what `--color` asks for, else by
/// `NO_COLOR`, `CLICOLOR_FORCE`, `TERM` and whether there is a terminal.
///
/// The arguments are looked at before they are parsed, because the parser's own messages have
/// colours too; it refuses what is neither of the values.
pub fn settle_colours(arguments: impl Iterator<Item = OsString>) {
    let mut choice = ColorChoice::Auto;
    // Arguments after `--` belong to another command.
    let mut arguments = arguments.take_while(|argument| argument != "--");
    while let Some(argument) = arguments.next() {
        let value = match argument.to_str() {
            Some("--color") => arguments.next(),
            Some(text) => text.strip_prefix("--color=").map(Into::into),
            None => None,
        };
        choice = match value.as_deref().and_then(OsStr::to_str) {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            Some("auto") => ColorChoice::Auto,
            _ => choice,
        };
    }
    // CLICOLOR_FORCE and CI would colour even a terminal that shows no colours.
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if choice == ColorChoice::Auto && dumb {
        choice = ColorChoice::Never;
    }
    choice.write_global();
}

/// Returns true if the locale's characters are UTF-8. As in C, the first of three variables that is set and not
/// empty decides.
pub fn utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    // POSIX has these variables count in this order.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A stream that people read.
pub struct TerminalScreen {
    out: Box<dyn Write>,
    page: ScreenPage,
}

/// Describes what fits.
#[derive(Clone, Copy, Debug)]
pub struct ScreenPage {
    /// Columns of a line.
    pub width: usize,
    /// Is true if characters beyond ASCII can be shown.
    pub utf8: bool,
}

impl ScreenPage {
    /// The text with what cannot be shown replaced.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.utf8 || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            // No-break spaces become spaces once lines are broken.
            if c.is_ascii() || c == '\u{a0}' {
                shown.push(c);
            } else {
                shown.push_str(ascii(c));
            }
        }
        Cow::Owned(shown)
    }

    /// The lines of a text after a label, each beginning where the label ends; they do not end at
    /// no-break spaces.
    pub fn paragraph(&self, label: &str, text: &str) -> Vec<String> {
        let (label, text) = (self.text(label), self.text(text));
        let indent = label.width();
        let lines = wrap(&text, self.width.saturating_sub(indent).max(1));
        lines
            .iter()
            .enumerate()
            .map(|(i, line)| if i == 0 { format!("{label}{line}") } else { format!("{:indent$}{line}", "") })
            .map(|line| line.trim_end().replace('\u{a0}', " "))
            .collect()
    }

    /// The lines of what heads others.
    pub fn title(&self, text: &str) -> Vec<String> {
        self.paragraph("", text).iter().map(|line| format!("{HEADING}{line}{HEADING:#}")).collect()
    }
}

impl TerminalScreen {
    fn new(out: Box<dyn Write>, stream: &(impl IsTerminal + AsFd)) -> Self {
        let size = if stream.is_terminal() { terminal_size::terminal_size_of(stream) } else { None };
        // Narrower terminals wrap by themselves; tables of fewer columns would need a layout of their own.
        let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0).max(WIDTH));
        Self { out, page: ScreenPage { width, utf8: utf8() } }
    }

    /// The standard output.
    pub fn stdout() -> Self {
        Self::new(Box::new(AutoStream::auto(io::stdout()).lock()), &io::stdout())
    }

    /// The standard error.
    pub fn stderr() -> Self {
        Self::new(Box::new(AutoStream::auto(io::stderr()).lock()), &io::stderr())
    }

    /// Returns what fits.
    pub const fn page(&self) -> ScreenPage {
        self.page
    }

    /// Writes a text after a label; further lines begin where the label ends.
    pub fn paragraph(&mut self, label: &str, text: &str) -> io::Result<()> {
        self.page.paragraph(label, text).iter().try_for_each(|line| writeln!(self.out, "{line}"))
    }

    /// Writes names and values below each other.
    pub fn pairs<'a>(&mut self, rows: impl IntoIterator<Item = (&'a str, String)>) -> io::Result<()> {
        for (name, value) in rows {
            let name = self.page.text(name);
            let label = format!("  {name:<NAME_COLUMNS$} ");
            self.paragraph(&label, &value)?;
        }
        Ok(())
    }

    /// Writes a heading, with an empty line around it unless it is the first.
    pub fn heading(&mut self, text: &str, first: bool) -> io::Result<()> {
        if !first {
            writeln!(self.out)?;
        }
        self.page.title(text).iter().try_for_each(|line| writeln!(self.out, "{line}"))?;
        writeln!(self.out)
    }
}

impl Write for TerminalScreen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Says on the standard error what may be wrong with a result.
pub fn warn(message: impl Display) {
    anstream::eprintln!("{DOUBTFUL}warning:{DOUBTFUL:#} {message}");
}

/// Says on the standard error what is good to know.
pub fn note(message: impl Display) {
    anstream::eprintln!("{NOTE}note:{NOTE:#} {message}");
}

/// Says on the standard error why the command failed.
pub fn fail(message: impl Display) {
    anstream::eprintln!("{BAD}destage:{BAD:#} {message}");
}

/// Shows an error with its causes, none of them twice: the text of many errors has that of their cause.
pub struct ErrorCauses<'a>(pub &'a anyhow::Error);

impl Display for ErrorCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = String::new();
        for text in self.0.chain().map(ToString::to_string) {
            if told.is_empty() {
                told = text;
            // Many errors have their cause's text in their own, and would say it twice.
            } else if !told.contains(&text) {
                told = format!("{told}: {text}");
            }
        }
        f.write_str(&told)
    }
}

/// Returns the replacement of a character where only ASCII can be shown.
const fn ascii(c: char) -> &'static str {
    match c {
        '\u{2013}' => "-",
        '\u{2264}' => "<=",
        '±' => "+-",
        '·' => "*",
        'µ' => "u",
        'ρ' => "rho",
        '§' => "sec. ",
        'ó' => "o",
        _ => "?",
    }
}

/// The lines of a text broken at blanks, each at most `width` columns wide, save where a word is
/// wider.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut columns = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let wide = word.width();
        if columns > 0 && columns + 1 + wide > width {
            lines.push(std::mem::take(&mut line));
            columns = 0;
        }
        if columns > 0 {
            line.push(' ');
            columns += 1;
        }
        line.push_str(word);
        columns += wide;
    }
    lines.push(line);
    lines
}
