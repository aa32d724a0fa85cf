//! The setters that only tune, as a table; and the setters of hooks.
//!
//! Not here: what each parameter means and its default (config.rs).

use std::{sync::Arc, time::Duration};

use crate::builder::Builder;
use crate::config::UnhandledPanic;
use crate::config::hooks::{LostWrite, PanicInfo, ThreadHook, WorkerInfo};

/// For each row a setter, documented with an example that sets the value and reads the result.
macro_rules! setters {
    ($($(#[doc = $doc:literal])* $field:ident: $kind:ty, $value:expr => $stored:expr;)*) => {
        /// Tuning.
        impl Builder {
            $(
                $(#[doc = $doc])*
                #[doc = concat!("\n\nSee [`Config::", stringify!($field), "`](crate::Config::", stringify!($field), ").")]
                ///
                /// # Examples
                ///
                /// ```
                #[doc = concat!("let config = filch::Builder::new().", stringify!($field), "(", stringify!($value), ").resolve()?;")]
                #[doc = concat!("assert_eq!(config.", stringify!($field), ", ", stringify!($stored), ");")]
                /// # Ok::<(), filch::BuildError>(())
                /// ```
                pub fn $field(mut self, value: $kind) -> Self {
                    self.config.$field = value.into();
                    self.chosen.add(stringify!($field));
                    self
                }
            )*
        }
    };
}

setters! {
    /// Sets how many tasks a worker's ring holds.
    ring_capacity: usize, 512 => 512;
    /// Sets how many ticks pass between two looks at the injector, at the start.
    global_interval: usize, 31 => 31;
    /// Sets how many tasks a worker takes from the injector at once.
    global_batch: usize, 8 => 8;
    /// Sets how many polls pass between two visits to the I/O driver.
    io_interval: usize, 31 => 31;
    /// Sets how many tasks a worker runs from its own ring in one step.
    local_budget: usize, 31 => 31;
    /// Sets how many pinned tasks a worker runs in one step.
    private_budget: usize, 16 => 16;
    /// Sets how many timers a worker fires in one step.
    timer_budget: usize, 32 => 32;
    /// Sets how many probes a search for work makes before it pauses between them.
    explore_tries: usize, 40 => Some(40);
    /// Sets how often a searcher pauses, at most, before it gives up.
    explore_yields: usize, 10 => 10;
    /// Sets how many workers of a lane may search at the same time.
    searcher_limit: usize, 1 => Some(1);
    /// Sets how often in a row the newest-task slot is served.
    slot_streak: usize, 1 => 1;
    /// Sets how many spare threads may stand in for blocked I/O workers.
    io_spares: usize, 4 => 4;
    /// Sets how many spare threads may stand in for waiting compute workers.
    compute_spares: usize, 4 => Some(4);
    /// Sets how many threads of the program may be adopted at the same time.
    adoptable_threads: usize, 2 => 2;
    /// Sets how many workers of each role may be attached beyond those of the start.
    attachable_workers: usize, 4 => Some(4);
    /// Chooses whether crews follow the load.
    elastic: bool, true => true;
    /// Sets how many threads that are no compute workers may have others join in at the same time.
    guest_threads: usize, 4 => 4;
    /// Sets how long an idle spare waits before its thread ends.
    spare_keep_alive: Duration, std::time::Duration::from_millis(200) => std::time::Duration::from_millis(200);
    /// Sets how many threads may run closures that block.
    blocking_threads: usize, 8 => 8;
    /// Sets how long a thread for closures that block waits for the next one before it ends.
    blocking_keep_alive: Duration, std::time::Duration::from_secs(1) => std::time::Duration::from_secs(1);
    /// Sets how often the sentry looks for stuck workers.
    sentry_period: Duration, std::time::Duration::from_millis(2) => std::time::Duration::from_millis(2);
    /// Sets how many tasks a worker with a full ring spills in one go.
    outbound_batch: usize, 64 => Some(64);
    /// Sets how many independent queues make up the injector.
    injector_shards: usize, 8 => 8;
    /// Sets how many operations a task may complete in one poll.
    poll_budget: usize, 64 => 64;
    /// Sets what becomes of a panic of a task whose handle was dropped.
    unhandled_panic: UnhandledPanic, filch::UnhandledPanic::Report => filch::UnhandledPanic::Report;
    /// Sets the seed of everything random.
    seed: u64, 7 => Some(7);
}

/// Hooks; a second call replaces the first.
impl Builder {
    /// Runs `hook` on each worker's thread before its first task. If it panics, the worker starts all the
    /// same, and [`on_panic`](Builder::on_panic) hears of each panic.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = filch::Builder::new().on_thread_start(|worker| {
    ///     println!("{:?} worker {} starts", worker.role, worker.index);
    /// });
    /// assert!(format!("{builder:?}").contains("on_thread_start: true"));
    /// ```
    #[track_caller]
    pub fn on_thread_start(mut self, hook: impl Fn(WorkerInfo) + Send + Sync + 'static) -> Self {
        self.hooks.on_thread_start = Some(ThreadHook::new(hook));
        self
    }

    /// Runs `hook` on each worker's thread after its last task. If it panics, the worker stops all the same,
    /// and [`on_panic`](Builder::on_panic) hears of each panic.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = filch::Builder::new().on_thread_stop(|worker| {
    ///     println!("{:?} worker {} stops", worker.role, worker.index);
    /// });
    /// assert!(format!("{builder:?}").contains("on_thread_stop: true"));
    /// ```
    #[track_caller]
    pub fn on_thread_stop(mut self, hook: impl Fn(WorkerInfo) + Send + Sync + 'static) -> Self {
        self.hooks.on_thread_stop = Some(ThreadHook::new(hook));
        self
    }

    /// Hands each panic to `hook` that reaches nobody: no handle, and nobody who waits for the group.
    ///
    /// With [`UnhandledPanic::Report`] these are all panics of tasks whose handles were dropped. The hook runs on
    /// the thread where the task has ended, or where its handle is dropped. Without a hook such a panic leaves
    /// no trace but the message of [`std::panic::set_hook`].
    ///
    /// Panics of the hooks for threads come here, too.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = filch::Builder::new().on_panic(|panic| {
    ///     eprintln!("task {} panicked: {}", panic.task, panic.message());
    /// });
    /// assert!(format!("{builder:?}").contains("on_panic: true"));
    /// ```
    pub fn on_panic(mut self, hook: impl Fn(PanicInfo) + Send + Sync + 'static) -> Self {
        self.hooks.on_panic = Some(Arc::new(hook));
        self
    }

    /// Hands each write that was lost after its file was dropped to `hook`.
    ///
    /// Without a hook, standard error tells of it. The hook is called on the thread that drops the file, or on any thread
    /// of the runtime. See [`LostWrite`].
    ///
    /// # Examples
    ///
    /// ```
    /// use filch::fs::OpenOptions;
    /// use filch::io::AsyncWriteExt;
    /// let (told, lost) = std::sync::mpsc::channel();
    /// let runtime = filch::Builder::new()
    ///     .workers(1)
    ///     .on_lost_write(move |lost| told.send(lost).unwrap())
    ///     .build()?;
    /// runtime.block_on(async {
    ///     let mut full = OpenOptions::new().write(true).open("/dev/full").await?;
    ///     AsyncWriteExt::write_all(&mut full, b"lost").await // not flushed
    /// })?;
    /// let lost = lost.recv().unwrap();
    /// assert_eq!((lost.len, lost.error.kind()), (4, std::io::ErrorKind::StorageFull));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_lost_write(mut self, hook: impl Fn(LostWrite) + Send + Sync + 'static) -> Self {
        self.hooks.on_lost_write = Some(Arc::new(hook));
        self
    }
}
