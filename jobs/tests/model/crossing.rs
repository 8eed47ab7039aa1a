//! The jobs end while other threads are in calls: those on the manual clock, or others of the same store
//! that run on threads of their own.
//!
//! No two of these calls are about one job or one key, so their order does not matter, and the oracle is
//! told of them one after the other when the jobs have ended. A call was answered, or refused with
//! `Closed`, which did nothing. On a server it may be `Unknown`: then one look says what it did.

use std::collections::HashSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, Event, Fail, Job, JobId, Jobs, Retry};

use crate::answers::{Answer, Applied, Crossing};
use crate::calls::key_name;
use crate::hooks::{End, every_verb_ends};
use crate::ops::{LATE, Op, Pick, Plan, Stop, Verb};
use crate::oracle::{Known, Oracle, Outcome, ensure};
use crate::world::World;

/// The job of the jobs that run on threads: no other process handles it.
#[derive(Serialize, Deserialize)]
struct Bystander;

impl Job for Bystander {
    const KIND: &'static str = "bystander";
}

/// Calls, and what each was answered.
type Answered = Vec<(Crossing, Answer)>;

/// So long nothing takes on a machine that works.
const LONG: Duration = Duration::from_secs(60);

impl World {
    pub(crate) fn cross(
        &mut self,
        (stop, on_threads): (Stop, bool),
        pause: usize,
        callers: &[Vec<Op>],
        late: bool,
    ) -> Outcome {
        let (wall, _) = self.shared.look_at_the_clocks(false);
        let place = self.shared.place.clone();
        let mut oracle = self.shared.lock().oracle.clone();
        // While the queue is paused, no job of theirs would run.
        let on_threads = on_threads && !oracle.is_queue_paused();
        if on_threads {
            self.close(Stop::Shutdown)?;
            if place.is_memory() {
                oracle = oracle.emptied();
            }
            oracle.purged(systems_time());
        }
        let planned = planned(&mut oracle, callers);
        let (answers, lost) = if on_threads {
            self.cross_on_threads(stop, pause, planned, &oracle)?
        } else {
            let client = self.jobs.as_ref().expect("the jobs run").client();
            (during(&client, pause, planned, || self.close(stop))?, Vec::new())
        };
        // What has no answer shows in the store: another process looks.
        let look = (!place.is_memory()).then(|| self.client());
        let mut applied = Applied { oracle: &mut oracle, look, lost, on_threads };
        applied.all(answers, place.has_leases())?;
        if place.is_memory() {
            oracle = oracle.emptied();
        }
        oracle.handled[LATE] = late;
        self.open(oracle, place, wall, false);
        Ok(())
    }

    /// Other jobs run on the store, on threads, and end. Before that a job of theirs fails once, and
    /// `on_event` calls every verb.
    fn cross_on_threads(
        &self,
        stop: Stop,
        pause: usize,
        planned: Vec<Vec<Crossing>>,
        oracle: &Oracle,
    ) -> Outcome<(Answered, Vec<JobId>)> {
        let slot: Arc<Mutex<Option<Client>>> = Arc::default();
        let lost: Arc<Mutex<Vec<JobId>>> = Arc::default();
        let (hooked, told) = mpsc::channel();
        let ids: Vec<JobId> = oracle.ids.iter().rev().take(3).copied().collect();
        let (its, its_lost) = (Arc::clone(&slot), Arc::clone(&lost));
        let jobs = self
            .shared
            .place
            .builder(self.name)
            .durability(self.setup.durability)
            .retry(Retry::fixed(Duration::ZERO).max_retries(1))
            .handle(|_: Bystander, run| match run.attempt() {
                1 => Err(Fail::from(std::io::Error::other("once"))),
                _ => Ok(()),
            })
            .on_event(move |event| match event {
                Event::Failed { .. } => {
                    let client = its.lock().unwrap().take();
                    let refused = |end: &End| *end == End::Refused;
                    let _ = hooked.send(client.map(|it| every_verb_ends(&it, &ids, refused)));
                }
                Event::InsertsDropped { ids } => its_lost.lock().unwrap().extend(ids),
                Event::Warning { .. } => {}
                other => drop(hooked.send(Some(Err(format!("{other:?}"))))),
            })
            .start()
            .map_err(|error| format!("the jobs on threads: {error}"))?;
        *slot.lock().unwrap() = Some(jobs.client());
        let id = jobs.insert(Duration::ZERO, Bystander);
        let id = id.map_err(|refused| format!("a job of theirs: {refused}"))?;
        told.recv_timeout(LONG)
            .map_err(|_| "their job has not run".to_owned())?
            .ok_or("their event came twice")??;
        has_ended(&jobs, id)?;
        let client = jobs.client();
        let answers = during(&client, pause, planned, || match stop {
            Stop::Shutdown => jobs.shutdown().map_err(|error| format!("shutdown: {error}")),
            _ => {
                drop(jobs);
                Ok(())
            }
        })?;
        match told.recv_timeout(LONG) {
            Ok(Some(Err(wrong))) => Err(wrong),
            Err(RecvTimeoutError::Timeout) => Err("`on_event` is never dropped".to_owned()),
            _ => {
                let lost = core::mem::take(&mut *lost.lock().unwrap());
                Ok((answers, lost))
            }
        }
    }
}

fn has_ended(jobs: &Jobs, id: JobId) -> Outcome {
    let (sender, receiver) = mpsc::channel::<()>();
    for _ in 0..LONG.as_millis() {
        if jobs.get(id).map_err(|error| format!("their job: {error}"))?.is_none() {
            return Ok(());
        }
        let _ = receiver.recv_timeout(Duration::from_millis(1));
    }
    drop(sender);
    Err("their job has not ended".to_owned())
}

/// Ends the jobs while threads call, and returns what each call was answered.
fn during(
    client: &Client,
    pause: usize,
    planned: Vec<Vec<Crossing>>,
    end: impl FnOnce() -> Outcome,
) -> Outcome<Answered> {
    let begin = Arc::new(Barrier::new(planned.len() + 1));
    let (sender, answered) = mpsc::channel();
    for calls in planned {
        let (client, begin, sender) = (client.clone(), Arc::clone(&begin), sender.clone());
        std::thread::spawn(move || {
            begin.wait();
            let answer = |call: Crossing| {
                let answer = call.make(&client);
                (call, answer)
            };
            let _ = sender.send(calls.into_iter().map(answer).collect::<Vec<_>>());
        });
    }
    drop(sender);
    begin.wait();
    (0..pause).for_each(|_| std::thread::yield_now());
    let ended = end();
    let mut answers = Vec::new();
    loop {
        match answered.recv_timeout(LONG) {
            Ok(of_one) => answers.extend(of_one),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => return Err("a call has not ended".to_owned()),
        }
    }
    ended.map(|()| answers)
}

/// Turns operations into calls of which no two are about the same job.
fn planned(oracle: &mut Oracle, callers: &[Vec<Op>]) -> Vec<Vec<Crossing>> {
    let mut taken = Taken::default();
    let call = |op: &Op, taken: &mut Taken, oracle: &mut Oracle| {
        plan_one(oracle, taken, op).unwrap_or(Crossing::Ask(oracle.number()))
    };
    let caller = |ops: &Vec<Op>| ops.iter().map(|op| call(op, &mut taken, oracle)).collect();
    callers.iter().map(caller).collect()
}

/// The jobs and keys that a call is about already.
#[derive(Default)]
struct Taken {
    ids: HashSet<JobId>,
    keys: HashSet<String>,
}

impl Taken {
    /// Takes a job and its key, if it is certain what the store has under the id.
    fn id(&mut self, oracle: &Oracle, id: JobId) -> Option<JobId> {
        let at = oracle.find(id);
        let job = at.map(|at| &oracle.jobs[at]);
        let key = job.and_then(|job| job.key.clone());
        let is_free = oracle.known(id) != Known::Perhaps
            && !key.as_ref().is_some_and(|key| self.keys.contains(key))
            && self.ids.insert(id);
        self.keys.extend(key.filter(|_| is_free));
        is_free.then_some(id)
    }

    fn key(&mut self, oracle: &Oracle, key: usize) -> Option<String> {
        let key = key_name(key);
        let holder = oracle.pending_of(&key).and_then(|at| oracle.jobs[at].id);
        let is_free = !self.keys.contains(&key) && holder.is_none_or(|id| self.ids.insert(id));
        (is_free && self.keys.insert(key.clone())).then_some(key)
    }
}

fn plan_one(oracle: &mut Oracle, taken: &mut Taken, op: &Op) -> Option<Crossing> {
    let wall = oracle.wall;
    let tagged = |plan: &Plan, oracle: &mut Oracle| {
        let mut plan = plan.clone();
        plan.tag = oracle.number();
        plan
    };
    Some(match op {
        Op::Insert(kind, time, plan) => {
            let due = time.due(wall)?;
            Crossing::Insert { id: None, kind: *kind, due, plan: tagged(plan, oracle) }
        }
        Op::InsertWithId(id, kind, time, plan) => {
            let due = time.due(wall)?;
            let id = match *id {
                Ok(n) => JobId::named(&format!("chosen {n}")),
                Err(pick) => known(oracle, pick)?,
            };
            let id = Some(taken.id(oracle, id)?);
            Crossing::Insert { id, kind: *kind, due, plan: tagged(plan, oracle) }
        }
        Op::Batch { kind, time, jobs, step, wrong: false, plan } => {
            let due = time.due(wall)?;
            let job = |n: usize| ((due + step * n as i64).max(0), tagged(plan, oracle));
            Crossing::Batch { kind: *kind, jobs: (0..*jobs).map(job).collect() }
        }
        Op::Key(key, verb, kind, time, plan) => {
            let due = time.due(wall)?;
            let key = taken.key(oracle, *key)?;
            Crossing::Key { key, verb: *verb, kind: *kind, due, plan: tagged(plan, oracle) }
        }
        Op::CancelKey(key) => Crossing::CancelKey(taken.key(oracle, *key)?),
        Op::RescheduleKey(key, time) => {
            let due = time.due(wall)?;
            Crossing::RescheduleKey(taken.key(oracle, *key)?, due)
        }
        Op::Cancel(pick) => Crossing::Cancel(picked(oracle, taken, *pick)?),
        Op::Reschedule(pick, time) => {
            let due = time.due(wall)?;
            Crossing::Reschedule(picked(oracle, taken, *pick)?, due)
        }
        Op::Retry(pick) => {
            let id = picked(oracle, taken, *pick)?;
            let key = oracle.find(id).and_then(|at| oracle.jobs[at].key.clone());
            // A retry is refused while another job has the key: `calls.rs` has that case.
            if key.is_some_and(|key| {
                oracle.pending_of(&key).is_some_and(|at| oracle.jobs[at].id != Some(id))
            }) {
                return None;
            }
            Crossing::Retry(id)
        }
        Op::Delete(pick) => Crossing::Delete(picked(oracle, taken, *pick)?),
        _ => return None,
    })
}

fn picked(oracle: &Oracle, taken: &mut Taken, pick: Pick) -> Option<JobId> {
    taken.id(oracle, oracle.picked(pick, None))
}

/// Returns the id of a job that is there.
fn known(oracle: &Oracle, pick: Pick) -> Option<JobId> {
    let id = oracle.picked(pick, None);
    (oracle.known(id) == Known::Yes).then_some(id)
}

/// Returns the milliseconds since 1970 by the clock that jobs on threads go by.
#[expect(clippy::disallowed_methods, reason = "these jobs have no other clock")]
fn systems_time() -> i64 {
    crate::ops::micros(std::time::SystemTime::now()) / 1000
}

/// Returns the time of the wall clock.
pub(crate) fn at(due: i64) -> When {
    When::wall(crate::ops::system(due * 1000))
}

/// Says whether a job is to have the time of the one before it.
pub(crate) fn keeps_time(verb: Verb) -> bool {
    verb == Verb::KeepTime
}

/// A refused call gives back what was handed in.
pub(crate) fn comes_back(got: u64, tag: u64) -> Outcome {
    ensure(got == tag, || format!("{got} came back, not {tag}"))
}
