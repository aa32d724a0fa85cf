//! The attributes `#[filch::main]` and `#[filch::test]`, and macros over several futures.
//!
//! Both attributes turn an `async fn` without arguments into a plain function that runs it to the end, and
//! every task it started with it; a simulated test may be a plain `fn` as well. Use them through the `filch` crate, which re-exports them.
//!
//! M1. The written function survives whole, as an item inside the expansion: its return type
//!     stays a type, so `?` infers as it does in any `async fn`.
//! M2. Every other attribute moves to the outer function, in order.
//! M3. An error points at the token that caused it, and the expansion still defines the function,
//!     so the compiler adds no second error about a missing one.
//!
//! Not here: what the options mean (`filch::Builder`), and the simulator (`filch::testkit::Sim`).

use proc_macro::TokenStream;

mod expand;
mod options;
mod select;

/// Runs an `async fn` as the program.
///
/// Without options it runs on the default runtime, as `filch::block_on` does. With options it
/// builds a runtime for this function, and shuts it down when the function has returned.
///
/// | option | meaning |
/// | --- | --- |
/// | `workers = N` | N I/O workers and N compute workers |
/// | `io_workers = N` | N I/O workers; overrides `workers` |
/// | `compute_workers = N` | N compute workers; overrides `workers` |
/// | `single_thread` | one worker has both roles; excludes the others |
///
/// # Errors
///
/// Does not compile unless the function is `async`, takes no arguments and has no generics.
///
/// # Panics
///
/// The function panics when the runtime cannot start, and when the future panics.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(expand::Kind::Main, options.into(), item.into()).into()
}

/// Runs an `async fn` as a test, on a runtime of its own.
///
/// Tests share nothing: each builds a runtime, with two I/O workers and two compute workers
/// unless the options say otherwise, and shuts it down at its end. The options are those of
/// [`macro@main`]. Other attributes, such as `#[should_panic]` and `#[ignore]`, and a `Result`
/// as return type mean what they mean for `#[test]`.
///
/// Two more options turn it into a simulated test: the function, `async` or not, runs once for each
/// seed on a simulated machine, where the seed decides the order of events
/// (`filch::testkit::Sim`). A failure names its seed, and `FILCH_SIM_SEED` replays that one alone.
///
/// | option | meaning |
/// | --- | --- |
/// | `sim` | simulate; with 2 I/O workers and 2 compute workers unless the options say otherwise |
/// | `seeds = N` | for the seeds 0 to N − 1; 100 unless given |
///
/// # Errors
///
/// Does not compile unless the function is `async` or simulated, takes no arguments, has no
/// generics and carries no other `#[test]`.
///
/// # Panics
///
/// The test fails when the runtime cannot start, when the future panics, and when a simulated run
/// fails.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(expand::Kind::Test, options.into(), item.into()).into()
}

/// Awaits several futures at once, and runs the code of the first that is ready.
///
/// A branch is `pattern = future, if condition => expression`. If the condition is false, the future is not
/// even made. If the value does not match the pattern, the branch is disabled and the others go on. If all are
/// disabled, `else` is evaluated. All futures are dropped before the expression is evaluated; it is part of
/// the surrounding function, so `?`, `.await`, `break` and `return` work.
///
/// Which branch is polled first is random, so none of several that are always ready starves. With `biased;`
/// in front of the branches they are polled in the order in which they are written.
///
/// A temporary that the expression of a future borrows at its outermost, as in `&mut future()`, lives until the
/// handler runs. An `else` alone is evaluated without a wait.
///
/// Each `select!` counts once against the budget of the task, also if its futures do not: so a loop over futures that
/// are always ready lets others run, and a `timeout` around it elapses.
///
/// # Panics
///
/// If all branches are disabled and there is no `else`.
///
/// # Cancel safety
///
/// The futures that do not win are dropped: use those whose methods say that nothing is lost then. A future
/// that must go on is pinned outside and named as `&mut future`.
#[proc_macro]
pub fn select(input: TokenStream) -> TokenStream {
    select::select(input.into()).into()
}

/// Awaits several futures of one type of value at once: the value of the first that is ready.
///
/// Fair unless `biased;` comes first. The others are dropped; for cancel safety and the budget see [`macro@select`].
#[proc_macro]
pub fn race(input: TokenStream) -> TokenStream {
    select::race(input.into()).into()
}

/// Awaits all futures, in one task, and gives a tuple of their values.
///
/// They take turns on one thread; to run them at the same time, spawn them. Who is polled first changes from poll
/// to poll; with `biased;` in front they are polled in the order in which they are written. Of nothing, it is `()`.
///
/// It counts against the budget as [`macro@select`] does.
#[proc_macro]
pub fn join(input: TokenStream) -> TokenStream {
    select::join(select::Join::All, input.into()).into()
}

/// Awaits all futures, in one task, and gives a tuple of their values; or the first error, dropping the rest.
///
/// `biased;` and the budget are as in [`macro@join`], cancel safety as in [`macro@select`]. Of nothing, it is `Ok(())`.
#[proc_macro]
pub fn try_join(input: TokenStream) -> TokenStream {
    select::join(select::Join::Try, input.into()).into()
}
