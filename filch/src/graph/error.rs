//! What can go wrong with a graph and with its runs.

use std::any::Any;
use std::fmt;

use super::node::NodeId;

/// Nodes that come after each other in a circle, so that a run could not begin or not end.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || ());
/// let b = g.node("b", || ());
/// g.precede(a, b);
/// g.precede(b, a);
/// assert_eq!(g.prepare().unwrap_err().to_string(), "the graph has a cycle: a -> b -> a");
/// ```
///
/// A cycle may go through a condition, but not every node may be on or after one: a run begins at nodes that come after no other.
///
/// ```
/// let mut g = filch::Graph::new();
/// let body = g.node("body", || ());
/// let again = g.condition("again", || 0);
/// g.precede(body, again);
/// g.precede(again, body);
/// let error = g.prepare().unwrap_err();
/// assert_eq!(error.to_string(), "the graph has no node to begin with: body -> again -> body");
/// let start = g.node("start", || ());
/// g.precede(start, body);
/// assert!(g.prepare().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    names: Vec<String>,
    kind: CycleKind,
}

/// What a cycle prevents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CycleKind {
    /// All of its edges are strong: its nodes wait for each other.
    Strong,
    /// No node of the graph is without a predecessor.
    NoSource,
}

impl Cycle {
    pub(super) fn new(names: Vec<String>, kind: CycleKind) -> Self {
        Self { names, kind }
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
        let what = match self.kind {
            CycleKind::Strong => "a cycle",
            CycleKind::NoSource => "no node to begin with",
        };
        write!(f, "the graph has {what}: {}", self.names.join(" -> "))
    }
}

impl std::error::Error for Cycle {}

/// What a node failed with.
///
/// ```
/// use filch::graph::Cause;
/// let mut g = filch::Graph::new();
/// g.subflow("outer", |sub| _ = sub.try_node("inner", || Err::<(), _>("no")));
/// let error = g.try_run().unwrap_err();
/// let Cause::Inner(inner) = error.failures()[0].cause() else { panic!("it failed inside") };
/// assert!(matches!(inner.failures()[0].cause(), Cause::Error(error) if error.to_string() == "no"));
/// ```
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
///
/// ```
/// let mut g = filch::Graph::new();
/// let bad = g.node("bad", || panic!("no"));
/// let error = g.try_run().unwrap_err();
/// let failure = &error.failures()[0];
/// assert_eq!((failure.node(), failure.name()), (bad.id(), "bad"));
/// assert_eq!(failure.to_string(), "node `bad` panicked: no");
/// ```
#[derive(Debug)]
pub struct Failure {
    pub(super) node: NodeId,
    pub(super) name: String,
    pub(super) cause: Cause,
}

impl Failure {
    /// Which node it was.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let bad = g.try_node("bad", || Err::<(), _>("no"));
    /// assert_eq!(g.try_run().unwrap_err().failures()[0].node(), bad.id());
    /// ```
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Its name, or its number if it has none.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.try_node("", || Err::<(), _>("no"));
    /// assert_eq!(g.try_run().unwrap_err().failures()[0].name(), "#0");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What happened.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.try_node("bad", || Err::<(), _>("no"));
    /// assert_eq!(g.try_run().unwrap_err().failures()[0].cause().to_string(), "failed: no");
    /// ```
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
///
/// ```
/// use filch::graph::{OnFailure, Stopped};
/// let mut g = filch::Graph::new();
/// g.node("bad", || panic!("no"));
/// let error = g.runner().on_failure(OnFailure::Cancel).try_run().unwrap_err();
/// assert_eq!(error.stopped(), Some(Stopped::Cancelled));
/// ```
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
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let nodes = ["a", "b"].map(|name| g.try_node(name, move || Err::<(), _>(name)).id());
    /// let late = g.node("late", || ());
    /// g.succeed(late, nodes);
    /// let error = g.try_run().unwrap_err();
    /// assert_eq!((error.failures().len(), error.skipped()), (2, &[late.id()][..]));
    /// ```
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The nodes that did not run, or not to their end, because one before them failed or the run was stopped.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || panic!("no"));
    /// let b = g.node("b", || ());
    /// g.precede(a, b);
    /// assert_eq!(g.try_run().unwrap_err().skipped(), [b.id()]);
    /// ```
    pub fn skipped(&self) -> &[NodeId] {
        &self.skipped
    }

    /// Why the run was stopped, if it was.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("a", || panic!("no"));
    /// assert_eq!(g.try_run().unwrap_err().stopped(), None);
    /// ```
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The failures, to look into the panics and errors.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("a", || panic!("no"));
    /// let failures = g.try_run().unwrap_err().into_failures();
    /// assert_eq!(failures.len(), 1);
    /// ```
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
