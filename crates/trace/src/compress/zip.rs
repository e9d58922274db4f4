//! The files in a zip archive, one behind the other, out of a stream (PKWARE's APPNOTE 6.3.10).
//!
//! A stream cannot be read from its end, where an archive has its directory, so files are found by the headers in front of
//! them; then the directory is checked to list as many. Stored and deflated files are read, with the length behind the data,
//! too, where deflate tells the end. Folders, empty files and what macOS puts into `__MACOSX` are passed over. Between two
//! files of text of which the first has no end of line, one is put in.

use std::io::{self, BufRead, Read};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

/// Marks the header of a file, its length behind the data, its entry in the directory, and what stands behind these.
const FILE: [u8; 4] = *b"PK\x03\x04";
const LENGTH_BEHIND: [u8; 4] = *b"PK\x07\x08";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const DIRECTORY_END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
const DIRECTORY_END: [u8; 4] = *b"PK\x05\x06";

/// Says that a length of 32 bits stands elsewhere, in 64.
const LONG: u32 = u32::MAX;
/// Names the extra field of lengths of 64 bits.
const EXTRA_64: u16 = 1;
/// Bits of a file's flags: encrypted, and its length stands behind the data.
const ENCRYPTED: u16 = 1;
const LENGTH_IS_BEHIND: u16 = 1 << 3;
/// Names the methods.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Says what is wrong with an archive, or cannot be read of it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ZipError(String);

/// Reads an archive's files.
pub(super) struct ZipFiles<R> {
    data: FileData<R>,
    file: ZippedFile,
    /// Counts the files, those without data too.
    files: u64,
    /// Tells that a file of text ended without an end of line.
    has_open_line: bool,
}

/// Gives the data of the file at hand, or is between two files.
enum FileData<R> {
    Between(R),
    Stored(io::Take<R>),
    Deflated(DeflateDecoder<R>),
    /// Holds no input any more: an error came before, or the end.
    Lost,
}

/// Describes the file at hand, and what was read of it.
#[derive(Default)]
struct ZippedFile {
    is_passed_over: bool,
    /// Gives checksum and length, unless they stand behind the data.
    expected: Option<(u32, u64)>,
    has_long_lengths: bool,
    crc: Crc,
    length: u64,
    last_byte: u8,
    has_zero: bool,
}

impl<R: BufRead> ZipFiles<R> {
    pub(super) fn new(input: R) -> Self {
        Self { data: FileData::Between(input), file: ZippedFile::default(), files: 0, has_open_line: false }
    }

    /// Opens the next file. Returns false behind the last.
    fn next_file(&mut self, mut input: R) -> io::Result<bool> {
        // Files are read from the front one after the other, so that an archive can come through a pipe.
        let mark = array::<4>(&mut input)?;
        if mark != FILE {
            check_directory(&mut input, mark, self.files)?;
            return Ok(false);
        }
        let header = array::<26>(&mut input)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (flags, method) = (u16_at(2), u16_at(4));
        let (crc, compressed, length) = (u32_at(10), u32_at(14), u32_at(18));
        let name = bytes(&mut input, u16_at(22))?;
        let extra = bytes(&mut input, u16_at(24))?;
        let shown = || String::from_utf8_lossy(&name).escape_debug().to_string();
        if flags & ENCRYPTED != 0 {
            return Err(invalid(format!("the file {} is encrypted; extract it", shown())));
        }
        let is_behind = flags & LENGTH_IS_BEHIND != 0;
        let long = long_lengths(&extra);
        let mut longs = long.unwrap_or_default().into_iter();
        let mut widen = |length: u32| if length == LONG { longs.next().flatten() } else { Some(u64::from(length)) };
        let (Some(length), Some(compressed)) = (widen(length), widen(compressed)) else {
            return Err(invalid(format!("the file {} has no length of 64 bits", shown())));
        };
        self.files += 1;
        self.file = ZippedFile {
            is_passed_over: name.starts_with(b"__MACOSX/"),
            expected: (!is_behind).then_some((crc, length)),
            has_long_lengths: long.is_some(),
            ..ZippedFile::default()
        };
        self.data = match method {
            DEFLATED => FileData::Deflated(DeflateDecoder::new(input)),
            STORED if is_behind && !name.ends_with(b"/") => {
                return Err(invalid(format!("the file {} is stored with its length behind it; extract it", shown())));
            }
            STORED => FileData::Stored(input.take(compressed)),
            _ => {
                return Err(invalid(format!(
                    "the file {} is compressed by method {method}, expected deflate or none; extract it",
                    shown()
                )));
            }
        };
        Ok(true)
    }

    /// Checks what was read of a file against its checksum and length, in front of the data or behind it.
    fn end_file(&mut self, mut input: R) -> io::Result<R> {
        // At least the directory follows. The decoder does not tell data that are cut short from their end.
        if input.fill_buf()?.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let file = &self.file;
        let (crc, length) = if let Some(expected) = file.expected {
            expected
        } else {
            let first = array::<4>(&mut input)?;
            let crc = if first == LENGTH_BEHIND { array::<4>(&mut input)? } else { first };
            // Some writers find out too late that a file is long, and have no field in front that says so.
            let length = if file.has_long_lengths || file.length > u64::from(u32::MAX) {
                u64::from_le_bytes(array::<16>(&mut input)?[8..].try_into().expect("eight bytes"))
            } else {
                u32::from_le_bytes(array::<8>(&mut input)?[4..].try_into().expect("four bytes")).into()
            };
            (u32::from_le_bytes(crc), length)
        };
        if length != file.length {
            return Err(invalid(format!("a file in the archive has {} bytes, expected {length}", file.length)));
        }
        if crc != file.crc.sum() {
            return Err(invalid("a file in the archive does not have its checksum"));
        }
        if length > 0 && !file.is_passed_over {
            self.has_open_line = file.last_byte != b'\n' && !file.has_zero;
        }
        Ok(input)
    }
}

impl<R: BufRead> Read for ZipFiles<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            let n = match &mut self.data {
                FileData::Between(_) | FileData::Lost => 0,
                FileData::Stored(data) => data.read(buf)?,
                FileData::Deflated(data) => data.read(buf)?,
            };
            if n > 0 {
                let read = &buf[..n];
                self.file.crc.update(read);
                self.file.length += n as u64;
                self.file.last_byte = read[n - 1];
                self.file.has_zero = self.file.has_zero || memchr::memchr(0, read).is_some();
                if self.file.is_passed_over {
                    continue;
                }
                return Ok(n);
            }
            let input = match std::mem::replace(&mut self.data, FileData::Lost) {
                FileData::Between(input) => input,
                FileData::Stored(data) => self.end_file(data.into_inner())?,
                FileData::Deflated(data) => self.end_file(data.into_inner())?,
                FileData::Lost => return Ok(0),
            };
            if !self.next_file(input)? {
                return Ok(0);
            }
            if std::mem::take(&mut self.has_open_line) {
                buf[0] = b'\n';
                return Ok(1);
            }
        }
    }
}

/// Reads what stands behind the files, from a mark on that is none of a file, to the end of the archive.
fn check_directory(input: &mut impl BufRead, mut mark: [u8; 4], files: u64) -> io::Result<()> {
    let mut entries = 0;
    loop {
        let behind = match mark {
            ENTRY => {
                let entry = array::<42>(input)?;
                entries += 1;
                [24, 26, 28].into_iter().map(|at| u64::from(u16::from_le_bytes([entry[at], entry[at + 1]]))).sum()
            }
            DIRECTORY_END_64 => u64::from_le_bytes(array::<8>(input)?),
            LOCATOR_64 => 16,
            DIRECTORY_END => {
                let end = array::<18>(input)?;
                skip(input, u16::from_le_bytes([end[16], end[17]]).into())?;
                break;
            }
            _ => return Err(invalid(format!("\"{}\" is no mark of a zip archive", mark.escape_ascii()))),
        };
        skip(input, behind)?;
        mark = array::<4>(input)?;
    }
    if entries != files {
        return Err(invalid(format!("its directory lists {entries} files, but it holds {files}; extract it")));
    }
    if !input.fill_buf()?.is_empty() {
        return Err(invalid("something follows the zip archive"));
    }
    Ok(())
}

/// Finds the lengths of 64 bits in the extra fields of a file, of which only those are there that are needed.
fn long_lengths(mut extra: &[u8]) -> Option<[Option<u64>; 2]> {
    while let [i0, i1, l0, l1, rest @ ..] = extra {
        let (field, behind) = rest.split_at_checked(u16::from_le_bytes([*l0, *l1]).into())?;
        if u16::from_le_bytes([*i0, *i1]) == EXTRA_64 {
            let length =
                |at: usize| field.get(at..at + 8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
            return Some([length(0), length(8)]);
        }
        extra = behind;
    }
    None
}

fn array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bytes(input: &mut impl Read, count: u16) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count.into()];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip(input: &mut impl Read, count: u64) -> io::Result<()> {
    if io::copy(&mut input.take(count), &mut io::sink())? < count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, ZipError(reason.into()))
}
