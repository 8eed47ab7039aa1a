//! What the verbs for every job of a list promise.

use std::sync::mpsc;
use std::time::SystemTime;

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{
    Bulk, BulkCounts, Client, Driver, Fail, InvalidInput, JobInfo, JobState, Jobs, NewJob, Retry,
    StoreError,
};

use super::support::*;

const JOBS: u64 = 600;

/// Returns seen, changed, asked to stop, passed over.
fn numbers(counts: BulkCounts) -> [u64; 4] {
    let BulkCounts { seen, changed, asked_to_stop, passed_over, .. } = counts;
    [seen, changed, asked_to_stop, passed_over]
}

fn order(job: &JobInfo) -> u64 {
    job.job::<Close>().unwrap().order
}

/// Runs a test on each store, with jobs that fail for good in their first run.
fn on_each_store_with_dead_jobs(jobs: u64, test: impl Fn(&Jobs, &Driver)) {
    on_each_store(|builder| {
        let dies = |job: Close, _: &tickwheel_jobs::Run| {
            Err(Fail::dead(if job.order.is_multiple_of(2) { "no route" } else { "timed out" }))
        };
        let (all, driver) = builder.handle(dies).manual().unwrap();
        all.insert_batch((0..jobs).map(|n| (MS, close(n)))).unwrap();
        while all.count().unwrap().dead < jobs {
            driver.advance(SECOND);
        }
        test(&all, &driver);
        all.check().unwrap();
    });
}

/// Makes all steps, and returns how many jobs each has changed. Each is one commit.
fn steps(jobs: &Client, bulk: &mut Bulk) -> Vec<u64> {
    let mut steps = Vec::new();
    loop {
        let before = jobs.stats().commits;
        let Some(step) = bulk.next() else {
            assert_eq!(jobs.stats().commits, before, "a step after the last one");
            return steps;
        };
        let step = step.unwrap();
        assert_eq!(jobs.stats().commits, before + 1, "{step:?}");
        assert_eq!(numbers(step), [step.seen, step.seen, 0, 0]);
        steps.push(step.changed);
    }
}

/// P62: Each step of a bulk verb changes at most 256 jobs, in one commit. A kind that the list leaves out stays.
#[test]
fn bulk_changes_at_most_256_jobs_a_commit() {
    on_manual(|jobs, driver, log| {
        jobs.insert_batch((0..JOBS).map(|n| (HOUR, close(n)))).unwrap();
        jobs.insert(HOUR, Push { to: "ann".to_owned() }).unwrap();
        let later = driver.wall_now() + 3 * HOUR;
        let mut bulk = jobs.pending().kind::<Close>().reschedule_all(later).unwrap();
        assert_eq!(steps(jobs, &mut bulk), [256, 256, 88]);
        assert_eq!(numbers(bulk.total()), [JOBS, JOBS, 0, 0]);
        assert_eq!(jobs.pending().between(later, later).count() as u64, JOBS);
        // Four of five are chosen, so the last page of a step brings more than the step has room for.
        let bulk = jobs.pending().kind::<Close>().reschedule_all(later + HOUR).unwrap();
        let mut bulk = bulk.only(|job| job.job::<Close>().unwrap().order % 5 > 0);
        assert_eq!(steps(jobs, &mut bulk), [256, 224]);
        assert_eq!(driver.advance(2 * HOUR), 0);
        let mut bulk = jobs.pending().kind_named("close-order").cancel_all().unwrap();
        assert_eq!(steps(jobs, &mut bulk), [256, 256, 88]);
        assert_eq!(driver.advance(2 * HOUR), 0);
        assert_eq!((log.get().len(), jobs.count().unwrap().pending), (0, 1));
    });
    on_each_store_with_dead_jobs(JOBS, |jobs, driver| {
        // These jobs are claimed at once, which makes commits too.
        let steps_of_retry = jobs.dead().retry_all().unwrap().map(|step| step.unwrap().changed);
        assert_eq!(steps_of_retry.collect::<Vec<_>>(), [256, 256, 88]);
        assert_eq!(jobs.count().unwrap().pending, JOBS);
        while jobs.count().unwrap().dead < JOBS {
            driver.advance(SECOND);
        }
        let mut bulk = jobs.dead().delete_all().unwrap();
        assert_eq!(steps(jobs, &mut bulk), [256, 256, 88]);
        assert_eq!(jobs.count().unwrap().dead, 0);
    });
}

/// P62: Each step of `retry_all` is one commit too, in a process that runs no jobs.
#[test]
fn bulk_retry_is_one_commit_a_step() {
    let (_folder, path) = file();
    let builder = Jobs::open(&path).unwrap();
    let dies = |_: Close, _: &tickwheel_jobs::Run| Err(Fail::dead("no"));
    let (jobs, driver) = builder.handle(dies).manual().unwrap();
    jobs.insert_batch((0..JOBS).map(|n| (MS, close(n)))).unwrap();
    while jobs.count().unwrap().dead < JOBS {
        driver.advance(SECOND);
    }
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let mut bulk = client.dead().retry_all().unwrap();
    assert_eq!(steps(&client, &mut bulk), [256, 256, 88]);
    assert_eq!(client.count().unwrap().pending, JOBS);
}

/// P63: A program that stops calling `next` has changed the jobs of the steps before, and no other.
#[test]
fn bulk_that_is_not_iterated_further_leaves_the_rest() {
    on_manual(|jobs, _, _| {
        jobs.insert_batch((0..JOBS).map(|n| (HOUR, close(n)))).unwrap();
        drop(jobs.pending().cancel_all().unwrap());
        assert_eq!(jobs.count().unwrap().pending, JOBS);
        let step = jobs.pending().cancel_all().unwrap().next().unwrap().unwrap();
        assert_eq!(jobs.count().unwrap().pending, JOBS - step.changed);
        assert!(jobs.pending().all(|job| order(&job) >= step.changed));
        // From where the list has been read on.
        let mut pages = jobs.pending();
        let read: Vec<u64> = pages.by_ref().take(10).map(|job| order(&job)).collect();
        pages.cancel_all().unwrap().run().unwrap();
        assert_eq!(jobs.pending().map(|job| order(&job)).collect::<Vec<_>>(), read);
    });
}

/// P63: A bulk verb that fails in the middle keeps its place: the next call makes the same step again, and no job is
/// left out or counted twice.
#[test]
fn bulk_that_fails_goes_on_from_the_same_job() {
    let (_folder, path) = file();
    let builder = Jobs::open(&path).unwrap().call_timeout(50 * MS);
    let jobs = builder.client().unwrap();
    let inserted = || jobs.insert_batch((0..JOBS).map(|n| (HOUR, close(n)))).is_ok();
    wait_until("the jobs are stored", inserted);
    let other = Connection::open(&path).unwrap();
    let mut bulk = jobs.pending().cancel_all().unwrap();
    let mut first = None;
    wait_until("the first step is made", || {
        first = bulk.next();
        first != Some(Err(StoreError::Busy))
    });
    assert_eq!(first.unwrap().map(numbers), Ok([256, 256, 0, 0]));
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        assert_eq!(bulk.next(), Some(Err(StoreError::Busy)));
        assert_eq!(bulk.run(), Err(StoreError::Busy));
    }
    assert_eq!(numbers(bulk.total()), [256, 256, 0, 0]);
    assert_eq!(jobs.count().unwrap().pending, JOBS - 256);
    other.execute_batch("ROLLBACK").unwrap();
    wait_until("the other steps are made", || bulk.run() != Err(StoreError::Busy));
    assert_eq!(numbers(bulk.total()), [JOBS, JOBS, 0, 0]);
    assert_eq!((bulk.next(), bulk.next()), (None, None));
    assert_eq!(jobs.count().unwrap().pending, 0);
    jobs.check().unwrap();
}

/// P64: A job that is inserted while a bulk verb goes on is changed if its place in the list comes later, and stays if
/// it came before. A job that was cancelled meanwhile counts as passed over.
#[test]
fn bulk_takes_a_job_that_is_inserted_behind_its_place() {
    on_manual(|jobs, driver, _| {
        let due = |n: u64| driver.wall_now() + HOUR + MS * u32::try_from(n).unwrap();
        let ids = jobs.insert_batch((0..300).map(|n| (due(n), close(n)))).unwrap();
        let mut bulk = jobs.pending().cancel_all().unwrap();
        assert_eq!(numbers(bulk.next().unwrap().unwrap()), [256, 256, 0, 0]);
        jobs.insert(due(0), close(1000)).unwrap();
        jobs.insert(due(400), close(1001)).unwrap();
        assert!(jobs.cancel(ids[299]).unwrap().is_cancelled());
        assert_eq!(numbers(bulk.next().unwrap().unwrap()), [44, 44, 0, 0]);
        assert_eq!(bulk.next(), None);
        assert_eq!(jobs.pending().map(|job| order(&job)).collect::<Vec<_>>(), [1000]);
        // The first step reads all of these, and changes 256 of them.
        let ids = jobs.insert_batch((0..300).map(|n| (due(n), close(n)))).unwrap();
        let mut bulk = jobs.pending().between(due(100), due(600)).cancel_all().unwrap();
        assert!(jobs.cancel(ids[150]).unwrap().is_cancelled());
        assert_eq!(bulk.run().map(numbers), Ok([199, 199, 0, 0]));
        assert_eq!(jobs.count().unwrap().pending, 101);
    });
    on_each_store_with_dead_jobs(300, |jobs, _| {
        let mut chosen = Vec::new();
        let bulk = jobs.dead().delete_all().unwrap();
        let client = jobs.client();
        // The job is gone between the page and the commit.
        let mut bulk = bulk.only(move |job| {
            chosen.push(job.id);
            chosen.len() != 7 || client.delete(job.id).unwrap()
        });
        assert_eq!(bulk.run().map(numbers), Ok([300, 299, 0, 1]));
    });
}

/// P64: `reschedule_all` moves each job once, although the list comes to the new due time later. With a jitter the jobs
/// spread over it. Jobs that are due then already are not counted.
#[test]
fn bulk_reschedule_moves_each_job_once() {
    on_manual(|jobs, driver, log| {
        let start = driver.wall_now();
        jobs.insert_batch((0..JOBS).map(|n| (start + HOUR + MS, close(n)))).unwrap();
        let all = |when: When| jobs.pending().reschedule_all(when).unwrap().run().map(numbers);
        assert_eq!(all(When::after(2 * HOUR)), Ok([JOBS, JOBS, 0, 0]));
        assert_eq!(all(When::after(2 * HOUR)), Ok([0; 4]));
        assert_eq!(all(When::wall(start + HOUR)), Ok([JOBS, JOBS, 0, 0]));
        assert_eq!(all(When::after(2 * HOUR).jitter(HOUR)), Ok([JOBS, JOBS, 0, 0]));
        let dues: Vec<SystemTime> = jobs.pending().map(|job| job.due).collect();
        assert!(dues.iter().all(|due| (start + 2 * HOUR..=start + 3 * HOUR).contains(due)));
        assert!(dues[dues.len() - 1] > dues[0] + HOUR / 2, "{dues:?}");
        let past = SystemTime::UNIX_EPOCH;
        assert_eq!(all(When::wall(past)), Ok([JOBS, JOBS, 0, 0]));
        let late = jobs.pending().reschedule_all(HOUR * 100_000_000).unwrap().next();
        assert!(
            matches!(late, Some(Err(StoreError::Invalid(InvalidInput::DelayTooLong(_))))),
            "{late:?}"
        );
        assert_eq!(jobs.pending().filter(|job| job.due == past).count() as u64, JOBS);
        while jobs.count().unwrap().pending > 0 {
            driver.advance(MS);
        }
        assert_eq!(log.get(), (0..JOBS).collect::<Vec<_>>());
    });
}

/// P65: A claimed job that has not started counts as pending for a bulk verb too: it is cancelled, or rescheduled, and
/// does not start.
#[test]
fn bulk_withdraws_claimed_jobs_that_have_not_started() {
    on_manual(|jobs, driver, log| {
        let insert = |from: u64| {
            jobs.insert_batch((from..from + 300).map(|n| (SECOND, close(n)))).unwrap();
            assert_eq!(driver.advance(SECOND - MS), 0);
            assert_eq!(jobs.stats().in_flight, 300);
        };
        insert(0);
        let counts = jobs.pending().cancel_all().unwrap().run().unwrap();
        assert_eq!(numbers(counts), [300, 300, 0, 0]);
        assert_eq!(driver.advance(HOUR), 0);
        insert(1000);
        let counts = jobs.pending().reschedule_all(HOUR).unwrap().run().unwrap();
        assert_eq!(numbers(counts), [300, 300, 0, 0]);
        assert_eq!(driver.advance(HOUR - MS), 0);
        while jobs.count().unwrap().pending > 0 {
            driver.advance(MS);
        }
        assert_eq!(log.get(), (1000..1300).collect::<Vec<_>>());
    });
}

/// P65: `cancel_all` asks runs to stop: of a list of running jobs, and of pending jobs that have started since they
/// were listed. Such a job is not tried again. `reschedule_all` passes over it.
#[test]
fn bulk_asks_runs_to_stop_and_reschedules_none() {
    on_each_store(|builder| {
        let (started, at_start) = mpsc::channel();
        let jobs = builder
            .handle_with(Retry::fixed(MS), move |_: Close, run: &tickwheel_jobs::Run| {
                started.send(run.id()).unwrap();
                wait_until("the run is told", || run.is_cancelled());
                Err(Fail::retry("stopped"))
            })
            .start()
            .unwrap();
        let start = |n: u64| {
            let id = jobs.insert(MS, close(n)).unwrap();
            assert_eq!(at_start.recv_timeout(LONG), Ok(id));
            id
        };
        start(1);
        assert_eq!(jobs.pending().cancel_all().unwrap().run().map(numbers), Ok([0; 4]));
        let running = || jobs.running().kind::<Close>();
        assert_eq!(running().cancel_all().unwrap().run().map(numbers), Ok([1, 0, 1, 0]));
        wait_until("the job is gone", || jobs.count().unwrap().running == 0);
        // Listed as pending, it starts before the step is committed.
        let meanwhile = |id| {
            let client = jobs.client();
            let (runs, state) = (jobs.client(), move |client: &Client| {
                client.get(id).unwrap().map(|job| job.state)
            });
            move |_: &JobInfo| {
                assert!(client.reschedule(id, MS).unwrap());
                wait_until("the job runs", || state(&runs) == Some(JobState::Running));
                true
            }
        };
        let id = jobs.insert(HOUR, close(2)).unwrap();
        let mut moved = jobs.pending().reschedule_all(2 * HOUR).unwrap().only(meanwhile(id));
        assert_eq!(moved.run().map(numbers), Ok([1, 0, 0, 1]));
        assert_eq!(running().cancel_all().unwrap().run().map(numbers), Ok([1, 0, 1, 0]));
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        let id = jobs.insert(HOUR, close(3)).unwrap();
        let mut cancelled = jobs.pending().cancel_all().unwrap().only(meanwhile(id));
        assert_eq!(cancelled.run().map(numbers), Ok([1, 0, 1, 0]));
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        assert_eq!(jobs.stats().started, 3);
        jobs.check().unwrap();
    });
}

/// P65: `cancel_all` by another process than the one that runs the jobs reaches their runs.
#[test]
fn bulk_by_another_process_reaches_the_runs() {
    let (_folder, path) = file();
    let (started, at_start) = mpsc::channel();
    let jobs = Jobs::open(&path)
        .unwrap()
        .handle(move |_: Close, run| {
            started.send(()).unwrap();
            wait_until("the run is told", || run.is_cancelled());
            Err(Fail::after(MS, "stopped"))
        })
        .threads(2)
        .start()
        .unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    client.insert_batch((0..2).map(|n| (MS, close(n)))).unwrap();
    (0..2).for_each(|_| at_start.recv_timeout(LONG).unwrap());
    let counts = client.running().cancel_all().unwrap().run().unwrap();
    assert_eq!(numbers(counts), [2, 0, 2, 0]);
    wait_until("the jobs are gone", || client.count().unwrap().claimed == 0);
    assert_eq!((jobs.stats().started, jobs.count().unwrap().pending), (2, 0));
    jobs.check().unwrap();
}

/// P66: `retry_all` passes over a dead job whose key another job has, and retries the others of its step. `only` leaves
/// jobs out, which are not counted.
#[test]
fn bulk_passes_over_a_key_that_is_taken() {
    on_each_store_with_dead_jobs(0, |jobs, driver| {
        let key = |n: u64| format!("order-{n}");
        let keyed = |n: u64| NewJob::new(close(n)).at(MS).key(key(n));
        jobs.insert_batch((0..300).map(keyed)).unwrap();
        while jobs.count().unwrap().dead < 300 {
            driver.advance(SECOND);
        }
        for taken in [0, 13, 255, 256] {
            jobs.keyed(&key(taken)).insert(HOUR, close(taken)).unwrap();
        }
        let timed_out = |job: &JobInfo| job.error.as_deref() == Some("timed out");
        let mut bulk = jobs.dead().retry_all().unwrap().only(timed_out);
        assert_eq!(bulk.run().map(numbers), Ok([150, 148, 0, 2]));
        let counts = jobs.dead().retry_all().unwrap().run();
        assert_eq!(counts.map(numbers), Ok([152, 148, 0, 4]));
        let mut dead: Vec<u64> = jobs.dead().map(|job| order(&job)).collect();
        dead.sort_unstable();
        assert_eq!(dead, [0, 13, 255, 256]);
        let counts = jobs.dead().delete_all().unwrap().run();
        assert_eq!(counts.map(numbers), Ok([4, 4, 0, 0]));
    });
}

/// P62: A bulk verb of an empty list ends at once, and makes no commit.
#[test]
fn bulk_of_no_jobs_ends_at_once() {
    on_manual(|jobs, _, _| {
        jobs.insert(HOUR, close(1)).unwrap();
        let before = jobs.stats().commits;
        let pushes = || jobs.pending().kind_named("push");
        let none = [
            pushes().cancel_all(),
            pushes().reschedule_all(MS),
            jobs.running().cancel_all(),
            jobs.dead().retry_all(),
            jobs.dead().delete_all(),
            Ok(jobs.pending().cancel_all().unwrap().only(|_| false)),
        ];
        for bulk in none {
            let mut bulk = bulk.unwrap();
            assert_eq!((bulk.next(), bulk.next()), (None, None));
            assert_eq!(bulk.run().map(numbers), Ok([0; 4]));
        }
        assert_eq!(jobs.stats().commits, before);
        assert_eq!(jobs.count().unwrap().pending, 1);
    });
}

/// P66: A bulk verb that does not apply to the jobs of its list is refused, with an error that names both.
#[test]
fn bulk_verb_that_does_not_apply_is_refused() {
    on_manual(|jobs, _, _| {
        let refused = [
            (jobs.pending().retry_all(), "retry_all", "pending"),
            (jobs.pending().delete_all(), "delete_all", "pending"),
            (jobs.running().retry_all(), "retry_all", "running"),
            (jobs.running().delete_all(), "delete_all", "running"),
            (jobs.running().reschedule_all(MS), "reschedule_all", "running"),
            (jobs.dead().cancel_all(), "cancel_all", "dead"),
            (jobs.dead().reschedule_all(MS), "reschedule_all", "dead"),
        ];
        for (bulk, verb, listed) in refused {
            let error = bulk.unwrap_err();
            assert_eq!(error, StoreError::Invalid(InvalidInput::NotApplicable { verb, listed }));
            assert_eq!(error.to_string(), format!("{verb} does not apply to {listed} jobs"));
        }
    });
}
