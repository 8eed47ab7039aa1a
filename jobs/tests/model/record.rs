//! What the oracle knows of a job, of a schedule, and of an id that is remembered.

use tickwheel_jobs::{AttemptError, GroupId, JobId, JobInfo, JobState};

use crate::ops::{Plan, Policy, micros};

/// What a job has of its own, beside its kind.
#[derive(Clone, Default, Debug)]
pub(crate) struct Own {
    /// It holds its key until its end.
    pub(crate) held: bool,
    /// For how many milliseconds it waits after a failure, and how often it is tried again.
    pub(crate) retry: Option<(i64, u32)>,
    /// Its header `tenant`.
    pub(crate) tenant: Option<String>,
    /// No run of it starts after this time.
    pub(crate) expires: Option<i64>,
    /// A caller waits for its end from its insert on.
    pub(crate) wanted: bool,
    /// When the first job of its burst came, if it is debounced.
    pub(crate) burst: Option<i64>,
    /// The group of which it is a member.
    pub(crate) group: Option<GroupId>,
    /// It is the callback of a group, which was inserted at the end of the group.
    pub(crate) is_callback: bool,
    /// It has not been seen, and is due between these times.
    pub(crate) due_between: Option<(i64, i64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) id: Option<JobId>,
    pub(crate) kind: usize,
    pub(crate) due: i64,
    pub(crate) key: Option<String>,
    pub(crate) own: Own,
    /// The id was chosen, or made from a name: it is remembered.
    pub(crate) named: bool,
    pub(crate) plan: Plan,
    pub(crate) state: JobState,
    pub(crate) failures: u32,
    pub(crate) interruptions: u32,
    /// Runs that failed, or whose process ended.
    pub(crate) runs: u32,
    /// Its last five errors, the newest first.
    pub(crate) errors: Vec<Failed>,
    /// The latest progress that the store has.
    pub(crate) progress: Option<String>,
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
    pub(crate) since: i64,
    pub(crate) change: u64,
    /// The how-manieth insert.
    pub(crate) order: u64,
}

/// An attempt that failed, or whose process ended.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) error: String,
    attempt: u32,
    at: i64,
    /// No process knows which one ran it, and the attempt may have another number.
    interrupted: bool,
}

impl Failed {
    fn is(&self, found: &AttemptError) -> bool {
        let pid = format!("/{}", std::process::id());
        let by_whom = if self.interrupted {
            found.node.is_empty()
        } else {
            found.node.ends_with(&pid) && found.attempt == self.attempt
        };
        // The millisecond in which it ended is rounded up.
        let late = micros(found.at) / 1000 - self.at;
        found.error == self.error && (0..=1).contains(&late) && by_whom
    }
}

impl Record {
    /// An attempt failed with this error: its last run.
    pub(crate) fn failed_with(&mut self, error: &str, at: i64) {
        let (error, attempt) = (error.to_owned(), self.runs);
        self.errors.insert(0, Failed { error, attempt, at, interrupted: false });
        self.errors.truncate(5);
    }

    /// The fifth process in a row has ended during its run.
    pub(crate) fn killed(&mut self) {
        self.failed_with(INTERRUPTED, self.died.0);
        self.errors[0].interrupted = true;
    }

    /// Says whether the store has its errors.
    pub(crate) fn has_errors(&self, info: &JobInfo) -> bool {
        info.error.as_ref() == self.errors.first().map(|failed| &failed.error)
            && self.has_these(&info.errors)
    }

    pub(crate) fn has_these(&self, errors: &[AttemptError]) -> bool {
        let mut each = self.errors.iter().zip(errors);
        errors.len() == self.errors.len() && each.all(|(failed, found)| failed.is(found))
    }

    /// Says whether the store has the expiry and the headers of the job.
    pub(crate) fn has_own(&self, info: &JobInfo) -> bool {
        info.expires.map(|expires| micros(expires) / 1000) == self.own.expires
            && info.headers.get("tenant") == self.own.tenant.as_ref()
            && info.headers.len() == usize::from(self.own.tenant.is_some())
    }
}

const INTERRUPTED: &str = "its process ended 5 times while it ran";

#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: usize,
    pub(crate) period: i64,
    pub(crate) next: i64,
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
    pub(crate) is_paused: bool,
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
