//! A worked table of the specification, row by row: a policy and its model must do and hold what it
//! says, and both must be left in the same state, which shows when everything is pushed out.

use destage_policy::buffer::{BufferConfig, BufferNotice, PageAccess};

use crate::driven::{Driven, driven};
use crate::models::{Left, Model, Objections, model};

/// Pages that no table touches, a multiple of every block.
const FRESH: u32 = 5120;
const ROOM: u32 = 20_480;

/// A policy and its model on their way through a table.
pub(crate) struct Table {
    spec: &'static str,
    config: BufferConfig,
    pub(crate) policy: Box<dyn Driven>,
    pub(crate) model: Box<dyn Model>,
    so_far: Vec<PageAccess>,
}

impl Table {
    pub(crate) fn new(spec: &'static str, capacity_pages: u32, pages_per_block: u32, elements: u32) -> Self {
        let config = BufferConfig { capacity_pages, pages_per_block, elements };
        Self { spec, config, policy: driven(spec, config, ROOM), model: model(spec, config), so_far: Vec::new() }
    }

    /// The accesses of a row, the state after them, and what left.
    #[track_caller]
    pub(crate) fn row(&mut self, accesses: &[PageAccess], state: &str, left: &[Left]) {
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for access in accesses {
            let outcome = self.model.access(*access, &Objections::none(), &mut expected);
            assert_eq!(self.policy.access(*access, &mut seen), outcome);
        }
        assert_eq!(expected, left, "what the model evicts");
        assert_eq!(seen, left, "what the policy evicts");
        assert_eq!(self.model.state(), state, "the model's state");
        assert_eq!(self.policy.len(), self.model.len());
        assert_eq!(self.policy.memory_accesses(), self.model.memory_accesses());
        self.so_far.extend(accesses);
        self.compare_drains();
    }

    /// Pushes everything out of copies of both.
    fn compare_drains(&self) {
        let (mut policy, mut model) = (driven(self.spec, self.config, ROOM), model(self.spec, self.config));
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        let fresh =
            (0..6 * self.config.capacity_pages).map(|i| PageAccess::write(FRESH + i * self.config.pages_per_block));
        for access in self.so_far.iter().copied().chain(fresh) {
            model.access(access, &Objections::none(), &mut expected);
            policy.access(access, &mut seen);
            assert_eq!(seen, expected, "what leaves for fresh page {access:?}");
        }
        // Pages that came again stay where there are queues of their own.
        let keeps = ["2q", "arc", "s3-fifo"].contains(&self.spec);
        assert!(keeps || model.dirty().iter().all(|page| *page >= FRESH), "the drain is complete");
        policy.notify(BufferNotice::Flush, &mut seen);
        model.notify(BufferNotice::Flush, &mut expected);
        assert_eq!(seen, expected, "what is left");
    }
}
