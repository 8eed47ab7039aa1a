//! Finds jobs by an id, the beginning of an id, a key, or a filter.
//!
//! Ground rules:
//!
//! - The store has no index by the beginning of an id. So the command reads all jobs: pending, then running,
//!   then dead ones, since a job moves in this order. A job that moves back meanwhile may be missed.
//! - A text that finds no job may be a URL with a password, in the wrong place. So it is not quoted if it
//!   looks like a URL.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickwheel_jobs::{Client, JobId, JobInfo, Pages, ScheduleInfo, StoreError};

use crate::args::Filter;
use crate::open::ServerUrl;
use crate::text::{Moment, plain, quoted};
use crate::{Answer, Outcome};

/// The end of the year 9999.
const LATEST: Duration = Duration::from_millis(253_402_300_799_999);

const MOST_LISTED: usize = 10;

const ID_DIGITS: usize = 32;

/// Returns the first and the last due time that the filter lets through.
pub(crate) fn times(filter: &Filter) -> (SystemTime, SystemTime) {
    let from = filter.from.map_or(UNIX_EPOCH, Moment::resolve);
    (from, filter.to.map_or(UNIX_EPOCH + LATEST, Moment::resolve))
}

/// Returns the pages, filtered as far as the store itself can filter.
pub(crate) fn narrowed(
    pages: Pages,
    filter: &Filter,
    (from, to): (SystemTime, SystemTime),
) -> Pages {
    let pages = pages.between(from, to);
    match &filter.kind {
        Some(kind) => pages.kind_named(kind),
        None => pages,
    }
}

/// Says whether the rest of the filter lets a job of narrowed pages through.
pub(crate) fn takes(filter: &Filter, job: &JobInfo) -> bool {
    let has = |text: &String| job.error.as_ref().is_some_and(|error| error.contains(text));
    filter.key.as_ref().is_none_or(|key| job.key.as_ref() == Some(key))
        && filter.error.as_ref().is_none_or(has)
}

pub(crate) fn no_schedule(name: &str, schedules: &[ScheduleInfo]) -> Outcome {
    let names: Vec<String> = schedules.iter().map(|schedule| schedule.name.clone()).collect();
    let (name, known) = (quotable(name), quoted(&names));
    eprintln!("tickwheel-jobs: there is no schedule {name}; there is {}", plain(&known));
    Outcome::Missed
}

/// Refuses a kind that the store has never had. Otherwise a typing error would look like a kind without jobs.
pub(crate) fn check_kind(client: &Client, kind: Option<&str>) -> Answer<()> {
    let Some(kind) = kind else { return Ok(()) };
    let kinds: Vec<String> = client.queue().kinds()?.into_iter().map(|(name, _)| name).collect();
    if kinds.iter().any(|name| name == kind) {
        return Ok(());
    }
    Err(format!("there is no kind {}; there is {}", quotable(kind), quoted(&kinds)).into())
}

/// Returns a text of the command line as it may be printed: quoted, or only the scheme if it is a URL.
pub(crate) fn quotable(text: &str) -> String {
    match ServerUrl::parse(text) {
        Some(url) => url.printable(),
        None => format!("{text:?}"),
    }
}

/// Returns the id that a text means: the text is a whole id, or the beginning of the id of one job. If there is no
/// such job, prints that and returns `None`.
pub(crate) fn id(client: &Client, text: &str) -> Answer<Option<JobId>> {
    if let Ok(id) = text.parse() {
        return Ok(Some(id));
    }
    let Some(beginning) = beginning(text) else {
        let text = quotable(text);
        let is = format!("{ID_DIGITS} hexadecimal digits, or the first of them");
        return Err(format!("{text} is not the id of a job: that is {is}").into());
    };
    let begins = |job: &JobInfo| job.id.to_string().starts_with(&beginning);
    let pages = [client.pending(), client.running(), client.dead()];
    let found = only(text, search(pages, begins)?)?;
    if found.is_none() {
        eprintln!("tickwheel-jobs: there is no job whose id begins with {text}");
    }
    Ok(found.map(|job| job.id))
}

/// Returns a job by its id, its key, or the beginning of its id. The pending job of a key goes before every other
/// job that a short text may mean. If there is no such job, prints that and returns `None`.
pub(crate) fn job(client: &Client, text: &str) -> Answer<Option<JobInfo>> {
    if let Ok(id) = text.parse::<JobId>()
        && let Some(job) = client.get(id)?
    {
        return Ok(Some(job));
    }
    match client.keyed(text).get() {
        Ok(Some(job)) => return Ok(Some(job)),
        // No key has the text, or it is too long for a key.
        Ok(None) | Err(StoreError::Invalid(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let beginning = beginning(text);
    let means = |job: &JobInfo| {
        job.key.as_deref() == Some(text)
            || beginning.as_ref().is_some_and(|digits| job.id.to_string().starts_with(digits))
    };
    let (running, dead) = (client.running(), client.dead());
    let found = match &beginning {
        Some(_) => search([client.pending(), running, dead], means)?,
        None => search([running, dead], means)?,
    };
    let found = only(text, found)?;
    if found.is_none() {
        let text = match text.parse::<JobId>() {
            Ok(id) => format!("job {id}"),
            Err(_) => format!("job with the id or the key {}", quotable(text)),
        };
        let text = plain(&text);
        eprintln!("tickwheel-jobs: there is no {text}: it is done, was cancelled, or never was");
    }
    Ok(found)
}

/// Returns the text as the first digits of an id, if it has only such digits and is too short for an id.
fn beginning(text: &str) -> Option<String> {
    let is_short = (1..ID_DIGITS).contains(&text.len());
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_short && is_hex).then(|| text.to_ascii_lowercase())
}

/// Returns the jobs for which `means` holds, each once, and at most one more than [`MOST_LISTED`].
fn search<const N: usize>(
    sets: [Pages; N],
    means: impl Fn(&JobInfo) -> bool,
) -> Result<Vec<JobInfo>, StoreError> {
    let mut found: Vec<JobInfo> = Vec::new();
    for mut pages in sets {
        for job in pages.by_ref().filter(|job| means(job)) {
            if found.iter().all(|known| known.id != job.id) {
                found.push(job);
            }
            if found.len() > MOST_LISTED {
                return Ok(found);
            }
        }
        if let Some(error) = pages.error() {
            return Err(error.clone());
        }
    }
    Ok(found)
}

/// Returns the one job that was found. If there are several, lists them and fails.
fn only(text: &str, mut found: Vec<JobInfo>) -> Answer<Option<JobInfo>> {
    if found.len() < 2 {
        return Ok(found.pop());
    }
    for JobInfo { id, kind, state, key, .. } in found.iter().take(MOST_LISTED) {
        let key = key.as_ref().map_or(String::new(), |key| format!("  {key}"));
        eprintln!("  {id}  {state}  {}{}", plain(kind), plain(&key));
    }
    let more = if found.len() > MOST_LISTED { ", and more" } else { "" };
    let text = quotable(text);
    Err(format!("{text} may be any of the jobs above{more}: the whole id tells them apart").into())
}
