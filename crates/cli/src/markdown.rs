//! A report in Markdown as text that fits a width: headings, paragraphs, tables, and lists.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::screen::{ScreenPage, TerminalScreen};
use crate::table::{TextColumn, TextTable};

/// Shows the report; what is neither heading, list nor table is a paragraph.
pub fn show(screen: &mut TerminalScreen, report: &str) -> io::Result<()> {
    lines(report, screen.page()).iter().try_for_each(|line| writeln!(screen, "{line}"))?;
    screen.flush()
}

fn lines(report: &str, page: ScreenPage) -> Vec<String> {
    let mut shown = Vec::new();
    let mut lines = report.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('|') {
            let rows: Vec<_> =
                std::iter::once(line).chain(lines.by_ref().take_while(|line| line.starts_with('|'))).collect();
            shown.extend(table(&rows).lines(page));
            // The line that ended the table is an empty one.
            shown.push(String::new());
        } else if line.starts_with('#') {
            shown.extend(page.title(&plain(line.trim_start_matches('#').trim_start())));
        } else if let Some(item) = line.strip_prefix("* ") {
            shown.extend(page.paragraph("* ", &plain(item)));
        } else {
            shown.extend(page.paragraph("", &plain(line)));
        }
    }
    while shown.last().is_some_and(String::is_empty) {
        shown.pop();
    }
    shown
}

/// The text without marks of emphasis and code.
fn plain(text: &str) -> String {
    text.replace("**", "").replace('`', "")
}

fn cells(line: &str) -> Vec<String> {
    // A bar that belongs to a cell is `\|`.
    let inside = line.trim().trim_start_matches('|').replace("\\|", "\u{1}");
    let inside = inside.strip_suffix('|').unwrap_or(&inside);
    inside.split('|').map(|cell| plain(cell.trim()).replace('\u{1}', "|")).collect()
}

/// The widest figures; what is wider is a text though it be aligned to the right.
const FIGURE: usize = 20;

/// A table from its lines: columns that are aligned to the right hold figures.
fn table(lines: &[&str]) -> TextTable {
    let rows: Vec<Vec<String>> = lines.iter().skip(2).map(|line| cells(line)).collect();
    let figures = |i: usize| rows.iter().all(|row| row.get(i).is_none_or(|cell| cell.width() <= FIGURE));
    let headings = lines.first().map(|line| cells(line)).unwrap_or_default();
    let aligned = lines.get(1).map(|line| cells(line)).unwrap_or_default();
    let columns = headings.iter().enumerate().map(|(i, heading)| {
        if aligned.get(i).is_some_and(|marks| marks.ends_with(':')) && figures(i) {
            TextColumn::number(heading)
        } else {
            TextColumn::text(heading)
        }
    });
    let mut table = TextTable::new(columns);
    for mut row in rows {
        row.resize(headings.len(), String::new());
        table.add(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reports_fit_80_columns() {
        for report in [include_str!("../../../docs/validation.md"), include_str!("../../../docs/linux-caches.md")] {
            let lines = lines(report, ScreenPage { width: 80, utf8: true });
            for line in &lines {
                let line = anstream::adapter::strip_str(line).to_string();
                assert!(line.width() <= 80, "{line}");
            }
            assert!(lines.len() > report.lines().count());
        }
    }

    #[test]
    fn what_marks_the_text_is_taken_away() {
        let report = "# A *title*\n\nSome **words** of `code` that are long enough.\n\n* an item that goes on\n\n\
                      | a | b |\n|---|--:|\n| x \\| y | 17 |\n";
        let lines = lines(report, ScreenPage { width: 20, utf8: true });
        let seen: Vec<_> = lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        let expected = [
            "A *title*",
            "",
            "Some words of code",
            "that are long",
            "enough.",
            "",
            "* an item that goes",
            "  on",
            "",
            "a       b",
            "x | y  17",
        ];
        assert_eq!(seen, expected);
    }
}
