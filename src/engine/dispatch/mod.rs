//! What happens to a job once it is due: it is handed over, it starts, it ends or unwinds.
//!
//! Ground rules: a [`DueJob`] job is out of the wheel, nobody can cancel it; it runs once or is handed
//! back by a shutdown. Both runners keep the books in one [`Ledger`].

pub(crate) mod inline;
pub(crate) mod pool;

use crate::engine::metrics::{Histogram, Stats};
use crate::host::sync::{AtomicU64, Ordering};
use crate::host::unwind::UnwindBoundary;
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::time::Moment;

/// A job that has come due, on its way to be run.
pub(crate) struct DueJob {
    pub(crate) job: Job,
    /// Who it was.
    pub(crate) handle: Handle,
    /// When it was due.
    pub(crate) deadline: Moment,
}

/// Where the ticker hands due jobs over.
pub(crate) trait Outlet {
    /// How many more jobs may be in flight. With none, the ticker is woken when one has ended.
    fn room(&self) -> usize;

    /// Takes the jobs, which are due. Returns at once.
    fn hand_over(&self, jobs: &mut Vec<DueJob>);
}

/// The books on jobs that came due.
pub(crate) struct Ledger {
    boundary: UnwindBoundary,
    handed_over: AtomicU64,
    ended: AtomicU64,
    handover: Histogram,
    start: Histogram,
}

impl Ledger {
    pub(crate) fn new(boundary: UnwindBoundary) -> Ledger {
        Ledger {
            boundary,
            handed_over: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            handover: Histogram::new(),
            start: Histogram::new(),
        }
    }

    /// The fence that all user code passes.
    pub(crate) fn boundary(&self) -> &UnwindBoundary {
        &self.boundary
    }

    /// Notes that a job has left the wheel for whoever runs it.
    pub(crate) fn hand_over(&self, due: Moment, now: Moment) {
        self.handed_over.fetch_add(1, Ordering::SeqCst);
        self.handover.record(now.since(due));
    }

    /// Runs a job that was handed over at `handed_over`.
    pub(crate) fn run(&self, job: Job, handed_over: Moment, now: Moment) {
        self.start.record(now.since(handed_over));
        self.boundary.fire(job);
        self.end();
    }

    /// Notes that a job handed over has run, or never will.
    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// How many jobs have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// How many jobs are handed over and have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        // In this order: a job that ends between the two must not make the difference negative.
        let ended = self.ended();
        (self.handed_over.load(Ordering::SeqCst) - ended) as usize
    }

    /// Fills in what the ledger knows.
    pub(crate) fn report(&self, stats: &mut Stats) {
        stats.panicked = self.boundary.panicked();
        stats.handover = self.handover.lateness();
        stats.start = self.start.lateness();
    }
}
