//! Lists the errors of an array in files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use destage_plan::{Dev, LostPages, RangeError, Refusal};

/// Explains why an array in files cannot be made, opened or served.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Reports that the operating system failed to do something.
    #[error("{}: cannot {what}: {source}", path.display())]
    Io {
        /// Names the file.
        path: PathBuf,
        /// Names the attempt.
        what: &'static str,
        /// Gives the system's reason.
        source: io::Error,
    },
    /// Reports that a file exists that was to be made.
    #[error("{} exists already; move it away, or allow it to be overwritten", .0.display())]
    Exists(PathBuf),
    /// Reports that something which is to be given up is no part of the array.
    #[error("{} is no part of the array that is to be made anew; move it away first", .0.display())]
    Foreign(PathBuf),
    /// Reports that the NVRAM or the intents of an array do not exist.
    #[error("{} does not exist; without it nobody knows which rows are consistent but for the members' marks", .0.display())]
    Missing(PathBuf),
    /// Reports that the NVRAM is damaged so that nobody knows what it held.
    #[error(
        "{why}: what the NVRAM held nobody knows; bring back {}, or go on without it (destage serve --accept-losses)",
        path.display()
    )]
    DamagedNvram {
        /// Gives the file.
        path: PathBuf,
        /// Says what is damaged first, and where.
        why: String,
    },
    /// Reports that an earlier version wrote the NVRAM.
    #[error(
        "{} is of version {found}, this destage reads version {expected}; serve it with the destage that wrote it, stop that in order \
         (destage stop), and move the file away: nothing is lost with it then",
        path.display()
    )]
    OlderNvram {
        /// Gives the file.
        path: PathBuf,
        /// Gives its version.
        found: u32,
        /// Gives the version that is read.
        expected: u32,
    },
    /// Reports that the cache's device on which the NVRAM lies does not have it.
    #[error(
        "{}: the NVRAM lies on it, and {why}; bring it back, or name an empty one in its place, or another place for the NVRAM: \
         then members' marks are all that tells which rows are consistent",
        path.display()
    )]
    NvramAway {
        /// Names the device's file.
        path: PathBuf,
        /// Says why the device does not have it.
        why: String,
    },
    /// Reports that the NVRAM had to leave its device, and cannot lie in its spare place either.
    #[error("{why}the NVRAM cannot go on in its spare place: {error}")]
    NoSpareNvram {
        /// Says why it had to leave its device.
        why: String,
        /// Says why the other place cannot be had.
        error: Box<FilesError>,
    },
    /// Reports that the device is lost on which the NVRAM lay, and that members are missing as well.
    #[error(
        "{}: the NVRAM lies on it, and {why}; {members} members are missing as well, and {rows} rows were being written: bring the \
         device or the members back, or accept that what they held of such rows is lost (destage serve --accept-losses)",
        path.display()
    )]
    HomeAndMembersLost {
        /// Names the device's file.
        path: PathBuf,
        /// Says what is wrong with it.
        why: String,
        /// Counts the members that are missing or not filled.
        members: usize,
        /// Counts the rows that were being written.
        rows: usize,
    },
    /// Reports that the device on which the NVRAM lies cannot be replaced while the array is served.
    #[error(
        "{}: the NVRAM lies on it, without which nothing is served; stop the service, name another device in its place or \
         another place for the NVRAM, and start it again",
        .0.display()
    )]
    NvramThere(PathBuf),
    /// Reports that a device is missing: in the folder of devices no file is made.
    #[error("{} does not exist, and no file is made where devices are", .0.display())]
    NoSuchDevice(PathBuf),
    /// Reports that the NVRAM or the intents are lost, and no member has marks of rows that may be inconsistent.
    #[error(
        "{} is lost, and no member has whole marks of its own: which rows are consistent nobody knows; bring it back, or \
         make the array anew over its members (destage create --adopt, with all options)",
        .0.display()
    )]
    NoMarks(PathBuf),
    /// Reports that the NVRAM or the intents are lost, and with them the only copy of something.
    #[error(
        "{} is lost, and with the NVRAM {}; bring it back, or accept that (destage serve --accept-losses), and everything else is there",
        path.display(),
        match (data, notes) {
            (true, true) => "writes that were answered and are on no member, and the note of which pages were lost before",
            (true, false) => "writes that were answered and are on no member",
            _ => "the note of which pages were lost before: they would be answered with whatever the members have",
        }
    )]
    LostForGood {
        /// Names the file.
        path: PathBuf,
        /// Is true if writes may be lost.
        data: bool,
        /// Is true if the note is lost which pages were lost before.
        notes: bool,
    },
    /// Reports that a file is the NVRAM or the intents of before they were taken for lost.
    #[error(
        "{} is of epoch {found}, the members of epoch {expected}: it was taken for lost, and the array went on without it; \
         put the newer one back, or have NVRAM and intents given up once more (destage serve --accept-losses)",
        path.display()
    )]
    Outdated {
        /// Names the file.
        path: PathBuf,
        /// Gives the epoch of the file.
        found: u32,
        /// Gives the epoch of the array.
        expected: u32,
    },
    /// Reports that files of the array are of different times: copies were put back.
    #[error(
        "{} has event count {found}, {} has {expected}: an older copy was put back; put files of one time together, {}",
        list(older),
        list(newer),
        if *members {
            "or go on with the freshest members (destage assemble --force; without --force it says what that costs)"
        } else {
            "or give up NVRAM and intents, and what only they and the cache have (destage serve --accept-losses)"
        }
    )]
    Behind {
        /// Lists the older ones.
        older: Vec<PathBuf>,
        /// Gives the event count of the first of them.
        found: u64,
        /// Lists the newer ones.
        newer: Vec<PathBuf>,
        /// Gives the event count of the newest.
        expected: u64,
        /// Is true if members are among the older ones.
        members: bool,
    },
    /// Reports that another process, or another executor in this one, serves the array.
    #[error("{} is in use by another executor; end that first (destage stop)", .0.display())]
    InUse(PathBuf),
    /// Reports that a file which is to be a device of an array holds something.
    #[error(
        "{} holds data at byte {at}; if nobody needs it, {}",
        path.display(),
        if *block { "empty it first, as with blkdiscard --zeroout or wipefs --all" } else { "remove it first" }
    )]
    CarriesData {
        /// Names the device's file.
        path: PathBuf,
        /// Gives the first byte that is not zero.
        at: u64,
        /// Is true if it is a block device.
        block: bool,
    },
    /// Reports that a device whose content is adopted holds something at the place of its label.
    #[error(
        "{} holds data at byte {at}, behind its pages, which end at {end}: its label goes there; either the pages end \
         elsewhere, or the array has to be moved to a larger device first. If it is what an earlier destage create --adopt has \
         left that was cut short, remove it: {}",
        path.display(),
        removal.clone().unwrap_or_else(|| format!("look first whether it is yours, as with xxd -s {at} {}", path.display()))
    )]
    LabelsPlace {
        /// Names the device's file.
        path: PathBuf,
        /// Gives the first byte that is not zero.
        at: u64,
        /// Gives the byte at which its pages end.
        end: u64,
        /// Gives the command that removes it, if parts of a label are there.
        removal: Option<String>,
    },
    /// Reports that a device whose content is adopted is too short, or longer than its pages and a label.
    #[error(
        "{} is {found} bytes long; with {settings} its pages end at byte {end}, and {}",
        path.display(),
        if *block { format!("a block device needs room for a label behind them, up to byte {most}") }
        else { format!("it may be up to {most} long: nothing but its label goes there") }
    )]
    Room {
        /// Names the device's file.
        path: PathBuf,
        /// Counts the bytes that it has.
        found: u64,
        /// Gives the byte at which its pages end.
        end: u64,
        /// Gives the byte at which its label ends.
        most: u64,
        /// Is true if it is a block device.
        block: bool,
        /// Names the settings from which that follows, with their values.
        settings: String,
    },
    /// Reports that two of the array's files are the same.
    #[error("{} and {} are the same file", .0.display(), .1.display())]
    Same(PathBuf, PathBuf),
    /// Says that a file that is to take a device's place lies where another device of the array, which is lost, has its own.
    #[error("{} is the place of {owner} of this array, which is lost; name another file", path.display())]
    OthersPlace {
        /// Names the file.
        path: PathBuf,
        /// Says whose place it is.
        owner: String,
    },
    /// Reports that a device's own file cannot take its place again: a thread may still write to it.
    #[error("a thread is still at work on {}; try again when it has ended, or take another file", .0.display())]
    AtWork(PathBuf),
    /// Reports that a file does not answer, and may never do. The system may still carry out what was asked.
    #[error("{} does not answer; replace it, or name a file that is not there to go on without it", .0.display())]
    Hangs(PathBuf),
    /// Reports that what was asked of a device, the NVRAM or the intents took longer than it may.
    #[error("{}: no answer for {} s", path.display(), limit.as_secs_f64())]
    NoAnswer {
        /// Names its file.
        path: PathBuf,
        /// Gives how long it may take.
        limit: Duration,
    },
    /// Reports that a ring was asked for, and there is none.
    #[error("there is no io_uring here: {0}; set io to threads, or to auto to have them where there is no ring")]
    NoRing(io::Error),
    /// Reports that the ring takes nothing any more.
    #[error("cannot give operations to io_uring: {0}")]
    Ring(io::Error),
    /// Reports that something is not a regular file.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Reports that a file belongs to another device or another array.
    #[error("{} is {found}; in its place must be {expected}", path.display())]
    Stranger {
        /// Names the file.
        path: PathBuf,
        /// Says whose file it is.
        found: String,
        /// Says whose file it must be.
        expected: String,
    },
    /// Reports that a file belongs to an array that was made as something else.
    #[error("{} was made with {found}; it cannot be opened with {expected}", path.display())]
    Described {
        /// Names the file.
        path: PathBuf,
        /// Gives the label's description.
        found: String,
        /// Gives the configuration's description.
        expected: String,
    },
    /// Reports that a file has another size than the settings say.
    #[error("{} is {found} bytes long; with {settings} it must be {expected}", path.display())]
    Size {
        /// Names the file.
        path: PathBuf,
        /// Counts the bytes that it has.
        found: u64,
        /// Counts the bytes that it must have.
        expected: u64,
        /// Names the settings from which that follows, with their values.
        settings: String,
    },
    /// Reports that a block device has logical blocks of which an array's pages are not made.
    #[error(
        "{} has logical blocks of {block} bytes, and {found}, which is no multiple of that: take multiples of {block} for a new \
         array's --page and --data-offset, or a device with smaller blocks",
        path.display()
    )]
    Blocks {
        /// Gives the device.
        path: PathBuf,
        /// Gives the bytes of a logical block.
        block: u64,
        /// Says what is no multiple of that.
        found: String,
    },
    /// Reports that whoever had a new array made called that off.
    #[error("{}: making it read as zeros was called off; nothing is left of the array", .0.display())]
    CalledOff(PathBuf),
    /// Reports that a field of a file does not have the right value.
    #[error(
        "{}: {field} at byte {offset} is {found}; it must be {expected}. Put the array's file there, or move this one away: it \
         counts as missing then",
        path.display()
    )]
    Field {
        /// Names the file.
        path: PathBuf,
        /// Names the field, as the format's description does.
        field: &'static str,
        /// Gives its offset in the file, in bytes.
        offset: u64,
        /// Gives its value.
        found: String,
        /// Gives the right value.
        expected: String,
    },
    /// Reports that a file was made with another setting than it is opened with.
    #[error(
        "{} was made with {key} = {found}, as {field} at byte {offset} says; \
         it cannot be opened with {key} = {expected}",
        path.display()
    )]
    Setting {
        /// Names the file.
        path: PathBuf,
        /// Names the key of the setting.
        key: &'static str,
        /// Names the field that holds it, as the format's description does.
        field: &'static str,
        /// Gives its offset in the file, in bytes.
        offset: u64,
        /// Gives its value.
        found: u64,
        /// Gives the configuration's value.
        expected: u64,
    },
    /// Reports that a configuration is out of bounds.
    #[error("{key} = {found}; {expected}")]
    Config {
        /// Names the key.
        key: String,
        /// Gives its value.
        found: u64,
        /// Gives the rule that it breaks.
        expected: &'static str,
    },
    /// Reports that a request is outside of the array, or not made of sectors.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// Reports that a write came with more or less data than it says.
    #[error("a write of {expected} bytes came with {found} bytes of data")]
    Data {
        /// Counts the bytes of the request.
        expected: u64,
        /// Counts the bytes of data.
        found: u64,
    },
    /// Reports that whoever runs the array took a device out.
    #[error("{}: it was taken out by order", .0.display())]
    TakenOut(PathBuf),
    /// Reports that a member has a successor already.
    #[error("a member is being copied to {} already; wait until destage status says that it is replaced", .0.display())]
    Succeeded(PathBuf),
    /// Reports that a file is about to take its member's place, for which all members' marks must stay as they are.
    #[error("{} takes the place of member {} just now; try again when that has ended", .1.display(), .0.0)]
    HandsOver(Dev, PathBuf),
    /// Reports that a member cannot have a successor now.
    #[error("{}: it does not answer, is not filled, or the array is not ready: it cannot be copied", .0.display())]
    NotCopied(PathBuf),
    /// Reports that a member cannot be copied to its successor, since nothing makes up a page of it.
    #[error(
        "{} cannot read its page at byte {at}, and the others do not make it up; it stays in its place: write what lies there \
         anew, and replace it then",
        path.display()
    )]
    UnreadablePage {
        /// Names the member's file.
        path: PathBuf,
        /// Gives the page's first byte there.
        at: u64,
    },
    /// Reports that a member was lost before it was copied to its successor.
    #[error("{} was lost before it was copied", .0.display())]
    LostBefore(PathBuf),
    /// Reports that an array was stopped before a member was copied to its successor.
    #[error("the array is stopped before that")]
    StoppedBefore,
    /// Reports that there is no such device.
    #[error("there is no {0}")]
    NoDevice(Dev),
    /// Reports that a step asks a device to collect garbage, though the controller was told that it cannot.
    #[error("{0} is a file and collects nothing")]
    NoCollector(Dev),
    /// Reports that the controller does not start.
    #[error("the array cannot be started: {}", refusal(.0))]
    Refused(Box<Refusal>),
    /// Reports that the controller asks for something that the configuration does not provide.
    #[error("the controller uses {what} {found}, but {key} = {limit}")]
    Beyond {
        /// Names the kind of thing that it uses.
        what: &'static str,
        /// Gives its number.
        found: u64,
        /// Names the key that limits such numbers.
        key: &'static str,
        /// Gives the limit.
        limit: u64,
    },
    /// Reports that nothing is in flight and no timer is set, but requests are not answered: a fault of the
    /// controller.
    #[error("nothing is in flight and no timer is set, but work is under way:\n{0}")]
    Stalled(String),
    /// Reports that an earlier error ended this life.
    #[error("the executor has stopped after an earlier error; open the array again")]
    Stopped,
}

impl FilesError {
    pub(super) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), what, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn pages(lost: &LostPages) -> String {
    let named = lost.named().iter().map(|range| format!("{} to {}", range.first, range.end() - 1));
    // Only the first ranges have names; the rest is counted, so that a message
    // stays readable.
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if lost.unnamed() > 0 { format!(" and {} ranges more", lost.unnamed()) } else { String::new() };
    format!("{} pages of the array, {named}{more}", lost.pages())
}

fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::WriteHole { row, rows, lost } => format!(
            "{rows} rows, the first of them row {row}, may have been torn when the last life ended, and data of theirs is lost: \
             {}; bring the member back, or have them as accepted losses (destage serve --accept-losses)",
            pages(lost)
        ),
        Refusal::CacheLost { lost } => format!(
            "the cache device is lost that has, or had, what was written last and is on no member, of any of {}; bring the \
             device back, unless the array went on without it, or have all of them as accepted losses (destage serve --accept-losses), \
             and with them what was written before",
            pages(lost)
        ),
        Refusal::NvramDamaged { lost } => format!(
            "the NVRAM is damaged where it has what was written last, and is on no member, of {}; bring the NVRAM back, or have \
             them as accepted losses (destage serve --accept-losses), which leaves them as they were before that",
            pages(lost)
        ),
        Refusal::MembersLost { lost, tolerated } => {
            format!(
                "{lost} members are lost; the level can do without {tolerated}: bring one of them back, or go on with the freshest \
                 (destage assemble --force; without --force it says what that costs)"
            )
        }
        Refusal::Nvram => "the NVRAM holds what this version did not write; serve it with the destage that wrote it, and stop that in \
                           order (destage stop): without the NVRAM's file nothing is lost then"
            .to_owned(),
        Refusal::NoCollectors(_) => {
            "devices are to be told to collect garbage, and files cannot be; serve the array without ggc+".to_owned()
        }
    }
}
