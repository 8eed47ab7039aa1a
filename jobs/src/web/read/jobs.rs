//! Makes the lists of jobs: by state and filter, a page at a time.

use crate::store::Page;
use crate::values::info::JobInfo;
use crate::web::options::Part;
use crate::web::read::query::{Place, Query, State, group_of, query};
use crate::web::read::{MOST_BYTES, MOST_GROUPS, MOST_ROWS, Reader};
use crate::web::redact::{Redactor, cut};
use crate::web::views::job::{Dead, Filter, Group, JobRow, Jobs, Searched};
use crate::web::views::{Number, Problem, Time};

/// How many jobs the store is asked for at once.
const STEP: usize = 256;
/// How many records a page looks at if no search was asked for: jobs that are claimed lie among pending ones.
const MOST_KINDS: usize = 200;
/// The most characters of an error or a progress in a row.
const CELL_CHARS: usize = 200;

/// The part of a list that was read.
struct Found {
    jobs: Vec<JobInfo>,
    /// The place after the last record that was looked at, unless that was the last of the list.
    next: Option<Place>,
    hit_limit: bool,
    records: u64,
}

pub(crate) fn jobs(reader: &Reader<'_>) -> Result<Jobs, Problem> {
    let (now, rows) = (reader.now(), reader.rows()?);
    let wanted = Query::of(reader.params, now)?;
    let place = Place::of(reader.params)?;
    let found = find(reader, &wanted, place, rows)?;
    let total = total(reader, &wanted)?;
    let older = match found.next {
        Some(next) => Some(place.older(&wanted, reader.params, next)?),
        None => None,
    };
    let searched = wanted.is_search().then_some(Searched {
        records: found.records,
        of: records(reader, &wanted)?,
        hit_limit: found.hit_limit,
    });
    let row = |job: &JobInfo| row(job, reader.redactor);
    let first = found.jobs.first().filter(|_| wanted.view.group.is_some());
    let error = first
        .map(|job| reader.redactor.first_line(&job.kind, job.error.as_deref().unwrap_or_default()));
    Ok(Jobs {
        now: Time::new(now.to_system()),
        rows: found.jobs.iter().map(row).collect(),
        total,
        searched,
        older,
        newer: place.newer(&wanted, reader.params)?,
        query: wanted.to_text(),
        changes: wanted.state.changes().to_vec(),
        kinds: {
            let mut kinds = reader.client().kinds()?;
            kinds.sort_unstable();
            kinds.into_iter().take(MOST_KINDS).map(|(kind, _)| kind).collect()
        },
        filter: Filter { error, ..wanted.view },
    })
}

/// Reads the list from a place on, until `rows` jobs are found or the limit of a search is reached.
fn find(reader: &Reader<'_>, wanted: &Query, place: Place, rows: usize) -> Result<Found, Problem> {
    let mut found =
        Found { jobs: Vec::new(), next: None, hit_limit: false, records: place.searched };
    let takes = |job: &JobInfo| wanted.takes(job, reader.redactor);
    let is_alive = !matches!(wanted.state, State::Dead | State::Completed);
    if let Some(key) = wanted.view.key.as_ref().filter(|_| is_alive) {
        found.jobs.extend(reader.client().keyed(key).get()?.filter(takes));
        return Ok(found);
    }
    let (mut after, mut bytes, mut records) = (place.after, 0, 0);
    loop {
        let limit = if wanted.is_search() { STEP } else { rows + 1 };
        let Page { jobs, next } = reader.client().page(wanted.page(after, limit))?;
        for job in jobs {
            if found.jobs.len() == rows {
                found.next = after.map(|after| Place {
                    after: Some(after),
                    searched: if wanted.is_search() { found.records } else { 0 },
                });
                return Ok(found);
            }
            after = Some(wanted.key(&job));
            bytes += job.bytes();
            records += 1;
            found.records = found.records.saturating_add(1);
            if takes(&job) {
                found.jobs.push(job);
            }
            if wanted.is_search() && bytes >= MOST_BYTES {
                found.hit_limit = true;
                found.next = Some(Place { after, searched: found.records });
                return Ok(found);
            }
        }
        let Some(next) = next else { return Ok(found) };
        after = Some(next);
        if records >= reader.most_searched() || bytes >= MOST_BYTES {
            found.hit_limit = true;
            found.next = Some(Place { after, searched: found.records });
            return Ok(found);
        }
    }
}

/// Returns how many jobs the list has, if that is known.
fn total(reader: &Reader<'_>, wanted: &Query) -> Result<Option<Number>, Problem> {
    let view = &wanted.view;
    let by_time = view.from.is_some() || view.to.is_some();
    if wanted.is_search() || by_time || view.key.is_some() || view.kind.is_some() {
        return Ok(None);
    }
    let counts = reader.client().count()?;
    let exact = |count| Some(Number { count, is_exact: true });
    Ok(match wanted.state {
        State::Pending => exact(counts.pending),
        State::Overdue => {
            Some(Number { count: counts.overdue.count, is_exact: counts.overdue.is_exact })
        }
        State::Running => exact(counts.running + counts.claimed),
        State::Dead => exact(counts.dead),
        State::Retrying | State::Completed => None,
    })
}

/// Returns how many records a search has to read at most, if that is known.
fn records(reader: &Reader<'_>, wanted: &Query) -> Result<Option<u64>, Problem> {
    if !wanted.is_search() || wanted.view.kind.is_some() {
        return Ok(None);
    }
    let counts = reader.client().count()?;
    Ok(match wanted.state {
        State::Pending | State::Retrying => Some(counts.pending + counts.claimed + counts.running),
        State::Dead => Some(counts.dead),
        State::Overdue | State::Running | State::Completed => None,
    })
}

pub(crate) fn row(job: &JobInfo, redactor: Redactor<'_>) -> JobRow {
    let progress =
        |bytes: &Vec<u8>| cut(&redactor.line(&job.kind, Part::Progress, bytes), CELL_CHARS).0;
    let error = |error: &String| cut(&redactor.first_line(&job.kind, error), CELL_CHARS).0;
    JobRow {
        id: job.id.to_string(),
        kind: job.kind.clone(),
        state: job.state.word(),
        due: Time::new(job.due),
        key: job.key.clone(),
        failures: job.failures,
        attempt: job.attempt,
        interruptions: job.interruptions,
        error: job.error.as_ref().map(error),
        claimed: job.claimed.map(Time::new),
        ended: job.ended.map(Time::new),
        took_ms: job.took.map(|took| took.as_millis() as u64),
        progress: job.progress.as_ref().map(progress),
    }
}

/// Makes the groups of the dead jobs.
pub(crate) fn dead(reader: &Reader<'_>) -> Result<Dead, Problem> {
    let (client, rows) = (reader.client(), reader.rows()?);
    let stored = client.dead_by_error(MOST_GROUPS)?;
    let is_whole = stored.len() < MOST_GROUPS;
    let mut groups: Vec<Group> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for group in stored {
        let error = reader.redactor.first_line(&group.kind, &group.error);
        let at = *places.entry((group.kind.clone(), error.clone())).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(there) => there.jobs += group.jobs,
            None => {
                let name = group_of(&group.kind, &error);
                let (kind, jobs) = (group.kind, group.jobs);
                let pairs = [("state", "dead"), ("kind", &kind), ("group", &name)];
                let query = query(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                groups.push(Group { group: name, kind, error, jobs, query });
            }
        }
    }
    groups.sort_by_key(|group| core::cmp::Reverse(group.jobs));
    let has_more = !is_whole || groups.len() > rows;
    groups.truncate(rows.min(MOST_ROWS));
    let (now, total) = (Time::new(reader.now().to_system()), client.count()?.dead);
    Ok(Dead { now, total, groups, has_more })
}
