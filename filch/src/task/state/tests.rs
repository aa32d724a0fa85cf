use super::*;

fn task() -> State {
    State::new(State::initial(Priority::Normal, 7))
}

#[test]
fn wake_while_running_requeues_once() {
    let s = task();
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.wake(), Wake::Nothing);
    assert_eq!(s.wake(), Wake::Nothing);
    assert_eq!(s.pause(), Pause::Requeue);
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.pause(), Pause::Idle);
    assert_eq!(s.wake(), Wake::Schedule);
    assert_eq!(s.wake(), Wake::Nothing);
}

#[test]
fn cancel_of_a_waiting_task_schedules_its_drop() {
    let s = task();
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.pause(), Pause::Idle);
    assert_eq!(s.cancel(), Wake::Schedule);
    assert_eq!(s.start(), Start::Cancelled);
    assert_eq!(s.finish(), Some(Finished { waiter: false, last: false }));
    assert_eq!(s.drop_handle(), HandleDrop::Done);
    assert!(s.unref());
}

#[test]
fn cancel_while_running_is_seen_after_the_poll() {
    let s = task();
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.cancel(), Wake::Nothing);
    assert_eq!(s.pause(), Pause::Cancelled);
}

#[test]
fn finish_without_a_handle_wants_the_output_dropped_first() {
    let s = task();
    assert_eq!(s.drop_handle(), HandleDrop::Alive);
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.finish(), None);
    assert_eq!(s.finish_without_output(), Finished { waiter: false, last: true });
}

#[test]
fn a_claimed_jobs_entry_is_a_tombstone_before_and_after_the_end() {
    let early = task();
    assert_eq!(early.claim(), Some(Start::Run));
    assert_eq!(early.start(), Start::Tombstone);
    assert_eq!(early.finish(), Some(Finished { waiter: false, last: false }));
    assert_eq!(early.refs(), 1, "only the handle is left");

    let late = task();
    assert_eq!(late.claim(), Some(Start::Run));
    assert_eq!(late.finish(), Some(Finished { waiter: false, last: false }));
    assert_eq!(late.drop_handle(), HandleDrop::Done);
    assert!(!late.unref());
    assert_eq!(late.start(), Start::TombstoneLast);
}

#[test]
fn a_waiter_of_a_claimed_job_leaves_the_finisher_its_own_reference() {
    let s = task();
    assert_eq!(s.claim(), Some(Start::Run));
    assert!(s.set_waiter());
    assert_eq!(s.finish(), Some(Finished { waiter: true, last: false }));
    assert_eq!(s.start(), Start::Tombstone);
    assert!(!s.unref(), "the finisher's");
    assert_eq!(s.drop_handle(), HandleDrop::Done);
    assert!(s.unref(), "the handle's");
}

#[test]
fn a_second_claim_and_a_claim_after_the_start_fail() {
    let s = task();
    assert_eq!(s.claim(), Some(Start::Run));
    assert_eq!(s.claim(), None);
    let s = task();
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.claim(), None);
}

#[test]
fn a_job_that_is_put_back_has_one_entry() {
    let s = task();
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.put_back(), PutBack::Push);
    assert_eq!(s.detach(), Wake::Nothing);
    assert_eq!(s.claim(), Some(Start::Detached));
    assert_eq!(s.put_back(), PutBack::InPlace);
    assert_eq!(s.claim(), Some(Start::Detached));
    assert_eq!(s.start(), Start::Tombstone);
    assert_eq!(s.put_back(), PutBack::Push);
    assert_eq!(s.cancel(), Wake::Nothing);
    assert_eq!(s.start(), Start::Cancelled);
    assert_eq!(s.refs(), 2, "its own and the handle's");
}

#[test]
fn birth_and_priority_survive_every_transition() {
    let s = State::new(State::initial(Priority::Low, 4_000_000_000));
    s.add_ref();
    assert_eq!(s.start(), Start::Run);
    assert_eq!(s.pause(), Pause::Idle);
    assert!(!s.unref());
    assert_eq!(s.age_ms(4_000_000_100), 100);
    assert_eq!(s.age_ms(4_000_000_000), 0);
    assert_eq!(s.priority(), Priority::Low);
    assert!(s.try_pin());
}

#[test]
fn a_dropped_handle_keeps_its_reference_until_the_waiter_is_out() {
    let s = task();
    assert!(s.set_waiter());
    assert_eq!(s.drop_handle(), HandleDrop::AliveWithWaiter);
    assert_eq!(s.refs(), 2);
    assert!(!s.unref());
}

#[test]
fn a_claimed_job_that_is_cancelled_while_it_runs_leaves_a_tombstone() {
    let s = task();
    assert_eq!(s.claim(), Some(Start::Run));
    assert_eq!(s.cancel(), Wake::Nothing);
    assert_eq!(s.finish(), Some(Finished { waiter: false, last: false }));
    assert_eq!(s.cancel(), Wake::Nothing, "T7");
    assert_eq!(s.start(), Start::Tombstone, "the body is gone");
    assert_eq!(s.refs(), 1, "only the handle is left");
}
