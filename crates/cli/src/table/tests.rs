use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Describes a terminal of the usual width.
const PAGE: ScreenPage = ScreenPage { width: 80, utf8: true };

/// The lines as they are seen.
fn seen(table: &TextTable, page: ScreenPage) -> Vec<String> {
    table.lines(page).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
}

fn numbers(columns: usize) -> TextTable {
    let figures = (0..columns).map(|i| TextColumn::number(&format!("figure {i:02}")));
    TextTable::new([TextColumn::name("policy")].into_iter().chain(figures))
}

#[test]
fn columns_without_room_follow_in_as_few_blocks_as_can_be() {
    let mut table = numbers(11);
    table.add(std::iter::once("lru".to_owned()).chain((0..11).map(|i| i.to_string())));
    // 6 for the name, 11 for each figure: six figures in a line of 72, seven in one of 83.
    let lines = seen(&table, PAGE);
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!(lines[2], "");
    assert!(lines[0].starts_with("policy  figure 00") && lines[3].starts_with("policy  figure "));
    assert!(lines.iter().all(|line| line.width() <= 80));
    assert_eq!(seen(&table, ScreenPage { width: 127, ..PAGE }).len(), 2);
}

#[test]
fn groups_stay_together() {
    let mut table = TextTable::new(
        [TextColumn::name("policy")].into_iter().chain(
            (0..9)
                .map(|i| TextColumn::number(&format!("figure {i:02}")))
                .map(|c| if c.heading.ends_with("03") { c.group() } else { c }),
        ),
    );
    table.add(std::iter::once("lru".to_owned()).chain((0..9).map(|i| i.to_string())));
    let lines = seen(&table, PAGE);
    assert_eq!(lines[0], "policy  figure 00  figure 01  figure 02");
    assert!(lines[3].starts_with("policy  figure 03") && lines[3].ends_with("figure 08"));
}

#[test]
fn names_are_parted_or_have_their_own_line_and_are_never_cut() {
    let name = "gcar+cave+bplru:padding=never:compensation=off:a_very_long_parameter_by_name=a_long_value";
    let mut table = numbers(5);
    table.add([name, "1", "2", "3", "4", "5"]);
    table.add(["lru", "1", "2", "3", "4", "5"]);
    let lines = seen(&table, PAGE);
    assert!(lines.iter().all(|line| line.width() <= 80), "{lines:#?}");
    let names: String = lines.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(names, format!("policy{name}lru"));
    let mut table = numbers(4);
    table.add(["gcar+lb-clock:insert_anchor=current_hand", "1", "2", "3", "4"]);
    let lines = seen(&table, PAGE);
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["gcar+lb-clock", "1", "2", "3", "4"]);
    assert_eq!(lines[2], ":insert_anchor=current_hand");
}

#[test]
fn texts_share_what_the_others_leave() {
    let mut table = TextTable::new([TextColumn::name("what"), TextColumn::text("about"), TextColumn::text("paper")]);
    let long = "many words that say what it is ".repeat(6);
    table.add(["lru", long.trim(), "a paper"]);
    let lines = seen(&table, PAGE);
    assert!(lines.iter().all(|line| line.width() <= 80), "{lines:#?}");
    assert!(lines[1].ends_with("  a paper") && lines.len() > 3);
    let words: Vec<&str> = lines.iter().skip(1).flat_map(|line| line.split_whitespace()).collect();
    // "lru", "a", "paper", and six times seven words.
    assert_eq!(words.len(), 3 + 6 * 7);
}

proptest! {
    /// Whatever the columns: no line is too wide, and every cell's characters are all there (those
    /// of headings and names more than once, since each block of columns has them).
    #[test]
    fn everything_is_shown_and_fits(
        kinds in vec(0..3_u8, 0..20),
        cells in vec(vec("[a-z0-9,]{1,12}( [a-z0-9=]{1,30}){0,9}", 20), 1..6),
        names in vec("[a-z-]{1,13}(\\+[a-z-]{1,13}){0,2}(:[a-z_]{1,12}=[a-z_]{1,15}){0,3}", 6),
        width in 80..160_usize,
    ) {
        let columns = kinds.iter().enumerate().map(|(i, kind)| match kind {
            0 => TextColumn::text("text"),
            1 if i % 4 == 1 => TextColumn::number("number").group(),
            1 => TextColumn::number("number"),
            _ => TextColumn::word("word"),
        });
        let mut table = TextTable::new([TextColumn::name("policy")].into_iter().chain(columns));
        // Only texts are long.
        let text = |kind: u8, cell: &str| if kind == 0 { cell.to_owned() } else { cell.chars().take(12).collect::<String>().trim().to_owned() };
        for (cells, name) in cells.iter().zip(&names) {
            let cells = kinds.iter().zip(cells).map(|(&kind, cell)| text(kind, cell));
            table.add([name.clone()].into_iter().chain(cells));
        }
        let lines = seen(&table, ScreenPage { width, utf8: true });
        for line in &lines {
            prop_assert!(line.width() <= width && line.trim_end() == line, "{line:?} in {lines:#?}");
        }
        let count = |text: &mut dyn Iterator<Item = char>| {
            let mut counts = [0_usize; 128];
            text.filter(|c| !c.is_whitespace()).for_each(|c| counts[c as usize & 127] += 1);
            counts
        };
        let shown = count(&mut lines.iter().flat_map(|line| line.chars()));
        let given = count(&mut table.cells().flatten().flat_map(|cell| cell.text.chars()));
        prop_assert!(given.iter().zip(&shown).all(|(given, shown)| given <= shown), "{lines:#?}");
    }
}

#[test]
fn many_texts_have_a_line_each() {
    let mut table = TextTable::new(["one", "two", "three", "four", "five"].map(TextColumn::text));
    let long = "twenty letters long, ".repeat(2);
    table.add([long.trim(); 5]);
    table.add(["a", "b", "c", "", "e"]);
    let lines = seen(&table, ScreenPage { width: 20, utf8: true });
    assert_eq!(lines[..3], ["one    twenty", "       letters long,", "       twenty"]);
    assert_eq!(lines[lines.len() - 5..], ["", "one    a", "two    b", "three  c", "five   e"]);
}

#[test]
fn the_best_are_marked_in_the_gap() {
    let mut table =
        TextTable::new([TextColumn::name("policy"), TextColumn::number("hit %"), TextColumn::number("mean")]);
    for (policy, hit, mean) in [("lru", "10.00", "5 ms"), ("fab", "12.00", "5 ms"), ("none", "-", "9 ms")] {
        table.add([policy, hit, mean]);
    }
    assert!(table.mark_best("hit %", &[(0, Some(-0.1)), (0, Some(-0.12)), (0, None)]));
    assert!(table.mark_best("mean", &[(0, Some(5.1)), (0, Some(5.0)), (0, Some(9.0))]));
    let lines = seen(&table, PAGE);
    assert_eq!(lines, ["policy  hit %  mean", "lru     10.00  5 ms*", "fab     12.00* 5 ms*", "none        -  9 ms"]);
    assert!(table.lines(PAGE)[2].contains(&format!("{GOOD}12.00*{GOOD:#}")));
    // One alone, and two that are alike, are not the best of anything.
    assert!(!table.mark_best("mean", &[(0, Some(5.1)), (0, Some(5.0)), (1, Some(9.0))]));
}

#[test]
fn without_utf_8_there_is_only_ascii() {
    let mut table = TextTable::new([TextColumn::name("range"), TextColumn::number("mean")]);
    table.add(["1\u{2013}4", "3.2 µs"]);
    assert_eq!(seen(&table, ScreenPage { width: 80, utf8: false }), ["range    mean", "1-4    3.2 us"]);
}
