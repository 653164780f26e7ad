//! The recorder of this process's metrics.
//!
//! It keeps each sample of a histogram until it is asked for its text or sums the samples up. Calls do the latter from time to time on the
//! thread of the caller: a thread for it would be lost in a child made by fork.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// Calls after which the samples are summed up.
const CALLS: u32 = 4096;

static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
static CALLED: AtomicU32 = AtomicU32::new(0);
/// The process of which a thread uses the recorder or forks; 0 if there is none. A child has no other thread of its parent, so a lock of
/// the recorder that one of them holds at the fork stays locked there.
static USER: AtomicU32 = AtomicU32::new(0);

/// The use of the recorder, by one thread at a time.
struct Turn(());

impl Turn {
    fn take() -> Option<Turn> {
        let pid = std::process::id();
        USER.compare_exchange(0, pid, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Turn(()))
    }

    /// Waits for the other threads; `None` if a thread of another process had the recorder when it forked this one without Python.
    fn wait() -> Option<Turn> {
        loop {
            if let Some(turn) = Turn::take() {
                return Some(turn);
            }
            let user = USER.load(Ordering::Relaxed);
            if user != 0 && user != std::process::id() {
                return None;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        USER.store(0, Ordering::Release);
    }
}

/// Collects the metrics of this process. Another recorder cannot be in its way: this extension has its own copy of the library.
pub(crate) fn install() {
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).ok().map(|()| handle)
    });
}

fn handle() -> Option<&'static PrometheusHandle> {
    HANDLE.get().and_then(Option::as_ref)
}

/// Takes note of a call of a table. Every [`CALLS`] of them, the samples are summed up, so that their memory is bounded.
pub(crate) fn note_call() {
    if !CALLED.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(CALLS) {
        return;
    }
    if let (Some(handle), Some(_turn)) = (handle(), Turn::take()) {
        handle.run_upkeep();
    }
}

/// The process's metrics in Prometheus' text format.
#[pyfunction]
pub(crate) fn metrics(py: Python<'_>) -> String {
    py.detach(|| match (handle(), Turn::wait()) {
        (Some(handle), Some(_turn)) => handle.render(),
        _ => String::new(),
    })
}

/// Lets no thread use the recorder while this process forks.
pub(crate) fn rest_during_forks(py: Python<'_>) -> PyResult<()> {
    let hook = |work: fn()| {
        PyCFunction::new_closure(
            py,
            None,
            None,
            move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                // Without the GIL, since another thread may need it to end its own fork.
                arguments.py().detach(work);
            },
        )
    };
    let begin = hook(|| std::mem::forget(Turn::wait()))?;
    let end = hook(|| drop(Turn(())))?;
    let hooks = PyDict::new(py);
    hooks.set_item("before", begin)?;
    hooks.set_item("after_in_parent", &end)?;
    hooks.set_item("after_in_child", &end)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks)).map(drop)
}
