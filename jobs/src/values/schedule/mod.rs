//! Schedules: the times of their occurrences, once a period or by a cron expression in a time zone.
//!
//! Ground rules:
//!
//! - The store keeps a schedule as text. So a process without the feature `cron` does not change a schedule
//!   that it cannot read.
//! - The next occurrence is a function of the one before, never of the present, so nothing drifts. If a clock
//!   was ahead and is set right, the schedule goes back to an earlier occurrence of the same series of times.
//! - croner reads the cron expressions, and jiff the time zones. `cron.rs` finds the times.

#[cfg(feature = "cron")]
mod cron;

use std::time::Duration;

use super::invalid_input::InvalidInput;
use crate::values::time::Millis;

/// When the occurrences of a schedule are due, and what happens to missed occurrences.
///
/// A [`Duration`] converts to a schedule: the first occurrence is due a period after the first call of
/// [`schedule`](crate::Client::schedule), and each further one a period after the one before. With the feature
/// `cron`, a `Cron` converts to one too.
///
/// A schedule without a further occurrence (a cron expression with a year that is over, a period that leads
/// past the year 9999) ends with its last one: it is not listed any more, and no [`Event`](crate::Event)
/// reports that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub(crate) rule: Rule,
    pub(crate) missed: Missed,
    pub(crate) without_overlap: bool,
}

/// What happens to missed occurrences: those that are more than a second late when a process finds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Missed {
    /// None of them runs.
    Skip,
    /// The latest one runs.
    #[default]
    Once,
    /// The latest ones run, in their order: at most this many, and never more than 10,000.
    Burst(u32),
}

/// The rule of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Milliseconds between occurrences.
    Every(u64),
    #[cfg(feature = "cron")]
    Cron(Cron),
    /// A rule that another version or another set of features wrote.
    Unknown,
}

impl Schedule {
    /// Returns the schedule with one occurrence in each `period`, which is rounded up to whole milliseconds.
    /// [`schedule`](crate::Client::schedule) refuses a period of zero.
    #[doc(alias("interval", "period", "repeat"))]
    #[must_use]
    pub fn every(period: Duration) -> Schedule {
        let ms = u64::try_from(period.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Schedule::of(Rule::Every(ms), Missed::default())
    }

    /// Sets what happens to missed occurrences. The default is [`Missed::Once`].
    #[must_use]
    pub fn missed(self, missed: Missed) -> Schedule {
        Schedule { missed, ..self }
    }

    /// Makes no occurrence before the earlier one has ended. While an occurrence is pending, runs or waits for its
    /// retry, later occurrences are skipped, not queued: on all nodes, and across restarts and crashes.
    /// [`Event::OccurrencesSkipped`](crate::Event::OccurrencesSkipped) has the number of the skipped ones, and names
    /// the occurrence that has not ended.
    ///
    /// An occurrence has the key `schedule NAME` until its end ([`Until::Ended`](crate::Until::Ended)), so
    /// [`Client::keyed`](crate::Client::keyed) finds it while it is pending. The name of the schedule has 246 bytes at
    /// most. These occurrences hold no other one back:
    ///
    /// - An occurrence that was made before this choice has no key. Other nodes learn of the choice within a second,
    ///   and make occurrences without a key until then.
    /// - A dead occurrence has no key any more. It can be retried only while no other job has the key.
    /// - A missed occurrence that has expired already ([`Job::EXPIRES`](crate::Job::EXPIRES)) is left out.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// use std::time::Duration;
    /// use tickwheel_jobs::Schedule;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Report;
    /// # impl Job for Report { const KIND: &'static str = "report"; }
    /// # let (jobs, driver) = Jobs::memory().handle(|_: Report, _| Ok(())).manual()?;
    /// let nightly = Schedule::every(Duration::from_secs(24 * 3600)).without_overlap();
    /// jobs.schedule("report", nightly, Report)?;
    /// # assert_eq!(driver.advance(Duration::from_secs(24 * 3600)), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("skip_if_running", "no_overlap", "forbid", "concurrency_policy", "singleton"))]
    #[must_use]
    pub fn without_overlap(self) -> Schedule {
        Schedule { without_overlap: true, ..self }
    }

    fn of(rule: Rule, missed: Missed) -> Schedule {
        Schedule { rule, missed, without_overlap: false }
    }

    /// Returns the first occurrence after `now`, of a schedule that begins now.
    pub(crate) fn first(&self, now: Millis) -> Result<Millis, InvalidInput> {
        if self.rule == Rule::Every(0) {
            return Err(InvalidInput::ZeroPeriod);
        }
        self.rule.after(now).ok_or_else(|| InvalidInput::NeverOccurs(self.rule.to_text()))
    }

    /// Returns the occurrences from `next` to `until` that become jobs, at most `most`, and the occurrence
    /// after them. Those before `missed_before` were missed.
    pub(crate) fn due(
        &self,
        next: Millis,
        missed_before: Millis,
        until: Millis,
        most: usize,
    ) -> (Vec<Millis>, Option<Millis>) {
        let kept = self.missed.most().min(MOST_MISSED);
        let limit = Millis::clamped(missed_before.get() - 1);
        let mut times = self.rule.latest(next, limit, kept.max(1));
        let mut next = times.last().map_or(Some(next), |last| self.rule.after(*last));
        times.truncate(if kept == 0 { 0 } else { times.len() });
        if let Some(rest) = times.get(most).copied() {
            times.truncate(most);
            return (times, Some(rest));
        }
        while let Some(time) = next.filter(|time| *time <= until && times.len() < most) {
            times.push(time);
            next = self.rule.after(time);
        }
        (times, next)
    }

    /// Returns the first occurrence after `now` if the schedule is ahead because the clock was ahead. `next` is
    /// the next occurrence of the schedule. Occurrences are taken up to `in_order` at most, so without a clock
    /// that was ahead none lies between `in_order` and `next`.
    ///
    /// A period is checked each time, which costs an addition. A cron expression is checked only if the clock
    /// was set.
    #[cfg_attr(not(feature = "cron"), expect(unused_variables, reason = "all rules are periods"))]
    pub(crate) fn left_out(
        &self,
        next: Millis,
        now: Millis,
        in_order: Millis,
        clock_was_set: bool,
    ) -> Option<Millis> {
        match &self.rule {
            Rule::Every(period) => {
                let period = i64::try_from(*period).ok().filter(|period| *period > 0)?;
                if next.get() - in_order.get() <= period {
                    return None;
                }
                // Whole periods back from `next`, to stay on the times of this schedule.
                let steps = (next.get() - now.get() - 1) / period;
                Some(Millis::clamped(next.get() - steps * period))
            }
            #[cfg(feature = "cron")]
            Rule::Cron(cron) if clock_was_set => {
                cron.after(in_order).filter(|first| *first < next)?;
                cron.after(now)
            }
            _ => None,
        }
    }
}

/// The most missed occurrences that run, even if [`Missed::Burst`] allows more.
const MOST_MISSED: usize = 10_000;

impl Rule {
    /// Returns the first occurrence after `now` of a schedule whose next one is `next`, or `None` if there is none.
    /// Those before are left out. The times stay those of the series.
    pub(crate) fn skip_to(&self, next: Millis, now: Millis) -> Option<Millis> {
        match self {
            _ if next > now => Some(next),
            Rule::Every(0) | Rule::Unknown => None,
            Rule::Every(period) => {
                let steps = (now.get() - next.get()) as u64 / period;
                let last = next.get() + (steps * period) as i64;
                self.after(Millis::clamped(last))
            }
            #[cfg(feature = "cron")]
            Rule::Cron(cron) => cron.after(now),
        }
    }

    /// Returns the first occurrence after the one at `last`, or `None` if there is none.
    pub(crate) fn after(&self, last: Millis) -> Option<Millis> {
        match self {
            Rule::Every(ms) => {
                let next = last.get().checked_add(i64::try_from(*ms).ok()?)?;
                (*ms > 0 && next <= Millis::MAX.get()).then(|| Millis::clamped(next))
            }
            #[cfg(feature = "cron")]
            Rule::Cron(cron) => cron.after(last),
            Rule::Unknown => None,
        }
    }

    /// Returns the latest occurrences from `first` to `limit`, in their order: at most `most`. It takes `most`
    /// steps, even if the time between is long.
    fn latest(&self, first: Millis, limit: Millis, most: usize) -> Vec<Millis> {
        let mut latest = match self {
            Rule::Every(0) | Rule::Unknown => Vec::new(),
            Rule::Every(period) => {
                let passed = u64::try_from(limit.get() - first.get());
                let steps = passed.map_or(0..0, |passed| 0..passed / period + 1);
                let time = |step: u64| Millis::clamped(first.get() + (step * period) as i64);
                steps.rev().take(most).map(time).collect()
            }
            #[cfg(feature = "cron")]
            Rule::Cron(cron) => {
                let mut next = cron.before(limit.plus(Duration::from_millis(1)));
                let mut times = Vec::new();
                while let Some(time) = next.filter(|time| *time >= first && times.len() < most) {
                    times.push(time);
                    next = cron.before(time);
                }
                times
            }
        };
        latest.reverse();
        latest
    }

    pub(crate) fn to_text(&self) -> String {
        match self {
            Rule::Every(ms) => format!("every {ms} ms"),
            #[cfg(feature = "cron")]
            Rule::Cron(cron) => format!("cron {} {}", cron.zone_name, cron.expression),
            Rule::Unknown => "unknown".to_owned(),
        }
    }

    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn from_text(text: &str) -> Rule {
        if let Some(ms) = text.strip_prefix("every ").and_then(|rest| rest.strip_suffix(" ms")) {
            return ms.parse().map_or(Rule::Unknown, Rule::Every);
        }
        #[cfg(feature = "cron")]
        if let Some((zone, expression)) =
            text.strip_prefix("cron ").and_then(|rest| rest.split_once(' '))
        {
            return Cron::new(expression, zone).map_or(Rule::Unknown, Rule::Cron);
        }
        Rule::Unknown
    }
}

/// Returns the key of the occurrences of a schedule without overlap.
pub(crate) fn key_of_occurrences(name: &str) -> String {
    format!("schedule {name}")
}

/// Added to the number of [`Missed`] if the schedule is without overlap. That number is between -1 and 2^32.
#[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
const WITHOUT_OVERLAP: i64 = 1 << 40;

#[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
impl Schedule {
    /// Returns the number in which a store keeps all choices except the rule.
    pub(crate) fn choices(&self) -> i64 {
        self.missed.to_number() + if self.without_overlap { WITHOUT_OVERLAP } else { 0 }
    }

    /// Returns the schedule of a rule, which a store keeps as a text, and of its other choices, a number.
    pub(crate) fn read(rule: &str, choices: i64) -> Schedule {
        let without_overlap = choices >= WITHOUT_OVERLAP - 1;
        let missed = choices - if without_overlap { WITHOUT_OVERLAP } else { 0 };
        let missed = Missed::from_number(missed);
        Schedule { rule: Rule::from_text(rule), missed, without_overlap }
    }
}

impl Missed {
    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn to_number(self) -> i64 {
        match self {
            Missed::Skip => 0,
            Missed::Once => -1,
            Missed::Burst(most) => i64::from(most),
        }
    }

    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn from_number(number: i64) -> Missed {
        match u32::try_from(number) {
            Ok(0) => Missed::Skip,
            Ok(most) => Missed::Burst(most),
            Err(_) => Missed::Once,
        }
    }

    /// Returns how many of the missed occurrences run, at most.
    pub(crate) fn most(self) -> usize {
        match self {
            Missed::Skip => 0,
            Missed::Once => 1,
            Missed::Burst(most) => most as usize,
        }
    }
}

impl From<Duration> for Schedule {
    fn from(period: Duration) -> Schedule {
        Schedule::every(period)
    }
}

#[cfg(feature = "cron")]
pub use cron::Cron;

#[cfg(feature = "cron")]
impl From<Cron> for Schedule {
    fn from(cron: Cron) -> Schedule {
        let missed = cron.missed;
        Schedule::of(Rule::Cron(cron), missed)
    }
}

#[cfg(all(test, any(feature = "sqlite-unbundled", feature = "redis")))]
mod tests {
    use super::*;

    /// A store gives back the choices of a schedule from their number. Without this choice the number is that of the
    /// missed occurrences, so no byte is added.
    #[test]
    fn choices_of_a_schedule_are_read_back() {
        for missed in [Missed::Skip, Missed::Once, Missed::Burst(1), Missed::Burst(u32::MAX)] {
            let plain = Schedule::every(Duration::from_secs(1)).missed(missed);
            assert_eq!(plain.choices(), missed.to_number());
            for schedule in [plain.clone(), plain.without_overlap()] {
                let read = Schedule::read(&schedule.rule.to_text(), schedule.choices());
                assert_eq!(read, schedule);
            }
        }
    }
}
