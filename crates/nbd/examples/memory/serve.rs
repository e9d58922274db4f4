//! A connection, served by the thread that calls this: requests are read as many at a time as have
//! come, and what answers them is sent together.

use std::io::{self, Read, Write};
use std::sync::Arc;

use destage_nbd::server::ServerEvent;
use destage_nbd::{Errno, ExportList, NbdCommand, NbdRequest, NbdServer, NbdSession, ReadReply};

use super::disk::Disk;

/// Bytes that are read at a time.
const INPUT: usize = 1 << 18;
/// Bytes of replies that are sent together.
const OUTPUT: usize = 1 << 18;

/// Serves disks, in the order of their exports, until the client has gone.
pub fn serve(mut stream: impl Read + Write, exports: &Arc<ExportList>, disks: &[Disk]) -> io::Result<()> {
    let mut server = NbdServer::new(exports.clone());
    let (mut buffer, mut used, mut filled) = (vec![0; INPUT], 0, 0);
    let (mut payload, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut input = &buffer[used..filled];
        let event = server.receive(&mut input);
        used = filled - input.len();
        out.extend_from_slice(server.output());
        let len = server.output().len();
        server.sent(len);
        match event.map_err(io::Error::other)? {
            ServerEvent::Request(request) => {
                let Some(session) = server.session().copied() else { continue };
                if request.command == NbdCommand::Write {
                    payload.resize(request.length as usize, 0);
                    let taken = server.take_payload(&mut input, &mut payload);
                    used = filled - input.len();
                    stream.read_exact(&mut payload[taken..])?;
                    server.payload_read((payload.len() - taken) as u32);
                }
                answer(&disks[session.export], &session, &request, &payload, &mut out);
                if out.len() >= OUTPUT {
                    send(&mut stream, &mut out)?;
                }
            }
            ServerEvent::More => {
                send(&mut stream, &mut out)?;
                (used, filled) = (0, stream.read(&mut buffer)?);
                if filled == 0 {
                    return Ok(());
                }
            }
            ServerEvent::SendFirst => send(&mut stream, &mut out)?,
            ServerEvent::Ended => return send(&mut stream, &mut out),
            // The payload is taken as soon as its request has come.
            ServerEvent::Started | ServerEvent::Payload(_) => {}
        }
    }
}

fn send(stream: &mut impl Write, out: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(out)?;
    out.clear();
    stream.flush()
}

fn answer(disk: &Disk, session: &NbdSession, request: &NbdRequest, payload: &[u8], out: &mut Vec<u8>) {
    let NbdRequest { command, offset, length, .. } = *request;
    match command {
        NbdCommand::Read { .. } => return read(disk, session, request, out),
        NbdCommand::BlockStatus { .. } => {
            let contexts: Vec<usize> = session.contexts().collect();
            for (n, &context) in contexts.iter().enumerate() {
                let extents = disk.status(context, offset, length);
                session.status(request, context, extents, n + 1 == contexts.len(), out);
            }
            return;
        }
        // Allocating is no faster than writing.
        NbdCommand::WriteZeroes { no_hole: true, fast: true } => {
            return session.fail(request, Errno::NotSup, &"blocks would have to be allocated", None, out);
        }
        NbdCommand::WriteZeroes { no_hole, .. } => disk.zero(offset, length, no_hole),
        NbdCommand::Trim => disk.zero(offset, length, false),
        NbdCommand::Write => disk.write(offset, payload),
        NbdCommand::Flush => disk.flush(),
        NbdCommand::Cache => {}
    }
    out.extend_from_slice(&session.done(request));
}

fn read(disk: &Disk, session: &NbdSession, request: &NbdRequest, out: &mut Vec<u8>) {
    let mut reply = ReadReply::new(session, request);
    if !reply.splits() {
        out.extend_from_slice(&reply.data(request.length));
        disk.read(request.offset, request.length, |part| match part {
            Ok(bytes) => out.extend_from_slice(bytes),
            Err(zeroes) => out.resize(out.len() + zeroes as usize, 0),
        });
        return;
    }
    let mut zeroes = 0;
    disk.read(request.offset, request.length, |part| match part {
        Err(more) => zeroes += more,
        Ok(bytes) => {
            if zeroes > 0 {
                out.extend_from_slice(&reply.hole(zeroes));
                zeroes = 0;
            }
            out.extend_from_slice(&reply.data(bytes.len() as u32));
            out.extend_from_slice(bytes);
        }
    });
    if zeroes > 0 {
        out.extend_from_slice(&reply.hole(zeroes));
    }
}
