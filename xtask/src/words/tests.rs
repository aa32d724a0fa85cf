use super::*;
use crate::Level;
use crate::assert_none;

fn found(text: &str) -> Vec<(usize, &'static str)> {
    let source = Source::new("filch/src/x.rs", text);
    check(&source).into_iter().map(|f| (f.line, f.rule)).collect()
}

#[test]
fn placeholders_and_marks_are_found_with_their_line() {
    assert_eq!(found("fn f() {\n    todo!()\n}"), [(2, "unfinished")]);
    assert_eq!(found("fn f() { unimplemented!(\"x\") }"), [(1, "unfinished")]);
    assert_eq!(found("\nlet x = dbg!(y);"), [(2, "unfinished")]);
    assert_eq!(found("/* FIXME */ // XXX: y"), [(1, "unfinished"), (1, "unfinished")]);
}

#[test]
fn like_words_pass() {
    assert_none(found("let todo = \"todo!() FIXME\"; // dbg!(x), XXXL\nmy_dbg!(1);"), "");
}

#[test]
fn long_file_is_a_warning() {
    assert_none(found(&"\n".repeat(700)), "");
    let source = Source::new("x.rs", &"\n".repeat(701));
    let findings = check(&source);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].level, Level::Warning);
    assert_eq!(
        findings[0].to_string(),
        "x.rs:1: size (warning): 701 lines; over 700, look for a second idea"
    );
}
