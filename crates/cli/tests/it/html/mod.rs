//! Checks what holds of every page that destage writes.

use std::borrow::Cow;

use scraper::{ElementRef, Html, Selector};

/// All elements that a selector finds.
pub fn all<'a>(html: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    html.select(&Selector::parse(selector).unwrap()).collect()
}

/// The page is small, well-formed, loads nothing from anywhere, and runs its own three scripts
/// only.
pub fn inert(page: &str) {
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    let html = Html::parse_document(page);
    assert_eq!(html.errors, Vec::<Cow<str>>::new());
    assert!(all(&html, "[src], iframe, object, embed, base, img, [onload], [onerror], [onclick]").is_empty());
    for link in all(&html, "[href]") {
        let to = link.attr("href").unwrap();
        assert!(to.starts_with('#') || to == "data:,", "{to}");
    }
    let style: String = all(&html, "style").iter().flat_map(ElementRef::text).collect();
    assert!(!style.contains("url(") && !style.contains("@import"));
    // The library names the namespaces of SVG and XML, which are no addresses to load from.
    let scripts = all(&html, "script:not([type])");
    assert_eq!(scripts.len(), 3);
    let library: String = scripts[0].text().collect();
    let foreign: Vec<_> = library.match_indices("http").map(|(at, _)| &library[at..at + 18]).collect();
    assert!(foreign.iter().all(|address| *address == "http://www.w3.org/"), "{foreign:?}");
    assert!(!library.contains("eval(") && !library.contains("new Function"));
    let rest = page.replace(&library, "");
    // SVG's namespace, and how ECharts is told of a symbol's outline.
    let rest = rest.replace("http://www.w3.org/2000/svg", "").replace("`path://${symbol}`", "");
    assert!(!rest.contains("://"));
    let policy = all(&html, "meta[http-equiv='Content-Security-Policy']")[0].attr("content").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("http"), "{policy}");
}
