//! Buffers alone.

use destage_plan::PolicySpec;
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferPolicy, BuiltPolicy, Evictions, NoDevice, NoVeto, PageAccess, PolicyVisitor,
    build,
};

use crate::Work;
use crate::requests::Random;

const PAGES: u32 = 1 << 16;
const CONFIG: BufferConfig = BufferConfig { capacity_pages: 1 << 13, pages_per_block: 64, elements: 4 };
const ACCESSES: usize = 40_000;

/// Writes the next accesses. Returns the hits.
fn write<B: BufferPolicy>(buffer: &mut B, pages: &[u32], out: &mut Evictions) -> u64 {
    let mut hits = 0;
    for &page in pages {
        let outcome = buffer.access(PageAccess::write(page), &NoDevice, &mut NoVeto, out);
        hits += u64::from(outcome == AccessOutcome::Hit);
        if !out.is_empty() {
            out.clear();
        }
    }
    hits
}

/// Makes the work of the policy that it is handed.
struct Prepare {
    full: Vec<u32>,
    counted: Vec<u32>,
}

impl PolicyVisitor for Prepare {
    type Out = Work;

    fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, _: BuiltPolicy) -> Work {
        let mut out = Evictions::default();
        buffer.grow(PAGES);
        // The buffer is full when counting begins, so that each miss evicts.
        write(&mut buffer, &self.full, &mut out);
        Box::new(move || write(&mut buffer, &self.counted, &mut out))
    }
}

/// Writes of skewed pages to a full buffer of this policy.
///
/// # Panics
/// If there is no such policy.
pub fn buffer(policy: &str) -> Work {
    let spec: PolicySpec = policy.parse().expect("a policy");
    let mut random = Random::new();
    let mut pages = |count| (0..count).map(|_| random.skewed(u64::from(PAGES)) as u32).collect();
    let prepare = Prepare { full: pages(ACCESSES), counted: pages(ACCESSES) };
    build(&spec, CONFIG, prepare).expect("defaults build")
}
