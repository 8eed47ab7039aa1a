//! The table at the end: the log of alarms beside the reports that were stored.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::alarms::{self, Alarm};
use crate::field::{Field, Report};
use crate::{Plan, Result};

/// How long before a kill an alarm may have started that was not yet stored as done, in microseconds.
const UNSTORED: u64 = 1_000_000;

/// How far off a node may be about the server's clock when it makes a deadline of a delay, in
/// microseconds: half of a round trip, on a loaded machine.
const CLOCK_ERROR: u64 = 5_000;

/// The reports of a device, with their numbers; and the alarms about it.
#[derive(Default)]
struct Device {
    reports: Vec<(u64, Report)>,
    alarms: Vec<Alarm>,
}

/// The counts of the table.
#[derive(Default)]
struct Found {
    silences: usize,
    unnoticed: usize,
    unfounded: usize,
    early: usize,
    /// How much shorter than it was to be a silence was that led to an alarm, at most, in microseconds.
    cut_short: u64,
    second: usize,
    unexplained: usize,
}

/// Prints the table. Returns whether every row is what it must be.
pub(crate) fn print(plan: &Plan, field: &Field, log: &Path) -> Result<bool> {
    let mut devices: BTreeMap<u64, Device> = BTreeMap::new();
    for (number, report) in (0..).zip(&field.reports) {
        devices.entry(report.device).or_default().reports.push((number, *report));
    }
    let mut late = Vec::new();
    let mut of_node = vec![0_u64; plan.nodes];
    let mut ghosts = 0;
    let mut after_kill = None;
    for mut alarm in alarms::read(log)? {
        // From the server's clock to the one that everything else goes by.
        alarm.due = alarm.due.saturating_add_signed(-field.skew);
        of_node[alarm.node] += 1;
        let spans = |kill: &u64| alarm.due <= *kill && alarm.start > *kill;
        match kills(field).find(spans) {
            Some(kill) => after_kill = after_kill.max(Some(alarm.start - kill)),
            None => late.push(alarm.start.saturating_sub(alarm.due)),
        }
        match devices.get_mut(&alarm.device) {
            Some(device) => device.alarms.push(alarm),
            None => ghosts += 1,
        }
    }
    let mut found = Found::default();
    for device in devices.values() {
        found.judge(plan, field, device);
    }

    let stored = field.reports.iter().filter(|report| report.stored.is_some()).count();
    println!();
    row("devices", plan.devices);
    row("silent after", format!("{:?}", plan.silence));
    row("reports stored", stored);
    row("reports whose node was killed meanwhile", field.reports.len() - stored);
    row("silences that lasted", found.silences);
    let mut holds = must("not noticed", found.unnoticed);
    holds &= must("alarms though the device had reported", found.unfounded);
    holds &= must("alarms of devices that never reported", ghosts);
    holds &= must("early, by the server's clock", found.early);
    row("silence cut short by, at most", ms(Some(found.cut_short)));
    holds &= must("cut short by more than 5 ms", usize::from(found.cut_short > CLOCK_ERROR));
    row("second alarms about one report", found.second);
    holds &= must("second alarms without a kill", found.unexplained);
    holds &= must("jobs left at the end", usize::try_from(field.left)?);
    for (number, alarms) in of_node.iter().enumerate() {
        let killed = if field.nodes[number].killed.is_some() { ", killed" } else { "" };
        row(&format!("alarms by node {}{killed}", number + 1), alarms);
    }
    late.sort_unstable();
    for (name, share) in [("late, p50", 0.5), ("late, p99", 0.99), ("late, max", 1.0)] {
        row(name, ms(quantile(&late, share)));
    }
    row("lease", format!("{:?}", plan.lease));
    row("kill to the last alarm that was due, max", ms(after_kill));
    println!("\n{}", if holds { "everything holds" } else { "NOT EVERYTHING HOLDS" });
    Ok(holds)
}

fn kills(field: &Field) -> impl Iterator<Item = u64> {
    field.nodes.iter().filter_map(|node| node.killed)
}

fn row(name: &str, value: impl ToString) {
    println!("{name:<48} {:>12}", value.to_string());
}

/// Prints a row that must be 0. Returns whether it is.
fn must(name: &str, value: usize) -> bool {
    row(&format!("{name} (must be 0)"), value);
    value == 0
}

impl Found {
    fn judge(&mut self, plan: &Plan, field: &Field, device: &Device) {
        let Device { reports, alarms } = device;
        let silence = micros(plan.silence);
        let patience = silence + micros(plan.notice());
        for (n, &(number, report)) in reports.iter().enumerate() {
            let Some(stored) = report.stored else { continue };
            // A report without an answer may have been stored, so an alarm may be about it.
            let later = &reports[n + 1..];
            let open = later.iter().take_while(|(_, report)| report.stored.is_none()).count();
            let begun = later[..open].last().map_or(stored, |(_, report)| report.sent);
            let last = later[..open].last().map_or(number, |(number, _)| *number);
            let next = later.get(open).map(|(_, report)| report.sent);
            let lasts = next.is_none_or(|next| next > begun + patience);
            let is_noticed = alarms.iter().any(|alarm| (number..=last).contains(&alarm.report));
            self.silences += usize::from(lasts);
            self.unnoticed += usize::from(lasts && !is_noticed);
        }
        for (n, alarm) in alarms.iter().enumerate() {
            let about = reports.iter().find(|(number, _)| *number == alarm.report);
            let in_time = |(number, report): &&(u64, Report)| {
                *number > alarm.report && report.stored.is_some_and(|at| at < alarm.due)
            };
            let is_founded = about.is_some() && !reports.iter().any(|report| in_time(&report));
            self.unfounded += usize::from(!is_founded);
            let sent = about.map_or(0, |(_, report)| report.sent);
            self.early += usize::from(alarm.start < alarm.due);
            self.cut_short = self.cut_short.max((sent + silence).saturating_sub(alarm.due));
            let first = alarms[..n].iter().find(|other| other.report == alarm.report);
            if let Some(first) = first {
                self.second += 1;
                let cut_off = |at: u64| first.start <= at && first.start + UNSTORED >= at;
                let killed = field.nodes[first.node].killed;
                self.unexplained += usize::from(!killed.is_some_and(cut_off));
            }
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the smallest value that `share` of all do not exceed.
fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn ms(micros: Option<u64>) -> String {
    micros.map_or("none".to_owned(), |micros| format!("{:.1} ms", micros as f64 / 1e3))
}
