//! The bytes of a trace: a file or standard input, with its compression undone.
//!
//! Compression is known by its magic bytes, never by the file's name: gzip (several members follow
//! one another), Zstandard (several frames), xz (several streams), bzip2 (several streams), LZ4
//! (several frames) and zip (several files). Data cut short and anything else that follows the last
//! member are errors. UTF-16 that says so is read as UTF-8.

mod lz4;
mod utf16;
mod zip;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use utf16::looks_unmarked;

use crate::error::{FilePlace, TraceError};

/// Compressed bytes read at once.
const COMPRESSED_CHUNK: usize = 128 * 1024;
/// Memory that an xz file may ask for, in KiB: dictionaries up to 128 MiB, as Zstandard's own
/// limit.
const XZ_MEMORY_KIB: u32 = 192 * 1024;
/// Longest magic below.
const MAGIC_BYTES: usize = 10;

/// Names the compression of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceCompression {
    /// Not at all.
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// The .xz format.
    Xz,
    /// bzip2.
    Bzip2,
    /// Means LZ4's frames.
    Lz4,
    /// Means a zip archive.
    Zip,
}

impl TraceCompression {
    /// Returns the word for tables: `none`, `gzip`, `zstd`, `xz`, `bzip2`, `lz4` or `zip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
            Self::Zip => "zip",
        }
    }

    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            // A Zstandard frame, or a skippable one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            // The block's magic (pi), or that of an empty stream's end (the square root of pi).
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Self::Bzip2,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            // The header of a file, or the end of an archive without any.
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Self::Zip,
            _ => Self::None,
        }
    }
}

impl fmt::Display for TraceCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Counts the bytes of the file that have been read, shared between the reader at the bottom and whoever
/// shows progress.
#[derive(Debug)]
pub(crate) struct ByteMeter {
    /// Of each file.
    taken: Vec<Arc<AtomicU64>>,
    size: Option<u64>,
}

impl ByteMeter {
    /// The meter of several files together.
    pub(crate) fn sum(meters: Vec<Self>) -> Self {
        let size = meters.iter().try_fold(0_u64, |sum, meter| sum.checked_add(meter.size?));
        Self { taken: meters.into_iter().flat_map(|meter| meter.taken).collect(), size }
    }

    /// Bytes of the file, if they are known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Share of the file read, 0 to 1.
    pub(crate) fn share(&self) -> Option<f64> {
        let size = self.size.filter(|&s| s > 0)?;
        let taken: u64 = self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum();
        Some((taken as f64 / size as f64).min(1.0))
    }
}

/// Counts the bytes that pass. A read that was interrupted is tried again here: a decompressor need not bear being asked
/// once more after an error.
struct MeteredReader<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for MeteredReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let n = read?;
                    self.taken.fetch_add(n as u64, Ordering::Relaxed);
                    return Ok(n);
                }
            }
        }
    }
}

/// The decompressed bytes of a trace. A beginning of it can be looked at before it is read.
pub(crate) struct TraceInput {
    reader: Box<dyn Read + Send>,
    file: PathBuf,
    compression: TraceCompression,
    /// The beginning that was looked at, and how much of it has been read.
    head: Vec<u8>,
    head_at: usize,
    /// Decompressed bytes taken out of `reader`.
    at: u64,
    ended: bool,
}

impl TraceInput {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<(Self, ByteMeter), TraceError> {
        if path == Path::new("-") {
            return Self::new(Path::new("standard input"), Box::new(io::stdin()), None);
        }
        let failed = |e| TraceError::io(path, FilePlace::File, "cannot be opened", e);
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Err(TraceError::new(path, FilePlace::File, "is a directory, expected a trace file"));
        }
        let size = meta.is_file().then_some(meta.len());
        Self::new(path, Box::new(file), size)
    }

    /// Undoes the compression of `raw`, which is called `file` in messages and has `size` bytes if
    /// that is known.
    pub(crate) fn new(
        file: &Path,
        raw: Box<dyn Read + Send>,
        size: Option<u64>,
    ) -> Result<(Self, ByteMeter), TraceError> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut raw = MeteredReader { inner: raw, taken: Arc::clone(&taken) };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        raw.by_ref()
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .map_err(|e| TraceError::io(file, FilePlace::Byte(0), "cannot be read", e))?;
        let compression = TraceCompression::of(&magic);
        // The first bytes were taken to be looked at, and belong in front again.
        let whole = Cursor::new(magic).chain(raw);
        let buffered = |r| BufReader::with_capacity(COMPRESSED_CHUNK, r);
        let reader: Box<dyn Read + Send> = match compression {
            TraceCompression::None => Box::new(whole),
            TraceCompression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered(whole))),
            TraceCompression::Zstd => Box::new(
                zstd::stream::read::Decoder::with_buffer(buffered(whole))
                    .map_err(|e| TraceError::io(file, FilePlace::File, "no Zstandard decoder", e))?,
            ),
            // The header of a file decides the memory of its dictionary: the limit keeps that from growing.
            TraceCompression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(buffered(whole), true, XZ_MEMORY_KIB)),
            TraceCompression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered(whole))),
            TraceCompression::Lz4 => Box::new(lz4::Lz4Frames::new(buffered(whole))),
            TraceCompression::Zip => Box::new(zip::ZipFiles::new(buffered(whole))),
        };
        let input =
            Self { reader, file: file.to_owned(), compression, head: Vec::new(), head_at: 0, at: 0, ended: false };
        Ok((input, ByteMeter { taken: vec![taken], size }))
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn compression(&self) -> TraceCompression {
        self.compression
    }

    /// The first `bytes` bytes, or all there are; they will still be read. Call it before the first
    /// read.
    pub(crate) fn look_ahead(&mut self, bytes: usize) -> Result<&[u8], TraceError> {
        let mut head = std::mem::take(&mut self.head);
        let mut filled = head.len();
        head.resize(bytes.max(filled), 0);
        while filled < head.len() {
            match self.read_on(&mut head[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        head.truncate(filled);
        self.head = head;
        Ok(&self.head)
    }

    /// Reads UTF-16 as UTF-8 from here on, if the beginning is marked as UTF-16. Call it behind [`Self::look_ahead`] and
    /// before the first read.
    pub(crate) fn decode_utf16(&mut self) {
        let Some(order) = utf16::marked(&self.head) else { return };
        let head = Cursor::new(std::mem::take(&mut self.head));
        let mut rest: Box<dyn Read + Send> = Box::new(io::empty());
        // What has ended is not asked again.
        if !self.ended {
            std::mem::swap(&mut rest, &mut self.reader);
        }
        self.reader = Box::new(utf16::Utf16Text::new(head.chain(rest), order));
        (self.at, self.ended) = (0, false);
    }

    /// Reads some bytes; 0 only at the end (`buf` must not be empty).
    pub(crate) fn read_some(&mut self, buf: &mut [u8]) -> Result<usize, TraceError> {
        if self.head_at < self.head.len() {
            let n = buf.len().min(self.head.len() - self.head_at);
            buf[..n].copy_from_slice(&self.head[self.head_at..self.head_at + n]);
            self.head_at += n;
            if self.head_at == self.head.len() {
                self.head = Vec::new();
                self.head_at = 0;
            }
            return Ok(n);
        }
        self.read_on(buf)
    }

    fn read_on(&mut self, buf: &mut [u8]) -> Result<usize, TraceError> {
        // A decompressor need not bear being asked again after its end.
        if self.ended {
            return Ok(0);
        }
        let n = self.reader.read(buf).map_err(|error| self.failed(error))?;
        self.at += n as u64;
        self.ended = n == 0;
        Ok(n)
    }

    #[cold]
    fn failed(&mut self, e: io::Error) -> TraceError {
        self.ended = true;
        let doing = match self.compression {
            _ if e.get_ref().is_some_and(|inner| inner.is::<utf16::Utf16Error>() || inner.is::<zip::ZipError>()) => {
                "cannot be read".to_owned()
            }
            TraceCompression::None => "cannot be read".to_owned(),
            c if e.kind() == io::ErrorKind::UnexpectedEof => {
                format!("the {c} data is cut short after this decompressed byte; the file is not complete")
            }
            c => format!(
                "the {c} data is damaged after this decompressed byte, or something else follows it, or it needs more \
                 than 128 MiB of memory"
            ),
        };
        TraceError::io(&self.file, FilePlace::Byte(self.at), &doing, e)
    }
}

impl Read for TraceInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.read_some(buf).map_err(|e| io::Error::other(e.reason))
    }
}
