//! Advice at the head of a page: what is advised, what that rests on, and what each size does.

use std::fmt::Write as _;

use crate::escape::escaped;

/// Holds advice for a page, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageAdvice {
    /// Gives the answer, in a line.
    pub headline: String,
    /// Tells what it is for and what it rests on: names with a sentence each.
    pub facts: Vec<(String, String)>,
    /// Names what stands above the columns of the sizes.
    pub columns: Vec<String>,
    /// Lists a row for each size, and whether it is the advised one.
    pub sizes: Vec<(Vec<String>, bool)>,
    /// Policies that the charts show at first.
    pub contenders: Vec<String>,
}

impl PageAdvice {
    /// Writes the section.
    pub(super) fn section(&self, html: &mut String) {
        let _ = writeln!(
            html,
            "<section class=\"advice\" aria-labelledby=\"advice\">\n<h2 id=\"advice\">Advice</h2>\n<p class=\"big\">{}</p>\n<dl>",
            escaped(&self.headline)
        );
        for (name, text) in &self.facts {
            let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(text));
        }
        html.push_str(
            "</dl>\n<h3 id=\"sizes\">The best at each size</h3>\n<div class=\"scroll\" role=\"region\" aria-labelledby=\"sizes\" \
             tabindex=\"0\"><table class=\"sizes\"><thead><tr>",
        );
        for column in &self.columns {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(column));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (cells, is_advised) in &self.sizes {
            html.push_str(if *is_advised { "<tr class=\"advised\">" } else { "<tr>" });
            for (column, cell) in cells.iter().enumerate() {
                let cell = escaped(cell);
                let _ = match column {
                    0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                    _ => write!(html, "<td>{cell}</td>"),
                };
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n</section>\n");
    }
}
