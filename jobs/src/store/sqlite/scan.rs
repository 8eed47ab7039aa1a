//! A scan of the due jobs of one kind: it skips claimed jobs and jobs with a partition, and sets suspects aside by
//! position.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::claims::Held;
use super::rows::{JobRow, store_error, unreadable_job};
use crate::store::Unreadable;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A scan of one kind, and the next job that a claim may take from it.
pub(super) struct Scan<'a> {
    pub(super) rows: rusqlite::Rows<'a>,
    pub(super) head: Option<Head>,
    /// It has met a job with a partition.
    pub(super) any_part: bool,
}

pub(super) enum Head {
    Due(JobRow),
    /// The next job is due after the latest due time of the claim.
    Later((Millis, JobId)),
}

impl Scan<'_> {
    /// Goes to the next job without a partition that is neither claimed nor a due suspect. Adds the due suspects to
    /// `waiting`, without reading their payloads. A row that cannot be read stays where it is, and does not stop the
    /// scan.
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
                Ok(Found::HasPart) => self.any_part = true,
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

/// How a scan treats a row.
enum Found {
    Held,
    HasPart,
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
    if row.get_ref(PART)? != rusqlite::types::ValueRef::Null {
        return Ok(Found::HasPart);
    }
    match row.get(3)? {
        0 => Ok(Found::Head(Head::Due(JobRow::read(row)?))),
        interruptions => Ok(Found::Suspect(position, interruptions)),
    }
}

/// The column of the partition.
const PART: usize = 10;
