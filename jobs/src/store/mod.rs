//! The store of jobs: the trait that each store implements, with its operations, its answers, and what they carry.
//!
//! Ground rules:
//!
//! - A store applies a batch of operations and one claim as one commit, all or nothing, and answers each operation,
//!   in order. Redis alone has no such commit: there each operation may fail by itself ([`Answer::Refused`],
//!   [`Answer::Unsure`]).
//! - Only the store knows where a job is and which jobs are claimed. Only the dispatcher knows which claimed jobs
//!   have started. Before it cancels or reschedules a claimed job that has not started, it releases the claim.
//! - A claim takes the first jobs of the handled kinds, by rank, then by id: without head starts, by due time. A
//!   write before a scan cursor moves the cursor back, so the next claim sees the job.
//! - A store reads no clock: the present is an argument. If several machines share a store, the clock of its server
//!   counts, and `Store::server_time` returns that clock.
//! - On such a store a claim is a lease. Each operation that ends or extends the claim carries its fence, and does
//!   nothing once another claim has replaced it or its lease has been reclaimed.
//! - The modules above `memory` make up the types of this trait and name nothing of this file.

// Every feature together shows what no store reads.
#![cfg_attr(
    not(all(feature = "sqlite-unbundled", feature = "redis")),
    allow(dead_code, reason = "each store reads the part of a batch that it needs")
)]

pub(crate) mod ended;
pub(crate) mod claim;
pub(crate) mod scopes;
mod turns;
pub(crate) mod lanes;
pub(crate) mod history;
pub(crate) mod new_job;
pub(crate) mod group;
pub(crate) mod memory;
#[cfg(feature = "sqlite-unbundled")]
pub(crate) mod sqlite;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(test)]
mod differential;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(crate) use claim::{ClaimRequest, Claimed};
#[cfg(feature = "redis")]
pub(crate) use ended::killed;
pub(crate) use ended::{
    End, Ending, MOST_INTERRUPTIONS, TRIM_LOOKS, TRIMMED, Tries, is_waited_for, kept_until,
};
pub(crate) use group::{NewGroup, Tally};
pub(crate) use history::{HistoryPart, RunBuckets};
pub(crate) use new_job::{IfTaken, Inserted, NewJob, NewSchedule, StoredSchedule};

use crate::values::error::{StoreError, Violation};
use crate::values::group::{GroupId, GroupInfo};
pub(crate) use crate::values::id::Fence;
use crate::values::id::JobId;
use crate::values::info::{Cancel, Counts, DeadByError, JobInfo, MemberResult};
use crate::values::limit::Tokens;
use crate::values::node::NodeInfo;
#[cfg(feature = "redis")]
use crate::values::server_time::ServerTime;
use crate::values::setting::Keep;
use crate::values::time::Millis;

/// The longest key and name, in bytes.
pub(crate) const NAME_BYTES: usize = 255;

/// The longest payload, in bytes.
pub(crate) const PAYLOAD_BYTES: usize = 64 << 20;

/// The most jobs of an [`Op::Each`]: as many as a script of Redis handles in one call.
pub(crate) const MOST_EACH: usize = 256;

/// A store of jobs. In every store but memory the jobs outlive the process.
pub(crate) trait Store: Send {
    /// Makes this process one that runs jobs, of these kinds. In memory and on SQLite, the jobs that were claimed
    /// when the previous process ended count as interrupted. On Redis, a job counts as interrupted when its lease
    /// expires: see `poll`.
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError>;

    /// Applies the batch as one commit.
    fn apply(&mut self, batch: &Batch<'_>) -> Result<BatchOutcome, ApplyError>;

    /// Sets the kinds whose jobs take no thread each: see [`ClaimRequest::blocking`].
    #[cfg(feature = "redis")]
    fn set_kinds_with_rooms(&mut self, _kinds: &[Arc<str>]) {}

    /// Returns what other processes have changed since the last poll. On Redis it also reclaims the jobs whose leases
    /// have expired.
    fn poll(&mut self, now: Millis) -> Result<PollResult, StoreError>;

    /// Returns the clock of the store's server, if that one counts and not this process's.
    #[cfg(feature = "redis")]
    fn server_time(&self) -> Option<Arc<ServerTime>> {
        None
    }

    /// Sets the function that the store calls with each notification of another process.
    #[cfg(feature = "redis")]
    fn listen(&mut self, _hints: Notify) {}

    /// Returns a sentence about the store that its operator should know, if there is one.
    #[cfg(feature = "redis")]
    fn warning(&self) -> Option<String> {
        None
    }

    /// Does postponed work. `idle`: how long the dispatcher expects to have nothing else to do. Returns whether more
    /// such work may be left.
    fn maintain(&mut self, idle: Duration) -> Result<bool, StoreError>;

    /// Reads the whole store and checks its invariants.
    fn check(&mut self) -> Result<(), Violation>;

    /// Checks the claims that this process remembers against the store: the part of `check` that no other connection
    /// can do. By default it checks nothing.
    fn check_claims(&mut self) -> Result<(), Violation> {
        Ok(())
    }

    fn stats(&self) -> StoreStats;

    /// Returns the handle with which a shutdown ends the waits of this store early.
    fn hurry(&self) -> Hurry {
        Hurry::default()
    }

    /// Closes the store, with everything on stable storage. Takes this process off the list of nodes, unless that has
    /// to wait.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// The function that a store calls with each notification of another process.
#[cfg(feature = "redis")]
pub(crate) type Notify = Box<dyn Fn(Notification) + Send + Sync>;

/// A notification of another process.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notification {
    /// A job is due earlier than any was before.
    Due,
    /// A cancel was requested, or a schedule changed: poll now.
    Poll,
}

/// One commit.
pub(crate) struct Batch<'a> {
    /// Identifies the batch. A batch that is sent again, because its answer was lost, keeps its number.
    pub(crate) number: u64,
    pub(crate) ops: &'a [Op],
    pub(crate) claim: Option<ClaimRequest>,
    /// The changes must be on stable storage before `apply` returns.
    pub(crate) synced: bool,
    /// A caller waits for an answer.
    pub(crate) awaited: bool,
    /// When the first of the callers stops waiting. The store waits no longer than this for a lock or for an answer.
    /// Without it, the store's own limits hold.
    pub(crate) until: Option<Instant>,
    pub(crate) now: Millis,
}

/// What a commit did.
#[derive(Default)]
pub(crate) struct BatchOutcome {
    pub(crate) answers: Vec<Answer>,
    /// In any order.
    pub(crate) claimed: Vec<Claimed>,
    /// The earliest due time of an unclaimed job that this process could claim. Its kind is handled and has room, and
    /// the job does not have to wait as a suspect. Redis tells it only if the batch had a claim.
    pub(crate) next_due: Option<Millis>,
    /// The claim passed over a suspect ([`ClaimRequest`]), which has to wait for other suspects.
    pub(crate) suspects_wait: bool,
    /// The jobs and schedules that could not be read, and were passed over.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A schedule or a job in the store that this version cannot read.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    /// Its name: `schedule "nightly"`, or `job` with its id.
    pub(crate) what: String,
    pub(crate) error: StoreError,
}

/// A commit that failed.
#[derive(Clone, Debug)]
pub(crate) struct ApplyError {
    pub(crate) error: StoreError,
    /// The commit may have taken effect all the same.
    pub(crate) unknown: bool,
    /// The same batch may be applied again until it is answered. An operation that took effect before does not take
    /// effect twice: it returns the answer that was lost.
    pub(crate) again: bool,
}

/// What other processes have changed.
#[derive(Default, Debug)]
pub(crate) struct PollResult {
    /// SQLite: the file has changed, so jobs may be due that the dispatcher does not know of. Redis: the schedules or
    /// the settings have changed.
    pub(crate) changed: bool,
    /// Claimed jobs of this process whose cancel was requested.
    pub(crate) cancel_requested: Vec<JobId>,
}

/// The counters of a store.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct StoreStats {
    pub(crate) commits: u64,
    pub(crate) syncs: u64,
    /// Claims that this process found without the process that had made them.
    pub(crate) interruptions: u64,
}

/// One change, or one question.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Answer::Inserted.
    Insert(NewJob),
    /// All or none; but on Redis, more than 256 jobs may be inserted in part: `StoreError::Incomplete`.
    /// Answer::InsertedMany.
    InsertMany(Vec<NewJob>),
    /// Inserts a group with its members: all, or nothing. A member that another job keeps out, by its key or its id, is
    /// none. Answer::InsertedMany, or Answer::Refused with a `GroupError`.
    InsertGroup(Box<NewGroup>),
    /// Adds members to a group that is not sealed. Answers as above.
    AddToGroup(GroupId, Vec<NewJob>),
    /// Seals a group. Answer::Changed: it was not sealed before; or Answer::Refused.
    SealGroup(GroupId),
    /// Seals a group, and marks it as cancelled. The caller cancels its open members. Answer::Changed, or
    /// Answer::Refused.
    CancelGroup(GroupId),
    /// Cancels a job. If it is claimed, the cancel is requested of its owner. Answer::Cancelled.
    Cancel(JobId),
    /// Cancels the pending job with the key. Answer::Changed.
    CancelKey(String),
    /// Gives a job that is not claimed another due time. Answer::Changed.
    Reschedule(JobId, Millis),
    /// Does the same to the pending job with the key. Answer::Changed.
    RescheduleKey(String, Millis),
    /// Makes a dead job pending. Answer::Changed, or Answer::Refused if another job has its key.
    Retry(JobId, Millis),
    /// Deletes a job that is dead, or that is kept. Answer::Changed.
    Delete(JobId),
    /// At most [`MOST_EACH`] cancels, by id or by key, or reschedules, or retries, or deletes of single jobs.
    /// Answer::Each: one answer for each of them. On Redis they are one call of a script.
    Each(Vec<Op>),
    /// Answer::Changed: whether the schedule is new, or differs from the one of this name.
    PutSchedule(NewSchedule),
    /// Also ends its pause. Answer::Changed.
    DropSchedule(String),
    /// Pauses a schedule, and notes when: see `values/setting.rs`. Answer::Changed: `false` if there is none.
    PauseSchedule(String, Millis),
    /// Ends the pause of a schedule, and sets its next occurrence to `next`; without `next`, the schedule ends. Does
    /// nothing if it is not paused, or its next occurrence is not `expected`. Answer::Changed.
    ResumeSchedule { name: String, expected: Millis, next: Option<Millis> },
    /// Sets or removes a setting of the queue: see `values/setting.rs`. Answer::Changed.
    PutSetting { name: String, value: Option<String> },
    /// Sets or removes a setting whose value is `expected`. Answer::Changed: `false` if it has another value, which
    /// stays. Also `true` if it has the new value already, as when the operation comes again.
    ReplaceSetting { name: String, expected: Option<String>, value: Option<String> },
    /// Sets a setting that is a time, unless it is a later one already. Answer::Changed.
    Hold { name: String, until: Millis },
    /// Notes that this node is there: its id, and what is known of it. Answer::Done.
    PutNode { node: String },
    /// Sets the progress of a run. The end of its claim moves it to the job, unless the job has completed or was
    /// cancelled. Answer::Changed: `false` if the claim has ended.
    PutProgress { id: JobId, fence: Fence, value: Vec<u8> },
    /// Inserts occurrences of a schedule as jobs, and sets its next occurrence to `next`; without `next`, the schedule
    /// ends. Answer::InsertedMany: the occurrences that were not inserted, because the schedule is without overlap and
    /// an earlier one has its key. Does nothing if its next occurrence is not `expected`: Answer::Changed(false).
    Occur { name: String, expected: Millis, jobs: Vec<NewJob>, next: Option<Millis> },
    /// Ends the run of a claimed job. If a cancel of the job was requested, the job is deleted, with any `end`. If
    /// the job has completed, its follow-ups are inserted: Answer::InsertedMany, if there are any. If the claim is no
    /// longer held: Answer::ClaimsLost with the id of the job. If a transaction of the caller has ended the run
    /// (SQLite), only the claim ends: Answer::EndedBefore. If a cancel was requested and the job has not completed:
    /// Answer::Cancelled. Else Answer::Done.
    Finish(Finish),
    /// Gives a claim back, as if it had never been made. Answer::Done, or Answer::EndedBefore as above.
    /// `interrupted`: a run was under way, which the history counts.
    Release { id: JobId, fence: Fence, interrupted: bool },
    /// Renews the leases of these claims. Answer::ClaimsLost.
    Extend(Vec<(JobId, Fence)>),
    /// Deletes some jobs that have ended, and some remembered ids, whose time is over. Answer::Changed: whether more
    /// may be left.
    Purge,
    /// Puts every earlier commit on stable storage (SQLite). Answer::Done.
    Flush,
    /// Answer::Info.
    Get(JobId),
    /// Answer::Info of the job with the key.
    GetKey(String),
    /// Answer::Page.
    Page(PageRequest),
    /// Answer::Page: all claimed jobs.
    Claimed,
    /// Answer::Counts: `running` counts the claimed jobs, `pending` the unclaimed ones.
    Counts,
    /// Answer::Kinds: each kind with its number of jobs that are not dead.
    Kinds,
    /// Answer::Gauges: each kind with its jobs by state, as the store sees them.
    Gauges,
    /// Answer::DeadByError: the dead jobs by kind and first line of their error, those with the most jobs first.
    DeadByError(usize),
    /// Answer::Schedules.
    Schedules,
    /// Answer::Settings: names and values.
    Settings,
    /// The tokens of scopes, by the names of their limits: see `values/limit.rs`. Answer::Tokens: in their order.
    Tokens(Vec<String>),
    /// Answer::Nodes.
    Nodes,
    /// Answer::Group.
    Group(GroupId),
    /// Answer::Groups: at most this many groups. The group that was made last comes first.
    Groups(usize),
    /// Answer::Members: the first open members of a group behind this id, at most [`MOST_EACH`].
    Members(GroupId, Option<JobId>),
    /// Answer::Results: a page of the results of a group behind this member, if it keeps results.
    Results(GroupId, Option<JobId>),
    /// Answer::History: what began from the first time on and before the second one, of one kind or of all.
    History { kind: Option<String>, from: Millis, to: Millis },
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Inserted(Inserted),
    /// The jobs that were not inserted because other jobs keep their keys: the index of each in the list, and the id
    /// of the job that has its key.
    InsertedMany(Vec<(usize, JobId)>),
    Cancelled(Cancel),
    Changed(bool),
    Each(Vec<Answer>),
    Done,
    /// The operation was not done: the store is full, or has another reason. The other operations of the batch have
    /// their own answers.
    Refused(StoreError),
    /// The operation may be done or not, or done in part, because the store failed during it. The other operations of
    /// the batch have their own answers.
    Unsure(StoreError),
    /// A transaction of the caller has ended the run before (SQLite).
    EndedBefore,
    /// The claims that are no longer held.
    ClaimsLost(Vec<JobId>),
    Info(Option<Box<JobInfo>>),
    Page(Page),
    Counts(Counts),
    Kinds(Vec<(String, u64)>),
    Gauges(Vec<KindGauges>),
    DeadByError(Vec<DeadByError>),
    Schedules(Vec<StoredSchedule>),
    Settings(Vec<(String, String)>),
    Tokens(Vec<Option<Tokens>>),
    Nodes(Vec<NodeInfo>),
    Group(Option<Box<GroupInfo>>),
    Groups(Vec<GroupInfo>),
    Members(Vec<JobId>),
    Results(Option<Vec<MemberResult>>),
    History(Vec<HistoryPart>),
}

impl Op {
    /// Returns the jobs that the operation inserts, unless other jobs keep them out.
    pub(crate) fn jobs(&self) -> &[NewJob] {
        match self {
            Op::Insert(job) => core::slice::from_ref(job),
            Op::InsertMany(jobs) | Op::AddToGroup(_, jobs) | Op::Occur { jobs, .. } => jobs,
            Op::InsertGroup(group) => &group.members,
            Op::Finish(Finish { then: Some(jobs), .. }) => jobs,
            _ => &[],
        }
    }

    /// Says whether the operation changes nothing.
    pub(crate) fn is_question(&self) -> bool {
        matches!(
            self,
            Op::Get(_)
                | Op::GetKey(_)
                | Op::Page(_)
                | Op::Claimed
                | Op::Counts
                | Op::Kinds
                | Op::Gauges
                | Op::DeadByError(_)
                | Op::Schedules
                | Op::Settings
                | Op::Tokens(_)
                | Op::Nodes
                | Op::Group(_)
                | Op::Groups(_)
                | Op::Members(..)
                | Op::Results(..)
                | Op::History { .. }
        )
    }
}

impl From<StoreError> for ApplyError {
    /// Makes an error from before the commit: nothing has changed.
    fn from(error: StoreError) -> ApplyError {
        ApplyError { error, unknown: false, again: false }
    }
}

/// The time at which the waits of a store end. The shutdown and the store share it.
#[derive(Clone, Default)]
pub(crate) struct Hurry(Arc<OnceLock<Instant>>);

impl Hurry {
    /// Lets every wait end at that time, including one that has begun. A second call has no effect.
    pub(crate) fn by(&self, time: Instant) {
        let _ = self.0.set(time);
    }

    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.get().is_some_and(|time| *time <= now)
    }
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

impl PageRequest {
    /// Says whether a job that is due at this time belongs to a page in the order of due time.
    pub(crate) fn has_due(&self, due: Millis, id: JobId, kind: &str) -> bool {
        (self.from..=self.to).contains(&due)
            && self.after.is_none_or(|after| (due, id) > after)
            && self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobSet {
    /// Pending and claimed jobs, in the order of due time, then of id.
    Alive,
    /// Claimed jobs, in the same order.
    Claimed,
    /// Jobs that ended in this way, or in any, and that are kept: the latest end first.
    Ended(Option<Ending>),
}

impl JobSet {
    /// Says whether the jobs that ended so are in the set.
    pub(crate) fn has(self, ending: Ending) -> bool {
        matches!(self, JobSet::Ended(only) if only.is_none_or(|only| only == ending))
    }

    /// Returns the endings whose lists have jobs of the set.
    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn lists(self) -> impl Iterator<Item = Ending> {
        let has = move |list: &Ending| {
            Ending::ALL.into_iter().any(|ending| ending.list() == *list && self.has(ending))
        };
        Ending::ALL.into_iter().filter(has)
    }
}

/// The position of the last job of a page: its due time or the time of its end, and its id.
pub(crate) type PageKey = (Millis, JobId);

#[derive(Clone, Default, Debug)]
pub(crate) struct Page {
    pub(crate) jobs: Vec<JobInfo>,
    /// The position after which the next page begins. `None`: this was the last page.
    pub(crate) next: Option<PageKey>,
}

/// A page ends with the job at which its jobs reach this many bytes.
pub(crate) const BYTES_PER_PAGE: usize = 1 << 20;

impl Page {
    /// Reads the jobs at the first `limit` of these positions, up to [`BYTES_PER_PAGE`].
    pub(crate) fn read<T, E>(
        mut found: Vec<(PageKey, T)>,
        limit: usize,
        mut job: impl FnMut(PageKey, T) -> Result<Option<JobInfo>, E>,
    ) -> Result<Page, E> {
        found.truncate(limit);
        let next = found.last().map(|(at, _)| *at).filter(|_| found.len() == limit);
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        for (at, place) in found {
            let Some(job) = job(at, place)? else { continue };
            bytes += job.bytes();
            jobs.push(job);
            if bytes >= BYTES_PER_PAGE {
                return Ok(Page { jobs, next: Some(at) });
            }
        }
        Ok(Page { jobs, next })
    }
}

/// Reads the rows of a page, at most [`MOST_EACH`] and up to [`BYTES_PER_PAGE`].
pub(crate) fn results_page(
    rows: impl Iterator<Item = Result<(JobId, Vec<u8>), StoreError>>,
) -> Result<Vec<MemberResult>, StoreError> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for row in rows.take(MOST_EACH) {
        let (id, row) = row?;
        let result = group::member_result(id, &row);
        page.push(result.ok_or_else(|| StoreError::Damaged(format!("the result of {id}")))?);
        bytes += row.len();
        if bytes >= BYTES_PER_PAGE {
            break;
        }
    }
    Ok(page)
}

/// A file stops counting overdue jobs when it has counted this many of all kinds. It counts one job of each further
/// kind.
pub(crate) const MOST_COUNTED: u64 = 10_000;

/// How many jobs of a kind there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KindGauges {
    pub(crate) kind: String,
    /// Jobs that are not claimed.
    pub(crate) pending: u64,
    pub(crate) claimed: u64,
    pub(crate) dead: u64,
    /// Pending jobs whose due time has passed: on a file see [`MOST_COUNTED`].
    pub(crate) overdue: u64,
    /// How long ago the first of them was due.
    pub(crate) oldest_overdue: Option<Duration>,
}

/// The end of a run: how it ended, and what the store does with it.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    pub(crate) id: JobId,
    pub(crate) fence: Fence,
    pub(crate) end: End,
    /// How long the run took, in milliseconds.
    pub(crate) took: u64,
    /// The result of the run, if it has set one.
    pub(crate) result: Option<Vec<u8>>,
    /// How much is kept of the completed jobs of its kind.
    pub(crate) keep: Option<Keep>,
    /// A caller waits for the end of the job.
    pub(crate) wanted: bool,
    /// The buckets in which the history counts the run. None: the program wants no history.
    pub(crate) run: Option<RunBuckets>,
    /// The follow-ups of a run that completed.
    pub(crate) then: Option<Arc<Vec<NewJob>>>,
    /// The group of which the job is a member.
    pub(crate) group: Option<GroupId>,
    /// See [`Extra::gives_result`](crate::values::job::Extra::gives_result).
    pub(crate) gives_result: bool,
}

#[cfg(test)]
impl Finish {
    /// Returns the end of a run of a millisecond that leaves nothing behind.
    pub(crate) fn of(id: JobId, fence: Fence, end: End) -> Finish {
        Finish {
            id,
            fence,
            end,
            took: 1,
            result: None,
            keep: None,
            wanted: false,
            run: None,
            then: None,
            group: None,
            gives_result: false,
        }
    }
}
