//! What many threads at once, and many jobs at once, must not break.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tickwheel_jobs::{Durability, Fail, JobId, Jobs};

use super::support::*;

/// Several callers insert jobs, each on a thread of its own. Each caller cancels every third job. Every other job runs
/// once.
pub(super) fn callers_lose_nothing(
    threads: u64,
    each: u64,
    insert: impl Fn(&Jobs, u64, u64) -> JobId + Sync,
) {
    on_each_store(|builder| {
        let ran = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ran);
        let jobs = builder
            .durability(Durability::Written)
            .handle(move |_: Close, _| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .start()
            .unwrap();
        let call = &|thread: u64| {
            let one = |n: u64| {
                let id = insert(&jobs, thread, n);
                u64::from(n.is_multiple_of(3) && jobs.cancel(id).unwrap().is_cancelled())
            };
            (0..each).map(one).sum::<u64>()
        };
        let cancelled: u64 = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..threads).map(|n| scope.spawn(move || call(n))).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        let left = threads * each - cancelled;
        wait_until("all have run", || ran.load(Ordering::Relaxed) == left);
        wait_until("all have ended", || jobs.count().unwrap().pending == 0);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), left);
    });
}

/// P6: Every job that eight threads insert and do not cancel runs once.
#[test]
fn callers_on_eight_threads_lose_nothing() {
    callers_lose_nothing(8, 250, |jobs, thread, n| {
        let delay = u32::try_from(n % 40).unwrap() * MS;
        jobs.insert(delay, close(thread * 1000 + n)).unwrap()
    });
}

/// P76: The file shrinks when its jobs are gone, while the jobs run.
#[test]
fn file_shrinks_when_its_jobs_are_gone() {
    let (_folder, path) = file();
    let jobs =
        open(&path).durability(Durability::Written).handle(|_: Push, _| Ok(())).start().unwrap();
    let long = || Push { to: "Ada".repeat(500) };
    jobs.insert_batch((0..900).map(|_| (HOUR, long()))).unwrap();
    jobs.flush().unwrap();
    let pages = || -> i64 {
        let conn = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
        conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
    };
    let full = pages();
    for job in jobs.pending() {
        assert!(jobs.cancel(job.id).unwrap().is_cancelled());
    }
    wait_until("the file has shrunk", || pages() < full / 2);
    jobs.check().unwrap();
}

/// An `on_event` that panics stops nothing.
#[test]
fn on_event_that_panics_stops_no_job() {
    let jobs = Jobs::memory()
        .handle(|_: Close, _| Err(Fail::dead("no")))
        .on_event(|_| panic!("a defect of the event handler"))
        .start()
        .unwrap();
    jobs.insert_batch((0..3).map(|n| (MS, close(n)))).unwrap();
    wait_until("all are dead", || jobs.count().unwrap().dead == 3);
    jobs.shutdown().unwrap();
}

/// P79: A step takes some thousand jobs of callers and leaves the rest to the next one. So a job that falls due
/// meanwhile waits for no more than those.
#[test]
fn step_takes_some_thousand_jobs_of_callers_and_no_more() {
    const CALLERS: u64 = 24;
    let (_folder, path) = file();
    let builder = open(&path).durability(Durability::Written);
    let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
    let before = jobs.stats().commits;
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let jobs = &jobs;
            scope.spawn(move || {
                jobs.insert_batch((0..1000).map(|n| (HOUR, close(caller * 1000 + n)))).unwrap()
            });
        }
    });
    // A batch is never divided, so a step may exceed its 2,048 jobs by one batch.
    let stats = jobs.stats();
    assert!(stats.commits - before >= CALLERS * 1000 / 3_047, "{stats:?}");
    assert!(!stats.longest_step.is_zero(), "{stats:?}");
    assert_eq!(jobs.count().unwrap().pending, CALLERS * 1000);
    jobs.shutdown().unwrap();
}
