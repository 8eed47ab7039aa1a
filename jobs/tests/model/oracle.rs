//! The oracle: a list of jobs, and what the documentation says happens to them.
//!
//! It is told what was called, what was answered, and which runs start, in the order in which all of
//! that happens, and says what may not be. Where the documentation leaves freedom it takes what it
//! sees:
//!
//! - a job is claimed up to 50 ms before its time, so a crash may count as an interruption of a job
//!   that had not started, and another process may see it as running;
//! - an occurrence of a schedule becomes a job up to 50 ms before its time;
//! - what is past its retention goes at some time within ten minutes.
//!
//! Times are microseconds where they are read from a clock, and milliseconds where a job has them.

use tickwheel_jobs::{JobId, JobState};

use crate::ops::{Ending, Plan, Policy, WAITS};

pub(crate) type Outcome<T = ()> = Result<T, String>;

/// How late a run may be found to start, in microseconds: the tick of the wheel, and the millisecond
/// that something overdue waits.
const SLACK: i64 = 2_000;

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) id: Option<JobId>,
    pub(crate) kind: usize,
    pub(crate) due: i64,
    pub(crate) key: Option<String>,
    /// The id was chosen, or made from a name: it is remembered.
    pub(crate) named: bool,
    pub(crate) plan: Plan,
    pub(crate) state: JobState,
    pub(crate) tries: u32,
    pub(crate) interruptions: u32,
    /// Runs that failed, or whose process ended.
    pub(crate) runs: u32,
    pub(crate) error: Option<String>,
    /// Not before, and not after.
    pub(crate) died: (i64, i64),
    pub(crate) asked: bool,
    pub(crate) claimable: bool,
    /// A crash may have interrupted it, or not.
    pub(crate) doubtful: bool,
    /// A crash has interrupted it, and it may have died of that.
    pub(crate) interrupted: bool,
    /// It may have one run more: its last try was given back.
    pub(crate) runs_unsure: bool,
    /// The schedule that it is an occurrence of, by number, and when.
    pub(crate) occurs: Option<(u64, i64)>,
    /// It need not be there yet, or not any more.
    pub(crate) perhaps: bool,
    /// Its key was taken by another process, which may not be known here.
    pub(crate) robbed: bool,
    /// The id of an occurrence that may still be known, so it need not be made.
    pub(crate) unsure: bool,
    pub(crate) starts: usize,
    pub(crate) fence: u64,
    /// When it came to be where it is, by the monotonic clock, and as the how-manieth change.
    since: i64,
    change: u64,
    /// The how-manieth insert.
    order: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: usize,
    pub(crate) period: i64,
    pub(crate) next: i64,
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
}

/// An id that is remembered, and since when: not before, and not after.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) id: JobId,
    pub(crate) since: (i64, i64),
    pub(crate) perhaps: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    Yes,
    No,
    Perhaps,
}

#[derive(Clone)]
pub(crate) struct Oracle {
    pub(crate) jobs: Vec<Record>,
    pub(crate) remembered: Vec<Remembered>,
    pub(crate) schedules: Vec<Repeated>,
    /// Name and time of occurrences, and the ids they had.
    pub(crate) made: Vec<(String, i64, JobId)>,
    pub(crate) handled: [bool; 4],
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
}

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

impl Oracle {
    pub(crate) fn new(retention: i64, in_flight: usize, ahead: i64) -> Oracle {
        Oracle {
            jobs: Vec::new(),
            remembered: Vec::new(),
            schedules: Vec::new(),
            made: Vec::new(),
            handled: [true; 4],
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

    pub(crate) fn known(&self, id: JobId) -> Known {
        if let Some(at) = self.find(id) {
            return if self.jobs[at].perhaps { Known::Perhaps } else { Known::Yes };
        }
        match self.remembered.iter().find(|remembered| remembered.id == id) {
            Some(remembered) if remembered.perhaps => Known::Perhaps,
            Some(_) => Known::Yes,
            None => Known::No,
        }
    }

    /// A job is inserted, whose key nobody has any more.
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
            self.ids.retain(|known| *known != id);
            self.ids.push(id);
        }
        self.jobs.push(Record {
            id,
            kind,
            due,
            key,
            named,
            plan,
            state: JobState::Pending,
            tries: 0,
            interruptions: 0,
            runs: 0,
            error: None,
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

    /// A job ends for good, at a time between these.
    pub(crate) fn end(&mut self, at: usize, since: (i64, i64)) {
        let job = self.jobs.remove(at);
        if let Some(id) = job.id.filter(|_| job.named) {
            self.remembered.push(Remembered { id, since, perhaps: false });
        }
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

    /// A run of the job starts.
    pub(crate) fn start(&mut self, at: usize) -> Outcome {
        let slack = self.slack();
        self.started += 1;
        let (wall, mono, jumped) = (self.wall, self.mono, self.jumped);
        let job = &self.jobs[at];
        ensure(job.state == JobState::Pending, || format!("started, and not pending: {job:?}"))?;
        ensure(self.handled[job.kind], || format!("started, and nobody handles it: {job:?}"))?;
        ensure(wall >= job.due * 1000, || format!("early by {}: {job:?}", job.due * 1000 - wall))?;
        let late = (wall - job.due * 1000).min(mono - job.since).min(mono - jumped);
        ensure(late <= slack, || format!("late by {late} us: {job:?}"))?;
        for other in &self.jobs {
            // Ids that were not made here have no order of insertion.
            let before = other.due < job.due
                || (other.due == job.due && other.order < job.order && !other.named && !job.named);
            let passed = other.kind == job.kind
                && other.state == JobState::Pending
                && before
                && !other.perhaps
                // What was interrupted may be passed over.
                && other.interruptions == 0
                && !other.doubtful
                && other.change < job.change;
            ensure(!passed, || format!("{job:?} started before {other:?}"))?;
        }
        let job = &mut self.jobs[at];
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

    /// The run ends. `None`: its payload does not decode.
    pub(crate) fn ended(&mut self, at: usize, ending: Option<Ending>) {
        let now = self.now();
        // A wait is not shortened by what is left of the millisecond in which the run ended.
        let waits_from = (self.wall + 999).div_euclid(1000);
        let (wait, times) = WAITS[self.jobs[at].kind];
        self.failed += u64::from(ending != Some(Ending::Done));
        let job = &mut self.jobs[at];
        if ending == Some(Ending::Done) || job.asked {
            return self.end_now(at);
        }
        job.tries += 1;
        job.runs += 1;
        let again = |wait| (job.tries <= times).then_some(wait);
        let (error, wait) = match ending {
            None => ("the payload does not decode: as planned", None),
            Some(Ending::FailsAfter(wait)) => ("fails later", again(wait as i64)),
            Some(Ending::Dies) => ("dies", None),
            Some(Ending::Panics) => ("panicked: as planned", again(wait)),
            Some(Ending::Fails | Ending::Done) => ("fails", again(wait)),
        };
        job.error = Some(error.to_owned());
        match wait {
            Some(wait) => {
                job.due = waits_from + wait;
                job.interruptions = 0;
                self.moved(at);
            }
            None => {
                self.died += 1;
                job.state = JobState::Dead;
                job.died = (now, now);
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
            if job.state == JobState::Pending && self.handled[job.kind] && !job.perhaps {
                let late = self.wall - job.due * 1000;
                let late = late.min(self.mono - job.since).min(self.mono - self.jumped);
                ensure(late <= slack, || format!("not started, {late} us late: {job:?}"))?;
            }
        }
        Ok(())
    }

    /// The clocks read this now. `jumped`: the wall clock was set, or nobody ran the jobs meanwhile.
    pub(crate) fn time_is(&mut self, wall: i64, mono: i64, jumped: bool) {
        if self.jobs.iter().any(|job| job.interruptions > 0) {
            self.suspected = mono;
        }
        if jumped && wall < self.wall {
            self.set_back = true;
        }
        let far_back = jumped && wall < self.wall - 999_000;
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
