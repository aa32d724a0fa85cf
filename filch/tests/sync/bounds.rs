//! What may go to, or be shared with, another thread; looked at by the compiler alone.

use std::cell::Cell;
use std::rc::Rc;

use filch::sync::{
    MutexGuard, OnceCell, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard, broadcast, mpmc, oneshot, watch,
};
use filch::time::{Interval, Sleep, Timeout};

/// True for types that have the trait: the method of the type itself is found before that of the trait.
macro_rules! has {
    ($name:ident: $bound:ident, $type:ty) => {{
        #[allow(dead_code, reason = "hidden where the bound holds")]
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T: ?Sized> Otherwise for $name<T> {}
        #[allow(dead_code, reason = "only its type is of use")]
        struct $name<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "hides that of the trait where the bound holds")]
        impl<T: ?Sized + $bound> $name<T> {
            const HAS: bool = true;
        }
        <$name<$type>>::HAS
    }};
}

macro_rules! bounds {
    ($($type:ty: $send:literal $sync:literal;)+) => {
        $(const _: () = assert!(has!(Of: Send, $type) == $send && has!(Of: Sync, $type) == $sync);)+
    };
}

type Lone = Cell<u8>; // may be sent, not shared
type Bound = Rc<u8>; // neither

bounds! {
    filch::sync::Mutex<Lone>: true true;
    filch::sync::Mutex<Bound>: false false;
    MutexGuard<'static, u8>: true true;
    MutexGuard<'static, Lone>: true false;
    MutexGuard<'static, Bound>: false false;
    OwnedMutexGuard<Lone>: true false;
    OwnedMutexGuard<Bound>: false false;

    RwLock<u8>: true true;
    RwLock<Lone>: true false;
    RwLock<Bound>: false false;
    RwLockReadGuard<'static, Lone>: false false;
    RwLockWriteGuard<'static, Lone>: false false;
    RwLockUpgradableReadGuard<'static, Lone>: false false;
    OwnedRwLockReadGuard<Lone>: false false;
    OwnedRwLockWriteGuard<Lone>: false false;
    RwLockReadGuard<'static, u8>: true true;
    RwLockWriteGuard<'static, u8>: true true;
    OwnedRwLockWriteGuard<u8>: true true;

    OnceCell<Lone>: true false;
    OnceCell<Bound>: false false;

    mpmc::Sender<Lone>: true true;
    mpmc::Receiver<Lone>: true true;
    mpmc::Permit<'static, Lone>: true true;
    mpmc::Sender<Bound>: false false;
    mpmc::Receiver<Bound>: false false;
    oneshot::Sender<Lone>: true true;
    oneshot::Receiver<Lone>: true true;
    oneshot::Sender<Bound>: false false;
    oneshot::Receiver<Bound>: false false;
    // Several receivers clone one message at once.
    broadcast::Sender<u8>: true true;
    broadcast::Sender<Lone>: false false;
    broadcast::Receiver<Lone>: false false;
    // Receivers look at the value together.
    watch::Sender<u8>: true true;
    watch::Sender<Lone>: false false;
    watch::Receiver<Bound>: false false;
    watch::Ref<'static, u8>: false true;

    Sleep: true true;
    Interval: true true;
    Timeout<Lone>: true false;
    Timeout<Bound>: false false;
}

/// A sleep is in a wheel that points to it: it must not be moved once it was polled.
const _: () = assert!(!has!(Of: Unpin, Sleep) && !has!(Of: Unpin, Timeout<std::future::Ready<()>>));
const _: () = assert!(has!(Of: Unpin, Interval));
