//! Handlers of batches: which jobs a batch has, how each of them ends, and what a crash does to them.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tickwheel_jobs::{
    Builder, Cancel, Driver, Event, Fail, JobId, Jobs, NewJob, Outcome, Retry, Run,
};

use super::run_reports::Reports;
use super::support::*;

/// The batches that a handler got: the orders of each.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<Vec<u64>>>>);

impl Batches {
    fn add(&self, jobs: &[(Close, Run)]) {
        self.0.lock().unwrap().push(jobs.iter().map(|(job, _)| job.order).collect());
    }

    fn take(&self) -> Vec<Vec<u64>> {
        core::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Jobs on a manual clock with batches of three, of which the first job waits for a second.
fn threes(builder: Builder, batches: &Batches) -> (Jobs, Driver) {
    let noted = batches.clone();
    let handler = move |jobs: &[(Close, Run)]| {
        noted.add(jobs);
        Ok(())
    };
    builder.handle_batch(3, SECOND, handler).manual().unwrap()
}

fn insert(jobs: &Jobs, orders: impl IntoIterator<Item = u64>) {
    let new = orders.into_iter().map(|order| (Duration::ZERO, close(order)));
    jobs.insert_batch(new.collect::<Vec<_>>()).unwrap();
}

/// P16: A batch is in the order of due times, then of ids, also if a job with a lower id comes while the batch waits.
#[test]
fn batch_is_in_the_order_of_due_times_then_of_ids() {
    on_each_store(|builder| {
        let batches = Batches::default();
        let (jobs, driver) = threes(builder, &batches);
        let due = driver.wall_now() + 10 * MS;
        jobs.insert(due, close(2)).unwrap();
        assert_eq!(driver.advance(20 * MS), 0);
        jobs.insert_job(NewJob::new(close(1)).at(due).id(JobId::from_u128(1))).unwrap();
        jobs.insert(due + SECOND / 2, close(3)).unwrap();
        assert_eq!(driver.advance(SECOND), 3);
        assert_eq!(batches.take(), [[1, 2, 3]]);
    });
}

/// P42: A batch runs once it has as many jobs as it may have, or once its first job has waited long enough.
#[test]
fn batch_is_complete_by_its_size_or_by_its_wait() {
    on_each_store(|builder| {
        let batches = Batches::default();
        let (jobs, driver) = threes(builder, &batches);
        insert(&jobs, 0..8);
        assert_eq!(driver.advance(Duration::ZERO), 6);
        assert_eq!(batches.take(), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(driver.advance(SECOND - MS), 0);
        assert_eq!(driver.advance(MS), 2);
        assert_eq!(batches.take(), [[6, 7]]);
        // The wait counts from the first job of each batch, and a batch that is complete earlier does not wait.
        jobs.insert(SECOND, close(8)).unwrap();
        jobs.insert(SECOND + 600 * MS, close(9)).unwrap();
        jobs.insert(3 * SECOND, close(10)).unwrap();
        jobs.insert(3 * SECOND + 100 * MS, close(11)).unwrap();
        jobs.insert(3 * SECOND + 200 * MS, close(12)).unwrap();
        jobs.insert(3 * SECOND + 300 * MS, close(13)).unwrap();
        driver.advance(2 * SECOND);
        assert_eq!(batches.take(), [[8, 9]]);
        driver.advance(SECOND + 200 * MS);
        assert_eq!(batches.take(), [[10, 11, 12]]);
        driver.advance(100 * MS + SECOND - MS);
        assert!(batches.take().is_empty());
        driver.advance(MS);
        assert_eq!(batches.take(), [[13]]);
        assert_eq!(jobs.stats().completed, 14);
        jobs.check().unwrap();
    });
}

/// P43: `Run::fail` fails one job of a batch; an error and a panic fail all others. Each job has the attempts, the
/// retry and the error of its own, and a payload that does not decode concerns no other job.
#[test]
fn each_job_of_a_batch_ends_by_itself() {
    on_each_store(|builder| {
        let events = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&events);
        let reports = Reports::default();
        let batches = Batches::default();
        let got = batches.clone();
        let (jobs, driver) = reports
            .on(builder)
            .on_event(move |event| noted.lock().unwrap().push(event))
            .retry(Retry::fixed(HOUR).max_retries(1))
            .handle_batch(4, SECOND, move |jobs: &[(Close, Run)]| {
                got.add(jobs);
                for (job, run) in jobs {
                    match job.order {
                        1 => run.fail(Fail::dead("no such order")),
                        2 => run.fail("busy"),
                        _ => run.set_result(&job.order)?,
                    }
                }
                match jobs[0].0.order {
                    10 => Err(Fail::retry("all of it")),
                    20 => std::panic::resume_unwind(Box::new("as planned")),
                    _ => Ok(()),
                }
            })
            .manual()
            .unwrap();
        insert(&jobs, 0..4);
        driver.advance(Duration::ZERO);
        assert_eq!((jobs.stats().completed, jobs.stats().failed), (2, 2));
        insert(&jobs, [10, 1, 11, 12]);
        insert(&jobs, [20, 2, 21, 22]);
        driver.advance(Duration::ZERO);
        let failed = |with: &str| {
            let ends = reports.ends();
            ends.iter().filter(|run| run.error.as_deref() == Some(with)).count()
        };
        assert_eq!(failed("no such order"), 2);
        assert_eq!(failed("busy"), 2);
        assert_eq!(failed("all of it"), 3);
        assert_eq!(failed("panicked: as planned"), 3);
        let dead: Vec<u64> = jobs.dead().map(|job| job.job::<Close>().unwrap().order).collect();
        assert_eq!(dead, [1, 1]);
        let died = |event: &&Event| matches!(event, Event::Died { .. });
        assert_eq!(events.lock().unwrap().iter().filter(died).count(), 2);
        // The retries come in later batches, with the attempts of each job.
        batches.take();
        driver.advance(2 * HOUR);
        let mut again: Vec<u64> = batches.take().concat();
        again.sort_unstable();
        assert_eq!(again, [2, 2, 10, 11, 12, 20, 21, 22]);
        reports.check();
        assert_eq!(reports.ends().len(), 12 + 8);
        jobs.check().unwrap();
    });
}

/// P42: A job that is cancelled or rescheduled while it waits for the rest of its batch is not in the batch, and does
/// not count for its size. A pause gives the jobs back.
#[test]
fn job_that_leaves_while_it_waits_is_in_no_batch() {
    on_each_store(|builder| {
        let batches = Batches::default();
        let (jobs, driver) = threes(builder, &batches);
        let first = jobs.insert(Duration::ZERO, close(0)).unwrap();
        let second = jobs.insert(Duration::ZERO, close(1)).unwrap();
        assert_eq!(driver.advance(Duration::ZERO), 0);
        assert_eq!(jobs.count().unwrap().pending, 2);
        assert_eq!(jobs.cancel(first), Ok(Cancel::Cancelled));
        assert_eq!(jobs.reschedule(second, HOUR), Ok(true));
        insert(&jobs, [2, 3]);
        assert_eq!(driver.advance(Duration::ZERO), 0);
        driver.advance(SECOND);
        assert_eq!(batches.take(), [[2, 3]]);
        insert(&jobs, [4]);
        driver.advance(Duration::ZERO);
        jobs.kind::<Close>().pause().unwrap();
        driver.advance(2 * SECOND);
        assert!(batches.take().is_empty());
        jobs.kind::<Close>().resume().unwrap();
        driver.advance(SECOND);
        assert_eq!(batches.take(), [[4]]);
        driver.advance(HOUR);
        assert_eq!(batches.take(), [[1]]);
        jobs.check().unwrap();
    });
}

/// P42: A clock that is set back by an hour delays no batch by an hour.
#[test]
fn clock_set_back_does_not_prolong_the_wait_of_a_batch() {
    on_each_store(|builder| {
        let batches = Batches::default();
        let (jobs, driver) = threes(builder, &batches);
        insert(&jobs, [0]);
        driver.advance(Duration::ZERO);
        driver.set_wall(driver.wall_now() - HOUR);
        insert(&jobs, [1]);
        driver.advance(SECOND);
        assert_eq!(batches.take(), [[1]]);
        driver.advance(HOUR);
        assert_eq!(batches.take(), [[0]]);
        jobs.check().unwrap();
    });
}

/// P42: A shutdown gives back the jobs that wait for the rest of their batch. That is no interruption.
#[test]
fn shutdown_gives_back_the_jobs_that_wait_for_their_batch() {
    let (_folder, path) = file();
    let handler = |_: &[(Close, Run)]| -> Result<(), Fail> { panic!("the batch is not complete") };
    let jobs = open(&path).handle_batch(3, HOUR, handler).start().unwrap();
    insert(&jobs, [0, 1]);
    wait_until("the jobs are claimed", || jobs.stats().in_flight == 2);
    jobs.shutdown().unwrap();
    let batches = Batches::default();
    let (jobs, driver) = threes(open(&path), &batches);
    assert!(jobs.pending().all(|job| job.interruptions == 0 && job.failures == 0));
    driver.advance(SECOND);
    assert_eq!(batches.take(), [[0, 1]]);
    jobs.check().unwrap();
}

/// P16, P43: A job whose process ended while it was claimed is a batch by itself, and waits for no other job. It starts
/// before a job that is due earlier and waits for the rest of its batch.
#[test]
fn interrupted_job_is_a_batch_by_itself() {
    let (_folder, path) = file();
    let client = client(&path);
    let insert = |order| client.insert(Duration::ZERO, close(order)).unwrap();
    let ids: Vec<JobId> = (0..5).map(insert).collect();
    drop(client);
    claimed(&path, &ids[1..4]);
    let batches = Batches::default();
    let (jobs, driver) = threes(open(&path), &batches);
    driver.advance(Duration::ZERO);
    let mut taken = batches.take();
    taken.sort_unstable();
    assert_eq!(taken, [[1], [2], [3]]);
    driver.advance(SECOND);
    assert_eq!(batches.take(), [[0, 4]]);
    jobs.check().unwrap();
}

/// P42: A head start counts for batches: with one thread, a batch of a kind with a head start runs before jobs that
/// became due earlier.
#[test]
fn head_start_counts_for_batches() {
    on_each_store(|builder| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let (of_jobs, of_batches) = (Arc::clone(&order), Arc::clone(&order));
        let (jobs, driver) = builder
            .handle_batch(2, Duration::ZERO, move |jobs: &[(Close, Run)]| {
                of_batches.lock().unwrap().push(format!("{} orders", jobs.len()));
                Ok(())
            })
            .handle(move |push: Push, _| {
                of_jobs.lock().unwrap().push(push.to);
                Ok(())
            })
            .manual()
            .unwrap();
        jobs.kind::<Close>().head_start(60 * SECOND).unwrap();
        for to in ["ann", "bob"] {
            jobs.insert(Duration::ZERO, Push { to: to.to_owned() }).unwrap();
        }
        insert(&jobs, 0..3);
        driver.advance(Duration::ZERO);
        assert_eq!(*order.lock().unwrap(), ["2 orders", "1 orders", "ann", "bob"]);
    });
}

/// P42: A batch has at least one job, and at most as many as the process may claim.
#[test]
fn batch_that_could_not_be_complete_is_refused() {
    let batch =
        |most: usize| Jobs::memory().handle_batch(most, SECOND, |_: &[(Close, Run)]| Ok(()));
    assert!(config_error(batch(0)).contains("no job could run"));
    assert!(config_error(batch(11).max_in_flight(10)).contains("max_in_flight(10)"));
    batch(10).max_in_flight(10).start().unwrap().shutdown().unwrap();
}

/// P42: On threads every job runs once, in batches that are no larger than their size, and a time limit counts from the
/// call of the handler.
#[test]
fn batches_on_threads_run_each_job_once() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let (sender, batches) = mpsc::channel();
        let jobs = reports
            .on(builder)
            .threads(3)
            .time_limit::<Close>(LONG)
            .handle_batch(7, 20 * MS, move |jobs: &[(Close, Run)]| {
                assert!(jobs.iter().all(|(_, run)| !run.is_cancelled()));
                sender.send(jobs.iter().map(|(job, _)| job.order).collect::<Vec<_>>())?;
                Ok(())
            })
            .start()
            .unwrap();
        for some in 0..20 {
            insert(&jobs, some * 50..(some + 1) * 50);
        }
        let mut orders = Vec::new();
        while orders.len() < 1000 {
            let batch = batches.recv_timeout(LONG).unwrap();
            assert!((1..=7).contains(&batch.len()), "{batch:?}");
            orders.extend(batch);
        }
        orders.sort_unstable();
        assert!(orders.iter().copied().eq(0..1000));
        wait_until("all have ended", || jobs.stats().completed == 1000);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
        assert_eq!(reports.outcomes().len(), 1000);
        assert!(reports.outcomes().iter().all(|outcome| *outcome == Outcome::Completed));
        reports.check();
    });
}

/// P42, P43: A batch may be handled by a future. Its limit of runs counts jobs.
#[cfg(feature = "tokio")]
#[test]
fn batch_may_be_handled_by_a_future() {
    let runtime = runtime(1);
    on_each_store(|builder| {
        let batches = Batches::default();
        let noted = batches.clone();
        let handler = move |jobs: Vec<(Close, Run)>| {
            noted.add(&jobs);
            async move {
                for (job, run) in &jobs {
                    if job.order == 1 {
                        run.fail(Fail::dead("no such order"));
                    }
                }
                if jobs[0].0.order == 3 {
                    std::panic::resume_unwind(Box::new("as planned"));
                }
                Ok(())
            }
        };
        let (jobs, driver) = builder
            .runtime(runtime.handle().clone())
            .max_async_runs(3)
            .handle_batch_async_with(Retry::never(), 3, SECOND, handler)
            .manual()
            .unwrap();
        insert(&jobs, 0..7);
        assert_eq!(runtime.block_on(driver.advance_async(SECOND)), 7);
        assert_eq!(batches.take(), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        assert_eq!((jobs.stats().completed, jobs.count().unwrap().dead), (3, 4));
        jobs.check().unwrap();
    });
    let handler = |_: Vec<(Close, Run)>| async { Ok(()) };
    let builder = Jobs::memory().runtime(runtime.handle().clone());
    let refused = config_error(builder.max_async_runs(3).handle_batch_async(4, SECOND, handler));
    assert!(refused.contains("max_async_runs(3)"), "{refused}");
}
