//! Waits for the ends of jobs: those that look once, and those that cross the end (P33).
//!
//! On a manual clock the thread that moves the clock looks once. A wait across the end is in another process, which has
//! the clock of the machine.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;
use tickwheel_jobs::{CallError, Client, JobId, JobInfo, JobState};

use crate::calls::{Call, ok};
use crate::insert::of_kind;
use crate::ops::{Plan, Task, Time, micros};
use crate::oracle::{Oracle, Outcome, encoded, ensure};
use crate::world::World;

/// Nothing takes this long on a machine that works.
const LONG: Duration = Duration::from_secs(60);

fn call_of(client: &Client, kind: usize, plan: Plan, limit: Duration) -> Result<Value, CallError> {
    of_kind!(kind, N => client.call(Task::<N>(plan), limit))
}

/// Adds a job to the oracle whose insert came with a wait.
fn insert_wanted(oracle: &mut Oracle, id: JobId, kind: usize, due: i64, plan: Plan) {
    let at = oracle.insert(Some(id), kind, due, None, false, plan);
    oracle.jobs[at].own.wanted = true;
}

impl Call<'_> {
    /// A wait of which the limit is over at once.
    pub(crate) fn wait(&self, id: JobId) -> Outcome {
        let got = self.client.wait(id, Duration::ZERO);
        self.shared.lock().oracle.waited(id, &got)
    }

    /// A call of which the limit is over at once: it has inserted its job.
    pub(crate) fn call(&self, kind: usize, plan: &Plan) -> Outcome {
        let plan = Plan { tag: self.shared.lock().oracle.number(), ..plan.clone() };
        let got = call_of(self.client, kind, plan.clone(), Duration::ZERO);
        let Err(CallError::TimedOut(id)) = got else { return Err(format!("a call: {got:?}")) };
        let info = ok(self.client.get(id))?.ok_or("the job of a call is not there")?;
        let due = micros(info.due) / 1000;
        let now = Time::After(0).due(self.wall);
        ensure(self.other || Some(due) == now, || format!("a call is due at {due}, not {now:?}"))?;
        insert_wanted(&mut self.shared.lock().oracle, id, kind, due, plan);
        Ok(())
    }
}

/// How jobs have ended since it was emptied.
pub(crate) type Ends = Vec<(JobId, JobState)>;

impl World {
    /// Another process waits for a job while time passes. If the job has not ended then, it is cancelled.
    pub(crate) fn wait_across(&mut self, id: JobId, ms: u64) -> Outcome {
        let Some(other) = self.other.clone() else {
            let client = self.jobs().client();
            return Call::now(&self.shared, &client, false).wait(id);
        };
        let before = {
            let oracle = &mut self.shared.lock().oracle;
            oracle.ends.clear();
            oracle.clone()
        };
        let answer = on_a_thread(move || other.wait(id, LONG));
        self.advance(Duration::from_millis(ms))?;
        if !self.end_of(id)? {
            return Ok(());
        }
        let got = ended(&answer)?;
        let oracle = &self.shared.lock().oracle;
        oracle.waited_across(id, &before, &got)
    }

    /// Another process calls while time passes. If its job has not ended then, it is cancelled.
    pub(crate) fn call_across(&mut self, kind: usize, ms: u64, plan: &Plan) -> Outcome {
        let Some(other) = self.other.clone() else {
            let client = self.jobs().client();
            return Call::now(&self.shared, &client, false).call(kind, plan);
        };
        let tag = {
            let oracle = &mut self.shared.lock().oracle;
            oracle.ends.clear();
            oracle.number()
        };
        let plan = Plan { tag, ..plan.clone() };
        let its = plan.clone();
        let answer = on_a_thread(move || call_of(&other, kind, its, LONG));
        let (id, due) = self.appears(&plan)?;
        insert_wanted(&mut self.shared.lock().oracle, id, kind, due, plan);
        self.jobs().nudge();
        self.advance(Duration::from_millis(ms))?;
        if !self.end_of(id)? {
            return Ok(());
        }
        let got = ended(&answer)?;
        let oracle = &self.shared.lock().oracle;
        let had = |state| oracle.ends.contains(&(id, state));
        let result = oracle.find_kept(id).and_then(|kept| kept.result.as_deref());
        let result: Value = serde_json::from_slice(result.unwrap_or(b"null"))
            .map_err(|error| format!("a result: {error}"))?;
        let right = match &got {
            Ok(value) => had(JobState::Completed) && *value == result,
            Err(CallError::Cancelled(of)) => *of == id && had(JobState::Cancelled),
            Err(CallError::Dead(of, _)) => *of == id && had(JobState::Dead),
            // Before the caller looks, a dead job may be purged, and a handler or a hook may delete any that has ended.
            Err(CallError::Gone(of)) => {
                let is_dead_kept = oracle.retention > 0 && oracle.find(id).is_some();
                let has_ended = oracle.ends.iter().any(|(ended, _)| *ended == id);
                *of == id && has_ended && !is_dead_kept && oracle.find_kept(id).is_none()
            }
            _ => false,
        };
        ensure(right, || format!("a call that has inserted {id}: {got:?}, not {result:?}"))
    }

    /// Returns the job that a call of another process has inserted, and its time.
    fn appears(&self, plan: &Plan) -> Outcome<(JobId, i64)> {
        let jobs = self.jobs();
        let payload = encoded(plan);
        for _ in 0..LONG.as_millis() {
            if let Some(job) = jobs.pending().find(|job| job.payload == payload) {
                return Ok((job.id, micros(job.due) / 1000));
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Err("the job of a call does not appear".to_owned())
    }

    /// Cancels a job that has not ended, so that the wait for it ends. Returns `false` if the process has crashed
    /// meanwhile, so that no answer counts.
    fn end_of(&mut self, id: JobId) -> Outcome<bool> {
        let client = self.jobs().client();
        {
            let state = self.shared.lock();
            if state.crashed() || state.wrong.is_some() {
                drop(state);
                return ok(client.cancel(id)).map(|_| false);
            }
        }
        let lives = {
            let oracle = &self.shared.lock().oracle;
            oracle.find(id).is_some_and(|at| oracle.jobs[at].state != JobState::Dead)
        };
        if lives {
            let call = Call::now(&self.shared, &client, false);
            call.cancelled(id, ok(client.cancel(id))?)?;
        }
        Ok(true)
    }
}

fn on_a_thread<T: Send + 'static>(wait: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(wait());
    });
    answer
}

fn ended<T>(answer: &Receiver<T>) -> Outcome<T> {
    answer.recv_timeout(2 * LONG).map_err(|_| "a wait does not end".to_owned())
}

impl Oracle {
    /// Says whether a wait was answered rightly that began `before`, and crossed the ends which the oracle has noted.
    fn waited_across(
        &self,
        id: JobId,
        before: &Oracle,
        got: &Result<JobInfo, CallError>,
    ) -> Outcome {
        if self.ends.iter().all(|(of, _)| *of != id) {
            // It has ended before, if at all. Meanwhile, what was kept of it may have been removed.
            return self.waited(id, got).or_else(|wrong| before.waited(id, got).map_err(|_| wrong));
        }
        let was_there = before.find(id).is_some_and(|at| !before.jobs[at].perhaps)
            || before.find_kept(id).is_some_and(|kept| !kept.perhaps);
        let had = |state| self.ends.contains(&(id, state));
        let kept = self.find_kept(id);
        let is_kept = kept.is_some_and(|kept| !kept.perhaps);
        let right = match got {
            Ok(info) => {
                if let Some(kept) = kept {
                    kept.compare(info)?;
                }
                had(JobState::Completed)
            }
            Err(CallError::Cancelled(of)) => *of == id && had(JobState::Cancelled),
            Err(CallError::Expired(of)) => *of == id && had(JobState::Expired),
            Err(CallError::Dead(of, _)) => *of == id && had(JobState::Dead),
            Err(CallError::Gone(of)) => *of == id && (!is_kept || !was_there),
            _ => false,
        };
        ensure(right, || format!("a wait that crossed the end of {id}: {got:?}, not {kept:?}"))
    }
}
