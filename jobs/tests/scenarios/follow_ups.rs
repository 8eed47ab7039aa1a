//! What is promised of follow-ups, for every store.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    CallError, Client, Driver, Fail, InsertErrorKind, InvalidInput, Job, JobId, Jobs, NewJob,
    Retry, Run, Step, StoreError, TestRun, Until,
};

use super::{Charge, DAY, LONG, MS, Mail, SECOND, Store, run_for};
use crate::support::on_stores;

/// How the run of a [`Chain`] ends.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Well,
    /// Once by a failure, and then well.
    SecondTime,
    Dead,
    Snoozed,
    Panicked,
    /// Its cancel is requested while it runs, and it fails.
    Cancelled,
    /// Its cancel is requested while it runs, and it completes.
    CancelledTooLate,
}

/// A job with one follow-up: a mail of its number.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
struct Chain(u64, Ends);

impl Job for Chain {
    const KIND: &'static str = "chain";
}

fn chained(chain: Chain, run: &Run) -> Result<(), Fail> {
    let id = run.then(Duration::ZERO, Mail(chain.0))?;
    assert_eq!(run.client().get(id).unwrap(), None, "it waits for the end");
    match (chain.1, run.attempt()) {
        (Ends::Dead, _) => return Err(Fail::dead("as planned")),
        (Ends::Snoozed, _) => return Err(Fail::snooze(DAY)),
        (Ends::SecondTime, 1) => return Err(Fail::retry("as planned")),
        (Ends::Panicked, _) => std::panic::resume_unwind(Box::new("as planned")),
        (Ends::Cancelled | Ends::CancelledTooLate, _) => drop(run.client().cancel(run.id())?),
        _ => {}
    }
    if chain.1 == Ends::Cancelled { Err(Fail::retry("as planned")) } else { Ok(()) }
}

/// Starts jobs whose mails are noted.
fn start(store: &Store<'_>) -> (Jobs, Driver, Arc<Mutex<Vec<u64>>>) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&sent);
    let builder = store.open().handle_with(Retry::fixed(SECOND).max_retries(1), chained);
    let builder = builder.handle(move |mail: Mail, _| {
        noted.lock().unwrap().push(mail.0);
        Ok(())
    });
    let (jobs, driver) = builder.manual().unwrap();
    (jobs, driver, sent)
}

fn inserted(client: &Client) -> u64 {
    let ever = SystemTime::UNIX_EPOCH..SystemTime::UNIX_EPOCH + 100 * 365 * DAY;
    client.queue().history(Step::Hour, ever).unwrap().iter().map(|entry| entry.inserted).sum()
}

/// P30: A follow-up is stored with the end of its run, if that is a good one, and starts after it: also in the run of
/// an occurrence. A run that fails, dies, panics, is snoozed or cancelled drops its follow-ups.
#[test]
fn follow_ups_are_stored_if_and_when_their_run_ends_well() {
    on_stores(|store| {
        let (jobs, driver, sent) = start(store);
        let ends = [Ends::Dead, Ends::Snoozed, Ends::Panicked, Ends::Cancelled];
        for (n, ends) in (0..).zip(ends) {
            jobs.insert(Duration::ZERO, Chain(n, ends)).unwrap();
            run_for(&driver, MS);
        }
        assert_eq!((sent.lock().unwrap().clone(), inserted(&jobs)), (Vec::new(), 4));
        jobs.insert(Duration::ZERO, Chain(10, Ends::Well)).unwrap();
        jobs.insert(Duration::ZERO, Chain(11, Ends::CancelledTooLate)).unwrap();
        jobs.insert(MS, Chain(12, Ends::SecondTime)).unwrap();
        run_for(&driver, 2 * MS);
        assert_eq!(sent.lock().unwrap().clone(), [10, 11]);
        run_for(&driver, 2 * SECOND);
        assert_eq!((sent.lock().unwrap().clone(), inserted(&jobs)), (vec![10, 11, 12], 10));
        let metrics = jobs.metrics().unwrap().to_string();
        let is_of_mails =
            |line: &&str| line.contains("_inserted_total{") && line.contains("\"mail\"");
        let of_mails = metrics.lines().find(is_of_mails).unwrap();
        assert!(of_mails.ends_with(" 3"), "{of_mails}");
        jobs.schedule("often", SECOND, Chain(13, Ends::Well)).unwrap();
        run_for(&driver, 1100 * MS);
        assert_eq!(sent.lock().unwrap().last(), Some(&13));
        jobs.check().unwrap();
    });
}

/// P30: A run takes 255 follow-ups with a mebibyte of payloads. One more is refused with a typed error that gives the
/// job back, and the others stay. After the end of the run it takes none.
#[test]
fn follow_ups_beyond_the_limits_are_refused_and_the_others_stay() {
    on_stores(|store| {
        let late = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&late);
        let full = move |charge: Charge, run: &Run| -> Result<(), Fail> {
            let many = if charge.0 == 1 { 255 } else { 3 };
            for n in 0..many {
                run.then(DAY, Mail(n))?;
            }
            let refused = match charge.0 {
                1 => {
                    let refused = run.then(DAY, Mail(255)).unwrap_err();
                    let kind = refused.kind().clone();
                    assert_eq!(refused.into_inner(), Mail(255));
                    let batch = run.next().insert_batch([(DAY, Mail(1))]).unwrap_err();
                    assert_eq!(batch.kind(), &kind);
                    kind
                }
                _ => {
                    run.then(DAY, Letter("a".repeat((1 << 20) - 100)))?;
                    let batch = [(DAY, Letter("b".repeat(60))), (DAY, Letter("c".repeat(60)))];
                    run.next().insert_batch(batch).unwrap_err().kind().clone()
                }
            };
            let expected = match charge.0 {
                1 => InvalidInput::TooManyFollowUps,
                _ => InvalidInput::FollowUpsTooLarge,
            };
            assert_eq!(refused, InsertErrorKind::Invalid(expected));
            *kept.lock().unwrap() = Some(run.clone());
            Ok(())
        };
        let (jobs, driver) = store.open().handle(full).manual().unwrap();
        for (cents, follow_ups) in [(1, 255), (2, 259)] {
            jobs.insert(Duration::ZERO, Charge(cents)).unwrap();
            run_for(&driver, MS);
            assert_eq!(jobs.stats().failed, 0);
            assert_eq!(jobs.count().unwrap().pending, follow_ups);
            let run: Run = late.lock().unwrap().take().unwrap();
            let refused = run.then(DAY, Mail(9)).unwrap_err();
            let ended = StoreError::RunEnded;
            assert_eq!(refused.kind(), &InsertErrorKind::Store(ended));
            assert_eq!(jobs.count().unwrap().pending, follow_ups);
        }
        jobs.check().unwrap();
    });
}

/// A job of any length.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Letter(String);

impl Job for Letter {
    const KIND: &'static str = "letter";
}

/// P30: A follow-up has a key, an id and headers like any other job. It takes the key that its run holds until its end,
/// and replaces the pending job of another key, although that one is claimed. One that leaves a pending job, and one
/// whose id is known, are dropped at the end. A call that would wait for its own run is refused.
#[test]
fn follow_ups_have_keys_ids_and_headers() {
    on_stores(|store| {
        let acts = |_: Charge, run: &Run| -> Result<(), Fail> {
            let next = run.next().with_header("tenant", "acme");
            next.keyed("held").insert(DAY, Mail(1))?;
            next.keyed("other").insert(DAY, Mail(2))?;
            let left = NewJob::new(Mail(3)).at(DAY).key("left").if_absent();
            assert!(next.insert_job(left)?.is_new, "what becomes of it is known at the end");
            next.insert_job(NewJob::new(Mail(4)).at(DAY).id(JobId::named("known")))?;
            next.insert_batch([(DAY, Mail(5)), (DAY, Mail(6))])?;
            assert_eq!(next.call::<_, ()>(Mail(7), LONG), Err(CallError::Refused));
            Ok(())
        };
        let (jobs, driver) =
            store.open().handle(acts).handle(|_: Mail, _| Ok(())).manual().unwrap();
        jobs.insert_job(NewJob::new(Mail(40)).at(DAY).id(JobId::named("known"))).unwrap();
        jobs.keyed("left").insert(DAY, Mail(30)).unwrap();
        let held = NewJob::new(Charge(1)).at(10 * MS).key("held").unique_until(Until::Ended);
        jobs.insert_job(held).unwrap();
        // Claimed together with the charge.
        jobs.keyed("other").insert(20 * MS, Mail(20)).unwrap();
        driver.advance(10 * MS);
        driver.advance(SECOND);
        assert_eq!(jobs.stats().started, 1);
        let mut mails: Vec<(u64, Option<String>)> = jobs
            .pending()
            .map(|info| (info.job::<Mail>().unwrap().0, info.headers.get("tenant").cloned()))
            .collect();
        mails.sort_unstable();
        let tenant = Some("acme".to_owned());
        let of_run = [1, 2, 5, 6].map(|n| (n, tenant.clone()));
        let others = [30, 40].map(|n| (n, None));
        assert_eq!(mails, of_run.into_iter().chain(others).collect::<Vec<_>>());
        assert_eq!(jobs.keyed("held").get().unwrap().unwrap().job::<Mail>().unwrap(), Mail(1));
        jobs.check().unwrap();
    });
}

/// P30: A test that calls a handler itself ends its run, and finds the follow-ups.
#[test]
fn test_run_that_completes_stores_its_follow_ups() {
    on_stores(|store| {
        let (jobs, _driver, _) = start(store);
        let run = TestRun::new::<Chain>(&jobs).build();
        chained(Chain(1, Ends::Well), &run).unwrap();
        assert_eq!(jobs.count().unwrap().pending, 0);
        TestRun::complete(&run).unwrap();
        assert_eq!(
            jobs.pending().map(|info| info.job::<Mail>().unwrap()).collect::<Vec<_>>(),
            [Mail(1)]
        );
        assert!(run.then(MS, Mail(2)).is_err(), "it has ended");
    });
}

/// P30: A run that ends while the jobs shut down stores its follow-up with its end. A start later runs it.
#[test]
fn follow_up_of_a_run_that_a_shutdown_waits_for_is_stored() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let (started, starts) = std::sync::mpsc::channel();
        let handler = move |chain: Chain, run: &Run| {
            started.send(())?;
            while !run.is_cancelled() {
                std::thread::yield_now();
            }
            run.then(Duration::ZERO, Mail(chain.0))?;
            Ok(())
        };
        let jobs = store.open().handle(handler).start().unwrap();
        jobs.insert(Duration::ZERO, Chain(7, Ends::Well)).unwrap();
        starts.recv_timeout(LONG).unwrap();
        jobs.shutdown().unwrap();
        let (sent, mails) = std::sync::mpsc::channel();
        let jobs =
            store.open().handle(move |mail: Mail, _| Ok(sent.send(mail.0)?)).start().unwrap();
        assert_eq!(mails.recv_timeout(LONG), Ok(7));
        jobs.shutdown().unwrap();
    });
}
