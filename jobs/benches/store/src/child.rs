//! Measures one candidate, in a process of its own. A line of the output is a metric and a value.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::candidate::{Candidate, Engine, Sync};
use crate::process;
use crate::store::{self, Store};
use crate::workload::{Delays, Workload};

/// How many jobs a commit holds while a file is filled.
const FILL_GROUP: usize = 20_000;
/// Before the first cell, so that caches, the WAL and compactions are in their steady state.
const WARM_UP: Duration = Duration::from_millis(1000);
/// A slow candidate stops before it has lived all jobs.
const CHURN_LIMIT: Duration = Duration::from_secs(100);
/// The name of a file that does not exist: its removal is a mark in the trace of system calls.
pub(crate) const MARK: &str = "store-bench-mark";

pub(crate) fn run(arguments: &[String]) -> Fallible<()> {
    let text: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [task, candidate, directory, rest @ ..] = &text[..] else {
        return Err("a child wants a task, a candidate and a directory".into());
    };
    let candidate: Candidate = candidate.parse()?;
    let directory = Path::new(directory);
    match (*task, rest) {
        ("fill", [delays, live]) => fill(candidate, directory, delays.parse()?, live.parse()?),
        ("speed", [delays, live, seed, cell_ms, groups]) => {
            let mut life = Life::open(candidate, directory, delays, live, seed)?;
            life.speed(Duration::from_millis(cell_ms.parse()?), groups)?;
            report_end(directory)
        }
        ("syncs", [delays, live, group, rounds]) => {
            let mut life = Life::open(candidate, directory, delays, live, "1")?;
            life.syncs(group.parse()?, rounds.parse()?)
        }
        ("churn", [live, jobs]) => {
            let mut life = Life::open(candidate, directory, "b", live, "1")?;
            life.churn(directory, jobs.parse()?)?;
            report_end(directory)
        }
        ("until-killed", [delays, live, seed]) => {
            let mut life = Life::open(candidate, directory, delays, live, seed)?;
            life.rounds(256, |started, _| started < Duration::from_millis(500))?;
            println!("ready 1");
            life.rounds(256, |_, _| true)
        }
        ("reopen", []) => {
            let started = Instant::now();
            let mut store = store::open(&candidate, directory)?;
            let opened = started.elapsed();
            std::hint::black_box(store.first()?);
            let first = started.elapsed();
            println!("open_ms {}", opened.as_secs_f64() * 1e3);
            println!("first_ms {}", first.as_secs_f64() * 1e3);
            report_end(directory)
        }
        _ => Err(format!("not a task of a child: {text:?}").into()),
    }
}

fn fill(candidate: Candidate, directory: &Path, delays: Delays, live: u64) -> Fallible<()> {
    // redb has no level below the disk that outlives the process.
    let sync = if candidate.engine == Engine::Redb { Sync::Full } else { Sync::Off };
    let checkpoint_pages = candidate.checkpoint_pages * 16;
    let filling = Candidate { sync, cache_mib: 1024, checkpoint_pages, ..candidate };
    let mut store = store::open(&filling, directory)?;
    let mut workload = Workload::new(delays, live, 7);
    let mut left = live;
    while left > 0 {
        let count = left.min(FILL_GROUP as u64);
        store.insert(&workload.pending(count))?;
        left -= count;
    }
    store.settle()
}

fn report_end(directory: &Path) -> Fallible<()> {
    let (log, file) = process::sizes(directory)?;
    println!("rss_kib {}", process::peak_rss_kib()?);
    println!("log_bytes {log}");
    println!("file_bytes {file}");
    Ok(())
}

struct Life {
    store: Box<dyn Store>,
    workload: Workload,
    group: Vec<crate::workload::Job>,
    /// How long each commit took that inserted a group.
    inserts: Vec<Duration>,
    /// The longest commit that took a group: in S3 and S4 one that moved an hour.
    longest_take: Duration,
}

impl Life {
    fn open(
        candidate: Candidate,
        directory: &Path,
        delays: &str,
        live: &str,
        seed: &str,
    ) -> Fallible<Self> {
        let live = live.parse()?;
        let mut store = store::open(&candidate, directory)?;
        let mut workload = Workload::new(delays.parse()?, live, 1000 + seed.parse::<u64>()?);
        workload.resume(live);
        workload.now = store.first()?;
        Ok(Self {
            store,
            workload,
            group: Vec::new(),
            inserts: Vec::new(),
            longest_take: Duration::ZERO,
        })
    }

    /// Inserts groups and takes as many, as long as `more` wants, which is told the time since the
    /// start and the jobs done.
    fn rounds(&mut self, size: usize, more: impl Fn(Duration, u64) -> bool) -> Fallible<()> {
        let started = Instant::now();
        let mut jobs = 0;
        self.inserts.clear();
        self.longest_take = Duration::ZERO;
        while more(started.elapsed(), jobs) {
            self.workload.group(size, &mut self.group);
            let before = Instant::now();
            self.store.insert(&self.group)?;
            self.inserts.push(before.elapsed());
            let before = Instant::now();
            self.workload.now = self.store.take(self.workload.now, size)?;
            self.longest_take = self.longest_take.max(before.elapsed());
            jobs += size as u64;
        }
        Ok(())
    }

    fn speed(&mut self, cell: Duration, groups: &str) -> Fallible<()> {
        self.rounds(1024, |elapsed, _| elapsed < WARM_UP.min(cell))?;
        for size in groups.split(',') {
            let group = size.parse()?;
            let before = process::usage()?;
            let started = Instant::now();
            self.rounds(group, |elapsed, _| elapsed < cell)?;
            let elapsed = started.elapsed();
            let after = process::usage()?;
            let jobs = (self.inserts.len() * group) as f64;
            self.inserts.sort_unstable();
            let at =
                |q: usize| self.inserts[(self.inserts.len() - 1) * q / 1000].as_secs_f64() * 1e6;
            println!("{size}:jobs_per_s {}", jobs / elapsed.as_secs_f64());
            println!("{size}:cpu_us {}", (after.cpu - before.cpu).as_secs_f64() * 1e6 / jobs);
            println!("{size}:written {}", (after.written - before.written) as f64 / jobs);
            println!("{size}:dirtied {}", (after.dirtied - before.dirtied) as f64 / jobs);
            println!("{size}:p50_us {}", at(500));
            println!("{size}:p99_us {}", at(990));
            println!("{size}:max_us {}", at(1000));
            println!("{size}:take_max_us {}", self.longest_take.as_secs_f64() * 1e6);
        }
        Ok(())
    }

    fn syncs(&mut self, group: usize, rounds: u64) -> Fallible<()> {
        // The removals fail: they are there for the trace.
        let _ = std::fs::remove_file(MARK);
        let jobs = rounds * group as u64;
        self.rounds(group, |_, done| done < jobs)?;
        let _ = std::fs::remove_file(MARK);
        println!("jobs {jobs}");
        Ok(())
    }

    fn churn(&mut self, directory: &Path, jobs: u64) -> Fallible<()> {
        let (log, file) = process::sizes(directory)?;
        println!("0:log_bytes {log}\n0:file_bytes {file}");
        let started = Instant::now();
        let mut tenths = 0;
        while tenths < 10 && started.elapsed() < CHURN_LIMIT {
            self.rounds(1024, |_, done| done < jobs / 10)?;
            tenths += 1;
            let (log, file) = process::sizes(directory)?;
            println!("{tenths}:log_bytes {log}\n{tenths}:file_bytes {file}");
        }
        let jobs = jobs / 10 * tenths;
        println!("jobs {jobs}");
        println!("jobs_per_s {}", jobs as f64 / started.elapsed().as_secs_f64());
        Ok(())
    }
}
