//! Blocking on the parker's own word with a Linux futex.
//!
//! F1. Every error of the wait (changed word, signal, timeout) is an early return, which the
//!     caller's loop allows for.
//!
//! Not here: 32-bit systems, where the kernel's and libc's `timespec` may differ.

use std::{ptr, time::Duration};

use super::{Gate, PARKED};
use crate::base::shim::AtomicU32;

/// One wait in the kernel, in seconds, at most; the caller's loop waits on. Guessed: any value
/// that fits every `time_t` will do.
const LONGEST_WAIT: u64 = 1 << 30;

#[derive(Debug, Default)]
pub(super) struct FutexGate;

impl Gate for FutexGate {
    fn wait(&self, word: &AtomicU32, timeout: Option<Duration>) {
        let limit = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().min(LONGEST_WAIT).cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `word` is a live aligned 32-bit word, `limit` is null or points to a timespec
        // that outlives the call, and the kernel writes to neither.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                PARKED,
                limit,
            )
        };
        debug_assert!(result == 0 || early_return_is_expected(), "F1");
    }

    fn wake(&self, word: &AtomicU32) {
        // SAFETY: `word` is a live aligned 32-bit word, which the kernel uses as an address only.
        let woken = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            )
        };
        debug_assert!(woken >= 0, "the futex word is valid");
    }
}

fn early_return_is_expected() -> bool {
    let error = std::io::Error::last_os_error().raw_os_error();
    matches!(error, Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT))
}
