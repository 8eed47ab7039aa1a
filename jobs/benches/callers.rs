//! How many inserts a second callers make together: threads, and tasks of a tokio runtime with two workers.
//!
//! ```sh
//! cargo bench -p tickwheel-jobs --features redis,tokio --bench callers
//! cargo bench -p tickwheel-jobs --features redis,tokio --bench callers -- --rounds 5 --seconds 2
//! ```
//!
//! Each line is the median of the rounds, and the least and the most of them. All rows are measured by turns. A
//! *process* row inserts in the process that runs the jobs; a *client* row through one client, which all callers
//! share. Beside the tasks ten others sleep for a millisecond again and again: the last column is how much of
//! a hundred of those sleeps, sorted, the 99th took.

#[path = "steps/open.rs"]
#[allow(dead_code, reason = "made for the other benchmark")]
mod open;

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel_jobs::{Client, Jobs};

use open::{Filled, Level, Place, task};

/// In which way the callers call.
#[derive(Clone, Copy)]
enum How {
    Threads(usize),
    Tasks(usize),
}

/// The figures of one round of a row.
struct Measured {
    a_second: f64,
    /// The 99th percentile of the sleeps, in ms.
    sleep: Option<f64>,
}

const ROWS: [How; 4] = [How::Threads(1), How::Threads(64), How::Tasks(1), How::Tasks(200)];
const SLEEPERS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let (rounds, length) = options()?;
    println!("| | callers | inserts a second | a sleep of 1 ms, p99 (ms) |");
    println!("| --- | --- | ---: | ---: |");
    for level in [Level::Written, Level::Server] {
        for is_client in [false, true] {
            let mut rows: [Vec<Measured>; ROWS.len()] = Default::default();
            for _ in 0..rounds {
                for (row, how) in rows.iter_mut().zip(ROWS) {
                    row.push(round(level, is_client, how, length)?);
                }
            }
            for (row, how) in rows.iter().zip(ROWS) {
                let place = if is_client { "client" } else { "process" };
                let level = if level == Level::Server { "server" } else { "file, written" };
                print(&format!("{level}, {place}"), how, row);
            }
        }
    }
    Ok(())
}

fn print(place: &str, how: How, row: &[Measured]) {
    let callers = match how {
        How::Threads(n) => format!("{n} threads"),
        How::Tasks(n) => format!("{n} tasks"),
    };
    let mut rates: Vec<f64> = row.iter().map(|measured| measured.a_second).collect();
    rates.sort_by(f64::total_cmp);
    let mut sleeps: Vec<f64> = row.iter().filter_map(|measured| measured.sleep).collect();
    sleeps.sort_by(f64::total_cmp);
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    let rate = format!("{:.0} ({least:.0} to {most:.0})", rates[rates.len() / 2]);
    let sleep = sleeps.get(sleeps.len() / 2).map_or(String::new(), |ms| format!("{ms:.1}"));
    println!("| {place} | {callers} | {rate} | {sleep} |");
}

fn round(
    level: Level,
    is_client: bool,
    how: How,
    length: Duration,
) -> Result<Measured, Box<dyn Error>> {
    let filled = Filled::default();
    let place = Place::new(&env::temp_dir(), level, &filled)?;
    let runner: Option<Jobs> = match is_client {
        true => None,
        false => Some(place.open()?.handle(|_: open::Task, _| Ok(())).start()?),
    };
    let client = match &runner {
        Some(jobs) => jobs.client(),
        None => place.open()?.client()?,
    };
    match how {
        How::Threads(n) => Ok(threads(&client, n, length)),
        How::Tasks(n) => tasks(&client, n, length),
    }
}

fn in_an_hour() -> Duration {
    Duration::from_secs(3600)
}

fn threads(client: &Client, many: usize, length: Duration) -> Measured {
    let is_over = AtomicBool::new(false);
    let began = now();
    let inserted: u64 = thread::scope(|scope| {
        let insert = || {
            let mut inserted = 0;
            while !is_over.load(Ordering::Relaxed) {
                client.insert(in_an_hour(), task(inserted)).expect("the job is stored");
                inserted += 1;
            }
            inserted
        };
        let threads: Vec<_> = (0..many).map(|_| scope.spawn(insert)).collect();
        pause(length);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    Measured { a_second: inserted as f64 / began.elapsed().as_secs_f64(), sleep: None }
}

fn tasks(client: &Client, many: usize, length: Duration) -> Result<Measured, Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let is_over = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let began = now();
        let tasks: Vec<_> = (0..many)
            .map(|_| {
                let (client, is_over) = (client.clone(), Arc::clone(&is_over));
                tokio::spawn(async move {
                    let mut inserted = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let stored =
                            client.asynchronous().insert(in_an_hour(), task(inserted)).await;
                        stored.expect("the job is stored");
                        inserted += 1;
                    }
                    inserted
                })
            })
            .collect();
        let sleepers: Vec<_> = (0..SLEEPERS)
            .map(|_| {
                let is_over = Arc::clone(&is_over);
                tokio::spawn(async move {
                    let mut took = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let began = now();
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        took.push(began.elapsed().as_secs_f64() * 1e3);
                    }
                    took
                })
            })
            .collect();
        tokio::time::sleep(length).await;
        is_over.store(true, Ordering::Relaxed);
        let mut inserted = 0;
        for task in tasks {
            inserted += task.await?;
        }
        let a_second = inserted as f64 / began.elapsed().as_secs_f64();
        let mut sleeps = Vec::new();
        for sleeper in sleepers {
            sleeps.extend(sleeper.await?);
        }
        sleeps.sort_by(f64::total_cmp);
        let sleep = sleeps.get(sleeps.len() * 99 / 100).copied();
        Ok::<_, Box<dyn Error>>(Measured { a_second, sleep })
    })
}

#[expect(clippy::disallowed_methods, reason = "the callers work meanwhile")]
fn pause(time: Duration) {
    thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn options() -> Result<(usize, Duration), Box<dyn Error>> {
    let (mut rounds, mut seconds) = (3, 2.0);
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--rounds" => rounds = value.parse()?,
            "--seconds" => seconds = value.parse()?,
            _ => return Err(format!("{name} is no option").into()),
        }
    }
    Ok((rounds, Duration::from_secs_f64(seconds)))
}
