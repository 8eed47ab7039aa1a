//! The store's answers about jobs: one job, counts, schedules, the result of a cancel.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::attempt_errors::AttemptError;
use super::group::GroupId;
use super::id::JobId;
use super::error::DecodeError;
use super::job::Job;
use super::time::Millis;

/// Says which failures cannot undo a change, once the call has returned. It is for jobs in a file. On a server, the
/// persistence of the server decides. Jobs in memory end with their process.
///
/// | level | `insert` returns | a crash of the process loses | a power cut loses |
/// | --- | --- | --- | --- |
/// | `Synced` | when the job is on stable storage | nothing | nothing |
/// | `Written` | when the system has it | nothing | the latest commits |
/// | `Buffered` | at once | what was not flushed | what was not flushed |
///
/// A shutdown commits the inserts that came before it. A buffered insert that another
/// thread makes at that moment may come too late. It is lost then, and
/// [`Event::InsertsDropped`](crate::Event::InsertsDropped) names it. So is one that a store cannot take at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// A call returns once its change is on stable storage. Calls that arrive during one fsync share the next
    /// one.
    #[default]
    Synced,
    /// A call returns once the operating system has its change.
    Written,
    /// An insert does not wait for the commit, unless thousands of commands wait. (In a process that runs no jobs, the
    /// thread that calls makes the commit.) [`Client::flush`](crate::Client::flush) waits for the inserts before it.
    /// Every call that has a result (a cancel, an insert with an id or a key) waits as with `Written`.
    Buffered,
}

/// The result of a cancel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Cancel {
    /// The job will never start.
    Cancelled,
    /// The job may have started. Its run is cancelled ([`Run::is_cancelled`](crate::Run::is_cancelled)), and
    /// the job is not retried if the run fails.
    Running,
    /// There is nothing to cancel: the job is completed, dead, cancelled already, or never existed.
    Gone,
}

impl Cancel {
    /// Says whether the job will never start.
    #[must_use]
    pub fn is_cancelled(self) -> bool {
        self == Cancel::Cancelled
    }
}

/// The state of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum JobState {
    /// It waits for its due time, for a free slot, or for a process that handles its kind.
    Pending,
    /// Another process has claimed it: on a file at most 50 ms before its due time; on a server once it was due,
    /// and it goes back if it has not started after a second. Only that process knows whether the handler has
    /// started, so others see neither `Pending` nor `Running`.
    Claimed,
    /// Its handler has started and not ended. Only the process that runs it sees this state.
    Running,
    /// It is not retried. It stays until it is retried by hand, deleted, or older than
    /// [`Builder::keep_dead`](crate::Builder::keep_dead).
    Dead,
    /// It has completed, and its kind keeps such jobs, or a caller waits for its end.
    Completed,
    /// It was cancelled, and a caller waits for its end.
    Cancelled,
}

/// A job as it is in the store.
///
/// Its serialized form is the output of the command `tickwheel-jobs` with `--json`: `id`, `kind`, `state`
/// (`pending`, `claimed`, `running`, `dead`, `completed`, `cancelled`), `due`, `failures`, `attempt`,
/// `interruptions`, `key`, `error`, `errors`, `headers`, `claimed`, `lease_ends`, `died`, `ended`, `took_ms`, `result`,
/// `progress`, and `payload`. Times are RFC 3339 in UTC, `2026-11-22T10:00:00.000Z`, in `{:?}` too. `payload` is the job's own JSON;
/// the members of its objects are sorted by name, and a number of more than 64 bits is rounded. If the payload is
/// not JSON, `payload` is `null`, and `payload_text` or `payload_hex` has the payload. A job with a partition has
/// `partition` too, and a member of a group has `group`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// Its due time: it does not start before.
    pub due: SystemTime,
    /// The number of its runs that have failed.
    pub failures: u32,
    /// The number of its attempts, the one under way included, as [`Run::attempt`](crate::Run::attempt) counts
    /// them: 0 before the first.
    pub attempt: u32,
    /// The number of its latest attempts, in a row, that ended with their process.
    pub interruptions: u32,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Its partition, if it has one: see [`Job::partition`].
    pub partition: Option<String>,
    /// The group of which it is a member: see [`Client::group`](crate::Client::group).
    pub group: Option<GroupId>,
    /// The error of its last failure, if it has failed.
    pub error: Option<String>,
    /// Its last five failed attempts, the newest first.
    pub errors: Vec<AttemptError>,
    /// Its headers: see [`NewJob::header`](crate::NewJob::header).
    pub headers: BTreeMap<String, String>,
    /// When a process claimed it, if it is claimed or runs, by the clock of that process, or of the server: see
    /// [`JobState::Claimed`] for how long before its handler starts that may be.
    pub claimed: Option<SystemTime>,
    /// When its claim ends unless its process renews it, if it is claimed or runs, and is on a server: see
    /// [`Builder::lease`](crate::Builder::lease).
    pub lease_ends: Option<SystemTime>,
    /// When it died, if it is dead.
    pub died: Option<SystemTime>,
    /// When it ended, if it is dead, or if it is kept.
    pub ended: Option<SystemTime>,
    /// How long its last run took, in whole milliseconds, if it has ended.
    pub took: Option<Duration>,
    /// The JSON of its result, if it is kept and its run has set one: see
    /// [`Run::set_result`](crate::Run::set_result).
    pub result: Option<Vec<u8>>,
    /// The JSON of its progress, if it runs and its run has set one: see
    /// [`Run::set_progress`](crate::Run::set_progress).
    pub progress: Option<Vec<u8>>,
    /// Its data, as [`Job::encode`] made it.
    pub payload: Vec<u8>,
}

impl JobState {
    /// Returns the number of attempts of a job in this state. `attempts` are those that have ended, as the
    /// store counts them.
    pub(crate) fn attempts(self, attempts: u32) -> u32 {
        match self {
            JobState::Pending | JobState::Dead | JobState::Cancelled => attempts,
            JobState::Claimed | JobState::Running | JobState::Completed => {
                attempts.saturating_add(1)
            }
        }
    }
}

impl JobInfo {
    /// Returns when the job was inserted, by the clock of the process that inserted it. Its id has the time. `None` if
    /// the caller chose the id, if the job is an occurrence of a schedule, or if it was due more than 49 days after its
    /// insert.
    #[must_use]
    pub fn inserted(&self) -> Option<SystemTime> {
        let inserted = self.id.inserted(&self.kind, Millis::present(self.due));
        inserted.map(Millis::to_system)
    }

    /// Returns how many bytes a list has read for it: of its payload, result, progress, errors and headers.
    pub(crate) fn bytes(&self) -> usize {
        let part = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        let errors: usize = self.errors.iter().map(|error| error.error.len()).sum();
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.payload.len() + part(&self.result) + part(&self.progress) + errors + headers
    }

    /// Returns the job.
    ///
    /// # Errors
    ///
    /// If the job is of another kind, or its payload does not decode.
    pub fn job<J: Job>(&self) -> Result<J, DecodeError> {
        if self.kind != J::KIND {
            return Err(DecodeError::new(format_args!(
                "the job is of the kind {:?}, not {:?}",
                self.kind,
                J::KIND
            )));
        }
        J::decode(&self.payload)
    }
}

/// How many jobs there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs that wait, of every kind, those without a handler included.
    pub pending: u64,
    /// Jobs that other processes have claimed: see [`JobState::Claimed`].
    pub claimed: u64,
    /// Jobs that run in this process.
    pub running: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Schedules.
    pub schedules: u64,
    /// Pending jobs whose due time has passed. They wait for a free slot, or no process handles their kind.
    pub overdue: Overdue,
    /// How long ago the first of them was due.
    pub oldest_overdue: Option<Duration>,
}

/// How many jobs are overdue: see [`Counts::overdue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Overdue {
    /// How many there are, or at least how many. No store looks at more than 10,000 jobs to answer.
    pub count: u64,
    /// There are no more than `count`. Below 10,000 a count is exact.
    pub is_exact: bool,
}

impl Default for Overdue {
    fn default() -> Overdue {
        Overdue { count: 0, is_exact: true }
    }
}

impl std::fmt::Display for Overdue {
    /// Prints `7`, or `10000 or more`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let more = if self.is_exact { "" } else { " or more" };
        write!(f, "{}{more}", self.count)
    }
}

/// Dead jobs of one kind whose errors have the same first line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct DeadByError {
    /// Their kind.
    pub kind: String,
    /// The first line of the error of their last failure.
    pub error: String,
    /// How many there are.
    pub jobs: u64,
}

/// A schedule as it is in the store. Its serialized form has the fields `name`, `kind`, `rule`, `next`, a time as in
/// a [`JobInfo`], and `is_paused`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// Its rule, as text: "every 60000 ms", "cron Europe/Berlin 0 7 * * mon-fri".
    pub rule: String,
    /// The due time of the next occurrence that is not a job yet. If the schedule is paused, this occurrence is made
    /// only if the schedule is resumed before its time.
    pub next: SystemTime,
    /// It is paused: see [`Client::pause_schedule`](crate::Client::pause_schedule).
    pub is_paused: bool,
}
