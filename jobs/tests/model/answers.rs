//! What a call that crossed the end of the jobs was answered, and what the oracle makes of it.

use std::time::Duration;

use tickwheel_jobs::{
    CallError, Cancel, Client, InsertErrorKind, JobId, JobInfo, JobState, StoreError, Violation,
};

use crate::crossing::{at, comes_back, keeps_time};
use crate::insert::{Way, insert, insert_batch};
use crate::ops::{Plan, Verb, micros};
use crate::oracle::{Known, Oracle, Outcome, encoded, ensure};

/// A call, and everything that it says.
#[derive(Clone, Debug)]
pub(crate) enum Crossing {
    Insert {
        id: Option<JobId>,
        kind: usize,
        due: i64,
        plan: Plan,
    },
    Batch {
        kind: usize,
        jobs: Vec<(i64, Plan)>,
    },
    Key {
        key: String,
        verb: Verb,
        kind: usize,
        due: i64,
        plan: Plan,
    },
    Cancel(JobId),
    Reschedule(JobId, i64),
    CancelKey(String),
    RescheduleKey(String, i64),
    Retry(JobId),
    Delete(JobId),
    /// The how-manieth question.
    Ask(u64),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Ids(Vec<JobId>),
    Occupied,
    Changed(bool),
    Cancelled(Cancel),
    Asked,
    Closed,
    /// With the first id, if it is an insert.
    Unknown(Option<JobId>),
    Wrong(String),
}

impl From<StoreError> for Answer {
    fn from(error: StoreError) -> Answer {
        match error {
            StoreError::Closed => Answer::Closed,
            StoreError::Unknown => Answer::Unknown(None),
            other => Answer::Wrong(format!("{other:?}")),
        }
    }
}

fn of<T>(answer: Result<T, StoreError>, right: impl FnOnce(T) -> Answer) -> Answer {
    answer.map_or_else(Answer::from, right)
}

fn refused(kind: InsertErrorKind, came_back: Outcome) -> Answer {
    match (kind, came_back) {
        (_, Err(wrong)) => Answer::Wrong(wrong),
        (InsertErrorKind::Closed, _) => Answer::Closed,
        (InsertErrorKind::Occupied, _) => Answer::Occupied,
        (InsertErrorKind::Unknown(id), _) => Answer::Unknown(Some(id)),
        (other, _) => Answer::Wrong(format!("{other:?}")),
    }
}

fn checked(answer: Result<(), Violation>) -> Answer {
    match answer.map_err(|violation| violation.to_string()) {
        Ok(()) => Answer::Asked,
        // A violation is the one error of a check that was made.
        Err(text) if text.contains("shut down") => Answer::Closed,
        Err(text) => Answer::Wrong(text),
    }
}

impl Crossing {
    pub(crate) fn make(&self, client: &Client) -> Answer {
        let one = |way: Way<'_>, kind: usize, due: i64, plan: &Plan| match insert(
            client,
            &way,
            kind,
            at(due),
            plan.clone(),
        ) {
            Ok(id) => Answer::Ids(vec![id]),
            Err((kind, tag)) => refused(kind, comes_back(tag, plan.tag)),
        };
        match self {
            Crossing::Insert { id, kind, due, plan } => {
                one(id.map_or(Way::Plain, Way::Id), *kind, *due, plan)
            }
            Crossing::Key { key, verb, kind, due, plan } => {
                one(Way::Key(key, *verb), *kind, *due, plan)
            }
            Crossing::Batch { kind, jobs } => {
                let with_times = jobs.iter().map(|(due, plan)| (at(*due), plan.clone())).collect();
                match insert_batch(client, *kind, with_times) {
                    Ok(ids) => Answer::Ids(ids),
                    Err((kind, many)) => refused(kind, comes_back(many as u64, jobs.len() as u64)),
                }
            }
            Crossing::Cancel(id) => of(client.cancel(*id), Answer::Cancelled),
            Crossing::Reschedule(id, due) => of(client.reschedule(*id, at(*due)), Answer::Changed),
            Crossing::CancelKey(key) => of(client.keyed(key).cancel(), Answer::Changed),
            Crossing::RescheduleKey(key, due) => {
                of(client.keyed(key).reschedule(at(*due)), Answer::Changed)
            }
            Crossing::Retry(id) => of(client.retry(*id), Answer::Changed),
            Crossing::Delete(id) => of(client.delete(*id), Answer::Changed),
            Crossing::Ask(n) => match n % 9 {
                0 => of(client.count(), |_| Answer::Asked),
                1 => of(client.pending().next_page(), |_| Answer::Asked),
                2 => of(client.get(JobId::from_u128(3)), |_| Answer::Asked),
                3 => of(client.flush(), |()| Answer::Asked),
                4 => of(client.queue().kinds(), |_| Answer::Asked),
                5 => match client.wait(JobId::from_u128(3), Duration::ZERO) {
                    Err(CallError::Gone(_)) => Answer::Asked,
                    Err(CallError::Store(error)) => error.into(),
                    other => Answer::Wrong(format!("a wait: {other:?}")),
                },
                6 => of(client.ended().next_page(), |_| Answer::Asked),
                7 => of(client.nodes(), |_| Answer::Asked),
                _ => checked(client.check()),
            },
        }
    }
}

/// A job that a call has inserted, to be told in the order of ids.
struct New {
    id: JobId,
    kind: usize,
    due: i64,
    key: Option<String>,
    named: bool,
    plan: Plan,
}

/// Tells the oracle what the calls did.
pub(crate) struct Applied<'a> {
    pub(crate) oracle: &'a mut Oracle,
    /// A client of the store, if the store has outlived the jobs.
    pub(crate) look: Option<Client>,
    /// Jobs that were told as lost, although their inserts were answered: at `Buffered`.
    pub(crate) lost: Vec<JobId>,
    /// The jobs went by another clock than the history's.
    pub(crate) on_threads: bool,
}

impl Applied<'_> {
    pub(crate) fn all(
        &mut self,
        answers: Vec<(Crossing, Answer)>,
        may_be_unknown: bool,
    ) -> Outcome {
        let mut new = Vec::new();
        for (call, answer) in answers {
            let wrong = |wrong: String| format!("{call:?} crossed the end, {answer:?}: {wrong}");
            let is_unknown = matches!(answer, Answer::Unknown(_));
            ensure(may_be_unknown || !is_unknown, || wrong("nothing was in its way".to_owned()))?;
            match &answer {
                Answer::Wrong(what) => return Err(wrong(what.clone())),
                Answer::Closed | Answer::Asked => {}
                answer => self.one(&call, answer, &mut new).map_err(wrong)?,
            }
        }
        new.sort_by_key(|job| job.id);
        for job in new {
            let New { id, kind, due, key, named, plan } = job;
            self.oracle.insert(Some(id), kind, due, key, named, plan);
        }
        Ok(())
    }

    fn get(&self, id: JobId) -> Outcome<Option<JobInfo>> {
        let Some(client) = &self.look else { return Ok(None) };
        client.get(id).map_err(|error| format!("a look: {error}"))
    }

    fn ends(&self) -> (i64, i64) {
        if self.on_threads { (0, i64::MAX) } else { (self.oracle.now(), self.oracle.now()) }
    }

    fn one(&mut self, call: &Crossing, answer: &Answer, new: &mut Vec<New>) -> Outcome {
        match call {
            Crossing::Insert { id, kind, due, plan } => {
                let Some(found) = self.inserted(answer, plan)? else { return Ok(()) };
                ensure(id.is_none_or(|id| id == found), || "another id".to_owned())?;
                if id.is_none() || self.oracle.known(found) == Known::No {
                    let (kind, due, named) = (*kind, *due, id.is_some());
                    new.push(New { id: found, kind, due, key: None, named, plan: plan.clone() });
                }
            }
            Crossing::Key { key, verb, kind, due, plan } => {
                let holder = self.oracle.pending_of(key);
                if *verb == Verb::IfAbsent && holder.is_some() {
                    return match answer {
                        Answer::Occupied | Answer::Unknown(_) => Ok(()),
                        _ => Err("the key has a job".to_owned()),
                    };
                }
                let Some(id) = self.inserted(answer, plan)? else { return Ok(()) };
                let mut due = *due;
                if let Some(at) = holder {
                    due = if keeps_time(*verb) { self.oracle.jobs[at].due } else { due };
                    self.oracle.end(at, self.ends());
                }
                let (key, kind) = (Some(key.clone()), *kind);
                new.push(New { id, kind, due, key, named: false, plan: plan.clone() });
            }
            Crossing::Batch { kind, jobs } => {
                let ids = match answer {
                    Answer::Ids(ids) => self.kept(ids, jobs)?,
                    _ => self.found(jobs)?,
                };
                let all = ids.is_empty() || ids.len() == jobs.len();
                ensure(all, || format!("{} of {} jobs are there", ids.len(), jobs.len()))?;
                for (id, (due, plan)) in ids.into_iter().zip(jobs) {
                    let (kind, due, plan) = (*kind, *due, plan.clone());
                    new.push(New { id, kind, due, key: None, named: false, plan });
                }
            }
            Crossing::Cancel(id) => {
                let alive = |at: &usize| self.oracle.jobs[*at].state != JobState::Dead;
                let at = self.oracle.find(*id).filter(alive);
                let right = if at.is_some() { Cancel::Cancelled } else { Cancel::Gone };
                self.ended(at, answer, &Answer::Cancelled(right))?;
            }
            Crossing::CancelKey(key) => {
                let at = self.oracle.pending_of(key);
                self.ended(at, answer, &Answer::Changed(at.is_some()))?;
            }
            Crossing::Delete(id) => {
                let at = self.dead(*id);
                if at.is_none() && self.oracle.find_kept(*id).is_some() {
                    return self.kept_deleted(*id, answer);
                }
                self.ended(at, answer, &Answer::Changed(at.is_some()))?;
            }
            Crossing::Reschedule(id, due) => {
                let pending = |at: &usize| self.oracle.jobs[*at].state == JobState::Pending;
                let at = self.oracle.find(*id).filter(pending);
                self.moved(at, *due, answer)?;
            }
            Crossing::RescheduleKey(key, due) => {
                let at = self.oracle.pending_of(key);
                self.moved(at, *due, answer)?;
            }
            Crossing::Retry(id) => self.retried(*id, answer)?,
            Crossing::Ask(_) => {}
        }
        Ok(())
    }

    fn kept_deleted(&mut self, id: JobId, answer: &Answer) -> Outcome {
        let got = match answer {
            Answer::Unknown(_) if self.get(id)?.is_some() => return Ok(()),
            Answer::Unknown(_) => true,
            answer => *answer == Answer::Changed(true),
        };
        let ends = self.ends();
        self.oracle.delete_kept(id, got, ends).map(drop)
    }

    fn dead(&self, id: JobId) -> Option<usize> {
        self.oracle.find(id).filter(|at| self.oracle.jobs[*at].state == JobState::Dead)
    }

    /// Returns the id of a job that was inserted, if it is there.
    fn inserted(&self, answer: &Answer, plan: &Plan) -> Outcome<Option<JobId>> {
        match answer {
            Answer::Ids(ids) if !self.lost.contains(&ids[0]) => Ok(Some(ids[0])),
            Answer::Ids(ids) => self.if_there(ids[0], plan),
            Answer::Unknown(Some(id)) => self.if_there(*id, plan),
            _ => Err("no answer to an insert".to_owned()),
        }
    }

    fn if_there(&self, id: JobId, plan: &Plan) -> Outcome<Option<JobId>> {
        let info = self.get(id)?;
        Ok(info.filter(|info| info.payload == encoded(plan)).map(|_| id))
    }

    /// Returns the ids of a batch, if it was not lost.
    fn kept(&self, ids: &[JobId], jobs: &[(i64, Plan)]) -> Outcome<Vec<JobId>> {
        ensure(ids.len() == jobs.len(), || format!("{} ids", ids.len()))?;
        if ids.iter().any(|id| self.lost.contains(id)) {
            self.found(jobs)
        } else {
            Ok(ids.to_vec())
        }
    }

    /// Looks for the jobs of a batch.
    fn found(&self, jobs: &[(i64, Plan)]) -> Outcome<Vec<JobId>> {
        let Some(client) = &self.look else { return Ok(Vec::new()) };
        let pending: Vec<JobInfo> = client.pending().collect();
        let of = |plan: &Plan| pending.iter().find(|info| info.payload == encoded(plan));
        Ok(jobs.iter().filter_map(|(_, plan)| of(plan).map(|info| info.id)).collect())
    }

    /// Notes that a job has ended, if the answer says that.
    fn ended(&mut self, at: Option<usize>, answer: &Answer, right: &Answer) -> Outcome {
        let id = at.and_then(|at| self.oracle.jobs[at].id);
        let ended = match (answer, id) {
            (Answer::Unknown(_), Some(id)) => {
                self.get(id)?.is_none_or(|info| info.state == JobState::Cancelled)
            }
            (Answer::Unknown(_), None) => false,
            _ => {
                ensure(answer == right, || format!("not {right:?}"))?;
                at.is_some()
            }
        };
        if let Some(at) = at.filter(|_| ended) {
            self.oracle.end(at, self.ends());
        }
        Ok(())
    }

    fn moved(&mut self, at: Option<usize>, due: i64, answer: &Answer) -> Outcome {
        let id = at.and_then(|at| self.oracle.jobs[at].id);
        let moved = match (answer, id) {
            (Answer::Unknown(_), Some(id)) => {
                self.get(id)?.is_some_and(|info| micros(info.due) == due * 1000)
            }
            (Answer::Unknown(_), None) => false,
            _ => {
                ensure(*answer == Answer::Changed(at.is_some()), || "wrong".to_owned())?;
                at.is_some()
            }
        };
        if let Some(at) = at.filter(|_| moved) {
            let job = &mut self.oracle.jobs[at];
            job.due = due;
            job.occurs = job.occurs.map(|(number, _)| (number, i64::MAX));
            self.oracle.moved(at);
        }
        Ok(())
    }

    fn retried(&mut self, id: JobId, answer: &Answer) -> Outcome {
        let at = self.dead(id);
        let info = self.get(id)?;
        if !matches!(answer, Answer::Unknown(_)) {
            ensure(*answer == Answer::Changed(at.is_some()), || "wrong".to_owned())?;
        }
        let pending = info.filter(|info| info.state == JobState::Pending);
        // In memory nothing is left to look at.
        let (Some(at), Some(info)) = (at, pending) else { return Ok(()) };
        let key = self.oracle.jobs[at].key.clone();
        let holder = key.as_ref().and_then(|key| self.oracle.pending_of(key));
        let job = &mut self.oracle.jobs[at];
        (job.failures, job.interruptions, job.perhaps) = (0, 0, false);
        (job.key, job.due) = (key.filter(|_| holder.is_none()), micros(info.due) / 1000);
        self.oracle.moved(at);
        Ok(())
    }
}
