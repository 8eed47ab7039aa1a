//! The jobs that a shutdown hands back.

use core::fmt;
use core::iter::FusedIterator;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::vec;

use crate::engine::verbs::Engine;
use crate::host::user_panics::PanicHandler;
use crate::values::handle::Handle;
use crate::values::job::Job;

/// A job that a wheel had not run when it was shut down, or that would have run again.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnfiredJob {
    /// The handle that the insert returned.
    pub handle: Handle,
    /// The time that was left until the tick at which the job was due; zero if it was due, [`Duration::MAX`] for
    /// "never".
    pub remaining: Duration,
    /// The wall-clock time of the tick at which the job is due, to be saved over a restart. (With a long tick, save a
    /// time of your own: each restart rounds up to a tick once more.) `None` for "never", and for a time that the
    /// system cannot represent.
    pub wall: Option<SystemTime>,
    /// The job itself.
    pub job: Job,
}

/// The jobs that a wheel had not run when it was shut down, in the order of their deadlines, as
/// [`Wheel::shutdown`](crate::Wheel::shutdown) hands them back.
///
/// To save jobs over a restart, insert each as a [`Task`](crate::Task) of a type of its own;
/// [`Job::downcast`] returns that. `examples/save_and_reload.rs` does so with a file of JSON. A job can
/// also be inserted into another wheel; a repeating job goes on repeating there.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Task, Wheel};
///
/// struct Retry { url: String, attempt: u32 }
///
/// impl Task for Retry {
///     fn run(self) {
///         println!("attempt {} of {}", self.attempt, self.url);
///     }
/// }
///
/// let wheel = Wheel::new();
/// wheel.insert(Duration::from_secs(60), Retry { url: "http://example.org".into(), attempt: 2 });
/// wheel.every(Duration::from_secs(1), || println!("tick"))?;
///
/// let next = Wheel::new();
/// for unfired in wheel.shutdown() {
///     match unfired.job.downcast::<Retry>() {
///         Ok(Retry { url, attempt }) => println!("{url} {attempt} {:?}", unfired.wall),
///         Err(job) => drop(next.insert(unfired.remaining, job)),
///     }
/// }
/// assert_eq!(next.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it drops the jobs that are left. If a captured value panics then, the panic is counted
/// and reported as a job's panic is, and the other jobs are still dropped.
#[must_use = "these jobs will not run any more; dropping them discards them"]
pub struct Unfired {
    jobs: vec::IntoIter<UnfiredJob>,
    still_running: usize,
    engine: Arc<Engine>,
    /// Kept alive for panics of captured values, when the jobs that are left are dropped.
    _panic_handler: Option<Arc<PanicHandler>>,
}

impl Unfired {
    pub(crate) fn new(
        jobs: Vec<UnfiredJob>,
        still_running: usize,
        engine: Arc<Engine>,
        panic_handler: Option<Arc<PanicHandler>>,
    ) -> Unfired {
        Unfired { jobs: jobs.into_iter(), still_running, engine, _panic_handler: panic_handler }
    }

    /// Returns the number of jobs that were still running when the shutdown returned: those for which
    /// [`Wheel::close`](crate::Wheel::close) does not wait, or that outlasted the limit of
    /// [`Wheel::shutdown_timeout`](crate::Wheel::shutdown_timeout). Zero for a second shutdown.
    #[must_use]
    pub fn still_running(&self) -> usize {
        self.still_running
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
        let discard = |unfired: UnfiredJob| self.engine.discard(unfired.job, unfired.handle);
        self.jobs.by_ref().for_each(discard);
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired").field("len", &self.jobs.len()).finish_non_exhaustive()
    }
}
