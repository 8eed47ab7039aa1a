//! How a run of a job ends: its outcome, the report of its start or its end, and why it should stop.

use core::fmt;
use std::time::{Duration, SystemTime};

use super::id::{Fence, JobId};

/// Why a run should stop.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StopReason {
    /// The program shuts down. The end of the run counts if it comes within the shutdown's limit. A handler
    /// that cannot end by then returns [`Fail::interrupted`](crate::Fail::interrupted): another process, or the
    /// next start, runs the job again at once.
    Shutdown = 1,
    /// The job was cancelled. It is gone when the run has ended, even if the handler fails.
    Requested = 2,
    /// The run has reached the [time limit](crate::Builder::time_limit) of its kind. If its handler returns
    /// within the grace, its end counts, and [`Fail::interrupted`](crate::Fail::interrupted) is a failure. After
    /// the grace the run has failed, and the end of its handler does not count.
    TimeLimit = 3,
    /// The lease was lost: another process may run the job by now. The end of this run does not count.
    LeaseLost = 4,
}

impl StopReason {
    /// Returns the reason with this number.
    pub(crate) fn of(number: u8) -> Option<StopReason> {
        use StopReason::{LeaseLost, Requested, Shutdown, TimeLimit};
        [Shutdown, Requested, TimeLimit, LeaseLost].into_iter().find(|why| *why as u8 == number)
    }
}

/// The start or the end of a run, for the function of [`Builder::on_run`](crate::Builder::on_run).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RunReport {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The number of this attempt, as [`Run::attempt`](crate::Run::attempt) counts them.
    pub attempt: u32,
    /// The fence of the run. With the id it tells this run from every other run, so it leads from an end to its
    /// start.
    pub fence: Fence,
    /// The due time of the job.
    pub due: SystemTime,
    /// How long after its due time the run started, by the wall clock.
    pub late: Duration,
    /// At the end: the time from the start of the run to the end of its handler. If the handler has not ended,
    /// the time up to this report.
    pub took: Option<Duration>,
    /// At the end: how the run ended. `None` at the start.
    pub outcome: Option<Outcome>,
    /// At the end: the error, if the outcome is [`Outcome::Retried`] or [`Outcome::Dead`], or if it is
    /// [`Outcome::Cancelled`] and the handler failed.
    pub error: Option<String>,
}

/// How a run ended, and what became of its job. The text of each is its name in small letters.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// The handler returned `Ok`, or has ended the run in a transaction (`Run::end_in`), and the job is gone.
    Completed,
    /// The run failed, and the job is retried.
    Retried,
    /// The handler returned [`Fail::snooze`](crate::Fail::snooze): the job runs again later.
    Snoozed,
    /// The run failed, and the job is dead.
    Dead,
    /// The job was cancelled while it ran. It is gone, although the handler did not return `Ok`. A cancel from
    /// another machine that arrives less than about a second before the end may be missed here: the outcome is
    /// then that of a job without a cancel.
    Cancelled,
    /// The end of the handler does not count: the run lost its lease, the jobs of the process ended before it,
    /// or the handler returned [`Fail::interrupted`](crate::Fail::interrupted). The job runs again.
    Interrupted,
    /// No run has started: the job was too old ([`NewJob::expires`](crate::NewJob::expires)). So no report of a run has
    /// this outcome. [`Event::Expired`](crate::Event::Expired) reports the end, and counters count it.
    Expired,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &'static [Outcome] = &[
        Outcome::Completed,
        Outcome::Retried,
        Outcome::Snoozed,
        Outcome::Dead,
        Outcome::Cancelled,
        Outcome::Interrupted,
        Outcome::Expired,
    ];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Completed => "completed",
            Outcome::Retried => "retried",
            Outcome::Snoozed => "snoozed",
            Outcome::Dead => "dead",
            Outcome::Cancelled => "cancelled",
            Outcome::Interrupted => "interrupted",
            Outcome::Expired => "expired",
        })
    }
}
