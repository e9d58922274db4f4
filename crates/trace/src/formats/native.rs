//! destage's own format ([`crate::native`], docs/trace-format.md) among the others.

use crate::error::TraceError;
use crate::format::{Finding, Format, FormatInfo, Opening, Sign};
use crate::native::{NATIVE_MAGIC, NativeReader, held};
use crate::source::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Native;

impl Format for Native {
    const INFO: FormatInfo = FormatInfo {
        name: "native",
        aliases: &["destage"],
        what: "destage's own compact format, binary",
        columns: "see docs/trace-format.md",
        options: &[],
        finding: Finding::Certain,
    };

    const SIGN: Sign = Sign::Mark(|head, _| head.starts_with(&NATIVE_MAGIC).then(|| held(head)));

    fn plain() -> Option<Self> {
        Some(Self)
    }

    fn open(&self, opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
        let file = opening.input.file().to_owned();
        // A file can be looked at from its end, a stream cannot.
        Ok(Box::new(match opening.seekable {
            Some(path) => NativeReader::open_file(path)?,
            None => NativeReader::open(&file, Box::new(opening.input))?,
        }))
    }
}
