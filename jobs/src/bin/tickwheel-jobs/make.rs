//! The commands that insert a job by hand.

use std::error::Error;
use std::io::Write;
use std::time::UNIX_EPOCH;

use serde::de::IgnoredAny;
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, InsertErrorKind, ScheduleInfo};

use crate::args::{self, Insert};
use crate::find::check_kind;
use crate::text::{now, plain, relative, shown};
use crate::{Outcome, find};

impl args::When {
    /// Returns the due time that the command line gives, if any.
    pub(crate) fn given(&self) -> Option<When> {
        match (self.delay, self.at) {
            (Some(delay), _) => Some(When::after(delay)),
            // No job can be due before 1970. Such a time becomes 1970, which has passed too.
            (None, Some(at)) => Some(When::wall(at.resolve().max(UNIX_EPOCH))),
            (None, None) => None,
        }
    }

    /// Returns when the job would be due: `2026-11-22T10:00:00.000Z (in 5m)`, or `now`.
    pub(crate) fn shown(&self) -> String {
        let now = now();
        let due = match (self.delay, self.at) {
            (Some(delay), _) => now.checked_add(delay),
            (None, at) => at.map(crate::text::Moment::resolve),
        };
        due.map_or("now".to_owned(), |due| format!("{} ({})", shown(due), relative(due, now)))
    }
}

pub(crate) fn insert(
    client: &Client,
    insert: &Insert,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let Insert { kind, json, when, key, replace, dry_run } = insert;
    check_kind(client, Some(kind))?;
    if let Err(error) = serde_json::from_str::<IgnoredAny>(json) {
        return Err(format!("the data is no JSON: {error}").into());
    }
    let taken = match key {
        Some(key) if !replace => client.keyed(key).get()?,
        _ => None,
    };
    if *dry_run && taken.is_none() {
        writeln!(out, "a job {} would be inserted, due {}", plain(kind), when.shown())?;
        return Ok(Outcome::Done);
    }
    let is_taken = |by: &str| {
        let key = key.as_deref().unwrap_or_default();
        eprintln!("tickwheel-jobs: the key {key:?} has a pending job{by}: --replace replaces it");
    };
    if let Some(job) = taken {
        is_taken(&format!(", {}", job.id));
        return Ok(Outcome::Missed);
    }
    let due = when.given().unwrap_or(When::after(std::time::Duration::ZERO));
    let payload = json.trim().as_bytes().to_vec();
    let id = match client.insert_by_hand(due, kind, key.as_deref(), *replace, payload) {
        Ok(id) => id,
        // Another process has inserted a job with the key meanwhile.
        Err(InsertErrorKind::Occupied) => {
            is_taken("");
            return Ok(Outcome::Missed);
        }
        Err(error) => return Err(error.into()),
    };
    writeln!(out, "{id} is inserted, due {}", when.shown())?;
    Ok(Outcome::Done)
}

pub(crate) fn run_schedule(
    client: &Client,
    name: &str,
    dry_run: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let schedules = client.schedules()?;
    let schedule = schedules.iter().find(|schedule| schedule.name == name);
    let made = match schedule {
        Some(ScheduleInfo { kind, .. }) if dry_run => {
            writeln!(out, "a job {} of the schedule would be inserted, due now", plain(kind))?;
            return Ok(Outcome::Done);
        }
        Some(_) => client.run_schedule(name)?,
        None => None,
    };
    let Some(id) = made else {
        return Ok(find::no_schedule(name, &schedules));
    };
    writeln!(out, "{id} is inserted, due now")?;
    Ok(Outcome::Done)
}
