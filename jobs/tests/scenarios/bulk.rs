//! The promises about changes of many jobs and about lists by filter, for every store.

use std::sync::{Arc, Mutex, mpsc};
use std::time::SystemTime;

use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::view::{JobFilter, ListState, Number, View};
use tickwheel_jobs::{
    Bulk, BulkCounts, Cancel, Client, Driver, Fail, InvalidInput, JobId, JobInfo, JobState, Jobs,
    NewJob, Retry, Run, Step, StoreError, Until,
};

use super::{Charge, HOUR, LONG, MS, Mail, SECOND, Store, asker, mailing, manual, run_all};
use crate::support::{on_stores, wait_until};

const JOBS: u64 = 600;

/// Returns seen, changed, asked to stop, passed over.
fn numbers(counts: BulkCounts) -> [u64; 4] {
    let BulkCounts { seen, changed, asked_to_stop, passed_over, .. } = counts;
    [seen, changed, asked_to_stop, passed_over]
}

fn number(job: &JobInfo) -> u64 {
    job.job::<Mail>().unwrap().0
}

/// P62: A batch of cancels is one commit for each 256 jobs. It has one answer for each id or key, in their order. This
/// holds in the process that runs the jobs, and in another one.
#[test]
fn cancels_of_a_batch_have_an_answer_each() {
    on_stores(|store| {
        let (jobs, driver, ran) = mailing(store.open());
        let keyed = |n| NewJob::new(Mail(n)).at(HOUR).key(format!("order-{n}"));
        for client in [jobs.client(), asker(store, &jobs)] {
            let ids = jobs.insert_batch((0..JOBS).map(keyed)).unwrap();
            let before = client.stats().commits;
            let every_third = ids.iter().copied().step_by(3).chain([JobId::new()]);
            let answers = client.cancel_batch(every_third).unwrap();
            assert_eq!(client.stats().commits, before + 1);
            assert_eq!((answers.len(), answers.last()), (201, Some(&Cancel::Gone)));
            assert!(answers[..200].iter().all(|answer| *answer == Cancel::Cancelled));
            let before = client.stats().commits;
            let answers = client.cancel_keys((0..JOBS).map(|n| format!("order-{n}"))).unwrap();
            assert_eq!(client.stats().commits, before + 3);
            let is_right = |(n, answer): (usize, &bool)| *answer != n.is_multiple_of(3);
            assert!(answers.iter().enumerate().all(is_right), "{answers:?}");
            assert_eq!(client.cancel_keys(Vec::<String>::new()), Ok(Vec::new()));
            let long = "k".repeat(256);
            assert!(matches!(client.cancel_keys(["", &long]), Err(StoreError::Invalid(_))));
        }
        assert_eq!(driver.advance(2 * HOUR), 0);
        assert_eq!((jobs.count().unwrap().pending, ran.get().len()), (0, 0));
        jobs.check().unwrap();
    });
}

/// P11, P12, P13: A job that is claimed and has not started is cancelled and moved: alone, and in a batch of cancels by
/// id and by key. A batch asks jobs that run to stop.
#[test]
fn cancels_of_a_batch_reach_claimed_jobs() {
    on_stores(|store| {
        let cancels = |_: Mail, run: &Run| {
            let client = run.client();
            assert_eq!(client.cancel_batch([run.id()]), Ok(vec![Cancel::Running]));
            assert_eq!(client.cancel_keys(["running"]), Ok(vec![false]), "it is not pending");
            assert!(run.is_cancelled());
            Err(Fail::retry("it is not tried again"))
        };
        let (jobs, driver) = store.open().handle(cancels).manual().unwrap();
        jobs.insert_job(NewJob::new(Mail(0)).at(SECOND).key("running")).unwrap();
        assert_eq!(driver.advance(SECOND), 1);
        let by_key = |n| NewJob::new(Mail(n)).at(SECOND).key(format!("order-{n}"));
        let ids = jobs.insert_batch([1, 2, 3, 4, 5].map(by_key)).unwrap();
        // On a file all of them are claimed 50 ms before their time.
        assert_eq!(driver.advance(SECOND - MS), 0);
        assert_eq!(jobs.stats().in_flight, if store.claims_ahead { 5 } else { 0 });
        assert_eq!(jobs.cancel(ids[3]), Ok(Cancel::Cancelled));
        assert_eq!(jobs.cancel(ids[3]), Ok(Cancel::Gone));
        assert_eq!(jobs.reschedule(ids[4], 2 * HOUR), Ok(true));
        assert_eq!(jobs.cancel_batch(&ids[..1]), Ok(vec![Cancel::Cancelled]));
        assert_eq!(
            jobs.cancel_keys(["order-1", "order-2", "order-3"]),
            Ok(vec![false, true, true])
        );
        assert_eq!(driver.advance(HOUR), 0);
        assert_eq!(jobs.count().unwrap().pending, 1);
        jobs.check().unwrap();
    });
}

fn all_die(jobs: &Jobs, driver: &Driver, many: u64) {
    while jobs.count().unwrap().dead < many {
        driver.advance(SECOND);
    }
}

/// Runs a test on each store, with mails that fail for good in their first run.
fn with_dead_mails(many: u64, test: impl Fn(&Store, &Jobs, &Driver)) {
    on_stores(|store| {
        let dies = |mail: Mail, _: &Run| {
            Err(Fail::dead(if mail.0.is_multiple_of(2) { "no route" } else { "timed out" }))
        };
        let (jobs, driver) = store.open().handle(dies).manual().unwrap();
        jobs.insert_batch((0..many).map(|n| (MS, Mail(n)))).unwrap();
        all_die(&jobs, &driver, many);
        test(store, &jobs, &driver);
        jobs.check().unwrap();
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
    on_stores(|store| {
        let (jobs, driver, ran) = mailing(store.open());
        jobs.insert_batch((0..JOBS).map(|n| (HOUR, Mail(n)))).unwrap();
        jobs.insert(HOUR, Charge(1)).unwrap();
        let later = driver.wall_now() + 3 * HOUR;
        let mut bulk = jobs.pending().kind::<Mail>().reschedule_all(later).unwrap();
        assert_eq!(steps(&jobs, &mut bulk), [256, 256, 88]);
        assert_eq!(numbers(bulk.total()), [JOBS, JOBS, 0, 0]);
        assert_eq!(jobs.pending().between(later, later).count() as u64, JOBS);
        // Four of five are chosen, so the last page of a step brings more than the step has room for.
        let bulk = jobs.pending().kind::<Mail>().reschedule_all(later + HOUR).unwrap();
        let mut bulk = bulk.only(|job| !number(job).is_multiple_of(5));
        assert_eq!(steps(&jobs, &mut bulk), [256, 224]);
        assert_eq!(driver.advance(2 * HOUR), 0);
        let mut bulk = jobs.pending().kind_named("mail").cancel_all().unwrap();
        assert_eq!(steps(&jobs, &mut bulk), [256, 256, 88]);
        assert_eq!(driver.advance(2 * HOUR), 0);
        assert_eq!((ran.get().len(), jobs.count().unwrap().pending), (0, 1));
    });
    with_dead_mails(JOBS, |store, jobs, driver| {
        let client = asker(store, jobs);
        let mut bulk = client.dead().retry_all().unwrap();
        // The process that runs the jobs claims them at once, which makes commits too.
        let of_steps = match store.keeps {
            true => steps(&client, &mut bulk),
            false => bulk.map(|step| step.unwrap().changed).collect(),
        };
        assert_eq!(of_steps, [256, 256, 88]);
        assert_eq!(client.count().unwrap().pending, JOBS);
        all_die(jobs, driver, JOBS);
        assert_eq!(steps(jobs, &mut jobs.dead().delete_all().unwrap()), [256, 256, 88]);
        assert_eq!(jobs.count().unwrap().dead, 0);
    });
}

/// P63: A program that stops calling `next` has changed the jobs of the steps before, and no other.
#[test]
fn bulk_that_is_not_iterated_further_leaves_the_rest() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        jobs.insert_batch((0..JOBS).map(|n| (HOUR, Mail(n)))).unwrap();
        drop(jobs.pending().cancel_all().unwrap());
        assert_eq!(jobs.count().unwrap().pending, JOBS);
        let step = jobs.pending().cancel_all().unwrap().next().unwrap().unwrap();
        assert_eq!(jobs.count().unwrap().pending, JOBS - step.changed);
        assert!(jobs.pending().all(|job| number(&job) >= step.changed));
        // From where the list has been read on.
        let mut pages = jobs.pending();
        let read: Vec<u64> = pages.by_ref().take(10).map(|job| number(&job)).collect();
        pages.cancel_all().unwrap().run().unwrap();
        assert_eq!(jobs.pending().map(|job| number(&job)).collect::<Vec<_>>(), read);
    });
}

/// P64: A job that is inserted while a bulk verb goes on is changed if its place in the list comes later, and stays if
/// it came before. A job that was cancelled meanwhile counts as passed over.
#[test]
fn bulk_takes_a_job_that_is_inserted_behind_its_place() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let due = |n: u64| driver.wall_now() + HOUR + MS * u32::try_from(n).unwrap();
        let ids = jobs.insert_batch((0..300).map(|n| (due(n), Mail(n)))).unwrap();
        let mut bulk = jobs.pending().cancel_all().unwrap();
        assert_eq!(numbers(bulk.next().unwrap().unwrap()), [256, 256, 0, 0]);
        jobs.insert(due(0), Mail(1000)).unwrap();
        jobs.insert(due(400), Mail(1001)).unwrap();
        assert!(jobs.cancel(ids[299]).unwrap().is_cancelled());
        assert_eq!(numbers(bulk.next().unwrap().unwrap()), [44, 44, 0, 0]);
        assert_eq!(bulk.next(), None);
        assert_eq!(jobs.pending().map(|job| number(&job)).collect::<Vec<_>>(), [1000]);
        // The first step reads all of these, and changes 256 of them.
        let ids = jobs.insert_batch((0..300).map(|n| (due(n), Mail(n)))).unwrap();
        let mut bulk = jobs.pending().between(due(100), due(600)).cancel_all().unwrap();
        assert!(jobs.cancel(ids[150]).unwrap().is_cancelled());
        assert_eq!(bulk.run().map(numbers), Ok([199, 199, 0, 0]));
        assert_eq!(jobs.count().unwrap().pending, 101);
    });
    with_dead_mails(300, |_, jobs, _| {
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
    on_stores(|store| {
        let (jobs, driver, ran) = mailing(store.open());
        let start = driver.wall_now();
        jobs.insert_batch((0..JOBS).map(|n| (start + HOUR + MS, Mail(n)))).unwrap();
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
        assert_eq!(ran.get(), (0..JOBS).collect::<Vec<_>>());
    });
}

/// P65: A claimed job that has not started counts as pending for a bulk verb too: it is cancelled, or rescheduled, and
/// does not start.
#[test]
fn bulk_withdraws_claimed_jobs_that_have_not_started() {
    on_stores(|store| {
        let (jobs, driver, ran) = mailing(store.open());
        let insert = |from: u64| {
            jobs.insert_batch((from..from + 300).map(|n| (SECOND, Mail(n)))).unwrap();
            assert_eq!(driver.advance(SECOND - MS), 0);
            assert_eq!(jobs.stats().in_flight, if store.claims_ahead { 300 } else { 0 });
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
        assert_eq!(ran.get(), (1000..1300).collect::<Vec<_>>());
    });
}

/// P65: `cancel_all` asks runs to stop: of a list of running jobs, and of pending jobs that have started since they
/// were listed. Such a job is not tried again. `reschedule_all` passes over it.
#[test]
fn bulk_asks_runs_to_stop_and_reschedules_none() {
    on_stores(|store| {
        let (started, at_start) = mpsc::channel();
        let jobs = store
            .open()
            .handle_with(Retry::fixed(MS), move |_: Mail, run: &Run| {
                started.send(run.id()).unwrap();
                wait_until("the run is told", || run.is_cancelled());
                Err(Fail::retry("stopped"))
            })
            .start()
            .unwrap();
        let start = |n: u64| {
            let id = jobs.insert(MS, Mail(n)).unwrap();
            assert_eq!(at_start.recv_timeout(LONG), Ok(id));
            id
        };
        start(1);
        assert_eq!(jobs.pending().cancel_all().unwrap().run().map(numbers), Ok([0; 4]));
        let running = || jobs.running().kind::<Mail>();
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
        let id = jobs.insert(HOUR, Mail(2)).unwrap();
        let mut moved = jobs.pending().reschedule_all(2 * HOUR).unwrap().only(meanwhile(id));
        assert_eq!(moved.run().map(numbers), Ok([1, 0, 0, 1]));
        assert_eq!(running().cancel_all().unwrap().run().map(numbers), Ok([1, 0, 1, 0]));
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        let id = jobs.insert(HOUR, Mail(3)).unwrap();
        let mut cancelled = jobs.pending().cancel_all().unwrap().only(meanwhile(id));
        assert_eq!(cancelled.run().map(numbers), Ok([1, 0, 1, 0]));
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        assert_eq!(jobs.stats().started, 3);
        jobs.check().unwrap();
    });
}

/// P65: `cancel_all` by another process reaches the runs of every process that runs the jobs.
#[test]
fn bulk_by_another_process_reaches_the_runs() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let (started, at_start) = mpsc::channel();
        let handler = move |_: Mail, run: &Run| {
            started.send(())?;
            wait_until("the run is told", || run.is_cancelled());
            Err(Fail::after(MS, "stopped"))
        };
        // A file has one process at a time that runs its jobs.
        let many = if store.claims_ahead { 1 } else { 2 };
        let node = |_| store.open().threads(2).handle(handler.clone()).start().unwrap();
        let nodes: Vec<Jobs> = (0..many).map(node).collect();
        let client = store.open().client().unwrap();
        client.insert_batch((0..2 * many).map(|n| (MS, Mail(n)))).unwrap();
        (0..2 * many).for_each(|_| at_start.recv_timeout(LONG).unwrap());
        let counts = client.running().cancel_all().unwrap().run().unwrap();
        assert_eq!(numbers(counts), [2 * many, 0, 2 * many, 0]);
        wait_until("the jobs are gone", || client.count().unwrap().claimed == 0);
        assert_eq!(client.count().unwrap().pending, 0);
        assert!(nodes.iter().all(|node| node.stats().started == 2));
        client.check().unwrap();
    });
}

/// P66: `retry_all` passes over a dead job whose key another job has, and retries the others of its step. `only` leaves
/// jobs out, which are not counted.
#[test]
fn bulk_passes_over_a_key_that_is_taken() {
    with_dead_mails(0, |_, jobs, driver| {
        let key = |n: u64| format!("order-{n}");
        let keyed = |n: u64| NewJob::new(Mail(n)).at(MS).key(key(n));
        jobs.insert_batch((0..300).map(keyed)).unwrap();
        all_die(jobs, driver, 300);
        for taken in [0, 13, 255, 256] {
            jobs.keyed(&key(taken)).insert(HOUR, Mail(taken)).unwrap();
        }
        let timed_out = |job: &JobInfo| job.error.as_deref() == Some("timed out");
        let mut bulk = jobs.dead().retry_all().unwrap().only(timed_out);
        assert_eq!(bulk.run().map(numbers), Ok([150, 148, 0, 2]));
        let counts = jobs.dead().retry_all().unwrap().run();
        assert_eq!(counts.map(numbers), Ok([152, 148, 0, 4]));
        let mut dead: Vec<u64> = jobs.dead().map(|job| number(&job)).collect();
        dead.sort_unstable();
        assert_eq!(dead, [0, 13, 255, 256]);
        let counts = jobs.dead().delete_all().unwrap().run();
        assert_eq!(counts.map(numbers), Ok([4, 4, 0, 0]));
    });
}

/// P62: A bulk verb of an empty list ends at once, and makes no commit.
#[test]
fn bulk_of_no_jobs_ends_at_once() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        jobs.insert(HOUR, Mail(1)).unwrap();
        let before = jobs.stats().commits;
        let pushes = || jobs.pending().kind::<Charge>();
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
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
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
        for state in [JobState::Completed, JobState::Cancelled, JobState::Dead] {
            let error = jobs.ended().state(state).cancel_all().unwrap_err();
            let (verb, listed) = ("cancel_all", state.word());
            assert_eq!(error, StoreError::Invalid(InvalidInput::NotApplicable { verb, listed }));
            assert_eq!(jobs.ended().state(state).delete_all().unwrap().run().unwrap().seen, 0);
        }
    });
}

/// P93: A bulk by ids changes those jobs, once each, and no other. It passes over a job that is gone or in another
/// state.
#[test]
fn bulk_by_ids_changes_these_jobs_alone() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let batch = (0..600).map(|n| (HOUR, Mail(n)));
        let ids = jobs.insert_batch(batch).unwrap();
        let dead = jobs.insert(MS, Charge(13)).unwrap();
        run_all(&driver);
        let unknown = JobId::named("never inserted");
        let chosen = ids.iter().copied().step_by(2).chain([dead, unknown]);
        let listed: Vec<JobId> = jobs.by_ids(chosen.clone()).map(|job| job.id).collect();
        assert_eq!(listed, chosen.clone().filter(|id| *id != unknown).collect::<Vec<_>>());
        let counts = jobs.by_ids(chosen).cancel_all().unwrap().run().unwrap();
        assert_eq!((counts.seen, counts.changed, counts.passed_over), (302, 300, 2));
        let left: Vec<u64> = jobs.pending().map(|job| job.job::<Mail>().unwrap().0).collect();
        assert_eq!(left, (0..600).filter(|n| n % 2 == 1).collect::<Vec<_>>());
        // A reschedule reads the jobs: what has moved already is left out. A choice by `only` reads them too.
        let moved = ids[1..4].iter().copied();
        let later = When::wall(jobs.pending().next().unwrap().due + HOUR);
        for changed in [2, 0] {
            let mut bulk = jobs.by_ids(moved.clone()).reschedule_all(later).unwrap();
            assert_eq!(bulk.run().unwrap().changed, changed);
        }
        let mut bulk = jobs.by_ids([dead, ids[5]]).retry_all().unwrap();
        assert_eq!(bulk.run().unwrap().changed, 1);
        let bulk = jobs.by_ids([ids[5], ids[7]]).cancel_all().unwrap();
        let seven = ids[7];
        assert_eq!(bulk.only(move |job| job.id == seven).run().unwrap().seen, 1);
        // A change by ids leaves out jobs of other kinds and of other times, as the list does.
        let charge = jobs.insert(HOUR, Charge(1)).unwrap();
        let both = || jobs.by_ids([ids[9], charge]);
        assert_eq!(both().kind::<Charge>().map(|job| job.id).collect::<Vec<_>>(), [charge]);
        assert_eq!(both().kind::<Charge>().cancel_all().unwrap().run().unwrap().changed, 1);
        let now = driver.wall_now();
        let soon = || jobs.by_ids([ids[9]]).between(now, now + SECOND);
        assert_eq!(soon().count(), 0);
        assert_eq!(soon().cancel_all().unwrap().run().unwrap().changed, 0);
        assert!(jobs.get(ids[9]).unwrap().is_some() && jobs.get(charge).unwrap().is_none());
        jobs.check().unwrap();
    });
}

/// P93: A bulk changes no more jobs than it was told, and says that there are more.
#[test]
fn bulk_changes_no_more_jobs_than_it_was_told() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        jobs.insert_batch((0..700).map(|n| (HOUR, Mail(n)))).unwrap();
        let mut left = 700;
        for (most, has_more) in [(0, true), (1, true), (256, true), (400, true), (43, false)] {
            let mut bulk = jobs.pending().cancel_all().unwrap().at_most(most);
            assert_eq!(bulk.run().unwrap().changed, most);
            assert_eq!(bulk.has_more(), has_more, "{most} of {left}");
            left -= most;
            assert_eq!(jobs.count().unwrap().pending, left);
        }
        let ids = jobs.insert_batch((0..9).map(|n| (HOUR, Mail(n)))).unwrap();
        let mut bulk = jobs.by_ids(ids).cancel_all().unwrap().at_most(4);
        assert_eq!((bulk.run().unwrap().changed, bulk.has_more()), (4, true));
    });
}

/// P93: For each filter, the list, the number and the bulk are about the same jobs. A key that no job can have is an
/// error of all three.
#[test]
fn filter_means_the_same_jobs_in_a_list_a_number_and_a_bulk() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let view = View::new(jobs.client());
        jobs.insert_batch((0..5).map(|n| (n as u32 * HOUR + HOUR, Mail(n)))).unwrap();
        let dead = [13, 13, 14].map(Charge);
        jobs.insert_batch(dead.into_iter().map(|charge| (MS, charge))).unwrap();
        jobs.keyed("k").insert(9 * HOUR, Mail(9)).unwrap();
        run_all(&driver);
        driver.advance(SECOND);
        let now = view.now().to_system();
        let group = view.dead(9).unwrap().groups[0].clone();
        assert_eq!((group.jobs, &*group.error), (2, "bad luck"));
        let filter = |state, narrow: &dyn Fn(&mut JobFilter)| {
            let mut filter = JobFilter::new(state);
            narrow(&mut filter);
            filter
        };
        let (pending, dead) = (ListState::Pending, ListState::Dead);
        let key = |it: &mut JobFilter| it.key = Some("k".to_owned());
        let cases = [
            (filter(pending, &|_| {}), 6),
            (filter(pending, &|it| it.to = Some(now + 2 * HOUR)), 2),
            (filter(pending, &key), 1),
            (filter(ListState::Retrying, &key), 0),
            (filter(ListState::Running, &key), 0),
            (filter(dead, &key), 0),
            (filter(pending, &|it| it.text = Some("3".to_owned())), 1),
            (filter(ListState::Overdue, &|_| {}), 0),
            (filter(dead, &|_| {}), 3),
            (filter(dead, &|it| it.kind = Some("mail".to_owned())), 0),
            (filter(dead, &|it| it.group = Some(group.group)), 2),
            (filter(dead, &|it| it.error = Some("more of it".to_owned())), 2),
            (filter(dead, &|it| it.error = Some("such card".to_owned())), 1),
        ];
        for (filter, many) in cases {
            let list = view.jobs(&filter, None, 100).unwrap();
            assert_eq!((list.rows.len() as u64, list.next), (many, None), "{filter}");
            assert_eq!(view.count(&filter).unwrap(), Number::exactly(many), "{filter}");
            let matching: Vec<JobId> = view.matching(&filter).map(|job| job.id).collect();
            assert_eq!(matching, list.rows.iter().map(|row| row.id).collect::<Vec<_>>());
            let pages = view.matching(&filter);
            let bulk = if filter.state == dead { pages.retry_all() } else { pages.cancel_all() };
            // Nothing is changed, so that the next case finds the same jobs.
            let counts = bulk.unwrap().at_most(0).run().unwrap();
            assert_eq!(counts.seen, 0, "{filter}");
        }
        assert_eq!(jobs.dead().filter(|job| job.state == JobState::Dead).count(), 3);
        let long = filter(pending, &|it| it.key = Some("x".repeat(300)));
        assert!(view.jobs(&long, None, 9).is_err() && view.count(&long).is_err());
        assert!(view.matching(&long).cancel_all().unwrap().run().is_err());
        let short = filter(ListState::Retrying, &|it| it.key = Some("ann".to_owned()));
        assert!(view.jobs(&short, None, 9).unwrap().searched.is_none());
        // A page is as long as it may be, if it is asked for more.
        let all = view.jobs(&JobFilter::new(pending), None, usize::MAX).unwrap();
        assert_eq!((all.rows.len(), all.next), (6, None));
        let hours = view.history(None, Step::Hour, usize::MAX).unwrap().entries;
        assert_eq!(
            (hours.len(), hours.iter().map(|hour| hour.inserted).sum::<u64>()),
            (90 * 24, 9)
        );
    });
}

/// P93: A job that runs and has a key is in the list of what runs, in its number, and in a bulk of it.
#[test]
fn running_job_is_found_by_its_key() {
    on_stores(|store| {
        let found = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&found);
        let looks = move |_: Mail, run: &Run| {
            let view = View::new(run.client());
            let mut filter = JobFilter::new(ListState::Running);
            filter.key = Some("k".to_owned());
            let listed = view.jobs(&filter, None, 9)?.rows.len();
            let counted = view.count(&filter)?;
            *noted.lock().unwrap() = Some((listed, counted, view.matching(&filter).count()));
            Ok(())
        };
        let (jobs, driver) = store.open().handle(looks).manual().unwrap();
        let new = NewJob::new(Mail(1)).key("k").unique_until(Until::Ended);
        jobs.insert_job(new).unwrap();
        run_all(&driver);
        assert_eq!(found.lock().unwrap().take(), Some((1, Number::exactly(1), 1)));
    });
}
