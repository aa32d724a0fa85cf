//! Asymmetric store-load barrier: the frequent side pays nothing, the rare side pays for both.
//!
//! Two threads that each store one word and then load the other's need a full fence on both
//! sides, or both may miss the other's store. When one side runs a million times for each run of
//! the other, Linux `membarrier(PRIVATE_EXPEDITED)` lets the rare side impose the fence on every
//! running thread of the process, and the frequent side only has to stop the compiler.
//!
//! B1. If a `light()` and a `heavy()` each stand between a store and a load, at least one of the
//!     two loads sees the other side's store.
//! B2. A thread whose `light()` is a mere compiler fence pairs with system calls only: `MODE` says
//!     `Membarrier` only once registration has succeeded, and every `heavy()` waits for the
//!     outcome of the registration. A `light()` that runs before the choice is a real fence, which
//!     pairs with either kind of `heavy()`.
//! B3. Light pairs with heavy only: two lights order nothing. Every call of `light()` names its
//!     partner in a `LIGHT:` comment, because no model can see the mistake.
//!
//! In loom, and under `filch_tsan`, both halves are explicit fences.
//!
//! Not here: how often a barrier may be paid (the explore policy of the scheduler), and a counter.

#[cfg(not(loom))]
use std::sync::OnceLock;

#[cfg(all(not(loom), not(filch_tsan)))]
use super::shim::{AtomicBool, compiler_fence};
use super::shim::{Ordering, fence};

/// How the pair is made of on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Both halves are SeqCst fences.
    Fence,
    /// The light half stops the compiler, the heavy half is a system call.
    Membarrier,
}

#[cfg(not(loom))]
static CHOICE: OnceLock<Mode> = OnceLock::new();

/// Written once, by whoever makes the choice; read by every `light()`. False until then (B2).
#[cfg(all(not(loom), not(filch_tsan)))]
static LIGHT_IS_FREE: AtomicBool = AtomicBool::new(false);

/// Chooses the mode, once per process. Called before the first worker starts, so that no owner
/// ever pays the real fence where it need not; calling it late costs time, never order (B2).
pub(crate) fn init() {
    let _ = mode();
}

/// The mode of this process, chosen now if it was not before.
#[cfg(not(loom))]
#[inline]
pub(crate) fn mode() -> Mode {
    *CHOICE.get_or_init(choose)
}

#[cfg(loom)]
pub(crate) fn mode() -> Mode {
    Mode::Fence
}

/// The frequent half. Goes between a store and a load.
#[inline(always)]
pub(crate) fn light() {
    #[cfg(all(not(loom), not(filch_tsan)))]
    // ORDERING: Relaxed, the flag publishes nothing; a stale `false` takes the stronger branch (B2).
    if LIGHT_IS_FREE.load(Ordering::Relaxed) {
        // ORDERING: keeps the store before the load in program order; the processor's own
        // reordering is excluded by the system call in `heavy`.
        compiler_fence(Ordering::SeqCst);
        return;
    }
    // ORDERING: SeqCst pairs with the fence or the system call in `heavy`.
    fence(Ordering::SeqCst);
}

/// The rare half. Goes between a store and a load, or between two loads of which the first must
/// not be the newer. A microsecond, and an interrupt on every core that runs this process.
///
/// # Panics
/// If the kernel refuses the call after it had accepted the registration (a filter installed in
/// between): the light half can no longer be paid for.
pub(crate) fn heavy() {
    match mode() {
        // ORDERING: SeqCst pairs with the fence in `light`.
        Mode::Fence => fence(Ordering::SeqCst),
        Mode::Membarrier => system::barrier(),
    }
}

#[cfg(all(not(loom), not(filch_tsan)))]
fn choose() -> Mode {
    if !system::register() {
        return Mode::Fence;
    }
    // ORDERING: Relaxed, see `light`; `heavy` learns the mode through `CHOICE` instead.
    LIGHT_IS_FREE.store(true, Ordering::Relaxed);
    Mode::Membarrier
}

#[cfg(all(not(loom), filch_tsan))]
fn choose() -> Mode {
    Mode::Fence
}

#[cfg(all(target_os = "linux", not(loom)))]
mod system {
    /// One membarrier command; true if the kernel carried it out.
    fn membarrier(command: libc::c_int) -> bool {
        let (flags, cpu): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
    }

    #[cfg(not(filch_tsan))]
    pub(super) fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier() {
        assert!(
            membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
            "membarrier refused after its registration was accepted"
        );
    }
}

#[cfg(any(not(target_os = "linux"), loom))]
mod system {
    #[cfg(not(any(loom, filch_tsan)))]
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() {
        unreachable!("B2: no registration, no system call")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::base::shim::AtomicU32;

    #[test]
    fn mode_stays_what_it_was_chosen_to_be() {
        init();
        let first = mode();
        init();
        assert_eq!(mode(), first);
    }

    /// The store-buffer test: without a barrier both sides miss each other within some thousand
    /// rounds on x86.
    #[test]
    fn light_against_heavy_never_misses_on_both_sides() {
        const ROUNDS: usize = 5_000;
        init();
        let (x, y) = (AtomicU32::new(0), AtomicU32::new(0));
        let gate = Barrier::new(2);
        for _ in 0..ROUNDS {
            // ORDERING: Relaxed throughout this test, the barriers under test are the only order;
            // the rounds are separated by thread creation.
            x.store(0, Ordering::Relaxed);
            y.store(0, Ordering::Relaxed);
            let (saw_y, saw_x) = std::thread::scope(|s| {
                let heavy_side = s.spawn(|| {
                    gate.wait();
                    y.store(1, Ordering::Relaxed);
                    heavy();
                    x.load(Ordering::Relaxed)
                });
                gate.wait();
                x.store(1, Ordering::Relaxed);
                // LIGHT: pairs with heavy() in light_against_heavy_never_misses_on_both_sides
                light();
                let saw_y = y.load(Ordering::Relaxed);
                (saw_y, heavy_side.join().unwrap())
            });
            assert!(saw_y == 1 || saw_x == 1, "both sides missed the other's store");
        }
    }
}
