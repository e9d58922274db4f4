//! Panics of what is tried are answers: they are caught, with where they happened, and not printed.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Holds the message of the panic that is being caught on this thread; none while no panic is to be caught.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns what `work` gives; the error is what its panic said, and where.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // The hook is one for the whole process, while tests run in parallel: the thread's own cell decides who prints.
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            let catching = SAID.with_borrow_mut(|said| said.as_mut().map(|said| *said = panic.to_string()).is_some());
            if !catching {
                usual(panic);
            }
        }));
    });
    SAID.set(Some(String::new()));
    // Nothing is used after a panic but the message, so no broken invariant can be seen.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let said = SAID.take();
    outcome.map_err(|_| said.unwrap_or_default())
}
