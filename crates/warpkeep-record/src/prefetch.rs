//! Bringing lines nearer before they are needed.

/// Prefetches the line of an address for writing. Only a hint.
#[inline(always)]
pub fn line_to_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // The intrinsic prefetches the line for reading, unless the whole program is built for newer machines: then the
    // store would request it once more. Machines without the instruction treat it as a no-op.
    // SAFETY: a prefetch never faults, whatever the address, and changes nothing that the program sees.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the line of an address. Only a hint: any address is allowed, and nothing is read.
#[inline(always)]
pub fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
