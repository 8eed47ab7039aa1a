//! A worker in a process of its own: it can be killed, stopped and continued, and have another clock.
//!
//! The test binary runs itself with `TICKWHEEL_REDIS_WORKER` set; the one test below is the worker then.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tickwheel_jobs::{Jobs, Run};

use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, noting, open};

const URL: &str = "TICKWHEEL_REDIS_WORKER";
const LEASE: Duration = Duration::from_millis(1500);

/// Runs in a process of its own: appends each start to a list of the server's, and works for long.
#[test]
fn worker() {
    let Ok(url) = std::env::var(URL) else { return };
    let list = url.clone();
    let handler = move |order: Order, run: &Run| {
        let mut server = redis::Client::open(&*list).unwrap().get_connection().unwrap();
        let mut say = |what: &str| {
            let entry = format!("{what} {} {}", order.0, run.fence());
            redis::cmd("RPUSH").arg("said").arg(entry).exec(&mut server).unwrap();
        };
        say("starts");
        for _ in 0..100 {
            if run.is_cancelled() {
                say("lost");
                return Err(tickwheel_jobs::Fail::dead("it is lost"));
            }
            pause(50 * MS);
        }
        Ok(())
    };
    let jobs = Jobs::redis(url).unwrap().lease(LEASE).handle(handler).start().unwrap();
    pause(Duration::from_secs(30));
    drop(jobs);
}

pub(crate) struct Worker(Child);

impl Worker {
    fn start(server: &Server) -> Worker {
        Worker::of("worker::worker", URL, server)
    }

    /// Starts a process for the test with this name, which reads the URL of the server from a variable.
    pub(crate) fn of(test: &str, variable: &str, server: &Server) -> Worker {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(variable, server.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Worker(child.unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(server: &Server) -> Vec<String> {
    server.ask(&["LRANGE", "said", "0", "-1"])
}

fn wait_for_a_start(server: &Server) {
    wait_until("the worker has started the job", || !said(server).is_empty());
}

/// Redis P9: A job of a node that stands still runs on another node. The first run is cancelled once the node goes on.
#[test]
fn node_that_stands_still_has_its_run_cancelled() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let worker = Worker::start(&server);
    client.insert(Duration::ZERO, Order(1)).unwrap();
    wait_for_a_start(&server);
    worker.signal(Signal::SIGSTOP);
    let log = Log::default();
    let jobs = noting(open(&server).lease(LEASE), &log);
    wait_until("it ran elsewhere", || log.of(1) == 1);
    worker.signal(Signal::SIGCONT);
    wait_until("it is told", || said(&server).iter().any(|entry| entry.starts_with("lost")));
    assert_eq!(client.count().unwrap().dead, 0);
    pause(300 * MS);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(1);
}
