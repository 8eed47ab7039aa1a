//! What a shutdown hands back.

use core::fmt;
use core::iter::FusedIterator;
use core::time::Duration;
use std::sync::Arc;
use std::vec;

use crate::engine::verbs::Engine;
use crate::host::unwind::PanicHandler;
use crate::values::handle::Handle;
use crate::values::job::Job;

/// A job that a shut-down wheel never ran, or that would have run again.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnfiredJob {
    /// Its handle, as the insert gave it.
    pub handle: Handle,
    /// How long it would have waited still; zero if it was due, [`Duration::MAX`] for "never".
    pub remaining: Duration,
    /// The job itself.
    pub job: Job,
}

/// The jobs that a shut-down wheel never ran, in the order of their deadlines: what
/// [`Wheel::shutdown`](crate::Wheel::shutdown) hands back.
///
/// What is left in it when it is dropped is dropped with it; a captured value that panics then is
/// counted as any other, and spares the rest.
#[must_use = "these jobs never ran; dropping them discards them"]
pub struct Unfired {
    jobs: vec::IntoIter<UnfiredJob>,
    engine: Arc<Engine>,
    /// For the panics of captured values, when what is left is dropped.
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
