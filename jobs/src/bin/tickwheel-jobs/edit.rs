//! The commands that change jobs.
//!
//! Ground rules:
//!
//! - The jobs to change are chosen first: by ids, or with `--all` by the filters. So a question, a dry run and
//!   the change are about the same jobs. A job that is inserted meanwhile is not changed.
//! - A command that changes more than one job asks the user first, unless `--yes` is given.

use std::error::Error;
use std::io::Write;

use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Cancel, Client, JobId, JobInfo, JobState, StoreError};

use crate::args::{Reschedule, Selection};
use crate::bulk::change_all;
use crate::confirm::confirm;
use crate::text::{now, plain, relative, shown};
use crate::{Outcome, find, rows};

/// The most jobs that a dry run lists.
pub(crate) const MOST_LISTED: usize = 100;

/// A change that a command makes to jobs.
pub(crate) enum Change {
    Cancel,
    Reschedule(When),
    Retry,
    Delete,
}

impl Change {
    /// Says whether the command is for dead jobs. The others are for jobs that have not ended; with `--all`, only
    /// for the pending ones.
    pub(crate) fn is_for_dead(&self) -> bool {
        matches!(self, Change::Retry | Change::Delete)
    }

    /// Says whether the jobs are lost.
    pub(crate) fn loses(&self) -> bool {
        matches!(self, Change::Cancel | Change::Delete)
    }

    pub(crate) fn done(&self) -> &'static str {
        match self {
            Change::Cancel => "cancelled",
            Change::Reschedule(_) => "rescheduled",
            Change::Retry => "retried",
            Change::Delete => "deleted",
        }
    }

    /// Says whether a single job is one that the command is for.
    fn is_for(&self, job: &JobInfo) -> bool {
        match self {
            Change::Cancel => job.state != JobState::Dead,
            Change::Reschedule(_) => job.state == JobState::Pending,
            Change::Retry => job.state == JobState::Dead,
            Change::Delete => {
                matches!(job.state, JobState::Dead | JobState::Completed | JobState::Cancelled)
            }
        }
    }

    /// Prints why a job is not one that the command is for.
    fn tell_missed(&self, client: &Client, id: JobId) -> Result<(), StoreError> {
        match self {
            Change::Retry => eprintln!("tickwheel-jobs: there is no dead job {id}"),
            Change::Delete => eprintln!("tickwheel-jobs: there is no job {id} that has ended"),
            Change::Cancel | Change::Reschedule(_) => return not_pending(client, id),
        }
        Ok(())
    }

    /// Changes one job, and prints the result.
    fn one(&self, client: &Client, id: JobId, out: &mut impl Write) -> Changed {
        let changed = match self {
            Change::Cancel => match client.cancel(id)? {
                Cancel::Cancelled => {
                    writeln!(out, "{id} is cancelled: it will never start")?;
                    return Ok(Outcome::Done);
                }
                Cancel::Running => {
                    eprintln!(
                        "tickwheel-jobs: {id} runs: it was asked to stop, and is not tried again if it fails"
                    );
                    return Ok(Outcome::Missed);
                }
                Cancel::Gone => false,
            },
            Change::Reschedule(when) => {
                if client.reschedule(id, *when)? {
                    return moved(client, id, out);
                }
                false
            }
            Change::Retry => match client.retry(id) {
                Err(StoreError::KeyTaken { key, by }) => {
                    let key = plain(&key);
                    eprintln!("tickwheel-jobs: {id} stays dead: its key {key} belongs to {by} now");
                    return Ok(Outcome::Missed);
                }
                other => other?,
            },
            Change::Delete => client.delete(id)?,
        };
        if !changed {
            self.tell_missed(client, id)?;
            return Ok(Outcome::Missed);
        }
        writeln!(out, "{id} is {}", self.done())?;
        Ok(Outcome::Done)
    }
}

type Changed = Result<Outcome, Box<dyn Error>>;

/// Changes the jobs that the command line chooses.
pub(crate) fn change(
    client: &Client,
    jobs: &Selection,
    change: &Change,
    out: &mut impl Write,
) -> Changed {
    if jobs.all {
        return change_all(client, jobs, change, out);
    }
    if jobs.filter.is_set() || jobs.json {
        return Err("--kind, --from, --to, --key, --error and --json go with --all".into());
    }
    let (ids, mut outcome) = chosen(client, jobs)?;
    if jobs.dry_run {
        let mut listed = Vec::new();
        for id in ids {
            match client.get(id)?.filter(|job| change.is_for(job)) {
                Some(job) => listed.push(job),
                None => {
                    change.tell_missed(client, id)?;
                    outcome = Outcome::Missed;
                }
            }
        }
        list(&listed, listed.len(), change, out)?;
        return Ok(outcome);
    }
    if !confirm(ids.len(), change.done(), change.loses(), jobs.yes)? {
        return Ok(unchanged());
    }
    for id in ids {
        if change.one(client, id, out)? == Outcome::Missed {
            outcome = Outcome::Missed;
        }
    }
    Ok(outcome)
}

pub(crate) fn reschedule(client: &Client, to: &Reschedule, out: &mut impl Write) -> Changed {
    let Some(when) = to.to.given() else { return Err("--in or --at says when".into()) };
    let outcome = change(client, &to.jobs, &Change::Reschedule(when), out)?;
    if to.jobs.dry_run {
        writeln!(out, "they would be due {}", to.to.shown())?;
    }
    Ok(outcome)
}

/// Returns the jobs that are named, each once. The outcome is `Missed` if a name leads to no job.
fn chosen(client: &Client, jobs: &Selection) -> Result<(Vec<JobId>, Outcome), Box<dyn Error>> {
    let (mut ids, mut outcome) = (Vec::new(), Outcome::Done);
    for text in &jobs.ids {
        match find::id(client, text)? {
            Some(id) if !ids.contains(&id) => ids.push(id),
            Some(_) => {}
            None => outcome = Outcome::Missed,
        }
    }
    Ok((ids, outcome))
}

/// Prints the jobs of a dry run, at most [`MOST_LISTED`] of them, and how many there are.
pub(crate) fn list(
    listed: &[JobInfo],
    many: usize,
    change: &Change,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let listed = &listed[..listed.len().min(MOST_LISTED)];
    rows::jobs(listed, now(), out)?;
    if many > listed.len() {
        writeln!(out, "..")?;
    }
    writeln!(out, "{many} jobs would be {}", change.done())
}

/// Prints that the user has refused.
pub(crate) fn unchanged() -> Outcome {
    eprintln!("tickwheel-jobs: nothing was changed");
    Outcome::Missed
}

/// Prints when a job that was rescheduled is due.
fn moved(client: &Client, id: JobId, out: &mut impl Write) -> Changed {
    match client.get(id)? {
        Some(job) => {
            let due = job.due;
            writeln!(out, "{id} is due {} ({})", shown(due), relative(due, now()))?;
        }
        // The job was due at once, and has ended already.
        None => writeln!(out, "{id} was rescheduled")?,
    }
    Ok(Outcome::Done)
}

/// Prints why a job is not pending.
fn not_pending(client: &Client, id: JobId) -> Result<(), StoreError> {
    let why = match client.get(id)?.map(|job| job.state) {
        None => format!("there is no job {id}: it is done, was cancelled, or never was"),
        Some(JobState::Dead) => format!("{id} is dead: retry it, or delete it"),
        Some(JobState::Claimed) => format!("{id} was claimed: it runs, or is about to"),
        Some(JobState::Running) => format!("{id} runs"),
        Some(JobState::Pending) => format!("{id} was claimed, and is pending again"),
        Some(ended) => format!("{id} has ended: {ended}"),
    };
    eprintln!("tickwheel-jobs: {why}");
    Ok(())
}
