//! Any bytes, as if a client had sent them.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use warpkeep::{Store, StoreOptions};
use warpkeep_server::fuzzing::Fuzzed;

thread_local! {
    static FUZZED: RefCell<Fuzzed<'static>> = RefCell::new(start());
}

/// A server of a store in memory, for as long as the process lives.
fn start() -> Fuzzed<'static> {
    let home = tempfile::tempdir_in("/dev/shm").expect("there is /dev/shm");
    let mut options = StoreOptions { without_log: true, ..StoreOptions::default() };
    options.heap.max_bytes = 256 << 20;
    let store = Store::open_with(home.path(), options).expect("an empty folder makes a store");
    // The file lives on while it is mapped.
    drop(home);
    Fuzzed::new(Box::leak(Box::new(store))).expect("an empty store can be served")
}

fuzz_target!(|bytes: &[u8]| {
    FUZZED.with_borrow_mut(|fuzzed| fuzzed.take(bytes));
});
