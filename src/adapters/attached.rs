//! A job with an attachment, which stands for it in an adapter: the ticket of its key, or its place in a group.
//!
//! Ground rules:
//!
//! - The attachment leaves the adapter just before the job starts, or when it is dropped with the job. So nothing of
//!   the job is left there, whether it runs, is cancelled or ends with its wheel.
//! - A job that repeats keeps its attachment until the job is dropped, after its last run.
//! - A job that is inserted again has none of this: [`Call::disarm`] returns the user's job alone.

use core::any::Any;

use crate::values::job::{Call, CallAgain, Disarmed, job_of};
use crate::values::repeat::{Next, Run};

/// The drop of an attachment leaves too.
pub(super) trait Attachment {
    /// Takes the job out of the adapter. The second call does nothing. Nothing unwinds from here.
    fn leave(&mut self);
}

pub(super) struct Attached<A, C> {
    pub(super) attachment: A,
    pub(super) job: C,
}

impl<A: Attachment + Send + 'static, C: Call> Call for Attached<A, C> {
    fn call(mut self) {
        // The rest of the attachment is dropped after the run: that may be user code.
        self.attachment.leave();
        self.job.call();
    }

    fn task(&self) -> &dyn Any {
        self.job.task()
    }

    fn into_task(self) -> Box<dyn Any + Send> {
        self.job.into_task()
    }

    fn disarm(self: Box<Self>) -> Disarmed {
        job_of(self.job).disarm()
    }
}

impl<A: Attachment + Send + 'static, C: CallAgain> CallAgain for Attached<A, C> {
    fn call(&mut self, run: Run) -> Next {
        self.job.call(run)
    }

    fn disarm(self) -> Box<dyn CallAgain> {
        self.job.disarm()
    }
}
