//! What is tuned: for each parameter the values to try, and the scenarios that can feel it.
//!
//! P1. Every parameter of `filch::Config` is a knob here or is kept, with a reason: a test compares the
//!     two tables with what a `Config` prints.

use crate::bench::scenario_names;

/// A parameter with the values to try beside its default, as a configuration file writes them.
pub struct Knob {
    pub field: &'static str,
    pub values: &'static [&'static str],
    /// Where a change may show; names of `filch bench`.
    pub scenarios: &'static [&'static str],
}

const TASKS: &[&str] = &["spawn_many_local", "spawn_many_remote_2", "chained_spawn", "yield_many"];
const HANDING: &[&str] = &["ping_pong", "ping_pong_oneshot", "channel_4x4", "yield_many"];
const SEARCH: &[&str] = &["skynet_async", "spawn_many_remote_2", "wake_latency", "uts"];
const IO: &[&str] = &["echo_64", "echo_pipelined", "churn", "file_random"];
const TIMERS: &[&str] = &["timeout_cancel", "live_sleeps", "timer_lateness_1ms"];
const JOBS: &[&str] = &["uts", "job_children_4k", "parallel_for_4096"];
const BLOCKING: &[&str] = &["file_sequential", "hostage_io"];
const PLACES: &[&str] = &["skynet_async", "channel_4x4", "echo_64", "uts"];

pub const KNOBS: &[Knob] = &[
    Knob { field: "ring_capacity", values: &["64", "128", "512", "1024"], scenarios: TASKS },
    Knob { field: "global_interval", values: &["15", "31", "127", "255"], scenarios: TASKS },
    Knob { field: "global_batch", values: &["4", "8", "32", "64"], scenarios: SEARCH },
    Knob { field: "io_interval", values: &["15", "31", "127", "255"], scenarios: IO },
    Knob { field: "local_budget", values: &["15", "31", "127", "255"], scenarios: HANDING },
    Knob { field: "private_budget", values: &["8", "16", "64", "128"], scenarios: HANDING },
    Knob { field: "timer_budget", values: &["16", "32", "128", "256"], scenarios: TIMERS },
    Knob { field: "explore_tries", values: &["4", "8", "32", "64"], scenarios: SEARCH },
    Knob { field: "explore_yields", values: &["0", "50", "300", "600"], scenarios: SEARCH },
    Knob { field: "searcher_limit", values: &["1", "2"], scenarios: SEARCH },
    Knob { field: "slot_streak", values: &["1", "2", "6", "12"], scenarios: HANDING },
    Knob { field: "io_spares", values: &["4", "64"], scenarios: BLOCKING },
    Knob { field: "compute_spares", values: &["1", "8"], scenarios: JOBS },
    Knob { field: "guest_threads", values: &["4", "64"], scenarios: JOBS },
    Knob { field: "spare_keep_alive", values: &["100ms", "10s"], scenarios: BLOCKING },
    Knob { field: "blocking_threads", values: &["4", "16", "256"], scenarios: BLOCKING },
    Knob { field: "blocking_keep_alive", values: &["1s", "60s"], scenarios: BLOCKING },
    Knob { field: "sentry_period", values: &["1ms", "5ms", "10ms"], scenarios: IO },
    Knob { field: "outbound_batch", values: &["16", "64", "192"], scenarios: TASKS },
    Knob { field: "injector_shards", values: &["1", "2", "8"], scenarios: SEARCH },
    Knob { field: "poll_budget", values: &["32", "64", "256", "512"], scenarios: HANDING },
    Knob { field: "io_level", values: &["background"], scenarios: IO },
    Knob { field: "compute_level", values: &["background"], scenarios: JOBS },
    Knob { field: "lane_slices", values: &["false"], scenarios: PLACES },
    Knob { field: "io_affinity", values: &["pin-each"], scenarios: PLACES },
    Knob { field: "compute_affinity", values: &["pin-each"], scenarios: PLACES },
    Knob { field: "io_backend", values: &["uring-plain", "epoll"], scenarios: IO },
];

/// Parameters that no measurement decides, and why.
pub const KEPT: &[(&str, &str)] = &[
    ("io_workers", "the machine decides; scenarios set it"),
    ("compute_workers", "the machine decides; scenarios set it"),
    ("max_workers", "a limit for large machines"),
    ("adoptable_threads", "the program knows how many it adopts"),
    ("attachable_workers", "the program knows how many it attaches"),
    ("elastic", "the program knows whether its load changes"),
    ("seed", "chance, not speed"),
    ("unhandled_panic", "where panics go, not speed"),
    ("stack_size", "the program knows how deep it calls"),
    ("thread_name", "a name"),
    ("physical_cores", "acts through the worker counts"),
    ("caller_works", "acts through the worker counts"),
    ("single_thread", "another kind of runtime"),
];

/// The knob of this name.
pub fn knob(field: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.field == field)
}

/// Every scenario that some knob names, once. Without the cargo feature `peers`, one that needs a peer's channel is missing.
pub fn scenarios() -> Vec<&'static str> {
    let known = scenario_names();
    let named = KNOBS.iter().flat_map(|knob| knob.scenarios).copied();
    let mut all: Vec<_> = named.filter(|name| known.contains(name)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::{KEPT, KNOBS};
    use filch::Config;
    use std::collections::BTreeSet;

    #[test]
    fn every_parameter_is_tuned_or_kept_for_a_reason() {
        let printed = Config::default().to_string();
        let all: BTreeSet<_> =
            printed.lines().map(|line| line.split_once(" = ").expect("a parameter").0).collect();
        let kept = KEPT.iter().map(|&(field, _)| field);
        let ours: Vec<_> = KNOBS.iter().map(|knob| knob.field).chain(kept).collect();
        assert_eq!(ours.len(), all.len(), "none is there twice");
        assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn every_value_makes_sense_and_is_not_the_default() {
        for knob in KNOBS {
            for value in knob.values {
                let line = format!("{} = {value}", knob.field);
                let config: Config = line.parse().expect("a configuration file");
                config.validate().expect("a value that makes sense");
                assert_ne!(config, Config::default(), "{line}");
            }
        }
    }

    #[test]
    #[cfg(feature = "peers")]
    fn every_scenario_is_one_of_the_benchmark() {
        let known = crate::bench::scenario_names();
        assert!(KNOBS.iter().flat_map(|knob| knob.scenarios).all(|name| known.contains(name)));
    }
}
