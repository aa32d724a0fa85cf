//! Sleeping, timeouts and intervals, on real, manual and simulated clocks.

use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use filch::testkit::{self, Clock, ManualClock, Sim};
use filch::time::{
    Instant, Interval, MissedTickBehavior, interval, interval_at, sleep, sleep_until, timeout,
    timeout_at,
};
use filch::{Builder, Shutdown};

use crate::kit;
use crate::support::{CountingWaker, Gate, Rig, until};
use crate::watchdog::{Watchdog, watched};

const MS: Duration = Duration::from_millis(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A runtime whose clock the test moves.
fn by_hand(dog: &Watchdog, workers: usize) -> (Rig, Arc<ManualClock>) {
    let hand = Arc::new(ManualClock::new());
    let clock = Clock::Manual(hand.clone());
    (dog.rig_of(Builder::new().workers(workers).clock(clock)), hand)
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A sleep of so many milliseconds that says when it has been polled.
async fn sleep_noting(ms: u32, polled: Arc<AtomicUsize>) {
    let mut sleep = pin!(sleep(ms * MS));
    poll_fn(|cx| {
        let poll = sleep.as_mut().poll(cx);
        polled.fetch_add(1, SeqCst);
        poll
    })
    .await;
}

#[test]
fn no_sleep_ends_early_whatever_the_thread() {
    watched(|dog| {
        let rig = dog.rig(2);
        rig.everywhere(|| {
            for ms in [0, 1, 3] {
                let begin = std::time::Instant::now();
                filch::block_on(async move {
                    sleep(ms * MS).await;
                    filch::spawn(sleep(ms * MS)).await;
                });
                assert!(begin.elapsed() >= 2 * ms * MS);
            }
        });
    });
}

#[test]
fn timeouts_of_nothing_and_for_ever() {
    watched(|dog| {
        dog.rig(1).everywhere(|| {
            filch::block_on(async {
                assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
                assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
                assert_eq!(timeout(Duration::MAX, filch::spawn(async { 1 })).await, Ok(1));
                assert!(timeout(MS, timeout(Duration::MAX, pending::<()>())).await.is_err());
                assert!(timeout_at(Instant::now(), sleep(Duration::MAX)).await.is_err());
                let past = Instant::now();
                sleep_until(past).await;
                sleep_until(past - MS).await;
            });
        });
    });
}

#[test]
fn a_value_that_comes_with_the_timeout_is_not_lost() {
    watched(|dog| {
        let (rig, hand) = by_hand(dog, 1);
        rig.block_on(async {
            let bell = Arc::new(CountingWaker::default());
            let waker = Waker::from(bell.clone());
            let mut cx = Context::from_waker(&waker);
            let gate = Gate::default();
            let mut value = pin!(timeout(MS, gate.clone()));
            assert!(value.as_mut().poll(&mut cx).is_pending());
            hand.advance(MS);
            until(|| bell.wakes() == 1);
            // The timer has fired, nobody has been told yet, and the future is ready.
            gate.open();
            assert_eq!(value.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
        });
    });
}

#[test]
fn manual_clock_wakes_sleepers_when_it_passes_their_deadline() {
    watched(|dog| {
        let (rig, hand) = by_hand(dog, 2);
        let polled = Arc::new(AtomicUsize::new(0));
        let mut tasks: Vec<_> =
            (1..=4).map(|ms| rig.spawn(sleep_noting(ms, polled.clone()))).collect();
        until(|| polled.load(SeqCst) == 4);
        hand.advance(MS - Duration::from_nanos(1));
        assert!(tasks.iter().all(|task| !task.is_finished()));
        hand.advance(Duration::from_nanos(1));
        tasks.remove(0).wait();
        assert!(tasks.iter().all(|task| !task.is_finished()));
        hand.advance(200 * YEAR);
        filch::wait_all(tasks);
    });
}

#[test]
fn manual_clock_jumps_by_years_and_each_timer_fires_once() {
    watched(|dog| {
        let (rig, hand) = by_hand(dog, 2);
        let polled = Arc::new(AtomicUsize::new(0));
        let fired = Arc::new(Mutex::new(Vec::new()));
        for years in 0..60u32 {
            let (polled, fired) = (polled.clone(), fired.clone());
            rig.spawn(async move {
                let mut sleep = pin!(sleep((years + 1) * YEAR));
                assert!(poll_once(sleep.as_mut()).is_pending());
                polled.fetch_add(1, SeqCst);
                sleep.await;
                fired.lock().unwrap().push(years);
            })
            .detach();
        }
        let forever = rig.spawn(sleep(Duration::MAX));
        until(|| polled.load(SeqCst) == 60);
        for (jump, sum) in [(1u32, 1), (1, 2), (7, 9), (20, 29), (100, 60)] {
            hand.advance(jump * YEAR);
            until(|| fired.lock().unwrap().len() == sum);
            let all: BTreeSet<_> = fired.lock().unwrap().iter().copied().collect();
            assert!(all.into_iter().eq(0..sum as u32));
        }
        assert!(!forever.is_finished());
        forever.cancel();
    });
}

#[test]
fn a_hundred_thousand_sleeps_fire_once_each() {
    watched(|dog| {
        let rig = dog.rig(2);
        let fired = Arc::new(AtomicUsize::new(0));
        let count = fired.clone();
        rig.block_on(async move {
            for i in 0..100_000u32 {
                let count = count.clone();
                drop(filch::spawn(async move {
                    sleep(Duration::from_micros((i % 977 * 37).into())).await;
                    count.fetch_add(1, SeqCst);
                }));
            }
        });
        assert_eq!(fired.load(SeqCst), 100_000);
    });
}

#[test]
fn timers_of_a_stuck_worker_fire() {
    watched(|dog| {
        // One I/O worker: it registers the timers, and then it is stuck until they have fired.
        let rig = dog.rig_of(Builder::new().io_workers(1).compute_workers(1));
        let (door, opener) = kit::Gate::new();
        let polled = Arc::new(AtomicUsize::new(0));
        let sleepers: Vec<_> =
            (1..=8).map(|ms| rig.spawn(sleep_noting(ms, polled.clone()))).collect();
        until(|| polled.load(SeqCst) >= 8);
        let stuck = rig.spawn(async move { door.pass() });
        filch::wait_all(sleepers);
        assert!(!stuck.is_finished());
        // And those that are registered while it is stuck, from elsewhere.
        rig.block_on(sleep(2 * MS));
        assert_eq!(
            rig.block_on(filch::cpu(|| filch::block_on(async {
                timeout(MS, sleep(MS / 2)).await
            }))),
            Ok(())
        );
        assert!(!stuck.is_finished());
        drop(opener);
        stuck.wait();
    });
}

#[test]
fn timers_of_a_worker_that_blocks_in_a_task_fire() {
    watched(|dog| {
        for builder in [
            Builder::new().single_thread(true),
            Builder::new().single_thread(true).io_spares(0),
            Builder::new().workers(1),
        ] {
            let rig = dog.rig_of(builder);
            let nested = rig.spawn(async {
                filch::block_on(async {
                    sleep(MS).await;
                    filch::block_on(timeout(MS, pending::<()>())).unwrap_err();
                });
                1
            });
            assert_eq!(nested.wait(), 1);
        }
    });
}

#[test]
fn a_worker_that_never_runs_dry_fires_timers() {
    async fn again(stop: Arc<AtomicUsize>) {
        while stop.load(SeqCst) == 0 {
            filch::yield_now().await;
        }
    }
    watched(|dog| {
        let rig = dog.rig_of(Builder::new().single_thread(true));
        let stop = Arc::new(AtomicUsize::new(0));
        let busy: Vec<_> = (0..200).map(|_| rig.spawn(again(stop.clone()))).collect();
        rig.spawn(async {
            for _ in 0..5 {
                sleep(MS).await;
            }
        })
        .wait();
        stop.store(1, SeqCst);
        filch::wait_all(busy);
    });
}

#[test]
fn timers_that_are_due_for_ever_starve_nobody() {
    watched(|dog| {
        let rig = dog.rig_of(Builder::new().single_thread(true));
        let stop = Arc::new(AtomicUsize::new(0));
        let tickers: Vec<_> = (0..500)
            .map(|_| {
                let stop = stop.clone();
                rig.spawn(async move {
                    while stop.load(SeqCst) == 0 {
                        sleep(Duration::from_nanos(1)).await;
                    }
                })
            })
            .collect();
        for _ in 0..20 {
            rig.spawn(async { filch::yield_now().await }).wait();
            rig.spawn_fn(|| ()).wait();
        }
        stop.store(1, SeqCst);
        filch::wait_all(tickers);
    });
}

#[test]
fn reset_moves_a_sleep_both_ways_and_wakes_who_waits() {
    watched(|dog| {
        let (rig, hand) = by_hand(dog, 1);
        rig.block_on(async {
            let bell = Arc::new(CountingWaker::default());
            let waker = Waker::from(bell.clone());
            let mut cx = Context::from_waker(&waker);
            let mut sleep = pin!(sleep(10 * MS));
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
            // Later: the old deadline passes without a wake.
            sleep.as_mut().reset(Instant::now() + 20 * MS);
            hand.advance(15 * MS);
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
            assert_eq!(bell.wakes(), 0);
            // Earlier, without a poll in between.
            sleep.as_mut().reset(Instant::now() + MS);
            hand.advance(MS);
            until(|| bell.wakes() == 1);
            assert!(sleep.is_elapsed() && sleep.as_mut().poll(&mut cx).is_ready());
            // Again, and into the past.
            sleep.as_mut().reset(Instant::now() + MS);
            assert!(!sleep.is_elapsed() && sleep.as_mut().poll(&mut cx).is_pending());
            sleep.as_mut().reset(Instant::now() - MS);
            until(|| bell.wakes() == 2);
            assert!(sleep.as_mut().poll(&mut cx).is_ready());
            // Stopped, and started again: who waits is woken.
            sleep.as_mut().reset(Instant::now() + MS);
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
            sleep.as_mut().cancel();
            hand.advance(100 * YEAR);
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
            sleep.as_mut().reset(Instant::now() + MS);
            hand.advance(MS);
            until(|| bell.wakes() == 3);
        });
    });
}

#[test]
fn a_sleep_may_be_dropped_on_another_thread_at_any_time() {
    watched(|dog| {
        let rig = dog.rig(2);
        rig.block_on(async {
            for i in 0..200u32 {
                let mut sleep = Box::pin(sleep(Duration::from_micros((i % 50 * 7).into())));
                let polled = filch::spawn(async move {
                    let _ = poll_once(sleep.as_mut());
                    sleep
                });
                drop(polled.await);
            }
        });
        let sleeps: Vec<_> = rig.block_on(async {
            (0..100)
                .map(|_| {
                    let mut sleep = Box::pin(sleep(MS));
                    assert!(poll_once(sleep.as_mut()).is_pending());
                    sleep
                })
                .collect()
        });
        std::thread::spawn(move || drop(sleeps)).join().unwrap();
    });
}

#[test]
fn a_sleep_outlives_its_runtime_and_goes_on_in_another() {
    watched(|dog| {
        let first = dog.rig(1);
        let bell = Arc::new(CountingWaker::default());
        let waker = Waker::from(bell.clone());
        let mut sleeps: Vec<_> = first.block_on(async {
            let sleeps = (0..100).map(|_| {
                let mut sleep = Box::pin(sleep(2 * MS));
                assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                sleep
            });
            sleeps.collect()
        });
        first.shutdown(Shutdown::Abort);
        assert_eq!(bell.wakes(), 100, "woken by their time, or to look for another runtime");
        let second = dog.rig(1);
        let last = sleeps.pop().unwrap();
        second.block_on(last);
        drop(second);
        drop(sleeps);
    });
}

#[test]
fn a_sleep_on_a_thread_adopted_by_a_runtime_that_has_ended_lasts() {
    watched(|dog| {
        let rig = dog.rig_of(Builder::new().workers(1).adoptable_threads(1));
        let adopted = rig.adopt().unwrap();
        let mut before = pin!(sleep(YEAR));
        assert!(poll_once(before.as_mut()).is_pending());
        rig.shutdown(Shutdown::Abort);
        // Polled by hand: outside of a `block_on` the thread belongs to whoever adopted it.
        assert!(poll_once(before).is_pending(), "a year has not passed");
        assert!(poll_once(pin!(sleep(YEAR))).is_pending());
        let begin = std::time::Instant::now();
        futures_lite::future::block_on(sleep(MS));
        assert!(begin.elapsed() >= MS);
        drop(adopted);
    });
}

#[test]
fn shutdown_drops_sleeping_tasks_and_a_drain_waits_for_them() {
    watched(|dog| {
        let rig = dog.rig(2);
        let tasks: Vec<_> = (0..100).map(|_| rig.spawn(sleep(YEAR))).collect();
        assert!(rig.shutdown(Shutdown::Abort).unfinished.len() <= 100);
        drop(tasks);
        let rig = dog.rig(2);
        let begin = std::time::Instant::now();
        drop(rig.spawn(sleep(3 * MS)));
        assert!(rig.shutdown(Shutdown::Drain).unfinished.is_empty());
        assert!(begin.elapsed() >= 3 * MS);
    });
}

/// The ticks that are taken, in milliseconds since the start, by somebody who at first is away for
/// 35 ms, then comes back every millisecond.
fn ticks(missed: MissedTickBehavior) -> Vec<u128> {
    let hand = Arc::new(ManualClock::new());
    let clock = Clock::Manual(hand.clone());
    let runtime = Builder::new().workers(1).clock(clock).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let mut interval = interval(10 * MS);
        interval.set_missed_tick_behavior(missed);
        assert_eq!(interval.tick().await, start);
        hand.advance(35 * MS);
        let mut ticks = Vec::new();
        while ticks.len() < 5 {
            let mut tick = pin!(interval.tick());
            let before = Instant::now();
            if poll_fn(|cx| Poll::Ready(tick.as_mut().poll(cx))).await.is_ready() {
                ticks.push((before - start).as_millis());
            } else {
                hand.advance(MS);
                // Whether the worker has seen it, shows in a sleep that is due at the same time.
                sleep_until(Instant::now()).await;
            }
        }
        ticks
    })
}

#[test]
fn burst_catches_up_with_missed_ticks() {
    watched(|_| assert_eq!(ticks(MissedTickBehavior::Burst), [35, 35, 35, 40, 50]));
}

#[test]
fn delay_starts_a_period_from_the_late_tick() {
    watched(|_| assert_eq!(ticks(MissedTickBehavior::Delay), [35, 45, 55, 65, 75]));
}

#[test]
fn skip_leaves_out_missed_ticks() {
    watched(|_| assert_eq!(ticks(MissedTickBehavior::Skip), [35, 40, 50, 60, 70]));
}

#[test]
fn an_interval_of_the_longest_period_ticks_once() {
    watched(|dog| {
        dog.rig(1).block_on(async {
            let mut interval = interval(Duration::MAX);
            interval.tick().await;
            assert!(timeout(MS, interval.tick()).await.is_err());
            interval.reset_immediately();
            interval.tick().await;
            interval.reset_after(MS);
            interval.tick().await;
        });
    });
}

#[test]
#[should_panic(expected = "the period of an interval is not zero")]
fn an_interval_without_a_period_panics() {
    let _: Interval = interval_at(Instant::now(), Duration::ZERO);
}

#[test]
fn a_sleep_wakes_its_worker_once() {
    watched(|dog| {
        let rig = dog.rig_of(Builder::new().single_thread(true));
        for micros in [1_900, 300, 2_999] {
            rig.spawn(async move { sleep(Duration::from_micros(micros)).await }).wait();
        }
        let parks = rig.snapshot().total().parks;
        assert!(parks <= 20, "{parks} parks for three sleeps");
    });
}

#[test]
fn an_idle_runtime_with_a_distant_timer_sleeps() {
    kit::in_child("time::an_idle_runtime_with_a_distant_timer_sleeps", &[], || {
        let runtime = Builder::new().workers(2).build().unwrap();
        let polled = Arc::new(AtomicUsize::new(0));
        let far = runtime.spawn(sleep_noting(3_600_000, polled.clone()));
        // Cancelled timers ask for one look at most.
        runtime.block_on(async {
            for _ in 0..100 {
                let _ = timeout(20 * MS, filch::yield_now()).await;
            }
        });
        kit::eventually("all sleep", || {
            polled.load(SeqCst) == 1 && runtime.snapshot().lanes.iter().all(|lane| lane.awake == 0)
        });
        std::thread::sleep(100 * MS);
        let parks = runtime.snapshot().total().parks;
        std::thread::sleep(200 * MS);
        assert_eq!(runtime.snapshot().total().parks, parks, "a worker woke up");
        far.cancel();
    });
}

#[filch::test(sim, seeds = 300)]
async fn simulated_sleeps_end_in_the_order_of_their_deadlines() {
    let order = Arc::new(testkit::Mutex::new(Vec::new()));
    let begin = Instant::now();
    let tasks: Vec<_> = [3u32, 1, 2]
        .map(|hours| {
            let order = order.clone();
            filch::spawn(async move {
                sleep(hours * Duration::from_secs(3600)).await;
                order.lock().unwrap().push(hours);
            })
        })
        .into();
    filch::wait_all_async(tasks).await;
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    let passed = begin.elapsed();
    assert!(passed >= Duration::from_secs(3 * 3600) && passed < Duration::from_secs(3 * 3600 + 1));
}

#[filch::test(sim, seeds = 300)]
async fn simulated_timeouts_race_with_values() {
    let (mut late, mut timely) = (0, 0);
    for _ in 0..4 {
        let after = Duration::from_micros(testkit::random() % 40);
        let value = filch::spawn(async move {
            sleep(after).await;
            1
        });
        match timeout(Duration::from_micros(20), value).await {
            Ok(value) => timely += value,
            Err(_) => late += 1,
        }
    }
    assert_eq!(late + timely, 4);
}

#[filch::test(sim, seeds = 200)]
fn simulated_timers_of_blocked_workers_fire() {
    let stuck: Vec<_> = (0..2)
        .map(|_| {
            filch::spawn(async {
                let mut sleep = pin!(sleep(2 * MS));
                let _ = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                testkit::sleep(30 * MS);
            })
        })
        .collect();
    let begin = Instant::now();
    filch::block_on(sleep(3 * MS));
    assert!(begin.elapsed() >= 3 * MS);
    filch::wait_all(stuck);
}

#[test]
fn simulated_sleep_for_ever_is_a_deadlock() {
    watched(|_| {
        let failure = Sim::new().find(0..1, || filch::block_on(sleep(Duration::MAX)));
        assert_eq!(failure.unwrap().kind(), testkit::FailureKind::Deadlock);
    });
}

#[test]
fn simulated_time_is_the_same_for_the_same_seed() {
    watched(|_| {
        let run = |seed| {
            let program = || {
                filch::block_on(async {
                    let tasks: Vec<_> = (0..8)
                        .map(|i| {
                            filch::spawn(async move {
                                sleep(i * MS).await;
                                let _ = timeout(MS, sleep(2 * MS)).await;
                            })
                        })
                        .collect();
                    filch::wait_all_async(tasks).await;
                });
            };
            Sim::new().seed(seed).try_run(program).unwrap().trace
        };
        (0..20).for_each(|seed| assert_eq!(run(seed), run(seed)));
    });
}
