//! The check of a file: reads every row and compares the tables with each other.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};
use rusqlite::Row;
use rusqlite::types::Value;

use super::groups::check_groups;
use super::kept::EndedSeen;
use super::schema::{KindCounts, KindRow, Place, Table, hour_of, id_of, millis_of};
use super::sql::{ALL_PROGRESS, CANCEL_REQUESTS, DEAD_BY_ERROR};
use super::state::State;
use super::statement::first_unreadable;
use super::tables::Tables;
use crate::store::Ending;
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::time::Millis;

struct Seen {
    place: Place,
    failures: u32,
    key: Option<String>,
}

/// Compares all tables of a queue.
///
/// | | invariant |
/// | --- | --- |
/// | F1 | SQLite's own check finds no damage in pages, cells and indexes of the queue's tables |
/// | F2 | every job has a kind with a name; each kind counts its jobs correctly, those that have ended too; and so does each group of `dead_by_error` |
/// | F3 | every job is found by its id, and no two jobs have one id |
/// | F4 | a row of `moved` belongs to a job whose id does not lead to its place |
/// | F5 | every key names one job, which has that key, and every job's key names that job |
/// | F6 | no job that is alive has a row of `ended`, and its id is not remembered |
/// | F7 | every job of `later` is in its own hour, which is after the last hour that is in `job` |
/// | F8 | every claim of this process is in the file, for a job that exists, or that a transaction of the caller has ended |
/// | F9 | a row of `cancel_requested` names a claimed job: claimed by this process, if it runs the jobs |
/// | F10 | every row of a pending or claimed job can be read |
/// | F11 | every row of `outbox` is a job that a statement has added |
/// | F12 | a row of `progress` belongs to a claimed job, as a row of `cancel_requested` does |
/// | F13 | each job of the table of lanes that is not claimed is in a lane that this process knows, if it runs the jobs; a limited scope has the claims of its jobs |
/// | F14 | every kept job is in one list, of its kind, its ending and the time of its end, which counts its bytes; every list has kept jobs alone; and the id of no kept job is remembered besides |
/// | G1 | the counts of each group equal its members, and a group that is over has ended |
pub(crate) fn check(tables: Tables<'_>, state: &State) -> Result<(), Violation> {
    // One transaction, which reads all tables as of one moment.
    tables.execute("BEGIN", [])?;
    let found = compare(tables, state);
    tables.execute("ROLLBACK", [])?;
    found
}

fn compare(tables: Tables<'_>, state: &State) -> Result<(), Violation> {
    if let Some(report) = tables.damage("integrity_check")? {
        return Err(Violation(format!("F1: {report}")));
    }

    let kinds = tables.kinds()?;
    tables.look_for_lanes()?;
    let mut jobs = Vec::new();
    for table in Table::ALL {
        let read = |row: &Row<'_>| {
            Ok(seen(row, table).map_err(|error| (row.get(2).unwrap_or(Value::Null), error)))
        };
        jobs.extend(readable(tables.whole(
            (
                table,
                "SELECT kind, due, id, callers_id, key, failures, interruptions, attempts, \
             typeof(errors), typeof(payload) FROM {table}",
            ),
            read,
        )?)?);
    }
    hours(tables)?;
    let ended = tables.all_ended()?;
    counts(tables, &kinds, &jobs, &ended)?;
    ids(tables, &kinds, &jobs)?;
    keys(tables, &jobs)?;
    tables.lists_agree(&ended)?;
    claims_agree(tables, &kinds, state)?;
    state.lanes_agree(tables)?;
    check_groups(tables)?;
    let unreadable = first_unreadable(tables)?;
    ensure(unreadable.is_none(), || format!("F11: row {unreadable:?} of the outbox is no job"))
}

fn hours(tables: Tables<'_>) -> Result<(), Violation> {
    let last = tables.hour()?;
    let later = tables.whole("SELECT id, due, hour FROM {p}later", |row| {
        Ok((id_of(row, 0)?, millis_of(row, 1)?, row.get::<_, i64>(2)?))
    })?;
    for (id, due, hour) in later {
        let of = hour_of(due);
        ensure(of == hour && hour > last, || {
            format!("F7: {id} is due in hour {of}, and filed in {hour}, after {last}")
        })?;
    }
    Ok(())
}

/// The part of the check that only the process which runs the jobs can do: F8 and F13, and F9 and F12 by its own
/// claims.
pub(crate) fn check_claims(tables: Tables<'_>, state: &State) -> Result<(), Violation> {
    tables.execute("BEGIN", [])?;
    let found = tables.kinds().map_err(Violation::from);
    let found = found.and_then(|kinds| claims_agree(tables, &kinds, state));
    let found = found.and_then(|()| state.lanes_agree(tables));
    tables.execute("ROLLBACK", [])?;
    found
}

fn claims_agree(tables: Tables<'_>, kinds: &[KindRow], state: &State) -> Result<(), Violation> {
    let claims = &state.claims;
    let in_file: HashSet<JobId> = tables.claims()?.into_iter().map(|(id, _)| id).collect();
    for id in claims.held.keys() {
        ensure(in_file.contains(id), || format!("F8: the claim of {id} is not in the file"))?;
        let is_there = tables.find(kinds, *id)?.is_some() || state.ended_in.has(*id);
        ensure(is_there, || format!("F8: {id} is claimed, and there is no such job"))?;
    }
    let is_claimed = |id: JobId| {
        let is_claimed = match claims.runner {
            true => claims.held.contains_key(&id),
            false => in_file.contains(&id),
        };
        Ok::<bool, StoreError>(is_claimed && tables.find(kinds, id)?.is_some())
    };
    for id in tables.ids(CANCEL_REQUESTS)? {
        ensure(is_claimed(id)?, || {
            format!("F9: a cancel of {id} is requested, and no process has claimed the job")
        })?;
    }
    for id in tables.ids(ALL_PROGRESS)? {
        ensure(is_claimed(id)?, || {
            format!("F12: {id} has progress, and no process has claimed the job")
        })?;
    }
    Ok(())
}

/// Returns the rows, or a violation that names the first one that cannot be read.
fn readable<T>(rows: Vec<Result<T, (Value, rusqlite::Error)>>) -> Result<Vec<T>, Violation> {
    let named = |(id, error): (Value, rusqlite::Error)| {
        let id = match id {
            Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            other => format!("{other:?}"),
        };
        Violation(format!("F10: job {id} cannot be read: {error}"))
    };
    rows.into_iter().map(|row| row.map_err(named)).collect()
}

fn seen(row: &Row<'_>, table: Table) -> rusqlite::Result<Seen> {
    let (due, id) = (millis_of(row, 1)?, id_of(row, 2)?);
    for count in 5..8 {
        let _: u32 = row.get(count)?;
    }
    let (errors, payload): (String, String) = (row.get(8)?, row.get(9)?);
    if !matches!(&*errors, "null" | "text") || payload != "blob" {
        let what = format!("errors that are {errors}, a payload that is {payload}");
        return Err(rusqlite::Error::InvalidColumnName(what));
    }
    let place = Place { kind: row.get(0)?, due, id, table };
    let _: bool = row.get(3)?;
    Ok(Seen { place, failures: row.get(5)?, key: row.get(4)? })
}

fn counts(
    tables: Tables<'_>,
    kinds: &[KindRow],
    jobs: &[Seen],
    ended: &[EndedSeen],
) -> Result<(), Violation> {
    let mut counted: HashMap<i64, KindCounts> = HashMap::default();
    for job in jobs {
        counted.entry(job.place.kind).or_default().add(KindCounts::of_job(job.failures));
    }
    let mut groups: BTreeMap<(i64, String), i64> = BTreeMap::new();
    for row in ended {
        let its = KindCounts::of_ended(row.ending, row.job.bytes);
        counted.entry(row.kind).or_default().add(its);
        if row.ending == Ending::Dead {
            *groups.entry((row.kind, row.error.clone())).or_default() += 1;
        }
    }
    for kind in kinds {
        let found = counted.remove(&kind.n).unwrap_or_default();
        ensure(found == kind.counts, || {
            format!("F2: kind {:?} counts {:?} and has {found:?}", kind.name, kind.counts)
        })?;
    }
    ensure(counted.is_empty(), || format!("F2: jobs of kinds without a name: {counted:?}"))?;
    let stored =
        tables.all(DEAD_BY_ERROR, [-1], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    let stored: BTreeMap<(i64, String), i64> = stored.into_iter().collect();
    ensure(stored == groups, || format!("F2: dead jobs by error: {stored:?}, not {groups:?}"))
}

fn ids(tables: Tables<'_>, kinds: &[KindRow], jobs: &[Seen]) -> Result<(), Violation> {
    let mut seen = HashSet::default();
    for job in jobs {
        let Place { id, due, kind, .. } = job.place;
        ensure(seen.insert(id), || format!("F3: two jobs have the id {id}"))?;
        let found = tables.find(kinds, id)?;
        ensure(found == Some(job.place), || {
            format!("F3: {id} is of kind {kind} at {}, and is looked for at {found:?}", due.get())
        })?;
        ensure(!tables.has_ended(id)?, || format!("F6: {id} is alive, and has ended"))?;
    }
    let moved = tables.whole("SELECT id, kind, due FROM {p}moved", |row| {
        Ok((id_of(row, 0)?, row.get::<_, i64>(1)?, row.get(2)?))
    })?;
    for (id, kind, due) in moved {
        let due = Millis::clamped(due);
        let name = kinds.iter().find(|row| row.n == kind).map_or("", |row| &row.name);
        ensure(seen.contains(&id), || format!("F4: {id} has moved, and there is no such job"))?;
        ensure(!id.hints_at(name, due), || {
            format!("F4: {id} has a row in moved, and does not need one")
        })?;
    }
    Ok(())
}

fn keys(tables: Tables<'_>, jobs: &[Seen]) -> Result<(), Violation> {
    let rows = tables.whole("SELECT name, id FROM {p}key", |row| {
        Ok((row.get::<_, String>(0)?, id_of(row, 1)?))
    })?;
    let mut named: HashMap<String, JobId> = rows.into_iter().collect();
    for job in jobs {
        let Some(key) = &job.key else { continue };
        let holder = named.remove(key);
        ensure(holder == Some(job.place.id), || {
            format!("F5: {} has the key {key:?}, which names {holder:?}", job.place.id)
        })?;
    }
    ensure(named.is_empty(), || format!("F5: keys of no job: {named:?}"))
}

fn ensure(holds: bool, violation: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(violation())) }
}
