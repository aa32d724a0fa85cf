//! Which operations of the public API are asynchronous, and whether each of them is known to count against
//! the budget of a task.
//!
//! An operation that is ready at once and does not count lets a loop over it run for ever: no `timeout` and
//! no `select!` around that loop ever fires. So the tests in [`CASES`] loop over every one of them, and this
//! rule asks for a case of each.
//!
//! O1. An operation is a public async function, a public function that returns a type of the library which
//!     is a future, or `impl Future`, and each of the traits in [`TRAITS`] that a public type implements.
//! O2. Its name is the path by which users reach it, without the name of the library.
//! O3. It has a case if its name is a string in [`CASES`], also in the list of exemptions there. A name that
//!     is there and stands for nothing is a finding too.
//!
//! Not here: what a case does, which is the test's business.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;

use crate::{Finding, LIBRARY};

/// Where the cases are: this file, and all in the directory of its name.
const CASES: &str = "filch/tests/sync/ready";

/// Traits whose methods are polled.
const TRAITS: &[&str] = &["AsyncRead", "AsyncBufRead", "AsyncWrite", "AsyncSeek", "Stream"];

/// The rule; a note instead if rustdoc cannot be asked.
/// `files` are those with cases, by path and text.
pub(crate) fn check(root: &Path, files: &[(String, String)]) -> Result<Vec<Finding>, String> {
    let json = rustdoc(root)?;
    let name = json.display();
    let text = fs::read_to_string(&json).map_err(|error| format!("{name}: {error}"))?;
    let doc: Value = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    let operations = operations(&doc);
    if operations.is_empty() {
        return Err("this rustdoc writes another JSON than this rule reads".to_owned());
    }
    Ok(compare(&operations, &cases(files)))
}

/// Has rustdoc describe the library, unless it has since the last change, and returns the file that it wrote.
///
/// The stable toolchain writes JSON with the variable that the standard library is built with; a build
/// directory of its own keeps that variable from rebuilding what depends on it.
fn rustdoc(root: &Path) -> Result<PathBuf, String> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let target: PathBuf = target.join("xtask");
    let json = target.join("doc/filch.json");
    if is_fresh(&json, root) {
        return Ok(json);
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["rustdoc", "--quiet", "--package", "filch", "--lib", "--target-dir"])
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cargo rustdoc does not start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Err(format!("cargo rustdoc: {first}"));
    }
    Ok(json)
}

/// Whether a description of the library is newer than all that it is made from. Cargo makes it anew each
/// time.
fn is_fresh(json: &Path, root: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let Some(made) = changed(json) else { return false };
    let Ok(mut sources) = crate::walk(&root.join(LIBRARY)) else { return false };
    sources.extend(["Cargo.lock", "filch/Cargo.toml"].map(|name| root.join(name)));
    sources.iter().all(|path| changed(path).is_some_and(|then| then < made))
}

/// Names of operations with where they are defined (O1, O2).
fn operations(doc: &Value) -> BTreeMap<String, Place> {
    let index = Index(&doc["index"]);
    let Some(root) = id(&doc["root"]) else { return BTreeMap::new() };
    let futures = index.futures();
    let mut found = BTreeMap::new();
    for (path, item) in index.public(root) {
        let inner = &index.0[&item]["inner"];
        if inner.get("function").is_some() {
            index.note(&mut found, &path, &item, &futures);
        }
        let kind = ["struct", "enum", "union"].iter().find_map(|kind| inner.get(kind));
        for block in kind.and_then(|kind| kind["impls"].as_array()).into_iter().flatten() {
            let Some(block) = id(block) else { continue };
            let block = &index.0[&block]["inner"]["impl"];
            if let Some(name) = block["trait"]["path"].as_str() {
                let name = name.rsplit("::").next().unwrap_or(name);
                // Implementations for references name the type, and are not listed with it twice.
                if TRAITS.contains(&name) {
                    found.insert(format!("{path}: {name}"), Place::of(&index.0[&item]));
                }
                continue;
            }
            for method in block["items"].as_array().into_iter().flatten().filter_map(id) {
                let name = index.0[&method]["name"].as_str().unwrap_or_default();
                index.note(&mut found, &format!("{path}::{name}"), &method, &futures);
            }
        }
    }
    found
}

/// Where an item is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    file: String,
    line: usize,
}

impl Place {
    fn of(item: &Value) -> Self {
        let span = &item["span"];
        let file = span["filename"].as_str().unwrap_or("filch/src/lib.rs").to_owned();
        let line = span["begin"].as_array().and_then(|at| at.first()).and_then(Value::as_u64);
        Self { file, line: line.unwrap_or(1) as usize }
    }
}

/// The number of an item, as the index spells it.
fn id(value: &Value) -> Option<String> {
    value.as_u64().map(|id| id.to_string())
}

/// The items of the library by number.
struct Index<'a>(&'a Value);

impl Index<'_> {
    /// Numbers of the types that are futures.
    fn futures(&self) -> HashSet<u64> {
        let items = self.0.as_object().into_iter().flatten();
        let blocks = items.filter_map(|(_, item)| item["inner"].get("impl"));
        let futures = blocks.filter(|block| {
            let name = block["trait"]["path"].as_str().unwrap_or_default();
            name.rsplit("::").next() == Some("Future")
        });
        futures.filter_map(|block| block["for"]["resolved_path"]["id"].as_u64()).collect()
    }

    /// Public items that are no modules, each by its shortest path.
    fn public(&self, root: String) -> Vec<(String, String)> {
        let mut found = HashMap::new();
        let mut modules = VecDeque::from([(String::new(), root)]);
        let mut seen = HashSet::new();
        while let Some((path, module)) = modules.pop_front() {
            if !seen.insert(module.clone()) {
                continue;
            }
            let items = &self.0[&module]["inner"]["module"]["items"];
            for item in items.as_array().into_iter().flatten().filter_map(id) {
                let value = &self.0[&item];
                let (name, item) = match value["inner"].get("use") {
                    Some(import) => (import["name"].as_str(), id(&import["id"])),
                    None => (value["name"].as_str(), Some(item)),
                };
                let (Some(name), Some(item)) = (name, item) else { continue };
                let path =
                    if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") };
                if self.0[&item]["inner"].get("module").is_some() {
                    modules.push_back((path, item));
                } else if self.0.get(&item).is_some() {
                    found.entry(item).or_insert(path);
                }
            }
        }
        found.into_iter().map(|(item, path)| (path, item)).collect()
    }

    /// Notes a function if it is an operation (O1).
    fn note(
        &self,
        found: &mut BTreeMap<String, Place>,
        path: &str,
        item: &str,
        futures: &HashSet<u64>,
    ) {
        let value = &self.0[item];
        let Some(function) = value["inner"].get("function") else { return };
        let is_public = value["visibility"] == "public";
        let is_async = function["header"]["is_async"] == true;
        if is_public && (is_async || mentions(&function["sig"]["output"], futures)) {
            found.insert(path.to_owned(), Place::of(value));
        }
    }
}

/// Whether a type is made of one of these.
fn mentions(ty: &Value, types: &HashSet<u64>) -> bool {
    match ty {
        Value::Object(fields) => {
            let this = fields.get("resolved_path").and_then(|path| path["id"].as_u64());
            let bound = fields.get("trait_bound").and_then(|bound| bound["trait"]["path"].as_str());
            this.is_some_and(|id| types.contains(&id))
                || bound.is_some_and(|path| path.rsplit("::").next() == Some("Future"))
                || fields.values().any(|field| mentions(field, types))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, types)),
        _ => false,
    }
}

/// Whether a file has cases.
pub(crate) fn has_cases(path: &str) -> bool {
    path.strip_prefix(CASES).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Strings in the cases, with where they are (O3).
fn cases(files: &[(String, String)]) -> Vec<(String, Place)> {
    let mut found = Vec::new();
    for (file, text) in files {
        for (number, line) in text.lines().enumerate() {
            let place = Place { file: file.clone(), line: number + 1 };
            // Every second part lies between quotes.
            let literals = line.split('"').skip(1).step_by(2);
            found.extend(literals.map(|text| (text.to_owned(), place.clone())));
        }
    }
    found
}

/// What has no case, and cases of nothing.
fn compare(operations: &BTreeMap<String, Place>, cases: &[(String, Place)]) -> Vec<Finding> {
    let names: BTreeSet<&str> = cases.iter().map(|(name, _)| name.as_str()).collect();
    let missing = operations.iter().filter(|(name, _)| !names.contains(name.as_str()));
    let missing = missing.map(|(name, place)| {
        let text = format!("`{name}` has no case, nor an exemption with a reason, in {CASES}.rs");
        Finding::error(&place.file, place.line, "budget", text)
    });
    let stale = cases.iter().filter(|(name, _)| {
        let is_name = name.contains("::")
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | ' '));
        is_name && !operations.contains_key(name)
    });
    let stale = stale.map(|(name, place)| {
        let text = format!("there is no public asynchronous operation `{name}`");
        Finding::error(&place.file, place.line, "budget", text)
    });
    missing.chain(stale).collect()
}

#[cfg(test)]
mod tests;
