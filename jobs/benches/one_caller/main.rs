//! Measures the inserts a second of one caller that waits for each insert: beside a bare loop of `INSERT` and
//! `COMMIT` on SQLite with the same settings, and beside the bare round trip of the same `EVALSHA` on a server.
//!
//! ```sh
//! cargo bench -p tickwheel-jobs --features redis --bench one_caller
//! cargo bench -p tickwheel-jobs --features redis --bench one_caller -- --only server --rounds 9 --seconds 1
//! ```
//!
//! The rows are measured by turns, each with a new file or server. A rate is the median of the rounds, with the least
//! and the most of them. A rate is compared with the bare row of the same round, so a machine that is slow for a
//! while slows both. *process* inserts in the process that runs the jobs, and *client* by a client that runs none.
//! The switches are counted for the thread that inserts, and for each insert: the thread waited for another thread,
//! for the disk, or for the server.

#[path = "../steps/open.rs"]
#[allow(dead_code, reason = "made for the other benchmark")]
mod open;
mod server;
mod sqlite;

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickwheel_jobs::Client;

use open::{Filled, Level, Place, Task, task};

/// The program that inserts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Bare,
    Process,
    Client,
}

const ROWS: [(Row, &str); 3] =
    [(Row::Bare, "bare"), (Row::Process, "process"), (Row::Client, "client")];

/// The figures of one round of a row.
struct Measured {
    a_second: f64,
    switches: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { rounds, length, folder, only } = options()?;
    println!("| durability | | inserts a second | of the bare row | switches an insert |");
    println!("| --- | --- | ---: | ---: | ---: |");
    let levels = [Level::Written, Level::Synced, Level::Server];
    for level in levels.into_iter().filter(|level| only.is_none_or(|only| only == *level)) {
        let mut found: [Vec<Measured>; ROWS.len()] = Default::default();
        for _ in 0..rounds {
            for (found, (row, _)) in found.iter_mut().zip(ROWS) {
                found.push(round(row, level, length, &folder)?);
            }
        }
        for (row, (_, name)) in found.iter().zip(ROWS) {
            let rates = row.iter().map(|round| round.a_second);
            let parts =
                row.iter().zip(&found[0]).map(|(round, bare)| round.a_second / bare.a_second);
            let switches = row.iter().map(|round| round.switches);
            let rates = median(rates.collect(), 0);
            let (parts, switches) = (median(parts.collect(), 2), median(switches.collect(), 2));
            println!("| {level} | {name} | {rates} | {parts} | {switches} |");
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

fn round(
    row: Row,
    level: Level,
    length: Duration,
    folder: &Path,
) -> Result<Measured, Box<dyn Error>> {
    let filled = Filled::default();
    let place = Place::new(folder, level, &filled)?;
    match (row, place.port()) {
        (Row::Bare, None) => sqlite::bare(&place.file(), level == Level::Synced, length),
        (Row::Bare, Some(port)) => {
            let mut bare = server::Bare::record(port)?;
            measure(length, |_| bare.insert())
        }
        (Row::Process, _) => {
            let jobs = place.open()?.handle(|_: Task, _| Ok(())).start()?;
            ours(&jobs, length)
        }
        (Row::Client, _) => ours(&place.open()?.client()?, length),
    }
}

/// Inserts jobs that are due in an hour.
fn ours(client: &Client, length: Duration) -> Result<Measured, Box<dyn Error>> {
    measure(length, |number| {
        client
            .insert(Duration::from_secs(3600), task(number))
            .map_err(|error| error.to_string())?;
        Ok(())
    })
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn measure(
    length: Duration,
    mut insert: impl FnMut(u64) -> Result<(), Box<dyn Error>>,
) -> Result<Measured, Box<dyn Error>> {
    // The first inserts make tables and fill caches.
    for number in 0..100 {
        insert(number)?;
    }
    let (before, began, mut inserted) = (switches(), Instant::now(), 0);
    while began.elapsed() < length {
        insert(100 + inserted)?;
        inserted += 1;
    }
    let a_second = inserted as f64 / began.elapsed().as_secs_f64();
    Ok(Measured { a_second, switches: (switches() - before) / inserted as f64 })
}

/// Returns the number of waits of this thread, or NaN if the system does not count them.
fn switches() -> f64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let waited = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waited.and_then(|waited| waited.trim().parse().ok()).unwrap_or(f64::NAN)
}

struct Options {
    rounds: usize,
    length: Duration,
    folder: PathBuf,
    /// The one level that is measured.
    only: Option<Level>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let (mut rounds, mut seconds, mut folder, mut only) = (5, 1.0, env::temp_dir(), None);
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--rounds" => rounds = value.parse()?,
            "--seconds" => seconds = value.parse()?,
            "--dir" => folder = value.into(),
            "--only" => only = Some(Level::named(&value).ok_or("there is no such level")?),
            _ => return Err(format!("{name} is no option").into()),
        }
    }
    Ok(Options { rounds, length: Duration::from_secs_f64(seconds), folder, only })
}
