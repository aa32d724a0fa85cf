use std::{collections::HashMap, ffi::OsString, time::Duration};

use super::{Affinity, Config, UnhandledPanic, env::Environment, file::Chosen};
use crate::error::BuildError;

#[test]
fn default_is_valid_and_open_values_come_to_something() {
    let config = Config::default();
    config.validate().expect("the default makes sense");
    assert_eq!(config.tries_among(4), 2 * (4 + 4 + 1));
    assert_eq!((config.searchers_among(5), config.searchers_among(1)), (3, 1));
    assert_eq!(config.outbound_batch_or_default(), 128);
    let counted = Config { compute_workers: 7, ..Config::default() };
    assert_eq!(counted.compute_spares_or_default(), 7);
}

#[test]
fn nonsense_in_any_field_is_refused_by_name() {
    type Spoil = fn(&mut Config);
    let cases: &[(&str, &[Spoil])] = &[
        ("io_workers", &[|c| c.io_workers = 40_000]),
        ("compute_workers", &[|c| c.compute_workers = usize::MAX]),
        ("max_workers", &[|c| c.max_workers = 0, |c| c.max_workers = 40_000]),
        (
            "ring_capacity",
            &[
                |c| c.ring_capacity = 0,
                |c| c.ring_capacity = 1,
                |c| c.ring_capacity = 100,
                |c| c.ring_capacity = 65_536,
            ],
        ),
        ("global_interval", &[|c| c.global_interval = 0]),
        ("global_batch", &[|c| c.global_batch = 0]),
        ("io_interval", &[|c| c.io_interval = 0]),
        ("local_budget", &[|c| c.local_budget = 0]),
        ("private_budget", &[|c| c.private_budget = 0]),
        ("timer_budget", &[|c| c.timer_budget = 0]),
        ("explore_tries", &[|c| c.explore_tries = Some(0)]),
        #[cfg(target_pointer_width = "64")]
        ("explore_yields", &[|c| c.explore_yields = usize::MAX]),
        ("searcher_limit", &[|c| c.searcher_limit = Some(0)]),
        ("slot_streak", &[|c| c.slot_streak = 0]),
        ("io_spares", &[|c| c.io_spares = 40_000]),
        ("compute_spares", &[|c| c.compute_spares = Some(40_000)]),
        ("adoptable_threads", &[|c| c.adoptable_threads = 1025]),
        ("attachable_workers", &[|c| c.attachable_workers = Some(1025)]),
        ("guest_threads", &[|c| c.guest_threads = 1025]),
        (
            "spare_keep_alive",
            &[|c| c.spare_keep_alive = Duration::ZERO, |c| c.spare_keep_alive = Duration::MAX],
        ),
        ("blocking_threads", &[|c| c.blocking_threads = 0, |c| c.blocking_threads = 40_000]),
        ("blocking_keep_alive", &[|c| c.blocking_keep_alive = Duration::ZERO]),
        (
            "sentry_period",
            &[
                |c| c.sentry_period = Duration::ZERO,
                |c| c.sentry_period = Duration::from_micros(10_001),
            ],
        ),
        ("outbound_batch", &[|c| c.outbound_batch = Some(0), |c| c.outbound_batch = Some(257)]),
        ("injector_shards", &[|c| c.injector_shards = 0, |c| c.injector_shards = 1025]),
        ("poll_budget", &[|c| c.poll_budget = 0]),
        ("stack_size", &[|c| c.stack_size = Some(0), |c| c.stack_size = Some(4096)]),
        ("thread_name", &[|c| c.thread_name.clear(), |c| c.thread_name = "a\0".into()]),
        (
            "io_affinity",
            &[
                |c| c.io_affinity = Affinity::Cpus(vec![]),
                |c| c.io_affinity = Affinity::Cpus(vec![usize::MAX]),
            ],
        ),
        ("compute_affinity", &[|c| c.compute_affinity = Affinity::Cpus(vec![1, 0, 1])]),
        (
            "single_thread",
            &[
                |c| (c.single_thread, c.io_workers) = (true, 2),
                |c| (c.single_thread, c.compute_workers) = (true, 2),
            ],
        ),
    ];
    for (field, spoils) in cases {
        for (i, spoil) in spoils.iter().enumerate() {
            let mut config = Config::default();
            spoil(&mut config);
            let error = config.validate().expect_err(&format!("{field}, case {i}"));
            assert_eq!(error.field(), *field, "case {i}: {error}");
            assert!(error.to_string().starts_with(&format!("`{field}`: ")), "{error}");
        }
    }
}

#[test]
fn values_at_the_bounds_are_accepted() {
    let mut config = Config::default();
    (config.ring_capacity, config.outbound_batch) = (2, Some(2));
    config.sentry_period = Duration::from_millis(10);
    (config.explore_yields, config.io_spares, config.compute_spares) = (0, 0, Some(0));
    (config.single_thread, config.io_workers, config.compute_workers) = (true, 1, 1);
    config.stack_size = Some(16 * 1024);
    config.validate().expect("all of it makes sense");
    config.ring_capacity = 32_768;
    config.validate().expect("the largest ring");
}

#[test]
fn pinned_workers_start_over_when_cpus_run_out() {
    let usable = [2, 5];
    let pin = |i| Affinity::PinEach.cpus_for(i, &usable);
    assert_eq!((pin(0), pin(1), pin(2)), (Some(vec![2]), Some(vec![5]), Some(vec![2])));
    assert_eq!(Affinity::PinEach.cpus_for(0, &[]), None);
    assert_eq!(Affinity::Any.cpus_for(0, &usable), None);
    assert_eq!(Affinity::Cpus(vec![7, 8]).cpus_for(3, &usable), Some(vec![7, 8]));
}

fn parse(vars: &[(&str, &str)]) -> Result<Environment, BuildError> {
    let vars: HashMap<&str, OsString> = vars.iter().map(|&(k, v)| (k, v.into())).collect();
    Environment::parse(|name| vars.get(name).cloned())
}

fn filled(program: Config, mut chosen: Chosen, vars: &[(&str, &str)]) -> Config {
    let mut config = program;
    parse(vars).expect("well-formed").apply(&mut config, &mut chosen);
    config
}

#[test]
fn empty_environment_changes_nothing() {
    assert_eq!(filled(Config::default(), Chosen::default(), &[]), Config::default());
}

#[test]
fn environment_fills_every_open_value() {
    let config = filled(
        Config::default(),
        Chosen::default(),
        &[
            ("FILCH_IO_WORKERS", "2"),
            ("FILCH_COMPUTE_WORKERS", "3"),
            ("FILCH_MAX_WORKERS", "40"),
            ("FILCH_STACK_SIZE", "65536"),
            ("FILCH_SEED", "0xff"),
            ("FILCH_SINGLE_THREAD", "false"),
            ("FILCH_THREAD_NAME", "ops"),
            ("FILCH_UNHANDLED_PANIC", "report"),
        ],
    );
    let expected = Config {
        io_workers: 2,
        compute_workers: 3,
        max_workers: 40,
        stack_size: Some(65_536),
        seed: Some(255),
        thread_name: "ops".to_owned(),
        unhandled_panic: UnhandledPanic::Report,
        ..Config::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn variable_of_a_role_wins_over_the_common_one() {
    let vars = [("FILCH_WORKERS", "4"), ("FILCH_IO_WORKERS", "1")];
    let config = filled(Config::default(), Chosen::default(), &vars);
    assert_eq!((config.io_workers, config.compute_workers), (1, 4));
}

#[test]
fn program_wins_over_the_environment() {
    let program =
        Config { io_workers: 5, stack_size: Some(1 << 20), seed: Some(9), ..Config::default() };
    let vars = [
        ("FILCH_WORKERS", "4"),
        ("FILCH_MAX_WORKERS", "40"),
        ("FILCH_STACK_SIZE", "65536"),
        ("FILCH_SEED", "1"),
        ("FILCH_THREAD_NAME", "ops"),
        ("FILCH_UNHANDLED_PANIC", "report"),
    ];
    let expected = Config { compute_workers: 4, ..program.clone() };
    assert_eq!(filled(program, Chosen::all(), &vars), expected);
}

#[test]
fn single_thread_and_counts_never_meet_in_one_config() {
    let one = [("FILCH_SINGLE_THREAD", "1")];
    assert!(filled(Config::default(), Chosen::default(), &one).single_thread);
    let several = Config { compute_workers: 4, ..Config::default() };
    assert!(!filled(several, Chosen::default(), &one).single_thread, "the program asked for 4");
    assert!(!filled(Config::default(), Chosen::all(), &one).single_thread, "the program said no");

    let alone = Config { single_thread: true, ..Config::default() };
    let config = filled(alone, Chosen::all(), &[("FILCH_WORKERS", "4")]);
    config.validate().expect("the counts stayed open");
}

#[track_caller]
fn refused(vars: &[(&str, &str)], expected: (&str, &str)) {
    match parse(vars) {
        Err(BuildError::Environment { variable, value, reason }) => {
            assert_eq!((variable, value.as_str()), expected);
            assert!(!reason.is_empty());
        }
        other => panic!("{vars:?} gave {other:?}"),
    }
}

#[test]
fn malformed_variable_is_an_error_that_names_it() {
    for case in [
        ("FILCH_WORKERS", "four"),
        ("FILCH_WORKERS", ""),
        ("FILCH_WORKERS", "-1"),
        ("FILCH_WORKERS", "40000"),
        ("FILCH_IO_WORKERS", "1.5"),
        ("FILCH_COMPUTE_WORKERS", "1 "),
        ("FILCH_MAX_WORKERS", "0"),
        ("FILCH_STACK_SIZE", "2M"),
        ("FILCH_STACK_SIZE", "10"),
        ("FILCH_SEED", "0xg"),
        ("FILCH_SINGLE_THREAD", "yes"),
        ("FILCH_THREAD_NAME", ""),
        ("FILCH_UNHANDLED_PANIC", "abort"),
    ] {
        refused(&[case], case);
    }
    let both = [("FILCH_SINGLE_THREAD", "1"), ("FILCH_WORKERS", "4")];
    refused(&both, ("FILCH_WORKERS", "4"));
}

#[test]
fn malformed_variable_is_an_error_even_when_the_program_has_chosen() {
    refused(&[("FILCH_IO_WORKERS", "2"), ("FILCH_WORKERS", "x")], ("FILCH_WORKERS", "x"));
}

#[cfg(unix)]
#[test]
fn variable_that_is_not_utf_8_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let lookup = |name: &str| (name == "FILCH_SEED").then(|| OsString::from_vec(vec![b'1', 0xff]));
    let error = Environment::parse(lookup).expect_err("not UTF-8").to_string();
    assert!(error.contains("FILCH_SEED=\"1\u{fffd}\""), "{error}");
}
