//! Jobs of the tests, and what is noted of their runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Fail, Job, Jobs, Run};

use crate::scenarios::Store;
pub(crate) use crate::server::wait_until;

use crate::server::Server;

pub(crate) const MS: Duration = Duration::from_millis(1);

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Order(pub(crate) u64);

impl Job for Order {
    const KIND: &'static str = "order";
}

/// Returns how many jobs are claimed, here or elsewhere.
pub(crate) fn in_hand(client: &Client) -> u64 {
    let counts = client.count().unwrap();
    counts.claimed + counts.running
}

/// How often each order ran.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<HashMap<u64, u32>>>);

impl Log {
    pub(crate) fn add(&self, order: u64) {
        *self.0.lock().unwrap().entry(order).or_default() += 1;
    }

    pub(crate) fn of(&self, order: u64) -> u32 {
        self.0.lock().unwrap().get(&order).copied().unwrap_or(0)
    }

    /// Returns what is noted now, which does not change any more.
    pub(crate) fn clone_now(&self) -> Log {
        Log(Arc::new(Mutex::new(self.0.lock().unwrap().clone())))
    }

    /// Returns the highest order that ran.
    pub(crate) fn last(&self) -> u64 {
        self.0.lock().unwrap().keys().copied().max().unwrap_or(0)
    }

    /// Returns how many orders ran.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns how many runs there were, and how many of them were not the first of their order.
    pub(crate) fn runs_and_again(&self) -> (u64, u64) {
        let log = self.0.lock().unwrap();
        let runs: u64 = log.values().map(|times| u64::from(*times)).sum();
        (runs, runs - log.len() as u64)
    }

    pub(crate) fn each_once(&self, many: usize) {
        let log = self.0.lock().unwrap();
        let more: Vec<_> = log.iter().filter(|(_, times)| **times != 1).take(5).collect();
        assert!(
            log.len() == many && more.is_empty(),
            "{} ran, more than once: {more:?}",
            log.len()
        );
    }
}

/// Opens the jobs of a server.
pub(crate) fn open(server: &Server) -> Builder {
    Jobs::redis(server.url()).unwrap()
}

/// Stops the process of a server, or lets it go on.
pub(crate) fn signal(server: &Server, signal: Signal) {
    kill(Pid::from_raw(server.pid()), signal).unwrap();
}

/// Runs a test on a server.
pub(crate) fn on_stores(test: impl Fn(&Store)) {
    let server = Server::start();
    test(&Store { open: &|| open(&server), keeps: true, claims_ahead: false });
}

/// Returns a handler that notes what runs.
pub(crate) fn notes(log: &Log) -> impl Fn(Order, &Run) -> Result<(), Fail> + Send + Sync + 'static {
    let log = log.clone();
    move |order: Order, _: &Run| {
        log.add(order.0);
        Ok(())
    }
}

/// Starts a node that notes what it runs.
pub(crate) fn noting(builder: Builder, log: &Log) -> Jobs {
    builder.handle(notes(log)).start().unwrap()
}

/// Waits until so many orders have run and ended, and shuts the jobs down: each order has run once.
pub(crate) fn each_runs_once(client: &Client, jobs: Jobs, log: &Log, many: usize) {
    wait_until("all ran", || log.len() == many);
    wait_until("all ended", || in_hand(client) == 0);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(many);
}

#[expect(clippy::disallowed_methods, reason = "how long something took is the subject")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a time for jobs of real processes")]
pub(crate) fn wall_now() -> SystemTime {
    SystemTime::now()
}
