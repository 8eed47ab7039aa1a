//! Runs and jobs that have ended: how, and how long a store keeps the jobs.
//!
//! Ground rules:
//!
//! - A store keeps one entry for each id that it remembers: all of a job that is dead or that is kept, or the id alone
//!   if its caller chose it. Each entry has one date, after which a purge removes it. A server has both entries for a
//!   job with a chosen id.
//! - A dead job and an id are kept for `Builder::keep_dead`. A job that completed is kept if its kind asks for it, up
//!   to a number, an age and a size, or for [`WANTED_KEPT`] if a caller waits for it. An expired job counts as a
//!   completed one, and is in the same lists.
//! - A kind that has more than it keeps loses its oldest jobs. One that completes removes [`TRIMMED`] at most, so that
//!   a lower bound makes no commit long. No bound removes a job on whose end a caller waits before [`WANTED_KEPT`] has
//!   passed, or a busy kind would take the end away from its callers. Until then such a job does not count either, or
//!   it would take the place of the others.
//! - If the entry of a kept job is removed before its id may be forgotten, the id stays.

use std::time::Duration;

use crate::values::fail_and_retry::AttemptErrors;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::job::Shown;
use crate::values::run_end::Outcome;
use crate::values::setting::Keep;
use crate::values::time::Millis;

/// How long the end of a job is kept that a caller waits for.
pub(crate) const WANTED_KEPT: Duration = Duration::from_secs(60);

/// How many kept jobs of a kind one that completes removes, at most, and at how many of the oldest it looks for them.
/// The scripts remove as many. They look at no other job: one on whose end a caller waits has a list of its own there.
pub(crate) const TRIMMED: usize = 2;
pub(crate) const TRIM_LOOKS: usize = 8;

/// A job that was interrupted this often in a row is dead.
pub(crate) const MOST_INTERRUPTIONS: u32 = 5;

/// Returns the error of a job that was interrupted [`MOST_INTERRUPTIONS`] times.
pub(crate) fn killed() -> String {
    format!("its process ended {MOST_INTERRUPTIONS} times while it ran")
}

/// How a run has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Completed,
    /// The job was cancelled while it ran, and its run failed.
    Cancelled,
    /// The job failed, and is retried at `due`. `errors`: those of earlier attempts, and this one.
    Retry {
        due: Millis,
        errors: AttemptErrors,
    },
    /// The job was snoozed until `due`. Its interruptions in a row are set to 0; nothing else changes.
    Snoozed {
        due: Millis,
    },
    /// The job failed, and is dead.
    Dead {
        errors: AttemptErrors,
    },
    /// The job was too old, so no run has started.
    Expired,
}

impl End {
    /// Returns the end as it is reported.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            End::Completed => Outcome::Completed,
            End::Cancelled => Outcome::Cancelled,
            End::Retry { .. } => Outcome::Retried,
            End::Snoozed { .. } => Outcome::Snoozed,
            End::Dead { .. } => Outcome::Dead,
            End::Expired => Outcome::Expired,
        }
    }

    /// Returns what the group of the job keeps of this end: the result of the run, or the errors of a dead job.
    pub(crate) fn result_or_errors<'a>(&'a self, result: &'a Option<Vec<u8>>) -> &'a [u8] {
        match self {
            End::Completed => result.as_deref().unwrap_or_default(),
            End::Dead { errors } => errors.as_text().as_bytes(),
            _ => &[],
        }
    }

    /// Returns how the job has ended, if it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        match self {
            End::Completed => Some(Ending::Completed),
            End::Cancelled => Some(Ending::Cancelled),
            End::Dead { .. } => Some(Ending::Dead),
            End::Expired => Some(Ending::Expired),
            End::Retry { .. } | End::Snoozed { .. } => None,
        }
    }
}

/// The counts and the errors of the runs of a job.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tries {
    pub(crate) failures: u32,
    /// Interruptions in a row.
    pub(crate) interruptions: u32,
    /// How often it failed or was interrupted, also before a retry by hand.
    pub(crate) attempts: u32,
    pub(crate) errors: AttemptErrors,
}

impl Tries {
    /// Counts a run that has ended so.
    pub(crate) fn end(&mut self, end: &End) {
        if let End::Retry { errors, .. } | End::Dead { errors } = end {
            self.failures = self.failures.saturating_add(1);
            self.attempts = self.attempts.saturating_add(1);
            self.errors = errors.clone();
        }
        if let End::Retry { .. } | End::Snoozed { .. } = end {
            self.interruptions = 0;
        }
    }

    /// Counts an interruption. Returns whether the job dies of it. `suspect_after`: a job that was interrupted before
    /// was claimed after this one. That one is the more likely cause, so this one does not die.
    pub(crate) fn interrupt(&mut self, suspect_after: bool, now: Millis) -> bool {
        let most = if suspect_after { MOST_INTERRUPTIONS - 1 } else { MOST_INTERRUPTIONS };
        self.interruptions = self.interruptions.saturating_add(1).min(most);
        self.attempts = self.attempts.saturating_add(1);
        let dies = self.interruptions >= MOST_INTERRUPTIONS;
        if dies {
            self.errors = self.errors.and(now, self.attempts, "", &killed());
        }
        dies
    }

    /// Begins again, for a dead job that is retried.
    pub(crate) fn begin_again(&mut self) {
        (self.failures, self.interruptions) = (0, 0);
    }

    /// Returns the description of a job with these tries, for a caller.
    pub(crate) fn info(
        &self,
        id: JobId,
        kind: String,
        state: JobState,
        due: Millis,
        shown: Shown,
    ) -> JobInfo {
        JobInfo {
            failures: self.failures,
            attempt: state.attempts(self.attempts),
            interruptions: self.interruptions,
            ..JobInfo::new(id, kind, state, due, &self.errors, shown)
        }
    }
}

/// How a job has ended. The numbers are those of the tables and of the scripts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ending {
    Completed = 1,
    Dead = 2,
    Cancelled = 3,
    Expired = 4,
}

impl Ending {
    pub(crate) const ALL: [Ending; 4] =
        [Ending::Completed, Ending::Dead, Ending::Cancelled, Ending::Expired];

    pub(crate) fn state(self) -> JobState {
        match self {
            Ending::Completed => JobState::Completed,
            Ending::Dead => JobState::Dead,
            Ending::Cancelled => JobState::Cancelled,
            Ending::Expired => JobState::Expired,
        }
    }

    /// Returns the ending whose lists have the jobs with this ending. Completed and expired jobs share their lists, and
    /// so the bounds of their kind.
    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn list(self) -> Ending {
        if self == Ending::Expired { Ending::Completed } else { self }
    }

    /// Returns the ending with this number. An id that is remembered alone has the number 0.
    pub(crate) fn of_number(number: i64) -> Option<Ending> {
        Ending::ALL.into_iter().find(|ending| *ending as i64 == number)
    }
}

/// Says whether no bound may remove a kept job yet. `wanted`: a caller waits for its end.
pub(crate) fn is_waited_for(wanted: bool, ended: Millis, now: Millis) -> bool {
    wanted && ended.plus(WANTED_KEPT) >= now
}

/// Returns until when a job is kept that ends now, or `None` if it is not kept. `wanted`: a caller waits for its
/// end.
pub(crate) fn kept_until(keep: Option<Keep>, wanted: bool, now: Millis) -> Option<Millis> {
    let by_kind = keep.map(|keep| now.plus(keep.age));
    by_kind.max(wanted.then(|| now.plus(WANTED_KEPT)))
}
