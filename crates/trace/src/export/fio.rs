//! fio's I/O logs, versions 3 and 2 (`read_iolog` of fio 3.33):
//! `[time (us)] file action [offset (B) length (B)]`. A file is added and opened before its first
//! request and closed behind the last one. Flushes are `sync`, discards `trim`.
//!
//! Times begin at 1 us: fio does not wait behind a line whose time is 0. Files are called
//! `volume0`, `volume1`, ..., so that a replay writes to no file that a trace happens to name,
//! unless the names shall be kept.

use std::collections::BTreeMap;
use std::io::Write;

use destage_plan::{Op, Request};
use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::exporter::FormatWriter;
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

/// Nanoseconds in a microsecond.
const TICK: u64 = 1000;
/// Characters of a file's name that fio reads.
const MAX_NAME: usize = 256;
/// Files of a log: as many as a trace of text may have volumes.
const MAX_FILES: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fio {
    version: u8,
    keep_names: bool,
}

impl ExportFormat for Fio {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::Fio,
        cannot: "FUA, no bytes, requests from 4 GiB on, times finer than 1 us or that run backwards; version 2 no times",
        options: &[
            "version=3|2: of the log (default 3)",
            "names=keep: name files as the trace names its volumes; fio opens and writes such files",
            "drop=times: required for version 2, which has none",
        ],
        timeless: true,
    };

    fn take(options: &mut FormatOptions<'_>, losses: &mut UserLosses) -> Result<Self, FormatError> {
        let version = options.choose("version", 3, &[("3", 3), ("2", 2)])?;
        let keep_names = options.choose("names", false, &[("keep", true)])?;
        if version != 2 && losses.times {
            return Err(FormatError::new("format fio: only version=2 has no times; leave drop=times out"));
        }
        Ok(Self { version, keep_names })
    }

    fn options(&self) -> Vec<String> {
        let version = (self.version != 3).then(|| format!("version={}", self.version));
        version.into_iter().chain(self.keep_names.then(|| "names=keep".to_owned())).collect()
    }

    fn numbers_volumes(&self) -> bool {
        !self.keep_names
    }

    fn writer(&self) -> Box<dyn FormatWriter> {
        let Self { version, keep_names } = *self;
        Box::new(FioLog { version, keep_names, files: BTreeMap::new(), taken: HashSet::default() })
    }
}

/// A log that is written.
struct FioLog {
    version: u8,
    keep_names: bool,
    /// Names of the files by volume.
    files: BTreeMap<u32, String>,
    taken: HashSet<String, FixedState>,
}

impl FioLog {
    fn time(&self, nanos: u64) -> String {
        if self.version == 3 { format!("{} ", nanos / TICK + 1) } else { String::new() }
    }

    /// Gives a volume its file.
    fn name(&mut self, volume: u32, name: Option<&str>) -> Result<String, String> {
        if self.files.len() == MAX_FILES {
            return Err(format!("is on volume {volume}, one more than the {MAX_FILES} files that are written"));
        }
        let file = match name.filter(|_| self.keep_names) {
            None => format!("volume{volume}"),
            Some(name) => {
                let plain = !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(|b| b.is_ascii_graphic());
                if !plain {
                    return Err(format!(
                        "its volume is called \"{}\", which cannot be a file of fio's; leave names=keep out",
                        name.escape_debug()
                    ));
                }
                name.to_owned()
            }
        };
        if !self.taken.insert(file.clone()) {
            return Err(format!("its volume is called {file}, as another one; leave names=keep out"));
        }
        self.files.insert(volume, file.clone());
        Ok(file)
    }
}

impl FormatWriter for FioLog {
    fn holds(&self) -> FormatLimits {
        FormatLimits {
            flushes: true,
            discards: true,
            fua: false,
            empty: false,
            offset_unit: 1,
            len_unit: 1,
            tick: if self.version == 3 { TICK } else { 0 },
            ordered: true,
            volumes: true,
            max_len: u64::from(u32::MAX),
            max_pages: None,
            piece: u64::MAX,
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        writeln!(out, "fio version {} iolog", self.version).expect("memory takes it");
    }

    fn put(&mut self, request: &Request, name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let Request { offset, len, op, .. } = *request;
        let time = self.time(request.time.0);
        if !self.files.contains_key(&request.volume) {
            let file = self.name(request.volume, name)?;
            write!(out, "{time}{file} add\n{time}{file} open\n").expect("memory takes it");
        }
        let file = &self.files[&request.volume];
        let (action, offset, len) = match op {
            Op::Read => ("read", offset, len),
            Op::Write => ("write", offset, len),
            Op::Flush => ("sync", 0, 0),
            Op::Discard => ("trim", offset, len),
        };
        writeln!(out, "{time}{file} {action} {offset} {len}").expect("memory takes it");
        Ok(1)
    }

    fn end(&mut self, last: u64, out: &mut Vec<u8>) {
        let time = self.time(last);
        for file in self.files.values() {
            writeln!(out, "{time}{file} close").expect("memory takes it");
        }
    }
}
