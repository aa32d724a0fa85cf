//! Words of a text are counted: read in order, cut in parallel, added up in order. Each stage takes what
//! the one before it gives, and at most eight lines are on their way.

use std::collections::BTreeMap;

use filch::Pipeline;

const TEXT: &str = "\
    the cat sat on the mat
    the dog sat on the cat
    the mat had had enough";

fn main() -> Result<(), filch::pipeline::PipelineError> {
    let mut counts = BTreeMap::new();

    let lines = Pipeline::new(8)
        .items(TEXT.lines())
        .parallel(|line| line.split_whitespace().collect::<Vec<_>>())
        .for_each(|words| {
            for word in words {
                *counts.entry(word).or_insert(0) += 1;
            }
        })
        .run()?;

    println!("{lines} lines, {counts:?}");
    assert_eq!((lines, counts["the"], counts["had"]), (3, 5, 2));
    Ok(())
}
