//! Verbs as futures.

use core::cell::Cell;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{
    Cancel, Client, Durability, GroupError, InsertErrorKind, Job, JobId, JobState, Jobs, Keep,
    Limit, NewJob, Step, StoreError, Until,
};

use super::support::*;

/// Calls each verb on jobs that are empty, and that run none which is due in an hour.
async fn every_verb(client: &Client, runs: bool) {
    let calls = client.asynchronous();
    let id = calls.insert(HOUR, close(1)).await.unwrap();
    assert_eq!(calls.get(id).await.unwrap().unwrap().state, JobState::Pending);
    assert!(calls.reschedule(id, 2 * HOUR).await.unwrap());
    assert_eq!(calls.cancel(id).await.unwrap(), Cancel::Cancelled);
    assert_eq!(calls.get(id).await.unwrap(), None);

    let named = JobId::named("one");
    let first = calls.insert_job(NewJob::new(close(2)).at(HOUR).id(named)).await.unwrap();
    let again = calls.insert_job(NewJob::new(close(2)).at(HOUR).id(named)).await.unwrap();
    assert_eq!((first.is_new, again.is_new, again.id), (true, false, named));
    let new = NewJob::new(close(3)).at(HOUR).key("3").unique_until(Until::Ended);
    assert!(calls.insert_job(new).await.unwrap().is_new);
    let ids = calls.insert_batch([(HOUR, close(4)), (HOUR, close(5))]).await.unwrap();
    assert_eq!(calls.count().await.unwrap().pending, 4);
    let mut pages = client.pending();
    let mut listed = Vec::new();
    loop {
        let page = pages.asynchronous().next_page().await.unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|job| job.id));
    }
    assert!(listed.len() == 4 && ids.iter().all(|id| listed.contains(id)), "{listed:?}");

    let keyed = client.keyed("order-6").asynchronous();
    let before = keyed.insert(HOUR, close(6)).await.unwrap();
    let refused = keyed.insert_if_absent(HOUR, close(7)).await.unwrap_err();
    assert_eq!(refused.kind(), &InsertErrorKind::Occupied);
    assert_eq!(refused.into_inner(), close(7));
    let after = keyed.insert_keeping_time(2 * HOUR, close(7)).await.unwrap();
    assert_ne!(before, after);
    assert!(keyed.remaining().await.unwrap().unwrap() <= HOUR + SECOND);
    assert!(keyed.reschedule(2 * HOUR).await.unwrap());
    assert_eq!(keyed.get().await.unwrap().unwrap().job::<Close>().unwrap(), close(7));
    assert!(keyed.cancel().await.unwrap());
    let before = keyed.debounce(HOUR, 2 * HOUR, close(6)).await.unwrap();
    assert_ne!(keyed.debounce(HOUR, 2 * HOUR, close(7)).await.unwrap(), before);
    assert!(keyed.cancel().await.unwrap());

    calls.schedule("night", 24 * HOUR, close(8)).await.unwrap();
    assert_eq!(calls.schedules().list().await.unwrap().len(), 1);
    assert!(calls.schedules().run("noon").await.unwrap().is_none());
    calls.schedules().pause("night").await.unwrap();
    assert!(calls.schedules().list().await.unwrap()[0].is_paused);
    calls.schedules().resume("night").await.unwrap();
    assert!(!calls.schedules().list().await.unwrap()[0].is_paused);
    assert!(calls.schedules().pause("noon").await.is_err());
    assert!(calls.schedules().remove("night").await.unwrap());
    assert!(!calls.retry(named).await.unwrap());
    assert!(!calls.delete(named).await.unwrap());
    assert_eq!(client.dead().retry_all().unwrap().asynchronous().next_step().await, Ok(None));
    let mut later = client.pending().reschedule_all(2 * HOUR).unwrap();
    let step = later.asynchronous().next_step().await.unwrap();
    assert_eq!(step.map(|step| step.changed), Some(4));
    assert_eq!(later.asynchronous().run().await.map(|all| all.changed), Ok(4));
    let queue = calls.queue();
    queue.pause().await.unwrap();
    assert!(queue.is_paused().await.unwrap());
    queue.resume().await.unwrap();
    assert!(!queue.is_paused().await.unwrap());
    let ever = std::time::UNIX_EPOCH..std::time::UNIX_EPOCH + 1_000_000 * HOUR;
    assert!(!queue.history(Step::Hour, ever.clone()).await.unwrap().is_empty());
    let of_kind = calls.kind::<Close>();
    of_kind.pause().await.unwrap();
    assert!(of_kind.is_paused().await.unwrap() && !queue.is_paused().await.unwrap());
    of_kind.resume().await.unwrap();
    of_kind.keep_completed(Keep::nothing()).await.unwrap();
    assert!(!of_kind.history(Step::Hour, ever).await.unwrap().is_empty());
    calls.nodes().await.unwrap();
    assert!(calls.dead_by_error(9).await.unwrap().is_empty());
    let one = client.pending().next().unwrap();
    let copy = calls.insert_copy(&one, HOUR).await.unwrap();
    assert!(calls.cancel(copy).await.unwrap().is_cancelled());
    let kinds = calls.queue().kinds().await.unwrap();
    assert_eq!(kinds, [(Close::KIND.to_owned(), 4)]);
    let unhandled = calls.unhandled().await.unwrap();
    assert_eq!(unhandled.is_empty(), runs);
    let gauges = calls.metrics().await.unwrap().to_string();
    assert!(gauges.contains("tickwheel_jobs_pending{") && gauges.contains("_running{") == runs);
    let closes = client.kind::<Close>();
    let of_acme = closes.partition("acme");
    calls.queue().limit(Limit::running(9)).await.unwrap();
    closes.asynchronous().limit(Limit::running(8)).await.unwrap();
    closes.asynchronous().limit_each(Limit::running(7)).await.unwrap();
    of_acme.asynchronous().limit(Limit::running(6)).await.unwrap();
    assert_eq!(calls.queue().limits().await.unwrap().len(), 4);
    of_acme.asynchronous().pause().await.unwrap();
    of_acme.asynchronous().resume().await.unwrap();
    calls.queue().hold(MS).await.unwrap();
    closes.asynchronous().hold(MS).await.unwrap();
    of_acme.asynchronous().hold(HOUR).await.unwrap();
    assert_eq!(calls.queue().limits().await.unwrap().len(), 4);
    of_acme.asynchronous().hold(std::time::Duration::ZERO).await.unwrap();
    let group = client.group().add(24 * HOUR, close(10)).asynchronous().open().await.unwrap();
    group.asynchronous().add(24 * HOUR, close(11)).await.unwrap();
    assert_eq!(group.asynchronous().info().await.unwrap().unwrap().open, 2);
    assert!(group.asynchronous().seal().await.unwrap());
    group.asynchronous().cancel().await.unwrap();
    assert_eq!(calls.groups().await.unwrap().len(), 1);
    let none = group.results().asynchronous().next_page().await;
    assert_eq!(none, Err(StoreError::Group(GroupError::NoResults)));
    client.group().asynchronous().insert().await.map(drop).unwrap();
    let waits = client.pending().asynchronous().next_page().await.unwrap()[0].id;
    assert!(!calls.why_pending(waits).await.unwrap().is_empty());
    // Due at once, so it comes after the lists.
    let century = 100 * 365 * 24 * HOUR;
    assert!(keyed.throttle(century, close(9)).await.unwrap().is_new);
    assert!(!keyed.throttle(century, close(9)).await.unwrap().is_new);
    calls.flush().await.unwrap();
    calls.check().await.unwrap();
}

/// P59: The async form of each verb does what the blocking form does: on every store, in the process that runs the
/// jobs, in one that does not, and on a manual clock.
#[test]
fn async_form_of_each_verb_does_the_same() {
    for durability in [Durability::Buffered, Durability::Written, Durability::Synced] {
        on_each_store(|builder| {
            let jobs = builder.durability(durability).handle(|_: Close, _| Ok(())).start().unwrap();
            one_thread().block_on(every_verb(&jobs, true));
            jobs.shutdown().unwrap();
        });
        let (_folder, path) = file();
        let client = open(&path).durability(durability).client();
        one_thread().block_on(every_verb(&client.unwrap(), false));
    }
    on_manual(|jobs, _, _| {
        // Each future ends with its first poll.
        let mut verbs = pin!(every_verb(jobs, true));
        assert_eq!(verbs.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    });
}

/// A job that is `Send` and not `Sync`.
#[derive(Serialize, Deserialize)]
struct Counter(Cell<u64>);
impl Job for Counter {
    const KIND: &'static str = "counter";
}

/// P59: The future of a call may be sent to another thread, also for a job that is not `Sync`.
#[test]
fn futures_are_send() {
    fn ends<T>(future: impl Future<Output = T> + Send) -> T {
        one_thread().block_on(future)
    }
    let jobs = Jobs::memory().handle(|_: Counter, _| Ok(())).start().unwrap();
    let (calls, counter) = (jobs.asynchronous(), || Counter(Cell::new(1)));
    ends(calls.insert(HOUR, counter())).unwrap();
    ends(calls.insert_batch([(HOUR, counter())])).unwrap();
    ends(calls.insert_job(NewJob::new(counter()).at(HOUR))).map(drop).unwrap();
    ends(jobs.keyed("1").asynchronous().insert(HOUR, counter())).unwrap();
    assert_eq!(jobs.count().unwrap().pending, 4);
}

/// Holds the lock of the file until it is dropped.
fn hold(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

/// Both who can call on a file: the process that runs the jobs, and a client.
fn both(path: &Path, patience: std::time::Duration) -> [(Option<Jobs>, Client); 2] {
    let open = || open(path).call_timeout(patience);
    let jobs = open().handle(|_: Close, _| Ok(())).start().unwrap();
    let client = jobs.client();
    [(Some(jobs), client), (None, open().client().unwrap())]
}

/// P59: A future keeps the limit of its call, and blocks no other future of its thread meanwhile.
#[test]
fn futures_keep_the_limit_of_their_calls() {
    let (_folder, path) = file();
    for (_jobs, client) in both(&path, 300 * MS) {
        let held = hold(&path);
        one_thread().block_on(async {
            let calls = (0..20).map(|n| {
                let client = client.clone();
                tokio::task::spawn_local(async move {
                    client.asynchronous().insert(HOUR, close(n)).await
                })
            });
            let local = tokio::task::LocalSet::new();
            let turns = local
                .run_until(async {
                    let calls: Vec<_> = calls.collect();
                    let mut turns = 0;
                    while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
                        tokio::time::sleep(MS).await;
                        turns += 1;
                    }
                    for call in calls {
                        let refused = call.await.unwrap().unwrap_err();
                        assert_eq!(refused.kind(), &InsertErrorKind::Store(StoreError::Busy));
                    }
                    turns
                })
                .await;
            assert!(turns > 5, "the thread stood still: {turns}");
        });
        drop(held);
        assert_eq!(client.count().unwrap().pending, 0);
    }
}

/// Drops a future while a call before it waits for the lock. Returns whether its job is not there.
fn a_dropped_future_does_nothing(client: &Client, path: &Path) -> bool {
    let held = hold(path);
    let first = client.clone();
    let first = thread::spawn(move || first.insert(HOUR, close(2)).unwrap());
    pause(100 * MS);
    {
        let client = client.asynchronous();
        let mut dropped = pin!(client.insert(HOUR, close(3)));
        let polled = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    drop(held);
    let first = first.join().unwrap();
    client.flush().unwrap();
    let pending: Vec<JobId> = client.pending().map(|job| job.id).collect();
    for &id in &pending {
        assert!(client.cancel(id).unwrap().is_cancelled());
    }
    pending == [first]
}

/// P60: A future that is dropped before the jobs have taken its call does nothing. On a busy machine the jobs may
/// take the call before the one that was to come first.
#[test]
fn future_dropped_before_its_call_is_taken_does_nothing() {
    let (_folder, path) = file();
    for (_jobs, client) in both(&path, LONG) {
        drop(client.asynchronous().insert(HOUR, close(1)));
        assert!((0..20).any(|_| a_dropped_future_does_nothing(&client, &path)));
    }
}

/// P60: Futures wait for room while the disk is slow, at every durability, and all are answered.
#[test]
fn futures_without_room_wait_and_are_all_answered() {
    const MANY: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::Buffered, Durability::Written] {
        let path = folder.path().join(format!("{durability:?}.db"));
        let open = || open(&path).durability(durability).call_timeout(LONG);
        let jobs = open().handle(|_: Close, _| Ok(())).start().unwrap();
        let held = hold(&path);
        let runtime = runtime(2);
        let calls: Vec<_> = (0..MANY)
            .map(|n| {
                let client = jobs.client();
                runtime.spawn(async move {
                    client.asynchronous().insert(HOUR, close(n)).await.map(drop)
                })
            })
            .collect();
        pause(100 * MS);
        drop(held);
        runtime.block_on(async {
            for call in calls {
                call.await.unwrap().unwrap();
            }
        });
        assert_eq!(jobs.count().unwrap().pending, MANY);
        jobs.shutdown().unwrap();
    }
}

/// A waker that calls the jobs, and notes what they said.
struct Calls(Client, Mutex<Vec<StoreError>>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let refused = self.0.count().unwrap_err();
        self.1.lock().unwrap().push(refused);
    }
}

/// P55: A waker that calls a verb which waits is refused, and blocks nothing.
#[test]
fn waker_that_makes_a_waiting_call_is_refused() {
    let (_folder, path) = file();
    for (_jobs, client) in both(&path, LONG) {
        let calls = Arc::new(Calls(client.clone(), Mutex::default()));
        let waker = Waker::from(Arc::clone(&calls));
        let futures = client.asynchronous();
        let mut insert = pin!(futures.insert(HOUR, close(1)));
        if insert.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            wait_until("it was woken", || !calls.1.lock().unwrap().is_empty());
            let refused = calls.1.lock().unwrap().clone();
            assert!(matches!(&*refused, [StoreError::Other(_)]), "{refused:?}");
        }
        client.count().unwrap();
    }
}

/// P60: Threads and futures may share one client. Each call is answered, and every stored job is there.
#[test]
fn threads_and_futures_share_a_client() {
    const EACH: u64 = 50;
    let (_folder, path) = file();
    let client = client(&path);
    let runtime = runtime(2);
    thread::scope(|scope| {
        for caller in 0..16 {
            let client = &client;
            scope.spawn(move || {
                for n in 0..EACH {
                    let id = client.insert(HOUR, close(caller * EACH + n)).unwrap();
                    if n % 3 == 0 {
                        assert!(client.cancel(id).unwrap().is_cancelled());
                    }
                }
            });
        }
        let tasks: Vec<_> = (16..64)
            .map(|caller| {
                let client = client.clone();
                runtime.spawn(async move {
                    for n in 0..EACH {
                        let id = client
                            .asynchronous()
                            .insert(HOUR, close(caller * EACH + n))
                            .await
                            .unwrap();
                        if n % 3 == 0 {
                            assert!(client.asynchronous().cancel(id).await.unwrap().is_cancelled());
                        }
                    }
                })
            })
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    let cancelled = EACH.div_ceil(3);
    assert_eq!(client.count().unwrap().pending, 64 * (EACH - cancelled));
    client.check().unwrap();
    // No caller makes steps for the others now, so a thread that calls alone makes its own.
    client.insert(HOUR, close(0)).unwrap();
}

/// P61: An async shutdown lets handlers end on the one thread of its runtime.
#[test]
#[cfg(feature = "tokio")]
fn shutdown_on_a_runtime_of_one_thread_waits_for_its_handlers() {
    let runtime = one_thread();
    let (sender, receiver) = std::sync::mpsc::channel();
    let ends_when_told = move |_: Close, run: tickwheel_jobs::Run| {
        let sender = sender.clone();
        async move {
            sender.send("started").unwrap();
            run.cancelled().await;
            tokio::time::sleep(20 * MS).await;
            sender.send("ended").unwrap();
            Ok(())
        }
    };
    let jobs = Jobs::memory().runtime(runtime.handle().clone()).handle_async(ends_when_told);
    let jobs = jobs.start().unwrap();
    let client = jobs.client();
    runtime.block_on(async {
        jobs.asynchronous().insert(MS, close(1)).await.unwrap();
        while receiver.try_recv().is_err() {
            tokio::time::sleep(MS).await;
        }
        assert_eq!(jobs.shutdown_timeout_async(LONG).await, Ok(()));
        assert_eq!(receiver.try_recv(), Ok("ended"));
    });
    assert_eq!(client.stats().completed, 1);
}

/// An async call in a handler that is a future is answered although all threads of its runtime poll such
/// handlers.
#[test]
#[cfg(feature = "tokio")]
fn handlers_that_are_futures_call_the_jobs() {
    let runtime = one_thread();
    let (sender, receiver) = std::sync::mpsc::channel();
    let follow = move |job: Close, run: tickwheel_jobs::Run| {
        let sender = sender.clone();
        async move {
            match job.order {
                100 => sender.send(()).unwrap(),
                n => drop(run.client().asynchronous().insert(MS, close(n + 1)).await?),
            }
            Ok(())
        }
    };
    let jobs =
        Jobs::memory().runtime(runtime.handle().clone()).handle_async(follow).start().unwrap();
    runtime.block_on(async {
        jobs.asynchronous().insert(MS, close(1)).await.unwrap();
        let mut done = pin!(tokio::task::spawn_blocking(move || receiver.recv_timeout(LONG)));
        core::future::poll_fn(|context| done.as_mut().poll(context)).await.unwrap().unwrap();
    });
}
