//! Stages that are decided while the program runs: a picture goes through the filters that were asked for,
//! and through others in the next run.

use filch::pipeline::{Next, Pipeline, Stage};

type Row = Vec<u8>;

fn filter<'env>(name: &str) -> Stage<'env, Row> {
    match name {
        "invert" => Stage::parallel(|row: &mut Row| row.iter_mut().for_each(|p| *p = 255 - *p)),
        "darken" => Stage::parallel(|row: &mut Row| row.iter_mut().for_each(|p| *p /= 2)),
        // Needs the row before, so it is serial.
        "smear" => {
            let mut above: Option<Row> = None;
            Stage::serial(move |row: &mut Row| {
                let before = row.clone();
                if let Some(above) = above.replace(before) {
                    row.iter_mut().zip(above).for_each(|(p, q)| *p = (*p).max(q));
                }
            })
        }
        _ => Stage::try_serial(|_| Err("no such filter")),
    }
}

fn main() -> Result<(), filch::pipeline::PipelineError> {
    let sum = std::sync::atomic::AtomicU64::new(0);
    let add = |row: &mut Row| {
        let row = row.iter().map(|&p| u64::from(p)).sum::<u64>();
        sum.fetch_add(row, std::sync::atomic::Ordering::Relaxed);
    };
    let mut pipeline = Pipeline::new(8).scalable(|token| match token.number() {
        100 => Next::Stop,
        number => Next::Item(vec![number as u8; 640]),
    });

    for filters in [&["invert"][..], &["darken", "smear", "invert"][..]] {
        pipeline.stages_mut().clear();
        pipeline.stages_mut().extend(filters.iter().map(|name| filter(name)));
        pipeline.stages_mut().push(Stage::parallel(add));
        pipeline.reset();
        let rows = pipeline.run()?;
        println!("{rows} rows through {filters:?}");
    }
    drop(pipeline);
    assert_eq!(sum.into_inner(), 640 * ((156..=255).sum::<u64>() + 2 * (206..=255).sum::<u64>()));
    Ok(())
}
