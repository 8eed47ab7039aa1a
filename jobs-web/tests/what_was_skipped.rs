//! Says which tests were skipped. Cargo runs the tests of a package in the order of their names, so this is the last of
//! them.

#[path = "../../jobs/tests/skipped/mod.rs"]
mod skipped;

#[test]
fn skipped_tests_are_named() {
    let programs = [("redis-server", "redis-server"), ("chromium", "chromium")];
    skipped::tell(&programs, &[]);
}
