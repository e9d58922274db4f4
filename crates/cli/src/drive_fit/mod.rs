//! Finds the few free settings of the modern model from what fio measured of a drive, and how well they fit.
//!
//! Three figures are enough: one read at a time gives `ssd.read`, a write now and then `ssd.command-write`, and the steady rate
//! of random writes `ssd.program`. All else is the drive's data sheet, or is the same for every drive (docs/drives.md).

pub mod fio;
mod model;

use anyhow::{Context, Result, bail, ensure};

use fio::{DriveMeasurement, MeasuredJob, MeasuredResponse};
use model::{ModelledJob, RequestArrivals};

/// Counts the bytes of a sector, which is what the jobs read and write.
const SECTOR: u64 = 4096;
/// Counts the bytes of a flash page.
const FLASH_PAGE: u64 = 16 << 10;
/// Sets what a read takes outside the flash, in nanoseconds: that of every preset.
const COMMAND_READ: f64 = 7_000.0;
/// Sets the time of erasing a block of 400 word lines, in nanoseconds: that of every preset.
const ERASE: f64 = 5e6;
/// Sets the size of a simulated drive at least: results do not depend on it (docs/drives.md).
const LEAST_BYTES: u64 = 2 << 30;
/// Sets the superblocks of a simulated drive.
const SUPERBLOCKS: u64 = 256;
/// Sets the write amplification that the first guess is made with.
const USUAL_AMPLIFICATION: f64 = 4.0;
/// Ends the search for the program time: so close is the model's rate of writes to the drive's.
const CLOSE_ENOUGH: f64 = 0.003;
/// Limits the runs of that search.
const MOST_RUNS: usize = 6;

/// Holds what fio cannot tell of a drive: its data sheet.
#[derive(Clone, Debug)]
pub struct DriveSheet {
    /// Bytes that hosts can address.
    pub exported_bytes: u64,
    /// Bytes of flash.
    pub raw_bytes: u64,
    /// Dies.
    pub dies: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Counts the flash pages of a word line.
    pub pages_per_word_line: u32,
    /// Sets the time to move a byte over the pins, in picoseconds.
    pub transfer_ps: u64,
    /// Commands a second at most.
    pub command_rate: Option<u64>,
    /// Bytes a second at most.
    pub link_rate: Option<u64>,
}

/// Holds the settings that were found, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct FreeSettings {
    read: f64,
    command_write: f64,
    program: f64,
}

/// Holds a figure of a job: the drive's and the model's.
#[derive(Clone, Debug)]
pub struct FitFigure {
    /// Names the job.
    pub job: String,
    /// Names the figure, with its unit.
    pub name: &'static str,
    /// Gives the value that fio measured.
    pub drive: f64,
    /// Gives the model's value; `None` where the model cannot keep up with the job.
    pub model: Option<f64>,
}

impl FitFigure {
    /// Returns true if the model is off by more than half of the drive's figure, or as far below it.
    pub fn is_off(&self) -> bool {
        self.model.is_none_or(|model| (model / self.drive).max(self.drive / model) > 1.5)
    }
}

/// Holds a drive that was fitted.
#[derive(Clone, Debug)]
pub struct FittedDrive {
    /// Lists the settings of the table `[ssd]`, in order: key without `ssd.`, and value in TOML.
    pub settings: Vec<(&'static str, String)>,
    /// Compares drive and model, job by job.
    pub figures: Vec<FitFigure>,
    /// Holds the write amplification of the steady writes on the model.
    pub amplification: f64,
}

impl DriveSheet {
    /// Returns the share of the flash that is not exported, in hundredths of a percent.
    fn reserve_bp(&self) -> u64 {
        (u128::from(self.raw_bytes - self.exported_bytes) * 10_000 / u128::from(self.raw_bytes)) as u64
    }

    /// Returns the sectors of a unit.
    fn unit(&self) -> f64 {
        f64::from(self.pages_per_word_line) * f64::from(self.planes) * (FLASH_PAGE / SECTOR) as f64
    }

    /// Returns the bytes of the drive that is simulated.
    fn simulated_bytes(&self) -> u64 {
        let superblock = u64::from(self.dies) * self.unit() as u64 * SECTOR;
        (SUPERBLOCKS * superblock).max(LEAST_BYTES).min(self.exported_bytes)
    }

    /// Returns how long a written sector keeps the dies of a drive, in nanoseconds of one die: programs, the reads of
    /// collection, and erases, at a write amplification.
    fn cost(&self, free: FreeSettings, amplification: f64) -> f64 {
        let unit = self.unit();
        let transfer = SECTOR as f64 * self.transfer_ps as f64 / 1000.0;
        let copies = amplification - 1.0;
        let valid = 2.0 * (FLASH_PAGE / SECTOR) as f64 * (copies / amplification);
        let reads = if copies > 0.0 { copies * (free.read + valid * transfer) / valid } else { 0.0 };
        amplification * free.program / unit + reads + amplification * ERASE / (400.0 * unit)
    }

    /// Returns the settings of the table `[ssd]`.
    fn settings(&self, free: FreeSettings) -> Vec<(&'static str, String)> {
        let time = |ns: f64| format!("\"{}ns\"", ns.round());
        let rate = |rate: Option<u64>| rate.map_or_else(|| "\"none\"".to_owned(), |rate| rate.to_string());
        let bp = self.reserve_bp();
        vec![
            ("preset", "\"pm9a3\"".to_owned()),
            ("model", "\"modern\"".to_owned()),
            ("elements", self.dies.to_string()),
            ("planes", self.planes.to_string()),
            ("pages-per-word-line", self.pages_per_word_line.to_string()),
            ("reserve", format!("\"{}.{:02}%\"", bp / 100, bp % 100)),
            ("read", time(free.read)),
            ("program", time(free.program)),
            ("transfer", format!("{}", self.transfer_ps as f64 / 1000.0)),
            ("command-write", time(free.command_write)),
            ("command-rate", rate(self.command_rate)),
            ("link", rate(self.link_rate)),
        ]
    }

    /// Runs a job on the drive with these settings.
    fn run(&self, free: FreeSettings, job: &MeasuredJob, arrivals: RequestArrivals) -> Result<Option<ModelledJob>> {
        let settings = self.settings(free);
        let pairs: Vec<_> =
            settings.iter().map(|(key, value)| (format!("ssd.{key}"), value.trim_matches('"'))).collect();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), (*value).to_owned())).collect();
        model::run(&pairs, self.simulated_bytes(), job, arrivals)
            .with_context(|| format!("job '{}' on the model", job.name))
    }
}

/// Returns the median of a direction that the job was checked to have.
fn median(response: Option<MeasuredResponse>) -> f64 {
    response.map_or(0.0, |response| response.p50)
}

/// Finds the settings of a drive.
///
/// # Errors
/// If no settings do what was measured, with what to look at.
pub fn fit(measured: &DriveMeasurement, sheet: &DriveSheet, step: &dyn Fn(&str)) -> Result<FittedDrive> {
    let transfer = SECTOR as f64 * sheet.transfer_ps as f64 / 1000.0;
    let idle_read = median(measured.idle_read.reads);
    let read = idle_read - COMMAND_READ - transfer;
    ensure!(
        read > 0.0,
        "job '{}': half of the reads within {:.1} us: expected more than {:.1} us, which a read takes beside the sensing; was \
         it the drive that was read?",
        measured.idle_read.name,
        idle_read / 1000.0,
        (COMMAND_READ + transfer) / 1000.0
    );
    let command_write = median(measured.idle_write.writes);
    let goal = measured.steady_write.writes.map_or(0.0, |writes| writes.rate);
    let per_write = 1e9 * f64::from(sheet.dies) / goal;
    let mut free = FreeSettings { read, command_write, program: 0.0 };
    // The cost of a write is linear in the program time, whose share is known but for the amplification.
    free.program = (per_write - sheet.cost(free, USUAL_AMPLIFICATION)) * sheet.unit() / USUAL_AMPLIFICATION;
    let mut last = None;
    for _ in 0..MOST_RUNS {
        if !(free.program >= 1.0 && free.program <= 1e9) {
            bail!(
                "job '{}': {goal:.0} writes/s leave a program {:.0} us: expected 1 us to 1 s; check --dies {}, --raw and --capacity",
                measured.steady_write.name,
                free.program / 1000.0,
                sheet.dies
            );
        }
        step(&format!("steady writes with programs of {:.0} us", free.program / 1000.0));
        let run =
            sheet.run(free, &measured.steady_write, RequestArrivals::Closed)?.context("the model has no result")?;
        let rate = run.writes.map_or(0.0, |writes| writes.rate);
        let amplification = run.amplification;
        last = Some((run, rate));
        if (rate / goal - 1.0).abs() <= CLOSE_ENOUGH {
            break;
        }
        free.program += (per_write - 1e9 * f64::from(sheet.dies) / rate) * sheet.unit() / amplification;
    }
    let (steady, rate) = last.context("there was a run")?;
    ensure!(
        (rate / goal - 1.0).abs() <= 10.0 * CLOSE_ENOUGH,
        "job '{}': {goal:.0} writes/s, and the model takes {rate:.0} at most; check --command-rate, --link and the job's depth",
        measured.steady_write.name
    );
    let mut figures = Vec::new();
    for (job, arrivals) in [
        (&measured.idle_read, RequestArrivals::Closed),
        (&measured.idle_write, RequestArrivals::Open),
        (&measured.steady_write, RequestArrivals::Closed),
    ]
    .into_iter()
    .chain(measured.mixed.iter().map(|job| (job, RequestArrivals::Open)))
    {
        let run = if job.name == measured.steady_write.name {
            Some(steady.clone())
        } else {
            step(&job.name);
            sheet.run(free, job, arrivals)?
        };
        compare(&mut figures, job, run.as_ref(), arrivals);
    }
    Ok(FittedDrive { settings: sheet.settings(free), figures, amplification: steady.amplification })
}

/// Adds a job's figures beside the model's. Rates are figures where the drive sets them.
fn compare(figures: &mut Vec<FitFigure>, job: &MeasuredJob, run: Option<&ModelledJob>, arrivals: RequestArrivals) {
    type FigureOf = fn(&MeasuredResponse) -> f64;
    const READS: [(&str, FigureOf); 3] =
        [("reads/s", |of| of.rate), ("read p50, us", |of| of.p50 / 1000.0), ("read p99, us", |of| of.p99 / 1000.0)];
    const WRITES: [(&str, FigureOf); 3] =
        [("writes/s", |of| of.rate), ("write p50, us", |of| of.p50 / 1000.0), ("write p99, us", |of| of.p99 / 1000.0)];
    let from = usize::from(arrivals == RequestArrivals::Open);
    for (all, drive, model) in
        [(READS, job.reads, run.and_then(|run| run.reads)), (WRITES, job.writes, run.and_then(|run| run.writes))]
    {
        let Some(drive) = drive else { continue };
        figures.extend(all[from..].iter().map(|(name, of)| FitFigure {
            job: job.name.clone(),
            name,
            drive: of(&drive),
            model: model.as_ref().map(of),
        }));
    }
}
