use super::*;

fn code(text: &str) -> String {
    let source = Source::new("filch/src/x.rs", text);
    assert_eq!(source.code.len(), text.len());
    source.code
}

fn test_words(text: &str) -> Vec<String> {
    let source = Source::new("filch/src/x.rs", text);
    let marked = source.words().filter(|(pos, _)| source.in_test(*pos));
    marked.map(|(_, word)| word.to_owned()).collect()
}

#[test]
fn comments_and_strings_leave_the_code() {
    assert_eq!(code("a // b\nc"), "a     \nc");
    assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
    assert_eq!(code("f(\"x // y\") // z"), "f(\"      \")     ");
    assert_eq!(code("f(\"\\\"\", b)"), "f(\"  \", b)");
    assert_eq!(code("r#\"a\"b\"# c"), "\"      \" c");
    assert_eq!(code("br\"a\\\" c"), "\"    \" c");
    assert_eq!(code("b'{' c"), "\"  \" c");
    assert_eq!(code("'\\'' '\\u{7b}' 'ü' x"), "\"  \" \"      \" \"  \" x");
}

#[test]
fn lifetimes_and_raw_names_stay_code() {
    assert_eq!(code("&'a T<'static>"), "&'a T<'static>");
    assert_eq!(code("r#type + for_r"), "r#type + for_r");
    assert_eq!(code("'outer: loop { break 'outer }"), "'outer: loop { break 'outer }");
}

#[test]
fn comment_text_is_found_by_line() {
    let source = Source::new("x.rs", "a(); // one\n/* two\n   three */ b\n\"// no\"\n");
    let comments: Vec<_> = (1..=4).map(|n| source.comment_on(n)).collect();
    assert_eq!(comments, ["// one", "/* two", "three */", ""]);
    assert_eq!(source.code_on(3), "b");
    assert_eq!(source.comment_on(99), "");
}

#[test]
fn unterminated_literals_end_with_the_file() {
    for text in ["\"abc", "r#\"abc", "/* abc", "'", "b'", "\"a\\"] {
        let _ = Source::new("x.rs", text);
    }
}

#[test]
fn test_only_items_are_marked_and_nothing_else() {
    let words = test_words("fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}");
    assert_eq!(words, ["cfg", "test", "mod", "tests", "fn", "b"]);
    let words = test_words("#[cfg(all(test, not(loom)))]\nfn b(x: [u8; 2]) { y }\nfn c() {}");
    assert!(words.contains(&"y".to_owned()) && !words.contains(&"c".to_owned()));
}

#[test]
fn cfg_that_may_hold_outside_tests_marks_nothing() {
    for condition in ["not(test)", "any(test, loom)", "loom", "feature = \"test\"", "all()"] {
        let words = test_words(&format!("#[cfg({condition})]\nfn b() {{}}"));
        assert!(words.is_empty(), "{condition}");
    }
    assert!(!test_words("#[cfg(any(test, all(test, loom)))] fn b() {}").is_empty());
}

#[test]
fn inner_attribute_marks_the_whole_file() {
    assert_eq!(test_words("#![cfg(test)]\nfn b() {}").len(), 4);
}

#[test]
fn files_of_test_modules_are_marked() {
    let declares =
        "#[cfg(all(test, loom))]\nmod model;\n#[cfg(test)]\npub(crate) mod tests;\nmod real;";
    let mut sources = vec![
        Source::new("filch/src/queue/ring.rs", declares),
        Source::new("filch/src/queue/ring/model.rs", "x"),
        Source::new("filch/src/queue/ring/tests/more.rs", "x"),
        Source::new("filch/src/queue/ring/real.rs", "x"),
        Source::new("filch/src/idle/mod.rs", "#[cfg(test)] mod tests;"),
        Source::new("filch/src/idle/tests.rs", "x"),
        Source::new("filch/src/idle/testsuite.rs", "x"),
        Source::new("filch/tests/it/main.rs", "x"),
    ];
    mark_test_files(&mut sources);
    let marked: Vec<_> = sources.iter().map(|s| s.in_test(0)).collect();
    assert_eq!(marked, [true, true, true, false, true, true, false, true]);
}

#[test]
fn statement_begins_behind_the_last_boundary() {
    let text = "fn f() { a(); let x = [0; 4]; let y = g(|| b, c); }";
    let source = Source::new("x.rs", text);
    let start = |word: &str| {
        let pos = text.find(word).expect("there");
        source.code[source.statement_start(pos)..].split('(').next().map(str::to_owned)
    };
    assert_eq!(start("c);").as_deref(), Some("let y = g"));
    assert_eq!(start("4").as_deref(), Some("4]; let y = g"));
    assert_eq!(start("= [").as_deref(), Some("let x = [0; 4]; let y = g"));
}

#[test]
fn inline_modules_are_counted() {
    let text = "mod a { mod b { x } y } mod c; z";
    let source = Source::new("x.rs", text);
    let depth = |word: &str| source.inline_depth(text.find(word).expect("there"));
    assert_eq!((depth("x"), depth("y"), depth("z")), (2, 1, 0));
}
