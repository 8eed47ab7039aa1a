//! Jobs of the tests, and what is noted of their runs and of their events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Event, Fail, Job, JobId, Jobs, Run};

use crate::scenarios::Store;
pub(crate) use crate::server::wait_until;

use crate::server::Server;

pub(crate) const MS: Duration = Duration::from_millis(1);

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Order(pub(crate) u64);

impl Job for Order {
    const KIND: &'static str = "order";
}

/// Returns the bytes of an id, as the keys of a queue have them.
pub(crate) fn bytes(id: JobId) -> [u8; 16] {
    id.to_u128().to_be_bytes()
}

/// Returns how many jobs are claimed, here or elsewhere.
pub(crate) fn in_hand(client: &Client) -> u64 {
    let counts = client.count().unwrap();
    counts.claimed + counts.running
}

/// The runs of orders.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Noted>>);

#[derive(Clone, Default)]
struct Noted {
    /// How often each order ran.
    runs: HashMap<u64, u32>,
    highest_attempt: u32,
}

impl Log {
    pub(crate) fn add(&self, order: u64) {
        *self.0.lock().unwrap().runs.entry(order).or_default() += 1;
    }

    pub(crate) fn of(&self, order: u64) -> u32 {
        self.0.lock().unwrap().runs.get(&order).copied().unwrap_or(0)
    }

    /// Returns the highest attempt of a run that `notes` has noted.
    pub(crate) fn highest_attempt(&self) -> u32 {
        self.0.lock().unwrap().highest_attempt
    }

    /// Returns what is noted now, which does not change any more.
    pub(crate) fn clone_now(&self) -> Log {
        Log(Arc::new(Mutex::new(self.0.lock().unwrap().clone())))
    }

    /// Returns the highest order that ran.
    pub(crate) fn last(&self) -> u64 {
        self.0.lock().unwrap().runs.keys().copied().max().unwrap_or(0)
    }

    /// Returns how many orders ran.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().runs.len()
    }

    /// Returns how many runs there were.
    pub(crate) fn runs(&self) -> usize {
        self.0.lock().unwrap().runs.values().map(|times| *times as usize).sum()
    }

    pub(crate) fn each_once(&self, many: usize) {
        let runs = &self.0.lock().unwrap().runs;
        let more: Vec<_> = runs.iter().filter(|(_, times)| **times != 1).take(5).collect();
        let is_right = runs.len() == many && more.is_empty();
        assert!(is_right, "{} ran, more than once: {more:?}", runs.len());
    }
}

/// The events that nodes get.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub(crate) fn of(&self, builder: Builder) -> Builder {
        let noted = Arc::clone(&self.0);
        builder.on_event(move |event| noted.lock().unwrap().push(event))
    }

    /// Returns what is picked of each event.
    pub(crate) fn all<T>(&self, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.0.lock().unwrap().iter().filter_map(pick).collect()
    }

    pub(crate) fn leases_lost(&self) -> usize {
        self.all(|event| matches!(event, Event::LeaseLost { .. }).then_some(())).len()
    }

    /// Returns the errors of commits.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.all(|event| match event {
            Event::CommitFailed { error } => Some(error.to_string()),
            _ => None,
        })
    }

    /// Returns what could not be read.
    pub(crate) fn unreadable(&self) -> Vec<String> {
        self.all(|event| match event {
            Event::Unreadable { what, .. } => Some(what.clone()),
            _ => None,
        })
    }
}

/// Runs wait at a gate until it is open.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn wait(&self) {
        wait_until("the gate is open", || self.is_open());
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
    move |order: Order, run: &Run| {
        log.add(order.0);
        let mut noted = log.0.lock().unwrap();
        noted.highest_attempt = noted.highest_attempt.max(run.attempt());
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
