//! Two builds of the crate on one store, as in a deploy and in a return to the version before.
//!
//! A *build* is the command, and a program that runs jobs: a test of this file in a process of its own. By default both
//! builds are the present one. A release is compared with the one before it by two variables, as `docs/releasing.md`
//! of the repository says:
//!
//! | variable | names of the earlier build |
//! | --- | --- |
//! | `TICKWHEEL_EARLIER_COMMAND` | the command `tickwheel-jobs`, with the feature `redis` |
//! | `TICKWHEEL_EARLIER_WORKER` | the executable of `tests/cli_redis.rs` |
//!
//! So the name of [`worker_of_a_build`], its variables, its kinds and the lines that it prints never change.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{env, thread};

use serde_json::Value;
use tickwheel_jobs::{Fail, Jobs, OpenError, Retry, Schedule};

use crate::server::pause;
use crate::shared::{Close, Ended, LONG, Push, lines, wait_until};

/// The order whose first run lasts until its process is killed.
const STUCK: u64 = 1_000_000;

const STORE: &str = "TICKWHEEL_BUILDS_STORE";
/// Set if the worker can send pushes.
const ROUTE: &str = "TICKWHEEL_BUILDS_ROUTE";

struct Build {
    command: String,
    worker: String,
}

impl Build {
    fn earlier() -> Build {
        let present = Build::present();
        Build {
            command: env::var("TICKWHEEL_EARLIER_COMMAND").unwrap_or(present.command),
            worker: env::var("TICKWHEEL_EARLIER_WORKER").unwrap_or(present.worker),
        }
    }

    fn present() -> Build {
        Build {
            command: env!("CARGO_BIN_EXE_tickwheel-jobs").to_owned(),
            worker: env::current_exe().unwrap().to_str().unwrap().to_owned(),
        }
    }

    fn call(&self, store: &str, args: &[&str]) -> Ended {
        Ended::of(Command::new(&self.command).arg(store).args(args))
    }

    fn ok(&self, store: &str, args: &[&str]) -> String {
        self.call(store, args).ok()
    }

    fn list(&self, store: &str, state: &str) -> Vec<Value> {
        lines(&self.ok(store, &["list", state, "--json"]))
    }

    /// Starts a process that runs the jobs of the store.
    fn worker(&self, store: &str, has_route: bool) -> Worker {
        let mut command = Command::new(&self.worker);
        command.args(["--exact", "two_builds::worker_of_a_build", "--ignored", "--nocapture"]);
        command.env(STORE, store).env_remove(ROUTE);
        if has_route {
            command.env(ROUTE, "1");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let printed = BufReader::new(process.stderr.take().unwrap());
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            for line in printed.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Worker { process, said }
    }
}

struct Worker {
    process: Child,
    said: Receiver<String>,
}

impl Worker {
    fn started(self) -> Worker {
        self.expect("started");
        self
    }

    /// Waits for a line.
    fn expect(&self, wanted: &str) {
        loop {
            match self.said.recv_timeout(LONG) {
                Ok(line) if line == wanted => return,
                Ok(_) => {}
                Err(error) => panic!("the worker never printed {wanted:?}: {error}"),
            }
        }
    }

    /// Lets the worker end its runs, and waits for its end.
    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// As `kill -9` does, if the worker has not ended.
impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the jobs of a store until its standard input ends, and prints what it does.
#[test]
#[ignore = "a process of its own runs it"]
fn worker_of_a_build() {
    let Ok(store) = env::var(STORE) else { return };
    let has_route = env::var_os(ROUTE).is_some();
    let jobs = loop {
        let builder = match store.starts_with("redis:") {
            true => Jobs::redis(&store),
            false => Jobs::open(&store),
        };
        let builder = builder.unwrap().threads(1).lease(Duration::from_secs(2));
        let builder = builder.handle(|Close(order): Close, run| {
            eprintln!("begins {order}");
            let is_stuck = order >= STUCK && run.attempt() == 1;
            pause(if is_stuck { 10 * LONG } else { Duration::from_millis(20) });
            eprintln!("ran {order}");
            Ok(())
        });
        let builder = builder.handle_with(Retry::never(), move |push: Push, _| {
            eprintln!("pushes {}", push.to);
            if has_route { Ok(()) } else { Err(Fail::dead("no route")) }
        });
        match builder.start() {
            Err(OpenError::InUse { .. }) => {
                eprintln!("waits");
                pause(Duration::from_millis(50));
            }
            started => break started.unwrap(),
        }
    };
    let daily = Schedule::every(Duration::from_secs(24 * 3600));
    jobs.schedule("sweep", daily, Close(99)).unwrap();
    eprintln!("started");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    jobs.shutdown().unwrap();
}

/// Both builds list the same jobs. The present one may say more about each.
fn agree(store: &str, state: &str) -> Vec<Value> {
    let earlier = Build::earlier().list(store, state);
    let present = Build::present().list(store, state);
    assert_eq!(earlier.len(), present.len(), "{state}");
    for (earlier, present) in earlier.iter().zip(&present) {
        for (field, value) in earlier.as_object().unwrap() {
            assert_eq!(&present[field], value, "{state}: {field}");
        }
    }
    present
}

/// Kills the first worker in the midst of a run. The second one runs the job.
fn second_takes_over(
    store: &str,
    (inserts, order): (&Build, u64),
    first: Worker,
    second: impl FnOnce() -> Worker,
) -> Worker {
    inserts.ok(store, &["insert", "close-order", &order.to_string()]);
    first.expect(&format!("begins {order}"));
    let second = second();
    drop(first);
    second.expect(&format!("ran {order}"));
    second
}

/// P44: Two builds run the jobs of one server side by side, each sees what the other did, and either goes on alone. So
/// a rolling deploy loses no job, and neither does the way back.
#[test]
fn builds_share_a_server() {
    let Some(server) = crate::installed::server(&[]) else { return };
    let store = &*server.url();
    let (earlier, present) = (Build::earlier(), Build::present());
    let old = earlier.worker(store, false).started();
    let new = present.worker(store, false).started();

    // A pause of one build holds back the other. After it both have their share, and each job runs once.
    earlier.ok(store, &["pause"]);
    pause(Duration::from_millis(1_500));
    for order in 0..20 {
        earlier.ok(store, &["insert", "close-order", &order.to_string()]);
        present.ok(store, &["insert", "close-order", &(20 + order).to_string()]);
    }
    let waiting = agree(store, "pending");
    assert_eq!(waiting.len(), 40);
    present.ok(store, &["resume"]);
    let mut ran = [Vec::new(), Vec::new()];
    while ran[0].len() + ran[1].len() < 40 {
        for (worker, ran) in [&old, &new].into_iter().zip(&mut ran) {
            match worker.said.recv_timeout(Duration::from_millis(1)) {
                Ok(line) => ran.extend(line.strip_prefix("ran ").map(str::to_owned)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(ran.iter().all(|ran| !ran.is_empty()), "one of them ran everything: {ran:?}");
    let mut all: Vec<u64> = ran.iter().flatten().map(|order| order.parse().unwrap()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..40), "{ran:?}");

    // A key that a job of one build has is taken for the other.
    earlier.ok(store, &["insert", "close-order", "50", "--in", "1h", "--key", "order"]);
    let taken =
        present.call(store, &["insert", "close-order", "51", "--in", "1h", "--key", "order"]);
    assert_ne!(taken.code, 0, "{}", taken.out);
    let id = agree(store, "pending")[0]["id"].as_str().unwrap().to_owned();
    present.ok(store, &["reschedule", &id, "--in", "2h"]);
    let id = agree(store, "pending")[0]["id"].as_str().unwrap().to_owned();
    earlier.ok(store, &["cancel", &id]);
    assert!(agree(store, "pending").is_empty());

    // The present build is stopped: the earlier one goes on alone.
    new.end();
    agree(store, "schedules");
    present.ok(store, &["run-schedule", "sweep"]);
    old.expect("ran 99");
    present.ok(store, &["insert", "push", "{\"to\":\"ann\"}"]);
    old.expect("pushes ann");
    wait_until(|| !agree(store, "dead").is_empty());

    // Each takes over the job of the other when that one is killed.
    let new =
        second_takes_over(store, (&present, STUCK), old, || present.worker(store, true).started());
    let old = second_takes_over(store, (&earlier, STUCK + 1), new, || {
        earlier.worker(store, false).started()
    });

    // A job that died in one build is retried in the other.
    old.end();
    let new = present.worker(store, true).started();
    earlier.ok(store, &["retry", "--all", "--yes"]);
    new.expect("pushes ann");
    for build in [&earlier, &present] {
        build.ok(store, &["check"]);
    }
}

/// P44: Two builds take turns on a file: the next waits until the one before has ended or was killed, while both
/// insert. So an upgrade loses no job, and neither does the way back.
#[test]
fn builds_take_turns_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = Path::join(folder.path(), "shop.db");
    let store = path.to_str().unwrap();
    let (earlier, present) = (Build::earlier(), Build::present());
    let old = earlier.worker(store, false).started();
    present.ok(store, &["insert", "close-order", "1"]);
    old.expect("ran 1");
    let new = present.worker(store, true);
    new.expect("waits");
    earlier.ok(store, &["insert", "close-order", "2", "--in", "1h", "--key", "order"]);
    old.end();
    let new = new.started();
    let id = agree(store, "pending")[0]["id"].as_str().unwrap().to_owned();
    earlier.ok(store, &["reschedule", &id, "--in", "0s"]);
    new.expect("ran 2");

    // Back to the earlier one, and forward again, over a process that was killed in a run.
    let waits = |worker: Worker| {
        worker.expect("waits");
        worker
    };
    let old =
        second_takes_over(store, (&present, STUCK), new, || waits(earlier.worker(store, false)));
    earlier.ok(store, &["insert", "push", "{\"to\":\"ann\"}"]);
    old.expect("pushes ann");
    wait_until(|| !agree(store, "dead").is_empty());
    let new =
        second_takes_over(store, (&earlier, STUCK + 1), old, || waits(present.worker(store, true)));
    earlier.ok(store, &["retry", "--all", "--yes"]);
    new.expect("pushes ann");
    for build in [&earlier, &present] {
        build.ok(store, &["check"]);
    }
}
