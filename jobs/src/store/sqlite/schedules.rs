//! Schedules of repeated jobs, and their occurrences.

use rusqlite::params;

use super::State;
use super::tables::Tables;
use crate::store::words::{NewJob, NewSchedule};
use crate::values::error::StoreError;
use crate::values::time::Millis;

impl State {
    pub(super) fn put_schedule(
        &mut self,
        tables: Tables<'_>,
        new: &NewSchedule,
    ) -> Result<bool, StoreError> {
        let kind = self.kind(tables, &new.kind)?;
        let rule = new.schedule.rule.to_text();
        let known = tables.schedule(&new.name)?;
        let same = known.filter(|(of, stored, _)| *of == kind.n && *stored == rule);
        let next = same.as_ref().map_or(new.first, |(_, _, next)| *next);
        tables.put_schedule(kind.n, new, next)?;
        Ok(same.is_none())
    }

    pub(super) fn occur(
        &mut self,
        tables: Tables<'_>,
        name: &str,
        expected: Millis,
        jobs: &[NewJob],
        next: Option<Millis>,
        now: Millis,
    ) -> Result<bool, StoreError> {
        match tables.schedule(name)? {
            Some((_, _, stored)) if stored == expected => {}
            _ => return Ok(false),
        }
        for job in jobs {
            self.insert(tables, job, now)?;
        }
        match next {
            Some(next) => tables.execute(&tables.sql.move_schedule, params![name, next.get()])?,
            None => tables.execute(&tables.sql.drop_schedule, [name])?,
        };
        Ok(true)
    }
}
