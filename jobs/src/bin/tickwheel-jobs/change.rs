//! The commands that change something.

use std::error::Error;
use std::io::Write;
use std::time::UNIX_EPOCH;

use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Cancel, Client, JobId, JobState, StoreError};

use crate::Outcome;
use crate::args::{Dead, Move};
use crate::text::{now, relative, utc};

pub(crate) fn cancel(
    client: &Client,
    ids: &[JobId],
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let mut outcome = Outcome::Done;
    for &id in ids {
        match client.cancel(id)? {
            Cancel::Cancelled => {
                writeln!(out, "{id} is cancelled: it will never start")?;
                continue;
            }
            Cancel::Running => eprintln!(
                "tickwheel-jobs: {id} runs: it was asked to stop, and is not tried again if it fails"
            ),
            Cancel::Gone => not_pending(client, id)?,
        }
        outcome = Outcome::Missed;
    }
    Ok(outcome)
}

pub(crate) fn move_to(
    client: &Client,
    to: &Move,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let when = match (to.to.delay, to.to.at) {
        (Some(delay), _) => When::after(delay),
        // No job is due before 1970, and each such time has passed.
        (None, Some(at)) => When::wall(at.max(UNIX_EPOCH)),
        (None, None) => unreachable!("the command line has --in or --at"),
    };
    if !client.reset(to.id, when)? {
        not_pending(client, to.id)?;
        return Ok(Outcome::Missed);
    }
    match client.get(to.id)? {
        Some(job) => {
            let due = job.deadline;
            writeln!(out, "{} is due {} ({})", to.id, utc(due), relative(due, now()))?;
        }
        // It was due at once, and is done.
        None => writeln!(out, "{} was moved", to.id)?,
    }
    Ok(Outcome::Done)
}

/// Says why a job that was to be pending is not.
fn not_pending(client: &Client, id: JobId) -> Result<(), StoreError> {
    let why = match client.get(id)?.map(|job| job.state) {
        None => format!("there is no job {id}: it is done, was cancelled, or never was"),
        Some(JobState::Dead) => format!("{id} is dead: revive it, or discard it"),
        Some(JobState::Running) => format!("{id} runs"),
        Some(JobState::Pending) => format!("{id} was claimed, and is pending again"),
    };
    eprintln!("tickwheel-jobs: {why}");
    Ok(())
}

pub(crate) fn revive(
    client: &Client,
    dead: &Dead,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    each_dead(client, dead, "revived", Client::revive, out)
}

pub(crate) fn discard(
    client: &Client,
    dead: &Dead,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    each_dead(client, dead, "discarded", Client::discard, out)
}

fn each_dead(
    client: &Client,
    dead: &Dead,
    done: &str,
    change: fn(&Client, JobId) -> Result<bool, StoreError>,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let mut outcome = Outcome::Done;
    for &id in &dead.ids {
        if change(client, id)? {
            writeln!(out, "{id} is {done}")?;
        } else {
            eprintln!("tickwheel-jobs: there is no dead job {id}");
            outcome = Outcome::Missed;
        }
    }
    if dead.all {
        let changed = all_dead(client, dead.kind.as_deref(), change)?;
        writeln!(out, "{changed} jobs are {done}")?;
        if changed == 0 {
            outcome = Outcome::Missed;
        }
    }
    Ok(outcome)
}

fn all_dead(
    client: &Client,
    kind: Option<&str>,
    change: fn(&Client, JobId) -> Result<bool, StoreError>,
) -> Result<u64, StoreError> {
    let pages = client.dead();
    let mut pages = match kind {
        Some(kind) => pages.kind_named(kind),
        None => pages,
    };
    let mut changed = 0;
    // Pages go on behind the last id, so a job that dies again meanwhile is not taken twice.
    for job in pages.by_ref() {
        changed += u64::from(change(client, job.id)?);
    }
    match pages.error() {
        Some(error) => Err(error.clone()),
        None => client.flush().map(|()| changed),
    }
}
