//! `tickwheel-jobs` as a contender. Both of its levels are SQLite in WAL mode: `synchronous = FULL`
//! and `NORMAL`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contender::{Contender, Due, Fallible, Level, NewJob, Payload, Setup, TEXT, figure};
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Durability, Job, Jobs};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct CloseOrder(Payload);

impl Job for CloseOrder {
    const NAME: &'static str = "close-order";
}

struct Ours(Opened);

enum Opened {
    Working(Jobs),
    Inserting(tickwheel_jobs::Client),
}

impl Ours {
    fn client(&self) -> &tickwheel_jobs::Client {
        match &self.0 {
            Opened::Working(jobs) => jobs,
            Opened::Inserting(client) => client,
        }
    }
}

fn durability(setup: &Setup) -> Durability {
    match setup.level {
        Level::Synced => Durability::Synced,
        Level::Written => Durability::Written,
    }
}

fn timed(job: NewJob) -> (tickwheel_jobs::tickwheel::When, CloseOrder) {
    let when = match job.due {
        Due::Now => Duration::ZERO.into(),
        due => due.system_time().into(),
    };
    (when, CloseOrder(job.payload))
}

impl Contender for Ours {
    fn open(setup: &Setup) -> Fallible<Ours> {
        let builder = Jobs::open(&setup.path)?.durability(durability(setup));
        Ok(Ours(if setup.works {
            let handler = |job: CloseOrder, _: &tickwheel_jobs::Run| {
                contender::ran(&job.0);
                Ok(())
            };
            Opened::Working(builder.on(handler).start()?)
        } else {
            Opened::Inserting(builder.client()?)
        }))
    }

    fn insert(&self, job: NewJob) -> Fallible {
        let (when, job) = timed(job);
        self.client().insert(when, job).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible {
        let jobs = jobs.into_iter().map(timed);
        self.client().insert_batch(jobs).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn unfinished(&self) -> Fallible<u64> {
        let counts = self.client().count()?;
        Ok(counts.pending + counts.running + counts.dead)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let stats = self.client().stats();
        vec![("commits", stats.commits as f64), ("own_syncs", stats.syncs as f64)]
    }

    fn close(self) -> Fallible {
        if let Opened::Working(jobs) = self.0 {
            jobs.shutdown()?;
        }
        Ok(())
    }

    fn own_row(name: &str, setup: &Setup) -> Option<Fallible> {
        (name == "life-random").then(|| life_at_random(setup))
    }
}

/// The whole life of jobs whose delays are uniform over three days, beside as many pending as the file
/// was filled with.
///
/// Three days have to pass, so the jobs run on a manual clock: the wall clock is set forward by as much
/// as makes one group of jobs due, the group is claimed in one commit, run, and ended, and another
/// group is inserted. Store, dispatcher and handler are those of life; the threads are not, so
/// everything happens on one thread.
fn life_at_random(setup: &Setup) -> Fallible {
    static RAN: AtomicU64 = AtomicU64::new(0);
    const DAYS: Duration = Duration::from_secs(72 * 3600);
    let (pending, group) = (setup.size("pending")?, setup.size("group")?);
    let length = setup.seconds("seconds")?;
    let handler = |_: CloseOrder, _: &tickwheel_jobs::Run| {
        RAN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let builder = Jobs::open(&setup.path)?.durability(durability(setup));
    let (jobs, driver) = builder.on(handler).manual()?;
    let before_all = jobs.count()?.pending;
    // The file is filled from two hours after its making on.
    driver.set_wall(driver.wall_now() + Duration::from_secs(2 * 3600 + 600));
    let step = DAYS.mul_f64(group as f64 / pending as f64);
    let mut random = 1_u64;
    let mut number = 0_u64;
    let mut draw = || {
        // The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        DAYS.mul_f64((mixed ^ mixed >> 31) as f64 / u64::MAX as f64)
    };
    let mut inserted = 0;
    let (mut longest, mut rounds) = (Duration::ZERO, 0_u64);
    let (mut before, mut start, mut ran_before, mut inserted_before) = (None, Instant::now(), 0, 0);
    // What was overdue at the start runs in the warm-up.
    let warm_up = length / 4;
    loop {
        if before.is_none() && start.elapsed() >= warm_up {
            before = Some((contender::Usage::now()?, jobs.stats()));
            (start, ran_before) = (Instant::now(), RAN.load(Ordering::Relaxed));
            (inserted_before, longest, rounds) = (inserted, Duration::ZERO, 0);
        }
        if before.is_some() && start.elapsed() >= length {
            break;
        }
        let round = Instant::now();
        let wall = driver.wall_now();
        let new = (0..group).map(|_| {
            number += 1;
            let text = TEXT.to_owned();
            let due = 0;
            (wall + draw(), CloseOrder(Payload { number, due, text }))
        });
        jobs.insert_batch(new).map_err(|error| error.to_string())?;
        inserted += group as u64;
        driver.set_wall(driver.wall_now() + step);
        driver.advance(Duration::from_millis(1));
        longest = longest.max(round.elapsed());
        rounds += 1;
    }
    let elapsed = start.elapsed().as_secs_f64();
    let after = (contender::Usage::now()?, jobs.stats());
    let (before, stats) = before.ok_or("no time to measure")?;
    let ended = RAN.load(Ordering::Relaxed) - ran_before;
    figure("jobs_per_s", ended as f64 / elapsed);
    figure("inserted_per_s", (inserted - inserted_before) as f64 / elapsed);
    figure("rounds", rounds as f64);
    figure("longest_round_ms", longest.as_secs_f64() * 1e3);
    figure("commits", (after.1.commits - stats.commits) as f64);
    contender::usage_between(&before, &after.0, ended);
    let expected = before_all + inserted - RAN.load(Ordering::Relaxed);
    let counts = jobs.count()?;
    figure("lost", expected as f64 - (counts.pending + counts.running) as f64);
    jobs.shutdown()?;
    Ok(())
}

fn main() -> ExitCode {
    contender::main::<Ours>()
}
