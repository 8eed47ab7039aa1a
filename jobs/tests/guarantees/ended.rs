//! Waits for jobs that have ended, in memory and on a file. More tests of them, for every store, are in
//! `tests/scenarios`.

use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use tickwheel_jobs::{
    Builder, CallError, Client, HistoryEntry, JobId, Jobs, Keep, NewJob, Run, Step, StoreError,
};

use super::scenarios::metrics::Samples;
use super::scenarios::{Charge, Mail};
use super::support::*;

/// Returns what a call returns that waits for a mail, in a handler of jobs with one thread.
fn call_in_a_handler(builder: Builder) -> Result<u32, CallError> {
    let (told, called) = mpsc::channel();
    let calls = move |_: Charge, run: &Run| Ok(told.send(run.client().call(Mail(1), LONG))?);
    let jobs = builder.threads(1).handle(calls).start().unwrap();
    jobs.insert(Duration::ZERO, Charge(1)).unwrap();
    let called = called.recv_timeout(LONG).unwrap();
    assert_eq!(jobs.count().unwrap().pending, 0, "a call that is refused inserts nothing");
    jobs.shutdown().unwrap();
    called
}

/// P33: A call in a handler is refused if only its own thread could run the job. If a future runs the job, the call
/// needs no thread of the handlers, and waits.
#[test]
fn call_in_a_handler_never_waits_for_its_own_thread() {
    on_each_store(|builder| {
        let called = call_in_a_handler(builder.handle(|_: Mail, _| Ok(())));
        assert_eq!(called, Err(CallError::Refused));
    });
    #[cfg(feature = "tokio")]
    on_each_store(|builder| {
        let runtime = runtime(1);
        let mails = async |_: Mail, run: Run| run.set_result(&7_u32);
        let builder = builder.runtime(runtime.handle().clone()).handle_async(mails);
        assert_eq!(call_in_a_handler(builder), Ok(7));
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
    let jobs = open(&path).handle(|_: Mail, _| Ok(())).start().unwrap();
    let client = client(&path);
    for n in 0..20 {
        jobs.insert(HOUR, Mail(n)).unwrap();
        client.insert(HOUR, Mail(n)).unwrap();
    }
    assert_eq!(summed(&client, |entry| entry.inserted), 40);
    assert_eq!(summed(&jobs, |entry| entry.inserted), 40);
    jobs.shutdown().unwrap();
}

/// P34, P83: The run of a process that has crashed counts as interrupted once, in the process that finds it.
#[test]
fn run_of_a_process_that_crashed_is_counted_once() {
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
    let (jobs, driver) = open(&path).handle(copies).manual().unwrap();
    jobs.insert(SECOND, Mail(1)).unwrap();
    assert_eq!(driver.advance(SECOND), 1);
    assert_eq!((summed(&jobs, |entry| entry.interrupted), jobs.stats().interruptions), (0, 0));
    drop((jobs, driver));
    for found in [1, 0] {
        let builder = Jobs::open(&crashed).unwrap().handle(|_: Mail, _| Ok(()));
        let (jobs, driver) = builder.manual().unwrap();
        driver.advance(2 * SECOND);
        let sums =
            [summed(&jobs, |entry| entry.completed), summed(&jobs, |entry| entry.interrupted)];
        assert_eq!((sums, jobs.stats().interruptions), ([1, 1], found));
        let metrics = Samples::of("default", &jobs.metrics().unwrap().to_string());
        assert_eq!(metrics.labelled("interruptions_total", ""), found as f64);
        jobs.check().unwrap();
        drop((jobs, driver));
    }
}

/// Waits for a job, and returns why that failed.
type Wait = fn(Client, JobId) -> Option<CallError>;

/// P33: A shutdown and a drop end the waits of threads and of futures, in real time and on a manual clock.
#[test]
fn waits_end_with_the_jobs() {
    for (is_manual, is_dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        on_each_store(|builder| {
            let builder = builder.call_timeout(Duration::MAX).handle(|_: Mail, _| Ok(()));
            let (jobs, _driver) = match is_manual {
                true => builder.manual().map(|(jobs, driver)| (jobs, Some(driver))).unwrap(),
                false => (builder.start().unwrap(), None),
            };
            let id = jobs.insert(HOUR, Mail(1)).unwrap();
            let waits: [Wait; 2] = [
                |client, id| client.wait(id, 9 * HOUR).err(),
                |client, id| one_thread().block_on(client.asynchronous().wait(id, 9 * HOUR)).err(),
            ];
            let begun = waits.map(|wait| {
                let ((told, ended), client) = (mpsc::channel(), jobs.client());
                std::thread::spawn(move || told.send(wait(client, id)));
                ended
            });
            pause(20 * MS);
            match is_dropped {
                true => drop(jobs),
                false => jobs.shutdown().unwrap(),
            }
            for ended in begun {
                let ended = ended.recv_timeout(LONG).unwrap();
                assert_eq!(ended, Some(CallError::Store(StoreError::Closed)));
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

/// P33: A future waits for a job without blocking its thread.
#[test]
fn futures_wait_for_the_ends_of_jobs() {
    on_each_store(|builder| {
        let jobs = builder.handle(|charge: Charge, run| run.set_result(&charge.0)).start().unwrap();
        one_thread().block_on(async {
            let call = |n| {
                let client = jobs.client();
                tokio::spawn(
                    async move { client.asynchronous().call::<_, u64>(Charge(n), LONG).await },
                )
            };
            let calls: Vec<_> = (0..50).map(call).collect();
            for (n, call) in (0..).zip(calls) {
                assert_eq!(call.await.unwrap(), Ok(n));
            }
        });
        jobs.shutdown().unwrap();
    });
}

/// P47: An idle process on a file writes nothing to stay in the list of nodes.
#[test]
fn idle_process_on_a_file_writes_nothing() {
    let (_folder, path) = file();
    let (jobs, driver) = open(&path).handle(|_: Mail, _| Ok(())).manual().unwrap();
    driver.advance(MS);
    assert_eq!(jobs.nodes().unwrap().len(), 1);
    let before = jobs.stats().commits;
    driver.advance(60 * SECOND);
    assert_eq!(jobs.stats().commits, before, "an idle minute");
}

/// P40: Jobs of later hours that become due while no process runs them are counted exactly, and the oldest one is
/// found, also beside many jobs of the same hour that are not due yet.
#[test]
fn overdue_jobs_are_counted_where_no_process_runs_them() {
    let (_folder, path) = file();
    let builder = open(&path).handle(|_: Mail, _| Ok(()));
    let (jobs, driver) = builder.manual().unwrap();
    let now = driver.wall_now();
    let past = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() % 3600;
    // The beginning of an hour that stays in the table of later jobs, since nothing handles the kind.
    let begin = now - Duration::from_secs(past) + 48 * HOUR;
    let at = |minute: u64, n: u64| (begin + Duration::from_secs(60 * minute), Charge(n));
    // Behind this one, jobs are not at the end of the kind, and so wait with those of their hour.
    jobs.insert(100 * HOUR, Charge(0)).unwrap();
    jobs.insert_batch((0..12_000).map(|n| at(50, n))).unwrap();
    jobs.insert_batch([at(7, 1), at(5, 2), at(9, 3)]).unwrap();
    driver.set_wall_unseen(begin + Duration::from_secs(600));
    let counts = jobs.client().count().unwrap();
    assert_eq!((counts.overdue.count, counts.overdue.is_exact), (3, true));
    let age = counts.oldest_overdue.unwrap().as_secs();
    assert_eq!(age, 300);
}
