//! Tells what makes a shape of an SSD impossible (specs §1.1–1.2).

/// Tells why an SSD of this shape cannot work. Each says which key to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SsdGeometryError {
    /// A count is zero or too large.
    #[error("ssd.{key} = {value} is not between {min} and {max}")]
    Range {
        /// The key.
        key: &'static str,
        /// Holds the parameter's value.
        value: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// More pages than can be numbered.
    #[error("ssd: {pages} raw pages are more than 2^32 - 2; use larger pages or fewer blocks")]
    TooLarge {
        /// Raw pages.
        pages: u64,
    },
    /// Collection could not reach its goal.
    #[error(
        "ssd.reserve keeps {reserved} of {blocks} blocks of {scope} free and ssd.min-free collects at {low} or fewer: \
         collection needs at least {needed} reserved blocks; raise ssd.reserve, lower ssd.min-free or add blocks"
    )]
    NoRoomToCollect {
        /// Reserved blocks.
        reserved: u64,
        /// All blocks.
        blocks: u64,
        /// Names what they are blocks of.
        scope: &'static str,
        /// Threshold.
        low: u64,
        /// Reserved blocks needed.
        needed: u64,
    },
    /// Both copy-back and channels put write points where they need them.
    #[error(
        "ssd.copy-back = true gives each plane a write point and ssd.allocation = channels gives each element one: \
         choose one of them"
    )]
    CopyBackInChannels,
    /// Pages have no fixed element that they could lie on together.
    #[error(
        "ssd.stride = {stride} has no meaning with ssd.allocation = channels: a page can go to any element; leave it 1"
    )]
    StrideOfChannels {
        /// The stride.
        stride: u32,
    },
    /// Pages have a fixed element, idle or not.
    #[error(
        "ssd.idle-first = true has no meaning with ssd.allocation = static, where a page's address says where it lies: set \
         it to false"
    )]
    IdleFirstWithoutChannels,
    /// The page map has no log blocks.
    #[error("ssd.log-blocks = {log_blocks} has no meaning with ssd.ftl = page: leave it out, or choose bast or fast")]
    LogBlocksOfPageMap {
        /// Log blocks asked for.
        log_blocks: u32,
    },
    /// A log-block layer does without something that belongs to the page map.
    #[error("ssd.{key} = {value} has no meaning with ssd.ftl = {ftl}: {why}; set it to {instead}")]
    NotWithLogBlocks {
        /// The key.
        key: &'static str,
        /// Gives its value.
        value: String,
        /// Gives the only value allowed.
        instead: &'static str,
        /// The layer.
        ftl: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A logical block would be spread over elements.
    #[error(
        "ssd.stride = {stride} would spread a block of {pages_per_block} pages over elements, and ssd.ftl = {ftl} keeps \
         blocks together: give a multiple of pages-per-block"
    )]
    StrideOfLogBlocks {
        /// The stride.
        stride: u32,
        /// Pages of a block.
        pages_per_block: u32,
        /// The layer.
        ftl: &'static str,
    },
    /// The reserve has no room for the fewest log blocks that a layer needs.
    #[error(
        "ssd.reserve keeps {reserved} of {blocks} blocks of an element, and ssd.ftl = {ftl} needs {needed}: one for \
         merges, the others for log blocks; raise ssd.reserve or add blocks"
    )]
    NoRoomForLogBlocks {
        /// Reserved blocks of an element.
        reserved: u64,
        /// All blocks of an element.
        blocks: u64,
        /// Reserved blocks needed.
        needed: u64,
        /// The layer.
        ftl: &'static str,
    },
    /// More log blocks than the reserve has room for, or too few to work.
    #[error(
        "ssd.log-blocks = {log_blocks} is not between {fewest} and {most}: ssd.ftl = {ftl} needs {fewest}, and of the \
         blocks of an element that ssd.reserve keeps one is for merges; give another number, or change ssd.reserve"
    )]
    LogBlocks {
        /// Log blocks asked for.
        log_blocks: u64,
        /// The fewest that the layer needs.
        fewest: u64,
        /// The most that there is room for.
        most: u64,
        /// The layer.
        ftl: &'static str,
    },
    /// A modern drive could not collect.
    #[error(
        "ssd.reserve, ssd.free-target and ssd.word-lines leave room for {spare} of {superblocks} superblocks beside what is \
         exported, and collection needs {needed}; raise ssd.reserve or ssd.free-target, or lower ssd.word-lines"
    )]
    NoSpareSuperblocks {
        /// Superblocks beside what is exported.
        spare: u64,
        /// All superblocks.
        superblocks: u64,
        /// Superblocks needed.
        needed: u64,
    },
    /// One write point for all that collection moves, and none of its own.
    #[error(
        "ssd.placement-isolation = initially has collection put the pages of all placement handles into one reclaim unit of its own, \
         and ssd.collection-write-point = shared gives it none: set one of them to persistently or own"
    )]
    IsolationOfShared,
    /// A write cache that would be full before anything in it is programmed.
    #[error(
        "ssd.write-cache = {bytes} B is less than {least} B: it must hold {units} units of {unit_bytes} B that are programmed at \
         once, and the {held_bytes} B of ssd.write-hold"
    )]
    WriteCache {
        /// Bytes asked for.
        bytes: u64,
        /// Holds the least that works.
        least: u64,
        /// Units that may be open or under way.
        units: u64,
        /// Bytes of a unit.
        unit_bytes: u64,
        /// Bytes that are held back.
        held_bytes: u64,
    },
    /// A write cache that would keep back so much of the drive that its overwrites hardly reach the flash.
    #[error(
        "ssd.write-hold = {bytes} B is more than half of the {exported} B that are exported; expected at most {most} B"
    )]
    WriteHold {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes exported.
        exported: u64,
        /// The most that works.
        most: u64,
    },
    /// Pages that a modern drive's flash pages do not hold.
    #[error(
        "page = {bytes} B is not between {least} B and {most} B, as ssd.model = modern needs, whose flash pages of {most} B \
         hold whole pages; change page, or set ssd.model = classic"
    )]
    PageOfModern {
        /// Bytes of a page.
        bytes: u64,
        /// Holds the least that works.
        least: u64,
        /// Holds the most that works: the bytes of a flash page.
        most: u64,
    },
    /// Nothing is left to export.
    #[error("ssd: no whole logical block is exported; use more blocks or a smaller ssd.reserve")]
    NothingExported,
}
