//! What was asked for beside what was reached.
//!
//! A must is a sentence, and a function that reads the figures and says what was reached and whether
//! that is enough. Without figures it says nothing. Where a peer is named, it is the best one.

use crate::plan::{CONTENDERS, EVERYSEC, OURS, ROWS};
use crate::report::number;
use crate::results::{Case, Results};

pub(crate) struct Must {
    pub(crate) row: &'static str,
    pub(crate) wanted: &'static str,
    pub(crate) reached: fn(&Results) -> Option<Reached>,
}

pub(crate) struct Reached {
    pub(crate) text: String,
    pub(crate) enough: bool,
}

/// Which of two figures is the better one.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

fn ours(results: &Results, row: &str, figure: &str) -> Option<f64> {
    results.median(row, OURS, EVERYSEC, figure)
}

/// The peer that is best at a figure.
fn best_peer(
    results: &Results,
    row: &str,
    figure: &str,
    better: Better,
) -> Option<(&'static str, f64)> {
    let peers = CONTENDERS.iter().filter(|contender| contender.name != OURS);
    let figures = peers
        .filter_map(|peer| Some((peer.name, results.median(row, peer.name, EVERYSEC, figure)?)));
    match better {
        Better::More => figures.max_by(|a, b| a.1.total_cmp(&b.1)),
        Better::Less => figures.min_by(|a, b| a.1.total_cmp(&b.1)),
    }
}

fn rate(results: &Results, row: &str, times: f64) -> Option<Reached> {
    let rate = ours(results, row, "jobs_per_s")?;
    let (peer, best) = best_peer(results, row, "jobs_per_s", Better::More)?;
    let text = format!("{} a second, {:.1} times {peer}", number(rate), rate / best);
    Some(Reached { text, enough: rate >= times * best })
}

fn lateness(results: &Results, row: &str) -> Option<Reached> {
    // Early is early, in whichever repetition.
    let early = worst(results, row, "early")?;
    let (p50, p99) = (ours(results, row, "q0.5")?, ours(results, row, "q0.99")?);
    let text = format!(
        "{early} early; p50 {} ms, p99 {} ms, worst {} ms",
        number(p50),
        number(p99),
        number(worst(results, row, "q1")?)
    );
    Some(Reached { text, enough: early == 0.0 && p99 <= 5.0 })
}

/// The largest of all repetitions.
fn worst(results: &Results, row: &str, figure: &str) -> Option<f64> {
    let case = Case { row: row.into(), contender: OURS.into(), level: EVERYSEC.into() };
    Some(results.spread(&case, figure)?.max)
}

fn start(results: &Results, figure: &str) -> Option<Reached> {
    let value = ours(results, "start", figure)?;
    let (peer, best) = best_peer(results, "start", figure, Better::Less)?;
    let text = format!("{} ms; {peer} {} ms", number(value), number(best));
    Some(Reached { text, enough: value <= best })
}

fn idle(results: &Results, row: &str) -> Option<Reached> {
    let (rate, jobs) = (ours(results, row, "commands_per_s")?, ours(results, row, "jobs")?);
    let text = format!("{} with {} pending", number(rate), number(jobs));
    Some(Reached { text, enough: rate <= 3.0 })
}

pub(crate) const MUSTS: &[Must] = &[
    Must {
        row: "insert in bulks of 500",
        wanted: "4 times the best",
        reached: |results| rate(results, "insert", 4.0),
    },
    Must {
        row: "whole life",
        wanted: "3 times the best, 0.1 round trip a job",
        reached: |results| {
            let Reached { text, enough } = rate(results, "life", 3.0)?;
            let trips = ours(results, "life", "trips_per_job")?;
            let text = format!("{text}; {} round trip", number(trips));
            Some(Reached { text, enough: enough && trips <= 0.1 })
        },
    },
    Must {
        row: "10,000 over two seconds",
        wanted: "none early, p99 5 ms",
        reached: |results| lateness(results, "delayed"),
    },
    Must {
        row: "1,000 a second on three nodes",
        wanted: "none early, p99 5 ms",
        reached: |results| lateness(results, "late"),
    },
    Must {
        row: "insert for now to start, p50",
        wanted: "at most the best's",
        reached: |results| start(results, "start_p50_ms"),
    },
    Must {
        row: "the same, p99",
        wanted: "at most the best's",
        reached: |results| start(results, "start_p99_ms"),
    },
    Must {
        row: "20,000 at one instant, three nodes",
        wanted: "all started within 500 ms, each once",
        reached: |results| {
            let last = ours(results, "instant", "last_ms")?;
            let lost = worst(results, "instant", "lost")?;
            let twice = worst(results, "instant", "twice")?;
            let text = format!("{} ms; {lost} not run, {twice} twice", number(last));
            Some(Reached { text, enough: last <= 500.0 && lost == 0.0 && twice == 0.0 })
        },
    },
    Must {
        row: "longest script",
        wanted: "2 ms",
        reached: |results| {
            let rows = ROWS
                .iter()
                .filter_map(|row| Some((row.name, worst(results, row.name, "script_ms")?)));
            let (row, longest) = rows.max_by(|a, b| a.1.total_cmp(&b.1))?;
            let text = format!("{} ms, in `{row}`", number(longest));
            Some(Reached { text, enough: longest <= 2.0 })
        },
    },
    Must {
        row: "memory a pending job, 100 bytes of payload",
        wanted: "half of the best's",
        reached: |results| {
            let bytes = ours(results, "idle", "bytes_per_job")?;
            let (peer, best) = best_peer(results, "idle", "bytes_per_job", Better::Less)?;
            let text = format!("{} bytes; {peer} {}", number(bytes), number(best));
            Some(Reached { text, enough: 2.0 * bytes <= best })
        },
    },
    Must {
        row: "idle, a million pending, three nodes",
        wanted: "3 commands a second and node",
        reached: |results| idle(results, "idle-million"),
    },
    Must {
        row: "after a worker is killed",
        wanted: "its jobs start elsewhere within the lease and a second",
        reached: |results| {
            let last = worst(results, "killed", "after_lease_last_ms")?;
            let lost = worst(results, "killed", "lost")?;
            let text = format!("the lease and {} ms; {lost} not run", number(last));
            Some(Reached { text, enough: last <= 1000.0 && lost == 0.0 })
        },
    },
];
