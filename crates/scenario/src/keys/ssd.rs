//! Settings of simulated SSDs.

use destage_plan::{Nanos, PageGeometry, Quota};
use destage_sim::buffer::DeviceCapacity;
use destage_sim::input::LbaOverflow;
use destage_sim::ssd::{CollectionPoint, Ftl, ModernDesign, PageAllocation, SsdConfig, StartState, drive, presets};

use super::Result;
use super::cache::PAGES_PER_BLOCK;
use super::host::MAX_DEPTH;
use super::requests::SimulatedRequests;
use super::ssd_model::{self, SsdModel};
use super::ssd_modern;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::values::{decimal_text, parsed, thousandths, time_text, word};
use crate::{AppliesTo, RecordedPlace, ScenarioError, ScenarioSettings, SettingKey, TypedSetting};

/// Tells the size of an SSD as the settings give it.
pub(crate) enum SsdSize {
    /// So many bytes at least.
    Bytes(u64),
    /// Takes the size from what the trace touches.
    Fit,
    /// Takes the size from the preset and the other settings.
    Preset,
}

declare_settings! {
    /// Lists the settings of what an SSD holds at first and of addresses beyond its end.
    pub(super) table STATE_KEYS;

    pub(crate) const START: TypedSetting<StartState> = TypedSetting::one(
        "start",
        "full|empty|random[:SEED]|aged:TIMES[:SEED]|steady[:SEED]",
        "",
        AppliesTo::Ssd,
        "What the flash holds at first; random: all pages, written in random order; aged: TIMES random overwrites; \
         steady: as many as it takes until write amplification stays what it is [default: steady; full with log blocks, and for a \
         paper's SSD as the cache device of an array of other members]",
        start,
    )
    .recorded(RecordedPlace::Field);
    pub(crate) const LBA_OVERFLOW: TypedSetting<LbaOverflow> = TypedSetting::one(
        "lba-overflow",
        "wrap|filter|compact",
        "wrap",
        AppliesTo::Timed,
        "Addresses beyond the device: modulo its size, left out, or blocks in order of first touch",
        lba_overflow,
    );
}

declare_settings! {
    /// Lists the settings of the table `[ssd]`.
    pub(super) table KEYS;

    /// Holds the name of the preset of an SSD.
    pub const PRESET: TypedSetting<String> = TypedSetting::one(
        "ssd.preset",
        "NAME",
        "",
        AppliesTo::Ssd,
        "A drive, such as p5520, or a paper's SSD, such as gcar; docs/presets.md has all, and the other keys change it [default: pm9a3; \
         lawc with ssd.model = classic]",
        parsed,
    );
    pub(crate) const CAPACITY: TypedSetting<SsdSize> = TypedSetting::one(
        "ssd.capacity",
        "SIZE|fit|preset",
        "",
        AppliesTo::Ssd,
        "What the SSD exports at least; fit: what the trace touches (of a member its share, or member-size), its blocks in order of first touch if \
         they lie far apart; preset: as the preset and other keys say [default: fit, of a cache device before other members its cache; of the \
         classic model preset where a paper's ssd.preset, ssd.elements, ssd.planes, ssd.blocks-per-plane or lba-overflow is given, the \
         trace can be read only once, or it is the cache device of an array of other members]",
        size,
    );
    pub(crate) const FTL: TypedSetting<Ftl> = TypedSetting::one(
        "ssd.ftl",
        "page|bast|fast",
        "",
        AppliesTo::Ssd,
        "How pages are mapped: each anywhere, or blocks in place with log blocks, one for a block or for all [default: page]",
        ftl,
    );
    pub(crate) const LOG_BLOCKS: TypedSetting<u32> = TypedSetting::one(
        "ssd.log-blocks",
        "N",
        "",
        AppliesTo::Ssd,
        "With bast or fast: log blocks of an element, fast's sequential one included [default: all of the reserve but one block]",
        q::count32,
    );
    pub(crate) const ELEMENTS: TypedSetting<u32> = TypedSetting::one(
        "ssd.elements",
        "N",
        "",
        AppliesTo::Ssd,
        "Elements: packages that serve one operation at a time; modern: dies",
        q::count32,
    );
    pub(crate) const ALLOCATION: TypedSetting<PageAllocation> = TypedSetting::one(
        "ssd.allocation",
        "static|channels",
        "",
        AppliesTo::Ssd,
        "Where a page goes: an element by its address, or any, as channels that a buffer can choose from [default: static]",
        allocation,
    );
    pub(crate) const IDLE_FIRST: TypedSetting<bool> = TypedSetting::switch(
        "ssd.idle-first",
        "",
        AppliesTo::Ssd,
        "With channels: a page whose channel no buffer chooses goes to the one that is idle first, not in turn [default: false]",
    );
    pub(crate) const PLANES: TypedSetting<u32> = TypedSetting::one(
        "ssd.planes",
        "N",
        "",
        AppliesTo::Ssd,
        "Planes in an element; modern: planes of a die, programmed together",
        q::count32,
    );
    pub(crate) const BLOCKS_PER_PLANE: TypedSetting<u32> = TypedSetting::one(
        "ssd.blocks-per-plane",
        "N",
        "",
        AppliesTo::Ssd,
        "Erase blocks in a plane",
        q::count32,
    );
    pub(crate) const RESERVE: TypedSetting<u32> = TypedSetting::one(
        "ssd.reserve",
        "PERCENT",
        "",
        AppliesTo::Ssd,
        "Blocks of each plane that are not exported; modern: share of the flash [default: 15%; modern: the preset's]",
        q::basis_points,
    );
    pub(crate) const KEPT_BLOCKS: TypedSetting<u32> = TypedSetting::one(
        "ssd.kept-blocks",
        "N",
        "",
        AppliesTo::Ssd,
        "Blocks of each plane that are not exported beside that share [default: 0]",
        q::count32,
    );
    pub(crate) const MIN_FREE: TypedSetting<u32> = TypedSetting::one(
        "ssd.min-free",
        "PERCENT",
        "",
        AppliesTo::Ssd,
        "Free blocks at or below which an element collects [default: 5%]",
        q::basis_points,
    );
    pub(crate) const READ: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.read",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Reading a page; modern: sensing a flash page of 16 KiB [default: 25us; modern: the preset's]",
        q::time,
    );
    pub(crate) const PROGRAM: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.program",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Programming a page; modern: a unit, one word line of all planes of a die [default: 200us; modern: the preset's]",
        q::time,
    );
    pub(crate) const ERASE: TypedSetting<Nanos> = TypedSetting::one(
        "ssd.erase",
        "TIME",
        "",
        AppliesTo::Ssd,
        "Erasing a block; modern: one of 400 word lines, of which smaller ones take their share [default: 1.5ms; modern: the preset's]",
        q::time,
    );
    pub(crate) const TRANSFER: TypedSetting<u64> = TypedSetting::one(
        "ssd.transfer",
        "NS",
        "",
        AppliesTo::Ssd,
        "Moving a byte to or from an element, in ns; a sector moves 528 bytes; modern: a page moves its own [default: 25; modern: the preset's]",
        thousandths,
    );
    pub(crate) const COPY_BACK: TypedSetting<bool> = TypedSetting::switch(
        "ssd.copy-back",
        "",
        AppliesTo::Ssd,
        "Copy valid pages inside their plane; planes work in parallel [default: false]",
    );
    pub(crate) const BACKGROUND: TypedSetting<bool> = TypedSetting::switch(
        "ssd.background",
        "",
        AppliesTo::Ssd,
        "Collect once an element runs low, not when its next operation comes [default: false]",
    );
    pub(crate) const COLLECTION_BATCH: TypedSetting<Quota> = TypedSetting::one(
        "ssd.collection-batch",
        "watermark|N",
        "",
        AppliesTo::Ssd,
        "How much a collection cleans: blocks until more are free than one above the threshold (with copy-back one of a plane), or N \
         [default: watermark]",
        collection_batch,
    );
    pub(crate) const COLLECTION_WRITE_POINT: TypedSetting<CollectionPoint> = TypedSetting::one(
        "ssd.collection-write-point",
        "shared|own",
        "",
        AppliesTo::Ssd,
        "Where collection puts valid pages: behind those of hosts, or in active blocks of its own [default: shared; modern: own]",
        collection_point,
    );
    pub(crate) const PARALLEL_UNITS: TypedSetting<u32> = TypedSetting::one(
        "ssd.parallel-units",
        "N",
        "",
        AppliesTo::Ssd,
        "With copy-back: planes that can work at a time [default: all]",
        q::count32,
    );
    pub(crate) const STRIDE: TypedSetting<u32> = TypedSetting::one(
        "ssd.stride",
        "PAGES",
        "",
        AppliesTo::Ssd,
        "Consecutive pages on the same element [default: 1; with log blocks a block]",
        q::count32,
    );
    pub(crate) const SUMMARY_PAGE: TypedSetting<bool> = TypedSetting::switch(
        "ssd.summary-page",
        "",
        AppliesTo::Ssd,
        "The last page of each block holds no data [default: true; with log blocks false]",
    );
    pub(crate) const ENDURANCE: TypedSetting<u32> = TypedSetting::one(
        "ssd.endurance",
        "ERASES",
        "",
        AppliesTo::Ssd,
        "Erases that a block endures [default: 100000; modern: the preset's]",
        q::count32,
    );
    pub(crate) const QUEUE_DEPTH: TypedSetting<Option<u32>> = TypedSetting::one(
        "ssd.queue-depth",
        "N|none",
        "",
        AppliesTo::Ssd,
        "Commands that the device takes at a time; the others wait in the host, in order [default: none, no limit]",
        queue_depth,
    );
}

/// Random overwrites, in hundredths, with which a device may be aged: many times what a steady
/// state needs.
const MAX_OVERWRITES_PCT: u32 = 100_000;

fn start(text: &str) -> std::result::Result<StartState, String> {
    let seed = |text: &str| text.parse().ok();
    // The seed after a word, or 1.
    let seeded = |word: &str| match text.strip_prefix(word)? {
        "" => Some(1),
        rest => seed(rest.strip_prefix(':')?),
    };
    let random = || Some(StartState::Random { seed: seeded("random")? });
    let steady = || Some(StartState::Steady { seed: seeded("steady")? });
    let aged = || {
        let rest = text.strip_prefix("aged:")?;
        let (times, from) = rest.split_once(':').unwrap_or((rest, "1"));
        let overwrites_pct = u32::try_from(q::decimal(times.trim_end_matches('x'), 100).ok()?).ok()?;
        if overwrites_pct > MAX_OVERWRITES_PCT {
            return None;
        }
        Some(StartState::Aged { overwrites_pct, seed: seed(from)? })
    };
    match text {
        "full" => Ok(StartState::Full),
        "empty" => Ok(StartState::Empty),
        _ => random().or_else(aged).or_else(steady).ok_or_else(|| {
            "full, empty, random[:SEED], steady[:SEED], or aged:TIMES[:SEED] with at most 1000 times, such as aged:2.5 or \
             aged:3:42"
                .into()
        }),
    }
}

/// Reads the state in which an SSD begins.
pub(crate) fn start_state(settings: &ScenarioSettings, ftl: Ftl) -> Result<StartState> {
    let default = match ftl {
        Ftl::Page => StartState::Steady { seed: 1 },
        // Random writes are what log blocks are worst at: nobody would have them begin so.
        Ftl::Bast | Ftl::Fast => StartState::Full,
    };
    START.get_or(settings, default)
}

fn lba_overflow(text: &str) -> std::result::Result<LbaOverflow, String> {
    let words = [("wrap", LbaOverflow::Wrap), ("filter", LbaOverflow::Filter), ("compact", LbaOverflow::Compact)];
    word(text, &words)
}

/// Reads an SSD.
pub(crate) fn ssd(settings: &ScenarioSettings, geometry: PageGeometry) -> Result<SsdConfig> {
    let config = match ssd_model::chosen(settings)? {
        SsdModel::Classic => classic(settings, geometry)?,
        SsdModel::Modern => ssd_modern::ssd(settings, geometry)?,
    };
    let Some(SsdSize::Bytes(bytes)) = CAPACITY.optional(settings)? else { return Ok(config) };
    if BLOCKS_PER_PLANE.is_given(settings) {
        return Err(ScenarioError::new(
            "'ssd.blocks-per-plane' and 'ssd.capacity' both say how large the SSD is; leave one of them out",
        ));
    }
    config.with_pages(bytes.div_ceil(geometry.page_bytes()), geometry).map_err(ScenarioError::new)
}

/// Reads an SSD of the classic model.
fn classic(settings: &ScenarioSettings, geometry: PageGeometry) -> Result<SsdConfig> {
    let mut config = ssd_model::preset_by(settings, |name| {
        SsdConfig::preset(name, geometry).ok_or_else(|| {
            let modern = ssd_model::modern_alone();
            let names: Vec<_> = presets().map(|(name, _)| name).chain(modern).collect();
            format!("one of {}", names.join(", "))
        })
    })?;
    let c = &mut config;
    c.ftl = FTL.get_or(settings, c.ftl)?;
    c.log_blocks = LOG_BLOCKS.optional(settings)?;
    c.allocation = ALLOCATION.get_or(settings, c.allocation)?;
    // What a preset says of channels goes with them.
    c.idle_first &= c.allocation == PageAllocation::Channels && c.ftl == Ftl::Page;
    if c.ftl != Ftl::Page {
        if MIN_FREE.is_given(settings) {
            let message = format_args!(
                "'ssd.min-free' has no meaning with ssd.ftl = {}: log blocks are merged when a write needs one",
                c.ftl.word()
            );
            return Err(ScenarioError::new(message));
        }
        // A block in place has room for its pages only, and lies on one element.
        c.summary_page = false;
        if c.allocation == PageAllocation::Static {
            c.stride = u32::try_from(PAGES_PER_BLOCK.get(settings)?).unwrap_or(u32::MAX);
        }
    }
    let numbers = [
        (ELEMENTS, &mut c.elements),
        (PLANES, &mut c.planes),
        (BLOCKS_PER_PLANE, &mut c.blocks_per_plane),
        (KEPT_BLOCKS, &mut c.kept_blocks),
        (STRIDE, &mut c.stride),
        (ENDURANCE, &mut c.endurance),
        (RESERVE, &mut c.reserve_bp),
        (MIN_FREE, &mut c.min_free_bp),
    ];
    for (setting, field) in numbers {
        *field = setting.get_or(settings, *field)?;
    }
    for (setting, field) in [(READ, &mut c.read), (PROGRAM, &mut c.program), (ERASE, &mut c.erase)] {
        *field = setting.get_or(settings, *field)?;
    }
    let switches = [
        (COPY_BACK, &mut c.copy_back),
        (BACKGROUND, &mut c.background),
        (IDLE_FIRST, &mut c.idle_first),
        (SUMMARY_PAGE, &mut c.summary_page),
    ];
    for (setting, field) in switches {
        *field = setting.get_or(settings, *field)?;
    }
    c.collection_batch = COLLECTION_BATCH.get_or(settings, c.collection_batch)?;
    c.collection_write_point = COLLECTION_WRITE_POINT.get_or(settings, c.collection_write_point)?;
    c.transfer_ps_per_byte = TRANSFER.get_or(settings, c.transfer_ps_per_byte)?;
    c.lanes = PARALLEL_UNITS.get_or(settings, c.planes)?;
    c.queue_depth = QUEUE_DEPTH.get_or(settings, c.queue_depth)?;
    Ok(config)
}

/// Returns the settings that follow from an SSD, and their values.
pub(crate) fn followed(
    config: &SsdConfig,
    start: &StartState,
    capacity: Option<DeviceCapacity>,
) -> Vec<(&'static str, String)> {
    let share = |bp: u32| format!("{}%", decimal_text(bp.into(), 100));
    if let Some(modern) = &config.modern {
        let mut values = ssd_modern::followed(config, modern);
        values.push((START.name(), start.to_string()));
        // Before members that are no SSDs a drive is as large as its cache.
        if !matches!(capacity, Some(DeviceCapacity::Given)) {
            values.push((CAPACITY.name(), "fit".to_owned()));
        }
        return values;
    }
    let mut values = vec![
        (START.name(), start.to_string()),
        (FTL.name(), config.ftl.word().to_owned()),
        (ELEMENTS.name(), config.elements.to_string()),
        (ALLOCATION.name(), config.allocation.word().to_owned()),
        (IDLE_FIRST.name(), config.idle_first.to_string()),
        (KEPT_BLOCKS.name(), config.kept_blocks.to_string()),
        (PLANES.name(), config.planes.to_string()),
        (RESERVE.name(), share(config.reserve_bp)),
        (READ.name(), time_text(config.read)),
        (PROGRAM.name(), time_text(config.program)),
        (ERASE.name(), time_text(config.erase)),
        (TRANSFER.name(), decimal_text(config.transfer_ps_per_byte, 1000)),
        (COPY_BACK.name(), config.copy_back.to_string()),
        (BACKGROUND.name(), config.background.to_string()),
        (PARALLEL_UNITS.name(), config.lanes.to_string()),
        (STRIDE.name(), config.stride.to_string()),
        (SUMMARY_PAGE.name(), config.summary_page.to_string()),
        (ENDURANCE.name(), config.endurance.to_string()),
        (QUEUE_DEPTH.name(), config.queue_depth.map_or_else(|| "none".to_owned(), |depth| depth.to_string())),
    ];
    if config.ftl == Ftl::Page {
        values.push((MIN_FREE.name(), share(config.min_free_bp)));
        let batch = match config.collection_batch {
            Quota::Watermark => "watermark".to_owned(),
            Quota::Blocks(blocks) => blocks.to_string(),
        };
        values.push((COLLECTION_BATCH.name(), batch));
        values.push((COLLECTION_WRITE_POINT.name(), config.collection_write_point.word().to_owned()));
    }
    values.push(match capacity {
        Some(DeviceCapacity::Fit | DeviceCapacity::Of(_)) => (CAPACITY.name(), "fit".to_owned()),
        _ => (BLOCKS_PER_PLANE.name(), config.blocks_per_plane.to_string()),
    });
    values
}

fn ftl(text: &str) -> std::result::Result<Ftl, String> {
    word(text, &Ftl::ALL.map(|ftl| (ftl.word(), ftl)))
}

fn allocation(text: &str) -> std::result::Result<PageAllocation, String> {
    word(text, &[PageAllocation::Static, PageAllocation::Channels].map(|allocation| (allocation.word(), allocation)))
}

fn collection_batch(text: &str) -> std::result::Result<Quota, String> {
    match (text, q::count32(text)) {
        ("watermark", _) => Ok(Quota::Watermark),
        (_, Ok(blocks)) if blocks > 0 => Ok(Quota::Blocks(blocks)),
        _ => Err("watermark, or a number of blocks from 1 on".into()),
    }
}

fn collection_point(text: &str) -> std::result::Result<CollectionPoint, String> {
    word(text, &CollectionPoint::ALL.map(|point| (point.word(), point)))
}

fn queue_depth(text: &str) -> std::result::Result<Option<u32>, String> {
    match (text, q::count32(text)) {
        ("none", _) => Ok(None),
        (_, Ok(depth)) if (1..=MAX_DEPTH).contains(&depth) => Ok(Some(depth)),
        _ => Err(format!("none, or a number between 1 and {MAX_DEPTH}")),
    }
}

fn size(text: &str) -> std::result::Result<SsdSize, String> {
    match text {
        "fit" => Ok(SsdSize::Fit),
        "preset" => Ok(SsdSize::Preset),
        _ => match q::bytes(text) {
            Ok(bytes) if bytes > 0 => Ok(SsdSize::Bytes(bytes)),
            _ => Err("a size such as 512GiB, fit or preset".into()),
        },
    }
}

/// Settings that say how large an SSD is, or what becomes of what lies beyond it. The size of a paper's SSD is part of
/// what is reproduced; a drive stands for its kind.
const SIZED: [SettingKey; 5] = [PRESET.key(), ELEMENTS.key(), PLANES.key(), BLOCKS_PER_PLANE.key(), LBA_OVERFLOW.key()];

/// Returns true if the preset is a drive, of whichever model.
fn is_drive(settings: &ScenarioSettings) -> Result<bool> {
    ssd_model::preset_by(settings, |name| Ok::<_, String>(drive(name).is_some() || ModernDesign::named(name).is_some()))
}

/// Returns those of [`SIZED`] behind the preset that say how large an SSD of the chosen model is: a modern drive has as many
/// dies and planes whatever its size.
fn sizing(settings: &ScenarioSettings, up_to: usize) -> Result<&'static [SettingKey]> {
    const OF_SIZE: &[SettingKey] = &SIZED;
    let from = if ssd_model::is_modern(settings)? { 3 } else { 1 };
    Ok(&OF_SIZE[from..up_to])
}

/// Returns true if a drive is chosen without a size, or is to fit the trace.
pub(crate) fn fits(settings: &ScenarioSettings) -> Result<bool> {
    let is_drive = is_drive(settings)?;
    Ok(match CAPACITY.optional(settings)? {
        Some(SsdSize::Fit) => true,
        None => is_drive && sizing(settings, 4)?.iter().all(|key| !settings.is_given(key)),
        Some(SsdSize::Bytes(_) | SsdSize::Preset) => false,
    })
}

/// Returns the capacity of an SSD: given, or fitted to the trace.
pub(crate) fn capacity(settings: &ScenarioSettings, requests: &SimulatedRequests) -> Result<DeviceCapacity> {
    array_capacity(settings, requests, false)
}

/// Returns the capacity of an array's SSDs: given, fitted to the trace, or as much as is used of each member.
pub(crate) fn array_capacity(
    settings: &ScenarioSettings,
    requests: &SimulatedRequests,
    sized: bool,
) -> Result<DeviceCapacity> {
    let decided = if sized { &SIZED[3..4] } else { &SIZED[3..] };
    if let Some(SsdSize::Fit) = CAPACITY.optional(settings)? {
        if let Some(key) = decided.iter().find(|key| settings.is_given(key)) {
            return Err(ScenarioError::new(format_args!(
                "'{}' has no meaning with ssd.capacity = fit, which decides it: leave one of them out",
                key.name
            )));
        }
        if !sized && !requests.can_be_read_again() {
            return Err(ScenarioError::new(
                "ssd.capacity = fit reads the trace twice, and this one can be read only once: give a file, or a size",
            ));
        }
        return Ok(DeviceCapacity::Fit);
    }
    if !sized && CAPACITY.optional(settings)?.is_none() && ssd_model::is_modern(settings)? {
        // A whole drive takes GiB of memory and minutes to become steady: that is done where it is asked for.
        if LBA_OVERFLOW.is_given(settings) {
            return Err(ScenarioError::new(
                "'lba-overflow' has no meaning where the drive is as large as the trace needs: leave it out, or give ssd.capacity, \
                 such as 8GiB, or preset for all of the drive",
            ));
        }
        if !requests.can_be_read_again() {
            return Err(ScenarioError::new(
                "the trace can be read only once, so no drive can be made to fit it: give a file, or ssd.capacity, such as \
                 8GiB, or preset for all of the drive",
            ));
        }
    }
    let up_to = if sized { 4 } else { 5 };
    let of_size = if is_drive(settings)? { sizing(settings, up_to)? } else { &SIZED[..up_to] };
    let given = CAPACITY.optional(settings)?.is_some() || of_size.iter().any(|key| settings.is_given(key));
    Ok(if given || !sized && !requests.can_be_read_again() { DeviceCapacity::Given } else { DeviceCapacity::Fit })
}
