//! The table at the end: what the log of runs says, beside what the shop was answered.

use std::path::Path;

use crate::Result;
use crate::log::{self, Record};
use crate::shop::{Day, State};

/// How long after a restart a run does not count as one outside of it, in microseconds.
const SETTLED: u64 = 1_000_000;

/// The counts of the table.
#[derive(Default)]
struct Found {
    closed: usize,
    lost: usize,
    closed_though_paid: usize,
    early: usize,
    twice: usize,
    unexplained: usize,
    fences_fell: usize,
}

/// Prints the table. Returns whether every row is what it must be.
pub(crate) fn print(day: &Day, log: &Path) -> Result<bool> {
    let records = log::read(log)?;
    let mut runs: Vec<Vec<&Record>> = vec![Vec::new(); day.orders.len()];
    for record in &records {
        let order = usize::try_from(record.order).ok().and_then(|order| runs.get_mut(order));
        order.ok_or("a run of an order that nobody inserted")?.push(record);
    }
    let found = compare(day, &runs);
    let of_state = |state| day.orders.iter().filter(|order| order.state == state).count();
    let resets = day.orders.iter().filter(|order| order.was_reset).count();

    let row = |name: &str, value: String| println!("{name:<44} {value:>12}");
    let must = |name: &str, value: usize| {
        row(&format!("{name} (must be 0)"), value.to_string());
        value == 0
    };
    println!();
    row("orders", day.orders.len().to_string());
    row("closed", found.closed.to_string());
    row("paid", of_state(State::Paid).to_string());
    row("withdrawn", of_state(State::Withdrawn).to_string());
    row("given more time", resets.to_string());
    row("paid too late: the worker had them", of_state(State::TooLate).to_string());
    row("paid too late: closed before", of_state(State::Closed).to_string());
    let mut holds = must("lost", found.lost);
    holds &= must("closed though paid", found.closed_though_paid);
    holds &= must("early", found.early);
    row("kills", day.killed.len().to_string());
    row("run twice", found.twice.to_string());
    holds &= must("run twice without a kill", found.unexplained);
    holds &= must("fence not above the one before", found.fences_fell);
    let late = lateness(day, &records);
    row("runs outside of restarts", late.len().to_string());
    for (name, share) in [("late, p50", 0.5), ("late, p99", 0.99), ("late, max", 1.0)] {
        row(name, ms(quantile(&late, share)));
    }
    let restarts = restarts(day, &records);
    row("restart to first overdue run, median", ms(quantile(&restarts, 0.5)));
    row("restart to first overdue run, max", ms(quantile(&restarts, 1.0)));
    row("insert of all orders", format!("{:.2} s", day.inserted_in.as_secs_f64()));
    let mean = day.answers_in.as_secs_f64() * 1e3 / day.calls.max(1) as f64;
    row("a cancel or reset, mean", format!("{mean:.2} ms"));
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    row("size of the file, all orders in it", mb(day.bytes.0));
    row("size of the file, at the end", mb(day.bytes.1));
    println!("\n{}", if holds { "everything holds" } else { "NOT EVERYTHING HOLDS" });
    Ok(holds)
}

fn compare(day: &Day, runs: &[Vec<&Record>]) -> Found {
    let mut found = Found::default();
    for (order, runs) in day.orders.iter().zip(runs) {
        found.closed += usize::from(!runs.is_empty());
        let later = |run: &&Record| run.start > order.since;
        match order.state {
            State::Paid | State::Withdrawn => {
                found.closed_though_paid += usize::from(runs.iter().any(later));
            }
            State::Open | State::Closed => found.lost += usize::from(runs.is_empty()),
            State::TooLate => {}
        }
        let early =
            |run: &&Record| run.start < run.deadline || later(run) && run.start < order.deadline;
        found.early += usize::from(runs.iter().any(early));
        found.twice += usize::from(runs.len() > 1);
        for pair in runs.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            // A worker whose number lies below that of the next one was killed in between.
            found.unexplained += usize::from(before.worker >= after.worker);
            let rises = before.fence < after.fence && before.attempt < after.attempt;
            found.fences_fell += usize::from(!rises);
        }
    }
    found
}

/// Returns how late each run was that neither was due nor started between a kill and a second after
/// the start of the next worker, in order.
fn lateness(day: &Day, records: &[Record]) -> Vec<u64> {
    let restarts: Vec<(u64, u64)> = {
        let first = (0, day.started.first().copied().unwrap_or(0));
        let later = day.killed.iter().copied().zip(day.started.iter().skip(1).copied());
        core::iter::once(first).chain(later).collect()
    };
    let settled = |time: u64| restarts.iter().all(|&(from, to)| time < from || time > to + SETTLED);
    let counts = |run: &&Record| settled(run.deadline) && settled(run.start);
    let late = |run: &Record| run.start.saturating_sub(run.deadline);
    let mut late: Vec<u64> = records.iter().filter(counts).map(late).collect();
    late.sort_unstable();
    late
}

/// Returns how long after its start each worker but the first ran an order that was overdue then.
fn restarts(day: &Day, records: &[Record]) -> Vec<u64> {
    let first_overdue = |worker: usize, started: u64| {
        let its = records.iter().filter(|run| run.worker as usize == worker);
        its.filter(|run| run.deadline < started).map(|run| run.start.saturating_sub(started)).min()
    };
    let workers = day.started.iter().enumerate().skip(1);
    let mut waits: Vec<u64> =
        workers.filter_map(|(worker, started)| first_overdue(worker, *started)).collect();
    waits.sort_unstable();
    waits
}

/// Returns the smallest value that `share` of all do not exceed.
fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn ms(micros: Option<u64>) -> String {
    micros.map_or("none".to_owned(), |micros| format!("{:.1} ms", micros as f64 / 1e3))
}
