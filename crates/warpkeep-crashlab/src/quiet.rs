//! Panics inside a check are findings, not noise: they are caught, and not printed.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a check; a panic in it becomes an error with its location.
pub(crate) fn guarded(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let earlier = take_hook();
        set_hook(Box::new(move |info| {
            if CHECKING.get() {
                PLACE.set(info.location().map(ToString::to_string).unwrap_or_default());
            } else {
                earlier(info);
            }
        }));
    });
    let outer = CHECKING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(check));
    CHECKING.set(outer);
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
        Err(format!("panicked at {}: {text}", PLACE.take()))
    })
}
