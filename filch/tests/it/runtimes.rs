//! Starting runtimes: several at once, with hooks, refusals and errors; and the default one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use filch::{Affinity, BuildError, Builder, Handle, Level, Role, Shutdown};

use crate::kit::{assert_no_thread_named, eventually, in_child, threads_named};

#[test]
fn several_runtimes_are_independent() {
    let runtimes: Vec<_> = ["rta", "rtb", "rtc"]
        .map(|name| Builder::new().workers(1).thread_name(name).build().unwrap())
        .into();
    let name = || Handle::current().config().thread_name.clone();
    for runtime in &runtimes {
        let expected = runtime.config().thread_name.clone();
        assert_eq!(
            runtime.spawn(async move { filch::spawn(async move { name() }).await }).wait(),
            expected
        );
        assert_eq!(runtime.spawn_fn(move || filch::spawn_fn(name).wait()).wait(), expected);
        assert_eq!(runtime.block_on(async { name() }), expected);
    }
    // A task of one waits for a task of the next.
    let [a, b, c] = [0, 1, 2].map(|i| runtimes[i].handle());
    let chain =
        a.spawn(async move { b.spawn_fn(move || c.spawn(async { 3 }).wait() + 2).await + 1 });
    assert_eq!(chain.wait(), 6);
    let mut runtimes = runtimes.into_iter();
    runtimes.next().unwrap().shutdown(Shutdown::Drain);
    assert_no_thread_named("rta");
    for runtime in runtimes {
        assert_eq!(runtime.spawn(async { 1 }).wait(), 1, "the others go on");
    }
}

#[test]
fn a_thread_that_cannot_start_is_named_and_none_remains() {
    let hooks = Arc::new(AtomicUsize::new(0));
    let (starts, stops) = (hooks.clone(), hooks.clone());
    let error = Builder::new()
        .workers(2)
        .thread_name("rxs")
        // Half of the address space.
        .stack_size(1 << 47)
        .on_thread_start(move |_| _ = starts.fetch_add(1, Ordering::SeqCst))
        .on_thread_stop(move |_| _ = stops.fetch_sub(1, Ordering::SeqCst))
        .build()
        .unwrap_err();
    assert!(matches!(&error, BuildError::Thread { name, .. } if name == "rxs-io-0"), "{error}");
    assert!(error.to_string().contains("cannot start thread \"rxs-io-0\""), "{error}");
    assert_eq!(hooks.load(Ordering::SeqCst), 0);
    assert_no_thread_named("rxs");
}

/// The address space is enough for some of the stacks.
#[test]
fn when_a_later_thread_cannot_start_the_earlier_ones_are_joined() {
    in_child("runtimes::when_a_later_thread_cannot_start_the_earlier_ones_are_joined", &[], || {
        const STACK: usize = 1 << 30;
        let limit = |bytes: libc::rlim_t| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the pointer is to an rlimit of ours.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        };
        limit(3 * STACK as libc::rlim_t + (STACK / 2) as libc::rlim_t);
        let (start, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (starts, stops) = (start.clone(), stop.clone());
        let result = Builder::new()
            .workers(4)
            .thread_name("rls")
            .stack_size(STACK)
            .on_thread_start(move |_| _ = starts.fetch_add(1, Ordering::SeqCst))
            .on_thread_stop(move |_| _ = stops.fetch_add(1, Ordering::SeqCst))
            .build();
        limit(libc::RLIM_INFINITY);
        let error = result.unwrap_err();
        let BuildError::Thread { name, .. } = &error else { panic!("{error}") };
        assert!(["rls-io-1", "rls-io-2", "rls-io-3"].contains(&&**name), "{error}");
        assert!(start.load(Ordering::SeqCst) >= 1);
        assert_eq!(start.load(Ordering::SeqCst), stop.load(Ordering::SeqCst));
        assert_no_thread_named("rls");
    });
}

#[test]
fn an_invalid_parameter_is_named_and_no_thread_starts() {
    let build = |builder: Builder| builder.thread_name("rxc").build().unwrap_err();
    let errors = [
        (build(Builder::new().ring_capacity(3)), "ring_capacity"),
        (build(Builder::new().injector_shards(0)), "injector_shards"),
        (build(Builder::new().stack_size(1)), "stack_size"),
        (build(Builder::new().io_affinity(Affinity::Cpus(vec![]))), "io_affinity"),
        (build(Builder::new().compute_affinity(Affinity::Cpus(vec![100_000]))), "compute_affinity"),
        (build(Builder::new().sentry_period(std::time::Duration::from_secs(1))), "sentry_period"),
    ];
    for (error, field) in errors {
        assert!(matches!(&error, BuildError::Config(e) if e.field() == field), "{error}");
        assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
    }
    assert!(threads_named("rxc").is_empty());
}

#[test]
fn hooks_run_once_on_each_worker() {
    type Seen = Arc<Mutex<HashMap<ThreadId, (Role, usize, u32, u32)>>>;
    let seen = Seen::default();
    let note = |seen: &Seen, start: u32| {
        let seen = seen.clone();
        move |info: filch::WorkerInfo| {
            let mut seen = seen.lock().unwrap();
            let entry =
                seen.entry(std::thread::current().id()).or_insert((info.role, info.index, 0, 0));
            assert_eq!((entry.0, entry.1), (info.role, info.index));
            entry.2 += start;
            entry.3 += 1 - start;
        }
    };
    let runtime = Builder::new()
        .io_workers(3)
        .compute_workers(2)
        .on_thread_start(note(&seen, 1))
        .on_thread_stop(note(&seen, 0))
        .build()
        .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 5, "all have started once `build` returns");
    // A spare is a worker too.
    runtime.spawn_fn(|| filch::spawn(async {}).wait()).wait();
    runtime.shutdown(Shutdown::Drain);
    let seen = seen.lock().unwrap();
    assert!(seen.values().all(|&(_, _, starts, stops)| (starts, stops) == (1, 1)), "{seen:?}");
    for (role, count) in [(Role::Io, 3), (Role::Compute, 2)] {
        let mut indices: Vec<_> =
            seen.values().filter(|worker| worker.0 == role).map(|worker| worker.1).collect();
        indices.sort_unstable();
        assert!(indices.starts_with(&(0..count).collect::<Vec<_>>()), "{seen:?}");
    }
}

#[test]
fn a_panicking_hook_does_no_harm() {
    let runtime = Builder::new()
        .workers(1)
        .on_thread_start(|_| std::panic::resume_unwind(Box::new(())))
        .on_thread_stop(|_| std::panic::resume_unwind(Box::new(())))
        .on_panic(|_| std::panic::resume_unwind(Box::new(())))
        .build()
        .unwrap();
    drop(runtime.spawn(async { std::panic::resume_unwind(Box::new(())) }));
    assert_eq!(runtime.spawn(async { 2 }).wait(), 2);
    runtime.shutdown(Shutdown::Drain);
}

/// The nice value of the calling thread.
fn nice() -> i32 {
    // SAFETY: getpriority takes integers only.
    let thread = unsafe { libc::gettid() };
    // SAFETY: reads a number of this thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS as _, thread as _) }
}

#[test]
fn what_the_system_refuses_is_reported_and_not_fatal() {
    let runtime = Builder::new().workers(1).io_level(Level::Urgent).build().unwrap();
    let refusals = runtime.describe().refusals;
    let of = |what: &str| refusals.iter().filter(|text| text.contains(what)).count();
    // Whether a level is granted depends on who runs the test.
    let granted = runtime.spawn(async { nice() }).wait() == -8;
    assert_eq!(of("io-0: level Urgent refused"), usize::from(!granted), "{refusals:?}");
    assert_eq!(runtime.spawn_fn(|| 4).wait(), 4);
    assert_eq!(runtime.describe().to_string().contains("refused: io-0"), !granted);
}

/// The slice of the calling thread in ns, as the kernel tells it.
#[cfg(target_os = "linux")]
fn slice() -> u64 {
    let mut attributes = [0_u64; 6];
    let (at, size) = (attributes.as_mut_ptr(), size_of_val(&attributes));
    // SAFETY: the kernel writes at most `size` bytes, and there are as many.
    let status = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, size, 0) };
    assert_eq!(status, 0);
    attributes[3]
}

#[test]
#[cfg(target_os = "linux")]
fn who_replies_goes_before_who_computes_unless_configured_otherwise() {
    let slices = |builder: Builder| {
        let runtime = builder.workers(1).build().unwrap();
        // Awaited, because who waits may run the job itself.
        let all =
            async { (slice(), filch::spawn_fn(slice).await, filch::spawn_blocking(slice).await) };
        let (io, cpu, blocking) = runtime.spawn(all).wait();
        (io, cpu, blocking, runtime.describe().slices)
    };
    let usual = slice();
    let (io, cpu, blocking, described) = slices(Builder::new());
    let expected =
        if described.starts_with("0.1 ms") { (100_000, 10_000_000) } else { (usual, usual) };
    assert_eq!((io, cpu), expected, "{described}");
    assert_eq!(blocking, usual, "threads that workers start are no workers");
    let (io, cpu, blocking, described) = slices(Builder::new().lane_slices(false));
    assert_eq!((io, cpu, blocking), (usual, usual, usual), "{described}");
}

#[test]
fn environment_sets_what_the_program_leaves_open() {
    let variables = [("FILCH_WORKERS", "3"), ("FILCH_THREAD_NAME", "renv")];
    in_child("runtimes::environment_sets_what_the_program_leaves_open", &variables, || {
        let runtime = filch::Runtime::new().unwrap();
        assert_eq!((runtime.config().io_workers, runtime.config().compute_workers), (3, 3));
        let chosen = Builder::new().io_workers(1).thread_name("own").build().unwrap();
        assert_eq!((chosen.config().io_workers, chosen.config().compute_workers), (1, 3));
        assert_eq!(chosen.config().thread_name, "own");
        drop((runtime, chosen));
        // The default runtime, too.
        assert_no_thread_named("renv");
        assert_eq!(filch::spawn(async { 1 }).wait(), 1);
        assert_eq!(threads_named("renv").len(), 7);
    });
}

#[test]
fn an_environment_that_makes_no_sense_is_an_error() {
    let variables = [("FILCH_WORKERS", "many")];
    in_child("runtimes::an_environment_that_makes_no_sense_is_an_error", &variables, || {
        let error = Builder::new().workers(1).build().unwrap_err();
        assert!(
            matches!(&error, BuildError::Environment { variable: "FILCH_WORKERS", .. }),
            "{error}"
        );
        let panic = std::panic::catch_unwind(|| filch::spawn(async {})).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(
            text.starts_with("the default runtime cannot start: invalid environment"),
            "{text}"
        );
    });
}

#[test]
fn the_default_runtime_starts_once_from_any_thread() {
    in_child("runtimes::the_default_runtime_starts_once_from_any_thread", &[], || {
        assert!(threads_named("filch").is_empty());
        let starters: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| assert_eq!(filch::spawn(async { 1 }).wait(), 1)))
            .collect();
        for starter in starters {
            starter.join().unwrap();
        }
        let config = Handle::current().config().clone();
        let io = (0..config.io_workers).map(|n| format!("filch-io-{n}"));
        let compute = (0..config.compute_workers).map(|n| format!("filch-cpu-{n}"));
        let mut regular: Vec<_> = io.chain(compute).chain(["filch-sentry".to_owned()]).collect();
        regular.sort();
        // Spares may have come if the machine was busy; they go. One look is not enough also
        // because Linux cuts its list short where a listed thread ends meanwhile.
        eventually("the threads of one runtime, and no other", || {
            threads_named("filch") == regular
        });
    });
}
