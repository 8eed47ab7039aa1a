//! A scan of the due jobs of one kind: it passes over what is claimed, and files suspects by position.

use std::collections::{BTreeMap, HashMap};

use super::claims::Held;
use super::rows::{JobRow, store_error};
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
    /// payloads are not read.
    pub(super) fn advance(
        &mut self,
        held: &HashMap<JobId, Held>,
        waiting: &mut BTreeMap<(Millis, JobId), u32>,
        until: Millis,
    ) -> Result<(), StoreError> {
        self.head = loop {
            let Some(row) = self.rows.next().map_err(store_error)? else { break None };
            let position = JobRow::read_position(row).map_err(store_error)?;
            if held.contains_key(&position.1) {
                continue;
            }
            if position.0 > until {
                break Some(Head::Later(position));
            }
            let interruptions: u32 = row.get(3).map_err(store_error)?;
            if interruptions == 0 {
                break Some(Head::Due(JobRow::read(row).map_err(store_error)?));
            }
            waiting.insert(position, interruptions);
        };
        Ok(())
    }
}
