//! E2: the waker of a core of the program's own is met without locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::{GuestCore, Known};

/// A core's place, how often its waker was woken, and how often called under the lock.
struct Place {
    guest_core: GuestCore,
    wakes: AtomicUsize,
    locked: AtomicUsize,
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// # Safety
/// `data` is a `Place` that is alive.
unsafe fn place<'a>(data: *const ()) -> &'a Place {
    // SAFETY: by the caller's promise.
    let place: &Place = unsafe { &*data.cast() };
    if place.guest_core.known.try_lock().is_err() {
        place.locked.fetch_add(1, Ordering::Relaxed);
    }
    place
}

/// # Safety
/// As for [`place`].
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: by the caller's promise.
    let _ = unsafe { place(data) };
    RawWaker::new(data, &VTABLE)
}

/// # Safety
/// As for [`place`].
unsafe fn wake(data: *const ()) {
    // SAFETY: by the caller's promise.
    unsafe { wake_by_ref(data) };
}

/// # Safety
/// As for [`place`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: by the caller's promise.
    unsafe { place(data) }.wakes.fetch_add(1, Ordering::Relaxed);
}

/// # Safety
/// As for [`place`].
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: by the caller's promise.
    let _ = unsafe { place(data) };
}

#[test]
fn a_cores_waker_is_called_without_a_lock() {
    let [wakes, locked] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let place = Place { guest_core: GuestCore::new(), wakes, locked };
    let raw = RawWaker::new((&raw const place).cast(), &VTABLE);
    // SAFETY: the place outlives the waker, which is removed below.
    let waker = unsafe { Waker::from_raw(raw) };
    place.guest_core.install(Known { waker: Arc::new(waker), kind: None, own: None });
    let waker = place.guest_core.waker();
    waker.expect("a core is there").wake_by_ref();
    assert!(place.guest_core.remove().is_none());
    assert_eq!(place.wakes.load(Ordering::Relaxed), 1);
    assert_eq!(place.locked.load(Ordering::Relaxed), 0);
}
