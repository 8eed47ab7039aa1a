//! The goals beside the results.
//!
//! A goal is a sentence and a function that reads the figures. The function returns the value that
//! was reached, and whether that is enough, or nothing if there are no figures.

use harness::queues::{Case, Must, OURS, Reached, rate};
use harness::table::number;

use crate::plan::{SYNCED, WRITTEN};

type Results = harness::results::Results<Case>;

fn at_most(value: f64, most: f64, unit: &str) -> Reached {
    Reached { text: format!("{} {unit}", number(value)), enough: value <= most }
}

fn lateness(results: &Results, level: &str) -> Option<Reached> {
    let figure = |name| results.ours("late", level, name);
    let (early, p50, p99) = (figure("early")?, figure("q0.5")?, figure("q0.99")?);
    let text = format!(
        "{early} early; p50 {} ms, p99 {} ms, worst {} ms",
        number(p50),
        number(p99),
        number(figure("q1")?)
    );
    Some(Reached { text, enough: early == 0.0 && p50 <= 1.5 && p99 <= 5.0 })
}

fn bytes(results: &Results, row: &str, level: &str) -> Option<Reached> {
    let of = |name| results.median(row, name, level, "written_per_job");
    let (ours, theirs) = (of(OURS)?, of("effectum")?);
    let text = format!("{}; effectum {}", number(ours), number(theirs));
    Some(Reached { text, enough: 2.0 * ours <= theirs })
}

fn file(results: &Results, row: &str) -> Option<Reached> {
    let figure = |name| results.ours(row, WRITTEN, name);
    let (needed, passed, closed) =
        (figure("needed_mb")?, figure("passed_mb")?, figure("closed_mb")?);
    let text = format!(
        "{:.1} times after {} jobs; {} MB, {} MB once it is closed",
        passed / needed,
        number(figure("jobs")?),
        number(passed),
        number(closed)
    );
    Some(Reached { text, enough: passed <= 2.0 * needed && closed < passed })
}

pub(crate) const MUSTS: &[Must] = &[
    Must(
        "whole life, the same delay, `Written`",
        "100,000 a second, 5 times the best peer",
        |results| rate(results, "life", WRITTEN, 100_000.0, 5.0),
    ),
    Must("the same, `Synced`", "80,000 a second, 5 times the best peer", |results| {
        rate(results, "life", SYNCED, 80_000.0, 5.0)
    }),
    Must("whole life, random delays, a million pending, `Written`", "40,000 a second", |results| {
        rate(results, "life-random", WRITTEN, 40_000.0, 0.0)
    }),
    Must("the same, `Synced`", "30,000 a second", |results| {
        rate(results, "life-random", SYNCED, 30_000.0, 0.0)
    }),
    Must(
        "insert, 64 callers, `Synced`",
        "0.05 fsync an insert, 3 times rustqueue with write coalescing",
        |results| {
            let syncs = results.ours("insert-64", SYNCED, "syncs_per_job")?;
            let rate = results.ours("insert-64", SYNCED, "jobs_per_s")?;
            let theirs = results.median("insert-64", "rustqueue", SYNCED, "jobs_per_s")?;
            let text = format!("{syncs:.3}; {:.1} times", rate / theirs);
            Some(Reached { text, enough: syncs <= 0.05 && rate >= 3.0 * theirs })
        },
    ),
    Must("insert, one caller, `Written`", "5 times the best peer", |results| {
        rate(results, "insert-1", WRITTEN, 0.0, 5.0)
    }),
    Must("insert, one caller, `Synced`", "one fsync each, 90 % of the disk's rate", |results| {
        let syncs = results.ours("insert-1", SYNCED, "syncs_per_job")?;
        let rate = results.ours("insert-1", SYNCED, "jobs_per_s")?;
        let disk = results.median("insert-1", "disk", SYNCED, "jobs_per_s")?;
        let text = format!("{syncs:.2}; {:.0} %", 100.0 * rate / disk);
        Some(Reached { text, enough: syncs < 1.05 && rate >= 0.9 * disk })
    }),
    Must(
        "1,000 scheduled jobs a second, a million pending, `Written`",
        "none early; p50 1.5 ms, p99 5 ms",
        |results| lateness(results, WRITTEN),
    ),
    Must("the same, `Synced`", "none early; p50 1.5 ms, p99 5 ms", |results| {
        lateness(results, SYNCED)
    }),
    Must("insert for now to start, `Synced`", "an fsync and 0.5 ms at the median", |results| {
        let start = results.ours("start", SYNCED, "start_p50_ms")?;
        let sync = results.ours("start", SYNCED, "sync_us")? / 1e3;
        let text = format!("{} ms; an fsync {} ms", number(start), number(sync));
        Some(Reached { text, enough: start <= sync + 0.5 })
    }),
    Must("10,000 for one instant, `Synced`", "all started within 200 ms", |results| {
        Some(at_most(results.ours("instant", SYNCED, "first_to_last_ms")?, 200.0, "ms"))
    }),
    Must("after `kill -9` to the first overdue run, a million pending", "300 ms", |results| {
        Some(at_most(results.ours("kill", SYNCED, "first_run_ms")?, 300.0, "ms"))
    }),
    Must("the same, ten million pending", "1,000 ms", |results| {
        Some(at_most(results.ours("kill-10m", SYNCED, "first_run_ms")?, 1000.0, "ms"))
    }),
    Must("resident memory, ten million pending", "100 MB", |results| {
        Some(at_most(results.ours("memory-10m", SYNCED, "peak_mb")?, 100.0, "MB at its peak"))
    }),
    Must("idle, a million pending", "one wake-up a second, no commit", |results| {
        let figure = |name| results.ours("idle", SYNCED, name);
        let (wakeups, commits) = (figure("wakeups_per_s")?, figure("commits")?);
        let text = format!("{} a second; {commits} commits", number(wakeups));
        Some(Reached { text, enough: wakeups <= 1.0 && commits == 0.0 })
    }),
    Must(
        "bytes written a job, the same delay, whole life, `Written`",
        "half of effectum's",
        |results| bytes(results, "life", WRITTEN),
    ),
    Must("the same, `Synced`", "half of effectum's", |results| bytes(results, "life", SYNCED)),
    Must(
        "bytes written a job, random delays, insert, `Written`",
        "half of effectum's",
        |results| bytes(results, "insert-random", WRITTEN),
    ),
    Must("the same, `Synced`", "half of effectum's", |results| {
        bytes(results, "insert-random", SYNCED)
    }),
    Must(
        "the file, many jobs through 100,000 live",
        "twice of what 100,000 need, and it shrinks",
        |results| file(results, "file-10m").or_else(|| file(results, "file")),
    ),
];
