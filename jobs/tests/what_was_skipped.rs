//! Says which tests were skipped. Cargo runs the tests of a package in the order of their names, so this is the last of
//! them.

mod skipped;

#[test]
fn skipped_tests_are_named() {
    let programs = [("redis-server", "redis-server"), ("faketime", "faketime")];
    let features = [
        ("sqlite", cfg!(feature = "sqlite")),
        ("redis", cfg!(feature = "redis-tls")),
        ("cron", cfg!(feature = "cron")),
        ("tokio", cfg!(feature = "tokio")),
        ("tracing", cfg!(feature = "tracing")),
    ];
    skipped::tell(&programs, &features);
}
