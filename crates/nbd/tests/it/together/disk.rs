//! Serves requests from some bytes, with an error now and then and replies in any pieces.

use destage_nbd::{Errno, NbdCommand, NbdRequest, NbdSession, ReadReply, StatusExtent};

use super::world::Random;

/// Holds the result of a request: bytes of a read, extents of each context, or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Nothing,
    Bytes(Vec<u8>),
    Extents(Vec<(u32, u64, u32)>),
    Failed(Errno),
}

pub struct Disk {
    pub bytes: Vec<u8>,
}

impl Disk {
    fn of(request: &NbdRequest) -> std::ops::Range<usize> {
        let start = request.offset as usize;
        start..start + request.length as usize
    }

    /// Carries a request out and appends the reply; says how it ends for the client.
    pub fn answer(
        &mut self,
        session: &NbdSession,
        request: &NbdRequest,
        payload: &[u8],
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Outcome {
        if random.below(12) == 0 {
            let at = (random.below(2) == 0).then_some(request.offset + random.below(4000) as u64);
            session.fail(request, Errno::Io, &"a worn \u{221e} head", at, out);
            return Outcome::Failed(Errno::Io);
        }
        let range = Self::of(request);
        match request.command {
            NbdCommand::Read { .. } => return self.read(session, request, random, out),
            NbdCommand::BlockStatus { one } => return status(session, request, one, random, out),
            NbdCommand::Write => self.bytes[range].copy_from_slice(payload),
            NbdCommand::WriteZeroes { .. } | NbdCommand::Trim => self.bytes[range].fill(0),
            NbdCommand::Flush | NbdCommand::Cache => {}
        }
        out.extend_from_slice(&session.done(request));
        Outcome::Nothing
    }

    fn read(&self, session: &NbdSession, request: &NbdRequest, random: &mut Random, out: &mut Vec<u8>) -> Outcome {
        let wanted = &self.bytes[Self::of(request)];
        let mut reply = ReadReply::new(session, request);
        while reply.left() > 0 {
            let left = reply.left();
            let done = (request.length - left) as usize;
            let length = if reply.splits() { 1 + random.below(reply.left() as usize) } else { reply.left() as usize };
            let piece = &wanted[done..done + length];
            if random.below(20) == 0 {
                reply.fail(Errno::NoMem, &"no more", out);
                return Outcome::Failed(Errno::NoMem);
            }
            if reply.takes_hole(length as u32) && piece.iter().all(|&byte| byte == 0) {
                out.extend_from_slice(&reply.hole(length as u32));
            } else {
                out.extend_from_slice(&reply.data(length as u32));
                out.extend_from_slice(piece);
            }
            assert!(reply.left() < left, "a reply that does not end");
        }
        Outcome::Bytes(wanted.to_vec())
    }
}

/// Some extents for each context; what arrives of them is worked out byte by byte.
fn status(session: &NbdSession, request: &NbdRequest, one: bool, random: &mut Random, out: &mut Vec<u8>) -> Outcome {
    let mut told = Vec::new();
    let contexts: Vec<usize> = session.contexts().collect();
    for (n, &context) in contexts.iter().enumerate() {
        let some = random.below(6);
        let extents: Vec<StatusExtent> = (0..some)
            .map(|_| StatusExtent { length: random.below(3000) as u64, flags: random.below(3) as u32 })
            .collect();
        session.status(request, context, extents.iter().copied(), n + 1 == contexts.len(), out);
        let mut bytes: Vec<u32> =
            extents.iter().flat_map(|extent| std::iter::repeat_n(extent.flags, extent.length as usize)).collect();
        let mut ends: Vec<usize> = Vec::new();
        extents.iter().fold(0, |at, extent| {
            ends.push(at + extent.length as usize);
            at + extent.length as usize
        });
        if bytes.is_empty() {
            bytes = vec![0; request.length as usize];
        }
        // Nothing is told after the extent with the last byte that was asked for.
        let asked = request.length as usize;
        let last = ends.iter().copied().find(|&end| end >= asked).unwrap_or(bytes.len());
        bytes.truncate(last.min((session.size - request.offset) as usize));
        let mut runs: Vec<(u32, u64, u32)> = Vec::new();
        for &flags in &bytes {
            match runs.last_mut() {
                Some(run) if run.2 == flags => run.1 += 1,
                _ => runs.push((context as u32 + 1, 1, flags)),
            }
        }
        if one {
            runs.truncate(1);
            runs[0].1 = runs[0].1.min(u64::from(request.length));
        }
        told.extend(runs);
    }
    Outcome::Extents(told)
}
