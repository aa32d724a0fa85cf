//! Operations and streams against what a list of events should come to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::*;

#[derive(Default)]
struct Taken(Mutex<Vec<i32>>);

impl Dispose for Taken {
    fn dispose(&self, completion: Completion) {
        self.0.lock().unwrap().push(completion.result);
    }
}

struct Last(Arc<AtomicUsize>);

impl Late for Last {
    fn finish(self: Box<Self>, completion: Completion) {
        self.0.fetch_add(completion.result as usize, Ordering::Relaxed);
    }
}

fn waker() -> Waker {
    Waker::noop().clone()
}

fn more(result: i32) -> Completion {
    Completion { result, flags: MORE }
}

fn last(result: i32) -> Completion {
    Completion { result, flags: 0 }
}

fn tell(slots: &mut Slots, key: Key, completion: Completion) -> Then {
    let (told, then) = slots.complete(key, completion, &mut Vec::new());
    match told {
        Told::Waiters => {}
        Told::Late(late, completion) => late.finish(completion),
        Told::Dispose(dispose, completion) => dispose.dispose(completion),
    }
    then
}

fn next(slots: &mut Slots, key: Key) -> Next {
    slots.poll_stream(key, Waiter::nameless(&waker()), &mut Some(waker()))
}

#[test]
fn a_result_is_taken_once_and_its_place_used_again() {
    let mut slots = Slots::default();
    let key = slots.insert(waker());
    assert_eq!(slots.poll(key, &waker(), &mut Some(waker())), Polled::Pending);
    let _ = tell(&mut slots, key, last(5));
    assert_eq!(slots.poll(key, &waker(), &mut None), Polled::Done(last(5)));
    assert_eq!(slots.len(), 0);
    let again = slots.insert(waker());
    assert_ne!(again, key, "another generation");
    // A completion for the old one, however late, is nobody's.
    let _ = tell(&mut slots, key, last(9));
    assert_eq!(slots.poll(again, &waker(), &mut Some(waker())), Polled::Pending);
}

#[test]
fn another_waker_is_asked_for_and_the_old_one_handed_out() {
    let mut slots = Slots::default();
    let first = Waker::from(Arc::new(Flag));
    let key = slots.insert(first.clone());
    let other = Waker::from(Arc::new(Flag));
    assert_eq!(slots.poll(key, &other, &mut None), Polled::WantsWaker);
    let mut clone = Some(other.clone());
    assert_eq!(slots.poll(key, &other, &mut clone), Polled::Pending);
    assert!(clone.is_some_and(|old| old.data() == first.data()));
}

struct Flag;

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn an_orphan_ends_with_its_completion() {
    let mut slots = Slots::default();
    let count = Arc::new(AtomicUsize::new(0));
    let key = slots.insert(waker());
    let (abandoned, _) = slots.abandon(key, Box::new(Last(count.clone())));
    assert!(matches!(abandoned, Abandoned::InFlight));
    assert_eq!(slots.in_flight(), [key]);
    let _ = tell(&mut slots, key, last(3));
    assert_eq!((count.load(Ordering::Relaxed), slots.len()), (3, 0));
}

#[test]
fn a_stream_keeps_its_order_and_stops_at_its_cap() {
    let mut slots = Slots::default();
    let key = slots.insert_stream(3);
    assert_eq!(next(&mut slots, key), Next::Pending);
    assert_eq!(tell(&mut slots, key, more(1)), Then::Nothing);
    assert_eq!(tell(&mut slots, key, more(2)), Then::Nothing);
    assert_eq!(tell(&mut slots, key, more(3)), Then::Stop);
    // One that was on its way; it is not stopped twice.
    assert_eq!(tell(&mut slots, key, more(4)), Then::Nothing);
    assert_eq!(tell(&mut slots, key, last(CANCELED)), Then::Nothing);
    for result in [1, 2, 3, 4] {
        assert_eq!(next(&mut slots, key), Next::Item(more(result)));
    }
    assert_eq!(next(&mut slots, key), Next::Item(last(CANCELED)));
    assert_eq!(next(&mut slots, key), Next::Ended);
    assert_eq!(next(&mut slots, key), Next::Ended, "for another that shares it too");
    assert_eq!(slots.len(), 0);
}

#[test]
fn an_abandoned_stream_gives_everything_away() {
    let mut slots = Slots::default();
    let taken = Arc::new(Taken::default());
    let key = slots.insert_stream(8);
    let _ = tell(&mut slots, key, more(1));
    let (cancels, unread, _) = slots.abandon_stream(key, taken.clone());
    assert!(cancels);
    assert_eq!(unread, [more(1)]);
    let _ = tell(&mut slots, key, more(2));
    let _ = tell(&mut slots, key, last(3));
    assert_eq!(*taken.0.lock().unwrap(), [2, 3]);
    assert_eq!(slots.len(), 0);
}

#[test]
fn what_was_cancelled_unasked_moves_and_what_was_asked_for_does_not() {
    let mut slots = Slots::default();
    let (moved, asked, done) =
        (slots.insert(waker()), slots.insert(waker()), slots.insert(waker()));
    assert!(slots.wish_to_cancel(asked));
    for (key, result) in [(moved, CANCELED), (asked, CANCELED), (done, 4)] {
        let _ = tell(&mut slots, key, last(result));
    }
    assert_eq!(slots.poll(moved, &waker(), &mut None), Polled::Moves);
    assert_eq!(slots.poll(asked, &waker(), &mut None), Polled::Done(last(CANCELED)));
    assert_eq!(slots.poll(done, &waker(), &mut None), Polled::Done(last(4)));
}

#[test]
fn a_send_without_a_copy_is_told_once_its_notice_has_come() {
    let mut slots = Slots::default();
    let key = slots.insert_uncopied(waker(), 42);
    let _ = tell(&mut slots, key, more(7));
    assert_eq!(slots.poll(key, &waker(), &mut Some(waker())), Polled::Pending);
    assert_eq!(slots.unnoticed().collect::<Vec<_>>(), [42]);
    let _ = tell(&mut slots, key, last(0));
    assert_eq!(slots.poll(key, &waker(), &mut None), Polled::Done(last(7)));
    assert_eq!(slots.len(), 0);
}

#[test]
fn an_abandoned_send_without_a_copy_keeps_its_bytes_until_the_notice() {
    let mut slots = Slots::default();
    let key = slots.insert(waker());
    let sum = Arc::new(AtomicUsize::new(0));
    let _ = tell(&mut slots, key, more(7));
    let _ = slots.abandon(key, Box::new(Last(sum.clone())));
    assert_eq!(sum.load(Ordering::Relaxed), 0);
    let _ = tell(&mut slots, key, last(i32::MIN));
    assert_eq!(sum.load(Ordering::Relaxed), 7);
    assert_eq!(slots.len(), 0);
}

#[test]
fn what_was_asked_to_be_cancelled_does_not_move() {
    let mut slots = Slots::default();
    let key = slots.insert(waker());
    let _ = tell(&mut slots, key, last(CANCELED));
    assert!(!slots.wish_to_cancel(key), "it has ended");
    assert_eq!(slots.poll(key, &waker(), &mut None), Polled::Done(last(CANCELED)));
}

#[test]
fn what_a_signal_has_interrupted_moves() {
    let mut slots = Slots::default();
    let (sent, part) = (slots.insert_uncopied(waker(), 42), slots.insert(waker()));
    let _ = tell(&mut slots, sent, more(INTERRUPTED));
    assert_eq!(slots.poll(sent, &waker(), &mut Some(waker())), Polled::Pending, "no notice yet");
    let _ = tell(&mut slots, sent, last(0));
    assert_eq!(slots.poll(sent, &waker(), &mut None), Polled::Moves);
    let _ = tell(&mut slots, part, last(3));
    assert_eq!(slots.poll(part, &waker(), &mut None), Polled::Done(last(3)));
}

#[test]
fn nothing_moves_from_a_driver_that_closes() {
    let mut slots = Slots::default();
    let key = slots.insert(waker());
    slots.set_closing();
    let _ = tell(&mut slots, key, last(CANCELED));
    assert_eq!(slots.poll(key, &waker(), &mut None), Polled::Done(last(Cause::Ended.code())));
}

#[test]
fn a_call_that_is_never_made_does_not_move() {
    let mut slots = Slots::default();
    let key = slots.insert(waker());
    let told = slots.complete_call(key, last(CANCELED), &mut Vec::new());
    assert!(matches!(told, Told::Waiters));
    assert_eq!(slots.poll(key, &waker(), &mut None), Polled::Done(last(Cause::Ended.code())));
}

#[test]
fn what_was_asked_for_is_told_as_cancelled_however_the_ring_puts_it() {
    let mut slots = Slots::default();
    let key = slots.insert(waker());
    assert!(slots.wish_to_cancel(key));
    let _ = tell(&mut slots, key, last(INTERRUPTED));
    assert_eq!(slots.poll(key, &waker(), &mut None), Polled::Done(last(CANCELED)));
}

#[test]
fn what_was_called_back_says_so_whatever_it_brings() {
    let mut slots = Slots::default();
    let [none, some, other, over] = [7, 7, 8, 7].map(|socket| slots.insert_read(waker(), socket));
    let send = slots.insert_uncopied(waker(), 7);
    let _ = tell(&mut slots, over, last(1));
    assert_eq!(slots.call_back_all(7), [none, some], "what waits there for bytes");
    assert_eq!(slots.call_back_all(7), [], "once");
    assert!(!slots.call_back(none));
    assert!(slots.wish_to_cancel(some), "it may be cancelled too");
    for (key, result) in [(none, CANCELED), (some, 3), (other, 4), (send, 5)] {
        let _ = tell(&mut slots, key, last(result));
        let Polled::Done(completion) = slots.poll(key, &waker(), &mut None) else { panic!() };
        assert_eq!(completion.result, result);
        assert_eq!(completion.is_called_back(), [none, some].contains(&key));
    }
    assert_eq!(slots.poll(over, &waker(), &mut None), Polled::Done(last(1)));
}
