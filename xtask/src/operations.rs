//! Which operations of the public API are asynchronous, and whether each of them is known to count against
//! the budget of a task.
//!
//! An operation that is ready at once and does not count lets a loop over it run for ever: no `timeout` and
//! no `select!` around that loop ever fires. So the tests in [`CASES`] loop over every one of them, and this
//! rule asks for a case of each.
//!
//! O1. An operation is a public function, or a method of a public trait, that is async or returns a future: a type of
//!     the library, `impl Future`, `dyn Future`, or an alias of these. So is one that returns `Poll`, each of the
//!     traits in [`TRAITS`] that a public type implements, and each macro.
//! O2. Its name is the path by which users reach it, without the name of the library. That of a macro ends with `!`.
//! O3. It has a case if its name is written in [`CASES`] where a name belongs: at the beginning of a statement in a
//!     macro call of the module, as in `"name", "name": …;`. A name there that stands for nothing is a finding too.
//! O4. The rule is skipped if a tool is missing. A tool that is there and fails is a finding.
//!
//! Not here: what a case does, which is the test's business.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::{Value, json};

use crate::source::Source;
use crate::{Finding, LIBRARY};

/// Where the cases are: this file, and all in the directory of its name.
const CASES: &str = "filch/tests/sync/ready";

/// Traits whose methods are polled.
const TRAITS: &[&str] = &["AsyncRead", "AsyncBufRead", "AsyncWrite", "AsyncSeek", "Stream"];

/// The rule; a note instead if a tool is missing (O4).
/// `files` are those with cases, by path and text.
pub(crate) fn check(root: &Path, files: &[(String, String)]) -> Result<Vec<Finding>, String> {
    match described(root) {
        Ok(operations) => Ok(compare(&operations, &cases(files))),
        Err(Trouble::Missing(what)) => Err(what),
        Err(Trouble::Failed(what)) => {
            Ok(vec![Finding::error("filch/src/lib.rs", 1, "budget", what)])
        }
    }
}

/// Why there is no description of the library (O4).
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Missing(String),
    Failed(String),
}

/// The operations of the library, as rustdoc describes it.
fn described(root: &Path) -> Result<BTreeMap<String, Place>, Trouble> {
    let json = rustdoc(root)?;
    let failed =
        |error: &dyn std::fmt::Display| Trouble::Failed(format!("{}: {error}", json.display()));
    let text = fs::read_to_string(&json).map_err(|error| failed(&error))?;
    let doc: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let operations = operations(&doc);
    if operations.is_empty() {
        return Err(failed(&"this rustdoc writes another JSON than this rule reads"));
    }
    Ok(operations)
}

/// Has rustdoc describe the library, unless it has since the last change, and returns the file that it wrote.
///
/// The stable toolchain writes JSON with the variable that the standard library is built with; a build
/// directory of its own keeps that variable from rebuilding what depends on it.
fn rustdoc(root: &Path) -> Result<PathBuf, Trouble> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let target: PathBuf = target.join("xtask");
    let json = target.join("doc/filch.json");
    if is_fresh(&json, root) {
        return Ok(json);
    }
    // Cargo starts without it, and a proxy of rustup is there without what it stands for.
    let tool = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    call(Command::new(tool).arg("--version")).map_err(|trouble| match trouble {
        Trouble::Missing(what) | Trouble::Failed(what) => Trouble::Missing(what),
    })?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["rustdoc", "--quiet", "--package", "filch", "--lib", "--target-dir"])
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTFLAGS");
    call(&mut command)?;
    Ok(json)
}

/// Runs a tool to its end (O4).
fn call(command: &mut Command) -> Result<(), Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Trouble::Missing(format!("`{name}` is not installed")),
        _ => Trouble::Failed(format!("`{name}` does not start: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(Trouble::Failed(format!("`{name}` fails: {first}")))
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
    let index = Index { items: &doc["index"], paths: &doc["paths"] };
    let Some(root) = id(&doc["root"]) else { return BTreeMap::new() };
    let futures = index.futures();
    let mut found = BTreeMap::new();
    for Public { path, id: item, place } in index.public(root) {
        let inner = &index.items[&item]["inner"];
        if inner.get("macro").is_some() || index.paths[&item]["kind"] == "macro" {
            found.insert(format!("{path}!"), place);
            continue;
        }
        if index.is_operation(&item, &futures) {
            found.insert(path, place);
            continue;
        }
        let mut note = |method: &str| {
            let value = &index.items[method];
            let name = value["name"].as_str().unwrap_or_default();
            if index.is_operation(method, &futures) {
                found.insert(format!("{path}::{name}"), Place::of(value));
            }
        };
        ids(&inner["trait"]["items"]).for_each(|method| note(&method));
        let kind = ["struct", "enum", "union"].iter().find_map(|kind| inner.get(kind));
        let blocks: Vec<_> = kind.into_iter().flat_map(|kind| ids(&kind["impls"])).collect();
        let blocks = || blocks.iter().map(|block| &index.items[block]["inner"]["impl"]);
        let inherent = blocks().filter(|block| block["trait"]["path"].is_null());
        let methods = inherent.flat_map(|block| ids(&block["items"]));
        methods.filter(|id| index.items[id]["visibility"] == "public").for_each(|id| note(&id));
        // Implementations for references name the type, and are not listed with it twice.
        let traits = blocks().filter_map(|block| last(&block["trait"]["path"]));
        for name in traits.filter(|name| TRAITS.contains(name)) {
            found.insert(format!("{path}: {name}"), place.clone());
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

/// The numbers of a list of items.
fn ids(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().filter_map(id)
}

/// The last part of a path that is written with colons.
fn last(path: &Value) -> Option<&str> {
    path.as_str()?.rsplit("::").next()
}

/// The items of the library, and the paths of all items that it names, by number.
struct Index<'a> {
    items: &'a Value,
    paths: &'a Value,
}

/// An item that users reach.
struct Public {
    path: String,
    id: String,
    /// Where it is defined; of another library's, where it is imported.
    place: Place,
}

impl Index<'_> {
    /// Numbers of the types that are futures, or say whether one is ready (O1).
    fn futures(&self) -> HashSet<u64> {
        let items = || self.items.as_object().into_iter().flatten().map(|(_, item)| item);
        let blocks = items().filter_map(|item| item["inner"].get("impl"));
        let futures = blocks
            .filter(|block| matches!(last(&block["trait"]["path"]), Some("Future" | "IntoFuture")));
        let mut found: HashSet<u64> =
            futures.filter_map(|block| block["for"]["resolved_path"]["id"].as_u64()).collect();
        let polls = self.paths.as_object().into_iter().flatten();
        let polls =
            polls.filter(|(_, item)| item["path"] == json!(["core", "task", "poll", "Poll"]));
        found.extend(polls.filter_map(|(id, _)| id.parse::<u64>().ok()));
        // An alias may stand for another one.
        loop {
            let aliases =
                items().filter(|item| mentions(&item["inner"]["type_alias"]["type"], &found));
            let aliases: Vec<u64> = aliases.filter_map(|item| item["id"].as_u64()).collect();
            let before = found.len();
            found.extend(aliases);
            if found.len() == before {
                return found;
            }
        }
    }

    /// Public items that are no modules, each by its shortest path. Macros of other libraries are among them.
    fn public(&self, root: String) -> Vec<Public> {
        let mut found = HashMap::new();
        let mut modules = VecDeque::from([(String::new(), root)]);
        let mut seen = HashSet::new();
        while let Some((path, module)) = modules.pop_front() {
            if !seen.insert(module.clone()) {
                continue;
            }
            for named in ids(&self.items[&module]["inner"]["module"]["items"]) {
                let value = &self.items[&named];
                let (name, id) = match value["inner"].get("use") {
                    Some(import) => (import["name"].as_str(), id(&import["id"])),
                    None => (value["name"].as_str(), Some(named)),
                };
                let (Some(name), Some(id)) = (name, id) else { continue };
                let path =
                    if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") };
                match self.items.get(&id) {
                    Some(item) if item["inner"].get("module").is_some() => {
                        modules.push_back((path, id));
                    }
                    None if self.paths[&id]["kind"] != "macro" => {}
                    item => {
                        let place = Place::of(item.unwrap_or(value));
                        found.entry(id.clone()).or_insert(Public { path, id, place });
                    }
                }
            }
        }
        found.into_values().collect()
    }

    /// Whether a function is an operation, if it is public (O1).
    fn is_operation(&self, id: &str, futures: &HashSet<u64>) -> bool {
        let Some(function) = self.items[id]["inner"].get("function") else { return false };
        function["header"]["is_async"] == true || mentions(&function["sig"]["output"], futures)
    }
}

/// Whether a type is made of one of these, or of a future that has no name.
fn mentions(ty: &Value, types: &HashSet<u64>) -> bool {
    match ty {
        Value::Object(fields) => {
            let this = fields.get("resolved_path").and_then(|path| path["id"].as_u64());
            // `trait` is a part of `impl Trait` and of `dyn Trait`.
            let bound = fields.get("trait").and_then(|bound| last(&bound["path"]));
            this.is_some_and(|id| types.contains(&id))
                || bound == Some("Future")
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

/// Names of cases and exemptions, with where they are (O3).
fn cases(files: &[(String, String)]) -> Vec<(String, Place)> {
    let mut found = Vec::new();
    for (file, text) in files {
        let source = Source::new(file, text);
        let names = names(&source.code, text);
        found.extend(names.into_iter().map(|(at, name)| {
            (name.to_owned(), Place { file: file.clone(), line: source.line_of(at) })
        }));
    }
    found
}

/// Where a name is, as far as brackets, statements and strings tell (O3).
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Where a statement of a macro call begins.
    Start,
    /// Within a name that begins here.
    Name(usize),
    /// Within another string.
    Text,
    Elsewhere,
}

/// Names in a file, with their offsets. In `code`, the insides of strings are spaces (R1 of `source`).
fn names<'a>(code: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let (mut found, mut at) = (Vec::new(), At::Elsewhere);
    // Open brackets, and whether the outermost is that of a macro call.
    let (mut depth, mut is_call, mut before) = (0usize, false, b' ');
    for (offset, byte) in code.bytes().enumerate() {
        at = match (at, byte) {
            (At::Name(start), b'"') => {
                found.push((start, &text[start + 1..offset]));
                At::Start
            }
            (At::Text, b'"') => At::Elsewhere,
            (At::Name(_) | At::Text, _) => continue,
            (At::Start, b'"') => At::Name(offset),
            (At::Elsewhere, b'"') => At::Text,
            (_, b'(' | b'[' | b'{') => {
                depth += 1;
                is_call = if depth == 1 { before == b'!' } else { is_call };
                if depth == 1 && is_call { At::Start } else { At::Elsewhere }
            }
            (_, b')' | b']' | b'}') => {
                depth = depth.saturating_sub(1);
                At::Elsewhere
            }
            (_, b';') if depth == 1 && is_call => At::Start,
            (At::Start, b',' | b' ' | b'\n') => At::Start,
            _ => At::Elsewhere,
        };
        if !byte.is_ascii_whitespace() {
            before = byte;
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
    let stale = cases.iter().filter(|(name, _)| !operations.contains_key(name));
    let stale = stale.map(|(name, place)| {
        let text = format!("there is no public asynchronous operation `{name}`");
        Finding::error(&place.file, place.line, "budget", text)
    });
    missing.chain(stale).collect()
}

#[cfg(test)]
mod tests;
