//! Tables that fit a width.
//!
//! A table that is too wide is set narrower in this order: names of policies go on to another line
//! behind `+` or before `:`, texts wrap inside their columns, and columns that still find no room
//! follow in another block, behind the names once more. Where even texts have no room, there is a
//! line for each column of a row. Nothing is ever cut off.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::screen::{self, GOOD, HEADING, ScreenPage, TerminalScreen};

/// Columns between two columns.
const GAP: usize = 2;
/// Marks the best figure of a column, in the gap that follows it.
pub const BEST: char = '*';
/// The least that a column of text is narrowed to.
const LEAST_TEXT: usize = 16;

/// Names the content of a column, and so how it is narrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ColumnKind {
    /// Names that are parted at `+` and `:`.
    Name,
    /// Texts that are wrapped.
    Text,
    /// Words that stay in one piece.
    Word,
    /// Figures, which stay in one piece too and stand on the right.
    Number,
}

/// A column.
#[derive(Clone, Debug)]
pub struct TextColumn {
    heading: String,
    kind: ColumnKind,
    /// Is true of a column that says what a row is about: it stands in every block.
    key: bool,
    /// Is true of the first column of a group.
    begins_group: bool,
}

impl TextColumn {
    fn new(heading: &str, kind: ColumnKind, key: bool) -> Self {
        Self { heading: heading.into(), kind, key, begins_group: false }
    }

    /// Names of policies, which say what a row is about.
    pub fn name(heading: &str) -> Self {
        Self::new(heading, ColumnKind::Name, true)
    }

    /// Creates a column that says what a row is about, beside the name.
    pub fn key(heading: &str) -> Self {
        Self::new(heading, ColumnKind::Number, true)
    }

    /// Text that can be wrapped.
    pub fn text(heading: &str) -> Self {
        Self::new(heading, ColumnKind::Text, false)
    }

    /// Words that cannot be parted.
    pub fn word(heading: &str) -> Self {
        Self::new(heading, ColumnKind::Word, false)
    }

    /// Figures.
    pub fn number(heading: &str) -> Self {
        Self::new(heading, ColumnKind::Number, false)
    }

    /// Begins a group here: columns of a group stay together where they can.
    #[must_use]
    pub fn group(self) -> Self {
        Self { begins_group: true, ..self }
    }
}

/// Holds the text of a cell, with its style.
#[derive(Clone, Default, Debug)]
pub struct TextCell {
    text: String,
    style: Style,
    best: bool,
}

impl TextCell {
    /// A text in a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style, best: false }
    }
}

impl From<String> for TextCell {
    fn from(text: String) -> Self {
        Self::styled(text, Style::new())
    }
}

impl From<&String> for TextCell {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<&str> for TextCell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[derive(Clone, Debug)]
enum TextRow {
    Cells(Vec<TextCell>),
    /// A line across all columns that heads the rows below it.
    Heading(String, String),
}

/// A table.
#[derive(Clone, Debug)]
pub struct TextTable {
    columns: Vec<TextColumn>,
    rows: Vec<TextRow>,
}

/// Columns of a block, each with its width.
type ColumnBlock = Vec<(usize, usize)>;

impl TextTable {
    /// An empty table.
    pub fn new(columns: impl IntoIterator<Item = TextColumn>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; it has a cell for every column.
    pub fn add<C: Into<TextCell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<TextCell> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(TextRow::Cells(cells));
    }

    /// Adds a line over the rows that follow: a name, and text after it that is wrapped behind the
    /// name.
    pub fn add_heading(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.rows.push(TextRow::Heading(name.into(), text.into()));
    }

    /// Marks the best figures of a column: `scores` has, for each row, the group in which it
    /// competes and what it has reached there, less being better. Nothing is marked where all show
    /// the same; returns whether anything was.
    pub fn mark_best(&mut self, heading: &str, scores: &[(u64, Option<f64>)]) -> bool {
        let Some(column) = self.columns.iter().position(|column| column.heading == heading) else { return false };
        let shown: Vec<String> = self.cells().map(|cells| cells[column].text.clone()).collect();
        let competing = |group: u64| {
            let rows = scores.iter().zip(&shown).filter(move |((g, _), _)| *g == group);
            rows.filter_map(|(&(_, score), shown)| Some((score?, shown)))
        };
        let mut any = false;
        let best: Vec<bool> = scores
            .iter()
            .zip(&shown)
            .map(|(&(group, score), text)| {
                // Compared as shown: values that round to the same text are marked together, and none where all are
                // alike.
                let best = competing(group).min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, shown)| shown);
                score.is_some() && best == Some(text) && competing(group).any(|(_, other)| other != text)
            })
            .collect();
        let rows = self.rows.iter_mut().filter_map(|row| match row {
            TextRow::Cells(cells) => Some(cells),
            TextRow::Heading(..) => None,
        });
        for (cells, best) in rows.zip(best) {
            cells[column].best = best;
            any |= best;
        }
        any
    }

    fn cells(&self) -> impl Iterator<Item = &Vec<TextCell>> {
        self.rows.iter().filter_map(|row| match row {
            TextRow::Cells(cells) => Some(cells),
            TextRow::Heading(..) => None,
        })
    }

    /// Columns that a further column could have.
    pub fn room(&self, page: ScreenPage) -> usize {
        let natural = self.natural_widths(page);
        let names = self.narrow_names(&natural, page);
        let width = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
        let (wide, narrow) = (width(&natural), width(&names));
        // Names that leave two thirds of the line need not be parted.
        page.width.saturating_sub(if wide <= page.width / 3 { wide } else { narrow })
    }

    /// Prints it.
    pub fn print(&self, screen: &mut TerminalScreen) -> io::Result<()> {
        self.lines(screen.page()).iter().try_for_each(|line| writeln!(screen, "{line}"))
    }

    /// Returns the lines of the table, with escape codes for styles and without blanks at their ends.
    pub fn lines(&self, page: ScreenPage) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(blocks) = self.blocks(page) else { return self.records(page) };
        for (i, block) in blocks.iter().enumerate() {
            if i > 0 {
                lines.push(String::new());
            }
            self.block_lines(block, page, &mut lines);
        }
        lines
    }

    /// The rows one after the other, with a line for each column.
    fn records(&self, page: ScreenPage) -> Vec<String> {
        let headings: Vec<_> = self.columns.iter().map(|column| page.text(&column.heading)).collect();
        let widest = headings.iter().map(|heading| heading.width()).max().unwrap_or(0);
        let mut lines = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            if i > 0 {
                lines.push(String::new());
            }
            match row {
                TextRow::Heading(name, text) => lines.extend(page.paragraph(&format!("{name}  "), text)),
                TextRow::Cells(cells) => {
                    for (heading, cell) in headings.iter().zip(cells).filter(|(_, cell)| !cell.text.is_empty()) {
                        let beside = widest - heading.width() + GAP;
                        let text = parted(&page.text(&cell.text), page.width.saturating_sub(widest + GAP));
                        lines.extend(page.paragraph(&format!("{heading}{:beside$}", ""), &text));
                    }
                }
            }
        }
        lines
    }

    /// Widths of the columns if nothing has to give way.
    fn natural_widths(&self, page: ScreenPage) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| page.text(&column.heading).width()).collect();
        for cells in self.cells() {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(page.text(&cell.text).width());
            }
        }
        widths
    }

    /// The widths with names parted wherever they can be, save those that then have a line of their
    /// own.
    fn narrow_names(&self, natural: &[usize], page: ScreenPage) -> Vec<usize> {
        let most = page.width * 2 / 5;
        let mut widths = natural.to_vec();
        for (c, column) in self.columns.iter().enumerate().filter(|(_, column)| column.kind == ColumnKind::Name) {
            let pieces = self.cells().flat_map(|cells| pieces(&cells[c].text)).map(UnicodeWidthStr::width);
            widths[c] = pieces.filter(|&width| width <= most).max().unwrap_or(0).max(column.heading.width());
        }
        widths
    }

    /// Returns 1 if a mark stands in the column, else 0: no gap follows the last column of a block to hold it.
    fn overhang(&self, column: usize) -> usize {
        usize::from(self.cells().any(|cells| cells[column].best))
    }

    fn width_of(&self, columns: &[usize], widths: &[usize]) -> usize {
        let gaps = GAP * columns.len().saturating_sub(1);
        let last = columns.last().map_or(0, |&column| self.overhang(column));
        columns.iter().map(|&c| widths[c]).sum::<usize>() + gaps + last
    }

    /// The columns of each block; none where texts would have next to no room.
    fn blocks(&self, page: ScreenPage) -> Option<Vec<ColumnBlock>> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let natural = self.natural_widths(page);
        let with =
            |columns: &[usize], widths: &[usize]| columns.iter().map(|&c| (c, widths[c])).collect::<ColumnBlock>();
        if self.width_of(&all, &natural) <= page.width {
            return Some(vec![with(&all, &natural)]);
        }
        let narrow = self.narrow_names(&natural, page);
        if self.columns.iter().any(|column| column.kind == ColumnKind::Text) {
            // Texts can be narrowed, so each group gets a block of its own.
            let groups = self.groups();
            let set = |columns: &Vec<usize>| Some(with(columns, &self.narrow_texts(columns, &narrow, page)?));
            return groups.iter().map(set).collect();
        }
        // Names are parted only where that saves a block, or where a line would be too long.
        let (whole, parted) = (self.partition(&natural, page), self.partition(&narrow, page));
        let costs = |blocks: &[Vec<usize>], widths: &[usize]| {
            (blocks.iter().any(|columns| self.width_of(columns, widths) > page.width), blocks.len())
        };
        let (columns, widths) =
            if costs(&parted, &narrow) < costs(&whole, &natural) { (parted, narrow) } else { (whole, natural) };
        Some(columns.iter().map(|columns| with(columns, &widths)).collect())
    }

    /// The columns of each group, after those that every block has.
    fn groups(&self) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = (0..self.columns.len()).filter(|&c| self.columns[c].key).collect();
        let mut groups = vec![keys.clone()];
        for (c, column) in self.columns.iter().enumerate().filter(|(_, column)| !column.key) {
            if column.begins_group && groups.last().is_some_and(|group| group.len() > keys.len()) {
                groups.push(keys.clone());
            }
            if let Some(group) = groups.last_mut() {
                group.push(c);
            }
        }
        groups
    }

    /// The widths with texts narrowed until the columns fit: the narrow ones keep theirs, the
    /// others share the rest, if that is enough.
    fn narrow_texts(&self, columns: &[usize], widths: &[usize], page: ScreenPage) -> Option<Vec<usize>> {
        let mut widths = widths.to_vec();
        if self.width_of(columns, &widths) > page.width {
            // Headings can be wrapped, the cells below them cannot.
            for &c in columns.iter().filter(|&&c| matches!(self.columns[c].kind, ColumnKind::Word | ColumnKind::Number))
            {
                let words = self.columns[c].heading.split(' ').map(|word| page.text(word).width());
                let cells = self.cells().map(|cells| page.text(&cells[c].text).width());
                widths[c] = words.chain(cells).max().unwrap_or(0);
            }
        }
        let mut texts: Vec<usize> =
            columns.iter().copied().filter(|&c| self.columns[c].kind == ColumnKind::Text).collect();
        texts.sort_by_key(|&c| (widths[c], c));
        let total = self.width_of(columns, &widths);
        let of_texts = texts.iter().map(|&c| widths[c]).sum::<usize>();
        let mut left = page.width.saturating_sub(total - of_texts);
        for (i, &c) in texts.iter().enumerate() {
            let share = left / (texts.len() - i);
            if widths[c] > share && share < LEAST_TEXT {
                return None;
            }
            widths[c] = widths[c].min(share);
            left -= widths[c];
        }
        (self.width_of(columns, &widths) <= page.width).then_some(widths)
    }

    /// The columns in as few blocks as they need, with as few groups parted as can be, and as even
    /// as can be.
    fn partition(&self, widths: &[usize], page: ScreenPage) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = (0..self.columns.len()).filter(|&c| self.columns[c].key).collect();
        let values: Vec<usize> = (0..self.columns.len()).filter(|&c| !self.columns[c].key).collect();
        let block = |from: usize, to: usize| [&keys[..], &values[from..to]].concat();
        // Dynamic programming over the first columns: the costs (blocks, parted groups, unevenness) and where the
        // last block begins.
        let mut best: Vec<((usize, usize, usize), usize)> = vec![((0, 0, 0), 0)];
        for to in 1..=values.len() {
            let ways = (0..to).filter_map(|from| {
                let width = self.width_of(&block(from, to), widths);
                // A column that is too wide by itself has no better place.
                if width > page.width && from + 1 < to {
                    return None;
                }
                let (blocks, parted, uneven) = best[from].0;
                let parts = from > 0 && !self.columns[values[from]].begins_group;
                let slack = page.width.saturating_sub(width);
                Some(((blocks + 1, parted + usize::from(parts), uneven + slack * slack), from))
            });
            best.push(ways.min().unwrap_or_default());
        }
        if values.is_empty() {
            return vec![keys];
        }
        let mut blocks = Vec::new();
        let mut to = values.len();
        while to > 0 {
            let from = best[to].1;
            blocks.push(block(from, to));
            to = from;
        }
        blocks.reverse();
        blocks
    }

    fn block_lines(&self, block: &ColumnBlock, page: ScreenPage, lines: &mut Vec<String>) {
        if self.columns.iter().any(|column| !column.heading.is_empty()) {
            let headings: Vec<Vec<String>> = block
                .iter()
                .map(|&(c, width)| self.parts(c, &page.text(&self.columns[c].heading), width, true))
                .collect();
            let styles = vec![(HEADING, false); block.len()];
            self.set(block, &headings, &styles, lines);
        }
        for row in &self.rows {
            match row {
                TextRow::Heading(name, text) => {
                    let paragraph = page.paragraph(&format!("{name}  "), text);
                    let name = page.text(name);
                    lines.extend(paragraph.iter().enumerate().map(|(i, line)| match line.strip_prefix(&*name) {
                        Some(rest) if i == 0 => format!("{HEADING}{name}{HEADING:#}{rest}"),
                        _ => line.clone(),
                    }));
                }
                TextRow::Cells(cells) => {
                    let parts: Vec<Vec<String>> = block
                        .iter()
                        .map(|&(c, width)| self.parts(c, &page.text(&cells[c].text), width, false))
                        .collect();
                    let styles: Vec<_> = block
                        .iter()
                        .map(|&(c, _)| (if cells[c].best { GOOD } else { cells[c].style }, cells[c].best))
                        .collect();
                    self.set(block, &parts, &styles, lines);
                }
            }
        }
    }

    /// A cell's or a heading's lines.
    fn parts(&self, column: usize, text: &str, width: usize, heading: bool) -> Vec<String> {
        match self.columns[column].kind {
            _ if text.width() <= width => vec![text.to_owned()],
            ColumnKind::Name => {
                let mut lines = vec![String::new()];
                for piece in pieces(text) {
                    match lines.last_mut() {
                        Some(line) if line.is_empty() || line.width() + piece.width() <= width => line.push_str(piece),
                        _ => lines.push(piece.to_owned()),
                    }
                }
                lines
            }
            // An indented text stays so.
            ColumnKind::Text => {
                let indent = text.len() - text.trim_start().len();
                let width = width.saturating_sub(indent).max(1);
                let lines = screen::wrap(&parted(text, width), width);
                lines.into_iter().map(|line| format!("{:indent$}{line}", "")).collect()
            }
            ColumnKind::Word | ColumnKind::Number if heading => screen::wrap(text, width),
            ColumnKind::Word | ColumnKind::Number => vec![text.to_owned()],
        }
    }

    /// Sets the lines of a row's cells beside each other.
    fn set(&self, block: &ColumnBlock, cells: &[Vec<String>], styles: &[(Style, bool)], lines: &mut Vec<String>) {
        // A name that is too wide even so has lines of its own before the row.
        let too_wide = |(lines, &(c, width)): (&Vec<String>, &(usize, usize))| {
            self.columns[c].kind == ColumnKind::Name && lines.iter().any(|line| line.width() > width)
        };
        let above: Vec<bool> = cells.iter().zip(block).map(too_wide).collect();
        for (cell, _) in cells.iter().zip(&above).filter(|(_, above)| **above) {
            lines.extend(cell.iter().cloned());
        }
        let height = cells.iter().zip(&above).filter(|(_, above)| !**above).map(|(cell, _)| cell.len()).max();
        for i in 0..height.unwrap_or(0) {
            let mut line = String::new();
            let mut blanks = 0;
            for (j, (cell, &(c, width))) in cells.iter().zip(block).enumerate() {
                let text = if above[j] { "" } else { cell.get(i).map_or("", String::as_str) };
                let (style, best) = styles[j];
                let beside = width.saturating_sub(text.width());
                let number = self.columns[c].kind == ColumnKind::Number;
                blanks += if number { beside } else { 0 };
                if !text.is_empty() {
                    let mark = if best && i == 0 { BEST.to_string() } else { String::new() };
                    let _ = write!(line, "{:blanks$}{style}{text}{mark}{style:#}", "");
                    blanks = 0;
                }
                // A mark takes one column of the gap.
                let gap = GAP - usize::from(best && i == 0 && !text.is_empty());
                blanks += gap + if number { 0 } else { beside };
            }
            lines.push(line);
        }
    }
}

/// The pieces into which a policy's name is parted: behind each `+`, and before each `:`.
fn pieces(name: &str) -> impl Iterator<Item = &str> {
    name.split_inclusive('+').flat_map(|part| {
        let starts = std::iter::once(0).chain(part.match_indices(':').map(|(at, _)| at).filter(|&at| at > 0));
        let ends = part.match_indices(':').map(|(at, _)| at).filter(|&at| at > 0).chain([part.len()]);
        starts.zip(ends).map(|(start, end)| &part[start..end])
    })
}

/// The text with blanks in words that are wider than a line.
fn parted(text: &str, width: usize) -> String {
    text.split(' ').map(|word| breakable(word, width)).collect::<Vec<_>>().join(" ")
}

/// A word with blanks where it is parted if it is wider than a line: as a policy's name, else
/// behind marks, else anywhere.
fn breakable(word: &str, width: usize) -> String {
    if word.width() <= width {
        return word.to_owned();
    }
    let mut lines = String::new();
    let mut columns = 0;
    let as_name: Vec<&str> = pieces(word).collect();
    let parts: Vec<&str> = if as_name.iter().all(|piece| piece.width() <= width) {
        as_name
    } else {
        word.split_inclusive([',', '/', '|', ':', '+', '=', '_', '-', '.', '(']).collect()
    };
    for piece in parts {
        if columns > 0 && columns + piece.width() > width {
            lines.push(' ');
            columns = 0;
        }
        for c in piece.chars() {
            let wide = c.to_string().width();
            if columns + wide > width && columns > 0 {
                lines.push(' ');
                columns = 0;
            }
            lines.push(c);
            columns += wide;
        }
    }
    lines
}

#[cfg(test)]
mod tests;
