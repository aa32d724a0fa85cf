//! Hints that memory will be needed soon, where the processor takes them.

/// The line at `address` will be read. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_read<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which does not fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}

/// The line at `address` will be written. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a hint, which does not fault.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.cast()) };
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}
