//! Says which tests were skipped. Cargo runs the tests of a package in the order of their names, so this is the last of
//! them.

#[path = "../../jobs/tests/skipped/mod.rs"]
mod skipped;

#[test]
fn skipped_tests_are_named() {
    let programs = [
        ("redis-server", "redis-server"),
        ("faketime", "faketime"),
        ("tmux", "tmux"),
        ("promtool", "prometheus"),
        ("nginx", "nginx-light"),
        ("sqlite3", "sqlite3"),
    ];
    let features = [
        ("redis", cfg!(feature = "redis-tls")),
        ("serve", cfg!(feature = "serve")),
        ("top", cfg!(feature = "top")),
    ];
    skipped::tell(&programs, &features);
}
