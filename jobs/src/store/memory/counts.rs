//! The counts of the store in memory: of jobs, of each kind, of dead jobs by error.
//!
//! Ground rule: nothing is counted beforehand, so each looks at every job.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Memory;
use crate::store::{Ending, KindGauges};
use crate::values::info::{Counts, DeadByError, Overdue};
use crate::values::time::Millis;

impl Memory {
    pub(super) fn counts(&self, now: Millis) -> Counts {
        let running = self.claims.len() as u64;
        let lanes = self.in_lanes.values().flatten().map(|(due, _)| *due);
        let filed = self.waiting.keys().chain(self.coming.keys()).map(|(due, _)| *due).chain(lanes);
        let overdue = filed.filter(|due| *due < now);
        let first = overdue.clone().min();
        Counts {
            pending: self.alive.len() as u64 - running,
            claimed: 0,
            running,
            dead: self.kept(Ending::Dead).count() as u64,
            schedules: self.schedules.len() as u64,
            overdue: Overdue { count: overdue.count() as u64, is_exact: true },
            oldest_overdue: first.map(|due| now.since(due)),
        }
    }

    /// Returns the gauges of each kind.
    pub(super) fn gauges(&self, now: Millis) -> Vec<KindGauges> {
        let of = |kind: &Arc<str>| (kind.to_string(), KindGauges::default());
        let mut kinds: BTreeMap<String, KindGauges> = self.kinds.iter().map(of).collect();
        for (id, record) in &self.alive {
            let of = kinds.entry(record.kind.to_string()).or_default();
            let is_claimed = self.claims.contains_key(id);
            *(if is_claimed { &mut of.claimed } else { &mut of.pending }) += 1;
            if !is_claimed && record.due < now {
                of.overdue += 1;
                of.oldest_overdue = of.oldest_overdue.max(Some(now.since(record.due)));
            }
        }
        for (.., kept) in self.kept(Ending::Dead) {
            kinds.entry(kept.record.kind.to_string()).or_default().dead += 1;
        }
        kinds.into_iter().map(|(kind, of)| KindGauges { kind, ..of }).collect()
    }

    pub(super) fn dead_by_error(&self, most: usize) -> Vec<DeadByError> {
        let mut groups: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (.., kept) in self.kept(Ending::Dead) {
            let error = kept.record.errors.first_line();
            *groups.entry((kept.record.kind.to_string(), error)).or_default() += 1;
        }
        let group = |((kind, error), jobs)| DeadByError { kind, error, jobs };
        let mut groups: Vec<DeadByError> = groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.cmp(b)));
        groups.truncate(most);
        groups
    }
}
