//! The tests of the promises of `docs/guarantees.md`, in one file for each section. The doc comment of a test begins
//! with the tags of its promises: `/// C1, C2: A job never starts early.` This file holds their shared helpers.
//!
//! Three files have tests without a tag ([`UNTAGGED`]): `attacks.rs`, `reentrance.rs` and `structure.rs`.

mod again;
mod again_end;
mod attacks;
mod bounds;
mod cancel;
mod clocks;
mod counts;
#[cfg(feature = "async")]
mod drive;
mod driven;
mod end;
mod events;
#[cfg(feature = "async")]
mod executors;
mod hooks;
#[cfg(feature = "hyper")]
mod hyper_timer;
#[cfg(feature = "async")]
mod intervals;
mod jobs;
mod many;
mod metrics;
mod names;
#[cfg(feature = "async")]
mod polled;
mod reentrance;
#[cfg(feature = "async")]
mod sleeps;
mod spawn;
mod structure;
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

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::{
    Builder, ConfigError, Driver, Geometry, Handle, Hierarchy, InsertErrorKind, Scheduler, Tick,
    Wheel,
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

/// Holds up the calls of a function until it is dropped.
struct Gate {
    arrivals: Receiver<()>,
    closed: Sender<()>,
}

/// Returns a function that waits in front of a gate, and the gate.
fn gate() -> (impl FnMut() + Send + 'static, Gate) {
    let ((arrive, arrivals), (closed, opened)) = (channel(), channel::<()>());
    let wait = move || {
        // The gate may be gone by now.
        let _ = arrive.send(());
        let _ = opened.recv();
    };
    (wait, Gate { arrivals, closed })
}

impl Gate {
    /// Waits for the next call of the function.
    #[track_caller]
    fn has_come(&self) {
        self.arrivals.recv_timeout(MINUTE).expect("the function is not called");
    }
}

/// Inserts a job that waits until the gate is dropped, and returns the gate once the job has started.
fn blocker(wheel: &Wheel) -> Gate {
    let (wait, gate) = gate();
    wheel.insert(Duration::ZERO, wait);
    gate.has_come();
    gate
}

/// The ways in which a wheel ends.
const ENDS: [fn(Wheel); 2] = [|wheel| drop(wheel), |wheel| drop(wheel.shutdown())];

/// Returns the wheel of a builder on a manual clock, and on the real one with a thread.
fn on_each_clock(builder: impl Fn() -> Builder) -> [(Wheel, Option<Driver>); 2] {
    let (wheel, driver) = builder().manual().unwrap();
    [(wheel, Some(driver)), (builder().threads(1).build().unwrap(), None)]
}

/// Calls a closure when it is woken.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Calls(call)))
}

/// Returns a waker, and a function that returns how often it was called since the last time.
fn counting_waker() -> (Waker, impl Fn() -> usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let waker = waker(move || _ = calls.fetch_add(1, Ordering::SeqCst));
    (waker, move || counted.swap(0, Ordering::SeqCst))
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
        sender.send(*panic.payload.downcast::<&'static str>().unwrap()).unwrap();
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
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.ok()?.path().join("status")).ok()
    };
    let named = |status: &String| status.starts_with(&format!("Name:\t{name}"));
    tasks.filter_map(status).filter(named).collect()
}

/// The files with tests of no promise in particular.
const UNTAGGED: [&str; 4] = ["main.rs", "attacks.rs", "reentrance.rs", "structure.rs"];

/// Every promise of the page has a test that carries its tag, and every tag of a test stands on the page. Each test of
/// this folder has a tag, except in [`UNTAGGED`].
#[test]
fn guarantees_and_tests_name_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/guarantees.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.filter(|cell| is_tag(cell)).collect();
    let every: Vec<String> = (1..=rows.len()).map(|number| format!("C{number}")).collect();
    assert!(rows.len() > 100, "{} promises", rows.len());
    assert_eq!(rows, every);
    let (mut tests, mut untagged) = (BTreeSet::new(), Vec::new());
    for file in rust_files(&root.join("tests")).into_iter().chain(rust_files(&root.join("src"))) {
        let is_here = file.starts_with(root.join("tests/guarantees"))
            && !UNTAGGED.iter().any(|name| file.ends_with(name));
        for doc in docs_of_tests(&fs::read_to_string(&file).unwrap()) {
            tests.extend(tags_of_doc(&doc).into_iter().map(str::to_owned));
            if is_here && tags_of_doc(&doc).is_empty() {
                untagged.push(doc);
            }
        }
    }
    assert!(untagged.is_empty(), "tests without a tag: {untagged:#?}");
    let every = BTreeSet::from_iter(every);
    let untested: Vec<_> = every.difference(&tests).collect();
    assert!(untested.is_empty(), "on the page, and on no test: {untested:?}");
    let unknown: Vec<_> = tests.difference(&every).collect();
    assert!(unknown.is_empty(), "on a test, and not on the page: {unknown:?}");
}

/// Says whether a word is a tag, such as `C12`.
fn is_tag(word: &str) -> bool {
    word.strip_prefix('C').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the tags with which a doc comment begins: `C1` and `C2` of `C1, C2: A job never starts early.`
fn tags_of_doc(doc: &str) -> Vec<&str> {
    let tags: Vec<&str> = doc.split_once(": ").map_or("", |(tags, _)| tags).split(", ").collect();
    if tags.iter().all(|tag| is_tag(tag)) { tags } else { vec![] }
}

/// Returns the doc comment of each test of a file, or an empty one.
fn docs_of_tests(source: &str) -> Vec<String> {
    let (mut docs, mut doc) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        match line.strip_prefix("///") {
            Some(text) => doc += text,
            None if line == "#[test]" => docs.push(doc.trim().to_owned()),
            None if line.starts_with("#[") => {}
            None => doc.clear(),
        }
    }
    docs
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let is_rust = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    let below = folders.iter().flat_map(|folder| rust_files(folder));
    files.into_iter().filter(is_rust).chain(below).collect()
}
