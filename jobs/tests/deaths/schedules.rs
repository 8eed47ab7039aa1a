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

/// P18: In the schedule without overlap, an occurrence starts after the earlier one has ended. So no occurrence starts
/// once a later one has started.
fn one_at_a_time(history: &History<'_>, found: &mut Found) {
    let mut runs = Vec::new();
    for (&tag, job) in &history.jobs {
        let Some((WITHOUT_OVERLAP, time)) = occurrence_of(tag) else { continue };
        for (_, life, start) in &job.starts {
            let is_its = |of: &u32, fence: u64| of == life && fence == start.fence;
            let end = job.ends.iter().find(|(_, of, end)| is_its(of, end.fence));
            runs.push((start.at, *life, time, end.map(|(.., end)| end.at)));
        }
    }
    runs.sort_unstable();
    for pair in runs.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let has_ended = before.1 != after.1 || before.3.is_some_and(|end| end <= after.0);
        if after.2 != before.2 && (after.2 < before.2 || !has_ended) {
            let text = format!("{} starts beside or before {}", after.2, before.2);
            found.add("R10", format!("schedule {WITHOUT_OVERLAP} overlaps: {text}"));
        }
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
