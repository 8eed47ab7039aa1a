//! Limits and partitions, done to both: how many jobs of a scope run at once, which a clock with one run at a time
//! does not show. So the test compares whether each job runs in time, in the order of its partition, and is listed
//! with its partition.

use tickwheel_jobs::Limit;

use crate::calls::ok;
use crate::ops::{NAMES, Plan};
use crate::oracle::{Oracle, Outcome};
use crate::record::Record;
use crate::world::World;

/// How many partitions a history has.
pub(crate) const PARTITIONS: u8 = 3;

impl Plan {
    /// Returns the partition of the job.
    pub(crate) fn partition(&self) -> Option<String> {
        self.partition.map(|n| format!("partition {n}"))
    }
}

impl Record {
    /// Returns the partition of the job. An occurrence of a schedule has none.
    pub(crate) fn partition(&self) -> Option<String> {
        self.plan.partition().filter(|_| self.occurs.is_none())
    }
}

impl Oracle {
    /// Says whether one job may not start before another of its kind, or of its partition, that is due earlier.
    pub(crate) fn are_in_order(&self, job: &Record, other: &Record) -> bool {
        let of_it = other.partition();
        other.kind == job.kind && (of_it.is_none() || of_it == job.partition())
    }
}

impl World {
    /// Limits one of the scopes, or removes its limit.
    pub(crate) fn limit(&self, scope: usize, running: Option<u32>) -> Outcome {
        let jobs = self.jobs();
        let limit = running.map_or(Limit::none(), Limit::running);
        let kind = jobs.kind_named(NAMES[scope % 4]);
        let set = match scope / 4 {
            0 => jobs.queue().limit(limit),
            1 => kind.limit(limit),
            2 => kind.limit_each(limit),
            n => kind.partition(&format!("partition {n}")).limit(limit.weight(n as u32)),
        };
        if scope < 8 {
            let limited = &mut self.shared.lock().oracle.limited;
            limited.retain(|of| *of != scope);
            limited.extend(running.map(|_| scope));
        }
        ok(set)
    }
}
