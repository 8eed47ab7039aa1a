//! Jobs, stores and places for tests.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Builder, Client, Driver, Fail, Job, JobId, Jobs, OpenError, Run};
use tokio::runtime::Runtime;

use crate::scenarios::Store;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// Longer than anything takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Close {
    pub(crate) order: u64,
}

impl Job for Close {
    const KIND: &'static str = "close-order";
}

pub(crate) fn close(order: u64) -> Close {
    Close { order }
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Push {
    pub(crate) to: String,
}

impl Job for Push {
    const KIND: &'static str = "push";
}

/// Returns a folder, which is removed when it is dropped, and the path of a file in it.
pub(crate) fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    (folder, path)
}

/// Returns a builder of jobs on a file.
pub(crate) fn open(path: &Path) -> Builder {
    Jobs::open(path).unwrap()
}

/// Returns a client of the jobs on a file, as another process has it.
pub(crate) fn client(path: &Path) -> Client {
    open(path).client().unwrap()
}

/// Writes into a file that a process had claimed these jobs, in this order, when it ended.
pub(crate) fn claimed(path: &Path, ids: &[JobId]) {
    let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_u128().to_be_bytes()).collect();
    let claim = "INSERT INTO tickwheel_claim (ids) VALUES (?1)";
    Connection::open(path).unwrap().execute(claim, [ids]).unwrap();
}

/// What ran, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    pub(crate) fn add(&self, order: u64) {
        self.0.lock().unwrap().push(order);
    }

    pub(crate) fn get(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

/// Runs a test on each store: the builder is fresh each time.
pub(crate) fn on_each_store(test: impl Fn(Builder)) {
    test(Jobs::memory());
    let (_folder, path) = file();
    test(open(&path));
}

/// Runs a test in memory, and on a file that it may open again.
pub(crate) fn on_stores(test: impl Fn(&Store)) {
    test(&Store { open: &Jobs::memory, keeps: false, claims_ahead: true });
    let (_folder, path) = file();
    test(&Store { open: &|| open(&path), keeps: true, claims_ahead: true });
}

/// Runs a test on each store, on a manual clock, with a handler that notes which order it closes.
pub(crate) fn on_manual(test: impl Fn(&Jobs, &Driver, &Log)) {
    on_each_store(|builder| {
        let log = Log::default();
        let noted = log.clone();
        let (jobs, driver) = builder
            .handle(move |job: Close, _| {
                noted.add(job.order);
                Ok(())
            })
            .manual()
            .unwrap();
        test(&jobs, &driver, &log);
        jobs.check().unwrap();
    });
}

/// Returns a runtime with this number of threads.
pub(crate) fn runtime(threads: usize) -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(threads).enable_time().build().unwrap()
}

/// Returns a runtime on the thread that blocks on it.
pub(crate) fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Returns why a builder is refused.
pub(crate) fn config_error(builder: Builder) -> String {
    match builder.start() {
        Err(OpenError::Config(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

/// Starts jobs that say which orders they close.
pub(crate) fn closing(builder: Builder) -> (Jobs, Receiver<u64>) {
    let (sender, closed) = mpsc::channel();
    let jobs = builder.handle(move |job: Close, _| Ok(sender.send(job.order)?)).start().unwrap();
    (jobs, closed)
}

/// Starts jobs that say when a run starts. A run ends, and fails, when it is cancelled.
pub(crate) fn ending_when_told(builder: Builder) -> (Jobs, Receiver<JobId>) {
    let (started, at_start) = mpsc::channel();
    let handler = move |_: Close, run: &Run| {
        started.send(run.id())?;
        wait_until("the run is told", || run.is_cancelled());
        Err(Fail::after(MS, "stopped"))
    };
    (builder.handle(handler).start().unwrap(), at_start)
}

/// Starts jobs that say when a run starts. A run ends when it is released.
pub(crate) fn held(builder: Builder) -> (Jobs, Receiver<JobId>, Sender<()>) {
    let (started, at_start) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let handler = move |_: Close, run: &Run| {
        started.send(run.id())?;
        let _ = released.lock().unwrap().recv();
        Ok(())
    };
    (builder.handle(handler).start().unwrap(), at_start, release)
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    for _ in 0..LONG.as_millis() / 2 {
        if so() {
            return;
        }
        let _ = receiver.recv_timeout(2 * MS);
    }
    drop(sender);
    panic!("waited in vain until {what}");
}

/// Lets other threads run for a time. No test may depend on whether that was long enough.
pub(crate) fn pause(time: Duration) {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
}
