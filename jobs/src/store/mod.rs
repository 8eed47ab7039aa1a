//! The store of jobs: the trait that each store implements, and its types.
//!
//! Ground rules:
//!
//! - A store applies a batch of operations and one claim as one commit: all of it, or nothing. It
//!   answers each operation, in order.
//! - The store alone knows where a job is, and which jobs are claimed. The dispatcher knows which of
//!   the claimed ones have started, so it releases a claim before it asks to cancel or to move a job
//!   that has not.
//! - A claim takes the earliest jobs of the kinds that are handled here, in the order of deadline,
//!   then of id. What is inserted or moved before the point up to which a store has read is found by
//!   the next claim: no job is written behind the read mark.
//! - No clock: the present is an argument. A store that several machines share has the one clock
//!   that counts, and says what is known of it.
//! - On such a store a claim is a lease. Whatever ends or extends one bears its fence, and is refused
//!   if another claim has been made since.

pub(crate) mod hurry;
pub(crate) mod claim;
pub(crate) mod new_job;
pub(crate) mod memory;
#[cfg(feature = "sqlite-unbundled")]
pub(crate) mod sqlite;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "redis")]
use crate::values::server_time::ServerTime;

use crate::values::error::{StoreError, Violation};
pub(crate) use crate::values::fence::Fence;
use crate::values::id::JobId;
use crate::values::info::{Cancel, Counts, JobInfo};
use crate::values::schedule::Schedule;
use crate::values::time::Millis;
pub(crate) use claim::{ClaimRequest, Claimed, MOST_INTERRUPTIONS};
pub(crate) use hurry::Hurry;
pub(crate) use new_job::{IfTaken, Inserted, NewJob};

/// The longest key and name, in bytes.
pub(crate) const NAME_BYTES: usize = 255;

/// The longest payload, in bytes.
pub(crate) const PAYLOAD_BYTES: usize = 64 << 20;

/// A place where jobs outlive the process.
pub(crate) trait Store: Send {
    /// Claims for these kinds from now on, and learns which jobs were claimed when the process
    /// before ended: each counts as interrupted. Only the one process that runs jobs calls it.
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError>;

    /// Applies all of it in one commit, or nothing.
    fn apply(&mut self, batch: &Batch<'_>) -> Result<Outcome, ApplyError>;

    /// Learns which of the kinds have handlers that take no thread: see [`ClaimRequest::blocking`].
    #[cfg(feature = "redis")]
    fn set_async_kinds(&mut self, _kinds: &[Arc<str>]) {}

    /// Returns what other processes have done to the store since the last look.
    fn poll(&mut self, now: Millis) -> Result<PollResult, StoreError>;

    /// Returns the clock that the store goes by, if it is not that of this process.
    #[cfg(feature = "redis")]
    fn server_time(&self) -> Option<Arc<ServerTime>> {
        None
    }

    /// Is told where to say that there may be something to do before the next look.
    #[cfg(feature = "redis")]
    fn listen(&mut self, _hints: Notify) {}

    /// Returns a sentence about the store that its operator should know, if there is one.
    #[cfg(feature = "redis")]
    fn warning(&self) -> Option<String> {
        None
    }

    /// Does the work that waits for an idle moment, which this one is for so long at most. Returns
    /// whether there may be more of it.
    fn maintain(&mut self, idle: Duration) -> Result<bool, StoreError>;

    /// Walks everything the slow way.
    fn check(&mut self) -> Result<(), Violation>;

    /// Compares what this process remembers of its claims with what is stored: the part of `check` that
    /// no other connection can do.
    fn check_claims(&mut self) -> Result<(), Violation> {
        Ok(())
    }

    /// Returns what the store has counted.
    fn stats(&self) -> StoreStats;

    /// Returns what ends the waits of this store early.
    fn hurry(&self) -> Hurry {
        Hurry::default()
    }

    /// Ends, with everything on stable storage.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// Where a store says that another process has done something.
#[cfg(feature = "redis")]
pub(crate) type Notify = Box<dyn Fn(Notification) + Send + Sync>;

/// What another process may have done.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notification {
    /// A job is due earlier than any was before.
    Due,
    /// There is a reason to look.
    Poll,
}

/// One commit.
pub(crate) struct Batch<'a> {
    /// Tells this batch from others. One that is applied again, because its answer was lost, has the
    /// number that it had.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no answer is lost here"))]
    pub(crate) number: u64,
    pub(crate) ops: &'a [Op],
    pub(crate) claim: Option<ClaimRequest>,
    /// The answers are on stable storage before they are given.
    #[cfg_attr(
        not(feature = "sqlite-unbundled"),
        expect(dead_code, reason = "memory has no disk")
    )]
    pub(crate) synced: bool,
    /// Somebody waits for an answer.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a server has replicas"))]
    pub(crate) awaited: bool,
    /// When the first of the callers stops waiting. The store waits no longer than this for a lock or
    /// for an answer; without it, as long as it does by itself.
    #[cfg_attr(
        not(any(feature = "sqlite-unbundled", feature = "redis")),
        expect(dead_code, reason = "memory waits for nothing")
    )]
    pub(crate) until: Option<Instant>,
    pub(crate) now: Millis,
}

/// What a commit did.
pub(crate) struct Outcome {
    pub(crate) answers: Vec<Answer>,
    /// In the order of deadline, then of id.
    pub(crate) claimed: Vec<Claimed>,
    /// A claim was made: the earliest deadline of a job that is not claimed, of a kind that is
    /// handled, and not a suspect that has to wait.
    pub(crate) next_due: Option<Millis>,
    /// A job that was interrupted before had to wait for another such job.
    pub(crate) suspects_wait: bool,
    /// What could not be read, and was passed over.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Something in the store that this version cannot read: a schedule, or a job.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    /// Which one: `schedule "nightly"`, or `job` with its id.
    pub(crate) what: String,
    /// What is wrong with it.
    pub(crate) error: StoreError,
}

/// A commit that failed.
#[derive(Clone, Debug)]
pub(crate) struct ApplyError {
    pub(crate) error: StoreError,
    /// The commit itself failed, so it may be in the store all the same.
    pub(crate) unknown: bool,
    /// The same batch may be applied again until it is answered: what has taken effect does not do so
    /// twice, and has the answer that was lost.
    pub(crate) again: bool,
}

/// What other processes did.
#[derive(Default, Debug)]
pub(crate) struct PollResult {
    /// Something has changed: jobs may be due that the dispatcher does not know of.
    pub(crate) changed: bool,
    /// Cancels of claimed jobs that were asked for.
    pub(crate) cancel_requested: Vec<JobId>,
}

/// What a store counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct StoreStats {
    pub(crate) commits: u64,
    pub(crate) syncs: u64,
    pub(crate) wal_bytes: u64,
}

/// One change, or one question.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Answer::Inserted.
    Insert(NewJob),
    /// All or none. Answer::InsertedMany.
    InsertMany(Vec<NewJob>),
    /// A claimed job is asked to stop. Answer::Cancelled.
    Cancel(JobId),
    /// Of the pending job with the key. Answer::Changed.
    CancelKey(String),
    /// Of a job that is not claimed. Answer::Changed.
    Reschedule(JobId, Millis),
    /// Answer::Changed.
    RescheduleKey(String, Millis),
    /// A dead job becomes pending. Answer::Changed, or Answer::Refused if another job has its key.
    Retry(JobId, Millis),
    /// A dead job is deleted. Answer::Changed.
    Delete(JobId),
    /// Answer::Changed: whether the schedule is new, or differs from the one of this name.
    PutSchedule(NewSchedule),
    /// Answer::Changed.
    DropSchedule(String),
    /// The occurrences of a schedule become jobs, and `next` is the one that follows; without one,
    /// the schedule ends. Nothing happens if the schedule has moved on already. Answer::Changed.
    Occur { name: String, expected: Millis, jobs: Vec<NewJob>, next: Option<Millis> },
    /// A claimed job has ended. Answer::Done, Answer::Lost with its id if the claim is another's, or
    /// Answer::Cancelled if a cancel asked for elsewhere has made the job gone, whatever its end says.
    Finish(Finish),
    /// A claimed job is claimed no more, as if it had never been. Answer::Done.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no claim is a lease here"))]
    Release(JobId, Fence),
    /// The leases of these claims begin anew. Answer::Lost.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no claim is a lease here"))]
    Extend(Vec<(JobId, Fence)>),
    /// Deletes jobs that died before this, and ids that were remembered before this. Answer::Changed:
    /// whether there may be more.
    Purge(Millis),
    /// Everything before is on stable storage once this is answered. Answer::Done.
    Flush,
    /// Answer::Info.
    Get(JobId),
    /// Answer::Info: of the job with the key.
    GetKey(String),
    /// Answer::Page.
    Page(PageRequest),
    /// Answer::Page: all claimed jobs.
    Claimed,
    /// Answer::Counts: `running` counts the claimed jobs, `pending` the others.
    Counts,
    /// Answer::Kinds: each with its number of jobs that are not dead.
    Kinds,
    /// Answer::Schedules.
    Schedules,
}

/// The answer to an [`Op`].
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Inserted(Inserted),
    /// The jobs that were not inserted because others have their keys and keep them: the place of each in
    /// the list, and the job that has its key.
    InsertedMany(Vec<(usize, JobId)>),
    Cancelled(Cancel),
    Changed(bool),
    Done,
    /// The store has no room for it, or does not take it for another reason. The rest of the batch is
    /// as it should be.
    Refused(StoreError),
    /// The store failed in the midst of it, so it may be done or not. The rest of the batch is as it should
    /// be.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "all of it, or nothing"))]
    Unsure(StoreError),
    /// Claims that are not held any more.
    Lost(Vec<JobId>),
    Info(Option<JobInfo>),
    Page(Page),
    Counts(Counts),
    Kinds(Vec<(String, u64)>),
    Schedules(Vec<StoredSchedule>),
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    pub(crate) id: JobId,
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "nobody else has claims"))]
    pub(crate) fence: Fence,
    pub(crate) end: End,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The job is done, or was cancelled while it ran.
    Completed,
    /// The job failed, and is due again.
    Retry { due: Millis, error: String },
    /// The job was put off: it is due again, and nothing else of it changes but that it was not
    /// interrupted last.
    Snoozed { due: Millis },
    /// The job is dead. It counts as a failure.
    Dead { error: String },
}

/// A schedule to store.
#[derive(Clone, Debug)]
pub(crate) struct NewSchedule {
    pub(crate) name: String,
    pub(crate) kind: Arc<str>,
    pub(crate) schedule: Schedule,
    pub(crate) payload: Vec<u8>,
    /// The first occurrence, if the schedule is new or differs from the one that is stored.
    pub(crate) first: Millis,
}

/// A schedule as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredSchedule {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) schedule: Schedule,
    /// The rule as text: it may be one that this version does not know.
    pub(crate) rule_text: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) next: Millis,
}

/// Which jobs to list.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    pub(crate) set: JobSet,
    pub(crate) kind: Option<String>,
    pub(crate) from: Millis,
    pub(crate) to: Millis,
    pub(crate) after: Option<PageKey>,
    pub(crate) limit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobSet {
    /// Claimed ones included, in the order of deadline, then of id.
    Alive,
    /// In the order of id.
    Dead,
}

/// Where a page ended.
pub(crate) type PageKey = (Millis, JobId);

#[derive(Clone, Default, Debug)]
pub(crate) struct Page {
    pub(crate) jobs: Vec<JobInfo>,
    /// Where the next page begins: none after the last one.
    pub(crate) next: Option<PageKey>,
}

impl Op {
    /// Says whether the operation only asks.
    pub(crate) fn is_question(&self) -> bool {
        matches!(
            self,
            Op::Get(_)
                | Op::GetKey(_)
                | Op::Page(_)
                | Op::Claimed
                | Op::Counts
                | Op::Kinds
                | Op::Schedules
        )
    }
}

impl From<StoreError> for ApplyError {
    /// An error before the commit: nothing has happened.
    fn from(error: StoreError) -> ApplyError {
        ApplyError { error, unknown: false, again: false }
    }
}
