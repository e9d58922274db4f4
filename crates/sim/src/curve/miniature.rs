//! A policy on a miniature of a buffer, which sees what happens to a sample of the pages.

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{
    AccessOutcome, BufferNotice, BufferPolicy, BuiltPolicy, EvictionCandidate, EvictionVeto, Evictions, NoDevice,
    NoVeto, PageAccess, PolicyVisitor, WhenExhausted,
};

use super::sample::{SampleAction, SampleEvent};

/// A buffer whose policy is no longer visible.
pub(super) trait MiniatureBuffer: Send {
    /// Lets it happen; the pages are below `pages`.
    fn run(&mut self, pages: u32, events: &[SampleEvent]);
    /// Hits that count.
    fn hits(&self) -> u64;
}

/// Makes a miniature of a policy.
pub(super) struct BuildMiniature;

impl PolicyVisitor for BuildMiniature {
    type Out = (Box<dyn MiniatureBuffer>, BuiltPolicy);

    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, built: BuiltPolicy) -> Self::Out {
        (Box::new(SmallBuffer { buffer, out: Evictions::default(), measuring: false, hits: 0 }), built)
    }
}

/// [`NoVeto`] as a type of its own: if runs and miniatures called the same function of a policy, compilers would not put it
/// into the loop of runs any more.
struct UnopposedVeto;

impl EvictionVeto for UnopposedVeto {
    const ACTIVE: bool = NoVeto::ACTIVE;

    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        NoVeto.passes_over(candidate)
    }

    fn avoids(&mut self, channel: u32) -> bool {
        NoVeto.avoids(channel)
    }

    fn exhausted(&mut self) -> WhenExhausted {
        NoVeto.exhausted()
    }
}

struct SmallBuffer<B> {
    buffer: B,
    out: Evictions,
    measuring: bool,
    hits: u64,
}

impl<B: BufferPolicy> SmallBuffer<B> {
    fn notify(&mut self, notice: BufferNotice) {
        self.buffer.notify(notice, &NoDevice, &mut UnopposedVeto, &mut self.out);
        self.out.clear();
    }
}

impl<B: BufferPolicy + Send> MiniatureBuffer for SmallBuffer<B> {
    fn run(&mut self, pages: u32, events: &[SampleEvent]) {
        self.buffer.grow(pages);
        for event in events {
            let page = PageNo(event.page);
            match event.deed {
                SampleAction::Read | SampleAction::Write => {
                    let access = PageAccess { page, write: matches!(event.deed, SampleAction::Write) };
                    let outcome = self.buffer.access(access, &NoDevice, &mut UnopposedVeto, &mut self.out);
                    self.out.clear();
                    self.hits += u64::from(self.measuring && outcome == AccessOutcome::Hit);
                }
                SampleAction::WritePast | SampleAction::Trim => self.notify(BufferNotice::Trim { page }),
                SampleAction::Flush => self.notify(BufferNotice::Flush),
                SampleAction::Measure => self.measuring = true,
            }
        }
    }

    fn hits(&self) -> u64 {
        self.hits
    }
}
