//! Serves a device that is nothing (`null`: reads give zeros, writes go nowhere) or memory, to measure what the
//! service itself costs beside others that serve the same.
//!
//! ```text
//! cargo run --release -p destage-engine --example bare -- null 1GiB bare.sock
//! cargo run --release -p destage-engine --example bare -- memory 1GiB bare.sock
//! cargo run --release -p destage-engine --example bare -- null 1GiB ublk
//! ```
//!
//! The last is a block device of the kernel's, the first that is free.

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use destage_engine::{
    ArrayStatus, BlockBackend, BlockService, DeviceOffer, DeviceReplacement, ExportSettings, ReplaceError,
    ReplaceOutcome, SocketListener, UblkDevice,
};
use destage_exec::{AlignedBuffer, FilesError, RequestCompletion};
use destage_plan::{HostOp, HostRequest, quantity};

/// A device that answers at once.
struct Bare {
    bytes: u64,
    /// Holds the content, if any is kept.
    memory: Option<Vec<u8>>,
    done: VecDeque<RequestCompletion>,
}

impl BlockBackend for Bare {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn submit(&mut self, request: HostRequest, mut data: AlignedBuffer) -> Result<(), FilesError> {
        let place = request.offset as usize..(request.offset + request.len) as usize;
        match (request.op, &mut self.memory) {
            (HostOp::Read, Some(memory)) => data.copy_from_slice(&memory[place]),
            (HostOp::Read, None) => data.fill(0),
            (HostOp::Write, Some(memory)) => memory[place].copy_from_slice(&data),
            (HostOp::WriteZeroes | HostOp::WriteZeroesUnmap | HostOp::Discard, Some(memory)) => memory[place].fill(0),
            _ => {}
        }
        self.done.push_back(RequestCompletion { tag: request.tag, ok: true, bytes: data });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<RequestCompletion>, FilesError> {
        Ok(self.done.pop_front())
    }

    fn next_completion(&mut self) -> Option<RequestCompletion> {
        self.done.pop_front()
    }

    fn wake_with(&mut self, _: Box<dyn Fn() + Send + Sync>) {}

    fn hear(&mut self) -> bool {
        false
    }

    fn until_timer(&self) -> Option<Duration> {
        None
    }

    fn begin_drain(&mut self) -> Result<(), FilesError> {
        Ok(())
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn replace(&mut self, replacement: &DeviceReplacement) -> Result<ReplaceOutcome, ReplaceError> {
        Err(ReplaceError::Device { device: replacement.device.clone(), known: "none".to_owned() })
    }

    fn status(&self) -> ArrayStatus {
        ArrayStatus::of_bytes(self.bytes)
    }

    fn stop(self) -> Result<(), FilesError> {
        Ok(())
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, size, socket] = &args[..] else {
        eprintln!("usage: bare null|memory SIZE SOCKET|ublk");
        return ExitCode::FAILURE;
    };
    let served = || -> Result<(), Box<dyn std::error::Error>> {
        let bytes = quantity::bytes(size)?;
        let memory = (kind == "memory").then(|| vec![0; bytes as usize]);
        let mut service = BlockService::new(Bare { bytes, memory, done: VecDeque::new() }, &ExportSettings::default())?;
        if socket == "ublk" {
            let identity = std::process::id().into();
            let offer = DeviceOffer { device: None, identity, bytes, read_only: false, depth: 128 };
            let (device, queue) = UblkDevice::open(&offer)?;
            service.attach(Box::new(device), queue)?;
        } else {
            service.listen(SocketListener::unix(Path::new(socket))?)?;
        }
        Ok(service.run()?)
    };
    match served() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
