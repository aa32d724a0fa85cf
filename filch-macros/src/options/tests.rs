use std::str::FromStr;

use super::*;

fn parse(text: &str) -> Result<Options> {
    Options::parse(TokenStream::from_str(text).expect("tokens"))
}

/// The message, and the source text that the compiler would underline.
fn refused(text: &str) -> (String, String) {
    let error = parse(text).expect_err("refused");
    let underlined = error.span().source_text().unwrap_or_default();
    (error.to_string(), underlined)
}

#[test]
fn nothing_written_is_empty() {
    assert!(parse("").expect("parses").is_empty());
}

#[test]
fn all_counts_parse_in_any_order_with_a_trailing_comma() {
    let options = parse("compute_workers = 3, workers = 1, io_workers = 0x2,").expect("parses");
    let expected = Options {
        workers: Some(1),
        io_workers: Some(2),
        compute_workers: Some(3),
        ..Options::default()
    };
    assert_eq!(options, expected);
}

#[test]
fn single_thread_parses_alone() {
    let options = parse("single_thread").expect("parses");
    assert!(options.single_thread);
    assert!(!options.is_empty());
}

#[test]
fn unknown_option_lists_the_known_ones() {
    let (text, at) = refused("workers = 2, wrokers = 2");
    assert_eq!(
        text,
        "unknown option `wrokers`; known are `workers`, `io_workers`, `compute_workers`, \
         `single_thread`, `sim`, `seeds`"
    );
    assert_eq!(at, "wrokers");
}

#[test]
fn simulation_parses_with_its_seeds_and_a_single_thread() {
    let options = parse("single_thread, seeds = 1000, sim").expect("parses");
    let expected =
        Options { single_thread: true, sim: true, seeds: Some(1000), ..Options::default() };
    assert_eq!(options, expected);
}

#[test]
fn seeds_without_a_simulation_are_refused() {
    assert_eq!(refused("seeds = 1000"), ("`seeds` needs `sim`".into(), "seeds".into()));
    assert_eq!(refused("sim = 3"), ("`sim` takes no value".into(), "=".into()));
    assert_eq!(refused("sim, seeds = 0").0, "`seeds` must be at least 1");
}

#[test]
fn second_mention_is_refused_where_it_stands() {
    let error = parse("workers = 2, workers = 3").expect_err("refused");
    assert_eq!(error.to_string(), "option `workers` is given twice");
    assert_eq!(error.span().start().column, 13);
    let (text, _) = refused("single_thread, single_thread");
    assert_eq!(text, "option `single_thread` is given twice");
}

#[test]
fn zero_workers_are_refused_at_the_number() {
    for name in ["workers", "io_workers", "compute_workers"] {
        let (text, at) = refused(&format!("{name} = 0"));
        assert_eq!(text, format!("`{name}` must be at least 1"));
        assert_eq!(at, "0");
    }
}

#[test]
fn count_without_a_number_shows_how_to_write_it() {
    let text = "`workers` needs a number, as in `workers = 4`";
    assert_eq!(refused("workers"), (text.into(), "workers".into()));
    assert_eq!(refused("workers = N"), (text.into(), "N".into()));
    assert_eq!(refused("workers = -1"), (text.into(), "-1".into()));
    assert_eq!(refused("workers = \"4\""), (text.into(), "\"4\"".into()));
    assert_eq!(refused("workers = 1.5"), (text.into(), "1.5".into()));
    let beyond = "99999999999999999999999";
    assert_eq!(refused(&format!("workers = {beyond}")), (text.into(), beyond.into()));
}

#[test]
fn single_thread_takes_no_value_and_no_company() {
    assert_eq!(
        refused("single_thread = true"),
        ("`single_thread` takes no value".into(), "=".into())
    );
    assert_eq!(
        refused("workers = 2, single_thread"),
        ("`single_thread` leaves no room for `workers`".into(), "workers".into())
    );
}

#[test]
fn something_that_is_no_name_is_refused() {
    let (text, at) = refused("4");
    assert!(text.starts_with("expected the name of an option"), "{text}");
    assert_eq!(at, "4");
}
