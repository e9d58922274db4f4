//! The frame of every page: one HTML file that loads nothing and in which only its own scripts run.

use crate::escape::escaped;
use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

const LIBRARY: &str = include_str!("../../vendor/echarts.min.js");
const DRAWING: &str = include_str!("drawing.js");
const STYLE: &str = include_str!("style.css");

/// A page with charts, to be filled.
///
/// In a script's charts `drawing` is what drawing.js makes: colours, marks, numbers, and the
/// drawing again when colours, width or paper change. Whatever comes from results belongs into
/// `body` escaped (see [`escaped`]) and into `data`, which the script reads, never into `script`.
#[derive(Clone, Debug)]
pub struct PageDocument {
    /// Names the kind of page, before its title.
    pub kind: &'static str,
    /// Holds the title, as text.
    pub title: String,
    /// Holds the content, as HTML.
    pub body: String,
    /// Names the program and the files beside the page, as HTML.
    pub footer: String,
    /// Holds the data of the script, by the id of its element.
    pub data: Vec<(&'static str, Value)>,
    /// Draws the charts.
    pub script: &'static str,
    /// Rules that this page has beside those of all.
    pub style: &'static str,
}

impl PageDocument {
    /// The page.
    pub fn html(&self) -> String {
        let Self { kind, title, body, footer, data, script, style } = self;
        let title = escaped(title);
        let mut html = String::with_capacity(LIBRARY.len() * 2);
        let _ = write!(
            html,
            "<!DOCTYPE html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>destage: {title}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <header><p class=\"name\">{kind}</p><h1>{title}</h1>\n\
             <button type=\"button\" id=\"theme\" hidden>Dark</button></header>\n<main id=\"main\">\n\
             <noscript><p>The charts need JavaScript; text and tables do not.</p></noscript>\n\
             <p id=\"failure\" role=\"alert\" hidden></p>\n{body}</main>\n<footer><p>{footer} Charts: Apache ECharts \
             (Apache-2.0), zrender (BSD-3-Clause).</p></footer>\n",
            escaped(&policy(script)),
        );
        for (id, value) in data {
            let _ = writeln!(html, "<script type=\"application/json\" id=\"{id}\">{}</script>", script_safe(value));
        }
        let _ = write!(
            html,
            "<script>{LIBRARY}</script>\n<script>{DRAWING}</script>\n<script>{script}</script>\n</body>\n</html>\n"
        );
        html
    }
}

/// Returns the hash of a script for the page's content security policy.
fn hash(script: &str) -> String {
    format!(" 'sha256-{}'", STANDARD.encode(Sha256::digest(script.as_bytes())))
}

/// The policy in which only the page's scripts run, and nothing is loaded from anywhere.
fn policy(script: &str) -> String {
    // What is the same in all pages, and long.
    static COMMON: LazyLock<String> = LazyLock::new(|| hash(LIBRARY) + &hash(DRAWING));
    format!(
        "default-src 'none'; script-src{}{}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        *COMMON,
        hash(script)
    )
}

/// A policy's name as HTML, which may be broken between its parts.
pub fn breakable(label: &str) -> String {
    escaped(label).replace(':', ":<wbr>").replace('+', "+<wbr>")
}

/// JSON that can stand in a script element.
fn script_safe(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
