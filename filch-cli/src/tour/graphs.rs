//! Chapters on task graphs, their profiles, and pipelines.

use super::guide::{Bound, Comparison, Guide, Says};
use super::workers::spin_for;
use super::{Shown, seconds, span};
use filch::time::sleep;
use filch::{Graph, Pipeline};
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long an async node waits.
const FETCH: Duration = Duration::from_millis(20);

/// Pages are fetched by async nodes, their words are counted by closures, and the counts flow together.
pub fn graph() -> Shown {
    const RUNS: usize = 3;
    let mut g = Graph::new();
    let fetched = ["the quick fox", "jumps over", "the lazy dog"].map(|page| {
        g.async_node("fetch", move || async move {
            sleep(FETCH).await;
            page.to_owned()
        })
    });
    let counts =
        fetched.map(|page| g.node("count", |text: &String| text.split(' ').count()).after(&page));
    let sum = g.node("sum", |a: &usize, b: &usize, c: &usize| a + b + c);
    let sum = sum.after((&counts[0], &counts[1], &counts[2]));
    let run = |_| {
        let start = Instant::now();
        assert_eq!(g.run().take(sum), 8);
        span(start.elapsed())
    };
    let times: Vec<_> = (0..RUNS).map(run).collect();
    format!(
        "{RUNS} runs of 7 nodes, 3 of which wait for {} side by side, took {}",
        span(FETCH),
        times.join(", ")
    )
}

/// A graph whose longest chain is known, unless something else keeps the cores busy.
pub fn profile() -> Shown {
    let ms = Duration::from_millis;
    let mut g = Graph::new();
    let load = g.node("load", move || spin_for(ms(1)));
    let settings = g.async_node("settings", move || sleep(ms(3)));
    let parts = [1, 2, 3, 6].map(|n| g.node(format!("part {n}"), move || spin_for(ms(n))));
    let merge = g.node("merge", move || spin_for(ms(1)));
    g.precede(load, parts);
    g.succeed(merge, parts);
    g.precede(settings, merge);

    let (run, profile) = g.runner().profile();
    run.expect("no node fails");
    assert_eq!(profile.spans().len(), 7, "every node ran once");
    let saved = match save(&profile.to_trace()) {
        Ok(path) => format!("trace in {}; open it in https://ui.perfetto.dev", path.display()),
        Err(error) => format!("no trace in {}: {error}", std::env::temp_dir().display()),
    };
    format!(
        "critical path: {}, {} of {}\n{saved}",
        profile.critical_names().join(" → "),
        span(profile.critical_time()),
        span(profile.elapsed())
    )
}

/// Writes a trace to a file that did not exist.
fn save(trace: &str) -> Result<PathBuf> {
    const NAMES: u32 = 100;
    for number in 0..NAMES {
        let name = format!("filch-tour-{}-{number}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened?.write_all(trace.as_bytes()).map(|()| path),
        }
    }
    Err(Error::from(ErrorKind::AlreadyExists))
}

/// Requests that wait, and stages that compute.
pub fn pipeline(guide: &Guide) -> Shown {
    const REQUESTS: u64 = 300;
    let request = async |number: u64| {
        sleep(Duration::from_millis(5 + number % 7)).await;
        number * number
    };
    let start = Instant::now();
    let mut requests = Pipeline::new(100).items(0..REQUESTS).parallel_async(request).collect();
    let answers = requests.run().expect("no request fails");
    let time = span(start.elapsed());
    assert!(answers.into_iter().eq((0..REQUESTS).map(|number| number * number)), "in order");

    let words = |compared: Comparison| {
        let items = compared.words(0, Says::Cost, |ns| seconds(ns / 1e9));
        format!(
            "{REQUESTS} requests of 5 to 11 ms, 100 at a time: all answers, in order, after {time}\n\
             4 stages of 100 ns each, per item: {items}"
        )
    };
    guide.measure("pipeline", "seq", Bound::Work, 2).map_or_else(|failure| failure, words)
}

#[cfg(test)]
mod tests {
    use super::save;
    use std::fs;

    #[test]
    fn a_trace_never_overwrites_a_file() {
        let paths = [save("first"), save("second")].map(|path| path.expect("room for a file"));
        let texts = paths.clone().map(|path| fs::read_to_string(path).expect("written"));
        paths.into_iter().for_each(|path| fs::remove_file(path).expect("ours"));
        assert_eq!(texts, ["first", "second"]);
    }
}
