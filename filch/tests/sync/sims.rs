//! Whole programs under many orders of events.

use std::sync::Arc;

use filch::sync::{
    Barrier, Condvar, Mutex, Notify, OnceCell, RwLock, Semaphore, broadcast, mpmc, oneshot, watch,
};

#[filch::test(sim, seeds = 200)]
async fn many_to_many_through_a_small_channel() {
    let (sender, receiver) = mpmc::bounded(1);
    for producer in 0..3 {
        let sender = sender.clone();
        drop(filch::spawn(async move {
            for i in 0..4 {
                sender.send(producer * 4 + i).await.unwrap();
            }
        }));
    }
    drop(sender);
    let consume = |receiver: mpmc::Receiver<u32>| async move {
        let mut sum = 0;
        while let Ok(message) = receiver.recv().await {
            sum += message;
        }
        sum
    };
    let consumers: Vec<_> = (0..3).map(|_| filch::spawn(consume(receiver.clone()))).collect();
    assert_eq!(filch::wait_all_async(consumers).await.into_iter().sum::<u32>(), 66);
}

#[filch::test(sim, seeds = 200)]
async fn mutex_and_rwlock_exclude() {
    let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
    for _ in 0..4 {
        let locks = locks.clone();
        drop(filch::spawn(async move {
            for _ in 0..3 {
                let mut sum = locks.0.lock().await;
                let before = *sum;
                filch::yield_now().await;
                *sum = before + 1;
                drop(sum);
                let before = *locks.1.read().await;
                let mut sum = locks.1.write().await;
                assert!(*sum >= before);
                *sum += 1;
            }
        }));
    }
    while *locks.1.read().await < 12 || *locks.0.lock().await < 12 {
        filch::yield_now().await;
    }
}

#[filch::test(sim, seeds = 200)]
async fn waits_that_are_dropped_lose_nothing() {
    let semaphore = Arc::new(Semaphore::new(1));
    let stop = Arc::new(Notify::new());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (semaphore, stop) = (semaphore.clone(), stop.clone());
            filch::spawn(async move {
                for _ in 0..3 {
                    filch::select! {
                        permit = semaphore.acquire() => {
                            filch::yield_now().await;
                            drop(permit);
                        }
                        () = stop.notified() => {}
                    }
                    stop.notify_one();
                }
            })
        })
        .collect();
    filch::wait_all_async(tasks).await;
    assert_eq!(semaphore.available_permits(), 1);
}

#[filch::test(sim, seeds = 200)]
async fn threads_that_block_in_a_channel_meet_tasks() {
    let (sender, receiver) = mpmc::bounded(1);
    let producer = filch::spawn_fn(move || (0..5).for_each(|i| sender.blocking_send(i).unwrap()));
    let consumer = filch::spawn(async move {
        let mut sum = 0;
        while let Ok(message) = receiver.blocking_recv() {
            sum += message;
        }
        sum
    });
    producer.await;
    assert_eq!(consumer.await, 10);
}

#[filch::test(sim, seeds = 200)]
async fn everybody_hears_of_it() {
    let (changes, seen) = watch::channel(0);
    let (news, _) = broadcast::channel(8);
    let (done, end) = oneshot::channel();
    let watcher = {
        let mut seen = seen.clone();
        filch::spawn(async move { *seen.wait_for(|value| *value == 3).await.unwrap() })
    };
    let mut hears = news.subscribe();
    let listener = filch::spawn(async move {
        let mut heard = Vec::new();
        while let Ok(message) = hears.recv().await {
            heard.push(message);
        }
        done.send(heard).unwrap();
    });
    for i in 1..=3 {
        changes.send(i).unwrap();
        news.send(i).unwrap();
        filch::yield_now().await;
    }
    drop(news);
    assert_eq!(watcher.await, 3);
    assert_eq!(end.await, Ok(vec![1, 2, 3]));
    listener.await;
}

#[filch::test(sim, seeds = 200)]
async fn condvar_barrier_and_cell_bring_tasks_together() {
    let pair = Arc::new((Mutex::new(0), Condvar::new(), Barrier::new(3), OnceCell::new()));
    let tasks: Vec<_> = (0..3)
        .map(|task| {
            let pair = pair.clone();
            filch::spawn(async move {
                let (count, changed, barrier, cell) = &*pair;
                let made = *cell
                    .get_or_init(async || {
                        filch::yield_now().await;
                        task
                    })
                    .await;
                *count.lock().await += 1;
                changed.notify_all();
                let all = changed.wait_while(count.lock().await, |count| *count < 3).await;
                drop(all);
                barrier.wait().await;
                made
            })
        })
        .collect();
    let made = filch::wait_all_async(tasks).await;
    assert!(made.iter().all(|value| *value == made[0]));
}
