//! Keeps buffers of requests, and room for what is received, to be used again.

use destage_exec::AlignedBuffer;

/// Limits the bytes of the buffers that are kept.
const SPARE: usize = 32 << 20;
/// Sets the smallest size of buffers that are kept; each further size is twice the one before.
const SMALLEST: usize = 4096;
/// Counts the sizes. Longer buffers are not kept.
const SIZES: usize = 9;
/// Sets the bytes that are received at a time.
const INPUT: usize = 128 << 10;
/// Limits the inputs that are kept.
const INPUTS: usize = 8;

/// Keeps buffers by size.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    buffers: [Vec<AlignedBuffer>; SIZES],
    bytes: usize,
    inputs: Vec<Box<[u8]>>,
}

impl BufferPool {
    /// Returns the bytes of the buffers that are kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back a buffer that was kept for `len` bytes, or an empty one.
    pub(crate) fn take(&mut self, len: usize) -> AlignedBuffer {
        let buffer = self.buffers.get_mut(size_of(len)).and_then(Vec::pop).unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer if it has one of the sizes, and `room` has its bytes.
    pub(crate) fn keep(&mut self, buffer: AlignedBuffer, room: usize) {
        // An aligned buffer allocates up to one alignment more than it can use.
        let usable = buffer.capacity().saturating_sub(AlignedBuffer::ALIGN);
        if usable < SMALLEST {
            return;
        }
        // The largest size that the buffer surely holds: its capacity need not be a power of two.
        let size = (usable.ilog2() - SMALLEST.ilog2()) as usize;
        let bytes = buffer.capacity();
        if size >= SIZES || bytes > room {
            return;
        }
        if self.bytes + bytes > SPARE {
            // Workloads keep to few sizes, and buffers of other sizes belong to a workload that has ended.
            let others = self.buffers.iter_mut().enumerate().filter(|(other, _)| *other != size);
            for buffers in others.map(|(_, buffers)| buffers) {
                self.bytes -= buffers.drain(..).map(|buffer| buffer.capacity()).sum::<usize>();
            }
        }
        if self.bytes + bytes <= SPARE {
            self.bytes += bytes;
            self.buffers[size].push(buffer);
        }
    }

    /// Drops all buffers.
    pub(crate) fn clear(&mut self) {
        self.buffers = Default::default();
        self.bytes = 0;
    }

    /// Gives room for what is received.
    pub(crate) fn take_input(&mut self) -> Box<[u8]> {
        self.inputs.pop().unwrap_or_else(|| vec![0; INPUT].into_boxed_slice())
    }

    /// Takes room for what is received back.
    pub(crate) fn keep_input(&mut self, input: Box<[u8]>) {
        if self.inputs.len() < INPUTS && input.len() == INPUT {
            self.inputs.push(input);
        }
    }
}

/// Returns the size, among those that are kept, of buffers of `len` bytes.
const fn size_of(len: usize) -> usize {
    // Sizes are powers of two, so a buffer is found without a search.
    let len = if len < SMALLEST { SMALLEST } else { len };
    (len.next_power_of_two().ilog2() - SMALLEST.ilog2()) as usize
}
