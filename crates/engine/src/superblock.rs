//! Reads md's superblocks on the members of an array: version 1, before the data (metadata 1.1 and 1.2).
//!
//! The format is that of `include/uapi/linux/raid/md_p.h` of Linux.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use destage_plan::SECTOR_BYTES;
use destage_raid::{ParityLayout, RaidLevel};
use serde::{Deserialize, Serialize};

use crate::ByteSize;

const MAGIC: u32 = 0xa92b_4efc;
/// Lists the bytes at which a superblock before the data may begin.
const PLACES: [usize; 2] = [4096, 0];
/// Bytes of a superblock without its table of roles.
const HEAD: usize = 256;
/// Members that a table of roles can have.
const MAX_ROLES: usize = 1920;
/// Bytes of a superblock with its table, at most.
const MOST: usize = HEAD + 2 * MAX_ROLES;
/// Lists the features that a member of a clean array may have: a bitmap, and an explicit layout of RAID-0.
const HARMLESS: u32 = 1 | 4096;

/// Identifies an array of md's, and tells when md ran it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdOrigin {
    /// Gives the array's UUID, as mdadm writes it.
    pub uuid: String,
    /// Gives the event count, which md raises whenever it runs the array.
    pub events: u64,
}

/// An array as md's superblocks on its members have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdArray {
    /// The level.
    pub level: RaidLevel,
    /// The layout, if the level has some.
    pub layout: Option<ParityLayout>,
    /// Bytes of a chunk; none of RAID-1.
    pub chunk: Option<ByteSize>,
    /// Bytes that are used of each member.
    pub member_size: ByteSize,
    /// Bytes before these.
    pub data_offset: ByteSize,
    /// Identifies it, and tells when md ran it last.
    pub origin: MdOrigin,
    /// The members, from member 0 on.
    pub members: Vec<PathBuf>,
}

/// Why members cannot be taken over from md.
#[derive(Debug, thiserror::Error)]
pub enum MdError {
    /// A member cannot be read.
    #[error("{}: cannot read md's superblock: {source}", path.display())]
    Io {
        /// The member.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A superblock says what cannot be adopted.
    #[error("{}: {key} of md's superblock is {found}; it must be {expected}", path.display())]
    Field {
        /// The member.
        path: PathBuf,
        /// Names the field.
        key: &'static str,
        /// Holds the value that was found.
        found: String,
        /// Says which value would be right.
        expected: String,
    },
    /// Tells that md has run an array since it was taken over.
    #[error(
        "{}: the event count of md's superblock is {found}, and was {expected} when the array was taken over: md has run the \
         array since, and the cache, NVRAM and intents here are older than the members; stop md's array, and take the \
         members over anew, in another folder (destage create --adopt)",
        path.display()
    )]
    Events {
        /// Names the member.
        path: PathBuf,
        /// Gives its event count.
        found: u64,
        /// Gives that of the array when it was taken over.
        expected: u64,
    },
    /// One has a superblock and another has none.
    #[error("{} has a superblock of md's, and {} has none: they are not of one array", with.display(), without.display())]
    Mixed {
        /// The one.
        with: PathBuf,
        /// The other.
        without: PathBuf,
    },
}

impl MdArray {
    /// Bytes at the beginning of a member in which superblocks are.
    pub const BEGINNING: usize = PLACES[0] + MOST;

    /// Reads the array from the superblocks on these members, which may be in any order; none if there are no
    /// superblocks.
    ///
    /// # Errors
    /// If they cannot be read or are damaged; if they are not those of all members of one array; if the array was not
    /// stopped cleanly, or cannot be served.
    pub fn read(paths: &[PathBuf]) -> Result<Option<Self>, MdError> {
        let beginnings = paths.iter().map(|path| Ok((path.clone(), beginning(path)?)));
        Self::of(&beginnings.collect::<Result<Vec<_>, _>>()?)
    }

    /// Checks that md has not run the array that was taken over from it. Members that are not there, have no superblock that
    /// is whole, or one of another array, tell nothing.
    ///
    /// # Errors
    /// If a superblock of the array has another event count.
    pub fn check_events<'a>(members: impl IntoIterator<Item = &'a Path>, origin: &MdOrigin) -> Result<(), MdError> {
        for path in members {
            let found = beginning(path).and_then(|bytes| MdSuperblock::find(path, &bytes));
            let Ok(Some(MdOrigin { uuid, events: found })) = found.map(|found| found.map(|found| found.origin()))
            else {
                continue;
            };
            // Only a superblock of the same array proves that md ran it; anything else may be a member that was
            // replaced.
            if uuid == origin.uuid && found != origin.events {
                return Err(MdError::Events { path: path.to_owned(), found, expected: origin.events });
            }
        }
        Ok(())
    }

    /// Reads the array from these beginnings of members, which may be in any order; none if there are no
    /// superblocks.
    ///
    /// Bytes beyond the first [`BEGINNING`](Self::BEGINNING) of a member are ignored.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of(beginnings: &[(PathBuf, Vec<u8>)]) -> Result<Option<Self>, MdError> {
        let mut found = Vec::new();
        let mut without = None;
        for (path, bytes) in beginnings {
            match MdSuperblock::find(path, bytes)? {
                Some(superblock) => found.push(superblock),
                None => without = Some(path),
            }
        }
        let Some(first) = found.first() else { return Ok(None) };
        if let Some(without) = without {
            return Err(MdError::Mixed { with: first.path.clone(), without: without.clone() });
        }
        for other in &found {
            first.same_array(other)?;
        }
        let count = first.u32(92) as usize;
        // Adopting takes the parity as it is and rebuilds nothing, so all members must be there.
        if count != found.len() {
            return Err(first.wrong("the number of members", count, format!("{}, as many as are given", found.len())));
        }
        let mut array = first.array()?;
        let mut members = vec![None; count];
        for superblock in &found {
            let role = superblock.role()?;
            superblock.in_order(array.level)?;
            let place = members.get_mut(usize::from(role));
            let place = place.ok_or_else(|| superblock.wrong("the member", role, format!("below {count}")))?;
            if let Some(other) = place.replace(superblock.path.clone()) {
                return Err(superblock.wrong("the member", role, format!("another than that of {}", other.display())));
            }
        }
        array.members = members.into_iter().flatten().collect();
        Ok(Some(array))
    }
}

/// The beginning of a member, in which a superblock may be.
fn beginning(path: &Path) -> Result<Vec<u8>, MdError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MdArray::BEGINNING as u64).read_to_end(&mut bytes));
    read.map_err(|source| MdError::Io { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// A superblock with the table of roles behind it.
struct MdSuperblock {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl MdSuperblock {
    fn find(path: &Path, beginning: &[u8]) -> Result<Option<Self>, MdError> {
        for place in PLACES {
            let Some(bytes) = beginning.get(place..place + MOST) else { continue };
            let superblock = Self { path: path.to_owned(), bytes: bytes.to_owned() };
            // A superblock says where it lies itself, so a stale copy at another offset is not taken for one.
            let is_here = superblock.u64(144).checked_mul(SECTOR_BYTES) == Some(place as u64);
            if superblock.u32(0) == MAGIC && superblock.u32(4) == 1 && is_here {
                superblock.whole()?;
                return Ok(Some(superblock));
            }
        }
        Ok(None)
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes[at..at + 2].try_into().expect("two bytes"))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn origin(&self) -> MdOrigin {
        let (words, _) = self.bytes[16..32].as_chunks();
        // mdadm writes a UUID as four words of its bytes, in their order.
        let words = words.iter().map(|word| format!("{:08x}", u32::from_be_bytes(*word)));
        MdOrigin { uuid: words.collect::<Vec<String>>().join(":"), events: self.u64(200) }
    }

    fn wrong(&self, key: &'static str, found: impl Display, expected: impl Display) -> MdError {
        MdError::Field { path: self.path.clone(), key, found: format!("{found}"), expected: format!("{expected}") }
    }

    /// Checks the checksum: the sum of the words, with the field itself taken as 0 and the overflow added.
    ///
    /// # Errors
    /// If it does not match, or the table of roles is longer than there can be.
    fn whole(&self) -> Result<(), MdError> {
        let roles = self.u32(220) as usize;
        if roles > MAX_ROLES {
            return Err(self.wrong("the length of the table of roles", roles, format!("at most {MAX_ROLES}")));
        }
        let (words, odd) = self.bytes[..HEAD + 2 * roles].as_chunks::<4>();
        let words = words.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
        let odd = odd.first_chunk().map_or(0, |half| u64::from(u16::from_le_bytes(*half)));
        // Added up as `calc_sb_1_csum` of md does it, so each superblock that md has written passes.
        let sum = words.sum::<u64>() + odd - u64::from(self.u32(216));
        let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
        if sum == self.u32(216) { Ok(()) } else { Err(self.wrong("the checksum", self.u32(216), sum)) }
    }

    /// Checks that another superblock is of the same array, in the same state.
    ///
    /// # Errors
    /// If one of the fields differs.
    fn same_array(&self, other: &Self) -> Result<(), MdError> {
        let of_first = |what: String| format!("{what}, as on {}", self.path.display());
        for (key, at) in [("the first half of the uuid", 16), ("the second half of the uuid", 24)] {
            if self.u64(at) != other.u64(at) {
                return Err(other.wrong(key, format!("{:x}", other.u64(at)), of_first(format!("{:x}", self.u64(at)))));
            }
        }
        // The event counts must agree as well: a member with a lower one has missed writes.
        let sizes = [("the size", 80), ("the data offset", 128), ("the number of events", 200)];
        for (key, at) in sizes {
            if self.u64(at) != other.u64(at) {
                return Err(other.wrong(key, other.u64(at), of_first(self.u64(at).to_string())));
            }
        }
        let shape = [("the level", 72), ("the layout", 76), ("the chunk", 88), ("the number of members", 92)];
        for (key, at) in shape {
            if self.u32(at) != other.u32(at) {
                return Err(other.wrong(key, other.u32(at), of_first(self.u32(at).to_string())));
            }
        }
        let (own, others) = (self.used(), other.used());
        let zones = "of RAID-0 over members of several sizes there are zones, which is not supported".to_owned();
        if own == others { Ok(()) } else { Err(other.wrong("what is used", others, format!("{own}: {zones}"))) }
    }

    /// Sectors that are used of the member.
    fn used(&self) -> u64 {
        // RAID-0 uses all that each member has, so the data size counts and not the common size.
        let sectors = if self.u32(72) == 0 { self.u64(136) } else { self.u64(80) };
        let chunk = u64::from(self.u32(88));
        sectors - sectors.checked_rem(chunk).unwrap_or(0)
    }

    /// The array, without its members.
    fn array(&self) -> Result<MdArray, MdError> {
        let level = match self.u32(72).cast_signed() {
            0 => RaidLevel::Raid0,
            1 => RaidLevel::Raid1,
            4 => RaidLevel::Raid4,
            5 => RaidLevel::Raid5,
            6 => RaidLevel::Raid6,
            other => return Err(self.wrong("the level", other, "0, 1, 4, 5 or 6")),
        };
        // RAID-4 has one layout, whatever the field says.
        let layout = match (level, self.u32(76)) {
            (RaidLevel::Raid0 | RaidLevel::Raid1, _) => None,
            (RaidLevel::Raid4, _) => Some(ParityLayout::ParityLast),
            (_, number) => {
                let known = NUMBERS.into_iter().find(|(known, _)| *known == number).map(|(_, layout)| layout.on(level));
                let known = known.filter(|layout| level.layouts().contains(layout));
                Some(known.ok_or_else(|| self.wrong("the layout", number, format!("one of those that {level} has")))?)
            }
        };
        let bytes = |key, sectors: u64| {
            let bytes = sectors.checked_mul(SECTOR_BYTES).filter(|bytes| *bytes > 0);
            bytes.map(ByteSize).ok_or_else(|| self.wrong(key, sectors, "a number of sectors of 512 bytes"))
        };
        Ok(MdArray {
            level,
            layout,
            chunk: if level == RaidLevel::Raid1 { None } else { Some(bytes("the chunk", self.u32(88).into())?) },
            member_size: bytes("what is used", self.used())?,
            data_offset: bytes("the data offset", self.u64(128))?,
            origin: self.origin(),
            members: Vec::new(),
        })
    }

    /// Returns the number of the member.
    ///
    /// # Errors
    /// If the device is a spare, has failed, or is a journal.
    fn role(&self) -> Result<u16, MdError> {
        // These are `dev_number` and `max_dev` of `struct mdp_superblock_1`.
        let (device, roles) = (self.u32(160), self.u32(220));
        if device >= roles {
            return Err(self.wrong("the number of the device", device, format!("below {roles}")));
        }
        // The numbers are `MD_DISK_ROLE_SPARE`, `MD_DISK_ROLE_FAULTY` and `MD_DISK_ROLE_JOURNAL` of md_p.h.
        match self.u16(HEAD + 2 * device as usize) {
            0xffff => Err(self.wrong("the role", "that of a spare", "that of a member")),
            0xfffe => Err(self.wrong("the role", "that of a device that failed", "that of a member")),
            0xfffd => Err(self.wrong("the role", "that of a journal", "that of a member")),
            role => Ok(role),
        }
    }

    /// Checks that nothing is in progress and that parity or copies match the data.
    ///
    /// # Errors
    /// If a resync, a reshape or another such operation is not finished.
    fn in_order(&self, level: RaidLevel) -> Result<(), MdError> {
        // Any other feature says that md has something under way, or stores data where destage would not look.
        let features = self.u32(8) & !HARMLESS;
        if features != 0 {
            let none = "0: no recovery, reshape, bad blocks, replacement, journal, PPL or cluster; have md bring that to an end first";
            return Err(self.wrong("the map of features, but for bitmap and layout,", format!("{features:#x}"), none));
        }
        let synced = self.u64(208);
        // Parity that is not in sync would be believed here: adopting reads no data.
        if level != RaidLevel::Raid0 && synced != u64::MAX {
            let all = "behind the end: have md resync the array, and stop it in order";
            return Err(self.wrong("the sector up to which all is in sync", synced, all));
        }
        Ok(())
    }
}

/// The numbers that md has for layouts.
const NUMBERS: [(u32, ParityLayout); 14] = [
    (0, ParityLayout::LeftAsymmetric),
    (1, ParityLayout::RightAsymmetric),
    (2, ParityLayout::LeftSymmetric),
    (3, ParityLayout::RightSymmetric),
    (4, ParityLayout::ParityFirst),
    (5, ParityLayout::ParityLast),
    (8, ParityLayout::DdfZeroRestart),
    (9, ParityLayout::DdfNRestart),
    (10, ParityLayout::DdfNContinue),
    (16, ParityLayout::LeftAsymmetric6),
    (17, ParityLayout::RightAsymmetric6),
    (18, ParityLayout::LeftSymmetric6),
    (19, ParityLayout::RightSymmetric6),
    (20, ParityLayout::ParityFirst6),
];
