//! The oracle's part about jobs that have completed or were cancelled: which are kept, with what, and how long (P32),
//! and the answer of a wait for one of them (P33).
//!
//! It is a list of what ended, in which a bound removes the oldest. How many bytes the errors and headers of a job
//! have in a store is not promised. Where that decides, the list is unsure until the store is read.

use tickwheel_jobs::{CallError, JobId, JobInfo, JobState};

use crate::ops::{Bounds, NAMES, micros};
use crate::oracle::{Known, Oracle, Outcome, encoded, ensure};
use crate::record::{Record, Remembered};

/// For how many milliseconds the end of a job is kept on which a caller waits from its insert on.
const WANTED: i64 = 60_000;

/// At how many of the oldest kept jobs a job that completes looks, to remove two at most.
const LOOKED_AT: usize = 8;

/// A job that has ended, as it was at its end.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) id: JobId,
    pub(crate) job: Record,
    /// `Completed` or `Cancelled`.
    pub(crate) outcome: JobState,
    /// Not before, and not after.
    pub(crate) ended: (i64, i64),
    /// A purge after this removes it.
    until: (i64, i64),
    pub(crate) result: Option<Vec<u8>>,
    /// It need not be there any more.
    pub(crate) perhaps: bool,
}

impl Kept {
    /// Returns how many bytes count: not fewer, and not more.
    fn bytes(&self) -> (u64, u64) {
        let Record { own, errors, plan, .. } = &self.job;
        let exact = encoded(plan).len() + self.result.as_ref().map_or(0, Vec::len);
        let texts: usize = errors.iter().map(|failed| failed.error.len()).sum();
        let has_more = own.held
            || own.wanted
            || own.retry.is_some()
            || own.tenant.is_some()
            || own.expires.is_some()
            || own.burst.is_some()
            || own.group.is_some()
            || own.is_callback
            || self.job.partition().is_some();
        let least = exact + texts;
        let most = least + 300 * errors.len() + if has_more { 200 } else { 0 };
        (least as u64, most as u64)
    }

    /// No bound removes it yet.
    fn is_waited_for(&self, now: i64) -> bool {
        self.job.own.wanted && now <= self.ended.1.saturating_add(WANTED)
    }

    /// Names the first difference between a job of the oracle and the same job of the store.
    pub(crate) fn compare(&self, info: &JobInfo) -> Outcome {
        let Kept { job, outcome, ended, .. } = self;
        let attempt = job.runs + u32::from(*outcome == JobState::Completed);
        let its_end = info.ended.map(|ended| micros(ended) / 1000);
        let same = info.id == self.id
            && info.state == *outcome
            && info.kind == NAMES[job.kind]
            && micros(info.due) == job.due * 1000
            && info.failures == job.failures
            && (info.attempt == attempt || job.runs_unsure || job.doubtful)
            && info.key == job.key
            && info.partition == job.partition()
            && info.group == job.own.group
            && job.has_errors(info)
            && job.has_own(info)
            && its_end.is_some_and(|at| (ended.0..=ended.1).contains(&at))
            && info.died.is_none()
            && info.took.is_some_and(|took| took.is_zero())
            && info.result == self.result
            && info.progress.is_none()
            && info.payload == encoded(&job.plan);
        ensure(same, || format!("the store has {info:?}, not {self:?}"))
    }
}

impl Oracle {
    /// A job ends otherwise than dead, at a time between these. If it completed, its run has set this result.
    pub(crate) fn leaves(
        &mut self,
        job: Record,
        outcome: JobState,
        ended: (i64, i64),
        result: Option<Vec<u8>>,
    ) {
        let Some(id) = job.id else { return };
        let kind = job.kind;
        let keep = self.keeps[kind].filter(|_| outcome != JobState::Cancelled);
        let for_kind = keep.map(|keep| i64::try_from(keep.age).unwrap_or(i64::MAX));
        let Some(time) = for_kind.max(job.own.wanted.then_some(WANTED)) else {
            if job.named {
                self.remembered.push(Remembered { id, since: ended, perhaps: false });
            }
            return;
        };
        let until = (ended.0.saturating_add(time), ended.1.saturating_add(time));
        let perhaps = until.0 < self.now();
        self.kept.push(Kept { id, job, outcome, ended, until, result, perhaps });
        if let Some(keep) = keep {
            self.trim(kind, keep);
        }
    }

    /// Removes the oldest completed jobs of a kind, two at most, while there are too many, or too many bytes.
    fn trim(&mut self, kind: usize, keep: Bounds) {
        let now = self.now();
        let mut skipped = 0;
        for _ in 0..2 {
            let mut of_kind: Vec<usize> = (0..self.kept.len())
                .filter(|at| self.kept[*at].job.kind == kind)
                .filter(|at| self.kept[*at].outcome != JobState::Cancelled)
                .collect();
            of_kind.sort_by_key(|at| (self.kept[*at].ended, self.kept[*at].id));
            let counted = of_kind.iter().filter(|at| !self.kept[**at].is_waited_for(now));
            let sure = counted.clone().filter(|at| !self.kept[**at].perhaps);
            let least: u64 = sure.clone().map(|at| self.kept[*at].bytes().0).sum();
            let most: u64 = counted.clone().map(|at| self.kept[*at].bytes().1).sum();
            if counted.count() as u64 <= keep.last && most <= keep.bytes {
                return;
            }
            let is_sure = sure.count() as u64 > keep.last || least > keep.bytes;
            let mut waited_for = 0;
            let mut free = Vec::new();
            for at in of_kind {
                if self.kept[at].is_waited_for(now) {
                    waited_for += 1;
                } else if waited_for + skipped < LOOKED_AT {
                    free.push(at);
                }
            }
            skipped += usize::from(is_sure);
            let Some(&oldest) = free.first() else { return };
            let first_sure = free.iter().copied().find(|at| !self.kept[*at].perhaps);
            // If the oldest is gone already, the next one goes.
            if let Some(at) = first_sure.filter(|at| *at != oldest || !is_sure) {
                self.kept[at].perhaps = true;
            }
            if is_sure {
                self.removed(oldest);
            }
        }
    }

    /// A bound or a purge has removed a job. Its id stays if it was chosen, and its time is not over.
    fn removed(&mut self, at: usize) {
        let Kept { id, job, ended, .. } = self.kept.remove(at);
        if job.named {
            let perhaps = ended.0 < self.now() - self.retention;
            self.remembered.push(Remembered { id, since: ended, perhaps });
        }
    }

    pub(crate) fn find_kept(&self, id: JobId) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.id == id)
    }

    pub(crate) fn known_as_kept(&self, id: JobId) -> Option<Known> {
        let kept = self.find_kept(id)?;
        let remembered = kept.job.named && kept.ended.0 >= self.now() - self.retention;
        Some(if kept.perhaps && !remembered { Known::Perhaps } else { Known::Yes })
    }

    /// A kept job is deleted, at a time between these. Says whether there was one.
    pub(crate) fn delete_kept(&mut self, id: JobId, got: bool, ends: (i64, i64)) -> Outcome<bool> {
        let Some(at) = self.kept.iter().position(|kept| kept.id == id) else { return Ok(false) };
        ensure(got || self.kept[at].perhaps, || format!("stays: {:?}", self.kept[at]))?;
        if got {
            let named = self.kept.remove(at).job.named;
            if named {
                self.remembered.push(Remembered { id, since: ends, perhaps: false });
            }
        } else {
            self.removed(at);
        }
        Ok(true)
    }

    /// The clock of a process that purges reads this.
    pub(crate) fn keeps_until(&mut self, now: i64) {
        for kept in &mut self.kept {
            kept.perhaps |= kept.until.0 < now;
        }
    }

    /// Compares the store's list of jobs that have ended and are not dead.
    pub(crate) fn list_of_kept(&mut self, listed: &[JobInfo]) -> Outcome {
        for info in listed {
            let kept = self.find_kept(info.id);
            kept.ok_or_else(|| format!("it is not kept: {info:?}"))?.compare(info)?;
        }
        let now = self.now();
        for at in (0..self.kept.len()).rev() {
            let kept = &mut self.kept[at];
            if listed.iter().any(|info| info.id == kept.id) {
                kept.perhaps = kept.until.0 < now;
                continue;
            }
            ensure(kept.perhaps, || format!("it is not there any more: {kept:?}"))?;
            self.removed(at);
        }
        // After the clock was set back, ten minutes and more pass until the next purge.
        let old = self.kept.iter().find(|kept| kept.until.1 < now - 601_000 && !self.set_back);
        ensure(old.is_none(), || format!("past its age: {old:?}"))
    }

    /// Compares the answer of `get` for a job that has ended and is not dead, or that was never there.
    pub(crate) fn get_of_kept(&self, id: JobId, info: Option<&JobInfo>) -> Outcome {
        match (self.find_kept(id), info) {
            (Some(kept), Some(info)) => kept.compare(info),
            (None, None) => Ok(()),
            (Some(kept), None) if kept.perhaps => Ok(()),
            (kept, info) => Err(format!("get {id}: {info:?}, not {kept:?}")),
        }
    }

    /// Says whether a wait that looks once was answered rightly.
    pub(crate) fn waited(&self, id: JobId, got: &Result<JobInfo, CallError>) -> Outcome {
        let wrong = || format!("a wait for {id}: {got:?}");
        if let Some(at) = self.find(id) {
            let job = &self.jobs[at];
            let dead = matches!(got, Err(CallError::Dead(of, error))
                if *of == id && job.errors.first().is_some_and(|it| it.error == *error));
            let not_yet = matches!(got, Err(CallError::TimedOut(of)) if *of == id);
            let gone = matches!(got, Err(CallError::Gone(of)) if *of == id);
            let is_dead = job.state == JobState::Dead;
            let unsure = job.doubtful && (dead || not_yet) || job.perhaps && gone;
            let right = unsure || if is_dead { dead } else { not_yet };
            return ensure(right, || format!("{}: {job:?}", wrong()));
        }
        let kept = self.find_kept(id);
        match (kept, got) {
            (None, Err(CallError::Gone(of))) if *of == id => Ok(()),
            (Some(kept), Ok(info)) if kept.outcome == JobState::Completed => kept.compare(info),
            (Some(kept), Err(CallError::Expired(of)))
                if *of == id && kept.outcome == JobState::Expired =>
            {
                Ok(())
            }
            (Some(kept), Err(CallError::Cancelled(of)))
                if *of == id && kept.outcome == JobState::Cancelled =>
            {
                Ok(())
            }
            (Some(Kept { perhaps: true, .. }), Err(CallError::Gone(of))) if *of == id => Ok(()),
            _ => Err(format!("{}, and there is {kept:?}", wrong())),
        }
    }
}
