//! A subscriber that calls the jobs from each of its functions, shuts them down there, or panics there.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Fail, Job, JobId, Jobs, Retry, Run, StoreError};

use crate::meddler::{FUNCTIONS, Meddles, meddle_with};
use crate::recorder::{LONG, SECOND, record};
use crate::server::wait_until;

/// A job whose spans and events the subscriber meddles with.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct Meddled {
    panics: bool,
}

impl Job for Meddled {
    const KIND: &'static str = "meddled";
}

/// The same for a handler that is a future.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct MeddledAsync {
    panics: bool,
}

impl Job for MeddledAsync {
    const KIND: &'static str = "meddled-async";
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Other;

impl Job for Other {
    const KIND: &'static str = "other";
}

/// The tests change the subscriber of the whole process, so one of them runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    record();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the jobs, and returns the error of each call that failed.
fn call_everything(client: &Client) -> Vec<StoreError> {
    let inserted = client.insert(3600 * SECOND, Other).map_err(|error| {
        let error: tickwheel_jobs::InsertErrorKind = error.kind().clone();
        StoreError::Other(error.to_string())
    });
    let id = inserted.as_ref().copied().unwrap_or_else(|_| JobId::new());
    let _ = client.process_metrics();
    client.nudge();
    let errors = [
        inserted.err(),
        client.cancel(id).err(),
        client.count().err(),
        client.metrics().err(),
        client.nodes().err(),
    ];
    errors.into_iter().flatten().collect()
}

fn handled(builder: Builder, runtime: &tokio::runtime::Runtime) -> Builder {
    let end = |panics: bool| if panics { panic!("the handler") } else { Ok::<_, Fail>(()) };
    builder
        .trace_context(|| Some("a trace".to_owned()), |_, _| ())
        .retry(Retry::never())
        .runtime(runtime.handle().clone())
        .handle(move |job: Meddled, _: &Run| end(job.panics))
        .handle_async(move |job: MeddledAsync, _: Run| async move {
            tokio::task::yield_now().await;
            end(job.panics)
        })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Runs two jobs that complete and two that die: on a manual clock, or in real time.
fn run_jobs(is_manual: bool, begin: impl Fn(&Client)) {
    let runtime = runtime();
    let builder = handled(Jobs::memory(), &runtime);
    let (jobs, driver) = match is_manual {
        true => builder.manual().map(|(jobs, driver)| (jobs, Some(driver))).unwrap(),
        false => (builder.start().unwrap(), None),
    };
    begin(&jobs);
    for panics in [false, true] {
        jobs.insert(Duration::ZERO, Meddled { panics }).unwrap();
        jobs.insert_batch([(Duration::ZERO, MeddledAsync { panics })]).unwrap();
    }
    if let Some(driver) = &driver {
        driver.advance(SECOND);
    }
    wait_until("all runs have ended", || {
        let stats = jobs.stats();
        (stats.completed, stats.died) == (2, 2)
    });
    jobs.shutdown().unwrap();
}

/// Fails if the function does not return.
fn returns(what: &str, function: impl FnOnce() + Send + 'static) {
    let (sender, returned) = mpsc::channel();
    let thread = thread::spawn(move || {
        function();
        let _ = sender.send(());
    });
    if returned.recv_timeout(LONG) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("it stands still: {what}");
    }
    thread.join().unwrap_or_else(|_| panic!("it panicked: {what}"));
}

/// P54: A subscriber may call the jobs from each of its functions. No lock is held there, so a call is answered; on the
/// dispatcher's thread it is refused.
#[test]
fn subscriber_may_call_the_jobs() {
    let _alone = alone();
    for is_manual in [true, false] {
        let called = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&called);
        returns(&format!("manual: {is_manual}"), move || {
            run_jobs(is_manual, |client| {
                let (client, noted) = (client.clone(), Arc::clone(&noted));
                meddle_with(Meddles::new(move |function| {
                    for error in call_everything(&client) {
                        let text = error.to_string();
                        assert!(!is_manual && text.contains("makes the steps"), "{text}");
                    }
                    noted.lock().unwrap().insert(function);
                }));
            });
        });
        meddle_with(Meddles::default());
        let called = called.lock().unwrap().clone();
        assert_eq!(called, FUNCTIONS.into_iter().collect(), "manual: {is_manual}");
    }
}

/// P54: A panic of any function of a subscriber ends there: no insert fails, and each run ends as its handler says, one
/// whose handler panics too.
#[test]
fn panic_of_any_function_of_a_subscriber_ends_there() {
    let _alone = alone();
    for is_manual in [true, false] {
        for panics in FUNCTIONS {
            returns(&format!("{panics}, manual: {is_manual}"), move || {
                run_jobs(is_manual, |_| {
                    meddle_with(Meddles::new(move |function| {
                        assert_ne!(function, panics, "the subscriber");
                    }));
                });
            });
            meddle_with(Meddles::default());
        }
        returns("all of them", move || {
            run_jobs(is_manual, |_| meddle_with(Meddles::new(|function| panic!("{function}"))));
        });
        meddle_with(Meddles::default());
    }
}

/// P54: A subscriber may shut the jobs down in each of its functions: the shutdown does not wait for the run, or for
/// the thread, in which it stands.
#[test]
fn subscriber_may_shut_the_jobs_down() {
    let _alone = alone();
    for is_manual in [true, false] {
        for (at, is_async) in FUNCTIONS.into_iter().flat_map(|at| [(at, false), (at, true)]) {
            returns(&format!("{at}, async: {is_async}, manual: {is_manual}"), move || {
                shut_down_at(at, is_async, is_manual);
            });
            meddle_with(Meddles::default());
        }
    }
}

fn shut_down_at(at: &'static str, is_async: bool, is_manual: bool) {
    let runtime = runtime();
    let builder = handled(Jobs::memory(), &runtime);
    let (jobs, driver) = match is_manual {
        true => builder.manual().map(|(jobs, driver)| (jobs, Some(driver))).unwrap(),
        false => (builder.start().unwrap(), None),
    };
    let client = jobs.client();
    let slot = Mutex::new(Some(jobs));
    let (sender, shut_down) = mpsc::channel();
    let sender = Mutex::new(sender);
    meddle_with(Meddles::new(move |function| {
        let jobs = (function == at).then(|| slot.lock().unwrap().take()).flatten();
        if let Some(jobs) = jobs {
            let _ = jobs.shutdown();
            let _ = sender.lock().unwrap().send(());
        }
    }));
    let _ = match is_async {
        true => client.insert(Duration::ZERO, MeddledAsync { panics: false }).map(drop).is_ok(),
        false => client.insert(Duration::ZERO, Meddled { panics: false }).map(drop).is_ok(),
    };
    if let Some(driver) = driver {
        driver.advance(SECOND);
    }
    shut_down.recv_timeout(LONG).unwrap();
}
