//! The chapters in the order of the tour, each with the sentence that it proves.

use super::guide::Guide;
use super::{Chapter, Shown};
use super::{computing, graphs, io, posts, simulator, structure, tasks, workers};
use crate::bench::Machine;
use std::env;

pub const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "machine",
        sentence: "Every figure is measured here and now; comparisons are medians of short rounds, in turns.",
        show: machine,
    },
    Chapter {
        title: "tasks",
        sentence: "A task's handle can be awaited, waited for on any thread, cancelled, or dropped.",
        show: tasks::tasks,
    },
    Chapter {
        title: "jobs",
        sentence: "Closures run on compute workers and futures on I/O workers, so neither waits for the other.",
        show: |_| tasks::jobs(),
    },
    Chapter {
        title: "wait",
        sentence: "wait blocks any thread until several tasks have ended, and returns their values.",
        show: |_| tasks::wait(),
    },
    Chapter {
        title: "block_on",
        sentence: "block_on returns when all tasks that were started inside it have ended and are dropped.",
        show: |_| structure::block_on(),
    },
    Chapter {
        title: "group",
        sentence: "The first error in a group cancels its other tasks; the group ends when they are gone.",
        show: |_| structure::group(),
    },
    Chapter {
        title: "scope",
        sentence: "Tasks of a scope may borrow from the stack of the caller, which waits for the last of them.",
        show: |_| structure::scope(),
    },
    Chapter {
        title: "join",
        sentence: "join(a, b) runs two closures; an idle worker may steal one of them.",
        show: computing::join,
    },
    Chapter {
        title: "loops",
        sentence: "par_iter spreads a loop over all compute workers; methods are named as in rayon.",
        show: computing::loops,
    },
    Chapter {
        title: "sort",
        sentence: "par_sort is a stable sort on all compute workers.",
        show: computing::sort,
    },
    Chapter {
        title: "priorities",
        sentence: "High priority runs before normal, normal before low, and low does not starve.",
        show: |_| workers::priorities(),
    },
    Chapter {
        title: "stealing",
        sentence: "Idle workers steal tasks from a worker that has too many.",
        show: |_| workers::stealing(),
    },
    Chapter {
        title: "hostages",
        sentence: "When a task blocks its worker, ready tasks run on other workers or on a spare thread.",
        show: workers::hostages,
    },
    Chapter {
        title: "sockets",
        sentence: "A TCP service replies in time while a parallel loop keeps every core busy, in one runtime.",
        show: io::sockets,
    },
    Chapter {
        title: "files",
        sentence: "Reads of what is in the page cache complete at once, without a thread pool.",
        show: io::files,
    },
    Chapter {
        title: "timers",
        sentence: "A sleep ends some tens of microseconds late; a timeout that does not fire is cheap.",
        show: io::timers,
    },
    Chapter {
        title: "graph",
        sentence: "A graph is built once and run many times; async nodes hold no thread while they wait.",
        show: |_| graphs::graph(),
    },
    Chapter {
        title: "profile",
        sentence: "A profile tells when each node of a graph ran, and names the critical path.",
        show: |_| graphs::profile(),
    },
    Chapter {
        title: "pipeline",
        sentence: "Items pass through the stages of a pipeline in parallel, and leave it in order.",
        show: graphs::pipeline,
    },
    Chapter {
        title: "posts",
        sentence: "A post hands a closure to any worker, or to a certain one, now or later.",
        show: posts::posts,
    },
    Chapter {
        title: "hive",
        sentence: "A hive is a runtime that its caller runs, as an event loop does.",
        show: |_| posts::hive(),
    },
    Chapter {
        title: "simulator",
        sentence: "The simulator runs a program in an order that a seed decides, so the seed repeats a failure.",
        show: simulator::simulator,
    },
    Chapter {
        title: "shutdown",
        sentence: "Shutdown lets tasks finish or cancels them, and reports which did not end in time.",
        show: |_| structure::shutdown(),
    },
    Chapter {
        title: "counters",
        sentence: "Every worker counts what it does, and describe shows the state of a runtime.",
        show: |_| workers::counters(),
    },
];

fn machine(_: &Guide) -> Shown {
    let machine = Machine::describe();
    let io = filch::Handle::current().describe().io;
    let forced = env::var("FILCH_IO").map_or(String::new(), |value| format!(" (FILCH_IO={value})"));
    let mut shown = format!("{}\nI/O by {io}{forced}", machine.summary());
    if machine.debug_build {
        shown += "\ndebug build: use --release for figures that mean something";
    }
    if cfg!(not(feature = "peers")) {
        shown += "\nbuilt without the cargo feature `peers`: filch alone is measured";
    }
    shown
}
