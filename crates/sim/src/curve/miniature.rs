//! A policy on a miniature of a buffer, which sees what happens to a sample of the pages.

use destage_plan::{Element, PageNo};
use destage_policy::buffer::{
    Access, AccessOutcome, Buffer, BufferNotice, Built, Candidate, Evictions, Exhausted, NoDevice, NoVeto, Veto,
    Visitor,
};

use super::sample::{Deed, Event};

/// A buffer whose policy is no longer visible.
pub(super) trait Miniature: Send {
    /// Lets it happen; the pages are below `pages`.
    fn run(&mut self, pages: u32, events: &[Event]);
    /// Hits that count.
    fn hits(&self) -> u64;
}

/// Makes a miniature of a policy.
pub(super) struct Build;

impl Visitor for Build {
    type Out = (Box<dyn Miniature>, Built);

    fn visit<B: Buffer + Send + 'static>(self, buffer: B, built: Built) -> Self::Out {
        (Box::new(Small { buffer, out: Evictions::default(), measuring: false, hits: 0 }), built)
    }
}

/// [`NoVeto`] as a type of its own: if runs and miniatures called the same function of a policy, compilers would not put it
/// into the loop of runs any more.
struct Unopposed;

impl Veto for Unopposed {
    const ACTIVE: bool = NoVeto::ACTIVE;

    fn passes_over(&mut self, candidate: Candidate<'_>) -> Option<Element> {
        NoVeto.passes_over(candidate)
    }

    fn avoids(&mut self, channel: u32) -> bool {
        NoVeto.avoids(channel)
    }

    fn exhausted(&mut self) -> Exhausted {
        NoVeto.exhausted()
    }
}

struct Small<B> {
    buffer: B,
    out: Evictions,
    measuring: bool,
    hits: u64,
}

impl<B: Buffer> Small<B> {
    fn notify(&mut self, notice: BufferNotice) {
        self.buffer.notify(notice, &NoDevice, &mut Unopposed, &mut self.out);
        self.out.clear();
    }
}

impl<B: Buffer + Send> Miniature for Small<B> {
    fn run(&mut self, pages: u32, events: &[Event]) {
        self.buffer.grow(pages);
        for event in events {
            let page = PageNo(event.page);
            match event.deed {
                Deed::Read | Deed::Write => {
                    let access = Access { page, write: matches!(event.deed, Deed::Write) };
                    let outcome = self.buffer.access(access, &NoDevice, &mut Unopposed, &mut self.out);
                    self.out.clear();
                    self.hits += u64::from(self.measuring && outcome == AccessOutcome::Hit);
                }
                Deed::WritePast | Deed::Trim => self.notify(BufferNotice::Trim { page }),
                Deed::Flush => self.notify(BufferNotice::Flush),
                Deed::Measure => self.measuring = true,
            }
        }
    }

    fn hits(&self) -> u64 {
        self.hits
    }
}
