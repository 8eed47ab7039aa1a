//! Schedules, and their occurrences.

use rusqlite::{Row, params};

use super::State;
use super::schema::{millis_of, schedule_of, store_error};
use super::sql::{DROP_SETTING, PUT_SETTING};
use super::tables::Tables;
use crate::store::{Answer, NewJob, NewSchedule, StoredSchedule, Unreadable};
use crate::values::error::StoreError;
use crate::values::setting;
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
        let choices = new.schedule.choices();
        tables.execute(
            "INSERT OR REPLACE INTO {p}schedule VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![new.name, kind.n, rule, choices, next.get(), new.payload],
        )?;
        Ok(same.is_none())
    }

    /// Returns the schedules that can be read. The others are reported as unreadable.
    pub(super) fn schedules(
        &mut self,
        tables: Tables<'_>,
    ) -> Result<Vec<StoredSchedule>, StoreError> {
        let State { kinds, unreadable, .. } = self;
        let read = |row: &Row<'_>| {
            let schedule = schedule_of(row, kinds).map_err(|error| {
                let name: String = row.get(0).unwrap_or_default();
                Unreadable { what: format!("schedule {name:?}"), error: store_error(error) }
            });
            Ok(schedule.map_err(|error| unreadable.push(error)).ok())
        };
        let schedules = tables.all(
            "SELECT name, kind, rule, missed, next, payload FROM {p}schedule ORDER BY name",
            [],
            read,
        )?;
        Ok(schedules.into_iter().flatten().collect())
    }

    pub(super) fn occur(
        &mut self,
        tables: Tables<'_>,
        name: &str,
        expected: Millis,
        jobs: &[NewJob],
        next: Option<Millis>,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        match tables.schedule(name)? {
            Some((_, _, stored)) if stored == expected => {}
            _ => return Ok(Answer::Changed(false)),
        }
        let inserted = self.insert_many(tables, jobs, None, now)?;
        tables.move_schedule(name, next)?;
        Ok(inserted)
    }
}

impl Tables<'_> {
    /// Removes a schedule and its pause. Returns whether there was one.
    pub(super) fn drop_schedule(&self, name: &str) -> Result<bool, StoreError> {
        self.drop_pause(name)?;
        Ok(self.execute("DELETE FROM {p}schedule WHERE name = ?1", [name])? > 0)
    }

    /// Pauses a schedule. Returns whether there is one.
    pub(super) fn pause_schedule(&self, name: &str, at: Millis) -> Result<bool, StoreError> {
        if self.schedule(name)?.is_none() {
            return Ok(false);
        }
        let value = at.get().to_string();
        self.execute(PUT_SETTING, [setting::schedule_pause_setting(name), value])?;
        Ok(true)
    }

    /// Ends a pause. Returns whether the schedule was paused, with this next occurrence.
    pub(super) fn resume_schedule(
        &self,
        name: &str,
        expected: Millis,
        next: Option<Millis>,
    ) -> Result<bool, StoreError> {
        let stored = self.schedule(name)?.map(|(_, _, stored)| stored);
        if stored != Some(expected) || !self.drop_pause(name)? {
            return Ok(false);
        }
        self.move_schedule(name, next)?;
        Ok(true)
    }

    /// Sets the next occurrence of a schedule, or removes the schedule if it has none.
    fn move_schedule(&self, name: &str, next: Option<Millis>) -> Result<(), StoreError> {
        match next {
            Some(next) => self
                .execute(
                    "UPDATE {p}schedule SET next = ?2 WHERE name = ?1",
                    params![name, next.get()],
                )
                .map(drop),
            None => self.drop_schedule(name).map(drop),
        }
    }

    /// Removes the pause of a schedule. Returns whether it had one.
    fn drop_pause(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.execute(DROP_SETTING, [setting::schedule_pause_setting(name)])? > 0)
    }

    /// Returns the kind, the rule and the next occurrence of a schedule.
    fn schedule(&self, name: &str) -> Result<Option<(i64, String, Millis)>, StoreError> {
        self.one(
            "SELECT kind, rule, missed, next FROM {p}schedule WHERE name = ?1",
            [name],
            |row| Ok((row.get(0)?, row.get(1)?, millis_of(row, 3)?)),
        )
    }
}
