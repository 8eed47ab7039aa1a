//! What is done to the jobs while the longest step is measured.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use tickwheel_jobs::{Builder, Client, JobId, Jobs, NewJob, Stats};

use crate::open::{Draw, Fails, Level, Place, Task, Waits, fill, in_time, task};

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR_SECONDS: u64 = 3600;

/// Something that is done to a store with many jobs.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) is_for: fn(Level) -> bool,
    /// Fills the store, and returns the ids of pending jobs.
    prepare: fn(&Place, usize) -> Fallible<Vec<JobId>>,
    /// Opens it.
    open: fn(&Place) -> Fallible<Builder>,
    work: fn(&Jobs, &Place, &[JobId]) -> Fallible,
}

pub(crate) struct Found {
    pub(crate) stats: Stats,
    pub(crate) took: Duration,
}

const PHASE: Phase = Phase {
    name: "quiet",
    title: "nothing else happens",
    is_for: |_| true,
    prepare: pending,
    open: |place| place.handlers(),
    work: |_, _, ids| {
        pause(a_while(ids, 4));
        Ok(())
    },
};

pub(crate) const PHASES: &[Phase] = &[
    PHASE,
    Phase { name: "questions", title: "pages, counts and a check", work: questions, ..PHASE },
    Phase {
        name: "log",
        title: "150,000 jobs are inserted while checks keep the log from being moved",
        is_for: Level::is_file,
        work: inserts_beside_checks,
        ..PHASE
    },
    Phase { name: "batches", title: "64 callers insert batches of 1,000", work: batches, ..PHASE },
    Phase { name: "batch-10k", title: "ten batches of 10,000", work: batches_of_10k, ..PHASE },
    Phase { name: "batch", title: "one batch of 100,000", work: batch_of_100k, ..PHASE },
    Phase {
        name: "hour",
        title: "all pending jobs are of an hour that has begun, and move",
        is_for: Level::is_file,
        prepare: one_hour,
        work: until_moved,
        ..PHASE
    },
    Phase { name: "runs", title: "100,000 jobs are due at once, and run", work: runs, ..PHASE },
    Phase {
        name: "failures",
        title: "50,000 runs fail, and are tried again",
        work: failures,
        ..PHASE
    },
    Phase {
        name: "purge",
        title: "150,000 dead jobs and 150,000 remembered ids are past their retention",
        prepare: past_retention,
        work: purged,
        ..PHASE
    },
    Phase { name: "cancels", title: "64 callers cancel 100,000 jobs", work: cancels, ..PHASE },
    Phase {
        name: "others",
        title: "another connection inserts and cancels",
        work: others,
        ..PHASE
    },
    Phase {
        name: "leases",
        title: "5,000 leases are renewed three times a second",
        is_for: |level| level == Level::Server,
        open: |place| Ok(place.handlers()?.max_in_flight(6_000).lease(Duration::from_secs(1))),
        work: leases,
        ..PHASE
    },
];

/// Does what the phase says, beside ten jobs every ten milliseconds.
pub(crate) fn run(phase: &Phase, place: &Place, jobs: usize) -> Fallible<Found> {
    let ids = (phase.prepare)(place, jobs)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    let waits = |_: Waits, _| async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Ok(())
    };
    let builder = (phase.open)(place)?
        .runtime(runtime.handle().clone())
        .max_async_runs(100_000)
        .handle_async(waits);
    let jobs = builder.start()?;
    let begun = now();
    let is_over = AtomicBool::new(false);
    let worked = thread::scope(|scope| {
        scope.spawn(|| insert_until(&jobs, &is_over));
        let worked = (phase.work)(&jobs, place, &ids);
        is_over.store(true, Ordering::Relaxed);
        worked
    });
    worked?;
    let took = begun.elapsed();
    // The dispatcher checkpoints and shrinks the file when it is idle.
    pause(Duration::from_millis(700));
    let stats = jobs.stats();
    jobs.shutdown_timeout(Duration::from_secs(10))?;
    Ok(Found { stats, took })
}

fn insert_until(client: &Client, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let soon = (0..10).map(|n| (Duration::from_millis(100), task(n)));
        let _ = client.insert_batch(soon);
        pause(Duration::from_millis(10));
    }
}

/// All jobs are due at random within three days, and the first ones in an hour.
fn pending(place: &Place, jobs: usize) -> Fallible<Vec<JobId>> {
    place.filled_once(|client| {
        fill(client, jobs, in_time(Duration::from_secs(2 * HOUR_SECONDS)), 3 * DAY)
    })
}

/// All jobs are due at random within the present hour, but one, which is due later: so none of them is
/// appended to the table of jobs.
fn one_hour(place: &Place, jobs: usize) -> Fallible<Vec<JobId>> {
    let client = place.client()?;
    client.insert(10 * DAY, task(0)).map_err(|error| error.to_string())?;
    let seconds = in_time(Duration::ZERO).duration_since(UNIX_EPOCH)?.as_secs();
    let hour = UNIX_EPOCH + Duration::from_secs(seconds - seconds % HOUR_SECONDS);
    fill(&client, jobs, hour, Duration::from_secs(HOUR_SECONDS))
}

/// Some jobs are dead, and as many ids of jobs that have ended are remembered.
fn past_retention(place: &Place, jobs: usize) -> Fallible<Vec<JobId>> {
    let ids = pending(place, jobs)?;
    // The process in which a job ends decides when its entry may go: here, at once. The purge is that of the next
    // start.
    let builder = place.handlers()?.keep_dead(Duration::ZERO);
    let jobs = builder.durability(tickwheel_jobs::Durability::Buffered).start()?;
    let many = ids.len().min(150_000);
    let fails = || Fails { for_good: true, text: "y".repeat(80) };
    for _ in 0..many / 1000 {
        let batch = (0..1000).map(|_| (Duration::ZERO, fails()));
        jobs.insert_batch(batch).map_err(|error| error.to_string())?;
    }
    for n in 0..many as u64 {
        let id = JobId::named(&n.to_string());
        jobs.insert_job(NewJob::new(task(n)).at(Duration::ZERO).id(id))
            .map_err(|error| error.to_string())?;
    }
    jobs.flush()?;
    wait_for(|| Ok(jobs.stats().completed >= many as u64 && jobs.stats().in_flight == 0))?;
    jobs.shutdown_timeout(Duration::from_secs(10))?;
    Ok(ids)
}

/// Lists a part of the pending jobs, counts them, and checks the store.
fn questions(jobs: &Jobs, _: &Place, _: &[JobId]) -> Fallible {
    let (client, asker) = (jobs.client(), jobs.client());
    let checks = thread::spawn(move || client.check().map_err(|error| error.to_string()));
    while !checks.is_finished() {
        asker.count()?;
        asker.queue().kinds()?;
        asker.pending().next_page()?;
        pause(Duration::from_millis(5));
    }
    checks.join().map_err(|_| "the check has panicked")??;
    let mut pages = asker.pending();
    for _ in 0..400 {
        pages.next_page()?;
    }
    Ok(())
}

fn inserts_beside_checks(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    let client = jobs.client();
    let checks = thread::spawn(move || client.check().map_err(|error| error.to_string()));
    let mut draw = Draw(3);
    (0..ids.len().min(150_000) / 1000).try_for_each(|_| insert_random(jobs, &mut draw, 1000))?;
    checks.join().map_err(|_| "the check has panicked")??;
    pause(Duration::from_secs(1));
    Ok(())
}

fn batches(jobs: &Jobs, _: &Place, _: &[JobId]) -> Fallible {
    thread::scope(|scope| {
        for seed in 1..=64 {
            scope.spawn(move || {
                let mut draw = Draw(seed);
                for _ in 0..4 {
                    let _ = insert_random(jobs, &mut draw, 1000);
                }
            });
        }
    });
    Ok(())
}

fn batches_of_10k(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    let mut draw = Draw(7);
    (0..10).try_for_each(|_| insert_random(jobs, &mut draw, ids.len().min(10_000)))
}

fn batch_of_100k(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    insert_random(jobs, &mut Draw(9), ids.len().min(100_000))
}

fn insert_random(jobs: &Client, draw: &mut Draw, many: usize) -> Fallible {
    let from = Duration::from_secs(2 * HOUR_SECONDS);
    let when = |draw: &mut Draw| from + Duration::from_millis(draw.below(259_200_000));
    let batch = (0..many as u64).map(|n| (when(draw), task(n)));
    let batch: Vec<(Duration, Task)> = batch.collect();
    jobs.insert_batch(batch).map_err(|error| error.to_string())?;
    Ok(())
}

/// Waits until what was overdue at the start has run.
fn until_moved(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    // At the very beginning of an hour few are overdue.
    wait_for(|| Ok(jobs.stats().started > 100))?;
    pause(a_while(ids, 3));
    Ok(())
}

fn runs(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    let many = ids.len().min(100_000);
    for _ in 0..many / 1000 {
        let batch = (0..1000).map(|n| (Duration::ZERO, task(n)));
        jobs.insert_batch(batch).map_err(|error| error.to_string())?;
    }
    wait_for(|| Ok(jobs.stats().completed >= many as u64))
}

fn failures(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    let many = ids.len().min(50_000);
    for _ in 0..many / 1000 {
        let fails = || Fails { for_good: false, text: "z".repeat(80) };
        let batch = (0..1000).map(|_| (Duration::ZERO, fails()));
        jobs.insert_batch(batch).map_err(|error| error.to_string())?;
    }
    wait_for(|| Ok(jobs.stats().failed >= many as u64))?;
    wait_for(|| Ok(jobs.queue().kinds()?.iter().all(|(kind, jobs)| kind != "fails" || *jobs == 0)))
}

fn purged(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    wait_for(|| Ok(jobs.count()?.dead == 0))?;
    // The remembered ids, and then the free pages.
    pause(a_while(ids, 3));
    Ok(())
}

fn cancels(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    let (many, next) = (ids.len().min(100_000), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                while let Some(id) = ids[..many].get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _ = jobs.cancel(*id);
                }
            });
        }
    });
    Ok(())
}

/// Another connection writes: so the runner reads its kinds again, and where it was.
fn others(_: &Jobs, place: &Place, ids: &[JobId]) -> Fallible {
    let client = place.client()?;
    let until = now() + a_while(ids, 4);
    for (n, id) in ids.iter().take_while(|_| now() < until).enumerate() {
        let _ = client.cancel(*id)?;
        let soon = Duration::from_millis(500);
        client.insert(soon, task(n as u64)).map_err(|error| error.to_string())?;
        pause(Duration::from_millis(2));
    }
    Ok(())
}

fn leases(jobs: &Jobs, _: &Place, ids: &[JobId]) -> Fallible {
    for _ in 0..ids.len().min(5_000) / 1000 {
        let batch = (0..1000).map(|_| (Duration::ZERO, Waits));
        jobs.insert_batch(batch).map_err(|error| error.to_string())?;
    }
    pause(a_while(ids, 6));
    Ok(())
}

/// Some seconds, or a part of one if there are few jobs: then nothing is measured.
fn a_while(ids: &[JobId], seconds: u64) -> Duration {
    if ids.len() < 10_000 { Duration::from_millis(100) } else { Duration::from_secs(seconds) }
}

fn wait_for(mut is_done: impl FnMut() -> Fallible<bool>) -> Fallible {
    let until = now() + Duration::from_secs(120);
    while !is_done()? {
        if now() > until {
            return Err("it is not done after two minutes".into());
        }
        pause(Duration::from_millis(20));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn pause(time: Duration) {
    thread::sleep(time);
}
