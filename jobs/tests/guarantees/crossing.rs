//! Calls that cross the end of the jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickwheel_jobs::{Durability, Run};

use super::support::*;

/// What a handler has captured. Its drop takes a moment.
struct Captured(Arc<AtomicBool>);

impl Drop for Captured {
    fn drop(&mut self) {
        pause(5 * MS);
        self.0.store(true, Ordering::Release);
    }
}

/// On a manual clock every caller makes steps, so the last step of the jobs may be another thread's. Both
/// ends wait for it all the same: when they return, the handlers are dropped.
#[test]
fn shutdown_and_drop_wait_for_the_step_of_another_thread() {
    for round in 0..60 {
        on_each_store(|builder| {
            let dropped = Arc::<AtomicBool>::default();
            let captured = Captured(Arc::clone(&dropped));
            let handler = move |_: Close, _: &Run| {
                let _ = &captured;
                Ok(())
            };
            let (jobs, driver) = builder.handle(handler).manual().unwrap();
            // Claimed and not started: the step that gives it back is not the one that begins the end.
            jobs.insert(20 * MS, close(1)).unwrap();
            driver.advance(Duration::ZERO);
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    let client = jobs.client();
                    thread::spawn(move || while client.count().is_ok() {})
                })
                .collect();
            match round % 2 {
                0 => jobs.shutdown().unwrap(),
                _ => drop(jobs),
            }
            assert!(dropped.load(Ordering::Acquire), "round {round}");
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        });
    }
}

/// P22: A shutdown stores every job that was inserted before it, also one that is not acknowledged yet.
#[test]
fn shutdown_overtakes_no_buffered_insert() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.db"));
        let builder = open(&path).durability(Durability::Buffered);
        let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
        for order in 0..3000 {
            jobs.insert(HOUR, close(order)).unwrap();
        }
        jobs.shutdown().unwrap();
        let client = client(&path);
        assert_eq!(client.count().unwrap().pending, 3000);
    }
}
