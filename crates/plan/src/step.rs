//! The steps of which an operation consists: what an executor can be asked to do.

use crate::{Buf, ByteList, Dev, Ext, FragId, List, PutList, Quota, RowList, Sectors, Span, SpanList};

/// One step. Steps that move or compute whole pages say how many; all their buffers are that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads an extent.
    Read {
        /// From where.
        ext: Ext,
        /// To where.
        dst: Buf,
    },
    /// Writes an extent. It may stay in the device's volatile cache unless `fua` is set.
    Write {
        /// To where.
        ext: Ext,
        /// From where.
        src: Buf,
        /// Durable when done, together with whatever earlier writes left of these pages.
        fua: bool,
    },
    /// Writes as [`Write`](Self::Write) does, but each page comes from a buffer of its own.
    WriteList {
        /// To where.
        ext: Ext,
        /// From where, as many as there are pages.
        srcs: List,
        /// Asks for durability, as [`Write`](Self::Write) does.
        fua: bool,
    },
    /// Writes bytes that the controller itself has made: the metadata of a cache.
    MetaWrite {
        /// To where: pages that hold nothing but metadata.
        ext: Ext,
        /// Holds the bytes, as long as these pages.
        bytes: ByteList,
        /// Asks for durability, as [`Write`](Self::Write) does.
        fua: bool,
    },
    /// Reads bytes for the controller itself: it finds them with
    /// [`Out::read_bytes`](crate::Out::read_bytes).
    MetaRead {
        /// From where.
        ext: Ext,
    },
    /// Writes pages of a device's [successor](crate::Control::Copy), and changes nothing of the device itself. Writes of the device
    /// that overlap reach the successor before it reads them from the device, or after what it writes. Done as well if there
    /// is no successor any more.
    Duplicate {
        /// Names the pages, of the device.
        ext: Ext,
        /// Holds what is written: [`Buf::None`] stands for what the device itself has there.
        src: Buf,
    },
    /// Makes every write of the device that was done before this step began durable.
    FlushDev {
        /// The device.
        dev: Dev,
    },
    /// Tells the device that the extent's content is no longer needed; it reads as zeros from then
    /// on. Durable as a write is.
    Trim {
        /// Names the pages.
        ext: Ext,
    },
    /// Asks a device to collect garbage now, be it above its threshold, and as much as it can gain
    /// from. Done when it has. The pages that it holds do not change. Only for
    /// [collectors](crate::Start::collectors).
    Collect {
        /// The device.
        dev: Dev,
        /// Limits the collection.
        quota: Quota,
    },
    /// `dst` = page `old` with `sectors` of it replaced by the bytes of `new`, which holds these
    /// sectors only.
    Merge {
        /// The page as it was.
        old: Buf,
        /// The sectors that change ([`Buf::Zero`]: zeros).
        new: Buf,
        /// Names the sectors.
        sectors: Sectors,
        /// The page as it will be.
        dst: Buf,
    },
    /// `dst`, which holds these sectors only, = `sectors` of page `src`.
    Slice {
        /// A page, or as much of one as the sectors need.
        src: Buf,
        /// Names the sectors.
        sectors: Sectors,
        /// The sectors' bytes.
        dst: Buf,
    },
    /// `dst` = XOR of `srcs`.
    Xor {
        /// The buffers; if there are none, the result is zeros.
        srcs: List,
        /// Pages in each.
        pages: u16,
        /// The result.
        dst: Buf,
    },
    /// `p` = XOR of `srcs`, `q` = Σ gⁱ·srcsᵢ over GF(2⁸) (specs §2.1). Either may be [`Buf::None`].
    Pq {
        /// In the order of their coefficients; [`Buf::Zero`] where there is nothing.
        srcs: List,
        /// Pages in each.
        pages: u16,
        /// Takes P.
        p: Buf,
        /// Takes Q.
        q: Buf,
    },
    /// `dst` = `a`·`x` ⊕ `b`·`y` over GF(2⁸): what the recovery of data from Q, and the change of Q
    /// by a delta, consist of.
    Gf {
        /// Coefficient of `x`.
        a: u8,
        /// First source.
        x: Buf,
        /// Coefficient of `y`.
        b: u8,
        /// Second source.
        y: Buf,
        /// Pages in each.
        pages: u16,
        /// The result.
        dst: Buf,
    },
    /// Compares the pages of two buffers. It ends with [which differ](StepOutcome::Differing), or with
    /// [`Ok`](StepOutcome::Ok) if none does. Executors without bytes take them for alike.
    Compare {
        /// Names the first buffer.
        a: Buf,
        /// Names the second buffer.
        b: Buf,
        /// Counts the pages in each, at most 64.
        pages: u16,
    },
    /// `dst`, a page, = what makes page `new` of page `base`, and zeros behind it. It ends with the
    /// [length](StepOutcome::Length), which is at most a page.
    Encode {
        /// The page as it was.
        base: Buf,
        /// The page as it is.
        new: Buf,
        /// The delta.
        dst: Buf,
        /// Page of the array whose delta it is. Executors without bytes tell the length by it.
        page: u64,
    },
    /// `dst` = what a delta makes of page `base`. It fails as
    /// [undecodable](StepOutcome::Undecodable) if the bytes are no delta.
    Decode {
        /// The page as it was.
        base: Buf,
        /// Holds the delta.
        delta: Span,
        /// The page as it is.
        dst: Buf,
    },
    /// `dst`, a page, = the parts one after the other, and zeros behind them.
    Pack {
        /// At most a page of bytes.
        parts: SpanList,
        /// Takes the page.
        dst: Buf,
    },
    /// Puts tags and bytes into free slots of the NVRAM and frees others: all of it or nothing,
    /// durable when done. What is put may come from a slot that is freed. NVRAM steps take effect
    /// in the order in which they were issued.
    NvCommit {
        /// Lists the slots that are put.
        puts: PutList,
        /// Lists the slots that are freed; each entry is a [`Buf::Nv`].
        frees: List,
    },
    /// Works as [`NvCommit`](Self::NvCommit) on slots of [memory](crate::NvSlot::is_in_memory). It takes no time and is
    /// ordered only after the steps before it. A loss of power takes all of it away.
    Hold {
        /// Lists the slots that are put.
        puts: PutList,
        /// Lists the slots that are freed; each entry is a [`Buf::Nv`].
        frees: List,
    },
    /// Notes in the NVRAM that rows may be inconsistent, or that they are consistent again. Durable
    /// when done, in the order in which they were issued.
    Intent {
        /// Lists the rows.
        rows: RowList,
        /// Is true if the rows may be inconsistent, false if they are consistent again.
        set: bool,
    },
    /// Nothing: done when the steps before it are. The engine does this itself.
    Join,
    /// Tells the host that pages of a fragment are done. The engine counts them and does this
    /// itself; executors never see it.
    Ack {
        /// Whose.
        frag: FragId,
        /// Counts the pages.
        pages: u16,
        /// Is true if the pages were served.
        ok: bool,
    },
}

// A plan has up to 64 steps and is rebuilt for each request: a larger step would cost cache lines on every write.
const _: () = assert!(size_of::<Buf>() <= 16 && size_of::<Step>() <= 48);

impl Step {
    /// The device that the step keeps busy, if any.
    pub const fn dev(&self) -> Option<Dev> {
        match self {
            Self::Read { ext, .. }
            | Self::Write { ext, .. }
            | Self::WriteList { ext, .. }
            | Self::MetaWrite { ext, .. }
            | Self::MetaRead { ext }
            | Self::Duplicate { ext, .. }
            | Self::Trim { ext } => Some(ext.dev()),
            Self::FlushDev { dev } | Self::Collect { dev, .. } => Some(*dev),
            _ => None,
        }
    }

    /// The pages that the step changes, if any.
    pub const fn changes(&self) -> Option<Ext> {
        // A `Duplicate` changes the device's successor and never the device that it names, so it is no change here.
        match self {
            Self::Write { ext, .. }
            | Self::WriteList { ext, .. }
            | Self::MetaWrite { ext, .. }
            | Self::Trim { ext } => Some(*ext),
            _ => None,
        }
    }

    /// Returns true if the bytes that the step writes are durable when it is done.
    pub const fn is_fua(&self) -> bool {
        matches!(
            self,
            Self::Write { fua: true, .. } | Self::WriteList { fua: true, .. } | Self::MetaWrite { fua: true, .. }
        )
    }

    /// Returns true if the engine does the step itself, at once.
    pub(crate) const fn is_the_engines(&self) -> bool {
        // These move no bytes and keep no device busy: an executor could only hand them back.
        matches!(self, Self::Join | Self::Ack { .. })
    }

    /// Returns the kind of the step, for counting.
    pub const fn kind(&self) -> StepKind {
        match self {
            Self::Read { .. } => StepKind::Read,
            Self::Write { .. } | Self::WriteList { .. } => StepKind::Write,
            Self::MetaWrite { .. } => StepKind::MetaWrite,
            Self::MetaRead { .. } => StepKind::MetaRead,
            Self::Duplicate { .. } => StepKind::Duplicate,
            Self::FlushDev { .. } => StepKind::FlushDev,
            Self::Trim { .. } => StepKind::Trim,
            Self::Collect { .. } => StepKind::Collect,
            Self::Merge { .. } => StepKind::Merge,
            Self::Slice { .. } => StepKind::Slice,
            Self::Xor { .. } => StepKind::Xor,
            Self::Pq { .. } => StepKind::Pq,
            Self::Gf { .. } => StepKind::Gf,
            Self::Compare { .. } => StepKind::Compare,
            Self::Encode { .. } => StepKind::Encode,
            Self::Decode { .. } => StepKind::Decode,
            Self::Pack { .. } => StepKind::Pack,
            Self::NvCommit { .. } => StepKind::NvCommit,
            Self::Hold { .. } => StepKind::Hold,
            Self::Intent { .. } => StepKind::Intent,
            Self::Join => StepKind::Join,
            Self::Ack { .. } => StepKind::Ack,
        }
    }
}

/// The kinds of step, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is described where the step is")]
pub enum StepKind {
    Read,
    Write,
    MetaWrite,
    MetaRead,
    FlushDev,
    Trim,
    Collect,
    Merge,
    Slice,
    Xor,
    Pq,
    Gf,
    Encode,
    Decode,
    Pack,
    NvCommit,
    Hold,
    Intent,
    Join,
    Ack,
    Compare,
    Duplicate,
}

impl StepKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 22] = [
        Self::Read,
        Self::Write,
        Self::MetaWrite,
        Self::MetaRead,
        Self::FlushDev,
        Self::Trim,
        Self::Collect,
        Self::Merge,
        Self::Slice,
        Self::Xor,
        Self::Pq,
        Self::Gf,
        Self::Encode,
        Self::Decode,
        Self::Pack,
        Self::NvCommit,
        Self::Hold,
        Self::Intent,
        Self::Join,
        Self::Ack,
        Self::Compare,
        Self::Duplicate,
    ];

    /// The name used in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::MetaWrite => "meta-write",
            Self::MetaRead => "meta-read",
            Self::FlushDev => "flush",
            Self::Duplicate => "duplicate",
            Self::Trim => "trim",
            Self::Collect => "collect",
            Self::Merge => "merge",
            Self::Slice => "slice",
            Self::Xor => "xor",
            Self::Pq => "pq",
            Self::Gf => "gf",
            Self::Compare => "compare",
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::Pack => "pack",
            Self::NvCommit => "nv-commit",
            Self::Hold => "hold",
            Self::Intent => "intent",
            Self::Join => "join",
            Self::Ack => "ack",
        }
    }
}

/// Tells how a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Done.
    Ok,
    /// Done, with a result of so many bytes.
    Length(u32),
    /// Tells that the step is done, and which pages differ: the bit `1 << i` stands for page `i` of the buffers.
    Differing(u64),
    /// The bytes that were to be decoded are no delta. Nothing is known of the result, and it is
    /// the same when it is tried again.
    Undecodable,
    /// The device did not do it. Nothing is known of what it did.
    Failed(Dev),
    /// Tells that the device answers, and cannot read a page that the step reads, or write one for an
    /// [attempt](crate::Out::attempt); or that the page is not what was written there, by its
    /// [checksum](crate::Controller::checksums). Nothing is known of the step's other pages.
    Unreadable(BadPage),
}

/// Names a page that a device cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BadPage {
    /// Names the device.
    pub dev: Dev,
    /// Counts the pages of the device before it.
    pub page: u64,
}

/// Tells what became of a page that a device could not read, or that does not belong to the others of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReport {
    /// Names the page.
    pub page: BadPage,
    /// Says what became of it.
    pub fate: PageFate,
}

/// Says what became of a page that a device could not read, or that does not belong to the others of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFate {
    /// Tells that it was computed from other devices, written, and read again.
    Corrected,
    /// Tells that a rebuild could not compute it from other devices. Requests for it fail until it is made, as the NVRAM
    /// notes.
    Missing,
    /// Tells that nothing computes it from other devices. Requests for it fail while its device cannot read it.
    Lost,
    /// Tells that its device cannot keep it: requests for it compute it from other devices.
    Unwritable,
    /// Tells that the device had too many such pages, and counts as lost.
    TooMany,
    /// Tells that a cache has dropped what it held there: requests read it from other devices.
    Dropped,
    /// Tells that a cache alone had the newest content of this page of the array there. Requests for it fail until it is
    /// written.
    DirtyLost(u64),
    /// Tells that a scrub found it to be another than its row makes it, and left it as it is.
    Mismatched,
    /// Tells that a scrub found it to be another than its row makes it, and has written what the row makes it.
    Rewritten,
}
