//! What stands between a source and a consumer.
//!
//! Two families. Stages (par/adapt/stage.rs) look at items one by one and work on any iterator;
//! they wrap the consumer. The others depend on positions and wrap the producer, so they need an
//! iterator of known length: `zip`, `enumerate`, `rev`, `skip`, `take`, `step_by`, `chunks`,
//! `interleave`. `map` and its kin do both.

mod chain;
mod chunks;
mod each;
mod flat;
mod fold;
mod interleave;
mod order;
mod range;
mod sift;
mod stage;
mod tuned;
mod with;
mod zip;

pub use chain::{Chain, ChainIter, ChainProducer};
pub use chunks::{ChunkIter, ChunkProducer, Chunks};
pub use each::{
    Call, Calls, Changes, Cloned, Clones, Copied, Each, EachIter, EachProducer, Inspect, Looks,
    Map, Update,
};
pub use flat::{Flat, FlatMap, Flatten, Same, Unfold};
pub use fold::{Fold, FoldWith, Folds, Step, TryFold, TryFoldWith, Whole};
pub use interleave::{Interleave, InterleaveIter, InterleaveProducer};
pub use order::{Enumerate, EnumerateIter, EnumerateProducer, Rev, RevProducer};
pub use range::{Skip, StepBy, StepByProducer, Take};
pub use sift::{Filter, FilterMap, FlatMapIter, FlattenIter, WhileSome};
pub use tuned::{Max, MaxLen, Min, MinLen, PartitionBy, Tuned, TunedProducer, Wish};
pub use with::{Cloning, Maker, Making, MapInit, MapWith, Seed, Sow, With, WithIter, WithProducer};
pub use zip::{Zip, ZipProducer};
