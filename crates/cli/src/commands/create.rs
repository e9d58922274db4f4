//! `destage create`: a new array.

use std::fmt;
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use destage_cache::in_files;
use destage_engine::settings::{
    ArraySetting, CHUNK, DURABILITY, LAYOUT, LEVEL, MEMBER_SIZE, PAGE, PARITY, STRIPE_CACHE,
};
use destage_engine::{
    ArrayDescription, ArrayPart, ByteSize, CachePart, MdArray, NvramPart, Uuid, ZeroingProgress, ZeroingWatch,
};
use destage_plan::quantity::{self, show_bytes};

use super::free_space::{SpaceShortage, shortages};
use super::served::array_arg;
use crate::flags::of_array;
use crate::screen::{self, TerminalScreen};
use crate::share_bar::ShareBar;
use crate::signals;

/// The command.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("create")
        .about("Make an array with a cache before it, to be served as a block device")
        .after_help("Nothing that is there is overwritten but what is of the array that --overwrite names. docs/service.md describes what is made.")
        .arg(array_arg().help("The folder that is to hold it, or a description of another name in some folder"))
        .arg(
            Arg::new("dev")
                .long("dev")
                .action(ArgAction::SetTrue)
                .help("A small array to try things with: raid5:4 with members of 256 MiB behind kdd of 64 MiB"),
        )
        .arg(of_array(&LEVEL))
        .arg(of_array(&LAYOUT))
        .arg(of_array(&CHUNK))
        .arg(of_array(&PAGE))
        .arg(of_array(&MEMBER_SIZE))
        .arg(text("data-offset", "SIZE").help("Bytes before that, where md has its superblock [default: as mdadm]"))
        .arg(
            text("member", "FILE")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The members' files or block devices, from member 0 on [default: member0, member1, ... in the folder]"),
        )
        .arg(text("policy", "POLICY").help("The cache, such as kdd or write-back:dirty=50% [default: none]"))
        .arg(text("cache", "SIZE").help("The cache's size"))
        .arg(
            text("cache-device", "FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The file or block device of the cache [default: cache in the folder]"),
        )
        .arg(
            text("nvram", "FILE|cache-device")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help(
                    "The file or block device of the NVRAM, or on the cache's device behind what that has [default: \
                     cache-device if that is a block device, else nvram in the folder]",
                ),
        )
        .arg(
            Arg::new("adopt").long("adopt").action(ArgAction::SetTrue).requires("member").help(
                "Members keep what they hold, data and parity, as md has left them: what md's superblocks say need not \
                 be given, nor the members' order",
            ),
        )
        .arg(
            text("overwrite", "UUID").value_parser(value_parser!(Uuid)).conflicts_with("adopt").help(
                "Give up the array that is described there, if this is its UUID, with all that it holds: its files are \
                 removed, and its block devices made anew",
            ),
        )
        .arg(of_array(&PARITY))
        .arg(of_array(&DURABILITY))
        .arg(of_array(&STRIPE_CACHE).default_value(None::<&str>).help(format!(
            "{} [default: {} where there is parity]",
            STRIPE_CACHE.created.help,
            show_bytes(ArrayPart::STRIPE_CACHE_BYTES)
        )))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let given = matches.get_one::<PathBuf>("array").context("the array is missing")?;
    let path = if given.extension().is_some_and(|extension| extension == "toml") {
        // A description of another name lets several arrays share a folder.
        given.clone()
    } else {
        given.join("array.toml")
    };
    let dev = matches.get_flag("dev");
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let or_dev = |name: &str, default: &'static str| text(name).or(dev.then_some(default));
    let size = |name: &str, text: &str| {
        quantity::bytes(text).map(ByteSize).map_err(|right| anyhow::anyhow!("--{name} {text}: {right}"))
    };
    let mut files: Vec<PathBuf> = matches.get_many("member").unwrap_or_default().cloned().collect();
    let adopt = matches.get_flag("adopt");
    // Md's superblocks tell more than a user remembers; whatever is given as well must agree.
    let md = if adopt { MdArray::read(&files)? } else { None };
    let level = or_dev(LEVEL.created.name, "raid5:4").map(|text| read(&LEVEL, text)).transpose()?;
    let level = level.map(|(level, members)| ShownLevel(level, members));
    let of_md = md.as_ref().map(|md| ShownLevel(md.level, md.members.len() as u32));
    let Some(ShownLevel(level, members)) = agreed(LEVEL.created.name, level, of_md)? else {
        bail!("--level is missing: a level and its members, such as raid5:5; --dev makes a small array to try");
    };
    let member_size = or_dev(MEMBER_SIZE.created.name, "256MiB").map(|text| read(&MEMBER_SIZE, text).map(ByteSize));
    let of_md = md.as_ref().map(|md| md.member_size);
    let Some(member_size) = agreed(MEMBER_SIZE.created.name, member_size.transpose()?, of_md)? else {
        bail!("--member-size is missing: what is used of each member, such as 100GiB");
    };
    let is_asked = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let chunk = ByteSize(value(matches, &CHUNK)?);
    let asked = is_asked(CHUNK.created.name).then_some(chunk);
    let chunk = agreed(CHUNK.created.name, asked, md.as_ref().and_then(|md| md.chunk))?.unwrap_or(chunk);
    let layout = text(LAYOUT.created.name).map(LAYOUT.parse).transpose().map_err(anyhow::Error::msg)?;
    let layout = agreed(LAYOUT.created.name, layout, md.as_ref().and_then(|md| md.layout))?;
    let offset = text("data-offset").map(|text| size("data-offset", text)).transpose()?;
    let offset = agreed("data-offset", offset, md.as_ref().map(|md| md.data_offset))?;
    let origin = md.as_ref().map(|md| md.origin.clone());
    if let Some(md) = md {
        files = md.members;
    }
    if !files.is_empty() && files.len() != members as usize {
        bail!("--member: {} files are given; {level}:{members} has {members} members", files.len());
    }
    // A relative name starts here, while names in the description start at its folder.
    let absolute = |path: PathBuf| std::path::absolute(&path).with_context(|| path.display().to_string());
    let files = if files.is_empty() {
        (0..members).map(|number| format!("member{number}").into()).collect()
    } else {
        files.into_iter().map(absolute).collect::<Result<_>>()?
    };
    let policy = or_dev("policy", "kdd").unwrap_or("none");
    let policy = in_files(policy).with_context(|| format!("--policy {policy}"))?;
    // The size belongs to the default policy: another one may have no size, and is refused with one.
    let default_size = (dev && text("policy").is_none()).then_some("64MiB");
    let cache_size = text("cache").or(default_size).map(|text| size("cache", text)).transpose()?;
    let device = matches.get_one::<PathBuf>("cache-device").cloned().map(absolute).transpose()?;
    let array = ArrayPart {
        level,
        layout,
        chunk,
        page: ByteSize(value(matches, &PAGE)?),
        md: origin,
        member_size,
        // The place that mdadm would choose, so md and destage can take over each other's members.
        data_offset: offset.unwrap_or_else(|| ArrayPart::data_offset_of(member_size, chunk)),
        parity: value(matches, &PARITY)?,
        durability: value(matches, &DURABILITY)?,
        members: files,
    };
    let mut cache = CachePart { policy, size: cache_size, device };
    // Only caches that need a device get one: a file that nothing uses would take room.
    if cache.device.is_none() && cache.has_device()? {
        cache.device = Some("cache".into());
    }
    let nvram = match matches.get_one::<PathBuf>("nvram").cloned() {
        Some(place) if place == Path::new(ON_CACHE) => Some(NvramPart::on_cache_device()),
        Some(path) => Some(NvramPart::own(absolute(path)?)),
        // An NVRAM in a file would lie on some other disk, which may be slower than the cache's.
        None => cache.device.as_deref().filter(|path| is_block_device(path)).map(|_| NvramPart::on_cache_device()),
    };
    let mut description = ArrayDescription::new(array, cache);
    description.serve.stripe_cache = match text(STRIPE_CACHE.created.name) {
        Some(text) => read(&STRIPE_CACHE, text)?,
        None => description.array.stripe_cache(),
    };
    if let Some(nvram) = nvram {
        description.nvram = nvram;
    }
    let (watch, called_off) = watch();
    let made = match matches.get_one::<Uuid>("overwrite") {
        Some(uuid) => description.create_over(&path, *uuid, watch),
        None if adopt => description.adopt(&path, watch),
        None => description.create(&path, watch),
    };
    let signal = called_off.load(Ordering::Relaxed);
    // Called off by a signal: everything is removed by now, and the exit status tells the signal.
    if made.is_err() && signal != 0 {
        signals::end_now(signal);
    }
    let made = made?;
    let mut rows = vec![
        ("array", path.display().to_string()),
        ("uuid", description.uuid.to_string()),
        ("level", format!("{level}:{members}")),
        ("data", show_bytes(made.bytes)),
        ("cache", made.policy),
    ];
    if description.nvram.on.is_some() {
        rows.push(("nvram", "on the cache's device".to_owned()));
    }
    if adopt {
        let paths: Vec<String> = description.array.members.iter().map(|path| path.display().to_string()).collect();
        rows.push(("members, as they are", paths.join(", ")));
    }
    TerminalScreen::stderr().pairs(rows)?;
    warn_of_shortages(&description, &path);
    Ok(())
}

/// Shows how far block devices read as zeros. A signal calls the rest off, and its number is kept; another ends the program.
fn watch() -> (ZeroingWatch, Arc<AtomicI32>) {
    let called_off = Arc::new(AtomicI32::new(0));
    let heard = Arc::clone(&called_off);
    signals::call(move |signal| {
        // A second signal means that the user does not want to wait for the clean-up.
        if heard.swap(signal, Ordering::Relaxed) != 0 {
            signals::end_now(signal);
        }
    });
    let (heard, mut bar) = (Arc::clone(&called_off), None);
    let watch = Box::new(move |progress: ZeroingProgress<'_>| {
        let ZeroingProgress { path, done_bytes, all_bytes } = progress;
        let words = format!("zeros on {}, {} of {}", path.display(), show_bytes(done_bytes), show_bytes(all_bytes));
        bar.get_or_insert_with(ShareBar::new).show(done_bytes as f64 / all_bytes.max(1) as f64, words);
        if heard.load(Ordering::Relaxed) == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    (watch, called_off)
}

/// Warns of file systems on which the array's files will find no room when they are full. The array is made all the same.
fn warn_of_shortages(description: &ArrayDescription, path: &Path) {
    let folder = path.parent().unwrap_or(Path::new(""));
    let files = description.array.members.iter().chain(&description.cache.device);
    // Members are sparse files, so a file system may promise more room than it has.
    let files: Vec<PathBuf> = files.map(|file| folder.join(file)).collect();
    match shortages(files.iter().map(PathBuf::as_path)) {
        Ok(shortages) => {
            for SpaceShortage { folder, needed, free } in shortages {
                screen::warn(format_args!(
                    "the files may come to take {} more, and the file system of {} has {} free; when that is full, the array stops until there is room",
                    show_bytes(needed),
                    folder.display(),
                    show_bytes(free)
                ));
            }
        }
        Err(error) => {
            screen::warn(format_args!("nobody knows whether there is room for all that the files may hold: {error}"));
        }
    }
}

/// The place of the NVRAM that is no file.
const ON_CACHE: &str = "cache-device";

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Reads the value of an array's setting.
fn read<T>(setting: &ArraySetting<T>, text: &str) -> Result<T> {
    (setting.parse)(text).map_err(|right| anyhow::anyhow!("--{} {text}: {right}", setting.created.name))
}

/// Reads an array's setting that has a value.
fn value<T>(matches: &ArgMatches, setting: &ArraySetting<T>) -> Result<T> {
    let text = matches.get_one::<String>(setting.created.name);
    read(setting, text.map_or(setting.default, String::as_str))
}

/// A level and its members.
#[derive(PartialEq, Eq)]
struct ShownLevel<L>(L, u32);

impl<L: fmt::Display> fmt::Display for ShownLevel<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

/// Returns the value that was given, or else that of md's superblocks.
///
/// # Errors
/// If both are there and differ.
fn agreed<T: PartialEq + fmt::Display>(name: &str, given: Option<T>, md: Option<T>) -> Result<Option<T>> {
    match (given, md) {
        (Some(given), Some(md)) if given != md => bail!("--{name} {given}: md's superblocks say {md}"),
        (given, md) => Ok(given.or(md)),
    }
}
