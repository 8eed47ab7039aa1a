//! Reads the driver's commands and answers them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{Contender, Fallible, NewJob, runs};

/// A prime that divides none of the counts. Multiplied by it, neighbours in a bulk are due far from each other.
const STRIDE: u64 = 7919;

/// How a contender is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    pub url: String,
    /// Whether jobs are run.
    pub works: bool,
    pub lease: Duration,
    /// How long each handler takes.
    pub hold: Duration,
    /// Whether the queue gets a limit of [`NEVER_REACHED`] jobs a second.
    pub limited: bool,
    /// Among how many partitions the jobs are shared out, each of which runs one job at once. 0 for none.
    pub partitions: u64,
}

/// More jobs a second than any contender runs.
pub const NEVER_REACHED: u32 = 1_000_000_000;

/// Opens the contender that the command line describes, and does the driver's commands until the driver closes
/// the input.
pub fn main<C: Contender>() -> ExitCode {
    let ended = setup(std::env::args().skip(1)).and_then(|setup| serve::<C>(&setup));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contender: {error}");
            ExitCode::FAILURE
        }
    }
}

fn setup(words: impl Iterator<Item = String>) -> Fallible<Setup> {
    let words: Vec<String> = words.collect();
    let pairs: HashMap<&str, &str> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let get = |key| pairs.get(key).copied().ok_or_else(|| format!("{key}=.. is absent"));
    Ok(Setup {
        url: get("url")?.to_owned(),
        works: get("role")? == "work",
        lease: Duration::from_millis(get("lease_ms")?.parse()?),
        hold: Duration::from_millis(get("hold_ms")?.parse()?),
        limited: get("limited")? == "1",
        partitions: get("partitions")?.parse()?,
    })
}

fn serve<C: Contender>(setup: &Setup) -> Fallible {
    let mut contender = C::open(setup)?;
    say("ready\n")?;
    for line in stdin().lock().lines() {
        let line = line?;
        match act(&mut contender, &line) {
            Ok(answer) => say(&answer)?,
            Err(error) => say(&format!("error {}\n", error.to_string().replace('\n', " ")))?,
        }
    }
    Ok(())
}

fn say(text: &str) -> Fallible {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

fn act<C: Contender>(contender: &mut C, line: &str) -> Fallible<String> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let numbers: Vec<u64> = rest.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let start = Instant::now();
    match (verb, &numbers[..]) {
        ("insert", &[first, count, bulk, from, spread]) => {
            insert(contender, first, count, bulk, from, spread)?;
            Ok(format!("inserted {}\n", start.elapsed().as_nanos()))
        }
        ("one", &[first, count, pause]) => {
            for number in first..first + count {
                contender.insert(NewJob::now(number))?;
                thread::sleep(Duration::from_micros(pause));
            }
            Ok(format!("inserted {}\n", start.elapsed().as_nanos()))
        }
        ("started", []) => Ok(format!("started {}\n", runs::count())),
        ("unfinished", []) => Ok(format!("unfinished {}\n", contender.unfinished()?)),
        ("starts", []) => {
            let mut text = String::new();
            for run in runs::all() {
                writeln!(text, "{} {} {}", run.number, run.due, run.at)?;
            }
            Ok(text + "end\n")
        }
        _ => Err(format!("what is `{line}`?").into()),
    }
}

fn insert<C: Contender>(
    contender: &mut C,
    first: u64,
    count: u64,
    bulk: u64,
    from: u64,
    spread: u64,
) -> Fallible {
    let job = |i: u64| match from {
        0 => NewJob::now(first + i),
        _ => {
            let due = from + STRIDE * i % count * spread / count;
            NewJob::at(first + i, due / 1000 * 1000)
        }
    };
    for begin in (0..count).step_by(bulk as usize) {
        contender.insert_many((begin..count.min(begin + bulk)).map(job).collect())?;
    }
    Ok(())
}

/// Returns what the wall clock reads, in ns since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns what the wall clock reads, in µs since 1970.
pub fn now_us() -> u64 {
    now_ns() / 1000
}
