//! Chapter on the simulator: it finds a planted bug, and its seed repeats the failure.

use super::guide::Guide;
use super::{Shown, span};
use filch::JoinHandle;
use filch::testkit::{self, Sim};
use filch::time::sleep;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seeds to try; the bug shows under one of some thirty.
const SEEDS: u64 = 10_000;

/// What the program panics with when the bug shows.
const LOST: &str = "a deposit is lost";

pub fn simulator(guide: &Guide) -> Shown {
    hide_the_planted_panic();
    guide.tell("trying seeds");
    let start = Instant::now();
    let failure = Sim::new().find(0..SEEDS, two_deposits).expect("a seed shows the bug");
    let (seed, time) = (failure.seed(), span(start.elapsed()));
    let again = Sim::new().seed(seed).try_run(two_deposits).expect_err("the same run");
    assert_eq!(again.to_string(), failure.to_string(), "the seed repeats all of it");
    format!(
        "planted bug: two deposits may read the same balance, and one is lost\n\
         {} seeds tried in {time}: seed {seed} fails with \"{LOST}\"\n\
         seed {seed} again: the same failure",
        seed + 1
    )
}

/// Two deposits within a millisecond.
fn two_deposits() {
    filch::block_on(async {
        let balance = Arc::new(AtomicU64::new(100));
        filch::wait_all_async([deposit(&balance, 10), deposit(&balance, 20)]).await;
        // ORDERING: Relaxed, the tasks have ended.
        assert!(balance.load(Ordering::Relaxed) == 130, "{LOST}");
    });
}

/// The planted bug: it reads, awaits, and writes what it has computed from the value that it read.
fn deposit(balance: &Arc<AtomicU64>, amount: u64) -> JoinHandle<()> {
    let balance = Arc::clone(balance);
    let arrives = Duration::from_micros(testkit::random() % 1_000);
    filch::spawn(async move {
        sleep(arrives).await;
        // ORDERING: Relaxed here and below: threads of a simulation run one at a time.
        let before = balance.load(Ordering::Relaxed);
        sleep(Duration::from_micros(20)).await;
        // ORDERING: as above.
        balance.store(before + amount, Ordering::Relaxed);
    })
}

/// Keeps the panic of the planted bug from standard error; every other goes to the hook that was there.
fn hide_the_planted_panic() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some(LOST) {
            usual(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::two_deposits;
    use filch::testkit::Sim;

    #[test]
    fn the_planted_bug_is_neither_always_there_nor_hard_to_find() {
        super::hide_the_planted_panic();
        let failure = Sim::new().find(0..500, two_deposits).expect("a seed shows the bug");
        assert!(failure.seed() > 0, "most runs pass");
    }
}
