//! Advisory locks on files.
//!
//! C1. A lock belongs to the open file, clones included. So one at a time waits for it: who holds the line
//!     `locks`.
//! C2. A wait that is dropped ends soon, and without the lock: the thread that waits looks now and then
//!     whether anybody still does. A wait in the kernel could not be ended, and would get the lock
//!     for nobody.

use std::fs::TryLockError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::ask::offload;
use super::file::{File, borrowed};
use super::handle::Handle;
use crate::base::shim::{AtomicU32, Ordering};
use crate::io::waiters::Waits;

/// The first and the longest pause between two looks. Guessed.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
}

impl Kind {
    fn try_on(self, handle: &Handle) -> Result<(), TryLockError> {
        match self {
            Self::Exclusive => borrowed(handle).try_lock(),
            Self::Shared => borrowed(handle).try_lock_shared(),
        }
    }
}

/// The thread still waits.
const WAITING: u32 = 0;
/// It has the lock, for the future.
const GRANTED: u32 = 1;
/// The future is gone.
const UNWANTED: u32 = 2;

/// A wait for the lock, shared by the future and the thread. Holds the line (C1) until both are gone.
struct Wait {
    handle: Arc<Handle>,
    state: AtomicU32,
}

impl Wait {
    /// Waits for the lock, on a thread that may block.
    fn wait(&self, kind: Kind) -> io::Result<()> {
        let mut pause = FIRST_PAUSE;
        // ORDERING: Relaxed, nothing else is read; who sees it late gives the lock back in `grant`.
        while self.state.load(Ordering::Relaxed) == WAITING {
            match kind.try_on(&self.handle) {
                Ok(()) => return self.grant(),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// The lock is there: for the future, or for nobody (C2).
    fn grant(&self) -> io::Result<()> {
        // ORDERING: Relaxed, one of both sees the other's mark in this word, and gives the lock back; the
        // lock itself is the kernel's.
        let granted =
            self.state.compare_exchange(WAITING, GRANTED, Ordering::Relaxed, Ordering::Relaxed);
        if granted.is_ok() { Ok(()) } else { borrowed(&self.handle).unlock() }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.handle.locks.let_go();
    }
}

/// The future's side of a wait; dropped without the result, it gives up (C2).
struct Wish(Option<Arc<Wait>>);

impl Drop for Wish {
    fn drop(&mut self) {
        let Some(wait) = &self.0 else { return };
        // ORDERING: Relaxed, as in `grant`.
        if wait.state.swap(UNWANTED, Ordering::Relaxed) == GRANTED {
            // Nobody is there to hear of an error.
            let _ = borrowed(&wait.handle).unlock();
        }
    }
}

/// Advisory locks, between open files of this process and others.
impl File {
    async fn lock_as(&self, kind: Kind) -> io::Result<()> {
        let handle = self.handle();
        handle.settled().await;
        Waits::at(&handle.locks).until(|locks, who| locks.poll_take(who)).await;
        let wait = Arc::new(Wait { handle: handle.clone(), state: AtomicU32::new(WAITING) });
        match kind.try_on(handle) {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut wish = Wish(Some(wait.clone()));
        let result = offload(move || wait.wait(kind)).await;
        wish.0 = None;
        result
    }

    fn try_lock_as(&self, kind: Kind) -> Result<(), TryLockError> {
        if !self.handle().locks.try_take() {
            return Err(TryLockError::WouldBlock);
        }
        let result = kind.try_on(self.handle());
        self.handle().locks.let_go();
        result
    }

    /// Waits for the lock that excludes all others; as [`std::fs::File::lock`].
    ///
    /// It is released by [`File::unlock`], or when the last handle of this open file goes.
    ///
    /// ```
    /// use std::fs::TryLockError;
    /// use filch::fs::File;
    /// # let path = std::env::temp_dir().join(format!("filch-lock-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let (one, other) = (File::create(&path).await?, File::create(&path).await?);
    /// one.lock().await?;
    /// assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
    /// one.unlock().await?;
    /// other.lock().await?;
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the file system has no locks, or the runtime ends.
    ///
    /// # Cancel safety
    /// A dropped wait leaves no lock behind.
    pub async fn lock(&self) -> io::Result<()> {
        self.lock_as(Kind::Exclusive).await
    }

    /// Waits for the lock that excludes exclusive ones only; as [`std::fs::File::lock_shared`].
    ///
    /// # Errors
    /// As [`File::lock`].
    ///
    /// # Cancel safety
    /// As [`File::lock`].
    pub async fn lock_shared(&self) -> io::Result<()> {
        self.lock_as(Kind::Shared).await
    }

    /// Takes the lock that excludes all others, if that is possible now.
    ///
    /// # Errors
    /// `WouldBlock` if it is not, also while somebody waits for the lock by this open file.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_lock_as(Kind::Exclusive)
    }

    /// Takes the lock that excludes exclusive ones only, if that is possible now.
    ///
    /// # Errors
    /// As [`File::try_lock`].
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_lock_as(Kind::Shared)
    }

    /// Releases the lock, when abandoned writes have ended.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn unlock(&self) -> io::Result<()> {
        self.handle().settled().await;
        borrowed(self.handle()).unlock()
    }
}
