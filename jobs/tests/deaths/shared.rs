//! What cuts off a run of children that share a server: a kill, a stop past the lease, or a server
//! that was away for long.

use super::history::History;
use super::record::{LEASE_MS, Start};

/// The place of a start in the log, its life, and what the child said of it.
type Started = (usize, u32, Start);

impl History<'_> {
    /// Says whether something may have cut off a run of this life that started then, before this
    /// moment.
    pub(crate) fn is_cut_off(&self, life: u32, start: u64, before: u64) -> bool {
        if !self.is_shared {
            return false;
        }
        let life = &self.lives[&life];
        let killed = !life.closed && life.gone_at != 0 && life.gone_at <= before;
        // Runs that a drop left under way are not renewed.
        let dropped = !life.closed && life.ending.is_some_and(|(_, at)| at <= before);
        let within = |&(from, to): &(u64, u64)| start <= to && from <= before;
        let is_long = |&(from, to): &(u64, u64)| to.saturating_sub(from) > LEASE_MS * 1000 / 2;
        killed
            || dropped
            || life.stops.iter().any(within)
            || self.away.iter().any(|away| within(away) && is_long(away))
    }

    /// Says whether `after` was claimed before `before`, by a child that was stopped before it could
    /// report the start.
    pub(crate) fn is_overtaken(&self, before: &Started, after: &Started) -> bool {
        let ((.., before), (_, life, after)) = (before, after);
        let meanwhile = |&(from, to): &(u64, u64)| before.at >= from && after.at >= to;
        self.is_shared && after.fence < before.fence && self.lives[life].stops.iter().any(meanwhile)
    }

    /// Returns how often runs were cut off otherwise than by a kill.
    pub(crate) fn cuts(&self) -> usize {
        self.lives.values().map(|life| life.stops.len()).sum::<usize>() + self.away.len()
    }
}
