//! Text in pages.

/// Text as HTML, in an element or in a quoted attribute.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // No character of HTML, and of no meaning in a name.
            c if c.is_control() && c != '\n' && c != '\t' => html.push(char::REPLACEMENT_CHARACTER),
            c => html.push(c),
        }
    }
    html
}
