//! Macros, of futures that do not count, of those that do, and of nothing.

use std::future::{pending, ready};

use filch::sync::{Mutex, Semaphore};

use super::cases;

type Failed = Result<(), ()>;

cases! { CASES;
    "select!": let () = () => filch::select! { () = ready(()) => {} };
    "select!": let () = () => filch::select! {
        biased;
        () = pending() => {}
        () = async {} => {}
    };
    "select!": let () = () => filch::select! { else => {} };
    "select!": let () = () => filch::select! { biased; else => {} };
    "select!": let () = () => filch::select! { Some(()) = ready(None) => {}, else => {} };
    "select!": let never = std::hint::black_box(false) =>
        filch::select! { () = ready(()), if never => {}, else => {} };
    "select!": let lock = Mutex::new(0) => filch::select! {
        mut guard = lock.lock() => *guard += 1,
        () = pending() => {}
    };
    "race!": let () = () => filch::race!(ready(1), ready(2));
    "race!": let () = () => filch::race!(biased; async { 1 });
    "join!": let () = () => filch::join!();
    "join!": let () = () => filch::join!(biased;);
    "join!": let () = () => filch::join!(ready(1), async { 2 });
    "join!": let permits = Semaphore::new(2) => filch::join!(permits.acquire(), permits.acquire());
    "try_join!": let () = () => (filch::try_join!() as Failed).unwrap();
    "try_join!": let () = () => (filch::try_join!(biased;) as Failed).unwrap();
    "try_join!": let () = () => filch::try_join!(ready(Ok::<_, ()>(1)), ready(Ok(2))).unwrap();
    "try_join!": let () = () =>
        filch::try_join!(pending::<Failed>(), ready(Err::<(), _>(()))).unwrap_err();
}
