//! Programs that must not compile.

#[test]
fn borrowing_and_unsendable_tasks_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
