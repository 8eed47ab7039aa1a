//! Jobs with all that can be said of one: id, key, how long it is held, a policy; and what is done in a
//! transaction of the caller's.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::rusqlite::Transaction;
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, InsertErrorKind, InvalidInput, Job, JobId, NewJob, Retry, Until};

use crate::calls::{Call, key_name, ok};
use crate::insert::{self, Refused, Way, no_time, of_kind, refused_new};
use crate::ops::{Op, Plan, Task, Time, Verb, system};
use crate::oracle::{Known, Outcome, Own, ensure};
use crate::world::Shared;

/// What is said of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Said {
    /// One of a few ids of the history's.
    id: Option<usize>,
    key: Option<(usize, Verb)>,
    held: bool,
    /// For how many milliseconds it waits after a failure, and how often it is tried again.
    retry: Option<(i64, u32)>,
    /// The number of the tenant in its header.
    tenant: Option<u8>,
    /// How many milliseconds after its due time it expires.
    expires: Option<i64>,
}

pub(crate) fn said() -> impl Strategy<Value = Said> {
    let verb = prop_oneof![
        4 => Just(Verb::Replace),
        1 => Just(Verb::KeepTime),
        2 => Just(Verb::IfAbsent),
    ];
    let key = prop::option::weighted(0.8, (0..3_usize, verb));
    let retry = prop::sample::select(vec![(0, 1), (30, 3), (2000, 0), (60_000, 9)]);
    let (id, retry) = (prop::option::weighted(0.3, 0..2_usize), prop::option::of(retry));
    let tenant = prop::option::of(0..3_u8);
    let expires = prop::sample::select(vec![-1, 0, 1, 30, 1000, 60_000, 3_600_000]);
    let expires = prop::option::weighted(0.4, expires);
    (id, key, prop::bool::weighted(0.7), retry, (tenant, expires)).prop_map(
        |(id, key, held, retry, (tenant, expires))| Said { id, key, held, retry, tenant, expires },
    )
}

impl Said {
    /// Returns the same with an id that is made.
    pub(crate) fn without_id(self) -> Said {
        Said { id: None, ..self }
    }

    fn id(&self) -> Option<JobId> {
        self.id.map(|n| JobId::named(&format!("chosen {n}")))
    }

    fn tenant(&self) -> Option<String> {
        self.tenant.map(|n| format!("tenant {n}"))
    }

    fn own(&self, due: i64) -> Own {
        let (held, retry, tenant) = (self.held, self.retry, self.tenant());
        Own { held, retry, tenant, expires: self.expires(Some(due)), ..Own::default() }
    }

    /// Returns the expiry of a job that has this due time.
    fn expires(&self, due: Option<i64>) -> Option<i64> {
        Some((due? + self.expires?).max(0))
    }

    /// `due`: the due time of the job, if it can have one.
    pub(crate) fn new_job<J: Job>(&self, job: J, when: When, due: Option<i64>) -> NewJob<J> {
        let mut new = NewJob::new(job).at(when);
        if let Some(expires) = self.expires(due) {
            new = new.expires(system(expires * 1000));
        }
        if let Some(id) = self.id() {
            new = new.id(id);
        }
        if let Some((key, verb)) = self.key {
            new = new.key(key_name(key));
            new = match verb {
                Verb::Replace => new,
                Verb::KeepTime => new.keeping_time(),
                Verb::IfAbsent => new.if_absent(),
            };
        }
        if let Some(tenant) = self.tenant() {
            new = new.header("tenant", tenant);
        }
        if self.held {
            new = new.unique_until(Until::Ended);
        }
        match self.retry {
            None => new,
            Some((wait, times)) => {
                let wait = std::time::Duration::from_millis(wait as u64);
                new.retry(Retry::fixed(wait).max_retries(times))
            }
        }
    }
}

/// Inserts a job, and does nothing else.
fn insert(
    client: &Client,
    transaction: Option<&Transaction<'_>>,
    kind: usize,
    (said, (when, due), plan): (&Said, (When, Option<i64>), Plan),
) -> Result<(JobId, bool), Refused> {
    of_kind!(kind, N => {
        let new = said.new_job(Task::<N>(plan), when, due);
        let inserted = match transaction {
            None => client.insert_job(new),
            Some(transaction) => client.insert_job_in(transaction, new),
        };
        inserted.map(|inserted| (inserted.id, inserted.is_new)).map_err(refused_new)
    })
}

impl Call<'_> {
    pub(crate) fn new_job(&self, said: &Said, kind: usize, time: Time, plan: &Plan) -> Outcome {
        let plan = self.numbered(plan);
        let when = (self.when(time), time.due(self.wall));
        let got = insert(self.client, None, kind, (said, when, plan.clone()));
        self.new_job_inserted(said, kind, time, plan, got)
    }

    pub(crate) fn numbered(&self, plan: &Plan) -> Plan {
        Plan { tag: self.shared.lock().oracle.number(), ..plan.clone() }
    }

    /// A job was inserted, or not: its id, and whether it is new.
    pub(crate) fn new_job_inserted(
        &self,
        said: &Said,
        kind: usize,
        time: Time,
        plan: Plan,
        got: Result<(JobId, bool), Refused>,
    ) -> Outcome {
        let Some(mut due) = time.due(self.wall) else { return no_time(&got, plan.tag) };
        let own = said.own(due);
        if own.expires.is_some_and(|expires| expires <= due) {
            let early = InvalidInput::ExpiresBeforeDue {
                expires: system(own.expires.unwrap_or_default() * 1000),
                due: system(due * 1000),
            };
            let refused = Err((InsertErrorKind::Invalid(early), plan.tag));
            return ensure(got == refused, || format!("it expires before it is due: {got:?}"));
        }
        let got = got.map_err(|refused| format!("refused: {refused:?}"))?;
        let (its_id, is_new) = got;
        if let Some(id) = said.id() {
            let known = self.shared.lock().oracle.known(id);
            if known == Known::Yes || known == Known::Perhaps && got == (id, false) {
                return ensure(got == (id, false), || format!("known: {got:?}"));
            }
            ensure(!is_new || its_id == id, || format!("{got:?}, not {id}"))?;
        }
        if let Some((key, verb)) = said.key {
            let key = key_name(key);
            match self.key_is_free(&key, verb, &mut due, !is_new)? {
                Some(holder) => {
                    return ensure(got == (holder, false), || {
                        format!("{got:?}: {holder} has the key")
                    });
                }
                None => self.shared.lock().oracle.take_key(&key),
            }
        }
        ensure(is_new, || format!("not inserted: {got:?}"))?;
        let key = said.key.map(|(key, _)| key_name(key));
        let oracle = &mut self.shared.lock().oracle;
        let at = oracle.insert(Some(its_id), kind, due, key, said.id.is_some(), plan);
        oracle.jobs[at].own = own;
        Ok(())
    }

    /// Returns the job that keeps the key, or makes it give the key up. `left`: the answer says that it
    /// keeps it, and may be right.
    pub(crate) fn key_is_free(
        &self,
        key: &str,
        verb: Verb,
        due: &mut i64,
        left: bool,
    ) -> Outcome<Option<JobId>> {
        let (running, holder) = {
            let oracle = &self.shared.lock().oracle;
            let pending = oracle.pending_of(key).map(|at| oracle.jobs[at].clone());
            (oracle.held_by(key), pending)
        };
        if running.is_some() {
            return Ok(running);
        }
        let Some(holder) = holder else { return Ok(None) };
        let id = holder.id.expect("a job with a key was inserted by a call");
        // For another process a job counts as running from up to 50 ms before its time on.
        let runs = self.other && holder.claimable;
        if left && (verb == Verb::IfAbsent || runs && holder.own.held) {
            return Ok(Some(id));
        }
        let robbed = runs && self.is_there(id)?;
        ensure(verb != Verb::IfAbsent || robbed, || format!("{holder:?} has the key"))?;
        ensure(!robbed || !holder.own.held, || format!("{holder:?} holds the key"))?;
        let oracle = &mut self.shared.lock().oracle;
        let at = oracle.find(id).expect("it was there");
        if robbed {
            oracle.jobs[at].key = None;
            oracle.jobs[at].robbed = true;
        } else {
            *due = if verb == Verb::KeepTime { holder.due } else { *due };
            let ends = self.ends(oracle);
            oracle.end(at, ends);
        }
        Ok(None)
    }
}

/// Does what an operation says in a transaction of the caller's, which is committed or not.
pub(crate) fn in_transaction(
    shared: &Shared,
    client: &Client,
    op: &Op,
    own: Option<JobId>,
    committed: bool,
) -> Outcome {
    let Some(path) = shared.place.file() else { return Ok(()) };
    let call = Call::now(shared, client, true);
    let picked = |pick| shared.lock().oracle.picked(pick, own);
    let mut file = Connection::open(path).map_err(|error| error.to_string())?;
    let transaction = file.transaction().map_err(|error| error.to_string())?;
    let end = |transaction: Transaction<'_>| {
        let ended = if committed { transaction.commit() } else { transaction.rollback() };
        client.nudge();
        ended.map_err(|error| error.to_string())
    };
    match op {
        Op::Insert(kind, time, plan) => {
            let plan = call.numbered(plan);
            let when = time.when(call.wall, call.now);
            let got = insert::insert(client, &Way::In(&transaction), *kind, when, plan.clone());
            end(transaction)?;
            if committed || got.is_err() {
                call.inserted(&Way::Plain, *kind, time.due(call.wall), plan, got)?;
            }
        }
        Op::New(said, kind, time, plan) => {
            let plan = call.numbered(plan);
            let when = (call.when(*time), time.due(call.wall));
            let job = (said, when, plan.clone());
            let got = insert(client, Some(&transaction), *kind, job);
            end(transaction)?;
            if committed || got.is_err() {
                call.new_job_inserted(said, *kind, *time, plan, got)?;
            }
        }
        Op::Cancel(pick) => {
            let id = picked(*pick);
            let got = ok(client.cancel_in(&transaction, id))?;
            end(transaction)?;
            if committed {
                call.cancelled(id, got)?;
            }
        }
        Op::Reschedule(pick, time) => {
            let id = picked(*pick);
            let got = client.reschedule_in(&transaction, id, call.when(*time));
            end(transaction)?;
            if committed || got.is_err() {
                call.was_reset(call.pending(id), *time, got)?;
            }
        }
        other => unreachable!("not in a transaction: {other:?}"),
    }
    Ok(())
}
