//! A scan of the due jobs of one kind: it passes over what is claimed, and files suspects by position.

use std::collections::{BTreeMap, HashMap};

use super::claims::Held;
use super::rows::{JobRow, store_error, unreadable_job};
use crate::store::Unreadable;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A scan of one kind, and the first job of it that is not taken.
pub(super) struct Scan<'a> {
    pub(super) rows: rusqlite::Rows<'a>,
    pub(super) head: Option<Head>,
}

pub(super) enum Head {
    Due(JobRow),
    /// The next job is due later than what is claimed.
    Later((Millis, JobId)),
}

impl Scan<'_> {
    /// Goes to the next job that is not claimed and no due suspect. Such suspects wait: of them the
    /// payloads are not read. What cannot be read stays where it is, and costs no other.
    pub(super) fn advance(
        &mut self,
        held: &HashMap<JobId, Held>,
        waiting: &mut BTreeMap<(Millis, JobId), u32>,
        until: Millis,
        unreadable: &mut Vec<Unreadable>,
    ) -> Result<(), StoreError> {
        self.head = loop {
            let Some(row) = self.rows.next().map_err(store_error)? else { break None };
            match read(row, held, until) {
                Ok(Found::Held) => {}
                Ok(Found::Head(head)) => break Some(head),
                Ok(Found::Suspect(position, interruptions)) => {
                    waiting.insert(position, interruptions);
                }
                Err(error) => unreadable.push(unreadable_job(row, error)),
            }
        };
        Ok(())
    }
}

/// What a row is to a scan.
enum Found {
    Held,
    Head(Head),
    Suspect((Millis, JobId), u32),
}

fn read(
    row: &rusqlite::Row<'_>,
    held: &HashMap<JobId, Held>,
    until: Millis,
) -> rusqlite::Result<Found> {
    let position = JobRow::read_position(row)?;
    if held.contains_key(&position.1) {
        return Ok(Found::Held);
    }
    if position.0 > until {
        return Ok(Found::Head(Head::Later(position)));
    }
    match row.get(3)? {
        0 => Ok(Found::Head(Head::Due(JobRow::read(row)?))),
        interruptions => Ok(Found::Suspect(position, interruptions)),
    }
}
