//! The dispatcher as a state machine: commands and the present in; one commit of the store; answers,
//! starts and the time of the next step out.
//!
//! Ground rules:
//!
//! - No clock, no thread, no channel that is waited for: a step is a function of what it is given. The
//!   thread in `thread.rs` and the lock in `inline.rs` drive the same machine.
//! - An answer leaves with the turn, so after the commit that makes it true.
//! - A run is in `runs` from the commit that claims it to the commit that ends its claim. So a slot
//!   that is free here is free in the store.
//! - What a run brings is never lost: if its commit fails, it is taken again in the next step.
//! - A run that has not started is withdrawn before its job is cancelled, moved or replaced. What was
//!   withdrawn is given back to the store in the same commit, or, if that fails, in a later one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, Reply, RunEnd};
use super::events::Event;
use super::run::RunState;
use crate::store::{
    Answer, ApplyError, Batch, ClaimRequest, End, Finish, IfTaken, Inserted, NewJob, Op, Outcome,
    Store, StoredSchedule,
};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::JobState;
use crate::values::retry::{Fail, Fate, Retry, truncated};
use crate::values::time::Millis;

/// What does not change while the jobs run.
#[derive(Clone)]
pub(crate) struct Settings {
    /// How many jobs may be claimed at once.
    pub(crate) in_flight: usize,
    /// How long before its time a job is claimed.
    pub(crate) ahead: Duration,
    /// How long the dead, and the ids of the caller's, are kept.
    pub(crate) retention: Duration,
    /// Answers are on stable storage before they are given.
    pub(crate) synced: bool,
    /// How jobs of each kind that is handled here are tried again. None at all: nothing is claimed.
    pub(crate) policies: HashMap<Arc<str>, Retry>,
}

/// The state machine.
pub(crate) struct Machine {
    settings: Settings,
    runs: HashMap<JobId, Arc<RunState>>,
    by_key: HashMap<String, JobId>,
    /// Runs whose cancel was answered with `Running`.
    asked: HashSet<JobId>,
    /// Claimed jobs that were interrupted before, and when they were claimed.
    suspects: Vec<(JobId, Millis)>,
    schedules: Vec<StoredSchedule>,
    load_schedules: bool,
    /// What is taken first in the next step.
    backlog: Vec<Command>,
    /// After failed commits: how many, and when the next one is tried for the backlog alone.
    failures: u32,
    retry_at: Option<Millis>,
    last: Millis,
    purge_at: Millis,
    closing: Option<Option<Reply>>,
    /// Runs that the machine does not wait for, although they have started.
    abandoned: usize,
    /// The machine waits for nothing any more.
    given_up: bool,
}

/// What a step led to.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) answers: Vec<(Reply, Result<Answer, ApplyError>)>,
    /// In the order of deadline, then of id.
    pub(crate) starts: Vec<Start>,
    pub(crate) events: Vec<Event>,
    /// When the next step is due if no command comes: at once, if that has passed.
    pub(crate) wake_at: Option<Millis>,
    /// The machine was closed, and no run is left that it waits for.
    pub(crate) finished: bool,
}

/// A run to start at its time.
pub(crate) struct Start {
    pub(crate) state: Arc<RunState>,
    pub(crate) payload: Vec<u8>,
}

/// The operations of one commit, and what each is followed by.
#[derive(Default)]
struct Work {
    ops: Vec<Op>,
    then: Vec<Then>,
    synced: bool,
    /// How many claims these operations end.
    ending: usize,
    /// Runs that have started, and that these operations cancel.
    asking: HashSet<JobId>,
}

enum Then {
    Answer(Option<Reply>),
    Ended { id: JobId, end: RunEnd, event: Option<Event> },
    Released(JobId),
    SchedulesLoaded,
    Occurred,
    Purged,
}

/// How many jobs one step claims, so that no commit takes long.
const CLAIMS_PER_STEP: usize = 1024;
/// How many suspects may be claimed at once.
const SUSPECTS: usize = 32;
/// A suspect that has not ended its process for so long is none any more.
const SUSPICION: Duration = Duration::from_secs(1);
/// A clock that steps back by more than this was set.
const CLOCK_STEP: Duration = Duration::from_secs(1);
/// An occurrence that is found later than this was missed.
const GRACE: Duration = Duration::from_secs(1);
/// How many occurrences of one schedule a step makes.
const OCCURRENCES_PER_STEP: usize = 1000;
const PURGE_INTERVAL: Duration = Duration::from_secs(600);
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// How many inserts that nobody waits for are kept while the store fails.
const MOST_BUFFERED: usize = 100_000;

impl Machine {
    pub(crate) fn new(settings: Settings, now: Millis) -> Machine {
        Machine {
            settings,
            runs: HashMap::new(),
            by_key: HashMap::new(),
            asked: HashSet::new(),
            suspects: Vec::new(),
            schedules: Vec::new(),
            load_schedules: true,
            backlog: Vec::new(),
            failures: 0,
            retry_at: None,
            last: now,
            purge_at: now,
            closing: None,
            abandoned: 0,
            given_up: false,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.runs.len()
    }

    /// Returns the deadline of the run that starts next, of those that are claimed.
    pub(crate) fn next_start(&self) -> Option<Millis> {
        self.runs.values().filter(|run| run.is_waiting()).map(|run| run.due).min()
    }

    /// Takes the commands, and what is due by itself, in one commit.
    pub(crate) fn step(
        &mut self,
        now: Millis,
        commands: &mut Vec<Command>,
        store: &mut dyn Store,
    ) -> Turn {
        let mut turn = Turn::default();
        let mut work = Work::default();
        if now.plus(CLOCK_STEP) < self.last {
            self.withdraw_all();
        }
        self.last = now;
        let mut taken = core::mem::take(&mut self.backlog);
        taken.append(commands);
        for command in taken {
            self.take(command, now, store, &mut work, &mut turn);
        }
        if self.runs_jobs() {
            self.make_occurrences(now, &mut work);
            self.purge(now, &mut work);
            if core::mem::take(&mut self.load_schedules) {
                work.push(Op::Schedules, Then::SchedulesLoaded);
            }
        }
        let claim = self.claim_request(now, &work);
        if work.ops.is_empty() && claim.is_none() {
            self.finish_turn(now, None, &mut turn);
            return turn;
        }
        let batch = Batch { ops: &work.ops, claim, synced: work.synced, now };
        crate::hook::at("before the commit");
        match store.apply(&batch) {
            Ok(outcome) => {
                crate::hook::at("after the commit");
                if !outcome.claimed.is_empty() {
                    crate::hook::at("claim: after the commit");
                }
                self.failures = 0;
                self.retry_at = None;
                self.committed(work, outcome, now, &mut turn);
            }
            Err(failed) => {
                self.failed(work, &failed, now, &mut turn);
                self.finish_turn(now, None, &mut turn);
            }
        }
        turn
    }

    fn runs_jobs(&self) -> bool {
        !self.settings.policies.is_empty() && self.closing.is_none()
    }

    fn take(
        &mut self,
        command: Command,
        now: Millis,
        store: &mut dyn Store,
        work: &mut Work,
        turn: &mut Turn,
    ) {
        match command {
            Command::Ask { op, reply } => self.ask(op, reply, work, turn),
            Command::Ended { id, end } => self.run_ended(id, end, now, work),
            Command::GiveBack(id) => work.release(id),
            Command::Look => match store.look() {
                Ok(look) => {
                    self.load_schedules |= look.changed;
                    let unasked = look.asked.into_iter().filter(|id| !self.asked.contains(id));
                    let cancels: Vec<JobId> = unasked.collect();
                    for id in cancels {
                        self.ask(Op::Cancel(id), None, work, turn);
                    }
                }
                Err(error) => turn.events.push(Event::CommitFailed { error }),
            },
            Command::Close { reply } => {
                self.closing = Some(reply);
                self.withdraw_all();
                for command in core::mem::take(&mut self.backlog) {
                    if let Command::GiveBack(id) = command {
                        work.release(id);
                    }
                }
            }
            Command::Check(reply) => drop(reply.send(store.check())),
            Command::Abandon => {
                for run in self.runs.values() {
                    run.tell_lost();
                    self.abandoned += usize::from(run.has_started());
                    work.release(run.id);
                }
                self.given_up = true;
            }
        }
    }

    /// Takes what a caller wants.
    fn ask(&mut self, op: Op, reply: Option<Reply>, work: &mut Work, turn: &mut Turn) {
        if self.closing.is_some() && !op.is_question() && reply.is_some() {
            turn.refuse(reply, StoreError::Closed.into());
            return;
        }
        match &op {
            Op::Cancel(id) => {
                self.withdraw(*id, work);
                if self.runs.get(id).is_some_and(|run| run.has_started()) {
                    work.asking.insert(*id);
                }
            }
            Op::Reset(id, _) => self.withdraw(*id, work),
            Op::CancelKey(key) | Op::ResetKey(key, _) => {
                if let Some(id) = self.by_key.get(key).copied() {
                    self.withdraw(id, work);
                }
            }
            Op::Insert(NewJob { key: Some((key, if_taken)), .. }) => {
                if let Some(id) = self.by_key.get(key).copied() {
                    let waits = self.runs.get(&id).is_some_and(|run| run.is_waiting());
                    if waits && *if_taken == IfTaken::Leave {
                        turn.answer(reply, Answer::Inserted(Inserted::Occupied));
                        return;
                    }
                    self.withdraw(id, work);
                }
            }
            Op::PutSchedule(_) | Op::DropSchedule(_) => self.load_schedules = true,
            _ => {}
        }
        let flush = matches!(op, Op::Flush);
        work.synced |= flush || self.settings.synced && reply.is_some() && !op.is_question();
        work.push(op, Then::Answer(reply));
    }

    /// Makes sure that a claimed job which has not started never does, and gives its claim back.
    fn withdraw(&mut self, id: JobId, work: &mut Work) {
        let Some(run) = self.runs.get(&id) else { return };
        if run.withdraw() {
            if let Some(key) = &run.key {
                self.by_key.remove(key);
            }
            work.release(id);
        }
    }

    /// Withdraws every run that has not started: the next step gives them back.
    fn withdraw_all(&mut self) {
        for run in self.runs.values() {
            if run.withdraw() {
                self.backlog.push(Command::GiveBack(run.id));
            }
        }
    }

    fn run_ended(&mut self, id: JobId, end: RunEnd, now: Millis, work: &mut Work) {
        let Some(run) = self.runs.get(&id) else { return };
        let policy = self.settings.policies.get(&run.kind).copied().unwrap_or_default();
        let (kind, failures) = (run.kind.to_string(), run.tries.saturating_add(1));
        let died = |error: &str| {
            let error = truncated(error.to_owned());
            let event = Event::Died { id, kind: kind.clone(), error: error.clone() };
            (End::Dead { error }, Some(event))
        };
        let again = |wait: Option<Duration>, error: &str| match wait {
            None => died(error),
            Some(wait) => {
                let error = truncated(error.to_owned());
                let event = Event::Failed { id, kind: kind.clone(), error: error.clone() };
                (End::Again { due: now.plus(wait), error }, Some(event))
            }
        };
        let draw = draw(id, failures);
        let (outcome, event) = match &end {
            RunEnd::Done => (End::Gone, None),
            _ if self.asked.contains(&id) || work.asking.contains(&id) => (End::Gone, None),
            RunEnd::Undecodable(error) => died(error),
            RunEnd::Failed(Fail { fate, error }) => match fate {
                Fate::Lost if run.is_lost() => {
                    work.ending += 1;
                    work.push(Op::Release(id), Then::Ended { id, end, event: None });
                    return;
                }
                Fate::Policy | Fate::Lost => again(policy.draw_wait(failures, draw), error),
                Fate::After(wait) => again(policy.wait(failures).map(|_| *wait), error),
                Fate::Dead => died(error),
            },
        };
        work.ending += 1;
        let finish = Finish { id, end: outcome };
        work.push(Op::Finish(finish), Then::Ended { id, end, event });
    }

    /// Turns the times of schedules that have come into jobs.
    fn make_occurrences(&mut self, now: Millis, work: &mut Work) {
        let until = now.plus(self.settings.ahead);
        for schedule in &mut self.schedules {
            let Some((kind, _)) = self.settings.policies.get_key_value(&*schedule.kind) else {
                continue;
            };
            if schedule.next > until {
                continue;
            }
            let expected = schedule.next;
            let (times, next) =
                schedule.schedule.due(expected, now.minus(GRACE), until, OCCURRENCES_PER_STEP);
            let job = |due: Millis| NewJob {
                id: JobId::named(&format!("{} {}", schedule.name, due.get())),
                kind: Arc::clone(kind),
                due,
                key: None,
                callers_id: true,
                payload: schedule.payload.clone(),
            };
            let jobs = times.into_iter().map(job).collect();
            let name = schedule.name.clone();
            // Until the commit is known, the schedule is not looked at again.
            schedule.next = next.unwrap_or(Millis::MAX);
            work.push(Op::Occur { name, expected, jobs, next }, Then::Occurred);
        }
    }

    fn purge(&mut self, now: Millis, work: &mut Work) {
        if now >= self.purge_at {
            self.purge_at = now.plus(PURGE_INTERVAL);
            work.push(Op::Purge(now.minus(self.settings.retention)), Then::Purged);
        }
    }

    fn free_slots(&self, ending: usize) -> usize {
        let held = self.runs.len().saturating_sub(ending);
        self.settings.in_flight.saturating_sub(held)
    }

    fn claim_request(&mut self, now: Millis, work: &Work) -> Option<ClaimRequest> {
        let limit = self.free_slots(work.ending).min(CLAIMS_PER_STEP);
        if !self.runs_jobs() || limit == 0 {
            return None;
        }
        let runs = &self.runs;
        // A suspect whose run this commit ends has survived it, so the next one may be claimed in the
        // same commit. There need not be another step: nothing else may be in flight.
        self.suspects.retain(|(id, since)| {
            let goes_on = runs.contains_key(id) && !work.ends(*id);
            goes_on && now.since(*since) < SUSPICION && *since <= now
        });
        Some(ClaimRequest {
            until: now.plus(self.settings.ahead),
            limit,
            suspects: SUSPECTS.saturating_sub(self.suspects.len()),
            repeat_offender: self.suspects.is_empty(),
        })
    }

    fn committed(&mut self, work: Work, outcome: Outcome, now: Millis, turn: &mut Turn) {
        for (then, answer) in work.then.into_iter().zip(outcome.answers) {
            match then {
                Then::Answer(reply) => {
                    let answer = self.seen_from_here(answer);
                    turn.answer(reply, answer);
                }
                Then::Ended { id, event, .. } => {
                    self.forget(id);
                    turn.events.extend(event);
                }
                Then::Released(id) => self.forget(id),
                Then::SchedulesLoaded => {
                    if let Answer::Schedules(schedules) = answer {
                        self.schedules = schedules;
                    }
                }
                // Somebody else has changed the schedule meanwhile.
                Then::Occurred => self.load_schedules |= matches!(answer, Answer::Changed(false)),
                Then::Purged => {
                    if let Answer::Changed(true) = answer {
                        self.purge_at = now;
                    }
                }
            }
        }
        for id in work.asking {
            if let Some(run) = self.runs.get(&id) {
                self.asked.insert(id);
                run.tell_lost();
            }
        }
        for claimed in outcome.claimed {
            let state = Arc::new(RunState::new(&claimed));
            if claimed.interruptions > 0 {
                self.suspects.push((claimed.id, now));
            }
            if let Some(key) = &state.key {
                self.by_key.insert(key.clone(), claimed.id);
            }
            self.runs.insert(claimed.id, Arc::clone(&state));
            turn.starts.push(Start { state, payload: claimed.payload });
        }
        self.finish_turn(now, outcome.next_due, turn);
        if outcome.suspects_wait && self.runs_jobs() {
            turn.wake_by(now.plus(SUSPICION));
        }
    }

    /// Forgets a run whose claim has ended.
    fn forget(&mut self, id: JobId) {
        self.asked.remove(&id);
        let Some(run) = self.runs.remove(&id) else { return };
        if let Some(key) = &run.key
            && self.by_key.get(key) == Some(&id)
        {
            self.by_key.remove(key);
        }
    }

    /// Says of claimed jobs which of them run.
    fn seen_from_here(&self, mut answer: Answer) -> Answer {
        let correct = |state: &mut JobState, id: JobId| {
            if *state == JobState::Running
                && self.runs.get(&id).is_some_and(|run| !run.has_started())
            {
                *state = JobState::Pending;
            }
        };
        match &mut answer {
            Answer::Info(Some(job)) => correct(&mut job.state, job.id),
            Answer::Page(page) => {
                page.jobs.iter_mut().for_each(|job| correct(&mut job.state, job.id));
            }
            Answer::Counts(counts) if !self.settings.policies.is_empty() => {
                let waiting = self.runs.values().filter(|run| !run.has_started()).count() as u64;
                counts.running = counts.running.saturating_sub(waiting);
                counts.pending += waiting;
            }
            _ => {}
        }
        answer
    }

    /// Answers every caller with the error, and keeps what nobody else has.
    fn failed(&mut self, work: Work, failed: &ApplyError, now: Millis, turn: &mut Turn) {
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.plus(wait));
        self.load_schedules = true;
        turn.events.push(Event::CommitFailed { error: failed.error.clone() });
        let mut lost = Vec::new();
        let mut buffered = 0;
        for (op, then) in work.ops.into_iter().zip(work.then) {
            match then {
                Then::Answer(Some(reply)) => {
                    let error = ApplyError { error: failed.error.clone(), unknown: failed.unknown };
                    turn.answers.push((reply, Err(error)));
                }
                Then::Answer(None) => {
                    buffered += 1;
                    if buffered <= MOST_BUFFERED && self.closing.is_none() {
                        // It may be in the store already, so it is looked for the next time.
                        let op = if failed.unknown { once(op) } else { op };
                        self.backlog.push(Command::Ask { op, reply: None });
                    } else if let Op::Insert(job) = op {
                        lost.push(job.id);
                    } else if let Op::InsertMany(jobs) = op {
                        lost.extend(jobs.iter().map(|job| job.id));
                    }
                }
                Then::Ended { id, end, .. } => self.backlog.push(Command::Ended { id, end }),
                Then::Released(id) => self.backlog.push(Command::GiveBack(id)),
                Then::Purged => self.purge_at = now.plus(wait),
                Then::SchedulesLoaded | Then::Occurred => {}
            }
        }
        if !lost.is_empty() {
            turn.events.push(Event::Lost { ids: lost });
        }
    }

    fn finish_turn(&mut self, now: Millis, next_due: Option<Millis>, turn: &mut Turn) {
        if let Some(retry_at) = self.retry_at {
            turn.wake_by(retry_at);
        } else if !self.backlog.is_empty() {
            turn.wake_by(now);
        }
        if self.runs_jobs() {
            if self.free_slots(0) > 0 {
                turn.wakes(next_due.map(|due| due.minus(self.settings.ahead)));
            }
            let handled =
                |schedule: &&StoredSchedule| self.settings.policies.contains_key(&*schedule.kind);
            let next = self.schedules.iter().filter(handled).map(|schedule| schedule.next).min();
            if self.retry_at.is_none() {
                turn.wakes(next.map(|next| next.minus(self.settings.ahead)));
                turn.wake_by(self.purge_at);
                if self.load_schedules {
                    turn.wake_by(now);
                }
            }
        }
        let idle = self.runs.is_empty() && self.backlog.is_empty();
        if let Some(reply) = &mut self.closing
            && (idle || self.given_up)
        {
            turn.finished = true;
            let answer = match self.abandoned {
                0 => Ok(Answer::Done),
                runs => Err(ApplyError::from(StoreError::StillRunning(runs))),
            };
            if let Some(reply) = reply.take() {
                turn.answers.push((reply, answer));
            }
        }
    }
}

impl Work {
    fn push(&mut self, op: Op, then: Then) {
        self.ops.push(op);
        self.then.push(then);
    }

    fn release(&mut self, id: JobId) {
        self.ending += 1;
        self.push(Op::Release(id), Then::Released(id));
    }

    /// Says whether the run of this job has ended, and the operations say so.
    fn ends(&self, id: JobId) -> bool {
        let finish = |op: &Op| matches!(op, Op::Finish(finish) if finish.id == id);
        self.ops.iter().any(finish)
    }
}

impl Turn {
    fn answer(&mut self, reply: Option<Reply>, answer: Answer) {
        self.answers.extend(reply.map(|reply| (reply, Ok(answer))));
    }

    fn refuse(&mut self, reply: Option<Reply>, error: ApplyError) {
        self.answers.extend(reply.map(|reply| (reply, Err(error))));
    }

    fn wake_by(&mut self, time: Millis) {
        self.wake_at = Some(self.wake_at.map_or(time, |wake_at| wake_at.min(time)));
    }

    fn wakes(&mut self, time: Option<Millis>) {
        if let Some(time) = time {
            self.wake_by(time);
        }
    }
}

/// Returns the insert as one that looks for its id first.
fn once(op: Op) -> Op {
    match op {
        Op::Insert(job) => Op::Insert(NewJob { callers_id: true, ..job }),
        Op::InsertMany(jobs) => {
            Op::InsertMany(jobs.into_iter().map(|job| NewJob { callers_id: true, ..job }).collect())
        }
        other => other,
    }
}

/// Returns a number that differs from job to job and from try to try, and is the same each time.
fn draw(id: JobId, failures: u32) -> u64 {
    let bits = id.to_u128();
    let mut mixed = (bits >> 64) as u64 ^ (bits as u64).rotate_left(32) ^ u64::from(failures) << 56;
    // The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
