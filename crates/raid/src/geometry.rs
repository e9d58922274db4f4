//! Maps the pages of an array to its members (specs §2), as Linux md places them (`drivers/md/raid5.c`).
//!
//! * A *row* is a page number on the members; all members' pages of that number belong to it. A *stripe* is
//!   `chunk` rows.
//! * A *column* is the role of a device in a stripe: `0..k` hold data, `k..n` parity (P, then Q).
//! * Roles repeat after at most `n` stripes, so they are looked up, not computed.

use destage_plan::{Column, ColumnSet, Dev, DevSet, Row, Stripe};

use crate::layout::{LayoutNames, ParityLayout, RaidLevel};

/// The most devices that an array can have.
pub const MAX_DEVICES: usize = 32;

/// Why an array of this shape cannot be. Each says which key to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayGeometryError {
    /// Too few or too many devices.
    #[error("array.devices = {devices} is not between {} and {MAX_DEVICES} ({level})", level.min_devices())]
    Devices {
        /// The level asked for.
        level: RaidLevel,
        /// The devices given.
        devices: u32,
    },
    /// A level that has only one way to place pages was given a layout.
    #[error("array.layout = {layout}, but {level} has no layouts; leave it out")]
    NoLayouts {
        /// The level asked for.
        level: RaidLevel,
        /// The layout given.
        layout: ParityLayout,
    },
    /// A layout of another level.
    #[error("array.layout = {layout} is not one of {level}: {}", LayoutNames(level.layouts()))]
    Layout {
        /// The level asked for.
        level: RaidLevel,
        /// The layout given.
        layout: ParityLayout,
    },
    /// An empty chunk.
    #[error("array.chunk-pages = 0 is not between 1 and {}", u32::MAX)]
    Chunk,
    /// Members that hold no stripe.
    #[error("array.member-pages = {member_pages} is less than one chunk (array.chunk-pages = {chunk_pages})")]
    TooSmall {
        /// Pages per member given.
        member_pages: u64,
        /// Pages per chunk given.
        chunk_pages: u32,
    },
    /// More pages than can be numbered.
    #[error(
        "array.member-pages = {member_pages} on {data_columns} data devices are more than 2^64 - 1 pages; use fewer"
    )]
    TooLarge {
        /// Pages per member given.
        member_pages: u64,
        /// Devices' worth of data.
        data_columns: u32,
    },
}

/// Holds the place of a page of data, independent of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagePlace {
    /// The stripe.
    pub stripe: Stripe,
    /// The page in its chunk.
    pub row_in_chunk: u32,
    /// The data column.
    pub column: Column,
}

/// Maps the roles in a stripe to devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeMap {
    /// Column to device.
    devices: [Dev; MAX_DEVICES],
    /// Device to column.
    columns: [Column; MAX_DEVICES],
    /// Data column to exponent.
    exponents: [u8; MAX_DEVICES],
    /// Counts the valid entries of the first two arrays, and of the third.
    lengths: (u8, u8),
}

impl StripeMap {
    /// The device of each column: data, then parity (P, then Q), with RAID-1 the copies.
    #[inline]
    pub fn devices(&self) -> &[Dev] {
        &self.devices[..usize::from(self.lengths.0)]
    }

    /// The column of each device.
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns[..usize::from(self.lengths.0)]
    }

    /// The exponent i of each data column's coefficient gⁱ in Q. Empty unless the level is RAID-6.
    #[inline]
    pub fn exponents(&self) -> &[u8] {
        &self.exponents[..usize::from(self.lengths.1)]
    }
}

/// The shape of an array. Pages are the unit throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: RaidLevel,
    layout: Option<ParityLayout>,
    devices: u8,
    data: u8,
    slots: u8,
    chunk: u32,
    stripes: u64,
    /// The map of stripe s is the one at s mod their number.
    maps: Box<[StripeMap]>,
}

impl Geometry {
    /// An array of `level` over `devices` members.
    ///
    /// Without a `layout` it is md's default of the level. What remains of `member_pages` after the
    /// last whole chunk is not used, as with md. RAID-1 has no chunks and uses every page; its
    /// chunk here, which only says how many pages are handled together, is the largest common
    /// divisor of `chunk_pages` and `member_pages`.
    pub fn new(
        level: RaidLevel,
        layout: Option<ParityLayout>,
        devices: u32,
        chunk_pages: u32,
        member_pages: u64,
    ) -> Result<Self, ArrayGeometryError> {
        if !(level.min_devices()..=MAX_DEVICES as u32).contains(&devices) {
            return Err(ArrayGeometryError::Devices { level, devices });
        }
        if let Some(layout) = layout
            && !level.layouts().contains(&layout)
        {
            return Err(match level.layouts() {
                [] => ArrayGeometryError::NoLayouts { level, layout },
                _ => ArrayGeometryError::Layout { level, layout },
            });
        }
        if chunk_pages == 0 {
            return Err(ArrayGeometryError::Chunk);
        }
        // Copies have no stripes, so the chunk must not cost the pages at the end of the members.
        let chunk = if level == RaidLevel::Raid1 { divisor(chunk_pages, member_pages) } else { chunk_pages };
        let stripes = member_pages / u64::from(chunk);
        if stripes == 0 {
            return Err(ArrayGeometryError::TooSmall { member_pages, chunk_pages: chunk });
        }
        let data_columns = match level {
            RaidLevel::Raid0 => devices,
            RaidLevel::Raid1 => 1,
            RaidLevel::Raid4 | RaidLevel::Raid5 => devices - 1,
            RaidLevel::Raid6 => devices - 2,
        };
        // Page numbers are `u64`, and later products of this kind are not checked.
        if member_pages.checked_mul(u64::from(data_columns)).is_none() {
            return Err(ArrayGeometryError::TooLarge { member_pages, data_columns });
        }
        let layout = layout.or(level.default_layout()).map(|layout| layout.on(level));
        let n = devices as u8;
        // A table of at most `MAX_DEVICES` patterns replaces the computation in every request.
        let maps = match (level, layout) {
            (RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6, Some(layout)) => {
                let rule = LayoutRule::of(layout, level == RaidLevel::Raid6, n);
                (0..rule.period()).map(|stripe| rule.map(stripe)).collect()
            }
            _ => Box::from([in_order(n)]),
        };
        let slots = match layout {
            _ if level != RaidLevel::Raid6 => 0,
            Some(ParityLayout::DdfZeroRestart | ParityLayout::DdfNRestart | ParityLayout::DdfNContinue) => n,
            _ => n - 2,
        };
        Ok(Self { level, layout, devices: n, data: data_columns as u8, slots, chunk, stripes, maps })
    }

    /// The level.
    #[inline]
    pub const fn level(&self) -> RaidLevel {
        self.level
    }

    /// The layout; `None` for RAID-0 and RAID-1, which have no choice.
    #[inline]
    pub const fn layout(&self) -> Option<ParityLayout> {
        self.layout
    }

    /// Members, n.
    #[inline]
    pub const fn members(&self) -> u8 {
        self.devices
    }

    /// Data columns of a stripe, k; 1 for RAID-1.
    #[inline]
    pub const fn data_columns(&self) -> u8 {
        self.data
    }

    /// Columns beside the data, n − k: P, Q, or the further copies of RAID-1. As many devices can
    /// be lost.
    #[inline]
    pub const fn parity_columns(&self) -> u8 {
        self.devices - self.data
    }

    /// Pages in a chunk.
    #[inline]
    pub const fn chunk_pages(&self) -> u32 {
        self.chunk
    }

    /// Pages used on each member: whole chunks.
    #[inline]
    pub const fn member_pages(&self) -> u64 {
        self.stripes * self.chunk as u64
    }

    /// Stripes.
    #[inline]
    pub const fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Pages that a host can address.
    #[inline]
    pub const fn data_pages(&self) -> u64 {
        self.member_pages() * self.data as u64
    }

    /// The data columns.
    #[inline]
    pub const fn data_set(&self) -> ColumnSet {
        ColumnSet::first(self.data as u32)
    }

    /// All columns: data and parity.
    #[inline]
    pub const fn column_set(&self) -> ColumnSet {
        ColumnSet::first(self.devices as u32)
    }

    /// All members.
    #[inline]
    pub const fn member_set(&self) -> DevSet {
        DevSet::first(self.devices as u32)
    }

    /// The column of P, or of the second copy of RAID-1.
    #[inline]
    pub const fn p_column(&self) -> Column {
        Column(self.data)
    }

    /// The column of Q, where there is one.
    #[inline]
    pub const fn q_column(&self) -> Column {
        Column(self.data + 1)
    }

    /// Slots of the Q syndrome: the exponents are below it. k, but n with the DDF layouts, which
    /// count P and Q as gaps; 0 without Q.
    #[inline]
    pub const fn slots(&self) -> u8 {
        self.slots
    }

    /// Returns the place of `page`, which must be below [`data_pages`](Self::data_pages).
    #[inline]
    pub fn locate(&self, page: u64) -> PagePlace {
        debug_assert!(page < self.data_pages(), "page {page} of {}", self.data_pages());
        let (chunk, data) = (u64::from(self.chunk), u64::from(self.data));
        let number = page / chunk;
        PagePlace {
            stripe: Stripe(number / data),
            row_in_chunk: (page % chunk) as u32,
            column: Column((number % data) as u8),
        }
    }

    /// The page at a place, the inverse of [`locate`](Self::locate).
    #[inline]
    pub fn page_of(&self, PagePlace { stripe, row_in_chunk, column }: PagePlace) -> u64 {
        debug_assert!(stripe.0 < self.stripes && row_in_chunk < self.chunk && column.0 < self.data);
        (stripe.0 * u64::from(self.data) + u64::from(column.0)) * u64::from(self.chunk) + u64::from(row_in_chunk)
    }

    /// The row that a page of a stripe's chunks lies in.
    #[inline]
    pub const fn row(&self, stripe: Stripe, row_in_chunk: u32) -> Row {
        Row(stripe.0 * self.chunk as u64 + row_in_chunk as u64)
    }

    /// The stripe of a row and the page in its chunk, the inverse of [`row`](Self::row).
    #[inline]
    pub const fn stripe_of(&self, row: Row) -> (Stripe, u32) {
        let chunk = self.chunk as u64;
        (Stripe(row.0 / chunk), (row.0 % chunk) as u32)
    }

    /// Returns the roles in `stripe`: everything below in one look-up.
    #[inline]
    pub fn map(&self, stripe: Stripe) -> &StripeMap {
        &self.maps[(stripe.0 % self.maps.len() as u64) as usize]
    }

    /// The device of each column of `stripe`: data, then parity (P, then Q), with RAID-1 the
    /// copies.
    #[inline]
    pub fn devices(&self, stripe: Stripe) -> &[Dev] {
        self.map(stripe).devices()
    }

    /// The device of a column of `stripe`.
    ///
    /// # Panics
    /// If there is no such column.
    #[inline]
    pub fn device(&self, stripe: Stripe, column: Column) -> Dev {
        self.map(stripe).devices()[column.index()]
    }

    /// The column of a device in `stripe`.
    ///
    /// # Panics
    /// If there is no such device.
    #[inline]
    pub fn column(&self, stripe: Stripe, device: Dev) -> Column {
        self.map(stripe).columns()[device.index()]
    }

    /// The exponent i of a data column's coefficient gⁱ in the Q of `stripe`.
    ///
    /// # Panics
    /// If the level is not RAID-6, or there is no such data column.
    #[inline]
    pub fn exponent(&self, stripe: Stripe, column: Column) -> u32 {
        u32::from(self.map(stripe).exponents()[column.index()])
    }
}

/// The largest common divisor.
const fn divisor(a: u32, b: u64) -> u32 {
    let (mut a, mut b) = (b, a as u64);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as u32
}

/// Every column on the device of its number: RAID-0 and RAID-1.
fn in_order(devices: u8) -> StripeMap {
    let mut map = StripeMap {
        devices: [Dev(0); MAX_DEVICES],
        columns: [Column(0); MAX_DEVICES],
        exponents: [0; MAX_DEVICES],
        lengths: (devices, 0),
    };
    for device in 0..devices {
        map.devices[usize::from(device)] = Dev(device);
        map.columns[usize::from(device)] = Column(device);
    }
    map
}

/// Places P in stripe s.
#[derive(Clone, Copy)]
enum ParityPlace {
    /// On this device.
    At(u8),
    /// On the last device of the ring in stripe 0, then moving down.
    Down,
    /// On the first device in stripe 0, then moving up.
    Up,
}

/// Places Q relative to P.
#[derive(Clone, Copy)]
enum SecondParityPlace {
    /// Nowhere.
    None,
    /// On the next device around.
    AfterP,
    /// On the device before, around.
    BeforeP,
    /// On the last device.
    Last,
}

/// Describes how a layout places parity and data.
#[derive(Clone, Copy)]
struct LayoutRule {
    devices: u8,
    /// P moves, and data follows it, over the first so many devices.
    ring: u8,
    p: ParityPlace,
    q: SecondParityPlace,
    /// The pattern of stripe s is that of stripe s + shift.
    shift: u8,
    /// Data begins after P and goes around, not on the first device.
    data_follows_p: bool,
    /// P and Q take numbers in the syndrome, and it begins on the first device.
    ddf: bool,
}

impl LayoutRule {
    fn of(layout: ParityLayout, with_q: bool, devices: u8) -> Self {
        let q = if with_q { SecondParityPlace::AfterP } else { SecondParityPlace::None };
        let rotating =
            Self { devices, ring: devices, p: ParityPlace::Down, q, shift: 0, data_follows_p: false, ddf: false };
        // The layouts of RAID-5, with Q apart.
        let five = Self { ring: devices - 1, q: SecondParityPlace::Last, ..rotating };
        match layout {
            ParityLayout::LeftAsymmetric => rotating,
            ParityLayout::RightAsymmetric => Self { p: ParityPlace::Up, ..rotating },
            ParityLayout::LeftSymmetric => Self { data_follows_p: true, ..rotating },
            ParityLayout::RightSymmetric => Self { p: ParityPlace::Up, data_follows_p: true, ..rotating },
            ParityLayout::ParityFirst => Self { p: ParityPlace::At(0), ..rotating },
            ParityLayout::ParityLast => Self { p: ParityPlace::At(devices - 1 - u8::from(with_q)), ..rotating },
            ParityLayout::DdfZeroRestart => Self { p: ParityPlace::Up, ddf: true, ..rotating },
            // Stripe 0 has P and Q on the last two devices, where left-asymmetric has them in
            // stripe 1.
            ParityLayout::DdfNRestart => Self { shift: 1, ddf: true, ..rotating },
            ParityLayout::DdfNContinue => {
                Self { q: SecondParityPlace::BeforeP, data_follows_p: true, ddf: true, ..rotating }
            }
            ParityLayout::LeftAsymmetric6 => five,
            ParityLayout::RightAsymmetric6 => Self { p: ParityPlace::Up, ..five },
            ParityLayout::LeftSymmetric6 => Self { data_follows_p: true, ..five },
            ParityLayout::RightSymmetric6 => Self { p: ParityPlace::Up, data_follows_p: true, ..five },
            ParityLayout::ParityFirst6 => Self { p: ParityPlace::At(0), ..five },
        }
    }

    /// Stripes after which the pattern repeats.
    const fn period(self) -> u8 {
        match self.p {
            ParityPlace::At(_) => 1,
            ParityPlace::Down | ParityPlace::Up => self.ring,
        }
    }

    /// The pattern of a stripe below the period.
    fn map(self, stripe: u8) -> StripeMap {
        let n = self.devices;
        let step = (stripe + self.shift) % self.ring;
        let p = match self.p {
            ParityPlace::At(device) => device,
            ParityPlace::Down => self.ring - 1 - step,
            ParityPlace::Up => step,
        };
        let q = match self.q {
            SecondParityPlace::None => None,
            SecondParityPlace::AfterP => Some((p + 1) % n),
            SecondParityPlace::BeforeP => Some((p + n - 1) % n),
            SecondParityPlace::Last => Some(n - 1),
        };
        let holds_data = |device: &u8| *device != p && Some(*device) != q;
        let mut map = in_order(n);

        let first = if self.data_follows_p { p + 1 } else { 0 };
        let data = (0..self.ring).map(|i| (first + i) % self.ring).filter(holds_data);
        for (column, device) in (0_u8..).zip(data.chain([p]).chain(q)) {
            map.devices[usize::from(column)] = Dev(device);
            map.columns[usize::from(device)] = Column(column);
        }

        if let Some(q) = q {
            // md's syndrome takes the data devices in ascending order from the one after Q, around;
            // DDF's all devices in order.
            let first = if self.ddf { 0 } else { q + 1 };
            let around = (0..n).map(|i| (first + i) % n);
            for (exponent, device) in (0_u8..).zip(around.filter(|device| self.ddf || holds_data(device))) {
                if holds_data(&device) {
                    map.exponents[map.columns[usize::from(device)].index()] = exponent;
                }
            }
            map.lengths.1 = n - 2;
        }
        map
    }
}
