//! Single deaths, each with what must follow.

use std::path::Path;
use std::time::Duration;
use std::{env, fs, process, thread};

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{JobId, Jobs};

use super::story::Story;
use crate::deaths::child::{Act, Doom, Periodic, Work, handlers, now_us, time};
use crate::deaths::record::{How, Record, Start, Tag, occurrence_of};

impl Story {
    fn starts(&self) -> impl Iterator<Item = Start> {
        self.lives.log().into_iter().filter_map(|event| match event.record {
            Record::Start(start) => Some(start),
            _ => None,
        })
    }

    fn is_done(&self, tag: Tag) -> bool {
        let done = |record: &Record| matches!(record, Record::End { tag: of, how: How::Done, .. } if *of == tag);
        self.lives.log().iter().any(|event| done(&event.record))
    }
}

/// P17: A job that ends its process is dead after five times, and the jobs that were claimed with it have run.
#[test]
fn job_that_ends_its_process_five_times_is_the_only_dead_job() {
    const NEIGHBOURS: u64 = 300;
    for (name, act) in [("abort", Act::Abort), ("overflow", Act::Overflow)] {
        let mut story = Story::new(name, now_us());
        let client = Jobs::open(&story.path).unwrap().client().unwrap();
        let due = time(now_us() / 1000 + 100);
        let job = |tag| {
            let nap = if tag % 4 == 0 { Act::Nap(2) } else { Act::Done };
            (due, Work { tag, act: if tag == NEIGHBOURS / 2 { act } else { nap } })
        };
        client.insert_batch((0..=NEIGHBOURS).map(job)).unwrap();
        drop(client);
        story.drain().unwrap();
        let dead = story.end().unwrap().jobs;
        let [dead] = &dead[..] else { panic!("{act:?}: {dead:?}") };
        let deadly = NEIGHBOURS / 2;
        assert_eq!((dead.tag, dead.dead, dead.interruptions), (deadly, true, 5), "{act:?}");
        assert_eq!(story.lives.kills, 5, "{act:?}");
        assert_eq!(story.starts().filter(|start| start.tag == deadly).count(), 5, "{act:?}");
        let left = (0..=NEIGHBOURS).filter(|tag| *tag != deadly && !story.is_done(*tag)).count();
        assert_eq!(left, 0, "{act:?}: neighbours that have not run");
        story.remove();
    }
}

/// Jobs that two killed processes had claimed delay no other job after a restart. Each of them is claimed alone.
/// Before a fix, the end of such a job caused no claim, because the job still counted as in flight in that step:
/// the dispatcher slept for a second after each of them.
#[test]
fn jobs_that_were_interrupted_twice_do_not_delay_a_restart() {
    const JOBS: u64 = 100;
    let mut story = Story::new("restart", now_us());
    let client = Jobs::open(&story.path).unwrap().client().unwrap();
    let job = |tag| (time(now_us() / 1000), Work { tag, act: Act::Done });
    client.insert_batch((0..JOBS).map(job)).unwrap();
    drop(client);
    for _ in 0..2 {
        let mut life = story.instructions();
        let point = "claim: after the commit".to_owned();
        life.doom = Some(Doom { point, passage: 1, delay_us: 0 });
        (life.drain, life.in_flight) = (true, 2048);
        assert!(!story.lives.live(life, None).unwrap());
    }
    assert_eq!(story.starts().count(), 0);
    // No calls are made meanwhile: every call would cause a step, and so hide the fault that is tested.
    let mut life = story.instructions();
    (life.calls, life.stay_ms, life.in_flight) = (0, 5000, 2048);
    assert!(story.lives.live(life, None).unwrap());
    // The second process had claimed 32 of them: half a minute, at a second for each.
    assert_eq!(story.starts().count(), JOBS as usize);
    story.remove();
}

/// P18: Occurrences that were due while no process ran are made up for as their schedule says.
#[test]
fn occurrences_missed_by_a_dead_process_follow_their_policy() {
    const PERIOD_MS: u64 = 100;
    let caps = [(1, 0, 0), (2, -1, 1), (3, 3, 3), (4, 1000, 1000)];
    let mut story = Story::new("missed", now_us());
    let repeat = |(name, missed, _)| Periodic { name, period_ms: PERIOD_MS, missed };
    story.lives.schedules = caps.map(repeat).into();
    let mut lives = Vec::new();
    for _ in 1..=2 {
        let mut life = story.instructions();
        (life.calls, life.stay_ms, life.in_flight) = (0, 60_000, 2048);
        // A second after the first run of the child: a loaded machine may take long for that run.
        let point = "in the handler, before".to_owned();
        life.doom = Some(Doom { point, passage: 1, delay_us: 1_000_000 });
        let born = now_us() / 1000;
        assert!(!story.lives.live(life, None).unwrap());
        lives.push((born, now_us() / 1000));
        thread::sleep(Duration::from_millis(2500));
    }
    story.drain().unwrap();
    // When the first child was there for the last time, and when the second one was born.
    let (death, born) = (lives[0].1, lives[1].0);
    for (name, _, cap) in caps {
        let mut runs: Vec<(u64, u64)> = story
            .starts()
            .filter_map(|start| Some((occurrence_of(start.tag)?, start.at / 1000)))
            .filter(|((of, time), _)| *of == name && (death + 100..born + 1000).contains(time))
            .map(|((_, time), started)| (time, started))
            .collect();
        runs.sort_unstable();
        let started = runs.first().expect("the schedule goes on").1;
        let mut times: Vec<u64> = runs.into_iter().map(|(time, _)| time).collect();
        times.dedup();
        let missed = times.iter().filter(|time| **time + 1000 <= born).count();
        assert!(missed <= cap, "schedule {name}: {missed} missed ones have run");
        let holes = times.windows(2).filter(|pair| pair[1] - pair[0] != PERIOD_MS).count();
        assert_eq!(holes, 0, "schedule {name}: {times:?}");
        let first = times[0];
        match cap {
            0 => assert!(first + 1000 > born, "schedule {name}: {times:?}"),
            // It was missed by a second when it was made, which is before its run.
            _ => assert!(first + 1000 <= started, "schedule {name}: {times:?}"),
        }
        if cap >= 1000 {
            assert!(first <= death + 100 + PERIOD_MS, "schedule {name} leaves some out");
        }
    }
    story.remove();
}

/// A file with a rollback journal can be opened. A process that is killed while it puts a new file into WAL mode
/// leaves one. A connection that only reads cannot undo it, so no later process could open the file: "attempt to
/// write a readonly database".
#[test]
fn file_with_a_rollback_journal_is_opened() {
    let folder = env::temp_dir().join(format!("tickwheel-kill-{}-journal", process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (file, copy) = (folder.join("app.db"), folder.join("copy.db"));
    // An application's database in the middle of a transaction that has outgrown its cache.
    let mut app = Connection::open(&file).unwrap();
    app.execute_batch("PRAGMA cache_size = 2; CREATE TABLE orders (n INTEGER, text TEXT)").unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) \
                INSERT INTO orders SELECT i, hex(randomblob(200)) FROM n";
    app.execute_batch(fill).unwrap();
    let transaction = app.transaction().unwrap();
    transaction.execute_batch("UPDATE orders SET n = n + 1").unwrap();
    let journal = |path: &Path| folder.join(format!("{}-journal", path.display()));
    assert!(journal(&file).exists());
    fs::copy(&file, &copy).unwrap();
    fs::copy(journal(&file), journal(&copy)).unwrap();
    drop(transaction);
    drop(app);

    let jobs = handlers(Jobs::open(&copy).unwrap()).start().unwrap();
    assert_eq!(jobs.get(JobId::new()).unwrap(), None);
    jobs.shutdown().unwrap();
    let app = Connection::open(&copy).unwrap();
    let least: i64 = app.query_row("SELECT min(n) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!(least, 1, "the transaction was not undone");
    fs::remove_dir_all(&folder).unwrap();
}
