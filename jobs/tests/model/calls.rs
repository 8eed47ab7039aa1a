//! Every verb, done to the store and told to the oracle, and the answers compared. The same code
//! serves a caller outside, a handler, and another process.

use std::time::Instant;

use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{
    Cancel, Client, InsertErrorKind, InvalidInput, JobId, JobState, Pages, StoreError,
};

use crate::history::What;
use crate::insert::{Refused, Way, insert, insert_batch, no_time};
use crate::new_job::in_transaction;
use crate::ops::{NAMES, Op, Pick, Plan, Time, Verb, is_a_time, micros};
use crate::oracle::{Known, Oracle, Outcome, ensure};
use crate::world::Shared;

/// One call, and who makes it.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) client: &'a Client,
    /// It comes from another process.
    pub(crate) other: bool,
    pub(crate) wall: i64,
    pub(crate) now: Instant,
}

/// Does what an operation says, and says what was wrong with the answer.
pub(crate) fn call(
    shared: &Shared,
    client: &Client,
    op: &Op,
    own: Option<JobId>,
    other: bool,
) -> Outcome {
    let call = Call::now(shared, client, other);
    let picked = |pick: Pick| shared.lock().oracle.picked(pick, own);
    let done = match op {
        Op::Insert(kind, time, plan) => call.insert(Way::Plain, *kind, *time, plan),
        Op::InsertWithId(id, kind, time, plan) => {
            let id = match *id {
                Ok(n) => JobId::named(&format!("chosen {n}")),
                Err(pick) => {
                    let id = picked(pick);
                    let oracle = &shared.lock().oracle;
                    // The id of a job that is gone is remembered only if it was chosen.
                    match oracle.known(id) {
                        Known::Yes => id,
                        _ => return Ok(()),
                    }
                }
            };
            call.insert(Way::Id(id), *kind, *time, plan)
        }
        Op::Key(key, verb, kind, time, plan) => {
            call.insert(Way::Key(&key_name(*key), *verb), *kind, *time, plan)
        }
        Op::LongKey(plan) => {
            let key = "k".repeat(256);
            let refused = insert(
                client,
                &Way::Key(&key, Verb::Replace),
                0,
                call.when(Time::After(0)),
                (**plan).clone(),
            );
            ensure(
                matches!(refused, Err((InsertErrorKind::Invalid(InvalidInput::TooLong { .. }), 0))),
                || format!("a key of 256 bytes: {refused:?}"),
            )
        }
        Op::Batch { kind, time, jobs, step, wrong, plan } => {
            call.batch(*kind, *time, (*jobs, *step, *wrong), plan)
        }
        Op::CancelKey(key) => call.cancel_key(&key_name(*key)),
        Op::RescheduleKey(key, time) => call.reset_key(&key_name(*key), *time),
        Op::Cancel(pick) => call.cancel(picked(*pick)),
        Op::Reschedule(pick, time) => call.reschedule(picked(*pick), *time),
        Op::New(said, kind, time, plan) => call.new_job(said, *kind, *time, plan),
        Op::InTransaction(_, _) if other => Ok(()),
        Op::InTransaction(op, committed) => in_transaction(shared, client, op, own, *committed),
        Op::Retry(pick) => call.retry(picked(*pick)),
        Op::Delete(pick) => call.delete(picked(*pick)),
        // The clock of another process says when a period or a burst begins.
        Op::Debounce(..) | Op::Throttle(..) if other => Ok(()),
        Op::Debounce(key, quiet, at_most, kind, plan) => {
            call.debounce(*key, (*quiet, *at_most), *kind, plan)
        }
        Op::Throttle(key, period, kind, plan) => call.throttle(*key, *period, *kind, plan),
        Op::Wait(pick) => call.wait(picked(*pick)),
        Op::Call(kind, plan) => call.call(*kind, plan),
        Op::Bulk(verb, kind) => call.bulk(*verb, *kind),
        Op::Group(group) => call.insert_group(group),
        Op::AddToGroup(pick, said, kind, time, plan) => {
            call.add_to_group(*pick, said, (*kind, *time, plan))
        }
        Op::SealGroup(pick) => call.seal_group(*pick),
        Op::CancelGroup(pick) => call.cancel_group(*pick),
        other => unreachable!("no call: {other:?}"),
    };
    let oracle = &mut shared.lock().oracle;
    // A transaction of the caller's has the clock of the machine.
    match other || matches!(op, Op::InTransaction(..)) {
        true => oracle.settle((0, i64::MAX)),
        false => oracle.settle_now(),
    }
    done.map_err(|wrong| format!("{op:?}: {wrong}"))
}

pub(crate) fn key_name(key: usize) -> String {
    format!("key-{key}")
}

pub(crate) fn ok<T>(answer: Result<T, StoreError>) -> Outcome<T> {
    answer.map_err(|error| format!("the store: {error}"))
}

impl<'a> Call<'a> {
    pub(crate) fn now(shared: &'a Shared, client: &'a Client, other: bool) -> Call<'a> {
        let (wall, now) = shared.look_at_the_clocks(false);
        Call { shared, client, other, wall, now }
    }
}

impl Call<'_> {
    pub(crate) fn when(&self, time: Time) -> When {
        if self.other { time.wall(self.wall) } else { time.when(self.wall, self.now) }
    }

    /// Returns between which times something ends that ends now: the clock of another process reads
    /// something else.
    pub(crate) fn ends(&self, oracle: &Oracle) -> (i64, i64) {
        if self.other { (0, i64::MAX) } else { (oracle.now(), oracle.now()) }
    }

    pub(crate) fn is_there(&self, id: JobId) -> Outcome<bool> {
        ok(self.client.get(id)).map(|info| info.is_some())
    }

    fn insert(&self, way: Way<'_>, kind: usize, time: Time, plan: &Plan) -> Outcome {
        let plan = self.numbered(plan);
        let got = insert(self.client, &way, kind, self.when(time), plan.clone());
        self.inserted(&way, kind, time.due(self.wall), plan, got)
    }

    pub(crate) fn inserted(
        &self,
        way: &Way<'_>,
        kind: usize,
        due: Option<i64>,
        plan: Plan,
        got: Result<JobId, Refused>,
    ) -> Outcome {
        let Some(due) = due else { return no_time(&got, plan.tag) };
        match *way {
            Way::Key(key, verb) => return self.inserted_keyed(key, verb, kind, due, plan, got),
            Way::Id(id) => {
                ensure(got == Ok(id), || format!("{got:?}, not {id}"))?;
                let known = self.shared.lock().oracle.known(id);
                let is_new = match known {
                    Known::Yes => false,
                    Known::No => true,
                    Known::Perhaps => {
                        let info = ok(self.client.get(id))?;
                        info.is_some_and(|info| info.payload == crate::oracle::encoded(&plan))
                    }
                };
                if is_new {
                    self.shared.lock().oracle.insert(Some(id), kind, due, None, true, plan);
                }
            }
            Way::Plain | Way::In(_) => {
                let id = got.map_err(|refused| format!("refused: {refused:?}"))?;
                let oracle = &mut self.shared.lock().oracle;
                ensure(!oracle.ids.contains(&id), || format!("{id} was there before"))?;
                oracle.insert(Some(id), kind, due, None, false, plan);
            }
        }
        Ok(())
    }

    fn inserted_keyed(
        &self,
        key: &str,
        verb: Verb,
        kind: usize,
        mut due: i64,
        plan: Plan,
        got: Result<JobId, Refused>,
    ) -> Outcome {
        let left = matches!(got, Err((InsertErrorKind::Occupied, _)));
        if let Some(holder) = self.key_is_free(key, verb, &mut due, left)? {
            return ensure(got == Err((InsertErrorKind::Occupied, plan.tag)), || {
                format!("{holder} has the key: {got:?}")
            });
        }
        let id = got.map_err(|refused| format!("refused: {refused:?}"))?;
        let oracle = &mut self.shared.lock().oracle;
        oracle.take_key(key);
        oracle.insert(Some(id), kind, due, Some(key.to_owned()), false, plan);
        Ok(())
    }

    fn batch(
        &self,
        kind: usize,
        time: Time,
        (size, step, wrong): (usize, i64, bool),
        plan: &Plan,
    ) -> Outcome {
        let mut plans = Vec::new();
        let mut whens = Vec::new();
        let mut dues = Vec::new();
        for n in 0..size {
            let mut plan = plan.clone();
            plan.tag = self.shared.lock().oracle.number();
            let wrong = wrong && n == size / 2;
            let due = if wrong { None } else { time.due(self.wall) };
            let due = due.map(|due| (due + step * n as i64).max(0));
            let when = match due {
                Some(due) => When::wall(crate::ops::system(due * 1000)),
                None => self.when(Time::After9999),
            };
            dues.push(due);
            whens.push(when);
            plans.push(plan);
        }
        let jobs = whens.into_iter().zip(plans.clone()).collect();
        let got = insert_batch(self.client, kind, jobs);
        if dues.contains(&None) {
            return ensure(
                matches!(&got, Err((InsertErrorKind::Invalid(error), n)) if is_a_time(error) && *n == size),
                || format!("a batch with a wrong time: {got:?}"),
            );
        }
        let ids = got.map_err(|refused| format!("refused: {refused:?}"))?;
        ensure(ids.len() == size, || format!("{} ids of {size}", ids.len()))?;
        let oracle = &mut self.shared.lock().oracle;
        for ((id, due), plan) in ids.into_iter().zip(dues).zip(plans) {
            oracle.insert(Some(id), kind, due.unwrap_or(0), None, false, plan);
            // A few ids of a large batch are enough to pick from.
            if oracle.ids.len() > 60 && size > 10 {
                oracle.ids.pop();
            }
        }
        Ok(())
    }

    fn cancel(&self, id: JobId) -> Outcome {
        // Both forms are one verb.
        if id.to_u128().is_multiple_of(2) {
            return self.cancelled(id, ok(self.client.cancel(id))?);
        }
        match ok(self.client.cancel_batch([JobId::from_u128(0), id]))?[..] {
            [Cancel::Gone, got] => self.cancelled(id, got),
            ref got => Err(format!("a batch of cancels: {got:?}")),
        }
    }

    pub(crate) fn cancelled(&self, id: JobId, got: Cancel) -> Outcome {
        let oracle = &mut self.shared.lock().oracle;
        let at = oracle.find(id).filter(|at| oracle.jobs[*at].state != JobState::Dead);
        let Some(at) = at else {
            return ensure(got == Cancel::Gone, || format!("{got:?}, and it is not there"));
        };
        if oracle.jobs[at].state == JobState::Running {
            oracle.jobs[at].asked = true;
            return ensure(got == Cancel::Running, || format!("{got:?}, and it runs"));
        }
        let claimed = self.other && oracle.jobs[at].claimable;
        let right = got == Cancel::Cancelled || (claimed && got == Cancel::Running);
        ensure(right, || format!("{got:?}: {:?}", oracle.jobs[at]))?;
        // If it was claimed, the process that runs the jobs is nudged before time passes, so the job
        // is gone before it starts.
        oracle.end(at, self.ends(oracle));
        Ok(())
    }

    fn cancel_key(&self, key: &str) -> Outcome {
        let got = match key == key_name(0) {
            true => ok(self.client.keyed(key).cancel())?,
            false => ok(self.client.cancel_keys(["of no job", key]))? == [false, true],
        };
        let oracle = &mut self.shared.lock().oracle;
        match oracle.pending_of(key) {
            Some(at) if got => oracle.end(at, self.ends(oracle)),
            Some(at) => {
                let job = &oracle.jobs[at];
                return ensure(self.other && job.claimable, || format!("not cancelled: {job:?}"));
            }
            None => return ensure(!got, || "cancelled, and there is none".to_owned()),
        }
        Ok(())
    }

    fn reset_key(&self, key: &str, time: Time) -> Outcome {
        let got = self.client.keyed(key).reschedule(self.when(time));
        let at = self.shared.lock().oracle.pending_of(key);
        self.was_reset(at, time, got)
    }

    fn reschedule(&self, id: JobId, time: Time) -> Outcome {
        let got = self.client.reschedule(id, self.when(time));
        self.was_reset(self.pending(id), time, got)
    }

    pub(crate) fn pending(&self, id: JobId) -> Option<usize> {
        let oracle = &self.shared.lock().oracle;
        oracle.find(id).filter(|at| oracle.jobs[*at].state == JobState::Pending)
    }

    pub(crate) fn was_reset(
        &self,
        at: Option<usize>,
        time: Time,
        got: Result<bool, StoreError>,
    ) -> Outcome {
        let Some(due) = time.due(self.wall) else {
            return ensure(
                matches!(&got, Err(StoreError::Invalid(error)) if is_a_time(error)),
                || format!("wrong: {got:?}"),
            );
        };
        let got = ok(got)?;
        let oracle = &mut self.shared.lock().oracle;
        let Some(at) = at else {
            return ensure(!got, || "moved, and it is not pending".to_owned());
        };
        if !got {
            let job = &oracle.jobs[at];
            return ensure(self.other && job.claimable, || format!("not moved: {job:?}"));
        }
        oracle.jobs[at].due = due;
        oracle.jobs[at].own.due_between = None;
        oracle.jobs[at].occurs = oracle.jobs[at].occurs.map(|(number, _)| (number, i64::MAX));
        oracle.moved(at);
        Ok(())
    }

    fn retry(&self, id: JobId) -> Outcome {
        let got = match self.client.retry(id) {
            Err(StoreError::KeyTaken { key, by }) => return self.not_retried(id, &key, by),
            other => ok(other)?,
        };
        let info = ok(self.client.get(id))?;
        let oracle = &mut self.shared.lock().oracle;
        let at = oracle.find(id).filter(|at| oracle.jobs[*at].state == JobState::Dead);
        let Some(at) = at else {
            return ensure(!got, || "retried, and it is not dead".to_owned());
        };
        if !got && oracle.jobs[at].perhaps {
            oracle.jobs.remove(at);
            return Ok(());
        }
        ensure(got, || format!("not retried: {:?}", oracle.jobs[at]))?;
        let by = oracle.jobs[at].key.as_ref().and_then(|key| oracle.has_key(key));
        ensure(by.is_none(), || format!("retried, and {by:?} has its key"))?;
        let due = if self.other { None } else { Some(oracle.now()) };
        let due = due.or(info.map(|info| micros(info.due) / 1000));
        let job = &mut oracle.jobs[at];
        oracle.happened[job.kind].add(What::Revived, 1);
        (job.failures, job.interruptions, job.perhaps) = (0, 0, false);
        job.due = due.unwrap_or(0);
        oracle.moved(at);
        Ok(())
    }

    /// The job stays dead, because another one has its key.
    fn not_retried(&self, id: JobId, key: &str, by: JobId) -> Outcome {
        let oracle = &mut self.shared.lock().oracle;
        let at = oracle.find(id).filter(|at| oracle.jobs[*at].state == JobState::Dead);
        let at = at.ok_or_else(|| format!("{key:?} is taken, and {id} is not dead"))?;
        let right = oracle.jobs[at].key.as_deref() == Some(key) && oracle.has_key(key) == Some(by);
        oracle.jobs[at].perhaps = false;
        ensure(right, || format!("{by} has {key:?}: {:?}", oracle.jobs[at]))
    }

    fn delete(&self, id: JobId) -> Outcome {
        let got = ok(self.client.delete(id))?;
        let oracle = &mut self.shared.lock().oracle;
        let at = oracle.find(id).filter(|at| oracle.jobs[*at].state == JobState::Dead);
        let Some(at) = at else {
            let ends = self.ends(oracle);
            let was_kept = oracle.delete_kept(id, got, ends)?;
            return ensure(!got || was_kept, || "deleted, and it was not there".to_owned());
        };
        ensure(got || oracle.jobs[at].perhaps, || format!("stays: {:?}", oracle.jobs[at]))?;
        if got {
            oracle.end(at, self.ends(oracle));
        } else {
            oracle.jobs.remove(at);
        }
        Ok(())
    }
}

/// Returns the pages of a kind, or of all kinds.
pub(crate) fn of_kind(pages: Pages, kind: Option<usize>) -> Pages {
    match kind {
        Some(kind) => pages.kind_named(NAMES[kind]),
        None => pages,
    }
}
