//! Why a run of a pipeline did not come to its end.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What a stage failed with.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Where in a pipeline something went wrong.
///
/// ```
/// use filch::Pipeline;
/// let mut pipeline = Pipeline::new(2)
///     .items(0..10)
///     .try_parallel(|x| if x == 7 { Err("seven") } else { Ok(()) })
///     .name("check")
///     .build();
/// let error = pipeline.run().unwrap_err();
/// let place = error.place().unwrap();
/// assert_eq!((place.stage, place.name(), place.token), (1, Some("check"), 7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The number of the stage; the source is 0.
    pub stage: usize,
    /// The number of the token.
    pub token: u64,
    pub(super) name: Option<Cow<'static, str>>,
}

impl Place {
    /// The name of the stage, if it was given one.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(1)
    ///     .items(0..1)
    ///     .serial(|_| panic!("boom"))
    ///     .name("bang")
    ///     .build();
    /// let error = pipeline.run().unwrap_err();
    /// assert_eq!(error.place().unwrap().name(), Some("bang"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {}", self.stage)?;
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        write!(f, ", token {}", self.token)
    }
}

/// What a panic carried; only its owner gets at it.
pub struct PanicPayload(pub(super) Box<dyn Any + Send>);

// SAFETY: a shared reference gives no access to the payload but to its type.
unsafe impl Sync for PanicPayload {}

impl PanicPayload {
    /// What was passed to `panic!`, to be resumed or looked at.
    ///
    /// ```
    /// use filch::pipeline::PipelineError;
    /// let mut pipeline = filch::Pipeline::new(1).items(0..1).for_each(|_| panic!("boom"));
    /// let Err(PipelineError::Panicked { payload, .. }) = pipeline.run() else { panic!() };
    /// assert_eq!(payload.into_inner().downcast_ref(), Some(&"boom"));
    /// ```
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.0
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicPayload").finish_non_exhaustive()
    }
}

/// Why a run did not come to its end. The pipeline can be run again.
///
/// ```
/// use filch::pipeline::PipelineError;
/// let mut pipeline = filch::Pipeline::new(2)
///     .items(["1", "2", "x"])
///     .try_serial(|text: &str| text.parse::<u32>())
///     .for_each(drop);
/// let error = pipeline.run().unwrap_err();
/// assert_eq!(error.to_string(), "stage 1, token 2: invalid digit found in string");
/// assert!(matches!(error, PipelineError::Failed { .. }));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PipelineError {
    /// A stage returned an error.
    Failed {
        /// Which stage, on which token.
        at: Place,
        /// What it returned.
        error: BoxError,
    },
    /// A stage panicked.
    Panicked {
        /// Which stage, on which token.
        at: Place,
        /// What it panicked with.
        payload: PanicPayload,
    },
    /// The source has ended while tokens waited for others that never came.
    Stuck {
        /// The tokens that waited.
        tokens: Vec<u64>,
    },
    /// The run, or the group it belongs to, was cancelled.
    Cancelled,
}

impl PipelineError {
    /// Which stage failed on which token.
    ///
    /// ```
    /// use filch::pipeline::PipelineError;
    /// assert_eq!(PipelineError::Cancelled.place(), None);
    /// ```
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Failed { at, .. } | Self::Panicked { at, .. } => Some(at),
            Self::Stuck { .. } | Self::Cancelled => None,
        }
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { at, error } => write!(f, "{at}: {error}"),
            Self::Panicked { at, payload } => {
                write!(f, "{at}: panicked: {}", crate::base::sim::text_of(&*payload.0))
            }
            Self::Stuck { tokens } => {
                write!(f, "the stream ended while tokens {tokens:?} waited for others")
            }
            Self::Cancelled => f.write_str("the run was cancelled"),
        }
    }
}

impl Error for PipelineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

/// What went wrong in a stage, before it is known where.
pub(super) enum Cause {
    Error(BoxError),
    Panic(Box<dyn Any + Send>),
    Stuck(Vec<u64>),
}
