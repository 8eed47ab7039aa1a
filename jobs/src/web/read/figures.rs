//! Figures of a history: minutes without gaps, and quantiles of buckets.

use crate::values::history::Buckets;
use crate::values::history::{HistoryEntry, Step};
use crate::values::time::Millis;
use crate::web::views::overview::Minute;
use crate::web::views::{Bound, Time};

/// Fills the gaps of a history: returns `steps` entries, the last of which is that of `now`.
pub(crate) fn without_gaps(
    entries: &[HistoryEntry],
    step: Step,
    steps: usize,
    now: Millis,
) -> Vec<HistoryEntry> {
    let length = step.length();
    let ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let last = Millis::clamped(now.get() / ms * ms);
    let begin = |step: usize| {
        let back = u32::try_from(steps - 1 - step).unwrap_or(u32::MAX);
        last.minus(length.saturating_mul(back)).to_system()
    };
    let entry = |step: usize| {
        let begin = begin(step);
        let found = entries.iter().find(|entry| entry.begin == begin);
        found.cloned().unwrap_or_else(|| HistoryEntry::at(begin))
    };
    (0..steps).map(entry).collect()
}

/// Returns when a history of this many steps begins.
pub(crate) fn begin(step: Step, steps: usize, now: Millis) -> Millis {
    let ms = i64::try_from(step.length().as_millis()).unwrap_or(i64::MAX);
    let back = i64::try_from(steps).unwrap_or(i64::MAX).saturating_sub(1);
    Millis::clamped(now.get() / ms * ms - back.saturating_mul(ms))
}

pub(crate) fn minute(entry: &HistoryEntry) -> Minute {
    Minute {
        begin: Time::new(entry.begin),
        inserted: entry.inserted,
        completed: entry.completed,
        failed: entry.retried + entry.dead,
        retried: entry.retried,
        dead: entry.dead,
        snoozed: entry.snoozed,
        cancelled: entry.cancelled,
        interrupted: entry.interrupted,
        p50_late_ms: quantile(&entry.lateness, 50),
        p99_late_ms: quantile(&entry.lateness, 99),
        p50_run_ms: quantile(&entry.run_time, 50),
        p99_run_ms: quantile(&entry.run_time, 99),
    }
}

/// Adds up entries of a history.
pub(crate) fn sum(entries: &[HistoryEntry]) -> HistoryEntry {
    let mut sum = HistoryEntry::at(Millis::ZERO.to_system());
    for entry in entries {
        sum.inserted += entry.inserted;
        sum.completed += entry.completed;
        sum.retried += entry.retried;
        sum.snoozed += entry.snoozed;
        sum.dead += entry.dead;
        sum.cancelled += entry.cancelled;
        sum.interrupted += entry.interrupted;
        for (total, count) in sum.lateness.iter_mut().zip(&entry.lateness) {
            *total += count;
        }
        for (total, count) in sum.run_time.iter_mut().zip(&entry.run_time) {
            *total += count;
        }
    }
    sum
}

/// Returns the bound of the bucket that a quantile falls into.
pub(crate) fn quantile(counts: &[u64], in_hundred: u64) -> Option<Bound> {
    Buckets::bound_of(counts, in_hundred).map(Bound::of)
}
