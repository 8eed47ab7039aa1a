//! Makes the list of the groups.

use crate::values::group::GroupInfo;
use crate::web::read::Reader;
use crate::web::views::groups::{GroupRow, Groups};
use crate::web::views::{Problem, Time};

/// Lists the groups that were made last.
pub(crate) fn groups(reader: &Reader<'_>) -> Result<Groups, Problem> {
    let rows = reader.rows()?;
    // One more tells whether there are more.
    let mut found = reader.client().latest_groups(rows + 1)?;
    let has_more = found.len() > rows;
    found.truncate(rows);
    Ok(Groups {
        now: Time::new(reader.now().to_system()),
        rows: found.iter().map(row).collect(),
        has_more,
    })
}

fn row(group: &GroupInfo) -> GroupRow {
    GroupRow {
        id: group.id.to_string(),
        made: Time::new(group.made),
        ended: group.ended.map(Time::new),
        state: match group {
            GroupInfo { ended: Some(_), .. } => "ended",
            GroupInfo { is_cancelled: true, .. } => "cancelled",
            GroupInfo { is_sealed: false, .. } => "open",
            GroupInfo { open: 0, waits_for_the_dead: true, .. } => "waits_for_the_dead",
            _ => "sealed",
        },
        total: group.total,
        open: group.open,
        completed: group.completed,
        dead: group.dead,
        cancelled: group.cancelled,
        waits_for_the_dead: group.waits_for_the_dead,
        callback: group.callback.map(|id| id.to_string()),
    }
}
