//! Names of files as text, any of them.
//!
//! Settings are text, as scenario files and JSON are, and names of files are bytes: a byte that is not part of UTF-8 is
//! written `\xHH`, with its two hexadecimal digits. A name in which these four characters stand as they are has its
//! backslash written so, `\x5c`. All other names are their own text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The text of a name.
pub fn of(name: impl AsRef<OsStr>) -> String {
    let mut text = String::new();
    for chunk in name.as_ref().as_bytes().utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((before, digits)) = rest.split_once(r"\x") {
            text.push_str(before);
            // Only a backslash that would be read back as an escape is escaped, so all other names stay their
            // own text.
            text.push_str(if byte(digits.as_bytes()).is_some() { r"\x5cx" } else { r"\x" });
            rest = digits;
        }
        text.push_str(rest);
        for byte in chunk.invalid() {
            text.push_str(r"\x");
            text.extend([byte >> 4, byte & 0xf].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
        }
    }
    text
}

/// The name that has this text.
pub fn name(text: &str) -> OsString {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if let Some(byte) = after.strip_prefix(b"x").and_then(byte).filter(|_| first == b'\\') {
            name.push(byte);
            rest = &after[3..];
        } else {
            name.push(first);
            rest = after;
        }
    }
    OsString::from_vec(name)
}

/// The file whose name has this text.
pub fn path(text: &str) -> PathBuf {
    name(text).into()
}

/// The byte that the first two hexadecimal digits of `text` stand for, if it begins with two.
fn byte(text: &[u8]) -> Option<u8> {
    // `from_str_radix` takes a sign, which no escape has.
    let digits = std::str::from_utf8(text.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_utf_8_is_written_in_hexadecimal() {
        for (bytes, text) in [
            (&b"mail.spc"[..], "mail.spc"),
            (b"caf\xc3\xa9.spc", "café.spc"),
            (b"caf\xe9.spc", r"caf\xe9.spc"),
            (b"\xff\xfe", r"\xff\xfe"),
            (br"a\b", r"a\b"),
            (br"a\xyz", r"a\xyz"),
            (br"a\x4", r"a\x4"),
            (br"a\x+4", r"a\x+4"),
            (br"a\x41", r"a\x5cx41"),
            (br"a\x41\xFF", r"a\x5cx41\x5cxFF"),
            (br"a\x5cx41", r"a\x5cx5cx41"),
            (b"a\\x4\xe9", r"a\x4\xe9"),
            (b"a\\\xe9", r"a\\xe9"),
            (b"", ""),
        ] {
            assert_eq!(of(OsStr::from_bytes(bytes)), text);
            assert_eq!(name(text).as_bytes(), bytes, "{text}");
        }
        assert_eq!(name(r"caf\xE9").as_bytes(), b"caf\xe9");
        assert_eq!(name(r"\x63afe"), "cafe");
    }

    proptest! {
        /// Names of the characters that matter, and any bytes.
        #[test]
        fn every_name_has_a_text_that_leads_back_to_it(
            bytes in prop_oneof![
                prop::collection::vec(prop::sample::select(b"\\x4cfF+\xe9\xc3\xa9".as_slice()), 0..12),
                prop::collection::vec(any::<u8>(), 0..24),
            ],
        ) {
            let text = of(OsStr::from_bytes(&bytes));
            let back = name(&text);
            prop_assert_eq!(back.as_bytes(), &bytes);
            // A text that has nothing to escape is the name itself.
            if text.as_bytes() != bytes {
                prop_assert!(text.contains(r"\x"));
            }
        }
    }
}
