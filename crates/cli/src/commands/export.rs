//! `destage trace convert --to FORMAT`: traces in the formats that other tools read.

use std::path::{Path, PathBuf};

use anyhow::Result;
use destage_scenario::quantity::show_count;
use destage_trace::{CopyError, EXPORTS, ExportInfo, ExportSpec, ExportedCounts, TraceSource};

use crate::output::{self, CommandOutputs};
use crate::screen;

/// Volumes whose names are told.
const TOLD: usize = 16;

/// The help of `--to`.
pub fn help() -> String {
    let formats = EXPORTS.iter().map(|info| {
        let lines: Vec<&str> = info.options.to_vec();
        let cannot = format!("cannot hold {}", info.cannot);
        format!("\n  {}\n      {}", info.id.name(), [&[cannot.as_str()], &lines[..]].concat().join("\n      "))
    });
    let formats: String = formats.collect();
    format!(
        "Format of the new file: native, or one of those below, with options as NAME:key=value,... What a format cannot \
         hold stops the conversion, and the error names all of it with the options to give. Options of all of them:\n  {}\n{formats}",
        ExportInfo::COMMON.join("\n  ")
    )
}

/// Returns the folder for temporary files: beside the new file, if there is one.
fn scratch(to: &Path) -> PathBuf {
    // Beside the new file there is room for it, while the system's temporary folder may be small memory.
    let file = to != Path::new("-") && (to.is_file() || !to.exists());
    if file { output::folder(to).to_owned() } else { std::env::temp_dir() }
}

/// Writes all of `source`, which messages call `from`, to `to`, which stays as it was if that
/// cannot be done.
pub fn write(
    source: &mut dyn TraceSource,
    from: &str,
    spec: &ExportSpec,
    outputs: &mut CommandOutputs,
    to: &Path,
) -> Result<()> {
    let scratch = scratch(to);
    let copied = destage_trace::copy_export(source, outputs.file(to)?, spec, &scratch);
    let (file, ExportedCounts { report, latencies_left_out }) = copied.map_err(failed(from, to))?;
    outputs.commit([file])?;
    let bytes = std::fs::metadata(to).ok().filter(std::fs::Metadata::is_file);
    let bytes = bytes.map(|meta| format!("; {} bytes", show_count(meta.len()))).unwrap_or_default();
    eprintln!("wrote {} as {spec}: {report}{bytes}", to.display());
    if latencies_left_out {
        screen::note("the trace's latencies are not written");
    }
    if spec.numbers_volumes() {
        tell_names(source.volume_names());
    }
    Ok(())
}

/// Returns the error of a copy with the file that it is about.
pub fn failed(from: &str, to: &Path) -> impl Fn(CopyError) -> anyhow::Error {
    move |error| match error {
        CopyError::Read(error) => error.into(),
        CopyError::Write(error) => output::refused(to)(error),
        CopyError::Export(error) => anyhow::Error::new(error).context(from.to_owned()),
    }
}

/// Says which number a volume's name became, where that is not the name itself.
fn tell_names(names: &[String]) {
    let renamed = |(n, name): &(usize, &String)| **name != n.to_string();
    let told: Vec<String> =
        names.iter().enumerate().filter(renamed).take(TOLD).map(|(n, name)| format!("{n} is {name}")).collect();
    let more = names.iter().enumerate().filter(renamed).count() - told.len();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    if !told.is_empty() {
        screen::note(format_args!("volumes are written as numbers: {}{more}", told.join(", ")));
    }
}
