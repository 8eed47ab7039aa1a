//! The user's closure, as the wheel keeps it.

use core::fmt;

use crate::values::handle::Handle;
use crate::values::repeat::{Next, Run};

/// A job that has not run: what [`Wheel::take`](crate::Wheel::take) gives back, and what
/// [`Wheel::shutdown`](crate::Wheel::shutdown) hands over.
///
/// Dropping it drops the closure without calling it.
pub struct Job(Box<dyn Work>);

impl Job {
    pub(crate) fn new<W: Work + 'static>(work: Box<W>) -> Job {
        Job(work)
    }

    /// Runs the job on this thread, once. A repeating job is told that it is on time; its answer is
    /// not asked for, and it does not go back.
    ///
    /// # Panics
    ///
    /// When the job does: here nothing stands between it and the caller.
    pub fn run(self) {
        self.0.run();
    }

    /// Does what the wheel wants done when the job's time has come.
    pub(crate) fn fire(self) {
        self.0.fire();
    }

    /// The handle of a re-armable job, whatever key it lies under at the moment.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.handle()
    }
}

/// What a job does when its time has come: the user's closure, or what stands around it.
pub(crate) trait Work: Send {
    /// Calls the closure once, for a user who took the job out of the wheel.
    fn run(self: Box<Self>);

    /// Does what the wheel wants done: a re-armable job may go back into the wheel.
    fn fire(self: Box<Self>) {
        self.run();
    }

    /// The handle of a re-armable job.
    fn handle(&self) -> Option<Handle> {
        None
    }
}

/// What is called once and does not go back: a closure, or one with something around it.
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

/// What is called again and again: a closure, or one with something around it.
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
