//! The check of the store in memory: its maps agree with each other.

use std::collections::BTreeSet;

use super::Memory;
use crate::values::error::Violation;

impl Memory {
    pub(super) fn look_for_violations(&self) -> Result<(), Violation> {
        for (id, record) in &self.alive {
            let at = (record.due, *id);
            let on_road = match record.lane() {
                None => self.waiting.contains_key(&at),
                Some(_) => self.coming.contains_key(&at),
            };
            let in_lane = record.lane().and_then(|lane| self.in_lanes.get(&lane));
            let in_lane = in_lane.is_some_and(|lane| lane.contains(&at));
            if on_road && in_lane {
                return Err(Violation(format!("M5: {id} is in its lane, and was not moved there")));
            }
            let filed = on_road || in_lane;
            let claimed = self.claims.contains_key(id);
            if filed == claimed {
                return Err(Violation(format!("M1: {id} is filed: {filed}, claimed: {claimed}")));
            }
            if let Some(key) = &record.key
                && self.keys.get(key) != Some(id)
            {
                return Err(Violation(format!("M2: the key {key:?} does not name {id}")));
            }
            if self.ended.contains_key(id) {
                return Err(Violation(format!("M3: {id} is alive, and has ended")));
            }
        }
        let keyed = self.alive.values().filter(|record| record.key.is_some()).count();
        let in_lanes: usize = self.in_lanes.values().map(BTreeSet::len).sum();
        let filed = self.waiting.len() + self.coming.len() + in_lanes;
        if filed + self.claims.len() != self.alive.len() || keyed != self.keys.len() {
            return Err(Violation("M4: something is filed, claimed or named and gone".to_owned()));
        }
        self.look_at_groups()?;
        if let Some(wrong) = self.lanes.violation(self.claims_by_lane()) {
            return Err(Violation(format!("M6: {wrong}")));
        }
        Ok(())
    }
}
