//! Who comes to a line or a gate just when it becomes free finds it so, or is woken.

use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed as AnyOrder};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use super::{Gate, Line};
use crate::base::shim::UnsafeCell;
use crate::io::waiters::{Waiter, Waits};

/// Counts its wakes; no part of what is modelled.
#[derive(Default)]
struct Wakes(Count);

impl Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, AnyOrder);
    }
}

/// What is guarded by a line or a gate: the cell tells loom of every unordered touch.
struct Guarded {
    line: Line,
    gate: Gate,
    cell: UnsafeCell<u32>,
}

// SAFETY: N1 and N3, the cell is touched by one at a time.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn touch(&self) -> u32 {
        self.cell.with_mut(|cell| {
            // SAFETY: N1 or N3, whichever is modelled.
            unsafe {
                *cell += 1;
                *cell
            }
        })
    }
}

/// One who has begun ends while another comes.
fn meets(ends: fn(&Guarded), comes: fn(&Guarded, Waiter<'_>) -> Poll<()>) {
    loom::model(move || {
        let guarded =
            Arc::new(Guarded { line: Line::new(), gate: Gate::new(), cell: UnsafeCell::new(0) });
        assert!(guarded.line.try_take());
        guarded.gate.add();
        let other = guarded.clone();
        let thread = thread::spawn(move || {
            other.touch();
            ends(&other);
        });
        let wakes = std::sync::Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let who = Waiter::nameless(&waker);
        let first = comes(&guarded, who);
        if first.is_ready() {
            assert_eq!(guarded.touch(), 2);
        }
        thread.join().unwrap();
        if first.is_pending() {
            assert_eq!(wakes.0.load(AnyOrder), 1, "who waits is woken");
            assert!(comes(&guarded, who).is_ready());
            assert_eq!(guarded.touch(), 2);
        }
    });
}

#[test]
fn loom_line_hands_over() {
    meets(|guarded| guarded.line.let_go(), |guarded, who| guarded.line.poll_take(who));
}

#[test]
fn loom_gate_opens() {
    meets(|guarded| guarded.gate.finish(), |guarded, who| guarded.gate.poll_open(who));
}

#[test]
fn loom_who_gives_up_takes_no_other_with_it() {
    loom::model(|| {
        let line = Arc::new(Line::new());
        assert!(line.try_take());
        let wakes = std::sync::Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let cx = Context::from_waker(&waker);
        let mut stays = Waits::at(&*line);
        let waits = stays.poll(&cx, |line, who| line.poll_take(who)).is_pending();
        assert!(waits, "it is held");
        let other = line.clone();
        let thread = thread::spawn(move || other.let_go());
        let mut goes = Waits::at(&*line);
        let taken = goes.poll(&cx, |line, who| line.poll_take(who)).is_ready();
        drop(goes);
        thread.join().unwrap();
        assert!(wakes.0.load(AnyOrder) > 0, "who still waits is woken");
        if taken {
            line.let_go();
        }
        assert!(stays.poll(&cx, |line, who| line.poll_take(who)).is_ready());
    });
}
