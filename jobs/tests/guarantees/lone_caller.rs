//! A caller that is alone makes the step of its own call, and nobody notices anything but its speed.
//!
//! A point of the code (`hook`) runs a function of the thread that passes it, if the test has given that thread one. So
//! a test knows which steps a caller makes itself, and stops in the middle of one.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{
    Builder, CallError, Cancel, Client, Durability, Event, Fail, InsertErrorKind, Jobs, Retry,
    StoreError, hook,
};

use super::hooks::every_call_is_refused;
use super::support::*;
use super::together::callers_lose_nothing;

thread_local! {
    /// How many commits this thread has begun.
    static COMMITS: Cell<u64> = const { Cell::new(0) };
    /// The action of this thread before its next commit.
    static THEN: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    /// The same before its next wait for the end of a job.
    static BEFORE_WAIT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

fn at(point: &'static str) {
    if point == "before the commit" {
        COMMITS.set(COMMITS.get() + 1);
        if let Some(then) = THEN.take() {
            then();
        }
    }
    if point == "before a wait"
        && let Some(then) = BEFORE_WAIT.take()
    {
        then();
    }
}

/// P33: A wait on a manual clock misses no move of the clock, even one that comes while the wait begins.
#[test]
fn wait_that_begins_while_the_clock_moves_ends_at_its_limit() {
    hook::set(at);
    on_each_store(|builder| {
        let builder = builder.call_timeout(Duration::MAX).handle(|_: Close, _| Ok(()));
        let (jobs, driver) = builder.manual().unwrap();
        let id = jobs.insert(2 * HOUR, close(1)).unwrap();
        let (client, driver) = (jobs.client(), Arc::new(driver));
        let (told, ended) = mpsc::channel();
        let moves = Arc::clone(&driver);
        thread::spawn(move || {
            BEFORE_WAIT.set(Some(Box::new(move || assert_eq!(moves.advance(HOUR), 0))));
            let _ = told.send(client.wait(id, HOUR));
        });
        assert_eq!(ended.recv_timeout(LONG).unwrap(), Err(CallError::TimedOut(id)));
        drop(driver);
    });
}

/// P33: On a manual clock a wait looks once more before its error says that the clock stands. Another process may have
/// ended the job.
#[test]
fn wait_on_a_manual_clock_finds_the_end_of_another_process() {
    hook::set(at);
    let (_folder, path) = file();
    let builder = open(&path).call_timeout(50 * MS).handle(|_: Close, _| Ok(()));
    let (jobs, _driver) = builder.manual().unwrap();
    let other = client(&path);
    let id = jobs.insert(HOUR, close(1)).unwrap();
    BEFORE_WAIT.set(Some(Box::new(move || {
        let cancels = move || assert_eq!(other.cancel(id), Ok(Cancel::Cancelled));
        BEFORE_WAIT.set(Some(Box::new(cancels)));
    })));
    assert_eq!(jobs.wait(id, 9 * HOUR), Err(CallError::Gone(id)));
}

/// Returns how many commits this thread begins in `calls`.
fn own_commits(calls: impl FnOnce()) -> u64 {
    hook::set(at);
    let before = COMMITS.get();
    calls();
    COMMITS.get() - before
}

/// Calls until a call makes its own step, and does this in the middle of it. Returns what that call returned.
fn in_own_step<T>(then: impl FnOnce() + 'static, mut call: impl FnMut() -> T) -> T {
    hook::set(at);
    THEN.set(Some(Box::new(then)));
    // The dispatcher may be awake: then it makes the step.
    for _ in 0..10_000 {
        let answer = call();
        if THEN.with_borrow(Option::is_none) {
            return answer;
        }
        pause(MS);
    }
    panic!("no call makes its own step");
}

#[expect(clippy::disallowed_methods, reason = "a wait for another program takes real time")]
fn now() -> Instant {
    Instant::now()
}

/// P56: A caller that is alone makes most of its steps itself, at each durability. A future, a handler and a caller of
/// a large batch make none.
#[test]
fn caller_that_is_alone_makes_its_own_steps() {
    for durability in [Durability::Written, Durability::Synced, Durability::Buffered] {
        on_each_store(|builder| {
            let (own, made) = mpsc::channel();
            let jobs = builder
                .durability(durability)
                .handle(move |_: Close, run| {
                    let client = run.client();
                    let calls = || {
                        (0..20)
                            .for_each(|_| assert!(!client.cancel(run.id()).unwrap().is_cancelled()))
                    };
                    Ok(own.send(own_commits(calls))?)
                })
                .start()
                .unwrap();
            let id = jobs.insert(HOUR, close(1)).unwrap();
            let calls = || (0..200).for_each(|_| assert!(jobs.reschedule(id, HOUR).unwrap()));
            // The dispatcher wakes now and then, and makes a step that a caller waits for.
            let own = own_commits(calls);
            assert!(own > 100, "{own} of 200");
            jobs.insert(MS, close(2)).unwrap();
            assert_eq!(made.recv_timeout(LONG), Ok(0), "in a handler");
            let batch = || (0..100).map(|n| (HOUR, close(n)));
            let calls = || (0..20).for_each(|_| drop(jobs.insert_batch(batch()).unwrap()));
            assert_eq!(own_commits(calls), 0, "a large batch");
            let calls = || {
                (0..20).for_each(|n| {
                    assert_eq!(
                        one_thread()
                            .block_on(jobs.asynchronous().cancel(id))
                            .unwrap()
                            .is_cancelled(),
                        n == 0
                    )
                })
            };
            assert_eq!(own_commits(calls), 0, "a future");
            jobs.check().unwrap();
            jobs.shutdown().unwrap();
        });
    }
}

/// P56: No call overtakes an insert that its thread did not wait for.
#[test]
fn call_overtakes_no_insert_before_it() {
    on_each_store(|builder| {
        let builder = builder.durability(Durability::Buffered);
        let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
        for n in 0..3000 {
            let id = jobs.insert(HOUR, close(n)).unwrap();
            assert!(jobs.cancel(id).unwrap().is_cancelled(), "job {n} was not there yet");
            if n % 100 == 0 {
                // The next insert finds the dispatcher asleep.
                pause(MS);
            }
        }
        jobs.shutdown().unwrap();
    });
}

/// P56: The dispatcher sleeps, and a caller inserts a job that is due before it would wake: the job starts in time.
#[test]
fn job_of_a_lone_caller_starts_in_time() {
    on_each_store(|builder| {
        let (started, at_start) = mpsc::channel();
        let handler = move |_: Close, run: &tickwheel_jobs::Run| Ok(started.send(run.late())?);
        let jobs = builder.durability(Durability::Written).handle(handler).start().unwrap();
        let mut late: Vec<Duration> = (0..9)
            .map(|n| {
                pause(60 * MS);
                jobs.insert(120 * MS, close(n)).unwrap();
                at_start.recv_timeout(LONG).unwrap()
            })
            .collect();
        late.sort();
        // A lost wake-up costs most of a second each time. A loaded machine is late now and then.
        assert!(late[4] < 300 * MS, "{late:?}");
        jobs.shutdown().unwrap();
    });
}

/// P56: Work that comes while a caller makes its step is done after that step: calls of others, more inserts than the
/// channel has room for, ends of runs, and a job that becomes due.
#[test]
fn work_that_comes_during_a_step_of_a_caller_is_done() {
    on_each_store(|builder| {
        let (ran, at_run) = mpsc::channel();
        let jobs = builder
            .durability(Durability::Buffered)
            .handle(move |job: Close, _| Ok(ran.send(job.order)?))
            .start()
            .unwrap();
        let first = jobs.insert(HOUR, close(0)).unwrap();
        jobs.insert(300 * MS, close(1)).unwrap();
        let others = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (client, threads) = (jobs.client(), Arc::clone(&others));
        let during = move || {
            for thread in 0..2u64 {
                let client = client.clone();
                let inserts = move || {
                    for n in 0..4000 {
                        client.insert(HOUR, close(thread * 4000 + n)).unwrap();
                    }
                    client.flush().unwrap();
                };
                threads.lock().unwrap().push(thread::spawn(inserts));
            }
            // The channel has room for fewer inserts, and the job falls due.
            pause(400 * MS);
        };
        assert!(in_own_step(during, || jobs.reschedule(first, HOUR)).unwrap());
        assert_eq!(at_run.recv_timeout(LONG), Ok(1));
        for thread in core::mem::take(&mut *others.lock().unwrap()) {
            thread.join().unwrap();
        }
        wait_until("the run has ended", || jobs.count().unwrap().running == 0);
        assert_eq!(jobs.count().unwrap().pending, 8001);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P57: The jobs are shut down, or dropped, while a caller makes its step: the step ends first, and its job is there at
/// the next start. Calls that come later are refused.
#[test]
fn end_of_the_jobs_waits_for_the_step_of_a_caller() {
    for is_drop in [false, true] {
        on_stores(|store| {
            let builder = (store.open)().durability(Durability::Written);
            let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
            let client = jobs.client();
            let (ended, at_end) = mpsc::channel();
            let end = move || {
                let ending = thread::spawn(move || {
                    let answer = match is_drop {
                        true => {
                            drop(jobs);
                            Ok(())
                        }
                        false => jobs.shutdown(),
                    };
                    ended.send(answer).unwrap();
                });
                // The end of the jobs lies in the channel, if this was long enough.
                pause(100 * MS);
                drop(ending);
            };
            let mut inserted = 0;
            in_own_step(end, || {
                client.insert(HOUR, close(1)).unwrap();
                inserted += 1;
            });
            assert_eq!(at_end.recv_timeout(LONG), Ok(Ok(())));
            let refused = client.insert(HOUR, close(2)).unwrap_err();
            assert_eq!(*refused.kind(), InsertErrorKind::Closed);
            if store.keeps {
                let builder = (store.open)().handle(|_: Close, _| Ok(()));
                let (jobs, _driver) = builder.manual().unwrap();
                assert_eq!(jobs.count().unwrap().pending, inserted);
                jobs.check().unwrap();
            }
        });
    }
}

/// P57: A panic in the step of a caller ends the jobs as one of the dispatcher does: the caller does not unwind,
/// `on_event` is called, runs are cancelled, later calls are refused, and another program may lock the file.
#[test]
fn panic_in_the_step_of_a_caller_ends_the_jobs() {
    on_stores(|store| {
        let (told, events) = mpsc::channel();
        let (jobs, at_start) = ending_when_told(
            (store.open)()
                .durability(Durability::Written)
                .on_event(move |event| drop(told.send(event))),
        );
        jobs.insert(Duration::ZERO, close(1)).unwrap();
        at_start.recv_timeout(LONG).unwrap();
        let mut inserted = 1;
        let refused = in_own_step(
            || panic!("planted"),
            || {
                inserted += 1;
                jobs.insert(HOUR, close(2))
            },
        );
        // The panic came before the commit, so this one is not there.
        inserted -= 1;
        let refused = refused.unwrap_err();
        assert!(matches!(refused.kind(), InsertErrorKind::Unknown(_)), "{refused}");
        let event = events.recv_timeout(LONG).unwrap();
        assert!(matches!(event, Event::Stopped { error: StoreError::Other(_) }), "{event:?}");
        let why = jobs.cancel(tickwheel_jobs::JobId::new()).unwrap_err();
        assert!(matches!(&why, StoreError::Other(text) if text.contains("panicked")), "{why}");
        assert_eq!(jobs.shutdown(), Err(why));
        if store.keeps {
            let (jobs, _driver) = (store.open)().handle(|_: Close, _| Ok(())).manual().unwrap();
            assert_eq!(jobs.count().unwrap().pending, inserted);
            jobs.check().unwrap();
        }
    });
}

/// Starts jobs on a file whose callers wait for 300 ms. `on_event` sends whether it is on another thread, and whether
/// every call was refused there.
fn impatient(path: &std::path::Path) -> (Jobs, mpsc::Receiver<(bool, bool)>) {
    let slot: Arc<std::sync::Mutex<Option<Client>>> = Arc::default();
    let (told, events) = mpsc::channel();
    let (its, caller) = (Arc::clone(&slot), thread::current().id());
    let builder: Builder = open(path).durability(Durability::Written);
    let jobs = builder
        .call_timeout(300 * MS)
        .retry(Retry::never())
        .handle(|_: Close, _| Err(Fail::dead("no")))
        .on_event(move |_| {
            let Some(client) = its.lock().unwrap().clone() else { return };
            let elsewhere = thread::current().id() != caller;
            let _ = told.send((elsewhere, every_call_is_refused(&client)));
        })
        .start()
        .unwrap();
    *slot.lock().unwrap() = Some(jobs.client());
    (jobs, events)
}

/// P57: Another program holds the lock of the file: a caller that makes its own step waits until the limit of its call,
/// is refused, and a thread of the jobs calls `on_event`. The next call succeeds.
#[test]
fn step_of_a_caller_on_a_busy_file_ends_at_its_limit() {
    let (_folder, path) = file();
    let (jobs, events) = impatient(&path);
    let id = jobs.insert(HOUR, close(1)).unwrap();
    let (locked, at_lock) = mpsc::channel();
    let during = move || {
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        locked.send((other, now())).unwrap();
    };
    // Calls before the one that makes its own step are answered.
    let answer = in_own_step(during, || jobs.reschedule(id, HOUR));
    let (other, since) = at_lock.try_recv().unwrap();
    let waited = since.elapsed();
    assert_eq!(answer, Err(StoreError::Busy));
    assert!(waited >= 200 * MS, "{waited:?}");
    assert_eq!(events.recv_timeout(LONG), Ok((true, true)), "the commit failed");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(jobs.reschedule(id, HOUR), Ok(true));
    // The death of a job is an event on a thread of the jobs too, although its caller claimed it.
    jobs.insert(Duration::ZERO, close(2)).unwrap();
    assert_eq!(events.recv_timeout(LONG), Ok((true, true)), "a job is dead");
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}

/// P57: A shutdown that crosses the step of a caller on a busy file ends the wait of that step.
#[test]
fn shutdown_ends_the_wait_of_a_caller_on_a_busy_file() {
    let (_folder, path) = file();
    let builder = open(&path).durability(Durability::Written).call_timeout(LONG);
    let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
    let client = jobs.client();
    let id = jobs.insert(HOUR, close(1)).unwrap();
    let ((ended, at_end), (locked, at_lock)) = (mpsc::channel(), mpsc::channel());
    let during = move || {
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        locked.send(other).unwrap();
        thread::spawn(move || ended.send(jobs.shutdown_timeout(Duration::ZERO)));
    };
    let answer = in_own_step(during, || client.reschedule(id, HOUR));
    assert_eq!(answer, Err(StoreError::Busy));
    at_end.recv_timeout(LONG).unwrap().unwrap();
    drop(at_lock.try_recv().unwrap());
}

/// P56: Callers come and go: alone, by twos and threes, beside futures and runs. Nothing is lost, and nothing is done
/// twice.
#[test]
fn callers_that_come_and_go_lose_nothing() {
    callers_lose_nothing(3, 400, |jobs, thread, n| {
        if n.is_multiple_of(16) {
            pause(u32::try_from(thread + 1).unwrap() * MS);
        }
        let delay = u32::try_from(n % 5).unwrap() * 20 * MS;
        match n % 7 {
            0 => one_thread().block_on(jobs.asynchronous().insert(delay, close(n))).unwrap(),
            _ => jobs.insert(delay, close(n)).unwrap(),
        }
    });
}
