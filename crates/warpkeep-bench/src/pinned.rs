//! Threads on cores of their own.

use std::sync::OnceLock;

use core_affinity::CoreId;

/// Pins this thread to one of the cores this process may use; several share one if there are more threads than
/// cores. If the system refuses, it is not pinned.
pub(crate) fn to_core(thread: usize) {
    let cores = cores();
    if let Some(core) = cores.get(thread % cores.len().max(1)) {
        core_affinity::set_for_current(*core);
    }
}

/// How many cores this process may use.
pub(crate) fn core_count() -> usize {
    cores().len().max(1)
}

/// Queried once, and first by a thread that is not pinned: a pinned one sees its own core only.
fn cores() -> &'static [CoreId] {
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}
