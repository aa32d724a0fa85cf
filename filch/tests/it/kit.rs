//! What the tests of threads share: gates, bounded waiting, thread names, child processes.
//!
//! K1. Nothing here orders events by time: a gate opens when the test says so, and `eventually`
//!     only bounds how long a failure takes to show.

use std::fs;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long something may take that would take for ever if it were broken.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A door that blocks threads, not tasks, until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

/// Opens its gate when dropped, so that a failing test does not hang in its runtime's drop.
pub struct Opener(Gate);

impl Gate {
    /// A closed gate and what opens it.
    pub fn new() -> (Self, Opener) {
        let gate = Self::default();
        (gate.clone(), Opener(gate))
    }

    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    /// Blocks the thread until the gate is open.
    pub fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Returns once `condition` holds; panics if it never does.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The next message; panics if none ever comes.
#[track_caller]
pub fn receive<T>(from: &Receiver<T>, what: &str) -> T {
    match from.recv_timeout(PATIENCE) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("never came: {what}"),
        Err(RecvTimeoutError::Disconnected) => panic!("nobody is left to send: {what}"),
    }
}

/// The names of this process's threads that begin with `prefix`.
pub fn threads_named(prefix: &str) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux lists its threads");
    // A thread may end between the listing and the reading.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let mut names: Vec<_> = names.map(|name| name.trim_end().to_owned()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}

/// Waits until no thread of that name is left: a joined thread stays listed for a moment.
#[track_caller]
pub fn assert_no_thread_named(prefix: &str) {
    eventually(&format!("no thread {prefix}…"), || threads_named(prefix).is_empty());
}

/// Set in a process that [`in_child`] started.
const CHILD: &str = "FILCH_TEST_CHILD";

/// Runs `body` in a fresh process: the test binary again, with this test alone.
///
/// `test` is the caller's full name in this binary.
#[track_caller]
pub fn in_child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        return body();
    }
    let output = start_child(test, variables);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} in a child: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
}

fn start_child(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().expect("a test knows its binary"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .envs(variables.iter().copied())
        .output()
        .expect("the test binary starts")
}
