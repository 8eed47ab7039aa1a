//! Closures that panic.

use std::panic::panic_any;
use std::time::Duration;

use tickwheel_jobs::Jobs;

use crate::recorder::{SECOND, Task, record, run_of};
use crate::server::wait_until;

/// A payload whose drop panics too.
struct PanicsTwice;

impl Drop for PanicsTwice {
    fn drop(&mut self) {
        panic!("again");
    }
}

/// P54: A panic of `capture` inserts the job without a context, and a panic of `resume` lets the run go on in its span.
#[test]
fn trace_context_that_panics_harms_nothing() {
    record();
    let (jobs, driver) = Jobs::memory()
        .trace_context(|| panic_any(PanicsTwice), |_, _| ())
        .handle(|_: Task, _| Ok(()))
        .manual()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
    assert!(jobs.get(id).unwrap().unwrap().headers.is_empty());
    assert_eq!(driver.advance(SECOND), 1);
    let jobs = Jobs::memory()
        .trace_context(|| Some("a trace".to_owned()), |_, _| panic_any(PanicsTwice))
        .handle(|_: Task, _| Ok(()))
        .start()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
    wait_until("it has ended", || jobs.stats().completed == 1);
    jobs.shutdown().unwrap();
    let span = run_of(id);
    assert_eq!((span.field("outcome"), span.is_closed), ("completed", true));
}
