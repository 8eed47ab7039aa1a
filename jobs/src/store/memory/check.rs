//! The check of the store in memory: its maps agree with each other.

use super::Memory;
use crate::values::error::Violation;

impl Memory {
    pub(super) fn look_for_violations(&self) -> Result<(), Violation> {
        for (id, record) in &self.alive {
            let filed = self.waiting.contains_key(&(record.due, *id));
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
        if self.waiting.len() + self.claims.len() != self.alive.len() || keyed != self.keys.len() {
            return Err(Violation("M4: something is filed, claimed or named and gone".to_owned()));
        }
        Ok(())
    }
}
