//! Effects on the file that end their run, and `kill -9` in a loop: each effect is there once, with the end of its job,
//! its follow-up, its result and its place in the history.
//!
//! `TICKWHEEL_KILLS` is the least number of kills: 60 unless it is set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::rusqlite::{Connection, TransactionBehavior};
use tickwheel_jobs::{Client, Fail, Job, JobId, JobState, Jobs, Keep, Retry, Run, Step};

use crate::node::{LONG, Node, say};

const MS: Duration = Duration::from_millis(1);
/// The environment variable with the file of a child.
const FILE: &str = "TICKWHEEL_EXACTLY_ONCE_FILE";
const JOBS: u32 = 200;

/// Writes a row, and ends in the same transaction.
#[derive(Serialize, Deserialize)]
struct Effect(u32);

impl Job for Effect {
    const KIND: &'static str = "effect";
}

/// The follow-up of an effect, with one of its own.
#[derive(Serialize, Deserialize)]
struct Second(u32);

impl Job for Second {
    const KIND: &'static str = "second";
}

/// Ends the process now and then, as a kill does.
fn perhaps_abort() {
    if fastrand::u32(..150) == 0 {
        std::process::abort();
    }
}

/// Writes a row of a job and ends its run. Of the first attempts some are rolled back.
fn write(kind: &str, number: u32, run: &Run) -> Result<(), Fail> {
    let mut conn = Connection::open(run.client().file().ok_or("no file")?)?;
    conn.busy_timeout(LONG)?;
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let row = "INSERT INTO effects (kind, number) VALUES (?1, ?2)";
    transaction.execute(row, (kind, number))?;
    perhaps_abort();
    run.end_in(&transaction)?;
    perhaps_abort();
    match fastrand::u32(..8) {
        0 => transaction.rollback()?,
        _ => transaction.commit()?,
    }
    perhaps_abort();
    // After a rollback the run fails and comes again. After a commit this changes nothing.
    Err(Fail::after(MS, "it was rolled back"))
}

/// Not a test: the child processes of the test below run it.
#[test]
fn a_child() {
    let Some(path) = env::var_os(FILE) else { return };
    let _jobs = Jobs::open(PathBuf::from(path))
        .unwrap()
        .threads(4)
        .max_in_flight(16)
        .retry(Retry::fixed(MS).max_retries(100_000))
        .handle(|Effect(number): Effect, run| {
            run.set_result(&number)?;
            run.then(Duration::ZERO, Second(number))?;
            write("effect", number, run)
        })
        .handle(|Second(number): Second, run| write("second", number, run))
        .start()
        .unwrap();
    tickwheel_jobs::hook::set(|point| {
        if point.ends_with("the commit") {
            perhaps_abort();
        }
    });
    say("ready");
    // The parent kills this process.
    thread::sleep(LONG);
}

/// The effects in the file: the rows of each kind, and how many times each is there.
fn effects(conn: &Connection) -> BTreeMap<(String, u32), u32> {
    let mut select = conn.prepare("SELECT kind, number FROM effects").unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut counted = BTreeMap::new();
    rows.for_each(|row| *counted.entry(row.unwrap()).or_default() += 1);
    counted
}

/// Compares the effects with the jobs. No process runs them.
fn compare(client: &Client, conn: &Connection, ids: &BTreeMap<JobId, u32>) -> usize {
    client.check().unwrap();
    let effects = effects(conn);
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
    let of_kind = |kind: &str| -> BTreeSet<u32> {
        effects.keys().filter(|(of, _)| of == kind).map(|(_, number)| *number).collect()
    };
    let (first, second) = (of_kind("effect"), of_kind("second"));
    let alive = client.pending().chain(client.running()).chain(client.dead());
    let (firsts, seconds): (Vec<_>, Vec<_>) = alive.partition(|job| job.kind == "effect");
    let left: BTreeSet<u32> = firsts.iter().map(|job| ids[&job.id]).collect();
    let waiting: BTreeSet<u32> =
        seconds.iter().map(|job| serde_json::from_slice(&job.payload).unwrap()).collect();
    assert_eq!((left.len(), waiting.len()), (firsts.len(), seconds.len()), "a job is there twice");
    // Each job is there, or its effect is. Each effect has its follow-up, or the effect of that.
    let all: BTreeSet<u32> = (0..JOBS).collect();
    assert_eq!(left, &all - &first);
    assert_eq!(waiting, &first - &second);
    let kept: BTreeSet<(u32, Option<Vec<u8>>)> = client
        .ended()
        .filter(|job| job.state == JobState::Completed)
        .map(|job| (ids[&job.id], job.result))
        .collect();
    assert_eq!(kept, first.iter().map(|n| (*n, Some(n.to_string().into_bytes()))).collect());
    let now = SystemTime::now();
    let history =
        client.queue().history(Step::Minute, now - 60 * 60_000 * MS..now + 60_000 * MS).unwrap();
    let (completed, inserted) =
        history.iter().fold((0, 0), |sums, it| (sums.0 + it.completed, sums.1 + it.inserted));
    assert_eq!(completed, effects.len() as u64);
    assert_eq!(inserted, u64::from(JOBS) + first.len() as u64);
    effects.len()
}

fn kills() -> usize {
    env::var("TICKWHEEL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// P68, P69: Processes that run the jobs are killed at any moment: between the effect and the end of a run, between its
/// end and the commit, after the commit, and in the commits of the runner. After each kill the effects and the jobs
/// that have ended agree exactly, and at the end each job has its effect once.
#[test]
fn effects_and_ends_of_jobs_agree_after_every_kill() {
    let mut draw = Rng::new();
    let (mut died, mut lives) = (0, 0);
    while died < kills() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let client = Jobs::open(&path).unwrap().client().unwrap();
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE effects (kind TEXT, number INTEGER)").unwrap();
        client.kind::<Effect>().keep_completed(Keep::last(u64::from(JOBS))).unwrap();
        let jobs = (0..JOBS).map(|n| (Duration::ZERO, Effect(n)));
        let ids = (client.insert_batch(jobs).unwrap().into_iter().zip(0..)).collect();
        let begun = Instant::now();
        loop {
            lives += 1;
            live(&path, &mut draw);
            died += 1;
            let done = compare(&client, &conn, &ids);
            // Five kills in a row may have met the same job.
            client.dead().retry_all().unwrap().run().unwrap();
            if done == 2 * JOBS as usize {
                break;
            }
            assert!(begun.elapsed() < LONG, "{done} effects after {lives} lives");
        }
    }
    println!("{died} kills");
}

/// Lets a child run the jobs, and kills it.
fn live(path: &Path, draw: &mut Rng) {
    let mut node = Node::start("exactly_once::a_child", FILE, path);
    // It may end itself before it is ready.
    if node.said.recv_timeout(LONG).is_ok() {
        thread::sleep(Duration::from_micros(draw.u64(..120_000)));
    }
    node.process.kill();
}
