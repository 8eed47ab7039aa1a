//! The jobs that a shutdown hands back.

use core::fmt;
use core::iter::FusedIterator;
use core::time::Duration;
use std::sync::Arc;
use std::vec;

use crate::engine::verbs::Engine;
use crate::host::unwind::PanicHandler;
use crate::values::handle::Handle;
use crate::values::job::Job;

/// A job that a wheel had not run when it was shut down, or that would have run again.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnfiredJob {
    /// The handle that the insert returned.
    pub handle: Handle,
    /// The time that was left until the job was due; zero if it was due, [`Duration::MAX`] for
    /// "never".
    pub remaining: Duration,
    /// The job itself.
    pub job: Job,
}

/// The jobs that a wheel had not run when it was shut down, in the order of their deadlines, as
/// [`Wheel::shutdown`](crate::Wheel::shutdown) hands them back.
///
/// Dropping it drops the jobs that are left. A captured value that panics then is counted and
/// reported as a job's panic is, and the other jobs are dropped all the same.
#[must_use = "these jobs will not run any more; dropping them discards them"]
pub struct Unfired {
    jobs: vec::IntoIter<UnfiredJob>,
    engine: Arc<Engine>,
    /// For the panics of captured values, when the jobs that are left are dropped.
    _panic_handler: Option<Arc<PanicHandler>>,
}

impl Unfired {
    pub(crate) fn new(
        jobs: Vec<UnfiredJob>,
        engine: Arc<Engine>,
        panic_handler: Option<Arc<PanicHandler>>,
    ) -> Unfired {
        Unfired { jobs: jobs.into_iter(), engine, _panic_handler: panic_handler }
    }
}

impl Iterator for Unfired {
    type Item = UnfiredJob;

    fn next(&mut self) -> Option<UnfiredJob> {
        self.jobs.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.jobs.size_hint()
    }
}

impl DoubleEndedIterator for Unfired {
    fn next_back(&mut self) -> Option<UnfiredJob> {
        self.jobs.next_back()
    }
}

impl ExactSizeIterator for Unfired {}

impl FusedIterator for Unfired {}

impl Drop for Unfired {
    fn drop(&mut self) {
        self.jobs.by_ref().for_each(|unfired| self.engine.discard(unfired.job));
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.jobs.as_slice()).finish()
    }
}
