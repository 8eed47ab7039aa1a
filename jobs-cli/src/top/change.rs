//! Retries, deletes and cancels jobs, after the view of `top` has asked.
//!
//! Ground rules:
//!
//! - The question has the number of jobs that the reading had. A change of dead jobs leaves out those that died after
//!   the reading, and a change of pending jobs ends after that number.
//! - A change of many jobs goes in commits of 256, and can be stopped between them.

use std::sync::atomic::{AtomicBool, Ordering};

use tickwheel_jobs::view::{DeadGroup, JobFilter, ListState, Number, Time, View};
use tickwheel_jobs::{Cancel, Client, JobId, JobInfo, StoreError};

use super::tables::symbols;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Retry,
    Delete,
    Cancel,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Verb::Retry => "retried",
            Verb::Delete => "deleted",
            Verb::Cancel => "cancelled",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    Job { id: JobId, kind: String },
    Group(DeadGroup),
    Dead { kind: String, jobs: Number },
    Pending { kind: String, jobs: u64 },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    pub(crate) scope: Scope,
    /// The time of the reading with these numbers.
    pub(crate) asked: Time,
}

/// Says `1 dead job`, or `344 dead jobs`.
fn number(jobs: u64, state: &str) -> String {
    if jobs == 1 { format!("1 {state} job") } else { format!("{jobs} {state} jobs") }
}

impl Change {
    pub(crate) fn question(&self) -> String {
        let scope = match &self.scope {
            Scope::Job { id, kind } => format!("1 job of {}, {id}", symbols(kind)),
            Scope::Group(DeadGroup { kind, error, jobs, .. }) => {
                let jobs = number(*jobs, "dead");
                format!("{jobs} of {} with the error \"{}\"", symbols(kind), symbols(error))
            }
            Scope::Dead { kind, jobs } => {
                let least = if jobs.is_exact { "" } else { "at least " };
                format!(
                    "{least}{} of {}, with any error",
                    number(jobs.count, "dead"),
                    symbols(kind)
                )
            }
            Scope::Pending { kind, jobs } => {
                format!("{} of {}", number(*jobs, "pending"), symbols(kind))
            }
        };
        let loss = match (self.verb, &self.scope) {
            (Verb::Retry, _) => "",
            (_, Scope::Job { .. }) => " It cannot be had back.",
            _ => " They cannot be had back.",
        };
        format!("{:?} {scope}?{loss}", self.verb)
    }

    /// Makes the change. Returns a sentence with the number of changed jobs, also after an error. After each commit it
    /// calls `tell` with the number of jobs so far.
    pub(crate) fn make(
        self,
        client: &Client,
        stop: &AtomicBool,
        mut tell: impl FnMut(u64),
    ) -> Result<String, String> {
        let Change { verb, scope, asked } = self;
        let list = |state, kind| {
            let mut filter = JobFilter::new(state);
            filter.kind = Some(kind);
            filter
        };
        let (filter, most) = match scope {
            Scope::Job { id, .. } => {
                return one(client, verb, id).map_err(|error| error.to_string());
            }
            Scope::Group(DeadGroup { kind, group, .. }) => {
                let mut filter = list(ListState::Dead, kind);
                filter.group = Some(group);
                (filter, u64::MAX)
            }
            Scope::Dead { kind, .. } => (list(ListState::Dead, kind), u64::MAX),
            Scope::Pending { kind, jobs } => (list(ListState::Pending, kind), jobs),
        };
        let pages = View::new(client.clone()).matching(&filter);
        let bulk = match verb {
            Verb::Retry => pages.retry_all(),
            Verb::Delete => pages.delete_all(),
            Verb::Cancel => pages.cancel_all(),
        };
        let only = move |job: &JobInfo| job.died.is_none_or(|died| Time::from(died) <= asked);
        let mut bulk = bulk.map_err(|error| error.to_string())?.only(only).at_most(most);
        let mut was_stopped = false;
        while let Some(step) = bulk.next() {
            if let Err(error) = step {
                let changed = bulk.total().changed;
                return Err(format!("{error}; {changed} jobs were {} before", verb.done()));
            }
            tell(bulk.total().seen);
            if stop.load(Ordering::Relaxed) {
                was_stopped = true;
                break;
            }
        }
        let total = bulk.total();
        let mut said = format!("{} jobs were {}", total.changed, verb.done());
        if total.asked_to_stop > 0 {
            said += &format!(", {} run and were asked to stop", total.asked_to_stop);
        }
        if total.passed_over > 0 {
            said += &format!(", {} were passed over", total.passed_over);
        }
        if was_stopped {
            said += "; then you stopped it";
        }
        Ok(said)
    }
}

fn one(client: &Client, verb: Verb, job: JobId) -> Result<String, StoreError> {
    let gone = || Ok(format!("nothing was changed: {job} is not there any more"));
    let is_changed = match verb {
        Verb::Retry => client.retry(job)?,
        Verb::Delete => client.delete(job)?,
        Verb::Cancel => match client.cancel(job)? {
            Cancel::Cancelled => true,
            Cancel::Running => return Ok(format!("{job} runs: it was asked to stop")),
            Cancel::Gone => false,
        },
    };
    if is_changed { Ok(format!("{job} was {}", verb.done())) } else { gone() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};
    use tickwheel_jobs::{Job, Jobs};

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Push;

    impl Job for Push {
        const KIND: &'static str = "push";
    }

    /// A change that fails after some commits says how many jobs they changed.
    #[test]
    fn failed_change_says_how_many_jobs_it_has_changed() {
        let jobs = Jobs::memory().handle(|_: Push, _| Ok(())).start().unwrap();
        jobs.insert_batch((0..300).map(|_| (Duration::from_secs(3600), Push))).unwrap();
        let scope = Scope::Pending { kind: Push::KIND.to_owned(), jobs: 300 };
        let change = Change { verb: Verb::Cancel, scope, asked: Time::default() };
        let (client, mut jobs) = (jobs.client(), Some(jobs));
        let close = |_| jobs.take().into_iter().for_each(|jobs| jobs.shutdown().unwrap());
        let made = change.make(&client, &AtomicBool::new(false), close);
        assert_eq!(made.unwrap_err(), "the jobs are shut down; 256 jobs were cancelled before");
    }
}
