//! The check of the groups of a file: compares each group with its members.

use foldhash::{HashMap, HashSet};
use rusqlite::Row;

use super::groups::{GroupRow, group_at, group_in};
use super::rows::id_of;
use super::tables::Tables;
use crate::values::error::Violation;
use crate::values::group::GroupId;
use crate::values::id::JobId;

/// G1: the counts of each group equal its members.
pub(super) fn check_groups(tables: Tables<'_>) -> Result<(), Violation> {
    if !tables.has_groups()? {
        return Ok(());
    }
    let wrong = |what: String| Err(Violation(format!("G1: {what}")));
    let sql = &tables.sql.groups;
    let pair = |row: &Row<'_>| Ok((group_at(row, 0)?, id_of(row, 1)?));
    let read = |row: &Row<'_>| Ok((id_of(row, 0)?, row.get::<_, Vec<u8>>(1)?));
    let mut alive = tables.all(&sql.all_extras, [], read)?;
    if tables.sql.has_lanes.get() {
        alive.extend(tables.all(&sql.all_extras_of_lane, [], read)?);
    }
    let of = |(id, extra): (JobId, Vec<u8>)| Some((group_in(Some(&extra))?, id));
    let alive: HashSet<(GroupId, JobId)> = alive.into_iter().filter_map(of).collect();
    let mut dead: HashMap<GroupId, u64> = HashMap::default();
    let all_dead = tables.all(&sql.all_extras_of_dead, [], read)?;
    for (of, _) in all_dead.into_iter().filter_map(of) {
        *dead.entry(of).or_default() += 1;
    }
    let callbacks = tables.all(&sql.all_callbacks, [], pair)?;
    let to_come: HashSet<JobId> = callbacks.iter().map(|(_, id)| *id).collect();
    for (of, id) in &callbacks {
        if !tables.has_ended(*id)? {
            return wrong(format!("the id of {id}, the callback of {of}, is free"));
        }
    }
    let members: HashSet<(GroupId, JobId)> =
        tables.all(&sql.all_members, [], pair)?.into_iter().collect();
    if let Some((of, id)) = alive.difference(&members).next() {
        return wrong(format!("{id} is not among the members of {of}"));
    }
    if let Some((of, id)) = members.difference(&alive).find(|(_, id)| !to_come.contains(id)) {
        return wrong(format!("{id} of {of} is gone"));
    }
    for group in tables.all(&sql.all_groups, [], GroupRow::read)? {
        let (id, tally) = (group.id, group.tally);
        let open = members.iter().filter(|(of, _)| *of == id).count() as u64;
        if tally.total != open + tally.completed + tally.dead + tally.cancelled {
            return wrong(format!("{id} has {open} open members, and counts {tally:?}"));
        }
        let its_dead = dead.remove(&id).unwrap_or_default();
        if its_dead != tally.dead_left || tally.ended.is_none() && its_dead != tally.dead {
            return wrong(format!("{id} has {its_dead} dead members, and counts {tally:?}"));
        }
        let has_callback = callbacks.iter().any(|(of, _)| *of == id);
        if tally.is_over() || has_callback != (tally.ended.is_none() && group.callback.is_some()) {
            return wrong(format!("{id} has a callback to insert: {has_callback}, {tally:?}"));
        }
    }
    match dead.keys().next() {
        Some(id) => wrong(format!("a dead job names {id}, which is gone")),
        None => Ok(()),
    }
}
