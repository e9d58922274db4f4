//! The options behind a format's name on the command line, `NAME:key=value,...`, whether it is read
//! or written.

use std::fmt;

/// Why a text does not name a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(String);

impl FormatError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

/// A format's name, and the options behind it if there are any.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, options)) => (name, Some(options)),
        None => (text, None),
    }
}

/// The options of a format, taken one by one.
pub(crate) struct FormatOptions<'a> {
    format: &'static str,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> FormatOptions<'a> {
    pub(crate) fn parse(format: &'static str, text: Option<&'a str>) -> Result<Self, FormatError> {
        let mut left: Vec<(&str, &str)> = Vec::new();
        for option in text.into_iter().flat_map(|t| t.split(',')) {
            let wrong = |what: String| FormatError::new(format!("format {format}: {what}"));
            let (key, value) = option
                .split_once('=')
                .ok_or_else(|| wrong(format!("\"{}\" is not key=value", option.escape_debug())))?;
            if left.iter().any(|(k, _)| *k == key) {
                return Err(wrong(format!("{} is given twice", key.escape_debug())));
            }
            left.push((key, value));
        }
        Ok(Self { format, left })
    }

    /// The value of `key`, if it is given.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|(k, _)| *k == key)?;
        Some(self.left.remove(at).1)
    }

    /// The value of `key` out of `choices`, `default` if it is not given.
    pub(crate) fn choose<T: Copy>(&mut self, key: &str, default: T, choices: &[(&str, T)]) -> Result<T, FormatError> {
        let Some(text) = self.take(key) else { return Ok(default) };
        choices.iter().find(|(word, _)| *word == text).map(|&(_, value)| value).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong(key, text, &words.join(" or "))
        })
    }

    /// The number of bytes that `key` gives.
    pub(crate) fn bytes(&mut self, key: &str) -> Result<Option<u32>, FormatError> {
        let Some(text) = self.take(key) else { return Ok(None) };
        match text.parse() {
            Ok(n @ 1..) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(n)),
            _ => Err(self.wrong(key, text, "a number of bytes between 1 and 4294967295")),
        }
    }

    pub(crate) fn wrong(&self, key: &str, value: &str, expected: &str) -> FormatError {
        let (format, value) = (self.format, value.escape_debug());
        FormatError::new(format!("format {format}: {key} is \"{value}\", expected {expected}"))
    }

    /// Nothing may be left; `known` are the options that there are.
    pub(crate) fn finish<'b>(self, known: impl IntoIterator<Item = &'b str>) -> Result<(), FormatError> {
        let Some((key, _)) = self.left.first() else { return Ok(()) };
        let known: Vec<&str> = known.into_iter().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join("; ") };
        let (format, key) = (self.format, key.escape_debug());
        Err(FormatError::new(format!("format {format} has no option \"{key}\"; it has {known}")))
    }
}
