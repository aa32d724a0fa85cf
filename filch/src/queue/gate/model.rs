//! A post against a worker that leaves: the worker's last look sees the item, or it was refused.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::Gate;

/// A place whose mailbox is a count.
struct Place {
    gate: Gate,
    mail: AtomicUsize,
}

fn post(place: &Place, generation: u32) -> bool {
    match place.gate.enter(generation) {
        Ok(_inside) => {
            place.mail.fetch_add(1, Ordering::Relaxed);
            true
        }
        Err(_) => false,
    }
}

#[test]
fn loom_post_vs_close() {
    loom::model(|| {
        let place = Arc::new(Place { gate: Gate::new(), mail: AtomicUsize::new(0) });
        let generation = place.gate.open();
        let posters: Vec<_> = (0..2)
            .map(|_| {
                let place = place.clone();
                thread::spawn(move || usize::from(post(&place, generation)))
            })
            .collect();
        place.gate.close();
        while !place.gate.is_quiet() {
            thread::yield_now();
        }
        let seen = place.mail.load(Ordering::Relaxed);
        let taken: usize = posters.into_iter().map(|poster| poster.join().unwrap()).sum();
        assert_eq!(seen, taken, "a post landed after the last look");
    });
}

#[test]
fn loom_post_vs_the_next_generation() {
    loom::model(|| {
        let place = Arc::new(Place { gate: Gate::new(), mail: AtomicUsize::new(0) });
        let generation = place.gate.open();
        let poster = {
            let place = place.clone();
            thread::spawn(move || usize::from(post(&place, generation)))
        };
        place.gate.close();
        while !place.gate.is_quiet() {
            thread::yield_now();
        }
        let old = place.mail.swap(0, Ordering::Relaxed);
        place.gate.open();
        let taken = poster.join().unwrap();
        assert_eq!(place.mail.load(Ordering::Relaxed), 0, "mail for who left reached the next");
        assert_eq!(old, taken);
    });
}
