//! Bringing lines nearer before they are needed.

/// Asks for the line of an address, to be written. Only a hint.
#[inline(always)]
pub fn line_to_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // The intrinsic for it asks for the line to be read, unless the whole program is built for machines that can do more: and then the store
    // asks once more. Those that cannot take the instruction for none.
    // SAFETY: a prefetch never faults, whatever the address, and changes nothing that the program sees.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for the line of an address. Only a hint: any address will do, and nothing is read.
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
