//! The boundary to user code: catches its panics, counts and reports them ([`UnwindBoundary`]), and says whether a
//! thread is inside a hook ([`is_in_hook`]).
//!
//! A wheel calls hooks, user code that is no job, by itself: a waker, [`Full::Give`](crate::Full::Give), a handler of
//! panics, and the drop of a value on the thread that advances or ends a wheel.
//!
//! Ground rules:
//!
//! - This file catches the panics of jobs, of hooks, and of the drop of what the user gave. It does not catch those of
//!   `Hash` and `Eq` of a key: they unwind to the caller of the verb.
//! - A panic is counted once and handed to the user's handler. A panic of the handler is counted too, but not reported.
//!   The payload of such a panic is leaked, because its drop could panic again, without end.
//! - The boundary does not own the handler. The handler may have captured a scheduler, which owns the engine, which
//!   owns the boundary; nothing in such a cycle would ever be dropped. So the owners of the handler are the values and
//!   threads that may still run or drop jobs: the wheel, its driver, its drainers, the threads of its own pool, and the
//!   jobs that a shutdown returned. The last of them drops it.
//! - A thread that advances or ends a wheel waits for the hooks that it calls, and other threads may wait for it. So no
//!   verb waits inside a hook: not for its own wheel, and not for another wheel, one of whose hooks may be waiting for
//!   this wheel.
//! - The note of a hook is thread-local. Hooks nest, so the end of a hook restores the note to its previous value.

use core::any::Any;
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crate::values::handle::Handle;
use crate::values::job::Job;

std::thread_local! {
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Calls a hook, or a function that calls hooks. It must not unwind.
pub(crate) fn call_hook(call: impl FnOnce()) {
    let outer = IN_HOOK.replace(true);
    call();
    IN_HOOK.set(outer);
}

/// Returns whether this thread is inside a hook. Then the caller must not wait for other threads.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}

/// The closure that the user gave to handle panics.
pub(crate) type OnPanic = Box<dyn Fn(Panic) + Send + Sync>;

/// A panic that the wheel caught, as the closure of [`Builder::on_panic`](crate::Builder::on_panic)
/// receives it.
#[non_exhaustive]
pub struct Panic {
    /// The handle of the job that panicked, in a run or while it was dropped. `None` for other user
    /// code: a waker, [`Full::Give`](crate::Full::Give), the drop of a key or an event, or a task
    /// that a job spawned on the wheel's own pool. Also `None` if the system refused to start the
    /// pool's threads ([`Builder::threads`](crate::Builder::threads)).
    pub handle: Option<Handle>,
    /// The value that the panic carries.
    pub payload: Box<dyn Any + Send>,
}

impl Panic {
    /// Returns the message of the panic, if it is text, as it is for the panics of `panic!`,
    /// `assert!` and `unwrap`.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self.payload.downcast_ref::<&'static str>() {
            Some(text) => Some(text),
            None => self.payload.downcast_ref::<String>().map(String::as_str),
        }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panic")
            .field("handle", &self.handle)
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}

/// The user's panic handler. It is kept as long as user code may still run.
pub(crate) struct PanicHandler {
    /// `None` only while it is being dropped.
    on_panic: Option<OnPanic>,
    panicked: Arc<AtomicU64>,
}

impl Drop for PanicHandler {
    fn drop(&mut self) {
        let on_panic = self.on_panic.take();
        // The last owner may be a thread of the pool, and nothing may unwind into rayon.
        catch_unreported(&self.panicked, || drop(on_panic));
    }
}

/// Calls a hook that has to do with the report of a panic. Counts its own panic, and does not report
/// it.
fn catch_unreported(panicked: &AtomicU64, hook: impl FnOnce()) {
    call_hook(|| {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(hook)) {
            panicked.fetch_add(1, Ordering::Relaxed);
            core::mem::forget(payload);
        }
    });
}

#[derive(Default)]
pub(crate) struct UnwindBoundary {
    panicked: Arc<AtomicU64>,
    handler: Weak<PanicHandler>,
}

impl UnwindBoundary {
    /// Returns a boundary, and the owner of its handler if there is one.
    pub(crate) fn new(on_panic: Option<OnPanic>) -> (UnwindBoundary, Option<Arc<PanicHandler>>) {
        let panicked = Arc::new(AtomicU64::new(0));
        let handler = on_panic.map(|on_panic| {
            let panicked = Arc::clone(&panicked);
            Arc::new(PanicHandler { on_panic: Some(on_panic), panicked })
        });
        let weak = handler.as_ref().map_or_else(Weak::new, Arc::downgrade);
        (UnwindBoundary { panicked, handler: weak }, handler)
    }

    /// Runs a job that is due, and was inserted under this handle.
    pub(crate) fn fire(&self, job: Job, handle: Handle) {
        self.catch(Some(handle), || job.fire());
    }

    /// Calls user code of the job with this handle. Returns its result, or `None` if it panicked.
    pub(crate) fn call<T>(&self, handle: Handle, user: impl FnOnce() -> T) -> Option<T> {
        let mut returned = None;
        self.catch(Some(handle), || returned = Some(user()));
        returned
    }

    pub(crate) fn call_without_handle(&self, user: impl FnOnce()) {
        self.catch(None, user);
    }

    /// Drops a job that will not run, or another value of the job with this handle.
    pub(crate) fn discard_job<T>(&self, job: T, handle: Handle) {
        self.catch(Some(handle), || drop(job));
    }

    pub(crate) fn discard<T>(&self, value: T) {
        self.catch(None, || drop(value));
    }

    pub(crate) fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }

    fn catch(&self, handle: Option<Handle>, user: impl FnOnce()) {
        // Unwind safe: `user` owns everything that it touches, and none of that is state of the
        // wheel.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(user)) {
            self.report(Panic { handle, payload });
        }
    }

    /// Counts a panic that was caught, and hands it to the user's handler.
    pub(crate) fn report(&self, panic: Panic) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        catch_unreported(&self.panicked, || {
            crate::host::traces::panicked(panic.handle, panic.message());
        });
        let handler = self.handler.upgrade();
        let report = || match handler.as_ref().and_then(|handler| handler.on_panic.as_ref()) {
            Some(on_panic) => on_panic(panic),
            None => drop(panic),
        };
        catch_unreported(&self.panicked, report);
    }
}

// The handler is only ever called and dropped inside `catch_unwind`.
impl UnwindSafe for UnwindBoundary {}
impl RefUnwindSafe for UnwindBoundary {}
impl UnwindSafe for PanicHandler {}
impl RefUnwindSafe for PanicHandler {}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;
    use crate::values::handle::Generation;

    /// Runs a job that panics.
    fn fire(boundary: &UnwindBoundary, payload: impl core::any::Any + Send) {
        let job = Job::new(move || panic_any(payload));
        boundary.fire(job, Handle::new(0, Generation::MIN, 0));
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic_any("dropped");
        }
    }

    /// A handler, or a payload, that panics is counted and goes no further. So is a handler that panics in its drop; later
    /// panics are counted without it.
    #[test]
    fn handler_or_payload_that_panics_is_silenced() {
        let (boundary, _handler) = UnwindBoundary::new(Some(Box::new(|_| panic_any("handler"))));
        fire(&boundary, "job");
        assert_eq!(boundary.panicked(), 2);
        let boundary = UnwindBoundary::default();
        fire(&boundary, PanicsOnDrop);
        assert_eq!(boundary.panicked(), 2);
        let captured = PanicsOnDrop;
        let (boundary, handler) = UnwindBoundary::new(Some(Box::new(move |_| {
            let _ = &captured;
        })));
        drop(handler);
        assert_eq!(boundary.panicked(), 1);
        fire(&boundary, "job");
        assert_eq!(boundary.panicked(), 2, "without its handler too");
    }
}
