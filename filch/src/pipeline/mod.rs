//! Pipelines: tokens go through stages one after the other, and many tokens are on their way at once.
//!
//! A stage takes what the one before it gives, by value; the compiler checks that the types fit. A *serial*
//! stage has one token at a time, in order, so its closure may keep state; a *parallel* one has as many as
//! there are. At most as many tokens are in flight as the pipeline has *lines*: a source that is faster than
//! what comes after it waits.
//!
//! ```
//! use filch::Pipeline;
//!
//! let text = "the cat and the dog";
//! let mut longest = "";
//! Pipeline::new(8)
//!     .items(text.split(' '))                       // serial: one token for each word
//!     .parallel(|word| (word, word.len()))          // several words at once
//!     .for_each(|(word, length)| {                  // serial: in order again
//!         if length > longest.len() {
//!             longest = word;
//!         }
//!     })
//!     .run()?;
//! assert_eq!(longest, "the");
//! # Ok::<(), filch::pipeline::PipelineError>(())
//! ```
//!
//! A run blocks and may borrow, and its thread takes part; [`Pipeline::run_async`] is for pipelines that
//! own what they use. Both belong to the group of their caller: when they return, no stage runs any more. A
//! pipeline may be run again, also after an error.
//!
//! | to | use |
//! | --- | --- |
//! | take tokens from a closure, an iterator, a stream | [`Start::source`], [`Start::items`], [`Start::stream`] |
//! | end the stream, let a token wait for another | [`Next::Stop`], [`Token::defer`] |
//! | add a stage | [`Builder::serial`], [`Builder::parallel`], `try_` for those that fail, `_async` for futures |
//! | use or collect what comes out | [`Builder::for_each`], [`Builder::collect`] |
//! | decide on stages while the program runs | [`Builder::stages`], [`Scalable`] |
//! | end a run from elsewhere | [`Pipeline::canceller`] |

// What the model checker sees.
mod flow;
mod ring;

#[cfg(not(loom))]
mod background;
#[cfg(not(loom))]
mod build;
#[cfg(not(loom))]
mod cancel;
#[cfg(not(loom))]
mod collect;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod in_place;
#[cfg(not(loom))]
mod pipes;
#[cfg(not(loom))]
mod source;
#[cfg(not(loom))]
mod stage;

#[cfg(not(loom))]
pub use build::{Builder, Start};
#[cfg(not(loom))]
pub use cancel::Canceller;
#[cfg(not(loom))]
pub use collect::Collect;
#[cfg(not(loom))]
pub use error::{PanicPayload, PipelineError, Place};
#[cfg(not(loom))]
pub use flow::Order;
#[cfg(not(loom))]
pub use in_place::Stage;
#[cfg(not(loom))]
pub use pipes::{Pipeline, Scalable};
#[cfg(not(loom))]
pub use source::{Next, Token};
