//! The command line of filch: `tour` shows what it does, `bench` measures it beside its peers, `tune` finds
//! parameters that suit the machine.

mod bench;
mod style;
mod tour;
mod tune;

use clap::{Parser, Subcommand};
use std::io;
use std::process::ExitCode;

/// One work-stealing runtime for async tasks and CPU jobs, with structure.
#[derive(Parser, Debug)]
#[command(name = "filch", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Walk through what filch does, in under a minute (the default)
    Tour(tour::TourArgs),
    /// Compare filch with its peers
    Bench(bench::BenchArgs),
    /// Find parameters that suit this machine, and write them to a file
    Tune(tune::TuneArgs),
    /// Take one sample and write it to standard output; `bench` calls this
    #[command(hide = true)]
    Sample(bench::SampleArgs),
    /// Be a client of a server under measurement; `sample` calls this
    #[command(hide = true)]
    Load(bench::LoadArgs),
}

impl Default for Command {
    fn default() -> Self {
        Self::Tour(tour::TourArgs::default())
    }
}

/// Whether a runtime can be made of what the environment and its file say. Asked before anything is
/// measured, written or shown.
fn check_configuration() -> io::Result<()> {
    filch::Builder::new().resolve()?;
    // Whether the system has the back-end shows only in a runtime.
    drop(filch::Builder::new().workers(1).build()?);
    Ok(())
}

/// What is wrong: with the configuration, as with an argument, or with something else.
fn exit_code(error: &io::Error) -> ExitCode {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        None | Some(filch::BuildError::Thread { .. }) => ExitCode::FAILURE,
        Some(_) => ExitCode::from(2),
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command.unwrap_or_default() {
        Command::Tour(args) => tour::tour(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Tune(args) => tune::tune(&args),
        Command::Sample(args) => bench::sample(&args).map(|never| match never {}),
        Command::Load(args) => bench::load(&args.order),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("filch: {}", error.to_string().replace('\n', " "));
            exit_code(&error)
        }
    }
}
