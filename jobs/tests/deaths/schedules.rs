//! R10: the occurrences of repeated jobs. One schedule is without overlap, and skips occurrences.

use std::collections::BTreeMap;

use super::child::WITHOUT_OVERLAP;
use super::history::History;
use super::record::{Answer, Verb, occurrence_of};
use super::rules::Found;

/// An occurrence that is found later than this was missed, and may be left out. In microseconds.
const GRACE_US: u64 = 900_000;
/// How long before its time an occurrence is made, and some slack. In milliseconds.
const AHEAD_MS: u64 = 60;

/// What the log says of one schedule. Its period is the same in every call.
struct Schedule {
    period: u64,
    /// When the first call that was answered was made and answered.
    made: Option<(u64, u64)>,
    /// When the call that ends it was made and answered.
    ended: Option<(u64, u64)>,
    times: Vec<u64>,
}

/// Checks that each schedule has occurred at each of its times.
pub(crate) fn r10_schedules(history: &History<'_>, found: &mut Found) {
    let outages: Vec<(u64, u64)> = history
        .signs
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(|(from, to)| to - from > GRACE_US)
        .collect();
    for (name, schedule) in schedules(history) {
        // The schedule without overlap skips occurrences.
        if name != WITHOUT_OVERLAP {
            schedule.check(name, &outages, found);
        }
    }
    one_at_a_time(history, found);
}

/// P18: In the schedule without overlap, no occurrence starts before the one before it is over: its last run has ended,
/// or its job is dead. A process that ends does not end the occurrence, which runs again. A run that has lost its claim
/// may end later.
fn one_at_a_time(history: &History<'_>, found: &mut Found) {
    let mut over_at = 0;
    for (&tag, job) in &history.jobs {
        let Some((WITHOUT_OVERLAP, time)) = occurrence_of(tag) else { continue };
        let starts = || job.starts.iter().map(|(.., start)| start);
        let Some(last) = starts().max_by_key(|start| start.fence) else { continue };
        if starts().any(|start| start.at < over_at) {
            let text = format!("{time} starts before the occurrence before it is over");
            found.add("R10", format!("schedule {WITHOUT_OVERLAP} overlaps: {text}"));
        }
        let dead_at = job.dead.is_some().then_some(last.at);
        over_at = job.end_of(last).map(|(.., end)| end.at).or(dead_at).unwrap_or(u64::MAX);
    }
}

fn schedules(history: &History<'_>) -> BTreeMap<u32, Schedule> {
    let mut schedules = BTreeMap::new();
    for call in &history.calls {
        match call.verb {
            Verb::Schedule { name, period } => {
                let new = Schedule { period: *period, made: None, ended: None, times: Vec::new() };
                let schedule = schedules.entry(*name).or_insert(new);
                if let (None, Some(answered)) = (schedule.made, &call.answer)
                    && *answered.answer == Answer::Done(true)
                {
                    schedule.made = Some((call.at, answered.at));
                }
            }
            Verb::Unschedule { name } => {
                if let (Some(schedule), Some(answered)) = (schedules.get_mut(name), &call.answer)
                    && schedule.ended.is_none()
                {
                    schedule.ended = Some((call.at, answered.at));
                }
            }
            _ => {}
        }
    }
    for (&tag, job) in &history.jobs {
        let Some((name, time)) = occurrence_of(tag) else { continue };
        if let Some(schedule) = schedules.get_mut(&name)
            && (!job.starts.is_empty() || job.dead.is_some())
        {
            schedule.times.push(time);
        }
    }
    schedules
}

impl Schedule {
    fn check(&self, name: u32, outages: &[(u64, u64)], found: &mut Found) {
        let period = self.period;
        let out = |time: u64| {
            outages.iter().any(|(from, to)| (from / 1000..=to / 1000).contains(&(time + 100)))
        };
        for pair in self.times.windows(2) {
            let apart = pair[1] - pair[0];
            if apart % period != 0 {
                let text = format!("schedule {name} occurs {apart} ms apart, not {period}");
                found.add("R10", text);
            }
            let mut missing = (pair[0] + period..pair[1]).step_by(period as usize);
            if let Some(missing) = missing.find(|time| !out(*time)) {
                found.add("R10", format!("schedule {name} has no run for {missing}"));
            }
        }
        let (Some((_, made)), Some((ending, ended))) = (self.made, self.ended) else { return };
        let (first, last) = match (self.times.first(), self.times.last()) {
            (Some(first), Some(last)) => (*first, *last),
            _ => (u64::MAX, made / 1000),
        };
        let latest_first = made / 1000 + period + 1;
        if first > latest_first && latest_first < ending / 1000 && !out(latest_first) {
            found.add("R10", format!("schedule {name} has no first run"));
        }
        // What is due up to the end, and was found in time.
        let due = (ending.saturating_sub(GRACE_US) / 1000).saturating_sub(period);
        let mut missing = (last + period..due).step_by(period as usize);
        if let Some(missing) = missing.find(|time| !out(*time)) {
            found.add("R10", format!("schedule {name} has no run for {missing}, and stops"));
        }
        if last > ended / 1000 + AHEAD_MS {
            found.add("R10", format!("schedule {name} occurs at {last}, after its end"));
        }
    }
}
