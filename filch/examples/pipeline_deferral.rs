//! Frames of a film: a B frame is coded from the frames around it, so it waits for a later one, and the
//! others go on.

use filch::pipeline::{Next, Pipeline};

const FILM: &[u8] = b"IBBPBBPBBI";

/// The next frame after `number` that is not a B frame.
fn anchor(number: usize) -> usize {
    number + FILM[number..].iter().position(|&kind| kind != b'B').expect("a film ends with one")
}

fn main() -> Result<(), filch::pipeline::PipelineError> {
    let mut coded = String::new();

    Pipeline::new(4)
        .source(|token| {
            let number = token.number() as usize;
            match FILM.get(number) {
                None => Next::Stop,
                Some(b'B') if token.deferrals() == 0 => {
                    token.defer(anchor(number) as u64);
                    Next::Deferred
                }
                Some(&kind) => Next::Item((number, kind)),
            }
        })
        .parallel(|(number, kind)| format!("{}{number} ", char::from(kind)))
        .for_each(|frame| coded.push_str(&frame))
        .run()?;

    println!("{coded}");
    assert_eq!(coded, "I0 P3 B1 B2 P6 B4 B5 I9 B7 B8 ");
    Ok(())
}
