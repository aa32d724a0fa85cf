use std::time::Duration;

use proptest::prelude::*;

use super::{Chosen, Config, File};
use crate::config::{Affinity, IoBackend, Level, UnhandledPanic};

fn file(text: &str) -> File {
    text.parse().expect("a well-formed file")
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(text.parse::<File>().unwrap_err().to_string(), expected);
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back_as_the_same(
        counts in any::<[usize; 6]>(),
        open in any::<(Option<usize>, Option<u64>)>(),
        nanos in any::<u64>(),
        name in any::<String>(),
        kind in 0..4usize,
        cpus in proptest::collection::vec(any::<usize>(), 1..5),
    ) {
        let mut config = Config::default();
        (config.io_workers, config.ring_capacity, config.timer_budget) = (counts[0], counts[1], counts[2]);
        (config.io_spares, config.guest_threads, config.poll_budget) = (counts[3], counts[4], counts[5]);
        (config.searcher_limit, config.seed, config.thread_name) = (open.0, open.1, name);
        config.sentry_period = Duration::from_nanos(nanos);
        config.io_level = [Level::Background, Level::Normal, Level::Display, Level::Urgent][kind];
        config.io_affinity = [Affinity::Any, Affinity::PinEach, Affinity::Cpus(cpus), Affinity::Any][kind].clone();
        config.io_backend =
            [IoBackend::Auto, IoBackend::Uring, IoBackend::UringPlain, IoBackend::Epoll][kind];
        config.caller_works = kind == 2;
        config.unhandled_panic = [UnhandledPanic::Propagate, UnhandledPanic::Report][kind % 2];
        prop_assert_eq!(config.to_string().parse(), Ok(config));
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    refused("io_workers", r#"line 1: "io_workers" has no `=`"#);
    refused("# one\n\nworkers = 2", "line 3: there is no parameter `workers`");
    refused("seed = 1\nseed = 2", "line 2: `seed` comes a second time");
    refused(
        "single_thread = yes",
        r#"line 1: `single_thread`: "yes" is none of 1, true, 0, false"#,
    );
    let duration = "is no whole number followed by s, ms, us or ns";
    refused("sentry_period = 2", &format!("line 1: `sentry_period`: \"2\" {duration}"));
    refused("sentry_period = ms", &format!("line 1: `sentry_period`: \"ms\" {duration}"));
    refused("sentry_period = 1.5ms", &format!("line 1: `sentry_period`: \"1.5ms\" {duration}"));
    refused(
        "io_affinity = left",
        r#"line 1: `io_affinity`: "left" is none of any, pin-each, a list of CPUs"#,
    );
    refused(r#"thread_name = "a"#, r#"line 1: `thread_name`: "\"a" has no closing quotation mark"#);
}

#[test]
fn a_file_fills_what_nobody_has_chosen_and_what_was_left_open() {
    let mut config = Config { ring_capacity: 64, stack_size: None, ..Config::default() };
    let mut chosen = Chosen::default();
    for field in ["ring_capacity", "io_workers", "stack_size"] {
        chosen.add(field);
    }
    file("ring_capacity = 512\nio_workers = 3\nstack_size = 65536\nslot_streak = 7")
        .apply(&mut config, &chosen);
    let expected = Config {
        ring_capacity: 64,
        io_workers: 3,
        stack_size: Some(65_536),
        slot_streak: 7,
        ..Config::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn a_file_never_makes_a_contradiction() {
    let mut several = Config { compute_workers: 4, ..Config::default() };
    file("single_thread = true").apply(&mut several, &Chosen::default());
    assert!(!several.single_thread);
    let mut alone = Config { single_thread: true, ..Config::default() };
    file("io_workers = 4").apply(&mut alone, &Chosen::default());
    alone.validate().expect("the count stayed open");
}
