//! Fault points: named steps of a protocol that a test can have left out, to prove that the step is needed.
//!
//! Code asks at the step whether it is left out, with [`fault_point!`](crate::fault_point) in Rust or `WK_FAULT_POINT` of
//! `warpkeep/fault_point.h` in a kernel. A test [activates](activate) one point at a time, for the whole process, so tests that
//! do so are a program of their own.
//!
//! Fault points exist in builds with the feature `testing`, which the tests of this workspace ask for. In all others
//! [`fault_point!`](crate::fault_point) is the constant `false`, and the compiler removes the branch.
//!
//! ```
//! use warpkeep_device::{fault, fault_point};
//!
//! fn publish() -> &'static str {
//!     if fault_point!("example.publish") { "left out" } else { "published" }
//! }
//!
//! assert_eq!(publish(), "published");
//! if fault::is_compiled_in() {
//!     let active = fault::activate("example.publish");
//!     assert_eq!(publish(), "left out");
//!     assert_eq!(active.reached(), 1);
//! }
//! ```

/// Whether a test has the step of this name left out: see [`fault`](crate::fault).
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {
        $crate::fault::is_active(const { $crate::fault::id($name) })
    };
}

/// Whether this build has fault points.
pub const fn is_compiled_in() -> bool {
    cfg!(feature = "testing")
}

/// What a fault point is known by: FNV-1a of its name. `warpkeep/fault_point.h` has the same function.
#[doc(hidden)]
pub const fn id(name: &str) -> u64 {
    let (name, mut hash, mut i) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while i < name.len() {
        hash = (hash ^ name[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash | 1
}

#[cfg(feature = "testing")]
pub use active::{Active, activate, is_active};

/// Whether the fault point is active: never.
#[cfg(not(feature = "testing"))]
#[doc(hidden)]
#[inline(always)]
pub const fn is_active(_id: u64) -> bool {
    false
}

/// A fault point of a build that has none.
#[cfg(not(feature = "testing"))]
#[derive(Debug)]
pub struct Active(());

/// Activates a fault point.
///
/// # Panics
/// Always: this build has no fault points.
#[cfg(not(feature = "testing"))]
pub fn activate(name: &str) -> Active {
    panic!("this build has no fault point {name}: build it with the feature testing of warpkeep-device");
}

#[cfg(not(feature = "testing"))]
impl Active {
    /// How often code came to the point while it was active.
    pub fn reached(&self) -> u64 {
        0
    }
}

#[cfg(feature = "testing")]
mod active {
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[cfg(not(no_simulator))]
    mod words {
        use std::sync::atomic::AtomicU64;

        unsafe extern "C" {
            static wk_fault_active: AtomicU64;
            static wk_fault_reached: AtomicU64;
        }

        pub(super) fn active() -> &'static AtomicU64 {
            // SAFETY: the simulator defines it, and all access to it is atomic.
            unsafe { &wk_fault_active }
        }

        pub(super) fn reached() -> &'static AtomicU64 {
            // SAFETY: as above.
            unsafe { &wk_fault_reached }
        }
    }

    #[cfg(no_simulator)]
    mod words {
        use std::sync::atomic::AtomicU64;

        static ACTIVE: AtomicU64 = AtomicU64::new(0);
        static REACHED: AtomicU64 = AtomicU64::new(0);

        pub(super) fn active() -> &'static AtomicU64 {
            &ACTIVE
        }

        pub(super) fn reached() -> &'static AtomicU64 {
            &REACHED
        }
    }

    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Whether the fault point is active.
    #[doc(hidden)]
    #[inline]
    pub fn is_active(id: u64) -> bool {
        if words::active().load(Ordering::Relaxed) != id {
            return false;
        }
        words::reached().fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Has a step left out, in the whole process, until what this returns is dropped. Waits while another fault point is active.
    pub fn activate(name: &str) -> Active {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        words::reached().store(0, Ordering::Relaxed);
        words::active().store(super::id(name), Ordering::SeqCst);
        Active { _alone: alone }
    }

    /// A fault point that is active. Made by [`activate`].
    #[derive(Debug)]
    pub struct Active {
        _alone: MutexGuard<'static, ()>,
    }

    impl Active {
        /// How often code came to the point while it was active: 0 if there is no such point, or nothing came to it.
        pub fn reached(&self) -> u64 {
            words::reached().load(Ordering::Relaxed)
        }
    }

    impl Drop for Active {
        fn drop(&mut self) {
            words::active().store(0, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_ids_of_their_own() {
        // Pinned, for the header has the same function: FNV-1a of "a" is af63dc4c8601ec8c.
        assert_eq!(id("a"), 0xaf63_dc4c_8601_ec8d);
        assert_ne!(id("gphash.staged"), id("gphash.published"));
        assert_ne!(id(""), 0);
    }

    #[test]
    #[cfg(feature = "testing")]
    fn one_point_is_active_until_it_is_dropped() {
        let at = |which| match which {
            1 => fault_point!("test.one"),
            _ => fault_point!("test.two"),
        };
        assert!(!at(1));
        {
            let active = activate("test.one");
            assert!(at(1) && at(1) && !at(2));
            assert_eq!(active.reached(), 2);
        }
        assert!(!at(1));
        assert_eq!(activate("test.no_such_point").reached(), 0);
    }
}
