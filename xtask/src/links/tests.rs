use super::*;
use crate::assert_none;

/// Lines and texts of the findings in one file, seen from this workspace's root.
fn found(name: &str, text: &str) -> Vec<(usize, String)> {
    let files = [(name.to_owned(), text.to_owned())];
    let findings = check(&crate::root(), &files);
    findings.into_iter().map(|f| (f.line, f.text)).collect()
}

#[test]
fn links_to_files_and_sites_pass() {
    let text = "[a](Cargo.toml) [b](src/main.rs \"title\") ![c](<src/links.rs>)\n\
                [d](../xtask/Cargo.toml) [e](https://x.y/z) [f](mailto:a@b.c)\n\n[g]: src/words.rs\n";
    assert_none(found("xtask/a.md", text), "");
    assert_none(found("a.md", "[a](xtask/Cargo.toml) [b](./xtask/src)"), "");
}

#[test]
fn broken_links_are_found_with_their_line() {
    let found = found("xtask/a.md", "text\n[a](gone.md) and [b](src/gone.rs#x)\n\n[c]: ../gone\n");
    let expected = [
        (2, "`gone.md` leads to no file"),
        (2, "`src/gone.rs#x` leads to no file"),
        (4, "`../gone` leads to no file"),
    ];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn code_is_not_searched() {
    let text =
        "`[a](gone)`\n```md\n[b](gone)\n```\n~~~\n[c](gone)\n~~~\n````\n```\n[d](gone)\n````\n";
    assert_none(found("a.md", text), "");
    assert_eq!(found("a.md", "a ` lone [x](gone)").len(), 1);
}

#[test]
fn headings_are_looked_up() {
    let own = "# One two\n[a](#one-two) [b](#three)";
    assert_eq!(found("a.md", own), [(2, "`#three` leads to no heading of a.md".to_owned())]);
    let text =
        anchors("# Queue: the *ring*\n## Again\n## Again\n```\n# no\n```\n#hash\n# `a_b`-c\n");
    assert_eq!(text, ["queue-the-ring", "again", "again-1", "a_b-c"]);
}

#[test]
fn paths_resolve_from_the_linking_file() {
    assert_eq!(resolve("docs/adr/README.md", "../../README.md"), "README.md");
    assert_eq!(resolve("docs/adr/README.md", "./0001-x.md"), "docs/adr/0001-x.md");
    assert_eq!(resolve("README.md", "../outside.md"), "../outside.md");
    assert_eq!(resolve("README.md", ""), "README.md");
}
