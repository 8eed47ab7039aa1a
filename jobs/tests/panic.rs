//! A panic of the dispatcher: callers get an error, runs are cancelled, and the file is free.
//!
//! The panic is planted at a named point of the code, in a process of its own: the point is every
//! dispatcher's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, CallError, Client, Event, InsertErrorKind, Job, Jobs, Outcome, StoreError, hook,
};

#[derive(Serialize, Deserialize)]
struct Close;

impl Job for Close {
    const KIND: &'static str = "close";
}

const LONG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

static PANICS: AtomicBool = AtomicBool::new(false);
static CLIENT_PANICS: AtomicBool = AtomicBool::new(false);

fn panic_at(point: &'static str) {
    let planted = match point {
        "before the answers" => &PANICS,
        "before the commit" => &CLIENT_PANICS,
        _ => return,
    };
    if planted.swap(false, Ordering::SeqCst) {
        panic!("planted");
    }
}

fn a_panic_is_noticed(builder: Builder) {
    let (told, events) = mpsc::channel();
    let (started, at_start) = mpsc::channel();
    let (ended, at_end) = mpsc::channel();
    let (reported, reports) = mpsc::channel();
    let jobs = builder
        .on_run(move |run| {
            let _ = reported.send(run.outcome);
        })
        .handle(move |_: Close, run| {
            started.send(()).unwrap();
            while !run.is_cancelled() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        })
        .on_event(move |event| drop(told.send(event)))
        .start()
        .unwrap();
    let runs = jobs.insert(Duration::ZERO, Close).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    let client = jobs.client();
    let (told, waited) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = told.send(runtime.block_on(client.asynchronous().wait(runs, HOUR)));
    });
    std::thread::park_timeout(Duration::from_millis(20));
    PANICS.store(true, Ordering::SeqCst);
    // The commit was made, and its answer is lost.
    let refused = jobs.insert(HOUR, Close).unwrap_err();
    assert!(matches!(refused.kind(), InsertErrorKind::Unknown(_)), "{refused}");
    at_end.recv_timeout(LONG).unwrap();
    assert_eq!(reports.recv_timeout(LONG), Ok(None));
    assert_eq!(reports.recv_timeout(LONG), Ok(Some(Outcome::Interrupted)));
    let event = events.recv_timeout(LONG).unwrap();
    assert!(matches!(event, Event::Stopped { error: StoreError::Other(_) }), "{event:?}");
    let client = jobs.client();
    let why = client.count().unwrap_err();
    assert!(matches!(&why, StoreError::Other(text) if text.contains("panicked")), "{why}");
    assert_eq!(waited.recv_timeout(LONG).unwrap(), Err(CallError::Store(why.clone())));
    let refused = client.insert(HOUR, Close).unwrap_err();
    assert_eq!(*refused.kind(), InsertErrorKind::Store(why.clone()));
    client.nudge();
    assert_eq!(jobs.shutdown(), Err(why));
    assert!(reports.try_recv().is_err());
}

/// A drop may call the jobs while its thread unwinds, and the client goes on.
fn a_call_of_a_thread_that_panics_harms_no_client(path: &Path) {
    struct Inserts(Client);
    impl Drop for Inserts {
        fn drop(&mut self) {
            self.0.insert(HOUR, Close).map(drop).unwrap();
        }
    }
    let client = Jobs::open(path).unwrap().client().unwrap();
    let inserts = Inserts(client.clone());
    let thread = std::thread::spawn(move || {
        let _inserts = inserts;
        panic!("of the program's own");
    });
    assert!(thread.join().is_err());
    assert_eq!(client.count().unwrap().pending, 3);
}

/// All who share a client learn of a panic in a step of it, on threads and in futures, and a new client goes on.
fn a_panic_of_a_client_is_noticed(path: &Path, is_future: bool) {
    let client = Jobs::open(path).unwrap().client().unwrap();
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                loop {
                    let inserted = match is_future {
                        true => runtime.block_on(client.asynchronous().insert(HOUR, Close)),
                        false => client.insert(HOUR, Close),
                    };
                    if let Err(refused) = inserted {
                        return refused.kind().clone();
                    }
                }
            })
        })
        .collect();
    CLIENT_PANICS.store(true, Ordering::SeqCst);
    let ends: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
    // The thread that made the step.
    assert!(ends.iter().filter(|end| end.is_err()).count() <= usize::from(!is_future));
    let is_known = |kind: &InsertErrorKind| match kind {
        InsertErrorKind::Unknown(_) => true,
        InsertErrorKind::Store(StoreError::Other(text)) => text.contains("panicked"),
        _ => false,
    };
    for kind in ends.into_iter().flatten() {
        assert!(is_known(&kind), "{kind:?}");
    }
    let refused = client.insert(HOUR, Close).unwrap_err();
    assert!(is_known(refused.kind()), "{refused}");
    Jobs::open(path).unwrap().client().unwrap().check().unwrap();
}

/// After a step that has panicked the state of the machine may be wrong, so the machine makes no other step. It did: a
/// call that came just after a panic, before the client had ended, stored its job.
fn no_step_follows_one_that_panicked() {
    let builder = Jobs::memory().call_timeout(Duration::MAX).handle(|_: Close, _| Ok(()));
    let (jobs, _driver) = builder.manual().unwrap();
    let id = jobs.insert(HOUR, Close).unwrap();
    let (client, (told, waited)) = (jobs.client(), mpsc::channel());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = told.send(runtime.block_on(client.asynchronous().wait(id, HOUR)));
    });
    std::thread::park_timeout(Duration::from_millis(20));
    CLIENT_PANICS.store(true, Ordering::SeqCst);
    let insert = || jobs.insert(HOUR, Close).map(drop);
    catch_unwind(AssertUnwindSafe(insert)).unwrap_err();
    let refused = insert().unwrap_err();
    assert!(refused.to_string().contains("a step has panicked"), "{refused}");
    let waited = waited.recv_timeout(LONG).unwrap();
    assert!(matches!(waited, Err(CallError::Store(_))), "{waited:?}");
}

/// P51, P55: After a panic of the dispatcher every call ends, the runs under way are cancelled, `on_event` receives it,
/// and the file can have another runner.
#[test]
fn panic_of_the_dispatcher_reaches_callers_runs_and_on_event() {
    hook::set(panic_at);
    a_panic_is_noticed(Jobs::memory());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    a_panic_is_noticed(Jobs::open(&path).unwrap());
    let (jobs, _driver) = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
    assert_eq!(jobs.count().unwrap().pending, 2);
    jobs.check().unwrap();
    drop(jobs);
    a_call_of_a_thread_that_panics_harms_no_client(&path);
    no_step_follows_one_that_panicked();
    for is_future in [false, true] {
        a_panic_of_a_client_is_noticed(&path, is_future);
    }
}
