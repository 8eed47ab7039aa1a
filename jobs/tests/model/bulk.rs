//! The verbs for every job of a list, done to the store and told to the oracle, and the counts compared.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tickwheel_jobs::{Bulk, BulkCounts, JobId, JobState, StoreError};

use crate::calls::{Call, of_kind, ok};
use crate::history::What;
use crate::ops::{Every, is_a_time, micros};
use crate::oracle::{Outcome, ensure};
use crate::record::Remembered;

impl Call<'_> {
    /// Calls the verb for every job of a kind, or of all.
    pub(crate) fn bulk(&self, verb: Every, kind: Option<usize>) -> Outcome {
        let pending = of_kind(self.client.pending(), kind);
        let dead = of_kind(self.client.dead(), kind);
        let mut due = None;
        let bulk = match verb {
            Every::Cancel => pending.cancel_all(),
            Every::Reschedule(time) => {
                due = time.due(self.wall);
                pending.reschedule_all(self.when(time))
            }
            Every::Retry => dead.retry_all(),
            Every::Delete => dead.delete_all(),
        };
        let (mut bulk, seen) = noted(ok(bulk)?);
        let got = bulk.run();
        if matches!(verb, Every::Reschedule(_)) && due.is_none() {
            return ensure(
                matches!(&got, Err(StoreError::Invalid(error)) if is_a_time(error)),
                || format!("wrong: {got:?}"),
            );
        }
        let got = ok(got)?;
        let seen = seen.lock().expect("no test panics with it").clone();
        let state = match verb {
            Every::Cancel | Every::Reschedule(_) => JobState::Pending,
            Every::Retry | Every::Delete => JobState::Dead,
        };
        self.sees(&seen, kind, state, due)?;
        let sum = got.changed + got.asked_to_stop + got.passed_over;
        let right = got.seen == seen.len() as u64 && got.seen == sum && got.asked_to_stop == 0;
        ensure(right, || format!("{got:?} of {}", seen.len()))?;
        match verb {
            Every::Cancel => {
                ensure(got.passed_over == 0, || format!("not cancelled: {got:?}"))?;
                self.all_end(&seen)
            }
            Every::Delete => self.deleted(&seen, got),
            Every::Retry => self.retried(&seen, got),
            Every::Reschedule(_) => {
                ensure(got.passed_over == 0, || format!("not moved: {got:?}"))?;
                self.moved(&seen, due.unwrap_or(0))
            }
        }
    }

    /// The list has each job once that the oracle has in this state. `due`: those that are due then already are left
    /// out.
    fn sees(
        &self,
        seen: &[JobId],
        kind: Option<usize>,
        state: JobState,
        due: Option<i64>,
    ) -> Outcome {
        let oracle = &self.shared.lock().oracle;
        let once: HashSet<JobId> = seen.iter().copied().collect();
        ensure(once.len() == seen.len(), || format!("a job is listed twice: {seen:?}"))?;
        let mut listed = 0;
        for job in &oracle.jobs {
            let wanted = job.state == state
                && kind.is_none_or(|kind| kind == job.kind)
                && due != Some(job.due);
            let found = job.id.is_some_and(|id| once.contains(&id));
            let may_lack = job.id.is_none() || job.perhaps || (self.other && job.claimable);
            let right = if wanted { found || may_lack } else { !found };
            ensure(right, || format!("listed: {found}, wanted: {wanted}: {job:?}"))?;
            listed += usize::from(found);
        }
        // The end of the last member has inserted a callback, behind the page that was read.
        let called = seen.iter().filter(|id| oracle.is_coming(**id)).count();
        ensure(listed + called == seen.len(), || format!("there are no such jobs: {seen:?}"))
    }

    fn all_end(&self, seen: &[JobId]) -> Outcome {
        let oracle = &mut self.shared.lock().oracle;
        for id in seen {
            if oracle.is_coming(*id) {
                oracle.settle(self.ends(oracle));
            }
            let at = oracle.find(*id).ok_or("it is not there")?;
            oracle.end(at, self.ends(oracle));
        }
        Ok(())
    }

    /// A job whose retention has passed may be purged between its page and its step.
    fn deleted(&self, seen: &[JobId], got: BulkCounts) -> Outcome {
        let mut perhaps = 0;
        for id in seen {
            let oracle = &mut self.shared.lock().oracle;
            let at = oracle.find(*id).ok_or("it is not there")?;
            let unsure = oracle.jobs[at].perhaps && got.passed_over > 0;
            perhaps += u64::from(unsure);
            let ends = self.ends(oracle);
            oracle.end(at, ends);
            let last = oracle.remembered.last_mut().filter(|last| last.id == *id && unsure);
            if let Some(Remembered { perhaps, .. }) = last {
                *perhaps = true;
            }
        }
        ensure(got.passed_over <= perhaps, || format!("not deleted: {got:?}"))
    }

    fn retried(&self, seen: &[JobId], got: BulkCounts) -> Outcome {
        let old = self.retried_in_vain(seen);
        let mut retried = old.values().filter(|is_retried| **is_retried).count() as u64;
        for id in seen.iter().filter(|id| !old.contains_key(id)) {
            let info = ok(self.client.get(*id))?;
            let oracle = &mut self.shared.lock().oracle;
            let at = oracle.find(*id).ok_or("it is not there")?;
            let Some(info) = info else {
                ensure(oracle.jobs[at].perhaps, || format!("gone: {:?}", oracle.jobs[at]))?;
                oracle.jobs.remove(at);
                continue;
            };
            let by = oracle.jobs[at].key.as_ref().and_then(|key| oracle.has_key(key));
            let job = &mut oracle.jobs[at];
            job.perhaps = false;
            let right = (info.state == JobState::Dead) == by.is_some();
            ensure(right, || format!("{by:?} has the key of {info:?}"))?;
            if by.is_none() {
                oracle.happened[job.kind].add(What::Revived, 1);
                (job.failures, job.interruptions, job.due) = (0, 0, micros(info.due) / 1000);
                oracle.moved(at);
                retried += 1;
            }
        }
        ensure(got.changed == retried, || format!("{got:?}, not {retried}"))
    }

    /// A retried job that has expired ends with the first question. So the oracle retries such jobs before. Returns them,
    /// and whether each is pending now.
    fn retried_in_vain(&self, seen: &[JobId]) -> HashMap<JobId, bool> {
        let oracle = &mut self.shared.lock().oracle;
        let now = oracle.now();
        let mut old = HashMap::new();
        for id in seen {
            let Some(at) = oracle.find(*id) else { continue };
            let job = &oracle.jobs[at];
            if job.perhaps || job.own.expires.is_none_or(|expires| expires >= now) {
                continue;
            }
            let is_free = job.key.as_ref().is_none_or(|key| oracle.has_key(key).is_none());
            old.insert(*id, is_free);
            if is_free {
                oracle.happened[job.kind].add(What::Revived, 1);
                let job = &mut oracle.jobs[at];
                (job.failures, job.interruptions, job.due) = (0, 0, now);
                oracle.moved(at);
            }
        }
        old
    }

    fn moved(&self, seen: &[JobId], due: i64) -> Outcome {
        let oracle = &mut self.shared.lock().oracle;
        for id in seen {
            let at = oracle.find(*id).ok_or("it is not there")?;
            let job = &mut oracle.jobs[at];
            job.due = due;
            job.occurs = job.occurs.map(|(number, _)| (number, i64::MAX));
            oracle.moved(at);
        }
        Ok(())
    }
}

/// The jobs that a list had, in its order.
type Seen = Arc<Mutex<Vec<JobId>>>;

fn noted(bulk: Bulk) -> (Bulk, Seen) {
    let seen = Seen::default();
    let list = Arc::clone(&seen);
    let note = move |job: &tickwheel_jobs::JobInfo| {
        list.lock().expect("no test panics with it").push(job.id);
        true
    };
    (bulk.only(note), seen)
}
