//! destage's own format ([`crate::native`], docs/trace-format.md) among the others.

use destage_plan::{Nanos, Op, Request};

use crate::error::TraceError;
use crate::format::{FormatFinding, FormatInfo, FormatSample, FormatSign, TraceFormat, TraceOpening, scattered};
use crate::native::{NATIVE_MAGIC, NativeReader, NativeWriter, held, pieces};
use crate::source::TraceSource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Native;

impl TraceFormat for Native {
    const INFO: FormatInfo = FormatInfo {
        name: "native",
        aliases: &["destage"],
        what: "destage's own compact format, binary",
        columns: "see docs/trace-format.md",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::records("", &[8, 2, 2, 4, 4, 8, 4], sample)],
    };

    const SIGN: FormatSign = FormatSign::Mark(|head, _| head.starts_with(&NATIVE_MAGIC).then(|| held(head)));

    fn plain() -> Option<Self> {
        Some(Self)
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let file = opening.input.file().to_owned();
        // A file can be looked at from its end, a stream cannot.
        Ok(Box::new(match opening.seekable {
            Some(path) => NativeReader::open_file(path)?,
            None => NativeReader::open(&file, Box::new(opening.input))?,
        }))
    }
}

/// The header, and the records that hold `n` requests.
fn sample(n: u64) -> Vec<Vec<u8>> {
    let request = |n: u64| Request {
        time: Nanos(n * 700_000),
        offset: scattered(n) * 4096,
        len: 4096,
        volume: 0,
        op: [Op::Read, Op::Write][n as usize % 2],
        fua: false,
    };
    let requests: Vec<Request> = (0..n).map(request).collect();
    let written = NativeWriter::new(Vec::new()).and_then(|mut writer| {
        writer.write(&requests)?;
        writer.finish()
    });
    pieces(&written.expect("memory takes it"))
}
