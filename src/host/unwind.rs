//! The fence that keeps the panics of user code from everybody else.
//!
//! Ground rules:
//!
//! - User code is four things: a job's call, the drop of a job that was not called, the panic
//!   handler, and the drop of a panic's payload. Each of them may panic; all of them pass the
//!   [`UnwindBoundary`] here.
//! - What unwinds is counted once and handed to the user's handler. A handler that panics is
//!   counted too and silenced. A payload that panics when it is dropped is leaked, because dropping
//!   what comes out of it could go on for ever.

use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};

use crate::values::job::Job;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The user's panic handler.
pub(crate) type OnPanic = Box<dyn Fn(Payload) + Send + Sync>;

/// Stands between user code and the wheel: nothing unwinds past it.
#[derive(Default)]
pub(crate) struct UnwindBoundary {
    panicked: AtomicU64,
    on_panic: Option<OnPanic>,
}

impl UnwindBoundary {
    pub(crate) fn new(on_panic: Option<OnPanic>) -> UnwindBoundary {
        UnwindBoundary { panicked: AtomicU64::new(0), on_panic }
    }

    /// Runs a job whose time has come.
    pub(crate) fn fire(&self, job: Job) {
        self.catch(|| job.fire());
    }

    /// Calls user code that is to answer; `None` if it panicked instead.
    pub(crate) fn call<T>(&self, user: impl FnOnce() -> T) -> Option<T> {
        let mut answer = None;
        self.catch(|| answer = Some(user()));
        answer
    }

    /// Drops a job that will not run, or anything else of the user's.
    pub(crate) fn discard<T>(&self, jobs: T) {
        self.catch(|| drop(jobs));
    }

    /// How many panics have been stopped.
    pub(crate) fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }

    fn catch(&self, user: impl FnOnce()) {
        // Unwind safe: `user` owns what it touches, and the wheel's own state is not in it.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(user)) {
            self.report(payload);
        }
    }

    /// Counts a panic that was stopped, and hands its payload to the user's handler.
    pub(crate) fn report(&self, payload: Payload) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
        let report = || match &self.on_panic {
            Some(on_panic) => on_panic(payload),
            None => drop(payload),
        };
        if let Err(from_handler) = catch_unwind(AssertUnwindSafe(report)) {
            self.panicked.fetch_add(1, Ordering::Relaxed);
            core::mem::forget(from_handler);
        }
    }
}

// The handler is only ever called behind the fence itself.
impl UnwindSafe for UnwindBoundary {}
impl RefUnwindSafe for UnwindBoundary {}

impl Drop for UnwindBoundary {
    fn drop(&mut self) {
        // The handler is the user's too, and the last to let go of it may be a thread of the pool.
        let on_panic = self.on_panic.take();
        self.catch(|| drop(on_panic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;
    use std::sync::{Arc, Mutex};

    fn job(f: impl FnOnce() + Send + 'static) -> Job {
        Job::new(Box::new(f))
    }

    struct PanicsOnDrop(&'static str);

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic_any(self.0);
        }
    }

    #[test]
    fn a_panic_is_counted_and_handed_to_the_handler() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler_seen = Arc::clone(&seen);
        let boundary = UnwindBoundary::new(Some(Box::new(move |payload| {
            let text = *payload.downcast::<&'static str>().unwrap();
            handler_seen.lock().unwrap().push(text);
        })));
        boundary.fire(job(|| panic_any("called")));
        boundary.fire(job(|| ()));
        let captured = PanicsOnDrop("dropped");
        boundary.discard(job(move || drop(captured)));
        assert_eq!(*seen.lock().unwrap(), ["called", "dropped"]);
        assert_eq!(boundary.panicked(), 2);
    }

    #[test]
    fn a_handler_that_panics_is_silenced() {
        let boundary = UnwindBoundary::new(Some(Box::new(|_| panic_any("handler"))));
        boundary.fire(job(|| panic_any("job")));
        assert_eq!(boundary.panicked(), 2);
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_silenced() {
        let boundary = UnwindBoundary::default();
        boundary.fire(job(|| panic_any(PanicsOnDrop("payload"))));
        assert_eq!(boundary.panicked(), 2);
    }

    #[test]
    fn a_handler_that_panics_when_dropped_is_silenced() {
        let captured = PanicsOnDrop("handler's own");
        drop(UnwindBoundary::new(Some(Box::new(move |_| {
            let _ = &captured;
        }))));
    }

    #[test]
    fn one_bad_drop_among_many_spares_the_rest() {
        let boundary = UnwindBoundary::default();
        let count = Arc::new(());
        let jobs: Vec<Job> = (0..3)
            .map(|n| {
                let (bomb, held) = (PanicsOnDrop("one of many"), Arc::clone(&count));
                job(move || drop((n, bomb, held)))
            })
            .collect();
        for each in jobs {
            boundary.discard(each);
        }
        assert_eq!((boundary.panicked(), Arc::strong_count(&count)), (3, 1));
    }
}
