//! Panics of what is tried are answers: they are caught, with where they happened, and not printed.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// What the panic that is being caught on this thread said; nothing while none is to be caught.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns what `work` gives; the error is what its panic said, and where.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
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
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let said = SAID.take();
    outcome.map_err(|_| said.unwrap_or_default())
}
