//! The commands that change jobs.
//!
//! Ground rules:
//!
//! - The jobs to change are chosen first: by ids, or with `--all` by the filters. So a question, a dry run and
//!   the change are about the same jobs. A job that is inserted meanwhile is not changed.
//! - A command by which more than one job is lost asks the user first, unless `--yes` is given.

use std::error::Error;
use std::io::Write;

use tickwheel_jobs::{Cancel, Client, JobId, JobInfo, JobState, StoreError};

use crate::args::{Bulk, Removal, Reschedule};
use crate::confirm::confirm;
use crate::text::{now, plain, relative, shown};
use crate::{Outcome, find, rows};

/// The most jobs that a dry run lists.
const MOST_LISTED: usize = 100;

/// The jobs that a command is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    /// The jobs that have not ended; with `--all`, only the pending ones.
    Alive,
    Dead,
}

/// The jobs that were chosen.
struct Chosen {
    ids: Vec<JobId>,
    /// `Missed` if an id leads to no job, or `--all` finds none.
    outcome: Outcome,
    /// This was a dry run, which has printed everything.
    is_over: bool,
}

impl Set {
    fn has(self, job: &JobInfo) -> bool {
        (job.state == JobState::Dead) == (self == Set::Dead)
    }

    /// Prints why a job is not in the set.
    fn tell_missed(self, client: &Client, id: JobId) -> Result<(), StoreError> {
        match self {
            Set::Alive => not_pending(client, id)?,
            Set::Dead => eprintln!("tickwheel-jobs: there is no dead job {id}"),
        }
        Ok(())
    }
}

/// Chooses the jobs that a command is to change. A dry run prints them.
fn choose(
    client: &Client,
    jobs: &Bulk,
    set: Set,
    done: &str,
    out: &mut impl Write,
) -> Result<Chosen, Box<dyn Error>> {
    if !jobs.all && jobs.filter.is_set() {
        return Err("--kind, --from, --to, --key and --error go with --all".into());
    }
    let mut chosen = Chosen { ids: Vec::new(), outcome: Outcome::Done, is_over: jobs.dry_run };
    let mut listed = Vec::new();
    for text in &jobs.ids {
        let Some(id) = find::id(client, text)? else {
            chosen.outcome = Outcome::Missed;
            continue;
        };
        if chosen.ids.contains(&id) {
            continue;
        }
        if jobs.dry_run {
            let Some(job) = client.get(id)?.filter(|job| set.has(job)) else {
                set.tell_missed(client, id)?;
                chosen.outcome = Outcome::Missed;
                continue;
            };
            listed.push(job);
        }
        chosen.ids.push(id);
    }
    if jobs.all {
        find::check_kind(client, jobs.filter.kind.as_deref())?;
        let pages = if set == Set::Dead { client.dead() } else { client.pending() };
        let mut pages = find::narrowed(pages, &jobs.filter);
        for job in pages.by_ref().filter(|job| find::takes(&jobs.filter, job)) {
            chosen.ids.push(job.id);
            if jobs.dry_run && listed.len() < MOST_LISTED {
                listed.push(job);
            }
        }
        if let Some(error) = pages.error() {
            return Err(error.clone().into());
        }
        if chosen.ids.is_empty() {
            chosen.outcome = Outcome::Missed;
        }
    }
    if jobs.dry_run {
        listed.truncate(MOST_LISTED);
        rows::jobs(&listed, now(), out)?;
        if chosen.ids.len() > listed.len() {
            writeln!(out, "..")?;
        }
        writeln!(out, "{} jobs would be {done}", chosen.ids.len())?;
    }
    Ok(chosen)
}

pub(crate) fn cancel(
    client: &Client,
    Removal { jobs, yes }: &Removal,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let Chosen { ids, mut outcome, is_over } = choose(client, jobs, Set::Alive, "cancelled", out)?;
    if is_over || !confirm(ids.len(), "cancelled", *yes)? {
        return Ok(if is_over { outcome } else { unchanged() });
    }
    let (mut cancelled, mut running) = (0, 0);
    for id in ids {
        match client.cancel(id)? {
            Cancel::Cancelled => {
                cancelled += 1;
                if !jobs.all {
                    writeln!(out, "{id} is cancelled: it will never start")?;
                }
                continue;
            }
            Cancel::Running => {
                running += 1;
                eprintln!(
                    "tickwheel-jobs: {id} runs: it was asked to stop, and is not tried again if it fails"
                );
            }
            // With --all: the job has ended since it was chosen.
            Cancel::Gone if jobs.all => continue,
            Cancel::Gone => not_pending(client, id)?,
        }
        outcome = Outcome::Missed;
    }
    if jobs.all {
        client.flush()?;
        writeln!(out, "{cancelled} jobs are cancelled")?;
        if cancelled == 0 || running > 0 {
            outcome = Outcome::Missed;
        }
    }
    Ok(outcome)
}

/// Prints that the user has refused.
fn unchanged() -> Outcome {
    eprintln!("tickwheel-jobs: nothing was changed");
    Outcome::Missed
}

pub(crate) fn reschedule(
    client: &Client,
    to: &Reschedule,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let Some(when) = to.to.given() else { return Err("--in or --at says when".into()) };
    let Some(id) = find::id(client, &to.id)? else { return Ok(Outcome::Missed) };
    if to.dry_run {
        let job = client.get(id)?.filter(|job| job.state == JobState::Pending);
        let Some(job) = job else {
            not_pending(client, id)?;
            return Ok(Outcome::Missed);
        };
        let due = shown(job.due);
        writeln!(out, "{id}, due {due}, would be due {}", to.to.shown())?;
        return Ok(Outcome::Done);
    }
    if !client.reschedule(id, when)? {
        not_pending(client, id)?;
        return Ok(Outcome::Missed);
    }
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

pub(crate) fn retry(
    client: &Client,
    jobs: &Bulk,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let Chosen { ids, outcome, is_over } = choose(client, jobs, Set::Dead, "retried", out)?;
    if is_over {
        return Ok(outcome);
    }
    each_dead(client, &ids, outcome, jobs.all, ("retried", Client::retry), out)
}

pub(crate) fn delete(
    client: &Client,
    Removal { jobs, yes }: &Removal,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let Chosen { ids, outcome, is_over } = choose(client, jobs, Set::Dead, "deleted", out)?;
    if is_over || !confirm(ids.len(), "deleted", *yes)? {
        return Ok(if is_over { outcome } else { unchanged() });
    }
    each_dead(client, &ids, outcome, jobs.all, ("deleted", Client::delete), out)
}

/// A change of a dead job, and the word for its result.
type Change = (&'static str, fn(&Client, JobId) -> Result<bool, StoreError>);

fn each_dead(
    client: &Client,
    ids: &[JobId],
    mut outcome: Outcome,
    all: bool,
    (done, change): Change,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let mut changed = 0;
    for &id in ids {
        match change(client, id) {
            Ok(true) => {
                changed += 1;
                if !all {
                    writeln!(out, "{id} is {done}")?;
                }
            }
            // With --all: another process has changed the job since it was chosen.
            Ok(false) if all => {}
            Ok(false) => {
                Set::Dead.tell_missed(client, id)?;
                outcome = Outcome::Missed;
            }
            Err(StoreError::KeyTaken { key, by }) => {
                let key = plain(&key);
                eprintln!("tickwheel-jobs: {id} stays dead: its key {key} belongs to {by} now");
                outcome = Outcome::Missed;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if all {
        client.flush()?;
        writeln!(out, "{changed} jobs are {done}")?;
        if changed == 0 {
            outcome = Outcome::Missed;
        }
    }
    Ok(outcome)
}
