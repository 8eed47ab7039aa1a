//! The changes of `--all`: every job that the filters choose, at most 256 jobs a commit.

use std::collections::HashSet;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tickwheel_jobs::{BulkCounts, Client, JobId, JobInfo, Pages, StoreError};

use crate::Outcome;
use crate::args::Selection;
use crate::confirm::confirm;
use crate::edit::{Change, MOST_LISTED, list, unchanged};
use crate::find;
use crate::text::{json, now, plain};

/// How often a long change prints how far it is.
const PROGRESS: Duration = Duration::from_secs(1);

/// Changes every job that the filters choose.
pub(crate) fn change_all(
    client: &Client,
    jobs: &Selection,
    change: &Change,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let filter = &jobs.filter;
    find::check_kind(client, filter.kind.as_deref())?;
    // A time from now on means the same in each list.
    let times = find::times(filter);
    let pages = || {
        let pages = if change.is_for_dead() { client.dead() } else { client.pending() };
        find::narrowed(pages, filter, times)
    };
    let (mut chosen, mut listed) = (HashSet::new(), Vec::new());
    each(pages(), |job| {
        if find::takes(filter, &job) && chosen.insert(job.id) && listed.len() < MOST_LISTED {
            listed.push(job);
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
    let chosen = Arc::new(chosen);
    let counts = run(client, pages(), change, &chosen)?;
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
        each(pages(), |job| tell_key(client, &chosen, &job))?;
        return Ok(Outcome::Missed);
    }
    Ok(if changed == 0 { Outcome::Missed } else { Outcome::Done })
}

/// Makes the change, and prints how far it is if that takes long.
fn run(
    client: &Client,
    pages: Pages,
    change: &Change,
    chosen: &Arc<HashSet<JobId>>,
) -> Result<BulkCounts, Box<dyn Error>> {
    let bulk = match change {
        Change::Cancel => pages.cancel_all(),
        Change::Reschedule(to) => pages.reschedule_all(*to),
        Change::Retry => pages.retry_all(),
        Change::Delete => pages.delete_all(),
    };
    let (ids, many) = (Arc::clone(chosen), chosen.len());
    let mut bulk = bulk?.only(move |job| ids.contains(&job.id));
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

/// Calls `with` for each job of the pages.
fn each(
    mut pages: Pages,
    mut with: impl FnMut(JobInfo) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for job in pages.by_ref() {
        with(job)?;
    }
    pages.error().map_or(Ok(()), |error| Err(error.clone()))
}

/// If the dead job was chosen, prints which job has its key.
fn tell_key(client: &Client, chosen: &HashSet<JobId>, job: &JobInfo) -> Result<(), StoreError> {
    let JobInfo { id, key: Some(key), .. } = job else { return Ok(()) };
    if chosen.contains(id)
        && let Some(by) = client.keyed(key).get()?
    {
        let (key, by) = (plain(key), by.id);
        eprintln!("tickwheel-jobs: {id} stays dead: its key {key} belongs to {by} now");
    }
    Ok(())
}
