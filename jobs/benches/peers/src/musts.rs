//! What was asked for beside what was reached.
//!
//! A must is a sentence, and a function that reads the figures and says what was reached and whether
//! that is enough. Without figures it says nothing.

use crate::plan::{CONTENDERS, OURS, SYNCED, WRITTEN};
use crate::report::number;
use crate::results::Results;

pub(crate) struct Must {
    pub(crate) row: &'static str,
    pub(crate) wanted: &'static str,
    pub(crate) reached: fn(&Results) -> Option<Reached>,
}

pub(crate) struct Reached {
    pub(crate) text: String,
    pub(crate) enough: bool,
}

/// Figures of ours.
fn ours(results: &Results, row: &str, level: &str, figure: &str) -> Option<f64> {
    results.median(row, OURS, level, figure)
}

/// The peer that is best at a figure of which more is better.
fn best_peer(
    results: &Results,
    row: &str,
    level: &str,
    figure: &str,
) -> Option<(&'static str, f64)> {
    let peers = CONTENDERS.iter().filter(|c| c.name != OURS && c.name != "disk");
    peers
        .filter_map(|peer| Some((peer.name, results.median(row, peer.name, level, figure)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn rate(results: &Results, row: &str, level: &str, least: f64, times: f64) -> Option<Reached> {
    let rate = ours(results, row, level, "jobs_per_s")?;
    let mut text = format!("{} a second", number(rate));
    let mut enough = rate >= least;
    if times > 0.0 {
        let (peer, best) = best_peer(results, row, level, "jobs_per_s")?;
        text += &format!(", {:.1} times {peer}", rate / best);
        enough &= rate >= times * best;
    }
    Some(Reached { text, enough })
}

fn at_most(value: f64, most: f64, unit: &str) -> Reached {
    Reached { text: format!("{} {unit}", number(value)), enough: value <= most }
}

fn lateness(results: &Results, level: &str) -> Option<Reached> {
    let figure = |name| ours(results, "late", level, name);
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
    let figure = |name| ours(results, row, WRITTEN, name);
    let (needed, passed, drained) =
        (figure("needed_mb")?, figure("passed_mb")?, figure("drained_mb")?);
    let text = format!(
        "{:.1} times after {} jobs; {} MB, then {} MB",
        passed / needed,
        number(figure("jobs")?),
        number(passed),
        number(drained)
    );
    Some(Reached { text, enough: passed <= 2.0 * needed && drained < passed })
}

pub(crate) const MUSTS: &[Must] = &[
    Must {
        row: "whole life, the same delay, `Written`",
        wanted: "100,000 a second, 5 times the best peer",
        reached: |results| rate(results, "life", WRITTEN, 100_000.0, 5.0),
    },
    Must {
        row: "the same, `Synced`",
        wanted: "80,000 a second, 5 times the best peer",
        reached: |results| rate(results, "life", SYNCED, 80_000.0, 5.0),
    },
    Must {
        row: "whole life, random delays, a million pending, `Written`",
        wanted: "40,000 a second",
        reached: |results| rate(results, "life-random", WRITTEN, 40_000.0, 0.0),
    },
    Must {
        row: "the same, `Synced`",
        wanted: "30,000 a second",
        reached: |results| rate(results, "life-random", SYNCED, 30_000.0, 0.0),
    },
    Must {
        row: "insert, 64 callers, `Synced`",
        wanted: "0.05 fsync an insert, 3 times rustqueue's coalesced rate",
        reached: |results| {
            let syncs = ours(results, "insert-64", SYNCED, "syncs_per_job")?;
            let rate = ours(results, "insert-64", SYNCED, "jobs_per_s")?;
            let theirs = results.median("insert-64", "rustqueue", SYNCED, "jobs_per_s")?;
            let text = format!("{syncs:.3}; {:.1} times", rate / theirs);
            Some(Reached { text, enough: syncs <= 0.05 && rate >= 3.0 * theirs })
        },
    },
    Must {
        row: "insert, one caller, `Written`",
        wanted: "5 times the best peer",
        reached: |results| rate(results, "insert-1", WRITTEN, 0.0, 5.0),
    },
    Must {
        row: "insert, one caller, `Synced`",
        wanted: "one fsync each, 90 % of the disk's rate",
        reached: |results| {
            let syncs = ours(results, "insert-1", SYNCED, "syncs_per_job")?;
            let rate = ours(results, "insert-1", SYNCED, "jobs_per_s")?;
            let disk = results.median("insert-1", "disk", SYNCED, "jobs_per_s")?;
            let text = format!("{syncs:.2}; {:.0} %", 100.0 * rate / disk);
            Some(Reached { text, enough: syncs < 1.05 && rate >= 0.9 * disk })
        },
    },
    Must {
        row: "1,000 scheduled jobs a second, a million pending, `Written`",
        wanted: "none early; p50 1.5 ms, p99 5 ms",
        reached: |results| lateness(results, WRITTEN),
    },
    Must {
        row: "the same, `Synced`",
        wanted: "none early; p50 1.5 ms, p99 5 ms",
        reached: |results| lateness(results, SYNCED),
    },
    Must {
        row: "insert for now to start, `Synced`",
        wanted: "an fsync and 0.5 ms at the median",
        reached: |results| {
            let start = ours(results, "start", SYNCED, "start_p50_ms")?;
            let sync = ours(results, "start", SYNCED, "sync_us")? / 1e3;
            let text = format!("{} ms; an fsync {} ms", number(start), number(sync));
            Some(Reached { text, enough: start <= sync + 0.5 })
        },
    },
    Must {
        row: "10,000 for one instant, `Synced`",
        wanted: "all started within 200 ms",
        reached: |results| {
            Some(at_most(ours(results, "instant", SYNCED, "first_to_last_ms")?, 200.0, "ms"))
        },
    },
    Must {
        row: "after `kill -9` to the first overdue run, a million pending",
        wanted: "300 ms",
        reached: |results| {
            Some(at_most(ours(results, "kill", SYNCED, "first_run_ms")?, 300.0, "ms"))
        },
    },
    Must {
        row: "the same, ten million pending",
        wanted: "1,000 ms",
        reached: |results| {
            Some(at_most(ours(results, "kill-10m", SYNCED, "first_run_ms")?, 1000.0, "ms"))
        },
    },
    Must {
        row: "resident memory, ten million pending",
        wanted: "100 MB",
        reached: |results| {
            Some(at_most(ours(results, "memory-10m", SYNCED, "peak_mb")?, 100.0, "MB at its peak"))
        },
    },
    Must {
        row: "idle, a million pending",
        wanted: "one wake-up a second, no commit",
        reached: |results| {
            let figure = |name| ours(results, "idle", SYNCED, name);
            let (wakeups, commits) = (figure("wakeups_per_s")?, figure("commits")?);
            let text = format!("{} a second; {commits} commits", number(wakeups));
            Some(Reached { text, enough: wakeups <= 1.0 && commits == 0.0 })
        },
    },
    Must {
        row: "bytes written a job, the same delay, whole life, `Written`",
        wanted: "half of effectum's",
        reached: |results| bytes(results, "life", WRITTEN),
    },
    Must {
        row: "the same, `Synced`",
        wanted: "half of effectum's",
        reached: |results| bytes(results, "life", SYNCED),
    },
    Must {
        row: "bytes written a job, random delays, insert, `Written`",
        wanted: "half of effectum's",
        reached: |results| bytes(results, "insert-random", WRITTEN),
    },
    Must {
        row: "the same, `Synced`",
        wanted: "half of effectum's",
        reached: |results| bytes(results, "insert-random", SYNCED),
    },
    Must {
        row: "the file, many jobs through 100,000 live",
        wanted: "twice of what 100,000 need, and it shrinks",
        reached: |results| file(results, "file-10m").or_else(|| file(results, "file")),
    },
];
