//! The programs of the pages that need a server run, in processes of their own: as a reader runs them.
//!
//! `tests/pages.rs` compares their files in `tests/pages` with the pages.

use std::process::Command;

use tickwheel_jobs::Jobs;

use crate::server::Server;

#[allow(dead_code, clippy::all, reason = "as the page has it")]
mod machines {
    include!("../pages/machines.rs");

    pub(super) const MAIN: fn() -> Result<(), Box<dyn std::error::Error>> = main;
}

/// The environment variable in which a program finds its server.
const URL: &str = "REDIS_URL";
/// The environment variable that says to a child that it is one: a reader's shell may have the other.
const CHILD: &str = "TICKWHEEL_PAGES_PROGRAM";

/// Both nodes of the cookbook's program run jobs, and together they run all.
#[test]
fn program_of_the_cookbook_shares_jobs_between_two_nodes() {
    let server = Server::start();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pages::several_machines", "--ignored", "--nocapture"])
        .env(CHILD, "machines")
        .env(URL, server.url())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{out}{}", String::from_utf8_lossy(&child.stderr));
    let runs = |node: &str| out.matches(&format!("node {node}: photo ")).count();
    let (ann, ben) = (runs("ann"), runs("ben"));
    assert!(ann > 0 && ben > 0 && ann + ben >= 40, "{out}");
    let queue = Jobs::redis(server.url()).unwrap().queue("photos").client().unwrap();
    let counts = queue.count().unwrap();
    assert_eq!((counts.pending, counts.claimed + counts.running, counts.dead), (0, 0, 0));
    queue.check().unwrap();
}

/// A child of the test above.
#[test]
#[ignore = "a process of its own runs it, with the URL of a server"]
fn several_machines() {
    if std::env::var_os(CHILD).is_some() {
        (machines::MAIN)().unwrap();
    }
}
