//! Models of the ticker with a source of timers beside the jobs.

use super::*;
use crate::engine::sources::tests::Closures;

/// An outlet that has no room for jobs.
struct Full;

impl Outlet for Full {
    fn room(&self) -> usize {
        0
    }

    fn hand_over(&self, _: &mut Vec<DueJob>) {
        panic!("there is no room");
    }
}

/// Inserts a timer into the source that stops the engine.
fn insert_stop(engine: &Arc<Engine>, source: &Closures) {
    let stopped = Arc::clone(engine);
    source.insert(6, move || drop(stopped.stop()));
}

#[test]
fn an_insert_into_a_source_wakes_a_ticker_that_is_about_to_sleep() {
    explore(|| {
        let engine = engine();
        let source = Closures::add_to(engine.sources());
        let ticker = ticker(&engine, usize::MAX);
        insert_stop(&engine, &source);
        ticker.join().unwrap();
    });
}

#[test]
fn a_source_that_is_added_while_the_ticker_runs_is_found() {
    explore(|| {
        let engine = engine();
        let ticker = ticker(&engine, usize::MAX);
        let source = Closures::add_to(engine.sources());
        insert_stop(&engine, &source);
        ticker.join().unwrap();
    });
}

#[test]
fn an_insert_into_a_source_wakes_a_ticker_whose_jobs_wait_for_room() {
    explore(|| {
        let engine = engine();
        let source = Closures::add_to(engine.sources());
        insert(&engine, 5);
        let mut ticker = Ticker::new(Arc::clone(&engine), Full);
        let ticker = thread::spawn(move || ticker.run(|| false));
        insert_stop(&engine, &source);
        ticker.join().unwrap();
    });
}

#[test]
fn of_an_insert_of_a_job_and_one_into_a_source_both_are_found() {
    explore(|| {
        let engine = engine();
        let source = Closures::add_to(engine.sources());
        let ticker = ticker(&engine, 1);
        let other = Arc::clone(&engine);
        let other = thread::spawn(move || {
            insert(&other, 6);
        });
        let called = Arc::new(AtomicUsize::new(0));
        let calls = Arc::clone(&called);
        source.insert(AN_HOUR, || unreachable!());
        source.insert(5, move || {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        other.join().unwrap();
        ticker.join().unwrap();
        // The job stopped the engine, before or after the ticker advanced the source.
        assert!(called.load(Ordering::Relaxed) == 1 || source.closed().is_some());
    });
}
