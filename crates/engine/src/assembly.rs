//! Going on with the freshest members where the level cannot do without those that the array went on without, as
//! `mdadm --assemble --force` does.

use std::path::{Path, PathBuf};

use destage_cache::{CacheMedium, ServedTier};
use destage_exec::{FileExecutor, MemberFreshness};
use destage_plan::{Dev, DevSet, path_text};

use crate::array::ArrayBackend;
use crate::backend::BlockBackend;
use crate::description::{ArrayDescription, DescribedArray, DescriptionError, folder};
use crate::status::ByteRange;

/// Describes a member, as it is found before an array is assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyMember {
    /// Gives its number.
    pub number: u8,
    /// Gives its file.
    pub path: String,
    /// Says how fresh it is.
    pub freshness: MemberFreshness,
    /// Tells whether it would have to be believed though it is stale.
    pub is_forced: bool,
}

/// Plans how an array that nobody serves is assembled of its freshest members.
#[derive(Debug)]
pub struct ArrayAssembly {
    description: ArrayDescription,
    path: PathBuf,
    members: Vec<AssemblyMember>,
    /// Counts the members that the level needs, and those that are missing of them though all stale ones are taken.
    needed: usize,
    short: usize,
    /// Tells whether the NVRAM or the cache may have what is on no member.
    holds_data: bool,
}

/// Reports how an array was assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyReport {
    /// Lists the files of NVRAM and intents that were lost, or older than the members, and were made anew.
    pub remade: Vec<String>,
    /// Tells whether writes may be lost with them that were answered.
    pub data_lost: bool,
    /// Lists the ranges of data that are lost: rows that were being written, or that only the cache had.
    pub lost: Vec<ByteRange>,
}

impl ArrayAssembly {
    /// Looks at the members of an array that nobody serves. Nothing is changed.
    ///
    /// # Errors
    /// If there can be no such array; if it is in use; if a file is another array's.
    pub fn inspect(description: ArrayDescription, path: &Path) -> Result<Self, DescriptionError> {
        // If md has run the members since, they are newer than NVRAM, intents and cache here.
        description.check_md(folder(path))?;
        let DescribedArray { geometry, policy, files, .. } = description.described(folder(path))?;
        let found = FileExecutor::<Box<dyn ServedTier>>::inspect_members(&files)?;
        let needed = usize::from(geometry.members() - geometry.parity_columns());
        let current = found.iter().filter(|(_, fresh)| *fresh == MemberFreshness::Current).count();
        // The freshest first: each step back in event counts loses more writes. Among equals the first member wins, so
        // the choice does not depend on chance.
        let mut stale: Vec<(u64, usize)> = (0..)
            .zip(&found)
            .filter_map(|(at, (_, fresh))| match fresh {
                MemberFreshness::Stale { count, .. } => Some((*count, at)),
                _ => None,
            })
            .collect();
        stale.sort_by_key(|(count, at)| (std::cmp::Reverse(*count), *at));
        let wanted = needed.saturating_sub(current);
        let forced: Vec<usize> = stale.iter().take(wanted).map(|(_, at)| *at).collect();
        let members = found.into_iter().enumerate().map(|(at, (path, freshness))| AssemblyMember {
            number: at as u8,
            path: path_text::of(&path),
            freshness,
            is_forced: forced.contains(&at),
        });
        let info = policy.info();
        Ok(Self {
            members: members.collect(),
            needed,
            short: wanted - forced.len(),
            holds_data: info.holds_dirty || info.medium == CacheMedium::Nvram,
            description,
            path: path.to_owned(),
        })
    }

    /// Returns the members.
    pub fn members(&self) -> &[AssemblyMember] {
        &self.members
    }

    /// Counts the members that the level needs.
    pub const fn needed(&self) -> usize {
        self.needed
    }

    /// Counts the members that the level would need beside all that can be used.
    pub const fn short(&self) -> usize {
        self.short
    }

    /// Tells whether the NVRAM or the cache may have what is on no member.
    pub const fn holds_data(&self) -> bool {
        self.holds_data
    }

    /// Assembles the array, makes it consistent as far as can be, and stops it in order. Losses are accepted, and reported.
    ///
    /// # Errors
    /// If members are missing that the level needs; if a file cannot be read or written.
    pub fn force(self) -> Result<AssemblyReport, DescriptionError> {
        let of = |is: fn(&AssemblyMember) -> bool| -> DevSet {
            self.members.iter().filter(|member| is(member)).map(|member| Dev(member.number)).collect()
        };
        let forced = of(|member| member.is_forced);
        let believed = forced | of(|member| member.freshness == MemberFreshness::Current);
        let described = self.description.described(folder(&self.path))?;
        // Older members that are not needed stay out, or rows would mix several moments of the array.
        if self.short == 0 && self.members.iter().any(|member| member.freshness != MemberFreshness::Current) {
            FileExecutor::<Box<dyn ServedTier>>::force_members(&described.files, forced)?;
        }
        drop(described);
        let mut array = ArrayBackend::open_with(self.description, &self.path, believed)?;
        array.wait_ready()?;
        let status = array.status();
        let (remade, data_lost) = status.resynchronised.map_or((Vec::new(), false), |done| (done.lost, done.data_lost));
        array.stop()?;
        Ok(AssemblyReport { remade, data_lost, lost: status.lost })
    }
}
