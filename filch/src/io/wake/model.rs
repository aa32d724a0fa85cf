//! The wake word in every interleaving: a sleeper in either place, and two who hand it something.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Lain, Place, WakeWord};
use crate::base::shim::{AtomicUsize, Ordering};

/// A place to sleep in that remembers a signal, as an eventfd with its armed poll does.
#[derive(Default)]
struct Gate {
    signals: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn wait(&self) {
        let mut signals = self.signals.lock().unwrap();
        while *signals == 0 {
            signals = self.changed.wait(signals).unwrap();
        }
        *signals -= 1;
    }

    fn signal(&self) {
        *self.signals.lock().unwrap() += 1;
        self.changed.notify_one();
    }
}

struct Model {
    word: WakeWord,
    bed: Gate,
    kernel: Gate,
    pushed: AtomicUsize,
}

impl Model {
    fn push(&self) {
        // ORDERING: Relaxed, W3 is what is checked.
        self.pushed.fetch_add(1, Ordering::Relaxed);
        match self.word.notify() {
            None => {}
            Some(Place::Bed) => self.bed.signal(),
            Some(Place::Kernel) => self.kernel.signal(),
        }
    }

    fn sleep(&self, place: Place) {
        if self.word.lie_down(place) == Lain::Down {
            match place {
                Place::Bed => self.bed.wait(),
                Place::Kernel => self.kernel.wait(),
            }
            self.word.stand_up();
        }
    }
}

fn sleeper_sees_all(pushers: usize, places: [Place; 2]) {
    loom::model(move || {
        let model = Arc::new(Model {
            word: WakeWord::new(),
            bed: Gate::default(),
            kernel: Gate::default(),
            pushed: AtomicUsize::new(0),
        });
        let threads: Vec<_> = (0..pushers)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || model.push())
            })
            .collect();
        let mut turn = 0;
        // ORDERING: Relaxed, W3 is what is checked: after a sleep that a push ended it is seen.
        while model.pushed.load(Ordering::Relaxed) < pushers {
            model.sleep(places[turn % 2]);
            turn += 1;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_a_push_ends_a_sleep_in_the_kernel() {
    sleeper_sees_all(2, [Place::Kernel, Place::Kernel]);
}

#[test]
fn loom_a_push_ends_a_sleep_on_the_bed_or_in_the_kernel() {
    sleeper_sees_all(2, [Place::Bed, Place::Kernel]);
}
