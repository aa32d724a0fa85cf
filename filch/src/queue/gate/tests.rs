use super::{Closed, Gate};

#[test]
fn an_open_gate_lets_its_generation_in_and_no_other() {
    let gate = Gate::new();
    assert_eq!(gate.enter(0).err(), Some(Closed::Leaving), "nobody is there");
    let first = gate.open();
    assert!(gate.enter(first).is_ok());
    assert_eq!(gate.enter(first + 1).err(), Some(Closed::Gone));
    gate.close();
    assert_eq!(gate.enter(first).err(), Some(Closed::Leaving));
    gate.retire();
    assert_eq!(gate.enter(first).err(), Some(Closed::Gone));
    let second = gate.open();
    assert_ne!(first, second);
    assert_eq!(gate.enter(first).err(), Some(Closed::Gone));
    assert!(gate.enter(second).is_ok());
    assert_eq!(gate.generation(), second);
}

#[test]
fn a_gate_is_quiet_once_the_last_poster_is_out() {
    let gate = Gate::new();
    let generation = gate.open();
    let (one, two) = (gate.enter(generation).unwrap(), gate.enter(generation).unwrap());
    gate.close();
    assert!(gate.enter(generation).is_err());
    drop(one);
    assert!(!gate.is_quiet());
    drop(two);
    assert!(gate.is_quiet());
    gate.reopen();
    assert!(gate.enter(generation).is_ok(), "the same generation goes on");
}
