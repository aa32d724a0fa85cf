use super::*;
use crate::assert_none;

/// The lines of the findings, and their texts.
fn layer(path: &str, text: &str) -> Vec<(usize, String)> {
    let source = Source::new(&format!("{LIBRARY}{path}"), text);
    check(&source).into_iter().map(|f| (f.line, f.text)).collect()
}

fn shim(path: &str, text: &str) -> Vec<usize> {
    let source = Source::new(&format!("{LIBRARY}{path}"), text);
    check_shim(&source).into_iter().map(|f| f.line).collect()
}

#[test]
fn downward_imports_pass() {
    let good = [
        ("queue/ring.rs", "use crate::base::shim::AtomicU32;\nuse crate::queue::Full;"),
        ("queue/mod.rs", "use super::base;\nuse self::ring::Ring;\nuse super::super::x;"),
        ("task/state.rs", "use crate::{base::shim, pool::Block, queue::Link};"),
        (
            "sched/worker.rs",
            "use crate::{idle::Idle, task::TaskRef};\nfn f() { crate::io::poll() }",
        ),
        ("group.rs", "use crate::spawn::spawn;\nuse crate::sched::Shared;"),
        ("lib.rs", "use crate::anything;\npub use group::group;"),
        ("base/list.rs", "macro_rules! m { () => { $crate::base::list::f() } }"),
    ];
    for (path, text) in good {
        assert_none(layer(path, text), path);
    }
}

#[test]
fn upward_imports_are_found_with_their_line() {
    let found = layer("queue/ring.rs", "use crate::base::shim;\n\nuse crate::task::TaskRef;");
    let text = "`queue` must not know `task`; it may know `base`";
    assert_eq!(found, [(3, text.to_owned())]);
    assert_eq!(layer("base/rng.rs", "use crate::config::Config;")[0].0, 1);
    assert_eq!(layer("sched/mod.rs", "\nfn f() { crate::runtime::current() }")[0].0, 2);
    assert_eq!(layer("idle/mod.rs", "pub(in crate::sched) fn f() {}")[0].0, 1);
}

#[test]
fn branches_of_a_tree_are_seen_each() {
    let text =
        "use crate::{\n    base::{shim, list},\n    sched::{self, base},\n    queue::ring,\n};";
    let lines: Vec<_> = layer("timer/wheel.rs", text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [3, 4]);
}

#[test]
fn supers_that_reach_the_root_are_seen() {
    assert_eq!(layer("queue/ring.rs", "use super::super::task::X;").len(), 1);
    assert_eq!(layer("queue/mod.rs", "use super::task::X;").len(), 1);
    assert_eq!(layer("queue/mod.rs", "use super::{base, task};").len(), 1);
    assert_eq!(layer("queue/mod.rs", "mod a { use super::super::task::X; }").len(), 1);
    assert_eq!(
        layer("queue/ring.rs", "use super::task::X;\nmod a { use super::super::task; }"),
        []
    );
}

#[test]
fn tests_comments_and_strings_may_name_anything() {
    let text = "// crate::sched::x\nconst S: &str = \"crate::sched\";\n\
                #[cfg(test)]\nmod tests { use crate::runtime::Runtime; }";
    assert_none(layer("queue/ring.rs", text), "");
}

#[test]
fn modules_and_names_outside_the_table_are_found() {
    assert!(layer("novel/mod.rs", "")[0].1.contains("no row"));
    assert!(layer("group.rs", "use crate::JoinHandle;")[0].1.contains("`crate::JoinHandle`"));
    assert_none(layer("group.rs", "fn f() { crate::check!() }"), "");
}

#[test]
fn table_names_each_module_once_and_knows_only_rows() {
    for (i, (module, knows)) in TABLE.iter().enumerate() {
        assert!(TABLE[..i].iter().all(|(other, _)| other != module), "{module}");
        if let Only(below) = knows {
            assert!(below.iter().all(|name| row(name).is_some()), "{module}");
        }
    }
}

#[test]
fn atomics_and_loom_outside_the_shim_are_found() {
    let bad = [
        "use std::sync::atomic::AtomicU32;",
        "use core::sync::atomic;",
        "use std::sync::{Arc, atomic::AtomicU32};",
        "use std::{mem, sync::{Arc, atomic::{AtomicU32, Ordering}}};",
        "fn f() { std::sync::atomic::fence(o) }",
        "use loom::thread;",
        "use loom;",
        "fn f() { loom::model(g) }",
    ];
    for text in bad {
        assert_eq!(shim("queue/ring.rs", &format!("\n{text}")), [2], "{text}");
        assert_none(shim("base/shim.rs", text), text);
    }
}

#[test]
fn cfg_loom_tests_and_like_names_pass() {
    let good = [
        "#[cfg(all(test, loom))]\nmod model;",
        "#[cfg(not(loom))]\nfn f() {}",
        "#[cfg(all(test, loom))]\nmod model { use loom::thread; }",
        "// loom::model\nlet atomic = 1; let heirloom = x::heirloom::y;",
        "use crate::base::shim::atomic;",
    ];
    for text in good {
        assert_none(shim("queue/ring.rs", text), text);
    }
}
