//! Prints the operations that are open.

use super::Out;
use crate::StepNo;

/// Lists the operations that are open, with their claims and how far each step is: for the printout of a
/// harness.
impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (id, op) in self.ops.iter().enumerate().filter(|(_, op)| op.live) {
            let closed = if op.closed { "closed" } else { "open" };
            writeln!(f, "OpId({id}) {:?} {closed} frag {:?} claim {:?}", op.class, op.frag, op.claim)?;
            for (index, slot) in op.steps.iter().enumerate() {
                let number = StepNo(index as u8);
                let state = match () {
                    () if op.failed.contains(number) => "failed",
                    () if op.done.contains(number) => "done",
                    () if op.issued.contains(number) => "in flight",
                    () => "waits",
                };
                writeln!(f, "  {index} {state}: {:?} after {:?}", slot.step, slot.after)?;
            }
        }
        Ok(())
    }
}
