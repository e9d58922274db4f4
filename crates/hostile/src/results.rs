//! Results from a file, as a report.

use destage_report::{PAGE, RunsReport};

/// Reads results and reports on them: whatever they say stays text, and all tables are tables.
pub(crate) fn check(bytes: &[u8]) {
    let runs = match destage_report::read("file.json", bytes) {
        Ok(runs) => runs,
        Err(error) => {
            assert!(error.to_string().starts_with("file.json"), "{error}");
            return;
        }
    };
    let report = RunsReport::new(runs);
    for table in report.tables() {
        let rows = table.columns.first().map_or(0, |column| column.cells.len());
        assert!(table.columns.iter().all(|column| column.cells.len() == rows), "{}", table.name);
    }
    let files = report.files().expect("a table that cannot be written");
    let page = files.iter().find(|(name, _)| name == PAGE).map(|(_, page)| std::str::from_utf8(page));
    let page = page.expect("a report without its page").expect("a page that is not UTF-8");
    let rest = page.split("<script").skip(1);
    // The page's data, the library, the two scripts that draw, and the page's own: one more would be text that
    // became a script.
    assert_eq!(rest.count(), 5, "text became a script");
    let again = files.iter().find(|(name, _)| name == "results.json").expect("a report without its results");
    let runs = destage_report::read("results.json", &again.1).expect("results that cannot be read again");
    // A report of the results that a report wrote must be the same page, or pages could not be compared.
    assert!(RunsReport::new(runs).page() == page, "the same results give another page");
}
