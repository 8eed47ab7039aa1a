//! Schedules of the store in memory, and their occurrences.

use std::sync::Arc;

use super::Memory;
use crate::store::{NewJob, NewSchedule, StoredSchedule};
use crate::values::setting;
use crate::values::time::Millis;

impl Memory {
    pub(super) fn put_schedule(&mut self, new: &NewSchedule) -> bool {
        let rule_text = new.schedule.rule.to_text();
        let known = self.schedules.get(&new.name);
        let same = known.filter(|known| *known.kind == *new.kind && known.rule_text == rule_text);
        let next = same.map_or(new.first, |same| same.next);
        let (changed, is_known) = (same.is_none(), known.is_some());
        self.kinds.insert(Arc::clone(&new.kind));
        if !is_known {
            self.drop_pause(&new.name);
        }
        let stored = StoredSchedule {
            name: new.name.clone(),
            kind: new.kind.to_string(),
            schedule: new.schedule.clone(),
            rule_text,
            payload: new.payload.clone(),
            next,
        };
        self.schedules.insert(new.name.clone(), stored);
        changed
    }

    pub(super) fn occur(
        &mut self,
        name: &str,
        expected: Millis,
        jobs: &[NewJob],
        next: Option<Millis>,
        now: Millis,
    ) -> bool {
        if self.schedules.get(name).is_none_or(|schedule| schedule.next != expected) {
            return false;
        }
        for job in jobs {
            self.insert(job, now);
        }
        self.move_schedule(name, next);
        true
    }

    /// Removes a schedule and its pause. Returns whether there was one.
    pub(super) fn drop_schedule(&mut self, name: &str) -> bool {
        self.drop_pause(name);
        self.schedules.remove(name).is_some()
    }

    /// Pauses a schedule. Returns whether there is one.
    pub(super) fn pause_schedule(&mut self, name: &str, at: Millis) -> bool {
        let exists = self.schedules.contains_key(name);
        if exists {
            self.settings.insert(setting::pause_schedule(name), at.get().to_string());
        }
        exists
    }

    /// Ends a pause. Returns whether the schedule was paused, with this next occurrence.
    pub(super) fn resume_schedule(
        &mut self,
        name: &str,
        expected: Millis,
        next: Option<Millis>,
    ) -> bool {
        let is_expected = self.schedules.get(name).is_some_and(|of| of.next == expected);
        let resumes = is_expected && self.drop_pause(name);
        if resumes {
            self.move_schedule(name, next);
        }
        resumes
    }

    /// Sets the next occurrence of a schedule, or removes the schedule if it has none.
    fn move_schedule(&mut self, name: &str, next: Option<Millis>) {
        match (next, self.schedules.get_mut(name)) {
            (Some(next), Some(schedule)) => schedule.next = next,
            _ => drop(self.drop_schedule(name)),
        }
    }

    /// Removes the pause of a schedule. Returns whether it had one.
    fn drop_pause(&mut self, name: &str) -> bool {
        self.settings.remove(&setting::pause_schedule(name)).is_some()
    }
}
