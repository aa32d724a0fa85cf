use std::time::Duration;

use super::state::{Cause, Key, Kind, Next, Standing, State, What};

const MANY: u64 = 1_000_000;

fn world(seed: u64, people: usize) -> State {
    let mut state = State::new(seed, MANY);
    for number in 0..people {
        let _ = state.enrol(number.to_string());
    }
    state
}

fn blocked(key: Key, until: Option<Duration>, background: bool) -> Standing {
    Standing::Blocked { key, what: What::Parked, since: Duration::ZERO, until, background }
}

/// Blocks `me` and says who goes on.
fn block(state: &mut State, me: usize, standing: Standing) -> Next {
    state.block(me, standing);
    state.next(me, Kind::Block)
}

#[track_caller]
fn run_of(next: Next) -> usize {
    match next {
        Next::Run(number) => number,
        Next::Over => panic!("all ended"),
        Next::Failed(cause) => panic!("{cause:?}"),
    }
}

#[test]
fn seed_decides_who_goes_on() {
    let order = |seed| {
        let mut state = world(seed, 4);
        (0..200).map(|i| run_of(state.next(i % 4, Kind::Point))).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    let mut orders: Vec<_> = (0..50).map(order).collect();
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 50);
}

#[test]
fn yield_lets_anybody_else_go_first() {
    let mut state = world(1, 3);
    let mut others = [0; 3];
    for _ in 0..300 {
        others[run_of(state.next(1, Kind::Yield))] += 1;
    }
    assert!(others[0] > 50 && others[1] == 0 && others[2] > 50, "{others:?}");
}

#[test]
fn yield_of_the_only_one_goes_on() {
    assert_eq!(run_of(world(1, 1).next(0, Kind::Yield)), 0);
}

#[test]
fn time_jumps_to_the_nearest_deadline() {
    let mut state = world(1, 2);
    let (soon, late) = (Duration::from_secs(5), Duration::from_secs(9));
    assert_eq!(run_of(block(&mut state, 0, blocked(Key::Time, Some(late), false))), 1);
    assert_eq!(run_of(block(&mut state, 1, blocked(Key::Time, Some(soon), false))), 1);
    assert_eq!(state.now, soon);
    state.end(1);
    assert_eq!(run_of(state.next(1, Kind::End)), 0);
    assert_eq!(state.now, late);
}

#[test]
fn all_blocked_without_a_deadline_is_a_deadlock() {
    let mut state = world(1, 2);
    assert_eq!(run_of(block(&mut state, 0, blocked(Key::Address(1), None, false))), 1);
    let next = block(&mut state, 1, blocked(Key::Address(2), None, false));
    assert!(matches!(next, Next::Failed(Cause::Deadlock)));
}

#[test]
fn housekeeping_alone_becomes_a_deadlock_and_yields_to_a_far_deadline() {
    let far = Duration::from_secs(1_000_000);
    for sleeper in [None, Some(far)] {
        let mut state = world(1, 2);
        run_of(block(&mut state, 0, blocked(Key::Time, sleeper, false)));
        let mut rounds = 0;
        let end = loop {
            let next_round = state.now + Duration::from_millis(5);
            match block(&mut state, 1, blocked(Key::Time, Some(next_round), true)) {
                Next::Run(1) => rounds += 1,
                other => break other,
            }
        };
        assert!((1000..3000).contains(&rounds), "{rounds}");
        match sleeper {
            None => assert!(matches!(end, Next::Failed(Cause::Deadlock))),
            Some(_) => assert_eq!((run_of(end), state.now >= far), (0, true)),
        }
    }
}

#[test]
fn wake_reaches_all_who_wait_for_the_key_and_wake_one_reaches_one() {
    let mut state = world(1, 4);
    for number in 0..3 {
        run_of(block(&mut state, number, blocked(Key::Address(7), None, false)));
    }
    assert!(!state.wake(Key::Address(8)));
    let ready = |state: &State| {
        state.people.iter().filter(|p| matches!(p.standing, Standing::Ready)).count()
    };
    state.wake_one(Key::Address(7));
    assert_eq!(ready(&state), 2);
    assert!(state.wake(Key::Address(7)));
    assert_eq!(ready(&state), 4);
}

#[test]
fn end_wakes_whoever_waits_for_it_and_the_last_end_is_the_end() {
    let mut state = world(1, 2);
    assert_eq!(run_of(block(&mut state, 0, blocked(Key::End(1), None, false))), 1);
    state.end(1);
    assert_eq!(run_of(state.next(1, Kind::End)), 0);
    state.end(0);
    assert!(matches!(state.next(0, Kind::End), Next::Over));
}

#[test]
fn more_switches_than_allowed_fail() {
    let mut state = State::new(1, 3);
    let _ = state.enrol("alone".to_owned());
    (0..3).for_each(|_| assert_eq!(run_of(state.next(0, Kind::Point)), 0));
    assert!(matches!(state.next(0, Kind::Point), Next::Failed(Cause::Endless)));
}
