//! The operations of a history, and what the jobs of a history do. All of it is data: a job carries
//! in its payload what its handler does, so a history replays from its text.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{InvalidInput, Job, Keep, Retry};

use crate::groups::GroupPlan;
use crate::new_job::Said;

/// The kinds, by their index: `STEADY` and `QUICK` are always handled, `LATE` only after some
/// restarts, and no payload of `BROKEN` decodes.
pub(crate) const NAMES: [&str; 4] = ["steady", "quick", "late", "broken"];
/// Its handler gets batches of [`BATCH`] jobs at most, of due jobs.
pub(crate) const QUICK: usize = 1;
pub(crate) const BATCH: usize = 3;
pub(crate) const LATE: usize = 2;
pub(crate) const BROKEN: usize = 3;

/// For how many milliseconds a failed job of each kind waits, and how often it is tried again.
pub(crate) const WAITS: [(i64, u32); 4] = [(1000, 2), (40, 6), (0, 1), (5, 3)];

pub(crate) fn retry(kind: usize) -> Retry {
    Retry::fixed(Duration::from_millis(WAITS[kind].0 as u64)).max_retries(WAITS[kind].1)
}

/// What the handler of a job does. Each of `acts` is done in every run; the n-th run ends as the
/// n-th of `ends` says, and every later one as the last of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Tells the job from every other one of the history.
    pub(crate) tag: u64,
    pub(crate) acts: Vec<Op>,
    pub(crate) ends: Vec<Ending>,
    /// The partition of the job, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<u8>,
}

impl Plan {
    /// Returns how the run with this number ends, counted from one.
    pub(crate) fn ending(&self, starts: usize) -> Ending {
        self.ends[starts.min(self.ends.len()) - 1]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ending {
    Done,
    Fails,
    FailsAfter(u64),
    /// Never the last of a plan: such a job would run for ever.
    Snoozes(u64),
    Dies,
    Panics,
    /// Ends in a transaction, on a file. If the transaction is not committed, the run fails or completes.
    InTransaction {
        commits: bool,
        crash: Crash,
        fails: bool,
    },
}

/// When a crash comes to a run that ends in a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Crash {
    Never,
    /// Before the transaction is committed or rolled back.
    Before,
    /// After the commit, and before the handler returns.
    After,
}

/// A job of the kind with this index.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task<const N: usize>(pub(crate) Plan);

impl<const N: usize> Job for Task<N> {
    const KIND: &'static str = NAMES[N];

    fn partition(&self) -> Option<String> {
        self.0.partition()
    }

    fn decode(payload: &[u8]) -> Result<Task<N>, Box<dyn std::error::Error + Send + Sync>> {
        if N == BROKEN {
            crate::world::decoding(payload);
            return Err("as planned".into());
        }
        Ok(serde_json::from_slice(payload)?)
    }
}

/// When a job is to run. The numbers are milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Time {
    After(u64),
    AfterMicros(u64),
    At(u64),
    /// By the wall clock, from its present on.
    Wall(i64),
    /// By the wall clock: this many days after 1970.
    Day(u64),
    Before1970,
    After9999,
    TooLong,
}

/// Says whether an argument was refused because no job can have its time.
pub(crate) fn is_a_time(error: &InvalidInput) -> bool {
    use InvalidInput::{After9999, Before1970, DelayTooLong};
    matches!(error, Before1970(_) | After9999(_) | DelayTooLong(_))
}

/// The last millisecond that a job can have.
const LAST: i64 = 253_402_300_799_999;

impl Time {
    /// Returns the millisecond that this is at a time, if a job can have it: what is to come rounds up,
    /// and what has come is at most the millisecond that has begun. `wall` is in microseconds.
    pub(crate) fn due(self, wall: i64) -> Option<i64> {
        let up = |micros: i64| {
            let whole = if micros > wall { micros + 999 } else { (micros + 999).min(wall) };
            whole.div_euclid(1000)
        };
        let due = match self {
            Time::After(ms) | Time::At(ms) => up(wall + ms as i64 * 1000),
            Time::AfterMicros(us) => up(wall + us as i64),
            Time::Wall(ms) => up((wall + ms * 1000).max(0)),
            Time::Day(day) => day as i64 * 86_400_000,
            Time::Before1970 | Time::After9999 | Time::TooLong => return None,
        };
        (due <= LAST).then_some(due)
    }

    pub(crate) fn when(self, wall: i64, now: Instant) -> When {
        match self {
            Time::After(ms) => When::after(Duration::from_millis(ms)),
            Time::AfterMicros(us) => When::after(Duration::from_micros(us)),
            Time::At(ms) => When::at(now + Duration::from_millis(ms)),
            Time::TooLong => When::after(Duration::from_secs(u64::MAX / 4)),
            Time::Wall(ms) => When::wall(system((wall + ms * 1000).max(0))),
            other => other.wall(wall),
        }
    }

    /// The same time by the wall clock alone: for a process whose own clock reads another time.
    pub(crate) fn wall(self, wall: i64) -> When {
        match self.due(wall) {
            Some(due) => When::wall(system(due * 1000)),
            None if matches!(self, Time::Before1970) => {
                When::wall(UNIX_EPOCH - Duration::from_millis(1))
            }
            None => When::wall(system((LAST + 1) * 1000)),
        }
    }
}

/// Returns the time of this many microseconds after 1970.
pub(crate) fn system(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros as u64)
}

/// Returns the microseconds since 1970.
pub(crate) fn micros(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).expect("no clock of a history is before 1970").as_micros()
        as i64
}

/// One of the jobs that there are or were.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Pick {
    Nth(usize),
    /// The job whose handler this is.
    Own,
    Latest,
    /// An id that no job has.
    Nobody,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Verb {
    Replace,
    KeepTime,
    IfAbsent,
}

/// A verb for every job of a list.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Every {
    Cancel,
    Reschedule(Time),
    Retry,
    Delete,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Policy {
    Skip,
    Once,
    Burst(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Stop {
    Shutdown,
    DropJobs,
    DropDriver,
    Crash,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Set {
    By(i64),
    Epoch,
    /// To the time that the clock would read if it had never been set.
    Right,
}

/// How many completed jobs of a kind are kept. The age is in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) last: u64,
    pub(crate) age: u64,
    pub(crate) bytes: u64,
}

impl Bounds {
    pub(crate) fn is_nothing(self) -> bool {
        self.last == 0 || self.age == 0 || self.bytes == 0
    }

    pub(crate) fn keep(self) -> Keep {
        let age = match self.age {
            u64::MAX => Duration::MAX,
            ms => Duration::from_millis(ms),
        };
        Keep::last(self.last).age(age).bytes(self.bytes)
    }
}

/// One step of a history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    Insert(usize, Time, Box<Plan>),
    /// With one of a few ids of the history's, or of a job that is there.
    InsertWithId(Result<usize, Pick>, usize, Time, Box<Plan>),
    /// A number of jobs, each a number of milliseconds after the one before; or one of their times is wrong.
    Batch {
        kind: usize,
        time: Time,
        jobs: usize,
        step: i64,
        wrong: bool,
        plan: Box<Plan>,
    },
    Key(usize, Verb, usize, Time, Box<Plan>),
    /// Key, quiet, at most, kind. The times are in milliseconds.
    Debounce(usize, u64, u64, usize, Box<Plan>),
    /// Key, period in milliseconds, kind.
    Throttle(usize, u64, usize, Box<Plan>),
    /// A key that is too long.
    LongKey(Box<Plan>),
    CancelKey(usize),
    RescheduleKey(usize, Time),
    Cancel(Pick),
    Reschedule(Pick, Time),
    Retry(Pick),
    Delete(Pick),
    /// The verb for every job of a kind, or of all.
    Bulk(Every, Option<usize>),
    Pages(Option<usize>, i64, i64),
    Schedule(usize, usize, u64, Policy, Box<Plan>),
    Unschedule(usize),
    /// Pauses a schedule, or resumes it.
    PauseSchedule(usize, bool),
    /// The head start of a kind, in milliseconds.
    HeadStart(usize, u64),
    /// How many jobs of a scope run at once, by the number of the scope.
    Limit(usize, Option<u32>),
    /// Pauses a kind, or the queue; or ends that.
    Pause(Option<usize>, bool),
    /// How many completed jobs of a kind are kept.
    Keep(usize, Bounds),
    /// A wait and a call of which the limit is over at once.
    Wait(Pick),
    Call(usize, Box<Plan>),
    /// The same in another process, while so many milliseconds pass.
    WaitAcross(Pick, u64),
    CallAcross(usize, u64, Box<Plan>),
    /// In a handler: the result has so many bytes, and may be one that only the first run sets.
    SetResult(usize, bool),
    /// In a handler: the number of the progress. The run stores each third one.
    SetProgress(u64),
    /// In a handler: a follow-up, perhaps under a key.
    Then(Option<(usize, Verb)>, usize, Time, Box<Plan>),
    /// In a handler, or after it: runs that have ended set progress.
    LateProgress,
    New(Said, usize, Time, Box<Plan>),
    Group(Box<GroupPlan>),
    /// Adds a member to one of the groups.
    AddToGroup(usize, Said, usize, Time, Box<Plan>),
    SealGroup(usize),
    CancelGroup(usize),
    /// In a transaction of the caller's, which is committed or not.
    InTransaction(Box<Op>, bool),
    /// By another process.
    Other(Box<Op>),
    /// In a handler: the file as it is now is what a crash leaves.
    CrashHere,
    /// In milliseconds.
    Advance(u64),
    AdvanceMicros(u64),
    SetWall(Set),
    /// How, after how many milliseconds it is started again, and whether `LATE` is handled then.
    Restart(Stop, u64, bool),
    /// The wall clock is set unnoticed, and then comes this step.
    Jump(Set, Box<Op>),
    /// What the next event calls.
    OnEvent(Vec<Op>),
}

pub(crate) const DAY: u64 = 86_400_000;
