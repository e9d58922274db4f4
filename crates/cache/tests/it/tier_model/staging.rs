//! The deltas in NVRAM (specs §9.4, §9.8.6).

/// Names one of a page's deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// With the base it is what the parity covers (`keep_clean`).
    Covered,
    Newest,
}

/// A delta in the NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    pub page: u64,
    pub role: Role,
    pub len: u32,
}

#[derive(Clone, Debug)]
pub struct Staging {
    bytes: u64,
    /// Oldest first.
    list: Vec<Staged>,
    /// The last so many are on their way into the NVRAM.
    coming: usize,
    /// A page is being packed: what is packed after it waits until that is done.
    is_packing: bool,
}

impl Staging {
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, list: Vec::new(), coming: 0, is_packing: false }
    }

    pub fn list(&self) -> &[Staged] {
        &self.list
    }

    pub fn fits(&self, len: u32) -> bool {
        self.used() + u64::from(len) <= self.bytes
    }

    pub fn push(&mut self, page: u64, role: Role, len: u32) {
        assert!(self.fits(len) && !self.list.iter().any(|staged| staged.page == page && staged.role == role));
        self.list.push(Staged { page, role, len });
        self.coming += usize::from(!self.is_packing);
    }

    /// Notes that all deltas are in the NVRAM.
    pub const fn settle(&mut self) {
        self.coming = 0;
        self.is_packing = false;
    }

    pub fn remove(&mut self, page: u64, role: Role) {
        let at = self.list.iter().position(|staged| staged.page == page && staged.role == role);
        self.list.remove(at.expect("the delta is staged"));
    }

    /// The newest delta of a page is what the parity covers now.
    pub fn cover(&mut self, page: u64) {
        let newest = self.list.iter_mut().find(|staged| staged.page == page && staged.role == Role::Newest);
        newest.expect("the delta is staged").role = Role::Covered;
    }

    /// Takes the oldest deltas that fit into so many bytes, until the first that does not, or is not in the NVRAM so far.
    /// If none is, the first is waited for, and packed alone.
    pub fn take(&mut self, bytes: u32) -> Vec<Staged> {
        let there = (self.list.len() - self.coming).max(1);
        (self.coming, self.is_packing) = (0, true);
        let mut left = bytes;
        let fits = |staged: &&Staged| {
            let rest = left.checked_sub(staged.len);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let count = self.list[..there].iter().take_while(fits).count();
        self.list.drain(..count).collect()
    }

    fn used(&self) -> u64 {
        self.list.iter().map(|staged| u64::from(staged.len)).sum()
    }

    pub fn check(&self) {
        assert!(self.used() <= self.bytes, "the staging buffer has room for what is in it");
    }
}
