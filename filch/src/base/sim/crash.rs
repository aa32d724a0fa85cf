//! The seed of a run that takes the process with it: a flaw that corrupts memory ends in a signal
//! as often as in a failed assertion.
//!
//! C1. The handler says the seed and steps back: whoever handled the signal before handles it next.
//! C2. It calls nothing but `write` and `sigaction`, which are allowed in a handler.

use std::sync::{Once, OnceLock};

/// The signals of a process that goes wrong.
const SIGNALS: [libc::c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT];

/// What was there before, in the order of `SIGNALS`.
static BEFORE: [OnceLock<libc::sigaction>; 3] = [const { OnceLock::new() }; 3];

/// Has the handler installed, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
            if let Some(action) = replace(signal, &ours()) {
                let _ = before.set(action);
            }
        }
    });
}

fn ours() -> libc::sigaction {
    // SAFETY: a sigaction of zeros is one: default action, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = say_seed as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // A stack that overflowed has no room for the handler.
    action.sa_flags = libc::SA_ONSTACK;
    action
}

fn replace(signal: libc::c_int, action: &libc::sigaction) -> Option<libc::sigaction> {
    // SAFETY: as in `ours`.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both point to a sigaction that outlives the call, and the handler keeps C2.
    let result = unsafe { libc::sigaction(signal, action, &raw mut before) };
    (result == 0).then_some(before)
}

extern "C" fn say_seed(signal: libc::c_int) {
    if let Some(seed) = super::seed() {
        write(b"\nfilch: the process ends in the simulation with seed ");
        let mut digits = [0; 20];
        let mut first = digits.len();
        let mut rest = seed;
        while rest > 0 || first == digits.len() {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        write(&digits[first..]);
        write(b"; FILCH_SIM_SEED replays it alone\n");
    }
    // C1: the instruction that failed is tried again, or `abort` raises its signal again.
    let place = SIGNALS.iter().position(|&known| known == signal);
    if let Some(before) = place.and_then(|place| BEFORE[place].get()) {
        let _ = replace(signal, before);
    }
}

fn write(text: &[u8]) {
    // SAFETY: `text` has so many readable bytes.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
