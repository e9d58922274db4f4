//! LZ4 frames that follow one another (the LZ4 Frame Format of its documentation), with skippable frames between them.

use std::io::{self, BufRead, Read};

use lz4_flex::frame::FrameDecoder;

/// Begins a frame.
const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();

/// Decompresses frame after frame. The decoder alone takes an input that ends between two blocks for the end of the frame,
/// and stops behind the first frame.
pub(super) struct Lz4Frames<R: BufRead> {
    frame: FrameDecoder<FrameBytes<R>>,
    is_inside: bool,
}

impl<R: BufRead> Lz4Frames<R> {
    pub(super) fn new(input: R) -> Self {
        Self { frame: FrameDecoder::new(FrameBytes { input, magic_left: 0 }), is_inside: false }
    }

    /// Begins the next frame, behind skippable ones. Returns false at the end of the input.
    fn begin(&mut self) -> io::Result<bool> {
        let FrameBytes { input, magic_left } = self.frame.get_mut();
        while !input.fill_buf()?.is_empty() {
            let mut magic = [0; 4];
            input.read_exact(&mut magic)?;
            match magic {
                MAGIC => {
                    // The magic was read to tell a frame from a skippable one, and the decoder wants it
                    // again.
                    *magic_left = MAGIC.len();
                    return Ok(true);
                }
                [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                    let mut length = [0; 4];
                    input.read_exact(&mut length)?;
                    let length = u64::from(u32::from_le_bytes(length));
                    if io::copy(&mut input.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "no LZ4 frame follows the frame before")),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.is_inside || self.begin()? {
            self.is_inside = true;
            let n = self.frame.read(buf).map_err(|error| match error.get_ref() {
                Some(inner) if inner.is::<InputEnd>() => io::ErrorKind::UnexpectedEof.into(),
                _ => error,
            })?;
            if n > 0 {
                return Ok(n);
            }
            self.is_inside = false;
        }
        Ok(0)
    }
}

/// Gives the bytes of frames. Its end is an error, as a frame has to end before.
struct FrameBytes<R> {
    input: R,
    /// Counts the bytes of [`MAGIC`] that were read and are given again.
    magic_left: usize,
}

impl<R: BufRead> Read for FrameBytes<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.magic_left > 0 && !buf.is_empty() {
            let n = self.magic_left.min(buf.len());
            buf[..n].copy_from_slice(&MAGIC[MAGIC.len() - self.magic_left..][..n]);
            self.magic_left -= n;
            return Ok(n);
        }
        match self.input.read(buf)? {
            0 if !buf.is_empty() => Err(io::Error::other(InputEnd)),
            n => Ok(n),
        }
    }
}

/// Says that the input ended inside a frame. The decoder takes the usual error for the end of the frame.
#[derive(Debug, thiserror::Error)]
#[error("the input ends inside a frame")]
struct InputEnd;
