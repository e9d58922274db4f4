//! Serves disks in memory, to try clients with: `memory SOCKET`, or `memory HOST:PORT`.
//!
//! `disk` can do everything, `sectors` is read and written in sectors of 512 bytes, and `frozen`
//! is read-only.

mod disk;
mod serve;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::{env, io, thread};

use destage_nbd::{BlockSizes, ExportFeatures, ExportList};
use disk::Disk;

/// Blocks of each disk: 64 MiB.
const BLOCKS: usize = 1 << 14;

fn disks() -> [(&'static str, Disk); 3] {
    let all = Disk::everything();
    let sizes = BlockSizes::default();
    [
        ("disk", Disk::new(BLOCKS, all, sizes)),
        ("sectors", Disk::new(BLOCKS, all, BlockSizes { minimum: 512, ..sizes })),
        ("frozen", Disk::new(BLOCKS, ExportFeatures { read_only: true, ..all }, sizes)),
    ]
}

fn main() -> io::Result<()> {
    let address = env::args().nth(1).ok_or_else(|| io::Error::other("usage: memory SOCKET | HOST:PORT"))?;
    let (names, disks): (Vec<_>, Vec<_>) = disks().into_iter().unzip();
    let exports = disks.iter().zip(names).map(|(disk, name)| disk.export(name)).collect();
    let exports = Arc::new(ExportList::new(exports, Some("disk")).map_err(io::Error::other)?);
    let disks = Arc::new(disks);
    let connected = |ended: io::Result<()>| {
        if let Err(error) = ended {
            eprintln!("a client was lost: {error}");
        }
    };
    if address.contains(':') {
        for stream in TcpListener::bind(&address)?.incoming() {
            let (stream, exports, disks) = (stream?, exports.clone(), disks.clone());
            stream.set_nodelay(true)?;
            thread::spawn(move || connected(serve::serve(stream, &exports, &disks)));
        }
    } else {
        for stream in UnixListener::bind(&address)?.incoming() {
            let (stream, exports, disks) = (stream?, exports.clone(), disks.clone());
            thread::spawn(move || connected(serve::serve(stream, &exports, &disks)));
        }
    }
    Ok(())
}
