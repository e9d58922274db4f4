//! A controller for tests of executors.

use destage_plan::{Class, Controller, Event, Frag, OpId, Out};

/// Gives each fragment an operation with the steps that a test says, and does nothing about how
/// they end.
pub struct ScriptedController<F>(pub F);

impl<F: FnMut(Frag, OpId, &mut Out)> Controller for ScriptedController<F> {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(_) => out.ready(),
            Event::Submit(frag) => {
                let op = out.open(Class::Internal, None, Some(frag.id));
                (self.0)(frag, op, out);
            }
            _ => {}
        }
    }
}
