//! The Markdown of papers' files as HTML.

use pulldown_cmark::{Event, Parser, html::push_html};

/// The text as HTML; HTML within it is text.
pub(super) fn html(text: &str) -> String {
    let events = Parser::new(text).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        event => event,
    });
    let mut html = String::new();
    push_html(&mut html, events);
    html
}
