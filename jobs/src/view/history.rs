//! The history: minutes and hours without gaps, the rates of the last of them, and quantiles of buckets.

use serde::Serialize;

use super::queue::View;
use super::values::{Bound, Time};
use crate::values::error::StoreError;
use crate::values::history::{HistoryEntry, Step};
use crate::values::time::Millis;

/// How many minutes the overview has.
pub(super) const MINUTES: usize = 60;
/// The runs that ended in a number of minutes. The last minute ends with the reading.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Rates {
    /// How long the minutes were.
    pub seconds: f64,
    /// Runs that ended well.
    pub completed: u64,
    /// Runs after which a job was retried or dead.
    pub failed: u64,
    /// Runs that ended well, a second.
    pub completed_per_second: f64,
    /// Runs that failed, a second.
    pub failed_per_second: f64,
    /// Of a hundred runs, if there was one.
    pub failed_in_hundred: Option<f64>,
    /// The bound under which half of the starts were late.
    pub late_p50_ms: Option<Bound>,
    /// The bound under which 99 of a hundred starts were late.
    pub late_p99_ms: Option<Bound>,
    /// The bound under which half of the runs lasted.
    pub took_p50_ms: Option<Bound>,
    /// The bound under which 99 of a hundred runs lasted.
    pub took_p99_ms: Option<Bound>,
}

/// The counts of a minute, or of an hour.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct HistoryRow {
    /// When it began.
    pub begin: Time,
    /// Jobs that were inserted.
    pub inserted: u64,
    /// Runs that ended well.
    pub completed: u64,
    /// Runs that failed: retried ones and dead ones.
    pub failed: u64,
    /// Runs that failed, and whose jobs were retried later.
    pub retried: u64,
    /// Runs after which their jobs were dead.
    pub dead: u64,
    /// Runs that were snoozed.
    pub snoozed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Runs that ended with their process, or lost their claim.
    pub interrupted: u64,
    /// Jobs that have expired.
    pub expired: u64,
    /// The bound under which half of the starts were late.
    pub late_p50_ms: Option<Bound>,
    /// The bound under which 99 of a hundred starts were late.
    pub late_p99_ms: Option<Bound>,
    /// The bound under which half of the runs lasted.
    pub took_p50_ms: Option<Bound>,
    /// The bound under which 99 of a hundred runs lasted.
    pub took_p99_ms: Option<Bound>,
}

/// A history.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct History {
    /// When it was asked for.
    pub now: Time,
    /// `minute` or `hour`.
    pub step: &'static str,
    /// The kind, if it is that of one.
    pub kind: Option<String>,
    /// The oldest first, without gaps.
    pub entries: Vec<HistoryRow>,
}

impl View {
    /// Returns the history of the queue or of a kind: its last `steps` minutes or hours, of which the last one is not
    /// over yet. It has 48 hours of minutes and 90 days of hours at most, as many as a queue remembers.
    ///
    /// # Errors
    ///
    /// As [`Kind::history`](crate::Kind::history).
    pub fn history(
        &self,
        kind: Option<&str>,
        step: Step,
        steps: usize,
    ) -> Result<History, StoreError> {
        let now = self.present();
        let remembered = match step {
            Step::Minute => 48 * 60,
            Step::Hour => 90 * 24,
        };
        let entries = self.entries(kind, step, steps.clamp(1, remembered), now)?;
        Ok(History {
            now: Time(now),
            step: match step {
                Step::Minute => "minute",
                Step::Hour => "hour",
            },
            kind: kind.map(str::to_owned),
            entries: entries.iter().map(HistoryRow::of).collect(),
        })
    }

    pub(super) fn minutes(
        &self,
        kind: Option<&str>,
        now: Millis,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.entries(kind, Step::Minute, MINUTES, now)
    }

    /// Returns `steps` entries of a history without gaps. The last is that of `now`.
    fn entries(
        &self,
        kind: Option<&str>,
        step: Step,
        steps: usize,
        now: Millis,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let length = step.length();
        let ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let last = Millis::clamped(now.get() / ms * ms);
        let back = |steps: usize| length.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        let range = last.minus(back(steps - 1)).to_system()..now.to_system() + length;
        let found = match kind {
            Some(kind) => self.client.kind_named(kind).history(step, range)?,
            None => self.client.queue().history(step, range)?,
        };
        // Both are in the order of time.
        let mut found = found.into_iter().peekable();
        let entry = |at: usize| {
            let begin = last.minus(back(steps - 1 - at)).to_system();
            while found.next_if(|entry| entry.begin < begin).is_some() {}
            let found = found.next_if(|entry| entry.begin == begin);
            found.unwrap_or_else(|| HistoryEntry::at(begin))
        };
        Ok((0..steps).map(entry).collect())
    }
}

impl HistoryRow {
    pub(super) fn of(entry: &HistoryEntry) -> HistoryRow {
        HistoryRow {
            begin: Time::from(entry.begin),
            inserted: entry.inserted,
            completed: entry.completed,
            failed: entry.retried + entry.dead,
            retried: entry.retried,
            dead: entry.dead,
            snoozed: entry.snoozed,
            cancelled: entry.cancelled,
            interrupted: entry.interrupted,
            expired: entry.expired,
            late_p50_ms: Bound::of(&entry.lateness, 50),
            late_p99_ms: Bound::of(&entry.lateness, 99),
            took_p50_ms: Bound::of(&entry.run_time, 50),
            took_p99_ms: Bound::of(&entry.run_time, 99),
        }
    }
}

impl Rates {
    /// Returns the rates of minutes, of which the last is not over at `now`.
    pub(super) fn of(minutes: &[HistoryEntry], now: Millis) -> Rates {
        let mut sum = HistoryEntry::at(now.to_system());
        for minute in minutes {
            sum.completed += minute.completed;
            sum.retried += minute.retried;
            sum.dead += minute.dead;
            sum.lateness.iter_mut().zip(minute.lateness).for_each(|(sum, count)| *sum += count);
            sum.run_time.iter_mut().zip(minute.run_time).for_each(|(sum, count)| *sum += count);
        }
        let begin = minutes.first().map_or(now, |first| Millis::present(first.begin));
        let seconds = now.since(begin).as_secs_f64().max(1.0);
        let (completed, failed) = (sum.completed, sum.retried + sum.dead);
        let runs = completed + failed;
        Rates {
            seconds,
            completed,
            failed,
            completed_per_second: per_second(completed, seconds),
            failed_per_second: per_second(failed, seconds),
            failed_in_hundred: (runs > 0).then(|| failed as f64 * 100.0 / runs as f64),
            late_p50_ms: Bound::of(&sum.lateness, 50),
            late_p99_ms: Bound::of(&sum.lateness, 99),
            took_p50_ms: Bound::of(&sum.run_time, 50),
            took_p99_ms: Bound::of(&sum.run_time, 99),
        }
    }
}

fn per_second(events: u64, seconds: f64) -> f64 {
    (events as f64 / seconds * 1000.0).round() / 1000.0
}
