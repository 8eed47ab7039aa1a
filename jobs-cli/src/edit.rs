//! The commands that change jobs: one, several, or with `--all` every job that the filters choose, at most 256 jobs a
//! commit; those that insert a job by hand; and the removal of a schedule.
//!
//! Ground rules:
//!
//! - The jobs to change are chosen first: by ids, or with `--all` by the filters. So a question, a dry run and the
//!   change are about the same jobs. A job that is inserted meanwhile is not changed.
//! - A command that changes more than one job asks the user first, unless `--yes` is given.

use std::collections::HashSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, UNIX_EPOCH};

use serde::de::IgnoredAny;
use serde_json::json;
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{
    BulkCounts, Cancel, Client, InsertErrorKind, JobByHand, JobId, JobInfo, JobState, Pages,
    ScheduleInfo, StoreError,
};

use crate::args::{self, Insert, Reschedule, Schedule, Selection};
use crate::find::{self, check_kind};
use crate::text::{dated, json, now, plain};
use crate::{Answer, Outcome, inspect};

pub(crate) const MOST_LISTED: usize = 100;

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

    fn is_for(&self, job: &JobInfo) -> bool {
        match self {
            Change::Cancel => job.state != JobState::Dead,
            Change::Reschedule(_) => job.state == JobState::Pending,
            Change::Retry => job.state == JobState::Dead,
            Change::Delete => job.ended.is_some(),
        }
    }

    fn tell_missed(&self, client: &Client, id: JobId) -> Result<(), StoreError> {
        match self {
            Change::Retry => eprintln!("tickwheel-jobs: there is no dead job {id}"),
            Change::Delete => eprintln!("tickwheel-jobs: there is no job {id} that has ended"),
            Change::Cancel | Change::Reschedule(_) => return not_pending(client, id),
        }
        Ok(())
    }

    fn one(&self, client: &Client, id: JobId, out: &mut impl Write) -> Answer {
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
                    tell_key(id, &key, by);
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

pub(crate) fn change(
    client: &Client,
    jobs: &Selection,
    change: &Change,
    out: &mut impl Write,
) -> Answer {
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

pub(crate) fn reschedule(client: &Client, to: &Reschedule, out: &mut impl Write) -> Answer {
    let Some(when) = to.to.given() else { return Err("--in or --at says when".into()) };
    if to.jobs.dry_run {
        client.check_due(when)?;
    }
    let outcome = change(client, &to.jobs, &Change::Reschedule(when), out)?;
    if to.jobs.dry_run {
        writeln!(out, "they would be due {}", to.to.shown())?;
    }
    Ok(outcome)
}

/// Returns the jobs that are named, each once. The outcome is `Missed` if a name leads to no job.
fn chosen(client: &Client, jobs: &Selection) -> Answer<(Vec<JobId>, Outcome)> {
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
    inspect::jobs_table(listed, now(), out)?;
    if many > listed.len() {
        writeln!(out, "..")?;
    }
    writeln!(out, "{many} jobs would be {}", change.done())
}

pub(crate) fn unchanged() -> Outcome {
    eprintln!("tickwheel-jobs: nothing was changed");
    Outcome::Missed
}

fn moved(client: &Client, id: JobId, out: &mut impl Write) -> Answer {
    match client.get(id)? {
        Some(job) => writeln!(out, "{id} is due {}", dated(job.due, now()))?,
        // The job was due at once, and has ended already.
        None => writeln!(out, "{id} was rescheduled")?,
    }
    Ok(Outcome::Done)
}

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

/// How often a long change prints how far it is.
const PROGRESS: Duration = Duration::from_secs(1);

pub(crate) fn change_all(
    client: &Client,
    jobs: &Selection,
    change: &Change,
    out: &mut impl Write,
) -> Answer {
    let filter = &jobs.filter;
    find::check_kind(client, filter.kind.as_deref())?;
    // A time from now on means the same in each list.
    let times = find::times(filter);
    let pages = || {
        let pages = if change.is_for_dead() { client.dead() } else { client.pending() };
        find::narrowed(pages, filter, times)
    };
    let (mut chosen, mut known, mut listed) = (Vec::new(), HashSet::new(), Vec::new());
    each(pages(), |job| {
        if find::takes(filter, &job) && known.insert(job.id) {
            chosen.push(job.id);
            if listed.len() < MOST_LISTED {
                listed.push(job);
            }
        }
        Ok(())
    })?;
    let outcome = if chosen.is_empty() { Outcome::Missed } else { Outcome::Done };
    if jobs.dry_run {
        list(&listed, chosen.len(), change, out)?;
        return Ok(outcome);
    }
    drop(listed);
    if !confirm(chosen.len(), change.done(), change.loses(), jobs.yes)? {
        return Ok(unchanged());
    }
    let counts = run(client, change, chosen)?;
    let BulkCounts { seen, changed, asked_to_stop, passed_over, .. } = counts;
    if jobs.json {
        let counts = json!({
            "seen": seen, "changed": changed,
            "asked_to_stop": asked_to_stop, "passed_over": passed_over,
        });
        writeln!(out, "{}", json(&counts)?)?;
    } else {
        writeln!(out, "{changed} jobs are {}", change.done())?;
    }
    if asked_to_stop > 0 {
        eprintln!(
            "tickwheel-jobs: {asked_to_stop} jobs run: they were asked to stop, and are not tried again if they \
             fail"
        );
        return Ok(Outcome::Missed);
    }
    if passed_over > 0 && matches!(change, Change::Retry) {
        each(pages(), |JobInfo { id, key, .. }| {
            if let Some(key) = key.filter(|_| known.contains(&id))
                && let Some(by) = client.keyed(&key).get()?
            {
                tell_key(id, &key, by.id);
            }
            Ok(())
        })?;
        return Ok(Outcome::Missed);
    }
    Ok(if changed == 0 { Outcome::Missed } else { Outcome::Done })
}

fn run(client: &Client, change: &Change, chosen: Vec<JobId>) -> Answer<BulkCounts> {
    let many = chosen.len();
    let pages = client.by_ids(chosen);
    let mut bulk = match change {
        Change::Cancel => pages.cancel_all(),
        Change::Reschedule(to) => pages.reschedule_all(*to),
        Change::Retry => pages.retry_all(),
        Change::Delete => pages.delete_all(),
    }?;
    let mut told = now();
    while let Some(step) = bulk.next() {
        let counts = bulk.total();
        if let Err(error) = step {
            let done = change.done();
            let before = format!("{} of {many} jobs were {done} before", counts.changed);
            return Err(format!("{error}; {before}").into());
        }
        if now().duration_since(told).unwrap_or(PROGRESS) >= PROGRESS {
            told = now();
            eprintln!("tickwheel-jobs: {} of {many} jobs", counts.seen);
        }
    }
    client.flush()?;
    Ok(bulk.total())
}

fn each(
    mut pages: Pages,
    mut with: impl FnMut(JobInfo) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for job in pages.by_ref() {
        with(job)?;
    }
    pages.error().map_or(Ok(()), |error| Err(error.clone()))
}

fn tell_key(id: JobId, key: &str, by: JobId) {
    let key = plain(key);
    eprintln!("tickwheel-jobs: {id} stays dead: its key {key} belongs to {by} now");
}

/// Says whether the command may go on. One job needs no consent. For more, the user consents with `--yes` or is
/// asked. Without a terminal to ask on, this is an error. `loses`: the jobs are lost.
pub(crate) fn confirm(jobs: usize, done: &str, loses: bool, yes: bool) -> Answer<bool> {
    if jobs < 2 || yes {
        return Ok(true);
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let cure = "--yes does it, and --dry-run lists them";
        return Err(format!(
            "{jobs} jobs would be {done}, and there is no terminal to ask: {cure}"
        )
        .into());
    }
    let lost = if loses { ", and cannot be had back" } else { "" };
    eprint!("{jobs} jobs will be {done}{lost}. Go on? [y/N] ");
    is_yes(&mut stdin.lock()).map_err(Into::into)
}

/// Reads an answer. An empty line means no, and so does the end of the input.
fn is_yes(answers: &mut impl BufRead) -> io::Result<bool> {
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}

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
        due.map_or("now".to_owned(), |due| dated(due, now))
    }
}

/// Inserts a job. Sets `follows` to the job if `--follow` is given.
pub(crate) fn insert(
    client: &Client,
    insert: &Insert,
    follows: &mut Option<JobId>,
    out: &mut impl Write,
) -> Answer {
    let Insert { kind, json, when, key, replace, expires, follow, dry_run } = insert;
    check_kind(client, Some(kind))?;
    if let Err(error) = serde_json::from_str::<IgnoredAny>(json) {
        return Err(format!("the data is no JSON: {error}").into());
    }
    let due = when.given().unwrap_or(When::after(Duration::ZERO));
    let mut job = JobByHand::new(kind, json.trim());
    (job.key, job.replaces) = (key.clone(), *replace);
    (job.followed, job.dry_run) = (*follow, *dry_run);
    job.expires = expires.map(|expires| When::wall(expires.resolve().max(UNIX_EPOCH)));
    let id = match client.insert_by_hand(due, job) {
        Ok(id) => id,
        Err(InsertErrorKind::Occupied) => {
            let key = key.as_deref().unwrap_or_default();
            let by = client.keyed(key).get()?.map_or(String::new(), |job| format!(", {}", job.id));
            eprintln!(
                "tickwheel-jobs: the key {key:?} has a pending job{by}: --replace replaces it"
            );
            return Ok(Outcome::Missed);
        }
        Err(error) => return Err(error.into()),
    };
    match dry_run {
        true => write!(out, "a job {} would be inserted", plain(kind))?,
        false => write!(out, "{id} is inserted")?,
    }
    writeln!(out, ", due {}", when.shown())?;
    *follows = Some(id).filter(|_| *follow);
    Ok(Outcome::Done)
}

pub(crate) fn run_schedule(client: &Client, args: &Schedule, out: &mut impl Write) -> Answer {
    let Schedule { name, dry_run } = args;
    let schedules = client.schedules().list()?;
    let schedule = schedules.iter().find(|schedule| schedule.name == *name);
    let made = match schedule {
        Some(ScheduleInfo { kind, .. }) if *dry_run => {
            writeln!(out, "a job {} of the schedule would be inserted, due now", plain(kind))?;
            return Ok(Outcome::Done);
        }
        Some(_) => client.schedules().run(name)?,
        None => None,
    };
    let Some(id) = made else {
        return Ok(find::no_schedule(name, &schedules));
    };
    writeln!(out, "{id} is inserted, due now")?;
    Ok(Outcome::Done)
}

pub(crate) fn remove_schedule(client: &Client, args: &Schedule, out: &mut impl Write) -> Answer {
    let Schedule { name, dry_run } = args;
    let schedules = client.schedules().list()?;
    let Some(ScheduleInfo { kind, rule, .. }) = schedules.iter().find(|it| it.name == *name) else {
        return Ok(find::no_schedule(name, &schedules));
    };
    let would = if *dry_run { "would be" } else { "is" };
    if !dry_run && !client.schedules().remove(name)? {
        return Ok(unchanged());
    }
    let said = format!("the schedule {name} {would} removed: jobs {kind}, {rule}");
    writeln!(out, "{}", plain(&said))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer means yes if its first line is `y` or `yes`, in any case. Every other answer means no.
    #[test]
    fn answer_is_yes_only_for_y_and_yes() {
        let answer = |text: &str| is_yes(&mut text.as_bytes()).unwrap();
        assert!(answer("y\n") && answer("Yes\r\n") && answer(" YES "));
        assert!(!answer("\n") && !answer("") && !answer("n\ny\n") && !answer("yess\n"));
    }
}
