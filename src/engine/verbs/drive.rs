//! The verbs of the ticker and the driver: they advance the wheel, and end it.

use core::mem::ManuallyDrop;

use super::Engine;
use crate::engine::dispatch::DueJob;
use crate::engine::shard::{NextWake, Shard, Unstarted};
use crate::engine::timers::{Due, TimersSurplus};
use crate::host::sync::Ordering;
use crate::values::job::Job;
use crate::values::time::{Span, Tick};

/// The jobs that one advance takes out. Its memory is used again, so an advance allocates nothing.
#[derive(Default)]
pub(crate) struct DueJobs {
    pub(crate) jobs: Vec<DueJob>,
    /// The jobs as they come out of a shard. Empty between two advances.
    taken: Vec<Due<Job>>,
    /// Memory that the shard does not need any more.
    pub(crate) surplus: Option<TimersSurplus<Job>>,
}

impl DueJobs {
    pub(crate) fn with_capacity(jobs: usize) -> DueJobs {
        let (jobs, taken) = (Vec::with_capacity(jobs), Vec::with_capacity(jobs));
        DueJobs { jobs, taken, surplus: None }
    }
}

impl Engine {
    /// Returns the next wake for all shards of jobs.
    pub(crate) fn next_wake(&self) -> NextWake {
        self.shards.iter().map(Shard::next_wake).fold(NextWake::NEVER, NextWake::join)
    }

    /// Returns whether an event is pending, due or not.
    #[cfg(feature = "async")]
    pub(crate) fn has_pending_events(&self) -> bool {
        self.sources.has_pending_events()
    }

    /// Returns the earliest deadline of all jobs and sources, by a look at every timer that may
    /// have it.
    pub(crate) fn earliest_deadline(&self) -> Tick {
        let jobs = self.shards.iter().map(Shard::earliest_deadline).min().unwrap_or(Tick::MAX);
        jobs.min(self.sources.earliest_deadline())
    }

    /// Advances one shard to `to`, looking at no more than `limit` entries, and appends the jobs
    /// that are due. Returns whether all of them were appended.
    ///
    /// The caller must have processed every tick before `to`. All jobs that come out are stamped as
    /// due at `to`.
    pub(crate) fn advance_shard(
        &self,
        shard: usize,
        to: Tick,
        limit: usize,
        due: &mut DueJobs,
    ) -> bool {
        let DueJobs { jobs: due, taken: jobs, surplus } = due;
        let finished;
        (finished, *surplus) = self.shards[shard].advance(to, limit, jobs);
        if let Some(bound) = &self.bound {
            // A re-armable job keeps its room while it is out, for when it comes back.
            bound.release(jobs.iter().filter(|(_, job)| job.rearmable_handle().is_none()).count());
        }
        let when = self.timebase.scale().begin(to);
        let shard = &self.shards[shard];
        due.extend(jobs.drain(..).map(|(key, job)| {
            let job = ManuallyDrop::into_inner(job);
            DueJob { job, handle: shard.handle(key), deadline: when }
        }));
        finished
    }

    /// Notes how far behind the clock the ticker was when it found work.
    pub(crate) fn set_behind(&self, behind: Span) {
        self.behind.store(behind.get(), Ordering::Relaxed);
    }

    /// Notes that the ticker woke.
    pub(crate) fn note_wakeup(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    /// Refuses every insert from now on, makes the ticker end, and closes the sources. Returns the
    /// pending jobs.
    pub(crate) fn stop(&self) -> Vec<Unstarted> {
        // Before the wake: the ticker, awake or woken, sees `stopped` through the parker's lock.
        self.stopped.store(true, Ordering::Release);
        self.alarm.parker().wake();
        let mut pending = Vec::new();
        for shard in &self.shards {
            pending.extend(shard.close(&self.timebase));
        }
        self.release(pending.len());
        self.sources.close(self.timebase.present());
        pending
    }

    /// To be called after [`Engine::stop`]. Returns the jobs that never ran: those of
    /// `handed_over`, and re-armable jobs that came back since. Jobs that come back later are
    /// dropped.
    pub(crate) fn collect_unstarted(
        &self,
        handed_over: impl Iterator<Item = DueJob>,
    ) -> Vec<Unstarted> {
        let mut unstarted = Vec::new();
        for DueJob { job, handle, .. } in handed_over {
            let Some(rearmable) = job.rearmable_handle() else {
                unstarted.push((handle, Tick::new(0), job));
                continue;
            };
            match self.deregister(rearmable) {
                Some(due) => unstarted.push((rearmable, due, job)),
                // The job was cancelled on its way.
                None => self.discard(job, rearmable),
            }
        }
        for shard in &self.shards {
            for (stray, registered) in shard.collect_unstarted(&self.timebase) {
                match registered {
                    true => unstarted.push(stray),
                    false => self.discard(stray.2, stray.0),
                }
            }
        }
        unstarted
    }
}
