//! One test for each sentence of `docs/guarantees.md`, under the name given there, in one file for
//! each section. This file holds their shared helpers.

mod again;
mod again_end;
mod bounds;
mod cancel;
mod clocks;
mod counts;
#[cfg(feature = "async")]
mod drive;
mod driven;
mod end;
mod events;
mod hooks;
#[cfg(feature = "async")]
mod intervals;
mod jobs;
mod many;
mod metrics;
mod names;
#[cfg(feature = "async")]
mod polled;
#[cfg(feature = "async")]
mod sleeps;
mod tasks;
mod time;
#[cfg(feature = "async")]
mod timeouts;
#[cfg(feature = "async")]
mod virtual_time;
mod waits;
#[cfg(feature = "async")]
mod wakers;
mod wall;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::{
    Builder, ConfigError, Driver, Geometry, GeometryError, Handle, Hierarchy, InsertErrorKind,
    Scheduler, Tick, Wheel,
};

use clocks::{Time, on_both_clocks};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Longer than any step of these tests takes on the slowest machine.
const MINUTE: Duration = Duration::from_secs(60);

fn manual() -> (Wheel, Driver) {
    Wheel::builder().manual().unwrap()
}

fn threads(count: usize) -> Wheel {
    Wheel::builder().threads(count).build().unwrap()
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// Waits until `condition` is true. If it takes a minute, that is a defect on any machine.
#[track_caller]
fn wait_for(condition: impl Fn() -> bool) {
    let begin = now();
    while !condition() {
        assert!(begin.elapsed() < MINUTE, "this never comes true");
        thread::yield_now();
    }
}

/// Waits in real time, while nothing should happen.
fn let_pass(duration: Duration) {
    let (_open, never) = channel::<()>();
    let _ = never.recv_timeout(duration);
}

/// Inserts a job that waits until the sender is dropped, and returns the sender once the job has started.
fn blocker(wheel: &Wheel) -> Sender<()> {
    let (release, gate) = channel::<()>();
    let (started, starts) = channel();
    wheel.insert(Duration::ZERO, move || {
        started.send(()).unwrap();
        let _ = gate.recv();
    });
    starts.recv().unwrap();
    release
}

/// Returns a value, and a function that returns how many of it and its clones are alive.
fn counted() -> (Arc<()>, impl Fn() -> usize) {
    let token = Arc::new(());
    let watched = Arc::downgrade(&token);
    (token, move || Weak::strong_count(&watched))
}

/// Returns a builder whose panic handler sends the payloads that are strings.
fn reporting() -> (Builder, Receiver<&'static str>) {
    let (sender, receiver) = channel();
    let builder = Wheel::builder().on_panic(move |panic| {
        sender.send(*panic.downcast::<&'static str>().unwrap()).unwrap();
    });
    (builder, receiver)
}

/// Returns a pool for several wheels and other tasks.
fn pool_of(threads: usize) -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns `/proc/self/task/*/status` of the threads whose names begin with `name`.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("status")).ok()
    };
    let named = |status: &String| status.starts_with(&format!("Name:\t{name}"));
    tasks.filter_map(status).filter(named).collect()
}

/// Checks that the document and these files name the same tests.
#[test]
fn guarantees_and_tests_name_each_other() {
    let document = include_str!("../../docs/guarantees.md");
    let tests = [
        include_str!("again.rs"),
        include_str!("again_end.rs"),
        include_str!("bounds.rs"),
        include_str!("cancel.rs"),
        include_str!("counts.rs"),
        include_str!("drive.rs"),
        include_str!("driven.rs"),
        include_str!("end.rs"),
        include_str!("events.rs"),
        include_str!("hooks.rs"),
        include_str!("intervals.rs"),
        include_str!("jobs.rs"),
        include_str!("many.rs"),
        include_str!("metrics.rs"),
        include_str!("names.rs"),
        include_str!("sleeps.rs"),
        include_str!("tasks.rs"),
        include_str!("time.rs"),
        include_str!("timeouts.rs"),
        include_str!("virtual_time.rs"),
        include_str!("waits.rs"),
        include_str!("wakers.rs"),
        include_str!("wall.rs"),
    ]
    .concat();
    let named: HashSet<&str> =
        document.split('[').skip(1).filter_map(|rest| rest.split(']').next()).collect();
    let written: HashSet<&str> =
        tests.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split('(').next()).collect();
    assert!(named.len() > 30);
    assert_eq!(named, written);
}
