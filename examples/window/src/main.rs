//! A window that stays smooth while all cores compute: `cargo run --release -p filch-window`.
//!
//! The window system owns the main thread, as window systems do. Sixty times a second its loop begins a frame
//! and lends the thread to a hive (`Pump::run`); between frames the hive asks for the thread through the
//! loop's own proxy. Tasks that are pinned to this thread send tiles of a picture to the compute crew with
//! `filch::cpu`, wait for the pixels, and paint them: no lock, no channel, because everything that touches the
//! picture runs on the thread that shows it. There are more tiles under way than cores, so none is idle.
//!
//! Reading order: `app`, `paint`, `picture`, `frames`.

mod app;
mod frames;
mod paint;
mod picture;

use std::error::Error;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use app::App;
use clap::Parser;
use filch::{Builder, Shutdown};
use frames::Pace;
use winit::event_loop::EventLoop;

/// A picture that is computed on all cores, in a window with 60 frames a second.
#[derive(Parser, Debug)]
struct Args {
    /// Ends after so many seconds; else when the window is closed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// Ends after so many frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    frames: Option<u32>,

    /// Threads that compute [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    compute: Option<u16>,
}

impl Args {
    /// After how many frames the program ends by itself.
    fn last_frame(&self) -> Option<usize> {
        let by_time = self.seconds.map(|seconds| seconds as usize * frames::HZ as usize);
        let by_count = self.frames.map(|frames| frames as usize);
        by_time.into_iter().chain(by_count).min()
    }
}

/// The program's request for a turn of the pump.
#[derive(Debug)]
struct Wake;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("filch-window: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let compute = args.compute.map_or(cores, usize::from);

    let event_loop = EventLoop::<Wake>::with_user_event().build()?;
    let hive = Builder::new().io_workers(1).compute_workers(compute).hive()?;
    let window_thread = hive.workers()[0].id;
    let proxy = event_loop.create_proxy();
    // A loop that has ended needs no wake.
    let pump = hive.pump(move || drop(proxy.send_event(Wake)))?;
    for _ in 0..2 * compute {
        drop(pump.handle().spawn_to(window_thread, paint::paint)?);
    }

    let begin = Instant::now();
    let mut app = App::new(pump, Pace::new(begin), args.last_frame());
    event_loop.run_app(&mut app)?;
    let (pump, pace) = app.end()?;
    let elapsed = begin.elapsed();
    pump.finish(Shutdown::Abort);
    print!("{pace}");
    println!("{} on {cores} cores, {compute} threads", paint::describe(elapsed));
    Ok(())
}

/// In ms.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
