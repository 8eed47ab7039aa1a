//! The goals beside the results.
//!
//! A goal is a sentence and a function that reads the figures. The function returns the value that
//! was reached, and whether that is enough, or nothing if there are no figures. A peer that it
//! names is the best one.

use harness::queues::{Case, Must, Reached, best_peer, rate};
use harness::table::{Better, number};

use crate::contenders::EVERYSEC;
use crate::plan::ROWS;

type Results = harness::results::Results<Case>;

fn ours(results: &Results, row: &str, figure: &str) -> Option<f64> {
    results.ours(row, EVERYSEC, figure)
}

fn worst(results: &Results, row: &str, figure: &str) -> Option<f64> {
    results.worst(row, EVERYSEC, figure)
}

/// The peer whose figure is the least.
fn least<'a>(results: &'a Results, row: &str, figure: &str) -> Option<(&'a str, f64)> {
    best_peer(results, row, EVERYSEC, figure, Better::Less)
}

fn lateness(results: &Results, row: &str) -> Option<Reached> {
    // A job that is early in any repetition counts.
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

fn start(results: &Results, figure: &str) -> Option<Reached> {
    let value = ours(results, "start", figure)?;
    let (peer, best) = least(results, "start", figure)?;
    let text = format!("{} ms; {peer} {} ms", number(value), number(best));
    Some(Reached { text, enough: value <= best })
}

fn idle(results: &Results, row: &str) -> Option<Reached> {
    let (rate, jobs) = (ours(results, row, "commands_per_s")?, ours(results, row, "jobs")?);
    let text = format!("{} with {} pending", number(rate), number(jobs));
    Some(Reached { text, enough: rate <= 3.0 })
}

pub(crate) const MUSTS: &[Must] = &[
    Must("insert in bulks of 500", "4 times the best", |results| {
        rate(results, "insert", EVERYSEC, 0.0, 4.0)
    }),
    Must("whole life", "3 times the best, 0.1 round trip a job", |results| {
        let Reached { text, enough } = rate(results, "life", EVERYSEC, 0.0, 3.0)?;
        let trips = ours(results, "life", "trips_per_job")?;
        let text = format!("{text}; {} round trip", number(trips));
        Some(Reached { text, enough: enough && trips <= 0.1 })
    }),
    Must("10,000 over two seconds", "none early, p99 5 ms", |results| lateness(results, "delayed")),
    Must("1,000 a second on three nodes", "none early, p99 5 ms", |results| {
        lateness(results, "late")
    }),
    Must("insert for now to start, p50", "at most the best's", |results| {
        start(results, "start_p50_ms")
    }),
    Must("the same, p99", "at most the best's", |results| start(results, "start_p99_ms")),
    Must("20,000 at one instant, three nodes", "all started within 500 ms, each once", |results| {
        let last = ours(results, "instant", "last_ms")?;
        let lost = worst(results, "instant", "lost")?;
        let twice = worst(results, "instant", "twice")?;
        let text = format!("{} ms; {lost} not run, {twice} twice", number(last));
        Some(Reached { text, enough: last <= 500.0 && lost == 0.0 && twice == 0.0 })
    }),
    Must("longest script", "2 ms", |results| {
        let rows =
            ROWS.iter().filter_map(|row| Some((row.name, worst(results, row.name, "script_ms")?)));
        let (row, longest) = rows.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let text = format!("{} ms, in `{row}`", number(longest));
        Some(Reached { text, enough: longest <= 2.0 })
    }),
    Must("memory a pending job, 100 bytes of payload", "half of the best's", |results| {
        let bytes = ours(results, "idle", "bytes_per_job")?;
        let (peer, best) = least(results, "idle", "bytes_per_job")?;
        let text = format!("{} bytes; {peer} {}", number(bytes), number(best));
        Some(Reached { text, enough: 2.0 * bytes <= best })
    }),
    Must("idle, a million pending, three nodes", "3 commands a second and node", |results| {
        idle(results, "idle-million")
    }),
    Must(
        "after a worker is killed",
        "its jobs start elsewhere within the lease and a second",
        |results| {
            let last = worst(results, "killed", "after_lease_last_ms")?;
            let lost = worst(results, "killed", "lost")?;
            let when = match last < 0.0 {
                true => format!("{} ms before a whole lease has passed", number(-last)),
                false => format!("the lease and {} ms", number(last)),
            };
            let text = format!("{when}; {lost} not run");
            Some(Reached { text, enough: last <= 1000.0 && lost == 0.0 })
        },
    ),
];
