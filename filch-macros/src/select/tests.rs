use std::str::FromStr;

use super::*;

fn tokens(text: &str) -> TokenStream {
    TokenStream::from_str(text).expect("tokens")
}

/// Whether the expansion is the refusal `text`, or else an expression.
#[track_caller]
fn assert_refused(expansion: &TokenStream, text: &str) {
    let expected = tokens(&format!("::core::compile_error! {{ {text:?} }}")).to_string();
    assert_eq!(expansion.to_string(), expected);
}

#[track_caller]
fn assert_expression(expansion: TokenStream) -> String {
    let text = expansion.to_string();
    assert!(!text.contains("compile_error"), "{text}");
    syn::parse2::<Expr>(expansion).expect("the expansion parses");
    text
}

#[test]
fn select_of_an_else_alone_counts_and_is_what_it_says() {
    for text in ["else => 7", "else => 7,", "biased; else => { 7 }"] {
        let expansion = assert_expression(select(tokens(text)));
        assert_eq!(expansion.matches("await").count(), 1, "{expansion}");
        assert!(expansion.contains("proceed"), "{expansion}");
    }
}

#[test]
fn select_of_nothing_is_refused() {
    let text = "`select!` needs a branch: `pattern = future => expression`";
    for empty in ["", "biased;"] {
        let expansion = select(tokens(empty)).to_string();
        assert!(expansion.contains("compile_error") && expansion.contains(text), "{expansion}");
    }
    let expansion = select(tokens("else => 1, () = a => 2")).to_string();
    assert!(expansion.contains("`else` is the last branch"), "{expansion}");
}

#[test]
fn race_of_nothing_is_refused() {
    for empty in ["", "biased;"] {
        assert_refused(&race(tokens(empty)), "`race!` needs a future");
    }
}

#[test]
fn join_takes_nothing_and_a_bias() {
    for kind in [Join::All, Join::Try] {
        for text in ["", "biased;", "a", "a, b,", "biased; a, b"] {
            assert_expression(join(kind, tokens(text)));
        }
    }
    let (fair, biased) = (join(Join::All, tokens("a, b")), join(Join::All, tokens("biased; a, b")));
    assert!(fair.to_string().contains("first"));
    assert!(!biased.to_string().contains("first"));
}
