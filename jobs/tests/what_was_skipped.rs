//! Says which tests were skipped: those whose program is not installed, and those of features that are off.
//!
//! Cargo runs the tests of a package in the order of their names, so this is the last of them.

use std::io::Write;
use std::{env, io};

/// The programs that tests start, the package of Debian that has each, and whether the features are on whose tests
/// start it.
const PROGRAMS: [(&str, &str, bool); 7] = [
    ("redis-server", "redis-server", cfg!(feature = "redis")),
    ("faketime", "faketime", cfg!(feature = "redis")),
    ("tmux", "tmux", cfg!(feature = "top")),
    ("promtool", "prometheus", cfg!(feature = "cli")),
    ("chromium", "chromium", cfg!(feature = "web")),
    ("nginx", "nginx-light", cfg!(feature = "serve")),
    ("sqlite3", "sqlite3", cfg!(feature = "cli")),
];

const FEATURES: [(&str, bool); 8] = [
    ("sqlite", cfg!(feature = "sqlite")),
    ("redis", cfg!(feature = "redis-tls")),
    ("cron", cfg!(feature = "cron")),
    ("tokio", cfg!(feature = "tokio")),
    ("tracing", cfg!(feature = "tracing")),
    ("web", cfg!(feature = "web")),
    ("serve", cfg!(feature = "serve")),
    ("top", cfg!(feature = "top")),
];

fn is_installed(program: &str) -> bool {
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(&file).is_file())
}

/// Writes a line if tests were skipped. Cargo shows it, but not what a test that passes prints by `eprintln!`.
#[test]
fn skipped_tests_are_named() {
    let missing = PROGRAMS.iter().filter(|(program, _, starts)| *starts && !is_installed(program));
    let (programs, packages): (Vec<_>, Vec<_>) =
        missing.map(|(program, package, _)| (*program, *package)).unzip();
    let off: Vec<_> = FEATURES.iter().filter(|(_, is_on)| !is_on).map(|(name, _)| *name).collect();
    let mut skipped = Vec::new();
    if !programs.is_empty() {
        let (programs, packages) = (programs.join(", "), packages.join(" "));
        skipped.push(format!("the tests that start {programs} (apt-get install {packages})"));
    }
    if !off.is_empty() {
        skipped.push(format!("the tests of the features {} (--all-features)", off.join(", ")));
    }
    if !skipped.is_empty() {
        let _ = writeln!(io::stderr(), "\nSkipped: {}.", skipped.join("; "));
    }
}
