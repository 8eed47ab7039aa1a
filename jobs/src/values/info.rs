//! What the store says about jobs: one job, counts, the answer of a cancel.

use std::time::SystemTime;

use super::id::JobId;
use super::job::{DecodeError, Job};

/// How long an answer of the store is to hold.
///
/// | level | `insert` returns | a crash of the process loses | a power cut loses |
/// | --- | --- | --- | --- |
/// | `Synced` | when the job is on stable storage | nothing | nothing |
/// | `Written` | when the system has it | nothing | the latest commits |
/// | `Buffered` | at once | what was not flushed | what was not flushed |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// An answer is given once it is on stable storage: one fsync for all that arrived during the
    /// fsync before.
    #[default]
    Synced,
    /// An answer is given once the operating system has it.
    Written,
    /// An insert returns at once. [`Client::flush`](crate::Client::flush) waits for what was
    /// inserted before. A cancel, an insert with an id or a key, and whatever else has an answer, waits as
    /// with `Written`.
    Buffered,
}

/// What a cancel found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Cancel {
    /// The job will never start.
    Cancelled,
    /// The job may have started. Its run was told ([`Run::is_cancelled`](crate::Run::is_cancelled)), and it is
    /// not tried again if it fails.
    Running,
    /// There is nothing to cancel: the job is done, dead, was cancelled before, or never was.
    Gone,
}

impl Cancel {
    /// Says whether the job will never start.
    #[must_use]
    pub fn is_cancelled(self) -> bool {
        self == Cancel::Cancelled
    }
}

/// What becomes of a job next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JobState {
    /// It waits for its time, for a free slot, or for a process that handles its kind.
    Pending,
    /// The process that runs the jobs of the file has claimed it, from up to 50 ms before its time on. Only
    /// that process knows whether its handler has started: to others it is neither pending nor running.
    Claimed,
    /// Its handler has started and not ended. On a server a job that another node has claimed is here too:
    /// it starts within 100 ms, and is given back if it has not started within a second.
    Running,
    /// It is not tried again. It stays until it is retried, deleted, or older than [`Builder::keep_dead`](crate::Builder::keep_dead).
    Dead,
}

/// A job as the store has it.
///
/// Serialized, it is what the command `tickwheel-jobs` prints with `--json`: `id`, `kind`, `state` (`pending`,
/// `running`, `dead`), `due`, `failures`, `attempt`, `interruptions`, `key`, `error`, `died`, and `payload`. Times are RFC 3339 in
/// UTC, `2026-11-22T10:00:00.000Z`, in `{:?}` too. `payload` is the job's own JSON; its objects are sorted by name, and a
/// number of more than 64 bits is rounded. If the payload is not JSON, `payload` is `null`, and `payload_text` or
/// `payload_hex` has it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// The name of its kind.
    pub kind: String,
    /// What becomes of it next.
    pub state: JobState,
    /// The time from which on it may run.
    pub due: SystemTime,
    /// How many of its runs have failed.
    pub failures: u32,
    /// How many attempts there were, the one under way included, as [`Run::attempt`](crate::Run::attempt)
    /// counts them: 0 before the first.
    pub attempt: u32,
    /// How many of its latest attempts, in a row, ended with their process.
    pub interruptions: u32,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Why it failed last, if it did.
    pub error: Option<String>,
    /// When it died, of a dead job.
    pub died: Option<SystemTime>,
    /// Its data, as [`Job::encode`] made it.
    pub payload: Vec<u8>,
}

impl JobState {
    /// Returns how many attempts there were of a job in this state, if the store has counted `attempts` that
    /// have ended.
    pub(crate) fn attempts(self, attempts: u32) -> u32 {
        match self {
            JobState::Pending | JobState::Dead => attempts,
            JobState::Claimed | JobState::Running => attempts.saturating_add(1),
        }
    }
}

impl JobInfo {
    /// Returns the job itself.
    ///
    /// # Errors
    ///
    /// If it is of another kind, or does not decode.
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
    /// Jobs that the process which runs the jobs of the file has claimed, as another process sees them.
    pub claimed: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that are not tried again.
    pub dead: u64,
    /// Schedules of repeated jobs.
    pub schedules: u64,
}

/// A schedule of a repeated job, as the store has it. Serialized, it has the fields `name`, `kind`, `rule` and
/// `next`, a time as that of a [`JobInfo`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// The name of the kind of its jobs.
    pub kind: String,
    /// Its rule, as text: "every 60000 ms", "cron Europe/Berlin 0 7 * * mon-fri".
    pub rule: String,
    /// When the next occurrence is due that is no job yet.
    pub next: SystemTime,
}
