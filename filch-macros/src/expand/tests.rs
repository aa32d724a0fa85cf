use std::str::FromStr;

use super::*;

fn tokens(text: &str) -> TokenStream {
    TokenStream::from_str(text).expect("tokens")
}

fn expanded(kind: Kind, options: &str, item: &str) -> String {
    expand(kind, tokens(options), tokens(item)).to_string()
}

/// The message, and the source text that the compiler would underline.
fn refused(kind: Kind, item: &str) -> (String, String) {
    let function = syn::parse_str::<ItemFn>(item).expect("a function");
    let error = check(kind, &Options::default(), &function).expect_err("refused");
    let underlined = error.span().source_text().unwrap_or_default();
    (error.to_string(), underlined)
}

#[track_caller]
fn assert_expands(kind: Kind, options: &str, item: &str, expected: &str) {
    let result = expanded(kind, options, item);
    syn::parse_str::<syn::File>(&result).expect("the expansion parses");
    assert_eq!(result, tokens(expected).to_string());
}

#[test]
fn plain_main_runs_on_the_default_runtime() {
    assert_expands(
        Kind::Main,
        "",
        "async fn main() { work().await }",
        "fn main() { async fn main() { work().await } ::filch::block_on(main()) }",
    );
}

#[test]
fn main_keeps_attributes_visibility_and_return_type() {
    assert_expands(
        Kind::Main,
        "",
        "#[doc = \"x\"] #[allow(unused)] pub(crate) async fn start() -> io::Result<()> { Ok(()) }",
        "#[doc = \"x\"] #[allow(unused)] pub(crate) fn start() -> io::Result<()> {
            async fn start() -> io::Result<()> { Ok(()) }
            ::filch::block_on(start())
        }",
    );
}

#[test]
fn main_with_options_builds_a_runtime() {
    assert_expands(
        Kind::Main,
        "compute_workers = 4, io_workers = 2",
        "async fn main() {}",
        "fn main() {
            async fn main() {}
            match ::filch::Runtime::builder().io_workers(2usize).compute_workers(4usize).build() {
                ::core::result::Result::Ok(runtime) => runtime.block_on(main()),
                ::core::result::Result::Err(error) => ::core::panic!(
                    \"#[filch::main]: the runtime did not start: {}\", error),
            }
        }",
    );
}

#[test]
fn overrides_follow_workers_whatever_order_they_were_written_in() {
    let text = expanded(Kind::Main, "io_workers = 1, workers = 8", "async fn main() {}");
    let calls = tokens("builder().workers(8usize).io_workers(1usize).build()").to_string();
    assert!(text.contains(&calls), "{text}");
}

#[test]
fn test_builds_its_own_runtime_and_keeps_attributes() {
    assert_expands(
        Kind::Test,
        "",
        "#[should_panic(expected = \"boom\")] #[ignore] async fn fails() { panic!(\"boom\") }",
        "#[::core::prelude::v1::test]
        #[should_panic(expected = \"boom\")] #[ignore]
        fn fails() {
            async fn fails() { panic!(\"boom\") }
            match ::filch::Runtime::builder().workers(2usize).build() {
                ::core::result::Result::Ok(runtime) => runtime.block_on(fails()),
                ::core::result::Result::Err(error) => ::core::panic!(
                    \"#[filch::test]: the runtime did not start: {}\", error),
            }
        }",
    );
}

#[test]
fn single_thread_asks_for_no_count() {
    for kind in [Kind::Main, Kind::Test] {
        let text = expanded(kind, "single_thread", "async fn f() {}");
        let calls = tokens("::filch::Runtime::builder().single_thread(true).build()").to_string();
        assert!(text.contains(&calls), "{text}");
    }
}

#[test]
fn function_that_is_not_async_is_refused_at_fn() {
    for (kind, attribute) in [(Kind::Main, "main"), (Kind::Test, "test")] {
        let (text, at) = refused(kind, "pub fn f() {}");
        assert_eq!(text, format!("#[filch::{attribute}] needs an `async fn`"));
        assert_eq!(at, "fn");
    }
}

#[test]
fn arguments_are_refused_where_they_stand() {
    let (text, at) = refused(Kind::Main, "async fn main(a: u8, b: u8) {}");
    assert_eq!(text, "#[filch::main] needs a function without arguments");
    assert_eq!(at, "a: u8, b: u8");
}

#[test]
fn generics_are_refused_where_they_stand() {
    let text = "#[filch::test] needs a function without generics".to_owned();
    assert_eq!(
        refused(Kind::Test, "async fn f<const N: usize>() {}"),
        (text.clone(), "<const N: usize>".into())
    );
    assert_eq!(
        refused(Kind::Test, "async fn f() where u8: Copy {}"),
        (text, "where u8: Copy".into())
    );
}

#[test]
fn unsafe_and_extern_functions_are_refused() {
    assert_eq!(refused(Kind::Main, "async unsafe fn f() {}").1, "unsafe");
    assert_eq!(refused(Kind::Main, "async extern \"C\" fn f() {}").1, "extern \"C\"");
}

#[test]
fn second_test_attribute_is_refused() {
    for second in ["#[test]", "#[tokio::test]"] {
        let (text, at) = refused(Kind::Test, &format!("{second} async fn f() {{}}"));
        assert_eq!(text, "#[filch::test] does not combine with a test attribute");
        assert_eq!(at, second);
    }
}

#[test]
fn refused_function_still_exists() {
    assert_expands(
        Kind::Main,
        "threads",
        "#[inline] pub async fn main() -> T { body() }",
        "::core::compile_error! { \"unknown option `threads`; known are `workers`, `io_workers`, \
            `compute_workers`, `single_thread`, `sim`, `seeds`\" }
        pub fn main() {
            #[allow(dead_code)]
            async fn main() -> T { body() }
        }",
    );
}

#[test]
fn something_that_is_no_function_comes_back_with_an_error() {
    assert_expands(
        Kind::Test,
        "",
        "struct S;",
        "::core::compile_error! { \"#[filch::test] goes on an `async fn` with a body\" }
        struct S;",
    );
}

#[test]
fn simulated_test_runs_once_for_each_seed() {
    assert_expands(
        Kind::Test,
        "sim, seeds = 1000",
        "#[ignore] async fn races() -> io::Result<()> { Ok(()) }",
        "#[::core::prelude::v1::test]
        #[ignore]
        fn races() {
            async fn races() -> io::Result<()> { Ok(()) }
            ::filch::testkit::Sim::new().check(0..1000u64, || ::filch::block_on(races()))
        }",
    );
}

#[test]
fn simulated_test_may_be_a_plain_function_and_count_workers() {
    assert_expands(
        Kind::Test,
        "io_workers = 1, sim, workers = 3",
        "fn races() { body() }",
        "#[::core::prelude::v1::test]
        fn races() {
            fn races() { body() }
            ::filch::testkit::Sim::new().workers(3usize).io_workers(1usize).check(0..100u64, races)
        }",
    );
    let text = expanded(Kind::Test, "sim, single_thread", "fn f() {}");
    let calls = tokens("::filch::testkit::Sim::new().single_thread().check(0..100u64, f)");
    assert!(text.contains(&calls.to_string()), "{text}");
}

#[test]
fn simulated_main_is_refused() {
    let text = expanded(Kind::Main, "sim", "async fn main() {}");
    assert!(text.contains("`sim` is for #[filch::test]"), "{text}");
}
