//! No buffer: every access goes to the device.

use destage_policy::buffer::{AccessOutcome, BufferNotice, PageAccess};

use super::{Left, Model, Objections};

pub(crate) struct NoneModel;

impl Model for NoneModel {
    fn access(&mut self, _: PageAccess, _: &Objections, _: &mut Vec<Left>) -> AccessOutcome {
        AccessOutcome::Bypassed
    }
    fn evict(&mut self, _: &Objections, _: &mut Vec<Left>) -> bool {
        false
    }
    fn notify(&mut self, _: BufferNotice, _: &mut Vec<Left>) {}
    fn len(&self) -> u32 {
        0
    }
    fn dirty(&self) -> Vec<u32> {
        Vec::new()
    }
    fn memory_accesses(&self) -> u64 {
        0
    }
    fn state(&self) -> String {
        String::new()
    }
}
