//! The command line of filch: `tour` shows what it does, `bench` measures it beside its peers, `tune` finds
//! parameters that suit the machine.

mod bench;
mod style;
mod tour;
mod tune;

use clap::{Parser, Subcommand};
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
    Tour,
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

fn main() -> ExitCode {
    let outcome = match Cli::parse().command.unwrap_or(Command::Tour) {
        Command::Tour => tour::tour(),
        Command::Bench(args) => bench::bench(&args),
        Command::Tune(args) => tune::tune(&args),
        Command::Sample(args) => bench::sample(&args).map(|never| match never {}),
        Command::Load(args) => bench::load(&args.order),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("filch: {error}");
            ExitCode::FAILURE
        }
    }
}
