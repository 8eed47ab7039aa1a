//! The table at the end: what the log of runs says, beside what the shop was answered.

use std::path::Path;

use crate::causes::{Cause, cause, is_overtaken};
use crate::log::{self, Record};
use crate::shop::{Day, State};
use crate::{Plan, Result};

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
    after_kill: usize,
    after_stop: usize,
    after_restart: usize,
    unexplained: usize,
    fences_fell: usize,
}

/// Prints the table. Returns whether every row is what it must be.
pub(crate) fn print(plan: &Plan, day: &Day, log: &Path) -> Result<bool> {
    let mut records = log::read(log)?;
    for record in &mut records {
        // From the store's clock to the one that the log goes by.
        record.due = record.due.saturating_add_signed(-day.skew);
    }
    let mut runs: Vec<Vec<&Record>> = vec![Vec::new(); day.orders.len()];
    for record in &records {
        let order = usize::try_from(record.order).ok().and_then(|order| runs.get_mut(order));
        order.ok_or("a run of an order that nobody inserted")?.push(record);
    }
    let found = compare(day, &runs);
    let of_state = |state| day.orders.iter().filter(|order| order.state == state).count();
    let resets = day.orders.iter().filter(|order| order.was_reset).count();

    println!();
    row("orders", day.orders.len());
    row("closed", found.closed);
    row("paid", of_state(State::Paid));
    row("withdrawn", of_state(State::Withdrawn));
    row("given more time", resets);
    row("paid too late: a worker had them", of_state(State::TooLate));
    row("paid too late: closed before", of_state(State::Closed));
    let mut holds = must("lost", found.lost);
    holds &= must("closed though paid", found.closed_though_paid);
    holds &=
        must(if day.is_shared { "early, by the server's clock" } else { "early" }, found.early);
    holds &= must("still open at the end", usize::try_from(day.left)?);
    holds &= must("cancels and resets without an answer", usize::try_from(day.unanswered)?);
    row("kills", day.processes.iter().filter(|process| process.killed.is_some()).count());
    row("run twice", found.twice);
    if day.is_shared {
        row("second starts after a kill", found.after_kill);
        row("second starts after a stop past the lease", found.after_stop);
        row("second starts after the server was away", found.after_restart);
    }
    holds &= must("second starts without such a cause", found.unexplained);
    holds &= must("fence not above the one before", found.fences_fell);
    if day.is_shared {
        starts(plan, day, &records);
    }
    times(plan, day, &records);
    row("insert of all orders", format!("{:.2} s", day.inserted_in.as_secs_f64()));
    let mean = day.answers_in.as_secs_f64() * 1e3 / day.calls.max(1) as f64;
    row("a cancel or reset, mean", format!("{mean:.2} ms"));
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let store = if day.is_shared { "memory of the server" } else { "size of the file" };
    row(&format!("{store}, all orders in it"), mb(day.bytes.0));
    row(&format!("{store}, at the end"), mb(day.bytes.1));
    println!("\n{}", if holds { "everything holds" } else { "NOT EVERYTHING HOLDS" });
    Ok(holds)
}

fn row(name: &str, value: impl ToString) {
    println!("{name:<48} {:>12}", value.to_string());
}

/// Prints a row that must be 0. Returns whether it is.
fn must(name: &str, value: usize) -> bool {
    row(&format!("{name} (must be 0)"), value);
    value == 0
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
            State::TooLate | State::Unknown => {}
        }
        let early = |run: &&Record| run.start < run.due || later(run) && run.start < order.due;
        found.early += usize::from(runs.iter().any(early));
        found.twice += usize::from(runs.len() > 1);
        for pair in runs.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            match cause(day, before, after) {
                Some(Cause::Kill) => found.after_kill += 1,
                Some(Cause::Stop) => found.after_stop += 1,
                Some(Cause::Restart) => found.after_restart += 1,
                None => found.unexplained += 1,
            }
            let rises = before.fence < after.fence && before.attempt < after.attempt;
            found.fences_fell += usize::from(!rises && !is_overtaken(day, before, after));
        }
    }
    found
}

/// Prints how many runs each worker started.
fn starts(plan: &Plan, day: &Day, records: &[Record]) {
    let worker = |record: &Record| Some(day.processes.get(record.worker as usize)?.worker);
    for number in 0..plan.workers {
        let starts = records.iter().filter(|record| worker(record) == Some(number)).count();
        let processes = day.processes.iter().filter(|process| process.worker == number).count();
        row(&format!("starts of worker {}, {processes} processes", number + 1), starts);
    }
}

/// Prints how late the runs were, and how long it took after each kill.
fn times(plan: &Plan, day: &Day, records: &[Record]) {
    let mut late = lateness(day, records);
    row("runs outside of restarts", late.len());
    late.sort_unstable();
    for (name, share) in [("late, p50", 0.5), ("late, p99", 0.99), ("late, max", 1.0)] {
        row(name, ms(quantile(&late, share)));
    }
    if day.is_shared {
        row("lease", format!("{:?}", plan.lease));
        row("kill to the last start of its jobs, max", ms(after_kills(day, records)));
    } else {
        let restarts = restarts(day, records);
        row("restart to first overdue run, median", ms(quantile(&restarts, 0.5)));
        row("restart to first overdue run, max", ms(quantile(&restarts, 1.0)));
    }
}

/// Returns how late each run was that no incident held up: none happened between its deadline and its
/// start. The second after a restart of a server, or of the only worker, counts as part of it.
fn lateness(day: &Day, records: &[Record]) -> Vec<u64> {
    let first = day.processes.first().map_or(0, |process| process.started + SETTLED);
    let mut gaps = vec![(0, first)];
    gaps.extend(day.away.iter().map(|(from, to)| (*from, to + SETTLED)));
    for process in &day.processes {
        let until = if day.is_shared { 0 } else { SETTLED };
        gaps.extend(process.killed.map(|at| (at, at + until)));
        gaps.extend(process.stopped.map(|(from, _)| (from, from)));
    }
    let counts = |run: &&Record| gaps.iter().all(|(from, to)| run.start < *from || run.due > *to);
    let late = |run: &Record| run.start.saturating_sub(run.due);
    records.iter().filter(counts).map(late).collect()
}

/// Returns how long after a kill the last run started that was due before it.
fn after_kills(day: &Day, records: &[Record]) -> Option<u64> {
    let away = |run: &Record| {
        day.away.iter().any(|(from, to)| run.start >= *from && run.due <= to + SETTLED)
    };
    let kills = day.processes.iter().filter_map(|process| process.killed);
    let last = |at: u64| {
        let spans = records.iter().filter(|run| run.due <= at && run.start > at && !away(run));
        spans.map(|run| run.start - at).max()
    };
    kills.filter_map(last).max()
}

/// Returns how long after its start each process but the first ran an order that was overdue then.
fn restarts(day: &Day, records: &[Record]) -> Vec<u64> {
    let first_overdue = |number: usize, started: u64| {
        let its = records.iter().filter(|run| run.worker as usize == number);
        its.filter(|run| run.due < started).map(|run| run.start.saturating_sub(started)).min()
    };
    let processes = day.processes.iter().enumerate().skip(1);
    let mut waits: Vec<u64> =
        processes.filter_map(|(number, process)| first_overdue(number, process.started)).collect();
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
