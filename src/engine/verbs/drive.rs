//! What those need that turn the wheel, the ticker and the driver; and how it ends.

use core::mem::ManuallyDrop;

use super::Engine;
use crate::engine::dispatch::Due;
use crate::engine::shard::{Outlook, Shard, Unstarted};
use crate::host::sync::Ordering;
use crate::values::time::{Span, Tick};

impl Engine {
    /// A tick before which nothing is due, and whether anything waits for a wall-clock time.
    pub(crate) fn outlook(&self) -> Outlook {
        let mut all = Outlook { expected: Tick::MAX, on_the_wall: false };
        for one in self.shards.iter().map(Shard::outlook) {
            all.expected = all.expected.min(one.expected);
            all.on_the_wall |= one.on_the_wall;
        }
        all
    }

    /// Turns one shard to `to`, looking at no more than `limit` entries, and appends what is due;
    /// whether that is all of it. Nothing before `to` may be due: it is when what comes now was
    /// due.
    pub(crate) fn turn(&self, shard: usize, to: Tick, limit: usize, due: &mut Vec<Due>) -> bool {
        let mut jobs = Vec::new();
        let finished = self.shards[shard].turn(to, limit, &mut jobs);
        if let Some(bound) = &self.bound {
            // A standing job keeps its room while it is out: it has to find it when it comes back.
            bound.give_back(jobs.iter().filter(|(_, job)| job.handle().is_none()).count());
        }
        let when = self.timing.scale().begin(to);
        let shard = &self.shards[shard];
        due.extend(jobs.into_iter().map(|(key, job)| {
            let job = ManuallyDrop::into_inner(job);
            Due { job, handle: shard.handle(key), due: when }
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
    pub(crate) fn end(&self, handed_over: impl Iterator<Item = Due>) -> Vec<Unstarted> {
        let mut unstarted = Vec::new();
        for Due { job, handle, .. } in handed_over {
            // A standing job that has lost its seat was cancelled on the way.
            match job.handle() {
                Some(standing) if !self.leave(standing) => self.discard(job),
                standing => unstarted.push((standing.unwrap_or(handle), Tick::new(0), job)),
            }
        }
        for shard in &self.shards {
            for (stray, seated) in shard.end() {
                match seated {
                    true => unstarted.push(stray),
                    false => self.discard(stray.2),
                }
            }
        }
        unstarted
    }
}
