//! Waits for jobs that have ended, in memory and on a file. More tests of them, for every store, are in
//! `tests/scenarios`.

use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use tickwheel_jobs::{CallError, Client, HistoryEntry, Jobs, Keep, NewJob, Run, Step};
#[cfg(feature = "tokio")]
use tickwheel_jobs::{JobId, JobInfo, StoreError};

use super::scenarios::{Charge, Mail};
use super::support::*;

/// P33: A call in a handler is refused if only its own thread could run the job, and waits otherwise.
#[test]
fn call_in_a_handler_never_waits_for_its_own_thread() {
    on_each_store(|builder| {
        let (told, called) = std::sync::mpsc::channel();
        let jobs = builder
            .threads(1)
            .handle(move |_: Charge, run| {
                let _ = told.send(run.client().call::<_, ()>(Mail(1), LONG));
                Ok(())
            })
            .handle(|_: Mail, _| Ok(()))
            .start()
            .unwrap();
        jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        assert_eq!(called.recv_timeout(LONG).unwrap(), Err(CallError::Refused));
        assert_eq!(jobs.count().unwrap().pending, 0, "nothing was inserted");
        jobs.shutdown().unwrap();
    });
}

/// P33: A call of a future needs no thread of the handlers: it is not refused, although they have one thread.
#[cfg(feature = "tokio")]
#[test]
fn call_of_a_future_is_not_refused_in_a_handler() {
    on_each_store(|builder| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (told, called) = std::sync::mpsc::channel();
        let jobs = builder
            .threads(1)
            .runtime(runtime.handle().clone())
            .handle(move |_: Charge, run| {
                let _ = told.send(run.client().call::<_, u32>(Mail(1), LONG));
                Ok(())
            })
            .handle_async(async |_: Mail, run: Run| run.set_result(&7_u32))
            .start()
            .unwrap();
        jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        assert_eq!(called.recv_timeout(LONG).unwrap(), Ok(7));
        jobs.shutdown().unwrap();
    });
}

/// P33: In the process that runs the jobs a wait ends at once with its job. It would look by itself only a second
/// later.
#[test]
#[expect(clippy::disallowed_methods, reason = "real time is the subject")]
fn wait_in_the_process_of_the_job_ends_at_once() {
    on_each_store(|builder| {
        // The job ends after the first look.
        let jobs = builder.handle(|_: Charge, _| {
            pause(10 * MS);
            Ok(())
        });
        let jobs = jobs.start().unwrap();
        let begun = Instant::now();
        for cents in 0..20 {
            jobs.call::<_, ()>(Charge(cents), LONG).unwrap();
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        jobs.shutdown().unwrap();
    });
}

/// P33: In the same way a wait ends at once if its job is replaced, or is cancelled: by its key, alone or with others,
/// or with all jobs of a list. Before a fix the waiter of a job that was replaced looked again after a second.
#[test]
#[expect(clippy::disallowed_methods, reason = "real time is the subject")]
fn wait_ends_at_once_if_its_job_is_cancelled_by_a_key_or_a_list_or_replaced() {
    on_each_store(|builder| {
        let jobs = builder.handle(|_: Charge, _| Ok(())).start().unwrap();
        let begun = Instant::now();
        for round in 0..40 {
            let id = jobs.keyed("order-7").insert(HOUR, Charge(round)).unwrap();
            let client = jobs.client();
            let waiter = std::thread::spawn(move || client.wait(id, LONG));
            // It has looked once.
            pause(10 * MS);
            match round % 5 {
                0 => assert!(jobs.keyed("order-7").cancel().unwrap()),
                4 => assert_eq!(jobs.cancel_keys(["order-6", "order-7"]), Ok(vec![false, true])),
                1 => drop(jobs.keyed("order-7").insert(HOUR, Charge(99)).unwrap()),
                2 => {
                    let new = NewJob::new(Charge(99)).key("order-7");
                    jobs.insert_batch([new.at(HOUR)]).unwrap();
                }
                _ => assert_eq!(jobs.pending().cancel_all().unwrap().run().unwrap().changed, 1),
            }
            assert!(waiter.join().unwrap().is_err());
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        jobs.shutdown().unwrap();
    });
}

/// Adds up all that a history has.
fn summed(client: &Client, of: impl Fn(&HistoryEntry) -> u64) -> u64 {
    let ever = SystemTime::UNIX_EPOCH..SystemTime::UNIX_EPOCH + 100 * 365 * 24 * HOUR;
    client.queue().history(Step::Hour, ever).unwrap().iter().map(of).sum()
}

/// P34: Two processes that insert in turn lose no count of each other: each reads the latest minute of a kind again
/// once the other one has written.
#[test]
fn history_counts_the_inserts_of_every_process() {
    let (_folder, path) = file();
    let jobs = Jobs::open(&path).unwrap().handle(|_: Mail, _| Ok(())).start().unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    for n in 0..20 {
        jobs.insert(HOUR, Mail(n)).unwrap();
        client.insert(HOUR, Mail(n)).unwrap();
    }
    assert_eq!(summed(&client, |entry| entry.inserted), 40);
    assert_eq!(summed(&jobs, |entry| entry.inserted), 40);
    jobs.shutdown().unwrap();
}

/// P34: The run of a process that has crashed counts as interrupted once, in the process that finds it.
#[test]
fn history_counts_the_run_of_a_process_that_crashed() {
    let (_folder, path) = file();
    let crashed = path.with_file_name("crashed.db");
    let (from, to) = (path.clone(), crashed.clone());
    let copies = move |_: Mail, _: &Run| {
        for suffix in ["", "-wal"] {
            let with = |path: &std::path::Path| format!("{}{suffix}", path.display());
            std::fs::copy(with(&from), with(&to))?;
        }
        Ok(())
    };
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(copies).manual().unwrap();
    jobs.insert(SECOND, Mail(1)).unwrap();
    assert_eq!(driver.advance(SECOND), 1);
    assert_eq!(summed(&jobs, |entry| entry.interrupted), 0);
    drop((jobs, driver));
    for _ in 0..2 {
        let builder = Jobs::open(&crashed).unwrap().handle(|_: Mail, _| Ok(()));
        let (jobs, driver) = builder.manual().unwrap();
        driver.advance(2 * SECOND);
        let sums =
            (|entry: &HistoryEntry| entry.completed, |entry: &HistoryEntry| entry.interrupted);
        assert_eq!((summed(&jobs, sums.0), summed(&jobs, sums.1)), (1, 1));
        jobs.check().unwrap();
        drop((jobs, driver));
    }
}

/// P33: A shutdown ends the waits of its process.
#[test]
fn wait_ends_with_the_jobs() {
    on_each_store(|builder| {
        let jobs = builder.handle(|_: Mail, _| Ok(())).start().unwrap();
        let id = jobs.insert(HOUR, Mail(1)).unwrap();
        let client = jobs.client();
        let waiter = std::thread::spawn(move || client.wait(id, HOUR));
        pause(5 * MS);
        jobs.shutdown().unwrap();
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(CallError::Store(_))), "{ended:?}");
    });
}

/// P33: The same for a future: the end of the jobs ends the timer of the future.
#[cfg(feature = "tokio")]
#[test]
fn wait_of_a_future_ends_with_the_jobs() {
    on_each_store(|builder| {
        let jobs = builder.handle(|_: Mail, _| Ok(())).start().unwrap();
        let id = jobs.insert(HOUR, Mail(1)).unwrap();
        let ended = future_waits(&jobs, id);
        jobs.shutdown().unwrap();
        assert_eq!(ended.recv_timeout(LONG).unwrap(), Err(CallError::Store(StoreError::Closed)));
    });
}

/// Begins to wait for a job, as a future on a thread of its own.
#[cfg(feature = "tokio")]
fn future_waits(jobs: &Jobs, id: JobId) -> mpsc::Receiver<Result<JobInfo, CallError>> {
    let (told, ended) = mpsc::channel();
    let client = jobs.client();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = told.send(runtime.block_on(client.asynchronous().wait(id, 9 * HOUR)));
    });
    pause(20 * MS);
    ended
}

/// P33: On a manual clock a shutdown ends the waits of other threads and of futures, and so does a drop.
#[cfg(feature = "tokio")]
#[test]
fn wait_on_a_manual_clock_ends_with_the_jobs() {
    for is_dropped in [false, true] {
        on_each_store(|builder| {
            let builder = builder.call_timeout(Duration::MAX).handle(|_: Mail, _| Ok(()));
            let (jobs, _driver) = builder.manual().unwrap();
            let id = jobs.insert(HOUR, Mail(1)).unwrap();
            let (told, of_thread) = mpsc::channel();
            let client = jobs.client();
            std::thread::spawn(move || {
                let _ = told.send(client.wait(id, 9 * HOUR));
            });
            let of_future = future_waits(&jobs, id);
            if is_dropped {
                drop(jobs);
            } else {
                jobs.shutdown().unwrap();
            }
            for ended in [of_thread, of_future] {
                let ended = ended.recv_timeout(LONG).unwrap();
                assert_eq!(ended, Err(CallError::Store(StoreError::Closed)));
            }
        });
    }
}

/// P33: A driver whose handler takes long moves its clock: the wait goes on.
#[test]
fn wait_goes_on_while_a_handler_of_the_driver_takes_long() {
    on_each_store(|builder| {
        let (told, starts) = mpsc::channel();
        let handler = move |_: Mail, _: &Run| {
            told.send(()).unwrap();
            pause(500 * MS);
            Ok(())
        };
        let (jobs, driver) = builder.call_timeout(100 * MS).handle(handler).manual().unwrap();
        jobs.kind::<Mail>().keep_completed(Keep::last(9)).unwrap();
        let id = jobs.insert(SECOND, Mail(1)).unwrap();
        let client = jobs.client();
        let drives = std::thread::spawn(move || driver.advance(SECOND));
        starts.recv_timeout(LONG).unwrap();
        assert_eq!(client.wait(id, HOUR).map(|job| job.id), Ok(id));
        assert_eq!(drives.join().unwrap(), 1);
    });
}

/// P33: With a limit of zero a wait looks once.
#[test]
fn wait_with_a_limit_of_zero_looks_once() {
    on_each_store(|builder| {
        let (jobs, driver) = builder.handle(|_: Mail, _| Ok(())).manual().unwrap();
        let called = jobs.call::<_, ()>(Mail(1), Duration::ZERO);
        let Err(CallError::TimedOut(id)) = called else { panic!("{called:?}") };
        driver.advance(SECOND);
        assert_eq!(jobs.wait(id, LONG).unwrap().id, id);
        driver.advance(2 * HOUR);
        assert_eq!(jobs.wait(id, LONG), Err(CallError::Gone(id)), "a minute is over");
    });
}

/// P33: Another process waits for the jobs of a file.
#[test]
fn wait_of_another_process_ends_with_its_job() {
    let (_folder, path) = file();
    let jobs = Jobs::open(&path)
        .unwrap()
        .handle(|charge: Charge, run| run.set_result(&charge.0))
        .start()
        .unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    assert_eq!(client.call::<_, u64>(Charge(7), LONG).unwrap(), 7);
    jobs.shutdown().unwrap();
}

/// P33: A future waits for a job without blocking its thread.
#[cfg(feature = "tokio")]
#[test]
fn futures_wait_for_the_ends_of_jobs() {
    on_each_store(|builder| {
        let jobs = builder.handle(|charge: Charge, run| run.set_result(&charge.0)).start().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let results = runtime.block_on(async {
            let call = |n| {
                let client = jobs.client();
                tokio::spawn(
                    async move { client.asynchronous().call::<_, u64>(Charge(n), LONG).await },
                )
            };
            let calls: Vec<_> = (0..50).map(call).collect();
            let mut results = Vec::new();
            for call in calls {
                results.push(call.await.unwrap().unwrap());
            }
            results
        });
        assert_eq!(results, (0..50).collect::<Vec<_>>());
        jobs.shutdown().unwrap();
    });
}

/// P47: A shutdown removes its process from the list of nodes, and an idle process on a file writes nothing to stay in
/// it.
#[test]
fn node_is_gone_after_its_shutdown() {
    let (_folder, path) = file();
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(|_: Mail, _| Ok(())).manual().unwrap();
    driver.advance(MS);
    let client = Jobs::open(&path).unwrap().client().unwrap();
    assert_eq!(client.nodes().unwrap().len(), 1);
    let before = jobs.stats().commits;
    driver.advance(60 * SECOND);
    assert_eq!(jobs.stats().commits, before, "an idle minute");
    jobs.shutdown().unwrap();
    assert_eq!(client.nodes().unwrap(), []);
    drop(driver);
}

/// P40: Jobs of later hours that become due while no process runs them are counted exactly, and the oldest one is
/// found, also beside many jobs of the same hour that are not due yet.
#[test]
fn overdue_jobs_are_counted_where_no_process_runs_them() {
    let (_folder, path) = file();
    let builder = Jobs::open(&path).unwrap().handle(|_: Mail, _| Ok(()));
    let (jobs, driver) = builder.manual().unwrap();
    let hour = Duration::from_secs(3600);
    let now = driver.wall_now();
    let past = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() % 3600;
    // The beginning of an hour that stays in the table of later jobs, since nothing handles the kind.
    let begin = now - Duration::from_secs(past) + 48 * hour;
    let at = |minute: u64, n: u64| (begin + Duration::from_secs(60 * minute), Charge(n));
    // Behind this one, jobs are not at the end of the kind, and so wait with those of their hour.
    jobs.insert(100 * hour, Charge(0)).unwrap();
    jobs.insert_batch((0..12_000).map(|n| at(50, n))).unwrap();
    jobs.insert_batch([at(7, 1), at(5, 2), at(9, 3)]).unwrap();
    driver.set_wall_unseen(begin + Duration::from_secs(600));
    let counts = jobs.client().count().unwrap();
    assert_eq!((counts.overdue.count, counts.overdue.is_exact), (3, true));
    let age = counts.oldest_overdue.unwrap().as_secs();
    assert_eq!(age, 300);
}
