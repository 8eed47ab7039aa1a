//! What those need that turn the wheel, the ticker and the driver; and how it ends.

use core::mem::ManuallyDrop;

use super::Engine;
use crate::engine::dispatch::DueJob;
use crate::engine::shard::{NextWake, Shard, Unstarted};
use crate::host::sync::Ordering;
use crate::values::time::{Span, Tick};

impl Engine {
    /// A tick before which nothing is due, and whether anything waits for a wall-clock time.
    pub(crate) fn next_wake(&self) -> NextWake {
        let mut all = NextWake { tick: Tick::MAX, watch_wall: false };
        for one in self.shards.iter().map(Shard::next_wake) {
            all.tick = all.tick.min(one.tick);
            all.watch_wall |= one.watch_wall;
        }
        all
    }

    /// Turns one shard to `to`, looking at no more than `limit` entries, and appends what is due;
    /// whether that is all of it. Nothing before `to` may be due: it is when what comes now was
    /// due.
    pub(crate) fn advance_shard(
        &self,
        shard: usize,
        to: Tick,
        limit: usize,
        due: &mut Vec<DueJob>,
    ) -> bool {
        let mut jobs = Vec::new();
        let finished = self.shards[shard].advance(to, limit, &mut jobs);
        if let Some(bound) = &self.bound {
            // A re-armable job keeps its room while it is out: it has to find it when it comes back.
            bound.release(jobs.iter().filter(|(_, job)| job.handle().is_none()).count());
        }
        let when = self.timebase.scale().begin(to);
        let shard = &self.shards[shard];
        due.extend(jobs.into_iter().map(|(key, job)| {
            let job = ManuallyDrop::into_inner(job);
            DueJob { job, handle: shard.handle(key), deadline: when }
        }));
        finished
    }

    /// Notes how far behind the clock whoever turns the wheel was when it found work.
    pub(crate) fn set_behind(&self, behind: Span) {
        self.behind.store(behind.get(), Ordering::Relaxed);
    }

    /// Refuses every insert from here on, tells the ticker to end, and takes out what is pending.
    pub(crate) fn stop(&self) -> Vec<Unstarted> {
        self.stopped.store(true, Ordering::SeqCst);
        self.alarm.parker().wake();
        let mut pending = Vec::new();
        for shard in &self.shards {
            pending.extend(shard.close());
        }
        self.release(pending.len());
        pending
    }

    /// What of a stopped engine did not run, of what was handed over, and of what came back since.
    /// Who comes back from here on is not kept.
    pub(crate) fn finish_shutdown(
        &self,
        handed_over: impl Iterator<Item = DueJob>,
    ) -> Vec<Unstarted> {
        let mut unstarted = Vec::new();
        for DueJob { job, handle, .. } in handed_over {
            // A re-armable job that has lost its registration was cancelled on the way.
            match job.handle() {
                Some(rearmable) if !self.deregister(rearmable) => self.discard(job),
                rearmable => unstarted.push((rearmable.unwrap_or(handle), Tick::new(0), job)),
            }
        }
        for shard in &self.shards {
            for (stray, registered) in shard.finish_shutdown() {
                match registered {
                    true => unstarted.push(stray),
                    false => self.discard(stray.2),
                }
            }
        }
        unstarted
    }
}
