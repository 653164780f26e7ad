//! The memory of this process.
#![allow(unsafe_code, reason = "a call to the C library")]

/// Returns freed memory to the system: maps of millions of small pieces leave much behind.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}
