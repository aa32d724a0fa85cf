use serde_json::json;

use super::*;

/// A library with `pub mod sync { pub struct Lock; impl Lock { pub async fn lock() } }`, a future `Sleep` that
/// `sleep` returns, a stream, and what is no operation.
fn library() -> Value {
    let function = |name: &str, is_async: bool, visibility: &str, output: Value| {
        json!({
            "name": name, "visibility": visibility,
            "span": {"filename": "filch/src/x.rs", "begin": [3, 1]},
            "inner": {"function": {"header": {"is_async": is_async}, "sig": {"output": output}}},
        })
    };
    let future = json!({"resolved_path": {"path": "Sleep", "id": 5}});
    json!({"root": 0, "index": {
        "0": {"name": "filch", "inner": {"module": {"items": [1, 2, 7, 8]}}},
        "1": {"name": "sync", "inner": {"module": {"items": [3]}}},
        "2": {"name": null, "inner": {"use": {"name": "sleep", "id": 6}}},
        "3": {"name": "Lock", "inner": {"struct": {"impls": [4, 11]}}},
        "4": {"name": null, "inner": {"impl": {"trait": null, "items": [9, 10], "for": {}}}},
        "5": {"name": "Sleep", "inner": {"struct": {"impls": [12]}}},
        "6": function("sleep", false, "public", json!({"resolved_path": {"id": 1, "args": [future]}})),
        "7": function("plain", false, "public", json!({"primitive": "u8"})),
        "8": function("lazy", false, "public", json!({"impl_trait": [
            {"trait_bound": {"trait": {"path": "std::future::Future"}}}
        ]})),
        "9": function("lock", true, "public", Value::Null),
        "10": function("hidden", true, "crate", Value::Null),
        "11": {"name": null, "inner": {"impl": {
            "trait": {"path": "futures_lite::Stream"}, "items": [], "for": {}
        }}},
        "12": {"name": null, "inner": {"impl": {
            "trait": {"path": "Future"}, "items": [], "for": {"resolved_path": {"id": 5}}
        }}},
    }})
}

#[test]
fn public_async_functions_futures_and_streams_are_operations() {
    let names: Vec<String> = operations(&library()).into_keys().collect();
    assert_eq!(names, ["lazy", "sleep", "sync::Lock: Stream", "sync::Lock::lock"]);
}

#[test]
fn operation_without_a_case_and_case_without_an_operation_are_found() {
    let cases = cases(&[(
        "filch/tests/sync/ready/x.rs".to_owned(),
        concat!(
            "\"sync::Lock::lock\": let x = y(\"127.0.0.1:0\") => x;\n",
            "\"sleep\", \"lazy\", \"sync::Lock::unlock\"\n",
        )
        .to_owned(),
    )]);
    let found = compare(&operations(&library()), &cases);
    let found: Vec<_> = found.iter().map(|f| (f.file.as_str(), f.line, f.rule)).collect();
    assert_eq!(
        found,
        [("filch/src/lib.rs", 1, "budget"), ("filch/tests/sync/ready/x.rs", 2, "budget")]
    );
}

#[test]
fn cases_are_in_one_file_and_its_directory() {
    assert!(has_cases("filch/tests/sync/ready.rs") && has_cases("filch/tests/sync/ready/net.rs"));
    assert!(!has_cases("filch/tests/sync/ready_made.rs") && !has_cases("filch/tests/sync/main.rs"));
}
