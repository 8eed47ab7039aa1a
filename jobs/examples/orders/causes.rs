//! Why an order has run twice: what cut off the first of two runs.

use crate::log::Record;
use crate::shop::Day;
use crate::worker::Process;

/// How long before an incident a run may have started that was not yet stored as done, in
/// microseconds.
const UNSTORED: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The worker of the first run was killed.
    Kill,
    /// The worker of one of the runs was stopped past its lease.
    Stop,
    /// The server was away.
    Restart,
}

/// Returns why `after` was to run, although `before` has started.
pub(crate) fn cause(day: &Day, before: &Record, after: &Record) -> Option<Cause> {
    let of = |record: &Record| day.processes.get(record.worker as usize);
    let cut_off = |from: u64, to: u64| {
        before.start <= to && before.start + UNSTORED >= from && after.start >= from
    };
    let process = of(before)?;
    if process.killed.is_some_and(|at| cut_off(at, at)) {
        return Some(Cause::Kill);
    }
    let stopped = |process: &Process| process.stopped.is_some_and(|(from, to)| cut_off(from, to));
    if stopped(process) || is_overtaken(day, before, after) {
        return Some(Cause::Stop);
    }
    day.away.iter().any(|&(from, to)| cut_off(from, to)).then_some(Cause::Restart)
}

/// Returns whether `after` was claimed first, and its worker was stopped before it could record the
/// start.
pub(crate) fn is_overtaken(day: &Day, before: &Record, after: &Record) -> bool {
    let process = day.processes.get(after.worker as usize);
    let stopped = process.and_then(|process| process.stopped);
    stopped.is_some_and(|(from, to)| {
        after.fence < before.fence && before.start >= from && after.start >= to
    })
}
