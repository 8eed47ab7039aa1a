//! What the features of a queue cost: the rate of whole lives with each of them, beside jobs that use none.
//!
//! ```sh
//! cargo bench -p tickwheel-jobs --features redis --bench features
//! cargo bench -p tickwheel-jobs --features redis --bench features -- --only server --rounds 9 --jobs 50000
//! cargo bench -p tickwheel-jobs --features redis --bench features -- --rows plain,kept --beside PROGRAM
//! ```
//!
//! A life is the insert of a job, its run and its end. One producer inserts batches of 1,000 jobs that are due at once,
//! and waits while 20,000 have not run. The clock stops when the store has no job left that is due. The rows are
//! measured by turns, each with a new file or server. A rate is the median of the rounds, with the least and the most
//! of them, and so is its ratio to the row *plain* of the same round. `--beside` names this program, built from another
//! version: its row *plain* is measured in each round too.

#[path = "steps/open.rs"]
#[allow(dead_code, reason = "made for the other benchmark")]
mod open;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Job, Keep, Limit, Run};

use open::{Filled, Level, Place};

/// The feature that the jobs of a row use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Plain,
    NoHistory,
    Kept,
    Partitions,
    Limit,
    Rate,
    Blocked,
}

const ROWS: [(Row, &str, &str); 7] = [
    (Row::Plain, "plain", "none"),
    (Row::NoHistory, "no-history", "no history"),
    (Row::Kept, "kept", "10,000 completed jobs are kept"),
    (Row::Partitions, "partitions", "1,000 partitions"),
    (Row::Limit, "limit", "a limit of the queue that never binds"),
    (Row::Rate, "rate", "a rate of the queue that never binds"),
    (Row::Blocked, "blocked", "100,000 jobs of another kind wait for their rate"),
];

const BATCH: u64 = 1_000;
const AHEAD: u64 = 20_000;
const PARTITIONS: u64 = 1_000;
const BLOCKED: u64 = 100_000;
const BESIDE: &str = "none, the other version";

/// A job of 110 bytes of JSON, as in the other benchmarks.
#[derive(Serialize, Deserialize)]
struct Sent {
    number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    text: String,
}

impl Job for Sent {
    const KIND: &'static str = "sent";

    fn partition(&self) -> Option<String> {
        self.to.map(|to| format!("customer {to}"))
    }
}

/// A job of the kind whose rate lets one start in an hour.
#[derive(Serialize, Deserialize)]
struct Waiting(u64);

impl Job for Waiting {
    const KIND: &'static str = "waiting";
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let rows: Vec<_> = ROWS.into_iter().filter(|(_, name, _)| options.wants(name)).collect();
    println!("| durability | the jobs use | lives a second | of plain |");
    println!("| --- | --- | ---: | ---: |");
    let levels = [Level::Written, Level::Server];
    for level in levels.into_iter().filter(|level| options.only.is_none_or(|only| only == *level)) {
        let mut rates = vec![Vec::new(); rows.len() + 1];
        for _ in 0..options.rounds {
            for (rates, (row, ..)) in rates.iter_mut().zip(&rows) {
                rates.push(lives(*row, level, &options)?);
            }
            if let Some(program) = &options.beside {
                rates[rows.len()].push(other(program, level, &options)?);
            }
        }
        let titles = rows.iter().map(|(.., title)| *title).chain([BESIDE]);
        for (found, title) in rates.iter().zip(titles).filter(|(found, _)| !found.is_empty()) {
            let parts = found.iter().zip(&rates[0]).map(|(rate, plain)| rate / plain).collect();
            println!("| {level} | {title} | {} | {} |", median(found.clone(), 0), median(parts, 3));
        }
    }
    Ok(())
}

/// Returns the median, and the least and the most.
fn median(mut found: Vec<f64>, digits: usize) -> String {
    found.sort_by(f64::total_cmp);
    let (least, most, median) = (found[0], found[found.len() - 1], found[found.len() / 2]);
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

/// Measures one round of a row, and returns the lives a second.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn lives(row: Row, level: Level, options: &Options) -> Result<f64, Box<dyn Error>> {
    let filled = Filled::default();
    let place = Place::new(&options.folder, level, &filled)?;
    let ran = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&ran);
    let handler = move |_: Sent, _: &Run| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let builder = place.open()?.handle(handler).handle(|_: Waiting, _: &Run| Ok(()));
    let jobs = settings(row, builder, &place.client()?)?.start()?;
    let began = Instant::now();
    for first in (0..options.jobs).step_by(BATCH as usize) {
        while first.saturating_sub(ran.load(Ordering::Relaxed)) >= AHEAD {
            thread::sleep(Duration::from_micros(200));
        }
        insert(&jobs, first, row)?;
    }
    while ran.load(Ordering::Relaxed) < options.jobs || unfinished(&jobs, row)? > 0 {
        thread::sleep(Duration::from_micros(500));
    }
    let rate = options.jobs as f64 / began.elapsed().as_secs_f64();
    jobs.shutdown()?;
    Ok(rate)
}

/// Sets what a row uses, before the first job.
fn settings(row: Row, builder: Builder, client: &Client) -> Result<Builder, Box<dyn Error>> {
    const HOUR: Duration = Duration::from_secs(3600);
    match row {
        Row::Plain | Row::Partitions => {}
        Row::NoHistory => return Ok(builder.history(false)),
        Row::Kept => client.kind::<Sent>().keep_completed(Keep::last(10_000))?,
        Row::Limit => client.queue().limit(Limit::running(1_000_000))?,
        Row::Rate => {
            client.queue().limit(Limit::none().rate(1_000_000_000, Duration::from_secs(1)))?
        }
        Row::Blocked => {
            client.kind::<Waiting>().limit(Limit::none().rate(1, HOUR))?;
            for first in (0..BLOCKED).step_by(10_000) {
                let batch = (first..first + 10_000).map(|n| (Duration::ZERO, Waiting(n)));
                client.insert_batch(batch).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(builder)
}

fn insert(client: &Client, first: u64, row: Row) -> Result<(), Box<dyn Error>> {
    let sent = |number| Sent {
        number,
        to: (row == Row::Partitions).then_some(number % PARTITIONS),
        text: "x".repeat(80),
    };
    let batch = (first..first + BATCH).map(|number| (Duration::ZERO, sent(number)));
    client.insert_batch(batch).map_err(|error| error.to_string())?;
    Ok(())
}

/// Returns how many jobs the store has, beside those that wait for their rate.
fn unfinished(client: &Client, row: Row) -> Result<u64, Box<dyn Error>> {
    let counts = client.count()?;
    let waiting = if row == Row::Blocked { BLOCKED - 1 } else { 0 };
    Ok((counts.pending + counts.claimed + counts.running + counts.dead).saturating_sub(waiting))
}

/// Lets the program of the other version measure one round.
fn other(program: &PathBuf, level: Level, options: &Options) -> Result<f64, Box<dyn Error>> {
    let output = Command::new(program)
        .args(["--only", &level.to_string(), "--rounds", "1", "--rows", "plain"])
        .args(["--jobs", &options.jobs.to_string(), "--dir"])
        .arg(&options.folder)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = said.lines().last().and_then(|line| line.split('|').nth(3)?.split('(').next());
    Ok(rate.ok_or_else(|| format!("the other version says {said}"))?.trim().parse()?)
}

struct Options {
    rounds: usize,
    jobs: u64,
    folder: PathBuf,
    /// The one level that is measured.
    only: Option<Level>,
    /// The rows that are measured, or none for all.
    rows: Vec<String>,
    beside: Option<PathBuf>,
}

impl Options {
    /// Whether a row is measured. *plain* always is, since the others are compared with it.
    fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || row == ROWS[0].1 || self.rows.iter().any(|wanted| wanted == row)
    }
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        rounds: 5,
        jobs: 100_000,
        folder: env::temp_dir(),
        only: None,
        rows: Vec::new(),
        beside: None,
    };
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--rounds" => options.rounds = value.parse()?,
            "--jobs" => options.jobs = value.parse()?,
            "--dir" => options.folder = value.into(),
            "--only" => options.only = Some(Level::named(&value).ok_or("there is no such level")?),
            "--rows" => options.rows = value.split(',').map(str::to_owned).collect(),
            "--beside" => options.beside = Some(value.into()),
            _ => return Err(format!("{name} is no option").into()),
        }
    }
    options.jobs = options.jobs.next_multiple_of(BATCH);
    Ok(options)
}
