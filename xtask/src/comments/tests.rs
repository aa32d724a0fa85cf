use super::*;
use crate::assert_none;

fn source(text: &str) -> Source {
    Source::new("filch/src/queue/ring.rs", text)
}

fn safety(text: &str) -> Vec<usize> {
    check_safety(&source(text)).into_iter().map(|f| f.line).collect()
}

fn ordering(text: &str) -> Vec<usize> {
    check_ordering(&source(text)).into_iter().map(|f| f.line).collect()
}

fn light(text: &str) -> Vec<String> {
    check_light(&[&source(text)]).into_iter().map(|f| f.text).collect()
}

#[test]
fn explained_unsafe_passes() {
    let good = [
        "fn f() {\n    // SAFETY: R1.\n    unsafe { g() }\n}",
        "fn f() {\n    // SAFETY: R1,\n    // in two lines.\n    #[allow(x)]\n    let a = unsafe { g() };\n}",
        "fn f() {\n    // SAFETY: R1.\n    let a = long\n        .chain(|x| unsafe { g(x) });\n}",
        "fn f() {\n    let a = long\n        // SAFETY: R1.\n        .chain(|x| unsafe { g(x) });\n}",
        "match x {\n    // SAFETY: R1.\n    A => unsafe { g() },\n    // SAFETY: R2.\n    B => unsafe { h() },\n}",
        "// SAFETY: R1.\nunsafe impl Send for X {}",
        "/// Text.\n///\n/// # Safety\n///\n/// - p is valid\n#[inline]\npub(crate) unsafe fn f(p: *const u8) {}",
        "// SAFETY contract: p is valid.\nunsafe extern \"C\" fn f(p: *const u8) {}",
        "struct V { run: unsafe fn(*const ()), c: unsafe extern \"C\" fn() }",
        "impl<T> Linked for Node<T> {\n    fn a() {}\n    unsafe fn link() {}\n}",
        "// unsafe { }\nconst S: &str = \"unsafe { }\";",
    ];
    for text in good {
        assert_none(safety(text), text);
    }
}

#[test]
fn unexplained_unsafe_is_found() {
    let bad = [
        ("fn f() {\n    unsafe { g() }\n}", 2),
        ("fn f() {\n    // SAFETY: R1.\n\n    unsafe { g() }\n}", 4),
        ("fn f() {\n    // SAFETY: R1.\n    let a = 1;\n    unsafe { g() }\n}", 4),
        ("match x {\n    // SAFETY: R1.\n    A => unsafe { g() },\n    B => unsafe { h() },\n}", 4),
        ("unsafe impl Send for X {}", 1),
        ("/// Text.\nunsafe fn f() {}", 2),
        ("impl<F: for<'a> Fn(&'a u8)> Node<F> {\n    unsafe fn link() {}\n}", 2),
        ("trait Linked {\n    unsafe fn link();\n}", 2),
        ("/// Text.\npub unsafe trait T {}", 2),
        ("unsafe extern \"C\" { fn f(); }", 1),
        ("#[unsafe(no_mangle)]\nfn f() {}", 1),
    ];
    for (text, line) in bad {
        assert_eq!(safety(text), [line], "{text}");
    }
}

#[test]
fn explained_orderings_pass() {
    let good = [
        "fn f() {\n    // ORDERING: Relaxed, a count.\n    a.load(Relaxed);\n}",
        "fn f() {\n    a.load(Ordering::Relaxed); // ORDERING: Relaxed, a count.\n}",
        "fn f() {\n    // ORDERING: AcqRel pairs with x.\n    match a.compare_exchange(\n        1,\n        2,\n        \
         Ordering::AcqRel,\n        Ordering::Acquire,\n    ) {\n        _ => {}\n    }\n}",
        "fn f() {\n    let x = a.swap(\n        1,\n        // ORDERING: AcqRel pairs with x.\n        AcqRel,\n    );\n}",
        "use std::cmp::Ordering::{Less, Greater};\nuse shim::Ordering::{self, Acquire, Relaxed};",
        "enum Step { Acquire, Release }\nfn f(s: Step) { match s { Step::Acquire => {} Step::Release => {} } }",
        "#[cfg(test)]\nmod tests { fn f() { a.load(Relaxed); } }",
        "// a.load(Relaxed)\nfn f() { g(\"Ordering::SeqCst\") }",
        "fn f(x: Option<Step>) { if let Some(Release) = x {} }",
    ];
    for text in good {
        assert_none(ordering(text), text);
    }
}

#[test]
fn one_comment_covers_a_run_in_its_block() {
    let six = "    a.load(Relaxed);\n".repeat(7);
    assert_none(ordering(&format!("fn f() {{\n    // ORDERING: counts.\n{six}}}")), "");
    let deeper = "fn f() {\n    // ORDERING: x.\n    if c {\n        a.load(Acquire);\n    }\n}";
    assert_none(ordering(deeper), "");
}

#[test]
fn run_ends_with_a_blank_line_with_its_block_and_with_its_length() {
    let blank = "fn f() {\n    // ORDERING: x.\n    a.load(Acquire);\n\n    b.load(Acquire);\n}";
    assert_eq!(ordering(blank), [5]);
    let block = "fn f() {\n    if c {\n        // ORDERING: x.\n        a.load(Acquire);\n    }\n    b.load(Acquire);\n}";
    assert_eq!(ordering(block), [6]);
    let eight = "    a.load(Relaxed);\n".repeat(8);
    assert_eq!(ordering(&format!("fn f() {{\n    // ORDERING: counts.\n{eight}}}")), [10]);
}

#[test]
fn unexplained_orderings_are_found_once_per_statement() {
    let bad = [
        ("fn f() {\n    a.load(Relaxed);\n}", vec![2]),
        ("fn f() {\n    fence(Ordering::SeqCst);\n    a.fetch_add(1, Release);\n}", vec![2, 3]),
        ("fn f() {\n    a.compare_exchange(1, 2, AcqRel, Acquire);\n}", vec![2]),
        ("fn f() {\n    a.load(if c { Acquire } else { Relaxed });\n}", vec![2, 2]),
        ("fn f() {\n    // Orders nothing.\n    a.store(1, shim::Ordering::Release);\n}", vec![3]),
    ];
    for (text, lines) in bad {
        assert_eq!(ordering(text), lines, "{text}");
    }
}

#[test]
fn light_names_a_function_that_calls_heavy() {
    let heavy = "impl Q { fn steal(&self) { if x { heavy(); } } fn other() {} }\n";
    let call = |comment: &str| format!("{heavy}fn pop() {{\n    {comment}\n    light();\n}}");
    assert_eq!(light(&call("// LIGHT: heavy() in `Q::steal`.")), [""; 0]);
    assert_eq!(light(&call("")), ["`light` without a `// LIGHT:` comment above"]);
    assert_eq!(
        light(&call("// LIGHT: see `other`.")),
        ["`// LIGHT:` names no function that calls `heavy`; these do: `steal`"]
    );
}

#[test]
fn definition_and_tests_of_light_need_no_comment() {
    assert_eq!(light("pub(crate) fn light() {}\n#[cfg(test)]\nfn t() { light(); }"), [""; 0]);
}
