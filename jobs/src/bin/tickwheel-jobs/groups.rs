//! The commands about groups of jobs: `groups`, `seal-group`, `cancel-group`.

use std::error::Error;
use std::io::Write;

use tickwheel_jobs::{Client, GroupError, GroupId, GroupInfo, StoreError};

use crate::text::{now, relative, shown, zone_name};
use crate::{Outcome, rows, text};

/// Lists the groups, those that were made last first.
pub(crate) fn groups(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (groups, now) = (client.groups()?, now());
    if json {
        for group in &groups {
            writeln!(out, "{}", text::json(group)?)?;
        }
        return Ok(Outcome::Done);
    }
    let made = format!("MADE ({})", zone_name());
    let head = ["ID", &made, "STATE", "TOTAL", "OPEN", "COMPLETED", "DEAD", "CANCELLED"];
    let row = |group: &GroupInfo| {
        let counts = [group.total, group.open, group.completed, group.dead, group.cancelled];
        let state = match group.ended {
            Some(ended) => format!("ended {}", relative(ended, now)),
            None => state(group).to_owned(),
        };
        let row = [group.id.to_string(), shown(group.made), state];
        row.into_iter().chain(counts.map(|count| count.to_string())).collect()
    };
    rows::table(&head, groups.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

/// Returns the state of a group that has not ended.
pub(crate) fn state(group: &GroupInfo) -> &'static str {
    match group {
        GroupInfo { is_cancelled: true, .. } => "cancelled",
        GroupInfo { is_sealed: false, .. } => "open",
        GroupInfo { open: 0, waits_for_the_dead: true, .. } => "waits for the dead",
        _ => "sealed",
    }
}

/// Seals a group.
pub(crate) fn seal(
    client: &Client,
    id: GroupId,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    match client.group_by_id(id).seal() {
        Ok(true) => writeln!(out, "{id} is sealed")?,
        Ok(false) => writeln!(out, "{id} was sealed before")?,
        Err(error) => return missed(id, error),
    }
    Ok(Outcome::Done)
}

/// Cancels a group and its pending members.
pub(crate) fn cancel(
    client: &Client,
    id: GroupId,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let counts = match client.group_by_id(id).cancel() {
        Ok(counts) => counts,
        Err(error) => return missed(id, error),
    };
    writeln!(
        out,
        "{id} is cancelled: {} pending jobs with it, {} runs were asked to stop",
        counts.changed, counts.asked_to_stop
    )?;
    Ok(Outcome::Done)
}

/// Prints why a group was not changed.
fn missed(id: GroupId, error: StoreError) -> Result<Outcome, Box<dyn Error>> {
    match error {
        StoreError::Group(error @ (GroupError::Unknown | GroupError::Ended)) => {
            eprintln!("tickwheel-jobs: {id}: {error}");
            Ok(Outcome::Missed)
        }
        error => Err(error.into()),
    }
}
