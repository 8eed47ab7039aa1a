//! The oracle: a list of jobs, and what the documentation says happens to them.
//!
//! It gets all calls, answers and starts of runs, in the order in which they happen, and reports
//! those that break a rule. Where the documentation leaves freedom, it accepts what it sees:
//!
//! - a job is claimed up to 50 ms before its time, so a crash may count as an interruption of a job
//!   that had not started, and another process may see it as running;
//! - an occurrence of a schedule becomes a job up to 50 ms before its time;
//! - what is past its retention goes at some time within ten minutes.
//!
//! Times are microseconds where they are read from a clock, and milliseconds where a job has them.

use tickwheel_jobs::{JobId, JobState};

use crate::groups::Grouped;
use crate::history::{Happened, What};
use crate::kept::Kept;
use crate::ops::{Bounds, Ending, Plan, QUICK, WAITS};
pub(crate) use crate::record::{Known, Own, Record, Remembered, Repeated};
use crate::waits::Ends;

pub(crate) type Outcome<T = ()> = Result<T, String>;

/// How late a run may be found to start, in microseconds: the tick of the wheel, and the millisecond
/// that something overdue waits.
const SLACK: i64 = 2_000;

#[derive(Clone)]
pub(crate) struct Oracle {
    pub(crate) jobs: Vec<Record>,
    pub(crate) remembered: Vec<Remembered>,
    /// The jobs that have ended, are not dead, and are kept.
    pub(crate) kept: Vec<Kept>,
    /// How many completed jobs of each kind are kept.
    pub(crate) keeps: [Option<Bounds>; 4],
    /// How jobs have ended since this was emptied.
    pub(crate) ends: Ends,
    /// What has happened to the jobs of each kind.
    pub(crate) happened: [Happened; 4],
    pub(crate) schedules: Vec<Repeated>,
    pub(crate) groups: Vec<Grouped>,
    /// Name and time of occurrences, and the ids they had.
    pub(crate) made: Vec<(String, i64, JobId)>,
    pub(crate) handled: [bool; 4],
    /// Those of the kinds, in milliseconds.
    pub(crate) head_starts: [i64; 4],
    /// The numbers of the scopes of several partitions that have a limit.
    pub(crate) limited: Vec<usize>,
    /// The kinds that are paused, and behind them whether the queue is.
    paused: [bool; 5],
    /// Every id that was ever seen.
    pub(crate) ids: Vec<JobId>,
    pub(crate) wall: i64,
    pub(crate) mono: i64,
    /// When the wall clock was set last, or the jobs were started, by the monotonic clock.
    pub(crate) jumped: i64,
    /// The wall clock was set back since the jobs were started.
    pub(crate) set_back: bool,
    pub(crate) retention: i64,
    pub(crate) in_flight: usize,
    /// How long before its time a job may be claimed, and an occurrence made, in milliseconds.
    pub(crate) ahead: i64,
    /// Runs, failures and deaths since the jobs were started.
    pub(crate) started: u64,
    pub(crate) failed: u64,
    pub(crate) died: u64,
    /// The last time at which an interrupted job was there, by the monotonic clock.
    suspected: i64,
    pub(crate) numbers: u64,
    /// The time at which the process was opened, and the number of processes that crashed before it.
    pub(crate) opened: i64,
    pub(crate) crashes: u64,
    /// The name of the queue. Empty: it has none.
    pub(crate) queue: String,
}

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

impl Oracle {
    pub(crate) fn new(retention: i64, in_flight: usize, ahead: i64) -> Oracle {
        Oracle {
            jobs: Vec::new(),
            remembered: Vec::new(),
            kept: Vec::new(),
            keeps: [None; 4],
            ends: Vec::new(),
            happened: Default::default(),
            schedules: Vec::new(),
            groups: Vec::new(),
            made: Vec::new(),
            handled: [true; 4],
            head_starts: [0; 4],
            limited: Vec::new(),
            paused: [false; 5],
            ids: Vec::new(),
            wall: 0,
            mono: 0,
            jumped: 0,
            set_back: false,
            retention,
            in_flight,
            ahead,
            started: 0,
            failed: 0,
            died: 0,
            suspected: i64::MIN / 2,
            numbers: 0,
            opened: 0,
            crashes: 0,
            queue: String::new(),
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn now(&self) -> i64 {
        self.wall.div_euclid(1000)
    }

    pub(crate) fn find(&self, id: JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == Some(id))
    }

    /// Returns the pending job of the key, the one that a caller in this process sees.
    pub(crate) fn pending_of(&self, key: &str) -> Option<usize> {
        let has = |job: &Record| job.key.as_deref() == Some(key);
        self.jobs.iter().position(|job| job.state == JobState::Pending && has(job))
    }

    /// Returns the job that has the key, pending or running.
    pub(crate) fn has_key(&self, key: &str) -> Option<JobId> {
        let has = |job: &&Record| job.state != JobState::Dead && job.key.as_deref() == Some(key);
        self.jobs.iter().find(has).and_then(|job| job.id)
    }

    /// Returns the job that runs and holds the key until its end.
    pub(crate) fn held_by(&self, key: &str) -> Option<JobId> {
        let holds = |job: &&Record| {
            job.state == JobState::Running && job.own.held && job.key.as_deref() == Some(key)
        };
        self.jobs.iter().find(holds).and_then(|job| job.id)
    }

    pub(crate) fn known(&self, id: JobId) -> Known {
        if self.is_coming(id) {
            return Known::Yes;
        }
        if let Some(at) = self.find(id) {
            return if self.jobs[at].perhaps { Known::Perhaps } else { Known::Yes };
        }
        if let Some(known) = self.known_as_kept(id) {
            return known;
        }
        match self.remembered.iter().find(|remembered| remembered.id == id) {
            Some(remembered) if remembered.perhaps => Known::Perhaps,
            Some(_) => Known::Yes,
            None => Known::No,
        }
    }

    /// Inserts a job whose key belongs to no other job any more.
    pub(crate) fn insert(
        &mut self,
        id: Option<JobId>,
        kind: usize,
        due: i64,
        key: Option<String>,
        named: bool,
        plan: Plan,
    ) -> usize {
        let order = self.number();
        if let Some(id) = id {
            self.remembered.retain(|remembered| remembered.id != id);
            self.jobs.retain(|job| job.id != Some(id));
            self.kept.retain(|kept| kept.id != id);
            self.ids.retain(|known| *known != id);
            self.ids.push(id);
        }
        self.jobs.push(Record {
            id,
            kind,
            due,
            key,
            own: Own::default(),
            named,
            plan,
            state: JobState::Pending,
            failures: 0,
            interruptions: 0,
            runs: 0,
            errors: Vec::new(),
            progress: None,
            died: (0, 0),
            asked: false,
            claimable: false,
            doubtful: false,
            interrupted: false,
            runs_unsure: false,
            occurs: None,
            perhaps: false,
            robbed: false,
            unsure: false,
            starts: 0,
            fence: 0,
            since: 0,
            change: 0,
            order,
        });
        let at = self.jobs.len() - 1;
        self.moved(at);
        at
    }

    /// A job waits anew from now on.
    pub(crate) fn moved(&mut self, at: usize) {
        let change = self.number();
        let (now, mono, ahead) = (self.now(), self.mono, self.ahead);
        let job = &mut self.jobs[at];
        job.state = JobState::Pending;
        (job.since, job.change) = (mono, change);
        job.claimable = job.due <= now + ahead;
    }

    /// A job is cancelled or replaced, or deleted if it is dead, at a time between these.
    pub(crate) fn end(&mut self, at: usize, since: (i64, i64)) {
        let job = self.jobs.remove(at);
        if job.state != JobState::Dead {
            self.happened[job.kind].add(What::Cancelled, 1);
            self.ends.extend(job.id.map(|id| (id, JobState::Cancelled)));
            return self.leaves(job, JobState::Cancelled, since, None);
        }
        if let Some(id) = job.id.filter(|_| job.named) {
            self.remembered.push(Remembered { id, since, perhaps: false });
        }
    }

    /// A run has completed, and has set this result.
    fn completed(&mut self, at: usize, result: Option<Vec<u8>>) {
        let (job, now) = (self.jobs.remove(at), self.now());
        self.happened[job.kind].add(What::Completed, 1);
        self.member_completed(&job, result.clone());
        self.ends.extend(job.id.map(|id| (id, JobState::Completed)));
        self.leaves(job, JobState::Completed, (now, now), result);
    }

    pub(crate) fn end_now(&mut self, at: usize) {
        self.end(at, (self.now(), self.now()));
    }

    /// The job under the key is to have it no more: it ends if it is pending.
    pub(crate) fn take_key(&mut self, key: &str) {
        if let Some(at) = self.pending_of(key) {
            self.end_now(at);
        }
        for job in &mut self.jobs {
            if job.state == JobState::Running && job.key.as_deref() == Some(key) {
                job.key = None;
            }
        }
    }

    /// Says whether this process starts the jobs of a kind.
    pub(crate) fn may_run(&self, kind: usize) -> bool {
        self.handled[kind] && !self.is_paused(kind)
    }

    pub(crate) fn is_paused(&self, kind: usize) -> bool {
        self.paused[kind] || self.paused[4]
    }

    /// A kind or the queue is paused, or that ends: from then on its jobs are in time.
    pub(crate) fn pause(&mut self, kind: Option<usize>, pauses: bool) {
        let before: Vec<bool> = self.jobs.iter().map(|job| self.is_paused(job.kind)).collect();
        self.paused[kind.unwrap_or(4)] = pauses;
        for (at, was_paused) in before.into_iter().enumerate() {
            if was_paused && !self.is_paused(self.jobs[at].kind) {
                self.jobs[at].since = self.mono;
            }
        }
    }

    /// A run of the job starts: by P7, P16, P27 and P28.
    pub(crate) fn start(&mut self, at: usize) -> Outcome {
        let slack = self.slack();
        self.started += 1;
        let (wall, mono, jumped) = (self.wall, self.mono, self.jumped);
        let job = &self.jobs[at];
        ensure(job.state == JobState::Pending, || format!("started, and not pending: {job:?}"))?;
        ensure(self.handled[job.kind], || format!("started, and nobody handles it: {job:?}"))?;
        ensure(!self.is_paused(job.kind), || format!("started in a pause: {job:?}"))?;
        let is_too_old = job.own.expires.is_some_and(|expires| expires < wall.div_euclid(1000));
        ensure(!is_too_old, || format!("P107: started too late: {job:?}"))?;
        ensure(wall >= job.due * 1000, || format!("early by {}: {job:?}", job.due * 1000 - wall))?;
        let late = (wall - job.due * 1000).min(mono - job.since).min(mono - jumped);
        ensure(late <= slack, || format!("late by {late} us: {job:?}"))?;
        for other in &self.jobs {
            // Ids that were not made here have no order of insertion.
            let before = other.due < job.due
                || (other.due == job.due && other.order < job.order && !other.named && !job.named);
            // P27. With few slots, some may be kept for kinds with a head start.
            let difference = self.head_starts[job.kind] - self.head_starts[other.kind];
            let overtaken = job.due - other.due > difference
                && other.due * 1000 <= wall
                && self.handled[other.kind]
                && !self.is_paused(other.kind)
                && other.partition().is_none()
                && self.limited.is_empty()
                // Waits for the rest of its batch.
                && other.kind != QUICK
                && self.in_flight > 100;
            // An interrupted job is a batch by itself, and waits for no other.
            let has_batches = job.kind == QUICK && self.in_flight > 1;
            let is_alone = has_batches && (job.interruptions > 0 || job.doubtful);
            let in_order = self.are_in_order(job, other) && !is_alone;
            let passed = (if other.kind == job.kind { before && in_order } else { overtaken })
                && other.state == JobState::Pending
                && !other.perhaps
                // What was interrupted may be passed over.
                && other.interruptions == 0
                && !other.doubtful
                && other.change < job.change;
            ensure(!passed, || format!("{job:?} started before {other:?}"))?;
        }
        let job = &mut self.jobs[at];
        self.happened[job.kind].add(What::Ran, 1);
        job.state = JobState::Running;
        job.perhaps = false;
        job.starts += 1;
        Ok(())
    }

    /// What a run says of itself: its attempt counts every run before it, and its fence is greater.
    pub(crate) fn identify(&mut self, at: usize, attempt: u32, fence: u64) -> Outcome {
        let job = &mut self.jobs[at];
        job.runs += u32::from(core::mem::take(&mut job.runs_unsure) && attempt == job.runs + 2);
        let expected = job.runs + 1;
        ensure(attempt == expected, || format!("attempt {attempt}, not {expected}: {job:?}"))?;
        ensure(fence > job.fence, || format!("fence {fence} after {}: {job:?}", job.fence))?;
        job.fence = fence;
        Ok(())
    }

    /// The run ends, and has set this result. `None`: its payload does not decode.
    pub(crate) fn ended(&mut self, at: usize, ending: Option<Ending>, result: Option<Vec<u8>>) {
        let now = self.now();
        // A wait is not shortened by what is left of the millisecond in which the run ended.
        let waits_from = (self.wall + 999).div_euclid(1000);
        let job = &self.jobs[at];
        let (wait, times) = job.own.retry.unwrap_or(WAITS[job.kind]);
        self.failed += u64::from(!matches!(ending, Some(Ending::Done | Ending::Snoozes(_))));
        let job = &mut self.jobs[at];
        if ending == Some(Ending::Done) {
            return self.completed(at, result);
        }
        if job.asked {
            return self.end_now(at);
        }
        if let Some(Ending::Snoozes(wait)) = ending {
            job.due = waits_from + wait as i64;
            job.interruptions = 0;
            self.happened[job.kind].add(What::Snoozed, 1);
            return self.moved(at);
        }
        job.failures += 1;
        job.runs += 1;
        let expires = job.own.expires.unwrap_or(i64::MAX);
        let is_in_time = |wait: &i64| waits_from + wait <= expires;
        let again = |wait| (job.failures <= times).then_some(wait).filter(is_in_time);
        let (error, wait) = match ending {
            None => ("the payload does not decode: as planned", None),
            Some(Ending::FailsAfter(wait)) => ("fails later", again(wait as i64)),
            Some(Ending::Dies) => ("dies", None),
            Some(Ending::Panics) => ("panicked: as planned", again(wait)),
            Some(_) => ("fails", again(wait)),
        };
        job.failed_with(error, now);
        match wait {
            Some(wait) => {
                job.due = waits_from + wait;
                job.interruptions = 0;
                self.happened[job.kind].add(What::Retried, 1);
                self.moved(at);
            }
            None => {
                self.died += 1;
                self.happened[job.kind].add(What::Dead, 1);
                job.state = JobState::Dead;
                job.died = (now, now);
                self.ends.extend(job.id.map(|id| (id, JobState::Dead)));
            }
        }
    }

    /// How late a run may be found to start, in microseconds.
    fn slack(&self) -> i64 {
        let mut slack = SLACK;
        if self.in_flight < 100 {
            // A slot may be held by a job whose time has not come, 50 ms, or more after the clock was
            // set back by less than a second; and the others go one after the other.
            slack += 1_100_000 + 3_000 * (self.jobs.len() as i64 + self.started as i64);
        }
        let suspects = self.jobs.iter().filter(|job| job.interruptions > 0 || job.doubtful).count();
        if suspects > 0 || self.mono - self.suspected < 1_500_000 {
            slack += 1_100_000 * (suspects as i64 + 1);
        }
        slack
    }

    /// Says what should have started by now.
    pub(crate) fn nothing_is_overdue(&self) -> Outcome {
        let slack = self.slack();
        for job in &self.jobs {
            let may_run = self.handled[job.kind] && !self.is_paused(job.kind);
            if job.state == JobState::Pending && may_run && !job.perhaps {
                let late = self.wall - job.due * 1000;
                let late = late.min(self.mono - job.since).min(self.mono - self.jumped);
                ensure(late <= slack, || format!("not started, {late} us late: {job:?}"))?;
            }
        }
        Ok(())
    }

    /// Takes the present readings of the clocks. `jumped`: the wall clock was set, or no process
    /// ran the jobs meanwhile.
    pub(crate) fn time_is(&mut self, wall: i64, mono: i64, jumped: bool) {
        if self.jobs.iter().any(|job| job.interruptions > 0) {
            self.suspected = mono;
        }
        if jumped && wall < self.wall {
            self.set_back = true;
        }
        // By a second or so the jobs may keep what they have claimed.
        let far_back = jumped && wall < self.wall - 1_001_000;
        (self.wall, self.mono) = (wall, mono);
        if jumped {
            self.jumped = mono;
        }
        let (now, ahead) = (self.now(), self.ahead);
        for job in &mut self.jobs {
            job.claimable = (job.claimable && !far_back) || job.due <= now + ahead;
            if job.state == JobState::Dead && job.died.0 < now - self.retention {
                job.perhaps = true;
            }
            // An occurrence whose time has come is there.
            if job.state == JobState::Pending && job.occurs.is_some_and(|(_, time)| time <= now) {
                job.perhaps &= job.id.is_none() && job.unsure;
            }
        }
        for remembered in &mut self.remembered {
            remembered.perhaps |= remembered.since.0 < now - self.retention;
        }
        self.keeps_until(now);
        self.groups_may_be_forgotten(now - self.retention);
        let gone = now - self.retention - 601_000;
        if !self.set_back {
            self.remembered.retain(|remembered| remembered.since.1 >= gone);
        }
        self.occur(jumped);
    }
}

pub(crate) fn encoded(plan: &Plan) -> Vec<u8> {
    serde_json::to_vec(plan).expect("a plan is JSON")
}
