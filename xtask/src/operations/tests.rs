use serde_json::json;

use super::*;

/// An item that is defined in `x.rs`.
fn item(name: &str, visibility: &str, inner: Value) -> Value {
    let span = json!({"filename": "filch/src/x.rs", "begin": [3, 1]});
    json!({"name": name, "visibility": visibility, "span": span, "inner": inner})
}

fn function(name: &str, is_async: bool, visibility: &str, output: Value) -> Value {
    let function = json!({"header": {"is_async": is_async}, "sig": {"output": output}});
    item(name, visibility, json!({"function": function}))
}

/// A type by its number, with one in angle brackets.
fn generic(id: u64, of: u64) -> Value {
    json!({"resolved_path": {"id": id, "args": [{"resolved_path": {"id": of}}]}})
}

/// A library with `pub mod sync { pub struct Lock; impl Lock { pub async fn lock(); pub fn poll_lock() -> Poll } }`, a
/// future `Sleep` that `sleep` returns, functions that return other futures, a stream, a trait, macros, and what is
/// no operation.
fn library() -> Value {
    const SLEEP: u64 = 5;
    const POLL: u64 = 90;
    const SELECT: u64 = 91;
    const OTHER: u64 = 92;
    let future = json!({"trait": {"path": "std::future::Future"}});
    let root = json!({"items": [1, 2, 7, 8, 13, 14, 15, 16, 18, 21, 22, 23]});
    let mut doc = json!({"root": 0, "index": {
        "0": {"name": "filch", "inner": {"module": root}},
        "1": {"name": "sync", "inner": {"module": {"items": [3]}}},
        "2": {"name": null, "inner": {"use": {"name": "sleep", "id": 6}}},
        "3": item("Lock", "public", json!({"struct": {"impls": [4, 11]}})),
        "4": {"name": null, "inner": {"impl": {"trait": null, "items": [9, 10, 17], "for": {}}}},
        "5": item("Sleep", "public", json!({"struct": {"impls": [12]}})),
        "6": function("sleep", false, "public", generic(1, SLEEP)),
        "7": function("plain", false, "public", json!({"primitive": "u8"})),
        "8": function("lazy", false, "public", json!({"impl_trait": [{"trait_bound": future}]})),
        "9": function("lock", true, "public", Value::Null),
        "10": function("hidden", true, "crate", Value::Null),
        "11": {"name": null, "inner": {"impl": {
            "trait": {"path": "futures_lite::Stream"}, "items": [], "for": {}
        }}},
        "12": {"name": null, "inner": {"impl": {
            "trait": {"path": "Future"}, "items": [], "for": {"resolved_path": {"id": SLEEP}}
        }}},
        "13": function("boxed", false, "public", json!({"dyn_trait": {"traits": [future]}})),
        "14": function("named", false, "public", generic(19, 1)),
        "15": item("Wakes", "public", json!({"trait": {"items": [20, 24]}})),
        "16": item("declare", "public", json!({"macro": "macro_rules! declare {}"})),
        "17": function("poll_lock", false, "public", generic(POLL, 1)),
        "18": {"name": null, "visibility": "public", "span": {"filename": "filch/src/lib.rs", "begin": [7, 1]},
            "inner": {"use": {"name": "select", "id": SELECT}}},
        "20": function("woken", true, "default", Value::Null),
        "24": function("count", false, "default", json!({"primitive": "u8"})),
        "21": {"name": null, "inner": {"use": {"name": "Other", "id": OTHER}}},
    }, "paths": {
        "90": {"path": ["core", "task", "poll", "Poll"], "kind": "enum"},
        "91": {"path": ["filch_macros", "select"], "kind": "macro"},
        "92": {"path": ["futures_io", "Other"], "kind": "trait"},
    }});
    // Two aliases, the first of which stands for the second.
    let alias = |name: &str, id: u64, of: Value| {
        let mut alias = item(name, "public", json!({"type_alias": {"type": of}}));
        alias["id"] = id.into();
        alias
    };
    doc["index"]["19"] = alias("Named", 19, generic(22, 1));
    doc["index"]["22"] = alias("Later", 22, generic(1, SLEEP));
    doc["index"]["23"] = alias("Plain", 23, json!({"primitive": "u8"}));
    doc
}

#[test]
fn whatever_is_awaited_or_polled_and_each_macro_is_an_operation() {
    let names: Vec<String> = operations(&library()).into_keys().collect();
    let wanted = [
        "Wakes::woken",
        "boxed",
        "declare!",
        "lazy",
        "named",
        "select!",
        "sleep",
        "sync::Lock: Stream",
        "sync::Lock::lock",
        "sync::Lock::poll_lock",
    ];
    assert_eq!(names, wanted);
}

#[test]
fn macro_of_another_library_is_where_it_is_imported() {
    let place = operations(&library()).remove("select!").expect("an operation");
    assert_eq!((place.file.as_str(), place.line), ("filch/src/lib.rs", 7));
}

/// The names of cases in a file.
fn names_in(text: &str) -> Vec<String> {
    let file = ("filch/tests/sync/ready/x.rs".to_owned(), text.to_owned());
    cases(&[file]).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn names_are_at_the_beginning_of_statements_in_macro_calls_of_the_module() {
    let text = r#"
        cases! { LIST;
            "a::b": let x = f("no", y) => "no";
            "c", "d::e":
                let x = "no" => { "no"; g("no") };
        }
        reading! { OTHER; f("no"), mut x => x;
            "f: Stream"
            "g!" // "no"
        }
        exempt! { "h": "no"; }
    "#;
    assert_eq!(names_in(text), ["a::b", "c", "d::e", "f: Stream", "g!", "h"]);
}

#[test]
fn strings_elsewhere_are_no_names() {
    let text = r##"
        #![doc = "no"]
        const HERE: &str = "no";
        const LIST: [&str; 2] = ["no", "no"];
        macro_rules! cases { ("no") => { other! { "no" } } }
        fn f() { assert!("no"); cases! { "no": "no"; } "no"; }
    "##;
    assert_eq!(names_in(text), [""; 0]);
}

#[test]
fn operation_without_a_case_and_case_without_an_operation_are_found() {
    let cases = cases(&[(
        "filch/tests/sync/ready/x.rs".to_owned(),
        concat!(
            "cases! { LIST; \"sync::Lock::lock\": let x = lazy(\"boxed\") => x;\n",
            "\"sleep\", \"lazy\", \"sync::Lock::unlock\": x;\n",
            "\"slept\": x; \"Wakes::woken\", \"declare!\", \"named\": x;\n",
            "\"sync::Lock::poll_lock\", \"select!\": x; }",
        )
        .to_owned(),
    )]);
    let found = compare(&operations(&library()), &cases);
    let found: Vec<_> = found.iter().map(|f| (&*f.file, f.line, &*f.text)).collect();
    let (library, tests) = ("filch/src/x.rs", "filch/tests/sync/ready/x.rs");
    let missing =
        |name| format!("`{name}` has no case, nor an exemption with a reason, in {CASES}.rs");
    let stale = |name| format!("there is no public asynchronous operation `{name}`");
    let texts = [
        missing("boxed"),
        missing("sync::Lock: Stream"),
        stale("sync::Lock::unlock"),
        stale("slept"),
    ];
    assert_eq!(
        found,
        [
            (library, 3, &*texts[0]),
            (library, 3, &*texts[1]),
            (tests, 2, &*texts[2]),
            (tests, 3, &*texts[3])
        ]
    );
}

#[test]
fn tool_that_is_missing_is_told_from_one_that_fails() {
    let missing = call(&mut Command::new("/nowhere/at/all"));
    assert_eq!(missing, Err(Trouble::Missing("`/nowhere/at/all` is not installed".to_owned())));
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let Err(Trouble::Failed(text)) = call(rustc.arg("--no-such-option")) else {
        panic!("it has failed");
    };
    assert!(text.contains("no-such-option"), "{text}");
}

#[test]
fn cases_are_in_one_file_and_its_directory() {
    assert!(has_cases("filch/tests/sync/ready.rs") && has_cases("filch/tests/sync/ready/net.rs"));
    assert!(!has_cases("filch/tests/sync/ready_made.rs") && !has_cases("filch/tests/sync/main.rs"));
}
