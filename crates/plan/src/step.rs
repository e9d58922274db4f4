//! The steps of which an operation consists: what an executor can be asked to do.

use crate::{Buf, Dev, Ext, FragId, List, PutList, RowList, Sectors};

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
    /// Makes every write of the device that was done before this step began durable.
    FlushDev {
        /// The device.
        dev: Dev,
    },
    /// Tells the device that the extent's content is no longer needed; it reads as zeros from then
    /// on. Durable as a write is.
    Trim {
        /// Which pages.
        ext: Ext,
    },
    /// `dst` = page `old` with `sectors` of it replaced by the bytes of `new`, which holds these
    /// sectors only.
    Merge {
        /// The page as it was.
        old: Buf,
        /// The sectors that change ([`Buf::Zero`]: zeros).
        new: Buf,
        /// Which.
        sectors: Sectors,
        /// The page as it will be.
        dst: Buf,
    },
    /// `dst`, which holds these sectors only, = `sectors` of page `src`.
    Slice {
        /// A page, or as much of one as the sectors need.
        src: Buf,
        /// Which of its sectors.
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
        /// Where P goes.
        p: Buf,
        /// Where Q goes.
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
    /// Puts tags and bytes into free slots of the NVRAM and frees others: all of it or nothing,
    /// durable when done. What is put may come from a slot that is freed. NVRAM steps take effect
    /// in the order in which they were issued.
    NvCommit {
        /// What is put.
        puts: PutList,
        /// Which slots are freed; each entry is a [`Buf::Nv`].
        frees: List,
    },
    /// Notes in the NVRAM that rows may be inconsistent, or that they are consistent again. Durable
    /// when done, in the order in which they were issued.
    Intent {
        /// Which rows.
        rows: RowList,
        /// Whether they may be inconsistent.
        set: bool,
    },
    /// Nothing: done when the steps before it are. The engine does this itself.
    Join,
    /// Tells the host that pages of a fragment are done. The engine counts them and does this
    /// itself; executors never see it.
    Ack {
        /// Whose.
        frag: FragId,
        /// How many.
        pages: u16,
        /// Whether they were served.
        ok: bool,
    },
}

// Plans are tables of steps.
const _: () = assert!(size_of::<Buf>() <= 16 && size_of::<Step>() <= 48);

impl Step {
    /// The device that the step keeps busy, if any.
    pub const fn dev(&self) -> Option<Dev> {
        match self {
            Self::Read { ext, .. } | Self::Write { ext, .. } | Self::Trim { ext } => Some(ext.dev()),
            Self::FlushDev { dev } => Some(*dev),
            _ => None,
        }
    }

    /// Whether the engine does it itself, at once.
    pub(crate) const fn is_the_engines(&self) -> bool {
        matches!(self, Self::Join | Self::Ack { .. })
    }

    /// What kind of step it is.
    pub const fn kind(&self) -> StepKind {
        match self {
            Self::Read { .. } => StepKind::Read,
            Self::Write { .. } => StepKind::Write,
            Self::FlushDev { .. } => StepKind::FlushDev,
            Self::Trim { .. } => StepKind::Trim,
            Self::Merge { .. } => StepKind::Merge,
            Self::Slice { .. } => StepKind::Slice,
            Self::Xor { .. } => StepKind::Xor,
            Self::Pq { .. } => StepKind::Pq,
            Self::Gf { .. } => StepKind::Gf,
            Self::NvCommit { .. } => StepKind::NvCommit,
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
    FlushDev,
    Trim,
    Merge,
    Slice,
    Xor,
    Pq,
    Gf,
    NvCommit,
    Intent,
    Join,
    Ack,
}

impl StepKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::Write,
        Self::FlushDev,
        Self::Trim,
        Self::Merge,
        Self::Slice,
        Self::Xor,
        Self::Pq,
        Self::Gf,
        Self::NvCommit,
        Self::Intent,
        Self::Join,
        Self::Ack,
    ];

    /// The name used in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::FlushDev => "flush",
            Self::Trim => "trim",
            Self::Merge => "merge",
            Self::Slice => "slice",
            Self::Xor => "xor",
            Self::Pq => "pq",
            Self::Gf => "gf",
            Self::NvCommit => "nv-commit",
            Self::Intent => "intent",
            Self::Join => "join",
            Self::Ack => "ack",
        }
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Done.
    Ok,
    /// The device did not do it. Nothing is known of what it did.
    Failed(Dev),
}
