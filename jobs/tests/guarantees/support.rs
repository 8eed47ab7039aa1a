//! Jobs, stores and places for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Driver, Job, Jobs};

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

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tickwheel-jobs-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
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
    let folder = Folder::new();
    test(Jobs::open(folder.file("jobs.db")).unwrap());
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
