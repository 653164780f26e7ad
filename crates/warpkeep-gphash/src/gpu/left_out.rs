//! Steps of the protocol that the host takes part in: a test can leave one out, too, and see that it is missed.

/// Whether a test leaves this step out, by its number in `kernels/steps.h`.
#[doc(hidden)]
#[cfg(not(no_simulator))]
pub fn is_left_out(step: u32) -> bool {
    unsafe extern "C" {
        static gphash_left_out: std::sync::atomic::AtomicU32;
    }
    // SAFETY: the kernels for the simulator define it, and it is only ever used atomically.
    unsafe { &gphash_left_out }.load(std::sync::atomic::Ordering::Relaxed) == step
}

/// The same: without a simulator nobody does.
#[doc(hidden)]
#[cfg(no_simulator)]
pub fn is_left_out(_step: u32) -> bool {
    false
}
