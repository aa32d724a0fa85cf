//! The chapters in the order of the tour, each with the sentence that it proves.

use super::guide::Guide;
use super::{Chapter, Shown};
use super::{computing, graphs, io, posts, simulator, structure, tasks, workers};
use crate::bench::Machine;
use std::env;

pub const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "machine",
        sentence: "All figures of this tour are measured here and now; those beside Tokio or rayon \
                   in turns with it.",
        show: machine,
    },
    Chapter {
        title: "tasks",
        sentence: "A task's handle can be awaited, waited for on any thread, cancelled, or dropped; \
                   then the task runs on.",
        show: tasks::tasks,
    },
    Chapter {
        title: "jobs",
        sentence: "spawn_fn runs a closure on a compute worker; async tasks have workers of their \
                   own and still start promptly.",
        show: |_| tasks::jobs(),
    },
    Chapter {
        title: "wait",
        sentence: "wait takes handles of tasks and of closures, blocks on any thread, and returns \
                   their values.",
        show: |_| tasks::wait(),
    },
    Chapter {
        title: "block_on",
        sentence: "block_on returns when every task that was started below it has ended and is \
                   dropped.",
        show: |_| structure::block_on(),
    },
    Chapter {
        title: "group",
        sentence: "In a group the first error cancels the other tasks, and the group waits until \
                   they are gone.",
        show: |_| structure::group(),
    },
    Chapter {
        title: "scope",
        sentence: "Tasks of a scope may borrow from the caller's stack, because the scope returns \
                   after the last of them.",
        show: |_| structure::scope(),
    },
    Chapter {
        title: "join",
        sentence: "join runs two closures, and an idle worker may steal one of them.",
        show: computing::join,
    },
    Chapter {
        title: "loops",
        sentence: "par_iter spreads a loop over the compute workers; its methods have rayon's names.",
        show: computing::loops,
    },
    Chapter {
        title: "sort",
        sentence: "par_sort is a stable sort on all compute workers.",
        show: computing::sort,
    },
    Chapter {
        title: "priorities",
        sentence: "High-priority tasks run before normal ones and those before low ones, yet low \
                   ones do not starve.",
        show: |_| workers::priorities(),
    },
    Chapter {
        title: "stealing",
        sentence: "Idle workers steal tasks from a worker that has too many.",
        show: |_| workers::stealing(),
    },
    Chapter {
        title: "hostages",
        sentence: "A task that blocks its worker delays other tasks by milliseconds: another worker \
                   or a spare thread runs them.",
        show: workers::hostages,
    },
    Chapter {
        title: "sockets",
        sentence: "A TCP service replies in time while a parallel loop keeps every core busy, all in \
                   one runtime.",
        show: io::sockets,
    },
    Chapter {
        title: "files",
        sentence: "A read of what is in the page cache completes at once, without a thread pool.",
        show: io::files,
    },
    Chapter {
        title: "timers",
        sentence: "A sleep ends microseconds after its deadline, and a timeout that does not fire is \
                   cheap.",
        show: io::timers,
    },
    Chapter {
        title: "graph",
        sentence: "A graph is built once and run many times; values flow along its edges, and async \
                   nodes hold no thread.",
        show: |_| graphs::graph(),
    },
    Chapter {
        title: "profile",
        sentence: "A profile of a graph's run shows when each node ran, and which chain of nodes \
                   took longest.",
        show: |_| graphs::profile(),
    },
    Chapter {
        title: "pipeline",
        sentence: "A pipeline takes items through serial and parallel stages in order, a limited \
                   number at a time.",
        show: graphs::pipeline,
    },
    Chapter {
        title: "posts",
        sentence: "A post is a closure without a handle, for any worker or for one; delayed posts \
                   run at their time.",
        show: posts::posts,
    },
    Chapter {
        title: "hive",
        sentence: "A hive is a runtime that runs on the thread that calls it, as an event loop does.",
        show: |_| posts::hive(),
    },
    Chapter {
        title: "simulator",
        sentence: "The simulator runs a program in virtual time, in an order that a seed decides; \
                   the seed repeats a failure.",
        show: simulator::simulator,
    },
    Chapter {
        title: "shutdown",
        sentence: "Shutdown lets tasks finish, or cancels them; after a deadline it reports which \
                   are left.",
        show: |_| structure::shutdown(),
    },
    Chapter {
        title: "counters",
        sentence: "Every worker counts what it does at all times, and describe tells the state of a \
                   runtime.",
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
