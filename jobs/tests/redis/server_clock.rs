//! A server whose clock is set while it runs, and while no client calls.
//!
//! `settable_clock.c` tells the server the time. It is compiled by the test: SQLite, which the other
//! stores need, wants a C compiler too. Without one the test is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tickwheel_jobs::Run;

use crate::server::{Server, pause, wait_until};
use crate::support::{MS, Order, in_hand, open};

/// What a run of a healthy process is late at most on a loaded machine, and less than any clock is set by.
const LOADED: Duration = Duration::from_secs(120);
const WAIT: Duration = Duration::from_millis(300);

/// A folder with the library and the file that says by how much the clock is ahead.
struct Clock(TempDir);

impl Clock {
    fn new() -> Option<Clock> {
        let clock = Clock(tempfile::tempdir().unwrap());
        clock.set(0);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/settable_clock.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&clock.library(), &source])
            .stderr(Stdio::null())
            .status();
        if !compiled.is_ok_and(|status| status.success()) {
            eprintln!("skipped: it needs a C compiler, `cc`");
            return None;
        }
        Some(clock)
    }

    fn library(&self) -> PathBuf {
        self.0.path().join("settable_clock.so")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("ahead")
    }

    /// Sets the clock a number of seconds ahead of the true time.
    fn set(&self, seconds: i64) {
        // The file is replaced as a whole, so the server reads the one or the other.
        let new = self.0.path().join("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    fn environment(&self) -> Vec<(String, PathBuf)> {
        vec![("LD_PRELOAD".into(), self.library()), ("CLOCK_FILE".into(), self.file())]
    }
}

fn servers_time(server: &Server) -> SystemTime {
    let (seconds, micros): (u64, u32) = server.ask(&["TIME"]);
    UNIX_EPOCH + Duration::new(seconds, micros * 1000)
}

/// A start, as its handler saw it.
#[derive(Clone, Debug)]
struct Start {
    order: u64,
    due: SystemTime,
    late: Duration,
    /// By the clock of the server.
    at: SystemTime,
}

/// Redis P7: A client or node that was idle while the server's clock was set follows the new time in its first call: a
/// job with a short delay starts after that delay, neither ten minutes early nor ten minutes late.
#[test]
fn server_clock_that_is_set_is_followed_by_idle_processes() {
    let Some(clock) = Clock::new() else { return };
    let options = ["--save", "", "--appendonly", "no"];
    let server = Arc::new(Server::with_environment(clock.environment(), &options));
    let starts: Arc<Mutex<Vec<Start>>> = Arc::default();
    let (noted, asked) = (Arc::clone(&starts), Arc::clone(&server));
    let handler = move |order: Order, run: &Run| {
        let at = servers_time(&asked);
        let (due, late) = (run.due(), run.late());
        noted.lock().unwrap().push(Start { order: order.0, due, late, at });
        Ok(())
    };
    let jobs = open(&server).handle(handler).start().unwrap();
    let client = open(&server).client().unwrap();
    let start_of = |order: u64| {
        let found = || starts.lock().unwrap().iter().find(|start| start.order == order).cloned();
        wait_until("it ran", || found().is_some());
        found().unwrap()
    };
    client.insert(Duration::ZERO, Order(0)).unwrap();
    start_of(0);
    for (n, ahead) in [600, 0, -600].into_iter().enumerate() {
        // No call is made, so the client has not heard from the server for more than two seconds.
        pause(2500 * MS);
        let before = servers_time(&server);
        clock.set(ahead);
        let step = 600.0 * if n == 0 { 1.0 } else { -1.0 };
        let stepped = servers_time(&server).duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
            - before.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((stepped - step).abs() < 60.0, "the server's clock was set by {stepped} s");
        let order = 1 + 2 * n as u64;
        let from = servers_time(&server);
        client.insert(WAIT, Order(order)).unwrap();
        let by_client = (from, servers_time(&server));
        // The node hears the server each second: it knows by now.
        let start = start_of(order);
        let from = servers_time(&server);
        jobs.insert(WAIT, Order(order + 1)).unwrap();
        let by_node = (from, servers_time(&server));
        for (start, (from, to)) in [(start, by_client), (start_of(order + 1), by_node)] {
            // A deadline has whole milliseconds, and what a process knows of the server's clock is exact to
            // a round trip.
            assert!(start.due + LOADED >= from + WAIT, "{ahead}: {start:?}, not {from:?}");
            assert!(start.due <= to + WAIT + LOADED, "{ahead}: {start:?}, not {to:?}");
            assert!(start.at >= start.due, "{ahead}: early: {start:?}");
            assert!(start.late < LOADED, "{ahead}: {start:?}");
        }
    }
    wait_until("all ended", || in_hand(&client) == 0);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let mut orders: Vec<u64> = starts.lock().unwrap().iter().map(|start| start.order).collect();
    orders.sort_unstable();
    assert_eq!(orders, [0, 1, 2, 3, 4, 5, 6]);
}
