//! No buffer at all: every access goes to the device. The baseline that shows what a buffer is
//! worth.

use destage_plan::Params;

use crate::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionUnit, EvictionVeto, Evictions,
    PageAccess, PolicyError, PolicyInfo, RegisteredPolicy,
};

/// Holds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NoBuffer;

impl RegisteredPolicy for NoBuffer {
    const INFO: PolicyInfo = PolicyInfo {
        name: "none",
        title: "no buffer: every access goes to the device",
        about: "There is no buffer: each page of a request goes to the device by itself. It shows what a buffer is \
                worth, and runs once whatever the cache sizes.",
        paper: "baseline",
        year: 0,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[],
    };

    fn with_params(_config: BufferConfig, _params: &Params) -> Result<Self, PolicyError> {
        Ok(Self)
    }
}

impl BufferPolicy for NoBuffer {
    fn grow(&mut self, _pages: u32) {}

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        _access: PageAccess,
        _device: &D,
        _veto: &mut V,
        _out: &mut Evictions,
    ) -> AccessOutcome {
        AccessOutcome::Bypassed
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, _veto: &mut V, _out: &mut Evictions) -> bool {
        false
    }

    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        _notice: BufferNotice,
        _device: &D,
        _veto: &mut V,
        _out: &mut Evictions,
    ) {
    }

    fn admits(&self, _access: PageAccess) -> bool {
        false
    }

    fn len(&self) -> u32 {
        0
    }

    fn memory_accesses(&self) -> u64 {
        0
    }
}
