//! Servers for tests that are skipped where `redis-server` is not installed.

use std::process::{Command, Stdio};

use crate::server::Server;

/// Starts a server that takes no snapshots; or says what is missing, and returns none.
pub(crate) fn server(options: &[&str]) -> Option<Server> {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    if version.is_err() {
        eprintln!(
            "skipped: it starts `redis-server` (6.2 or later), which is not installed: on Debian it \
             is in the package redis-server"
        );
        return None;
    }
    let mut all = vec!["--save", ""];
    all.extend(options);
    Some(Server::with(&all))
}
