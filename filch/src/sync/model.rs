//! For the models: a future on a thread of the model.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::base::parker::Parker;

struct Bed(Parker);

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let bed = Arc::new(Bed(Parker::new()));
    let waker = Waker::from(bed.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        bed.0.park();
    }
}
