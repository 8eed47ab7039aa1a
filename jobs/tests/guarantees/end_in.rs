//! The promises about the end of a run, also of a member of a group, in a transaction of its handler.
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use tickwheel_jobs::rusqlite::{Connection, Transaction, TransactionBehavior};
use tickwheel_jobs::{
    Builder, Cancel, Client, Driver, Fail, InsertErrorKind, InvalidInput, JobId, JobState, Jobs,
    Keep, NewJob, Outcome, Retry, Run, Step, StoreError, TestRun, Until,
};

use super::run_reports::Reports;
use super::scenarios::limits::{Charge as Bill, charge};
use super::support::*;

/// Returns the path of a file with a table for the effects of handlers.
fn shop() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = file();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("CREATE TABLE closed (number INTEGER)").unwrap();
    (folder, path)
}

fn effects(path: &Path) -> Vec<u64> {
    let conn = Connection::open(path).unwrap();
    let mut select = conn.prepare("SELECT number FROM closed ORDER BY number").unwrap();
    let numbers = select.query_map([], |row| row.get::<_, u32>(0)).unwrap();
    numbers.map(|number| u64::from(number.unwrap())).collect()
}

/// Does something in a transaction, which is committed or rolled back.
fn in_transaction(
    path: &Path,
    commits: bool,
    does: impl FnOnce(&Transaction<'_>) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let mut conn = Connection::open(path)?;
    conn.busy_timeout(LONG)?;
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    does(&transaction)?;
    let ended = if commits { transaction.commit() } else { transaction.rollback() };
    Ok(ended?)
}

/// Writes the effect of a run and its end in one transaction.
fn end_in(path: &Path, order: u64, run: &Run, commits: bool) -> Result<(), Fail> {
    in_transaction(path, commits, |transaction| {
        transaction.execute("INSERT INTO closed VALUES (?1)", [u32::try_from(order)?])?;
        Ok(run.end_in(transaction)?)
    })
}

/// How often the history has counted each end: completed, retried, dead, cancelled, interrupted; and each insert.
fn counted(client: &Client, driver: &Driver) -> [u64; 6] {
    let now = driver.wall_now();
    let mut sums = [0; 6];
    for part in client.queue().history(Step::Minute, now - 2 * HOUR..now + HOUR).unwrap() {
        let of_part = [
            part.completed,
            part.retried,
            part.dead,
            part.cancelled,
            part.interrupted,
            part.inserted,
        ];
        sums.iter_mut().zip(of_part).for_each(|(sum, part)| *sum += part);
    }
    sums
}

/// P68, P69: The effect of a handler and the end of its run are one commit. Between that commit and the end of the
/// handler, the job is gone for every process, and every check passes. The end is counted once, with any result of the
/// handler.
#[test]
fn effect_and_end_of_a_run_are_one_commit() {
    let (_folder, path) = shop();
    let (own, reports, looked) = (path.clone(), Reports::default(), Log::default());
    let noted = looked.clone();
    let other = client(&path);
    let seen = other.clone();
    let events = Log::default();
    let told = events.clone();
    let copy = path.with_file_name("copy.db");
    let left = copy.clone();
    let (jobs, driver) = reports
        .on(open(&path))
        .on_event(move |_| told.add(0))
        .handle(move |job: Close, run| {
            run.set_progress(&1)?;
            if job.order == 4 {
                // A cancel does not undo what a run has completed.
                assert_eq!(seen.cancel(run.id())?, Cancel::Running);
            }
            // After a rollback the run is as before, and ends in another transaction.
            end_in(&own, job.order, run, false)?;
            end_in(&own, job.order, run, true)?;
            run.set_progress(&2)?;
            for client in [&run.client(), &seen] {
                client.check().map_err(|violation| violation.to_string())?;
                assert!(client.get(run.id())?.is_none());
                assert!(client.running().all(|job| job.id != run.id()));
                let counts = client.count()?;
                assert_eq!(counts.pending + counts.claimed, 9 - job.order, "{counts:?}");
                assert_eq!((counts.running, counts.overdue.count), (0, 0), "{counts:?}");
                assert_eq!(client.cancel(run.id())?, Cancel::Gone);
                assert!(!client.reschedule(run.id(), HOUR)?);
            }
            if job.order == 9 {
                // The file that a process leaves if it ends here.
                std::fs::copy(&own, &left)?;
                std::fs::copy(beside(&own), beside(&left))?;
            }
            // The test counts this note: an error or a panic after `end_in` has no other effect.
            noted.add(job.order);
            run.client().nudge();
            match job.order {
                1 => Err(Fail::dead("too late")),
                2 => Err(Fail::interrupted()),
                3 => std::panic::resume_unwind(Box::new("too late")),
                5 => Err(Fail::retry("too late")),
                6 => Err(Fail::snooze(SECOND)),
                7 => {
                    run.fail("too late");
                    Ok(())
                }
                _ => Ok(()),
            }
        })
        .manual()
        .unwrap();
    for order in 0..10 {
        let id = JobId::named(&order.to_string());
        jobs.insert_job(NewJob::new(close(order)).at(MS * order as u32).id(id)).unwrap();
    }
    assert_eq!(driver.advance(SECOND), 10);
    assert_eq!(looked.get(), (0..10).collect::<Vec<_>>());
    assert_eq!(effects(&path), (0..10).collect::<Vec<_>>());
    let counts = jobs.count().unwrap();
    assert_eq!((counts.pending, counts.running, counts.dead), (0, 0, 0));
    assert_eq!(reports.outcomes(), [Outcome::Completed; 10]);
    assert!(reports.ends().iter().all(|run| run.error.is_none()));
    reports.check();
    assert!(events.get().is_empty());
    assert_eq!(counted(&jobs, &driver), [10, 0, 0, 0, 0, 10]);
    let stats = jobs.stats();
    assert_eq!((stats.completed, stats.failed, stats.snoozed, stats.in_flight), (10, 0, 0, 0));
    // Ids that a caller chose are remembered.
    let again = jobs.insert_job(NewJob::new(close(0)).at(SECOND).id(JobId::named("0"))).unwrap();
    assert!(!again.is_new);
    jobs.check().unwrap();
    other.check().unwrap();
    jobs.shutdown().unwrap();
    for path in [&path, &copy] {
        let jobs = open(path).handle(|_: Close, _| Ok(()));
        let (jobs, driver) = jobs.manual().unwrap();
        assert_eq!((driver.advance(HOUR), jobs.stats().interruptions), (0, 0));
        assert_eq!(effects(path).len(), 10);
        jobs.check().unwrap();
    }
}

/// Returns the log of a file.
fn beside(path: &Path) -> String {
    format!("{}-wal", path.display())
}

/// P68, P69: The follow-ups of a run are stored with the commit that ends it, and after a rollback with the end of the
/// run. A run that has begun to end in a transaction takes no further ones. They may take the key that the run holds.
#[test]
fn follow_ups_are_stored_with_the_commit_that_ends_their_run() {
    let (_folder, path) = shop();
    let (own, pushed) = (path.clone(), Log::default());
    let noted = pushed.clone();
    let (jobs, driver) = open(&path)
        .retry(Retry::fixed(SECOND))
        .handle(move |job: Close, run| {
            let to = job.order.to_string();
            let commits = job.order.is_multiple_of(2);
            let id = run.then(Duration::ZERO, Push { to: to.clone() })?;
            let key = run.key().unwrap_or_default().to_owned();
            run.next().keyed(&key).insert(HOUR, Push { to: to.clone() })?;
            end_in(&own, job.order, run, commits)?;
            assert_eq!(run.client().get(id)?.is_some(), commits);
            let refused = run.then(SECOND, Push { to: "late".to_owned() }).map_err(|error| {
                assert_eq!(error.into_inner().to, "late");
                InsertErrorKind::Store(StoreError::RunEnded)
            });
            assert!(refused.is_err());
            if job.order == 3 { Err(Fail::dead("dies")) } else { Ok(()) }
        })
        .handle(move |push: Push, _| {
            noted.add(push.to.parse()?);
            Ok(())
        })
        .manual()
        .unwrap();
    for order in 1..=4 {
        let key = format!("order-{order}");
        let job = NewJob::new(close(order)).at(MS * order as u32).key(&key);
        jobs.insert_job(job.unique_until(Until::Ended)).unwrap();
    }
    driver.advance(SECOND);
    assert_eq!(pushed.get(), [1, 2, 4]);
    let keys: Vec<_> = jobs.pending().filter_map(|job| job.key).collect();
    assert_eq!(keys, ["order-1", "order-2", "order-4"]);
    assert_eq!(counted(&jobs, &driver), [6, 0, 1, 0, 0, 10]);
    jobs.check().unwrap();
}

/// P68: A job that ends in a transaction is kept with its result, if its kind keeps completed jobs or a caller waits
/// for its end. Its key is free with the commit.
#[test]
fn job_that_ends_in_a_transaction_is_kept() {
    let (_folder, path) = shop();
    let own = path.clone();
    let (jobs, driver) = open(&path)
        .history(false)
        .handle(move |job: Close, run| {
            run.set_result(&job.order)?;
            end_in(&own, job.order, run, true)?;
            // It comes too late.
            run.set_result(&"late")?;
            if let Some(key) = run.key() {
                run.client().keyed(key).insert_if_absent(HOUR, close(9))?;
                run.client().keyed(key).cancel()?;
            }
            Ok(())
        })
        .manual()
        .unwrap();
    let id = jobs.keyed("key").insert(Duration::ZERO, close(7)).unwrap();
    driver.advance(Duration::ZERO);
    assert!(jobs.get(id).unwrap().is_none());
    jobs.kind::<Close>().keep_completed(Keep::last(2)).unwrap();
    for order in 0..3 {
        jobs.keyed("key").insert(Duration::ZERO, close(order)).unwrap();
        driver.advance(Duration::ZERO);
    }
    let kept: Vec<_> = jobs.ended().map(|job| (job.state, job.result)).collect();
    let result = |order: u8| (JobState::Completed, Some(vec![b'0' + order]));
    assert_eq!(kept.len(), 2);
    assert!(kept.contains(&result(1)) && kept.contains(&result(2)), "{kept:?}");
    jobs.kind::<Close>().keep_completed(Keep::nothing()).unwrap();
    let called = jobs.call::<_, u64>(close(5), Duration::ZERO);
    let Err(tickwheel_jobs::CallError::TimedOut(id)) = called else { panic!("{called:?}") };
    driver.advance(Duration::ZERO);
    assert_eq!(jobs.get(id).unwrap().unwrap().result.as_deref(), Some(&b"5"[..]));
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}

/// P68: A transaction ends some runs of a batch, and the others end as the handler says. Each has an end of its own.
#[test]
fn transaction_ends_some_runs_of_a_batch() {
    let (_folder, path) = shop();
    let (own, reports, events) = (path.clone(), Reports::default(), Log::default());
    let told = events.clone();
    let (jobs, driver) = reports
        .on(open(&path))
        .on_event(move |_| told.add(0))
        .handle_batch(10, 10 * MS, move |jobs: &[(Close, Run)]| {
            in_transaction(&own, true, |transaction| {
                for (job, run) in jobs.iter().filter(|(job, _)| job.order < 6) {
                    let order = u32::try_from(job.order)?;
                    transaction.execute("INSERT INTO closed VALUES (?1)", [order])?;
                    run.end_in(transaction)?;
                }
                Ok(())
            })?;
            Err(Fail::dead("not in the transaction"))
        })
        .manual()
        .unwrap();
    jobs.insert_batch((0..10).map(|order| (Duration::ZERO, close(order)))).unwrap();
    driver.advance(SECOND);
    assert_eq!(effects(&path), [0, 1, 2, 3, 4, 5]);
    assert_eq!(counted(&jobs, &driver), [6, 0, 4, 0, 0, 10]);
    assert_eq!((jobs.stats().completed, jobs.stats().failed, jobs.stats().died), (6, 4, 4));
    assert_eq!(events.get().len(), 4);
    reports.check();
    jobs.check().unwrap();
}

/// P68: A handler that is a future ends its run on a thread that may block.
#[cfg(feature = "tokio")]
#[test]
fn future_ends_its_run_in_a_transaction() {
    let runtime = runtime(2);
    let _inside = runtime.enter();
    let (_folder, path) = shop();
    let own = path.clone();
    let jobs = open(&path)
        .handle_async(move |job: Close, run: Run| {
            let own = own.clone();
            async move {
                let ends = move || end_in(&own, job.order, &run, job.order != 3);
                tokio::task::spawn_blocking(ends).await??;
                if job.order < 4 { Err(Fail::dead("too late")) } else { Ok(()) }
            }
        })
        .start()
        .unwrap();
    jobs.insert_batch((0..8).map(|order| (Duration::ZERO, close(order)))).unwrap();
    wait_until("all have ended", || jobs.stats().completed + jobs.stats().failed == 8);
    assert_eq!(effects(&path), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!((jobs.stats().completed, jobs.count().unwrap().dead), (7, 1));
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}

/// P68: A run that has ended in a transaction has completed, also if its handler then overruns the time limit, or a
/// shutdown does not wait for it.
#[test]
fn run_that_ends_in_a_transaction_has_completed_although_its_handler_goes_on() {
    let (_folder, path) = shop();
    let (own, reports) = (path.clone(), Reports::default());
    let slot = Arc::new(OnceLock::<(Driver, Client)>::new());
    let inside = Arc::clone(&slot);
    let (jobs, driver) = reports
        .on(open(&path))
        .time_limit::<Close>(SECOND)
        .lease(SECOND)
        .retry(Retry::fixed(SECOND))
        .handle(move |job: Close, run| {
            end_in(&own, job.order, run, true)?;
            inside.get().unwrap().0.advance(10 * SECOND);
            Err(Fail::retry("too late"))
        })
        .manual()
        .unwrap();
    assert!(slot.set((driver, jobs.client())).is_ok());
    let driver = &slot.get().unwrap().0;
    jobs.insert(Duration::ZERO, close(1)).unwrap();
    driver.advance(HOUR);
    assert_eq!((effects(&path), reports.outcomes()), (vec![1], vec![Outcome::Completed]));
    assert_eq!((jobs.stats().completed, jobs.stats().failed), (1, 0));
    assert_eq!(counted(&jobs, driver), [1, 0, 0, 0, 0, 1]);
    reports.check();
    jobs.check().unwrap();
    drop(jobs);

    let (_folder, path) = shop();
    let (own, reports) = (path.clone(), Reports::default());
    let ((ended, at_end), (over, is_over)) = (mpsc::channel(), mpsc::channel::<()>());
    let is_over = Mutex::new(is_over);
    let jobs = reports
        .on(open(&path))
        .handle(move |job: Close, run| {
            if job.order == 2 {
                end_in(&own, job.order, run, true)?;
            }
            ended.send(run.clone())?;
            let _ = is_over.lock().unwrap().recv();
            Ok(())
        })
        .threads(2)
        .start()
        .unwrap();
    jobs.insert_batch([2, 3].map(|order| (Duration::ZERO, close(order)))).unwrap();
    let runs = [at_end.recv_timeout(LONG).unwrap(), at_end.recv_timeout(LONG).unwrap()];
    assert_eq!(jobs.shutdown_timeout(MS), Err(StoreError::StillRunning(2)));
    let mut outcomes = reports.outcomes();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [Outcome::Completed, Outcome::Interrupted]);
    // The shutdown has given the other claim back, and its job runs again.
    for run in &runs {
        let error = refused(&path, run);
        assert!(matches!(error, StoreError::ClaimLost | StoreError::RunEnded), "{error:?}");
    }
    let (jobs, driver) = open(&path).handle(|_: Close, _| Ok(())).manual().unwrap();
    assert_eq!((driver.advance(HOUR), jobs.stats().interruptions), (1, 0));
    assert_eq!(effects(&path), [2]);
    jobs.check().unwrap();
    drop(over);
}

/// P69: A run that has ended, has overrun its limit, has lost its claim or never had one cannot end in a transaction.
/// Neither can one whose jobs are not on the file of the transaction.
#[test]
fn run_without_its_claim_does_not_end_in_a_transaction() {
    let (_folder, path) = shop();
    let late = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&late);
    let slot = Arc::new(OnceLock::<(Driver, Client)>::new());
    let (inside, own) = (Arc::clone(&slot), path.clone());
    let (jobs, driver) = open(&path)
        .time_limit::<Close>(SECOND)
        .lease(SECOND)
        .retry(Retry::fixed(HOUR))
        .handle(move |job: Close, run| {
            if job.order == 1 {
                inside.get().unwrap().0.advance(3 * SECOND);
                assert_eq!(refused(&own, run), StoreError::RunEnded);
            }
            if job.order == 3 {
                // A second end, in the same transaction and in another one.
                in_transaction(&own, true, |transaction| {
                    run.end_in(transaction)?;
                    let again = run.end_in(transaction);
                    assert_eq!(again, Err(StoreError::RunEnded));
                    Ok(())
                })?;
                assert_eq!(refused(&own, run), StoreError::RunEnded);
            }
            *kept.lock().unwrap() = Some(run.clone());
            Ok(())
        })
        .manual()
        .unwrap();
    assert!(slot.set((driver, jobs.client())).is_ok());
    let driver = &slot.get().unwrap().0;
    for order in [1, 2, 3] {
        jobs.insert(Duration::ZERO, close(order)).unwrap();
        driver.advance(Duration::ZERO);
        let refused = refused(&path, late.lock().unwrap().as_ref().unwrap());
        assert_eq!(refused, StoreError::RunEnded);
    }
    assert_eq!(jobs.pending().map(|job| job.failures).collect::<Vec<_>>(), [1]);
    let test_run = TestRun::new::<Close>(&jobs.client()).build();
    assert_eq!(refused(&path, &test_run), StoreError::ClaimLost);
    assert_eq!((effects(&path), jobs.stats().completed), (Vec::new(), 2));
    jobs.check().unwrap();

    let other = |builder: Builder| {
        let (own, found) = (path.clone(), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&found);
        let (jobs, driver) = builder
            .handle(move |_: Push, run| {
                let of_memory = Connection::open_in_memory()?;
                for mut conn in [Connection::open(&own)?, of_memory] {
                    noted.lock().unwrap().push(run.end_in(&conn.transaction()?));
                }
                Ok(())
            })
            .manual()
            .unwrap();
        jobs.insert(Duration::ZERO, Push { to: "ann".to_owned() }).unwrap();
        driver.advance(Duration::ZERO);
        assert_eq!(jobs.stats().completed, 1);
        for refused in found.lock().unwrap().drain(..) {
            match (jobs.file(), refused) {
                (None, Err(StoreError::Invalid(InvalidInput::NoFile))) => {}
                (Some(_), Err(StoreError::Invalid(InvalidInput::OtherFile { .. }))) => {}
                (_, refused) => panic!("{refused:?}"),
            }
        }
    };
    on_each_store(other);
}

/// P69: Another process runs the jobs of the file since: the run of the earlier one cannot end in a transaction, and
/// the run of the later one can. So the effect is there once.
#[test]
fn run_of_a_process_that_was_overtaken_does_not_end_in_a_transaction() {
    let (_folder, path) = shop();
    let (first, runs, _release) = held_runs(&path);
    let id = first.insert(Duration::ZERO, close(1)).unwrap();
    let earlier: Run = runs.recv_timeout(LONG).unwrap();
    std::fs::remove_file(format!("{}-runner", path.display())).unwrap();
    let own = path.clone();
    let (second, driver) = open(&path)
        .handle(move |job: Close, run| {
            assert_eq!(refused(&own, &earlier), StoreError::ClaimLost);
            assert!(run.fence() > earlier.fence() && run.id() == id);
            end_in(&own, job.order, run, true)?;
            assert_eq!(refused(&own, &earlier), StoreError::ClaimLost);
            Ok(())
        })
        .manual()
        .unwrap();
    driver.advance(SECOND);
    assert_eq!((effects(&path), second.stats().completed), (vec![1], 1));
    second.check().unwrap();
    let _ = first.shutdown_timeout(Duration::ZERO);
}

/// Starts jobs that hand out their runs, and end when they are released.
fn held_runs(path: &Path) -> (Jobs, mpsc::Receiver<Run>, mpsc::Sender<()>) {
    let ((started, at_start), (release, released)) = (mpsc::channel(), mpsc::channel());
    let released = Mutex::new(released);
    let jobs = open(path).handle(move |_: Close, run: &Run| {
        started.send(run.clone())?;
        let _ = released.lock().unwrap().recv();
        Ok(())
    });
    (jobs.start().unwrap(), at_start, release)
}

/// Returns why a run cannot end in a transaction on the file.
fn refused(path: &Path, run: &Run) -> StoreError {
    let mut conn = Connection::open(path).unwrap();
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    run.end_in(&transaction).unwrap_err()
}

/// A run of a partition that ends in a transaction frees its place: the next job of the partition starts, and a
/// rollback leaves the limit as it was.
#[test]
fn run_that_ends_in_a_transaction_frees_its_place_in_a_limit() {
    let (_folder, path) = shop();
    let file = path.clone();
    let builder = open(&path);
    let (jobs, driver) = builder
        .handle(move |bill: Bill, run| {
            let order = run.attempt().into();
            end_in(&file, order, run, bill.0 != "rolled back")
        })
        .manual()
        .unwrap();
    jobs.kind::<Bill>().limit_each(tickwheel_jobs::Limit::running(1)).unwrap();
    for name in ["acme", "acme", "rolled back", "rolled back", "acme"] {
        jobs.insert(MS, charge(name)).unwrap();
    }
    driver.advance(2 * MS);
    while driver.advance(MS) > 0 {}
    assert_eq!(effects(&path), [1, 1, 1]);
    assert_eq!(jobs.count().unwrap().pending, 0);
    assert_eq!(jobs.queue().limits().unwrap()[0].running, 0);
    jobs.check().unwrap();
}

/// P31: The commit that ends the last member in a transaction of its handler inserts the callback. A rollback does not:
/// then the member ends as its handler says.
#[test]
fn callback_comes_with_the_commit_that_ends_the_last_member() {
    let (_folder, path) = file();
    let came = Arc::new(AtomicU64::new(0));
    let (noted, file) = (Arc::clone(&came), path.clone());
    let handler = move |close: Close, run: &Run| -> Result<(), Fail> {
        let mut conn = Connection::open(&file)?;
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        run.end_in(&transaction)?;
        let group = run.group()?.ok_or("no group")?;
        assert_eq!(group.open, 1, "another connection does not see the end");
        match close.order {
            1 => transaction.commit()?,
            _ => transaction.rollback()?,
        }
        let group = run.group()?.ok_or("no group")?;
        assert_eq!(group.ended.is_some(), close.order == 1);
        Ok(())
    };
    let report = move |push: Push, run: &Run| -> Result<(), Fail> {
        let group = run.group()?.ok_or("no group")?;
        assert_eq!((group.completed, push.to.as_str()), (1, "done"));
        noted.fetch_add(1, Ordering::AcqRel);
        Ok(())
    };
    let builder = open(&path).handle(handler).handle(report);
    let (jobs, driver) = builder.manual().unwrap();
    for (order, reports) in [(1, 1), (2, 2)] {
        let then = Push { to: "done".to_owned() };
        jobs.group().add(Duration::ZERO, close(order)).then(then).insert().unwrap();
        driver.advance(SECOND);
        driver.advance(SECOND);
        assert_eq!(came.load(Ordering::Acquire), reports);
        jobs.check().unwrap();
    }
}

/// P108: A middleware may hold a transaction round the handler, and end its run in it. One commit then has the writes
/// of the handler and the end of the run. An error or a panic of the handler leaves neither.
#[test]
fn middleware_ends_a_run_in_its_transaction() {
    thread_local! {
        static SHOP: std::cell::OnceCell<Connection> = const { std::cell::OnceCell::new() };
    }
    let (_folder, path) = shop();
    let own = path.clone();
    let (jobs, driver) = open(&path)
        .retry(Retry::never())
        .middleware(move |runs, next| {
            SHOP.with(|shop| {
                let shop = shop.get_or_init(|| Connection::open(&own).unwrap());
                let transaction = Transaction::new_unchecked(shop, TransactionBehavior::Immediate)?;
                next.run()?;
                for run in runs {
                    run.end_in(&transaction)?;
                }
                Ok(transaction.commit()?)
            })
        })
        .handle_batch(1, Duration::ZERO, |jobs: &[(Close, Run)]| {
            let order = u32::try_from(jobs[0].0.order)?;
            let insert = "INSERT INTO closed VALUES (?1)";
            SHOP.with(|shop| shop.get().unwrap().execute(insert, [order]))?;
            match order {
                1 => Err(Fail::dead("too late")),
                2 => std::panic::resume_unwind(Box::new("too late")),
                _ => Ok(()),
            }
        })
        .manual()
        .unwrap();
    jobs.insert_batch((0..4).map(|order| (Duration::ZERO, close(order)))).unwrap();
    assert_eq!(driver.advance(SECOND), 4);
    assert_eq!(effects(&path), [0, 3]);
    assert_eq!((jobs.stats().completed, jobs.count().unwrap().dead), (2, 2));
    jobs.check().unwrap();
}
