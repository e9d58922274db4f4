//! Reads what fio measured of a drive by the jobs of `contrib/drive.fio`, in its JSON.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// Names the job that reads one page at a time.
const IDLE_READ: &str = "idle-read";
/// Names the job that writes seldom.
const IDLE_WRITE: &str = "idle-write";
/// Begins the names of the jobs that write as much as the drive takes.
const STEADY_WRITE: &str = "steady-write";
/// Begins the names of the jobs that read and write at a rate.
const MIXED: &str = "mixed";
/// Sets how much the last two steady jobs may differ.
const STEADY_WITHIN: f64 = 0.05;
/// Sets the share of the steady rate above which a drive that is written to is not idle.
const IDLE_SHARE: f64 = 0.2;
/// Sets the outstanding writes that it takes at least to saturate a drive.
const LEAST_DEPTH: u32 = 16;
/// Sets the requests that a median takes at least.
const LEAST_REQUESTS: u64 = 100;

/// Holds the parts of fio's JSON that are looked at.
#[derive(Debug, Deserialize)]
struct FioOutput {
    #[serde(rename = "global options", default)]
    globals: BTreeMap<String, String>,
    jobs: Vec<FioJob>,
}

/// Holds a job of fio's JSON.
#[derive(Debug, Deserialize)]
struct FioJob {
    jobname: String,
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: FioDirection,
    write: FioDirection,
}

/// Holds the reads or the writes of a job.
#[derive(Debug, Deserialize)]
struct FioDirection {
    iops: f64,
    total_ios: u64,
    slat_ns: Option<FioLatency>,
    clat_ns: Option<FioLatency>,
}

/// Holds times in nanoseconds.
#[derive(Debug, Deserialize)]
struct FioLatency {
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// Holds the rate and the response times of reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredResponse {
    /// Requests a second.
    pub rate: f64,
    /// Holds the median, in nanoseconds.
    pub p50: f64,
    /// Holds the 99th percentile, in nanoseconds.
    pub p99: f64,
}

/// Holds a job: what it asked of the drive, and what came of it.
#[derive(Clone, Debug)]
pub struct MeasuredJob {
    /// Names the job.
    pub name: String,
    /// Requests that were outstanding at most.
    pub depth: u32,
    /// Describes the job's reads, if there were any.
    pub reads: Option<MeasuredResponse>,
    /// Describes the job's writes, if there were any.
    pub writes: Option<MeasuredResponse>,
}

/// Holds what fio measured of a drive.
#[derive(Clone, Debug)]
pub struct DriveMeasurement {
    /// Reads one page at a time.
    pub idle_read: MeasuredJob,
    /// Writes at so low a rate that the drive is idle between them.
    pub idle_write: MeasuredJob,
    /// Has as many writes as the drive takes, once their rate stays the same.
    pub steady_write: MeasuredJob,
    /// Reads and writes at a rate.
    pub mixed: Vec<MeasuredJob>,
    /// Names of jobs that are not looked at.
    pub ignored: Vec<String>,
}

impl FioDirection {
    /// Returns the response times, if there are enough requests: those of completion, and the mean of submission.
    fn response(&self) -> Option<MeasuredResponse> {
        let clat = self.clat_ns.as_ref().filter(|_| self.total_ios > 0)?;
        let submission = self.slat_ns.as_ref().map_or(0.0, |slat| slat.mean);
        let percentile = |name: &str| clat.percentile.get(name).map(|ns| ns + submission);
        Some(MeasuredResponse { rate: self.iops, p50: percentile("50.000000")?, p99: percentile("99.000000")? })
    }
}

/// Reads a size as fio writes it: `4k`, `4ki`, `4KiB`, `4096`, `4096B`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "b" => 1,
        "k" | "ki" | "kib" | "kb" => 1 << 10,
        "m" | "mi" | "mib" | "mb" => 1 << 20,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Looks at a job's options.
struct FioOptions<'a> {
    job: &'a FioJob,
    globals: &'a BTreeMap<String, String>,
}

impl<'a> FioOptions<'a> {
    /// Returns an option by any of its names, the job's own before that of all jobs.
    fn get(&self, names: &[&str]) -> Option<&'a str> {
        let given = |options: &'a BTreeMap<String, String>| names.iter().find_map(|name| options.get(*name));
        given(&self.job.options).or_else(|| given(self.globals)).map(String::as_str)
    }

    /// Returns a number that is 1 unless given.
    fn count(&self, name: &str) -> Result<u32> {
        let text = self.get(&[name]).unwrap_or("1");
        text.parse().with_context(|| format!("{name} = {text}: expected a number"))
    }

    /// Checks what the job asked for, and returns it with its figures.
    fn measured(&self, pattern: &str, needs: &str) -> Result<MeasuredJob> {
        let job = self.job;
        ensure!(job.error == 0, "ended with error {}: expected a run without errors", job.error);
        let rw = self.get(&["rw", "readwrite"]).unwrap_or("read");
        ensure!(rw == pattern, "rw = {rw}: expected {pattern}");
        let bs = self.get(&["bs", "blocksize"]).unwrap_or("4k");
        ensure!(bytes(bs) == Some(4096), "bs = {bs}: expected 4k");
        let direct = self.get(&["direct"]).unwrap_or("0");
        ensure!(direct == "1", "direct = {direct}: expected 1, or the page cache is measured");
        let measured = MeasuredJob {
            name: job.jobname.clone(),
            depth: self.count("iodepth")?.saturating_mul(self.count("numjobs")?),
            reads: job.read.response(),
            writes: job.write.response(),
        };
        for (kind, direction, response) in [("read", &job.read, measured.reads), ("write", &job.write, measured.writes)]
        {
            if !needs.contains(kind) {
                continue;
            }
            ensure!(
                direction.total_ios >= LEAST_REQUESTS,
                "has {} {kind}s: expected {LEAST_REQUESTS} at least",
                direction.total_ios
            );
            ensure!(
                response.is_some(),
                "has no clat_ns with the percentiles 50 and 99 of its {kind}s: expected those of fio 3, and no \
                 percentile_list without them"
            );
        }
        Ok(measured)
    }
}

/// Reads fio's JSON.
///
/// # Errors
/// If it is none, or a job is missing or is not what is expected: which job, and what.
pub fn read(text: &str) -> Result<DriveMeasurement> {
    let output: FioOutput = serde_json::from_str(text)
        .map_err(|error| anyhow::anyhow!("is not what fio --output-format=json writes: {error}"))?;
    let measured = |job: &FioJob, pattern: &str, needs: &str| {
        let options = FioOptions { job, globals: &output.globals };
        options.measured(pattern, needs).with_context(|| format!("job '{}'", job.jobname))
    };
    let one = |name: &str, pattern: &str, needs: &str| {
        let jobs: Vec<_> = output.jobs.iter().filter(|job| job.jobname == name).collect();
        match jobs[..] {
            [job] => measured(job, pattern, needs),
            [] => bail!("has no job '{name}': expected one with rw={pattern}, as in contrib/drive.fio"),
            _ => {
                bail!("has {} jobs '{name}': expected one; group_reporting makes one of several processes", jobs.len())
            }
        }
    };
    let begins = |prefix: &'static str| output.jobs.iter().filter(move |job| job.jobname.starts_with(prefix));
    let idle_read = one(IDLE_READ, "randread", "read")?;
    ensure!(idle_read.depth == 1, "job '{IDLE_READ}': iodepth x numjobs = {}: expected 1", idle_read.depth);
    let idle_write = one(IDLE_WRITE, "randwrite", "write")?;
    let steady: Vec<_> = begins(STEADY_WRITE).map(|job| measured(job, "randwrite", "write")).collect::<Result<_>>()?;
    let [.., before, last] = &steady[..] else {
        bail!(
            "has {} jobs whose names begin with '{STEADY_WRITE}': expected two with rw=randwrite, one after the other, which \
             show that the rate stays what it is",
            steady.len()
        );
    };
    for job in &steady {
        ensure!(
            job.depth >= LEAST_DEPTH,
            "job '{}': iodepth x numjobs = {}: expected {LEAST_DEPTH} at least, to write as much as the drive takes",
            job.name,
            job.depth
        );
    }
    let rate = |job: &MeasuredJob| job.writes.map_or(0.0, |writes| writes.rate);
    let (first_rate, last_rate) = (rate(before), rate(last));
    ensure!(
        (first_rate / last_rate - 1.0).abs() <= STEADY_WITHIN,
        "job '{}': {last_rate:.0} writes/s, and {first_rate:.0} in '{}' before it: the drive is not steady; expected a \
         difference of {:.0} % at most: overwrite it for longer first",
        last.name,
        before.name,
        100.0 * STEADY_WITHIN
    );
    ensure!(
        rate(&idle_write) <= IDLE_SHARE * last_rate,
        "job '{IDLE_WRITE}': {:.0} writes/s, of {last_rate:.0} that the drive takes: expected {:.0} % at most; set rate_iops=1000",
        rate(&idle_write),
        100.0 * IDLE_SHARE
    );
    let mixed = begins(MIXED).map(|job| measured(job, "randrw", "read and write")).collect::<Result<_>>()?;
    let is_known = |name: &str| {
        [IDLE_READ, IDLE_WRITE].contains(&name) || [STEADY_WRITE, MIXED].iter().any(|prefix| name.starts_with(prefix))
    };
    let ignored = output.jobs.iter().map(|job| &job.jobname).filter(|name| !is_known(name)).cloned().collect();
    Ok(DriveMeasurement { idle_read, idle_write, steady_write: last.clone(), mixed, ignored })
}
