//! What can go wrong with a graph and with its runs.

use std::any::Any;
use std::fmt;

use super::node::NodeId;

/// Nodes that wait for each other in a circle; no run can begin.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || ());
/// let b = g.node("b", || ());
/// g.precede(a, b);
/// g.precede(b, a);
/// assert_eq!(g.prepare().unwrap_err().to_string(), "the graph has a cycle: a -> b -> a");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    names: Vec<String>,
}

impl Cycle {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    /// The names of the nodes along the cycle; the first one comes again at the end.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || ());
    /// g.precede(a, a);
    /// assert_eq!(g.prepare().unwrap_err().names(), ["a", "a"]);
    /// ```
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the graph has a cycle: {}", self.names.join(" -> "))
    }
}

impl std::error::Error for Cycle {}

/// What a node failed with.
pub enum Cause {
    /// It returned an error.
    Error(Box<dyn std::error::Error + Send + Sync>),
    /// It panicked.
    Panic(Box<dyn Any + Send>),
    /// It is a graph itself, whose run failed.
    Inner(Box<RunError>),
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::Panic(payload) => f.debug_tuple("Panic").field(&text(&**payload)).finish(),
            Self::Inner(error) => f.debug_tuple("Inner").field(error).finish(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "failed: {error}"),
            Self::Panic(payload) => write!(f, "panicked: {}", text(&**payload)),
            Self::Inner(error) => write!(f, "has failed inside: {error}"),
        }
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        return text;
    }
    payload.downcast_ref::<String>().map_or("(no message)", |text| text)
}

/// A node that failed in a run.
#[derive(Debug)]
pub struct Failure {
    pub(super) node: NodeId,
    pub(super) name: String,
    pub(super) cause: Cause,
}

impl Failure {
    /// Which node it was.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What happened.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node `{}` {}", self.name, self.cause)
    }
}

/// Why a run ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Somebody cancelled it, or the group that it ran in.
    Cancelled,
    /// Its deadline passed.
    Deadline,
}

/// A run in which not every node did its part.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.try_node("parse", || "x".parse::<u32>());
/// let b = g.node("use", || ());
/// g.precede(a, b);
/// let error = g.try_run().unwrap_err();
/// assert_eq!(error.failures()[0].name(), "parse");
/// assert_eq!(error.skipped(), [b.id()]);
/// ```
#[derive(Debug)]
pub struct RunError {
    pub(super) failures: Vec<Failure>,
    pub(super) skipped: Vec<NodeId>,
    pub(super) stopped: Option<Stopped>,
}

impl RunError {
    /// The nodes that failed, in the order in which they did.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The nodes that did not run because one before them failed or the run was stopped.
    pub fn skipped(&self) -> &[NodeId] {
        &self.skipped
    }

    /// Why the run was stopped, if it was.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The failures, to look into the panics and errors.
    pub fn into_failures(self) -> Vec<Failure> {
        self.failures
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.failures.first(), self.stopped) {
            (Some(first), _) => write!(f, "{first}")?,
            (None, Some(Stopped::Deadline)) => {
                f.write_str("the run was stopped by its deadline")?
            }
            (None, _) => f.write_str("the run was cancelled")?,
        }
        if self.failures.len() > 1 {
            write!(f, " (and {} more)", self.failures.len() - 1)?;
        }
        if !self.skipped.is_empty() {
            write!(f, "; {} skipped", self.skipped.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for RunError {}
