//! Settings of simulated SSDs.

use destage_plan::PageGeometry;
use destage_sim::buffer::Capacity;
use destage_sim::input::LbaOverflow;
use destage_sim::ssd::{Allocation, Ftl, SsdConfig, StartState, drive, presets};

use super::host::MAX_DEPTH;
use super::requests::Requests;
use super::{Result, word};
use crate::quantity as q;
use crate::{AppliesTo, Key, Recorded, ScenarioError, Settings};

/// Lists the settings of what an SSD holds at first and of addresses beyond its end.
pub(super) const STATE_KEYS: &[Key] = &[
    Key::one(
        "start",
        "full|empty|random[:SEED]|aged:TIMES[:SEED]|steady[:SEED]",
        "",
        AppliesTo::Ssd,
        "What the flash holds at first; random: all pages, written in random order; aged: TIMES random overwrites; \
         steady: as many as it takes until write amplification stays what it is [default: steady; full with log blocks, and for the \
         cache device of an array of other members]",
    )
    .recorded(Recorded::Field),
    Key::one(
        "lba-overflow",
        "wrap|filter|compact",
        "wrap",
        AppliesTo::Timed,
        "Addresses beyond the device: modulo its size, left out, or blocks in order of first touch",
    ),
];

/// Lists the settings of the table `[ssd]`.
pub(super) const KEYS: &[Key] = &[
    Key::one(
        "ssd.preset",
        "NAME",
        "lawc",
        AppliesTo::Ssd,
        "A paper's SSD, lawc, gcar, cawr or 80gb, or a drive, pm9a3, 980pro, 850evo or p4320; the other keys change it",
    ),
    Key::one(
        "ssd.capacity",
        "SIZE|fit|preset",
        "",
        AppliesTo::Ssd,
        "What the SSD exports at least, by blocks of each plane; fit: what the trace touches (of a member its share, or member-size), its blocks in order of first touch if \
         they lie far apart; preset: as the preset and other keys say [default: fit; preset where a paper's ssd.preset, ssd.elements, \
         ssd.planes, ssd.blocks-per-plane or lba-overflow is given, the trace can be read only once, or it is the cache device of an \
         array of other members]",
    ),
    Key::one(
        "ssd.ftl",
        "page|bast|fast",
        "",
        AppliesTo::Ssd,
        "How pages are mapped: each anywhere, or blocks in place with log blocks, one for a block or for all [default: page]",
    ),
    Key::one(
        "ssd.log-blocks",
        "N",
        "",
        AppliesTo::Ssd,
        "With bast or fast: log blocks of an element, fast's sequential one included [default: all of the reserve but one block]",
    ),
    Key::one("ssd.elements", "N", "", AppliesTo::Ssd, "Elements (packages), each serving one operation at a time"),
    Key::one(
        "ssd.allocation",
        "static|channels",
        "",
        AppliesTo::Ssd,
        "Where a page goes: an element by its address, or any, as channels that a buffer can choose from [default: static]",
    ),
    Key::switch(
        "ssd.idle-first",
        "",
        AppliesTo::Ssd,
        "With channels: a page whose channel no buffer chooses goes to the one that is idle first, not in turn [default: false]",
    ),
    Key::one("ssd.planes", "N", "", AppliesTo::Ssd, "Planes in an element"),
    Key::one("ssd.blocks-per-plane", "N", "", AppliesTo::Ssd, "Erase blocks in a plane"),
    Key::one("ssd.reserve", "PERCENT", "", AppliesTo::Ssd, "Blocks of each plane that are not exported [default: 15%]"),
    Key::one(
        "ssd.kept-blocks",
        "N",
        "",
        AppliesTo::Ssd,
        "Blocks of each plane that are not exported beside that share [default: 0]",
    ),
    Key::one(
        "ssd.min-free",
        "PERCENT",
        "",
        AppliesTo::Ssd,
        "Free blocks at or below which an element collects [default: 5%]",
    ),
    Key::one("ssd.read", "TIME", "", AppliesTo::Ssd, "Reading a page [default: 25us]"),
    Key::one("ssd.program", "TIME", "", AppliesTo::Ssd, "Programming a page [default: 200us]"),
    Key::one("ssd.erase", "TIME", "", AppliesTo::Ssd, "Erasing a block [default: 1.5ms]"),
    Key::one(
        "ssd.transfer",
        "NS",
        "",
        AppliesTo::Ssd,
        "Moving a byte to or from an element, in ns; a sector moves 528 [default: 25]",
    ),
    Key::switch(
        "ssd.copy-back",
        "",
        AppliesTo::Ssd,
        "Copy valid pages inside their plane; planes work in parallel [default: false]",
    ),
    Key::switch(
        "ssd.background",
        "",
        AppliesTo::Ssd,
        "Collect once an element runs low, not when its next operation comes [default: false]",
    ),
    Key::one(
        "ssd.parallel-units",
        "N",
        "",
        AppliesTo::Ssd,
        "With copy-back: planes that can work at a time [default: all]",
    ),
    Key::one(
        "ssd.stride",
        "PAGES",
        "",
        AppliesTo::Ssd,
        "Consecutive pages on the same element [default: 1; with log blocks a block]",
    ),
    Key::switch(
        "ssd.summary-page",
        "",
        AppliesTo::Ssd,
        "The last page of each block holds no data [default: true; with log blocks false]",
    ),
    Key::one("ssd.endurance", "ERASES", "", AppliesTo::Ssd, "Erases that a block endures [default: 100000]"),
    Key::one(
        "ssd.queue-depth",
        "N|none",
        "",
        AppliesTo::Ssd,
        "Commands that the device takes at a time; the others wait in the host, in order [default: none, no limit]",
    ),
];

/// Random overwrites, in hundredths, with which a device may be aged: many times what a steady
/// state needs.
const MAX_OVERWRITES_PCT: u32 = 100_000;

pub(crate) fn start(text: &str) -> std::result::Result<StartState, String> {
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

/// The state in which an SSD begins, unless one is given.
pub(crate) const fn default_start(ftl: Ftl) -> StartState {
    match ftl {
        Ftl::Page => StartState::Steady { seed: 1 },
        // Random writes are what log blocks are worst at: nobody would have them begin so.
        Ftl::Bast | Ftl::Fast => StartState::Full,
    }
}

pub(crate) fn lba_overflow(settings: &Settings) -> Result<LbaOverflow> {
    let words = [("wrap", LbaOverflow::Wrap), ("filter", LbaOverflow::Filter), ("compact", LbaOverflow::Compact)];
    settings.one("lba-overflow", word(&words))
}

pub(crate) fn ssd(settings: &Settings, geometry: PageGeometry) -> Result<SsdConfig> {
    let mut config = settings.one("ssd.preset", |name| {
        SsdConfig::preset(name, geometry).ok_or_else(|| {
            let names: Vec<_> = presets().map(|(name, _)| name).collect();
            format!("one of {}", names.join(", "))
        })
    })?;
    let c = &mut config;
    let words = Ftl::ALL.map(|ftl| (ftl.word(), ftl));
    c.ftl = settings.optional("ssd.ftl", word(&words))?.unwrap_or(c.ftl);
    c.log_blocks = settings.optional("ssd.log-blocks", q::count32)?;
    let words = [Allocation::Static, Allocation::Channels].map(|allocation| (allocation.word(), allocation));
    c.allocation = settings.optional("ssd.allocation", word(&words))?.unwrap_or(c.allocation);
    // What a preset says of channels goes with them.
    c.idle_first &= c.allocation == Allocation::Channels && c.ftl == Ftl::Page;
    if c.ftl != Ftl::Page {
        if settings.is_given("ssd.min-free") {
            let message = format_args!(
                "'ssd.min-free' has no meaning with ssd.ftl = {}: log blocks are merged when a write needs one",
                c.ftl.word()
            );
            return Err(ScenarioError::new(message));
        }
        // A block in place has room for its pages only, and lies on one element.
        c.summary_page = false;
        if c.allocation == Allocation::Static {
            let pages_per_block = settings.one("pages-per-block", q::count)?;
            c.stride = u32::try_from(pages_per_block).unwrap_or(u32::MAX);
        }
    }
    let numbers = [
        ("ssd.elements", &mut c.elements),
        ("ssd.planes", &mut c.planes),
        ("ssd.blocks-per-plane", &mut c.blocks_per_plane),
        ("ssd.kept-blocks", &mut c.kept_blocks),
        ("ssd.stride", &mut c.stride),
        ("ssd.endurance", &mut c.endurance),
    ];
    for (name, field) in numbers {
        *field = settings.optional(name, q::count32)?.unwrap_or(*field);
    }
    let shares = [("ssd.reserve", &mut c.reserve_bp), ("ssd.min-free", &mut c.min_free_bp)];
    for (name, field) in shares {
        *field = settings.optional(name, q::basis_points)?.unwrap_or(*field);
    }
    let times = [("ssd.read", &mut c.read), ("ssd.program", &mut c.program), ("ssd.erase", &mut c.erase)];
    for (name, field) in times {
        *field = settings.optional(name, q::time)?.unwrap_or(*field);
    }
    let switches = [
        ("ssd.copy-back", &mut c.copy_back),
        ("ssd.background", &mut c.background),
        ("ssd.idle-first", &mut c.idle_first),
        ("ssd.summary-page", &mut c.summary_page),
    ];
    for (name, field) in switches {
        *field = settings.optional(name, q::switch)?.unwrap_or(*field);
    }
    let transfer = settings.optional("ssd.transfer", |text| q::decimal(text, 1000))?;
    c.transfer_ps_per_byte = transfer.unwrap_or(c.transfer_ps_per_byte);
    c.lanes = settings.optional("ssd.parallel-units", q::count32)?.unwrap_or(c.planes);
    c.queue_depth = settings.optional("ssd.queue-depth", queue_depth)?.unwrap_or(c.queue_depth);
    let Some(Size::Bytes(bytes)) = size(settings)? else { return Ok(config) };
    if settings.is_given("ssd.blocks-per-plane") {
        return Err(ScenarioError::new(
            "'ssd.blocks-per-plane' and 'ssd.capacity' both say how large the SSD is; leave one of them out",
        ));
    }
    config.with_pages(bytes.div_ceil(geometry.page_bytes()), geometry).map_err(ScenarioError::new)
}

fn queue_depth(text: &str) -> std::result::Result<Option<u32>, String> {
    match (text, q::count32(text)) {
        ("none", _) => Ok(None),
        (_, Ok(depth)) if (1..=MAX_DEPTH).contains(&depth) => Ok(Some(depth)),
        _ => Err(format!("none, or a number between 1 and {MAX_DEPTH}")),
    }
}

/// What is said of the size of an SSD.
enum Size {
    Bytes(u64),
    Fit,
    Preset,
}

fn size(settings: &Settings) -> Result<Option<Size>> {
    settings.optional("ssd.capacity", |text| match text {
        "fit" => Ok(Size::Fit),
        "preset" => Ok(Size::Preset),
        _ => match q::bytes(text) {
            Ok(bytes) if bytes > 0 => Ok(Size::Bytes(bytes)),
            _ => Err("a size such as 512GiB, fit or preset"),
        },
    })
}

/// Settings that say how large an SSD is, or what becomes of what lies beyond it. The size of a paper's SSD is part of
/// what is reproduced; a drive stands for its kind.
const SIZED: [&str; 5] = ["ssd.preset", "ssd.elements", "ssd.planes", "ssd.blocks-per-plane", "lba-overflow"];

/// Whether a drive is chosen and nothing is said of its size, or that it is to fit.
pub(crate) fn fits(settings: &Settings) -> Result<bool> {
    let is_drive = settings.one("ssd.preset", |name| Ok::<_, String>(drive(name).is_some()))?;
    Ok(match size(settings)? {
        Some(Size::Fit) => true,
        None => is_drive && SIZED[1..4].iter().all(|key| !settings.is_given(key)),
        Some(Size::Bytes(_) | Size::Preset) => false,
    })
}

/// Whether an SSD is to fit the trace.
pub(crate) fn capacity(settings: &Settings, requests: &Requests) -> Result<Capacity> {
    array_capacity(settings, requests, false)
}

/// Whether SSDs are to fit the trace, or, if they are members of which so much is used, that.
pub(crate) fn array_capacity(settings: &Settings, requests: &Requests, sized: bool) -> Result<Capacity> {
    let decided = if sized { &SIZED[3..4] } else { &SIZED[3..] };
    if let Some(Size::Fit) = size(settings)? {
        if let Some(key) = decided.iter().find(|key| settings.is_given(key)) {
            return Err(ScenarioError::new(format_args!(
                "'{key}' has no meaning with ssd.capacity = fit, which decides it: leave one of them out"
            )));
        }
        if !sized && !requests.can_be_read_again() {
            return Err(ScenarioError::new(
                "ssd.capacity = fit reads the trace twice, and this one can be read only once: give a file, or a size",
            ));
        }
        return Ok(Capacity::Fit);
    }
    let is_drive = settings.one("ssd.preset", |name| Ok::<_, String>(drive(name).is_some()))?;
    let of_size = &SIZED[usize::from(is_drive)..if sized { 4 } else { 5 }];
    let given = size(settings)?.is_some() || of_size.iter().any(|key| settings.is_given(key));
    Ok(if given || !sized && !requests.can_be_read_again() { Capacity::Given } else { Capacity::Fit })
}
