//! The job: the user's closure, as the wheel keeps it.

use core::fmt;

use crate::values::handle::Handle;
use crate::values::repeat::{Next, Run};

/// A job that has not run, as [`Wheel::take`](crate::Wheel::take) and
/// [`Wheel::shutdown`](crate::Wheel::shutdown) hand it back.
///
/// Dropping it drops the closure without calling it.
pub struct Job(Box<dyn Work>);

impl Job {
    pub(crate) fn new<W: Work + 'static>(work: Box<W>) -> Job {
        Job(work)
    }

    /// Runs the job on this thread, once. A repeating job is told that it is on time; its answer is
    /// ignored, and it does not run again.
    ///
    /// # Panics
    ///
    /// When the job panics: the panic unwinds into the caller, and is not counted.
    pub fn run(self) {
        self.0.run();
    }

    /// Runs the job because it is due. A re-armable job may go back into the wheel.
    pub(crate) fn fire(self) {
        self.0.fire();
    }

    /// Returns the handle of a re-armable job, and `None` for a one-shot job.
    pub(crate) fn rearmable_handle(&self) -> Option<Handle> {
        self.0.rearmable_handle()
    }
}

/// What a [`Job`] boxes: the user's closure, or a wrapper around it.
pub(crate) trait Work: Send {
    /// Calls the closure once, for a user that took the job out of the wheel.
    fn run(self: Box<Self>);

    /// Runs the job because it is due. A re-armable job may go back into the wheel.
    fn fire(self: Box<Self>) {
        self.run();
    }

    /// Returns the handle of a re-armable job, and `None` for a one-shot job.
    fn rearmable_handle(&self) -> Option<Handle> {
        None
    }
}

/// The content of a one-shot job, called once: a closure, or a wrapper around one.
pub(crate) trait Call: Send {
    fn call(self);
}

impl<F: FnOnce() + Send> Call for F {
    fn call(self) {
        self();
    }
}

impl<C: Call> Work for C {
    fn run(self: Box<C>) {
        (*self).call();
    }
}

/// The content of a repeating job, called for every run: a closure, or a wrapper around one.
pub(crate) trait CallAgain: Send {
    fn call(&mut self, run: Run) -> Next;
}

impl<F: FnMut(Run) -> Next + Send> CallAgain for F {
    fn call(&mut self, run: Run) -> Next {
        self(run)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}
