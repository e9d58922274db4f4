//! Names as people write them: with capitals, underscores or nothing where there is a hyphen, and
//! misspelt.

/// Changes that a name may need to be taken for another one in a suggestion.
const CLOSE: usize = 3;

/// Returns true if two names have the same letters and digits. Hyphens, underscores and case do not count.
pub fn is_alike(one: &str, other: &str) -> bool {
    let letters = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
    };
    // Most names are written exactly, so the comparison without allocation comes first.
    one == other || letters(one) == letters(other)
}

/// The one of `known` that is called so: by its very name, or else by one [like](is_alike) it, if
/// only one is.
pub fn called<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut alike = known.filter(|other| is_alike(name, other));
    let first = alike.next()?;
    let mut others = alike.filter(|&other| other != first).peekable();
    if first == name || others.peek().is_none() { Some(first) } else { others.find(|&other| other == name) }
}

/// The one of `known` that is nearest to a name that is none of them, if it is near: at most three
/// letters, and fewer than half of the name's, have to be changed.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let small = name.to_ascii_lowercase();
    // A short name is near to almost anything: fewer than half of the letters may change.
    let most = CLOSE.min(name.chars().count().saturating_sub(1) / 2);
    known.map(|other| (distance(other, &small), other)).min().filter(|&(d, _)| d <= most).map(|(_, other)| other)
}

/// Counts the changes of letters that make one name of the other: one changed, added, removed or exchanged with the next
/// (the optimal string alignment distance).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Names are short and compared only after a slip, so the whole table is kept for the sake of simplicity.
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let exchanged = if exchanged { rows[i - 2][j - 2] + 1 } else { changed };
            row.push(changed.min(exchanged).min(rows[i - 1][j] + 1).min(row[j - 1] + 1));
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["lru", "lru-wsr", "lb-clock", "clock"];

    #[test]
    fn names_are_understood_as_people_write_them() {
        let called = |name| called(name, NAMES.into_iter());
        for name in ["lb-clock", "lbclock", "LB_Clock", "lb_clock", "-lb-clock"] {
            assert_eq!(called(name), Some("lb-clock"));
        }
        assert_eq!((called("LRU"), called("lruwsr"), called("lbclok")), (Some("lru"), Some("lru-wsr"), None));
        let ambiguous = ["a-b", "ab"];
        assert_eq!(super::called("a_b", ambiguous.into_iter()), None);
        assert_eq!(super::called("ab", ambiguous.into_iter()), Some("ab"));
        assert_eq!(super::called("a-b", ambiguous.into_iter()), Some("a-b"));
    }

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let nearest = |name| nearest(name, NAMES.into_iter());
        assert_eq!(
            (nearest("clok"), nearest("lruwsr"), nearest("LB-Clok")),
            (Some("clock"), Some("lru-wsr"), Some("lb-clock"))
        );
        assert_eq!((nearest("x"), nearest("lirs"), nearest("arc-2q")), (None, None, None));
    }

    #[test]
    fn letters_to_change() {
        assert_eq!(distance("policy", "policies"), 3);
        assert_eq!(distance("cache", "cache"), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!((distance("lur", "lru"), distance("mrs", "msr")), (1, 1));
    }
}
