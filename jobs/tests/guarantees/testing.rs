//! What helps to test a program: a file that goes away, a run that a test makes, a clock that waits for
//! futures.

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use tickwheel_jobs::{
    CallError, Client, Fail, JobId, Jobs, Keep, Retry, Run, Schedule, StopReason, TestRun, rusqlite,
};

use super::support::*;

/// A temporary file is deleted with its last user. Until then the program's transactions work on it as on any
/// file.
#[test]
fn temporary_file_is_deleted_with_its_last_user() {
    let builder = Jobs::temporary().unwrap();
    let before = builder.file().map(ToOwned::to_owned);
    let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
    let client = jobs.client();
    let file = client.file().unwrap().to_owned();
    assert_eq!(before.as_ref(), Some(&file));
    let mut connection = rusqlite::Connection::open(&file).unwrap();
    let transaction = connection.transaction().unwrap();
    let id = jobs.insert_in(&transaction, HOUR, close(1)).unwrap();
    transaction.commit().unwrap();
    drop(connection);
    assert!(jobs.get(id).unwrap().is_some());
    assert!(Jobs::temporary().unwrap().client().unwrap().get(id).unwrap().is_none());
    jobs.shutdown().unwrap();
    assert!(file.exists());
    drop(client);
    assert!(!file.exists());
    assert!(!file.parent().unwrap().exists());
    assert_eq!(Jobs::memory().handle(|_: Close, _| Ok(())).manual().unwrap().0.file(), None);
}

/// P105: A path and the URL of its file lead to the same jobs.
#[test]
fn path_and_url_lead_to_the_same_jobs() {
    let (_folder, path) = file();
    let client = Jobs::connect(&path).unwrap().client().unwrap();
    client.insert(HOUR, close(1)).unwrap();
    for url in [format!("file:{}", path.display()), format!("file://{}", path.display())] {
        let same = Jobs::connect(url).unwrap().client().unwrap();
        assert_eq!(same.count().unwrap().pending, 1);
    }
}

/// A `TestRun` builds a run with the values that the test chose, and cancels it when the test calls `cancel`.
#[test]
fn test_run_has_the_values_that_the_test_chose() {
    fn handler(job: Close, run: &Run) -> Result<(), Fail> {
        if run.is_cancelled() {
            return Err(Fail::interrupted());
        }
        run.client().insert(HOUR, close(job.order + u64::from(run.attempt())))?;
        Ok(())
    }
    let (jobs, _driver) = Jobs::memory().handle(handler).manual().unwrap();
    let test = TestRun::new::<Close>(&jobs).attempt(3).key("order-7").late(SECOND).state(7_u8);
    let test = test.progress(&70_000);
    let (first, second) = (test.build(), test.build());
    assert!(first.fence() < second.fence());
    assert_eq!((first.kind(), first.attempt()), ("close-order", 3));
    assert_eq!((first.key(), first.late()), (Some("order-7"), SECOND));
    assert_eq!((first.state::<u8>().ok(), first.state::<u16>().ok()), (Some(&7), None));
    first.store_progress(&80_000).unwrap();
    assert_eq!(first.progress::<u32>().unwrap(), Some(70_000));
    assert!(first.progress::<String>().is_err());
    handler(close(7), &first).unwrap();
    let inserted: Vec<_> = jobs.pending().collect();
    assert_eq!(inserted.len(), 1);
    assert_eq!(inserted[0].job::<Close>().unwrap(), close(10));
    TestRun::cancel(&second, StopReason::Requested);
    assert_eq!(second.stop_reason(), Some(StopReason::Requested));
    handler(close(7), &second).unwrap_err();
    let told = test.cancelled(StopReason::Shutdown).build();
    assert_eq!(told.stop_reason(), Some(StopReason::Shutdown));
    assert_eq!(jobs.count().unwrap().pending, 1);
}

#[cfg(feature = "tokio")]
mod futures {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tickwheel_jobs::{Builder, Driver, Retry};

    use super::*;

    /// Jobs whose handler yields often, fails its first run, and inserts another job an hour later as long
    /// as its number is above zero.
    fn chained(
        builder: Builder,
        runtime: &tokio::runtime::Handle,
    ) -> (Jobs, Driver, Arc<AtomicU64>) {
        let ended = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ended);
        let (jobs, driver) = builder
            .retry(Retry::fixed(Duration::ZERO))
            .runtime(runtime.clone())
            .handle_async(move |job: Close, run| {
                let counted = Arc::clone(&counted);
                async move {
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    if run.attempt() == 1 {
                        return Err(Fail::after(Duration::ZERO, "once more"));
                    }
                    if job.order > 0 {
                        run.client().insert(HOUR, close(job.order - 1))?;
                    }
                    counted.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
            })
            .manual()
            .unwrap();
        (jobs, driver, ended)
    }

    /// `advance_async` returns once a chain of jobs whose handlers are futures has ended, on a runtime with
    /// one thread and on one with more.
    #[test]
    fn driver_waits_for_handlers_that_are_futures() {
        for runtime in [one_thread(), runtime(2)] {
            on_each_store(|builder| {
                let (jobs, driver, ended) = chained(builder, runtime.handle());
                jobs.insert(HOUR, close(5)).unwrap();
                // Five hours and the last one: each job runs twice.
                let runs = runtime.block_on(driver.advance_async(6 * HOUR));
                assert_eq!((runs, ended.load(Ordering::Relaxed)), (12, 6));
                assert_eq!(jobs.count().unwrap().pending, 0);
                jobs.check().unwrap();
            });
        }
    }

    /// After `wait_idle` the effects of all futures that were under way are there.
    #[test]
    fn driver_that_is_idle_has_no_future_under_way() {
        let runtime = runtime(2);
        on_each_store(|builder| {
            let (jobs, driver, _) = chained(builder, runtime.handle());
            jobs.insert(HOUR, close(0)).unwrap();
            driver.advance(HOUR);
            driver.wait_idle();
            runtime.block_on(driver.wait_idle_async());
            let left: Vec<_> = jobs.pending().map(|job| job.failures).collect();
            // The first run has failed; the second one, which was due at once, may have begun since.
            assert!(left == [1] || left.is_empty(), "{left:?}");
            driver.advance(Duration::ZERO);
            driver.wait_idle();
            assert_eq!(jobs.count().unwrap().pending, 0);
        });
    }
}

/// P33: On a manual clock a call and a wait on another thread go by that clock. They return the end of the job, or end
/// at their limit once the driver has moved the clock that far.
#[test]
fn wait_goes_by_the_clock_of_the_driver() {
    on_each_store(|builder| {
        let doubles = |job: Close, run: &Run| run.set_result(&(2 * job.order));
        let (jobs, driver) = builder.handle(doubles).manual().unwrap();
        let client = jobs.client();
        let caller = std::thread::spawn(move || client.call::<_, u64>(close(21), 24 * HOUR));
        while driver.advance(SECOND) == 0 {}
        assert_eq!(caller.join().unwrap(), Ok(42));
        let id = jobs.insert(10_000 * HOUR, close(1)).unwrap();
        let client = jobs.client();
        let waiter = std::thread::spawn(move || (client.wait(id, HOUR), client));
        // The limit is an hour of the manual clock, with any number of moves.
        while !waiter.is_finished() {
            driver.advance(60 * SECOND);
            pause(MS);
        }
        let (waited, client) = waiter.join().unwrap();
        assert_eq!(waited, Err(CallError::TimedOut(id)));
        assert_eq!(client.wait(id, Duration::ZERO), Err(CallError::TimedOut(id)), "it looks once");
        jobs.check().unwrap();
    });
}

/// P33: A wait that no driver can end is an error. In a handler for which the driver waits, it is an error at once.
/// Elsewhere the error comes when the clock has stood still for the limit of a call. So a test that calls on the thread
/// of its driver does not hang.
#[test]
fn wait_on_the_thread_of_the_driver_is_an_error() {
    on_each_store(|builder| {
        let waits = |job: Close, run: &Run| {
            let jobs = run.client();
            if job.order == 1 {
                assert_eq!(jobs.wait(run.id(), 24 * HOUR), Err(CallError::Refused));
                let kept = jobs.ended().next().expect("one has ended").id;
                assert_eq!(jobs.wait(kept, 24 * HOUR).map(|job| job.id), Ok(kept));
                assert_eq!(jobs.call::<_, ()>(close(2), 24 * HOUR), Err(CallError::Refused));
                assert_eq!(jobs.wait(run.id(), Duration::ZERO), Err(CallError::TimedOut(run.id())));
            }
            Ok(())
        };
        let builder = builder.call_timeout(SECOND / 5);
        let (jobs, driver) = builder.handle(waits).manual().unwrap();
        jobs.kind::<Close>().keep_completed(Keep::last(9)).unwrap();
        jobs.insert_batch([(Duration::ZERO, close(0)), (SECOND, close(1))]).unwrap();
        assert_eq!(driver.advance(SECOND), 2);
        assert_eq!((jobs.stats().failed, jobs.stats().completed), (0, 2));
        let called = jobs.call::<_, ()>(close(2), 24 * HOUR);
        let Err(CallError::ClockStands(id)) = called else { panic!("{called:?}") };
        assert_eq!(jobs.wait(id, 24 * HOUR), Err(CallError::ClockStands(id)));
        assert_eq!(driver.advance(SECOND), 1, "it was inserted");
        assert_eq!(jobs.wait(id, 24 * HOUR).map(|job| job.id), Ok(id));
    });
}

/// P33: In the same way a wait in a hook that the driver calls is an error at once.
#[test]
fn wait_in_a_hook_on_the_thread_of_the_driver_is_an_error() {
    on_each_store(|builder| {
        let (told, waited) = mpsc::channel();
        let shared: Arc<OnceLock<(Client, JobId)>> = Arc::default();
        let its = Arc::clone(&shared);
        let waits = move |hook: &str| {
            let (client, other) = its.get().expect("it was set before the clock moved");
            told.send((hook.to_owned(), client.wait(*other, 9 * HOUR).unwrap_err())).unwrap();
        };
        let (of_event, of_run) = (waits.clone(), waits);
        let builder = builder.call_timeout(Duration::MAX).retry(Retry::never());
        let builder = builder.on_event(move |_| of_event("event"));
        let builder = builder.on_run(move |run| {
            of_run(run.outcome.map_or("start", |_| "end"));
        });
        let handler = |_: Close, _: &Run| Err(Fail::dead("of the test"));
        let (jobs, driver) = builder.handle(handler).manual().unwrap();
        let other = jobs.insert(HOUR, close(2)).unwrap();
        let _ = shared.set((jobs.client(), other));
        jobs.insert(SECOND, close(1)).unwrap();
        assert_eq!(driver.advance(SECOND), 1);
        let refused = |hook: &str| (hook.to_owned(), CallError::Refused);
        let all: Vec<_> = waited.try_iter().collect();
        assert_eq!(all, ["start", "event", "end"].map(refused));
        // While an occurrence has not ended, its schedule skips the others, and an event reports that.
        jobs.schedule("hourly", Schedule::every(HOUR).without_overlap(), close(3)).unwrap();
        for _ in 0..2 {
            driver.set_wall(driver.wall_now() + 2 * HOUR);
        }
        let all: Vec<_> = waited.try_iter().collect();
        assert!(!all.is_empty() && all.iter().all(|it| *it == refused("event")), "{all:?}");
    });
}

/// P33: A wait ends even if the driver waits for a handler that waits for the waiter.
#[test]
fn wait_ends_although_a_handler_of_the_driver_waits_for_it() {
    on_each_store(|builder| {
        let (told, starts) = mpsc::channel();
        let (answers, answered) = mpsc::channel::<()>();
        let answered = Mutex::new(answered);
        let handler = move |_: Close, _: &Run| {
            told.send(()).unwrap();
            Ok(answered.lock().unwrap().recv_timeout(LONG)?)
        };
        let (jobs, driver) = builder.call_timeout(5 * MS).handle(handler).manual().unwrap();
        let id = jobs.insert(SECOND, close(1)).unwrap();
        let client = jobs.client();
        let drives = std::thread::spawn(move || driver.advance(SECOND));
        starts.recv_timeout(LONG).unwrap();
        assert_eq!(client.wait(id, HOUR), Err(CallError::ClockStands(id)));
        answers.send(()).unwrap();
        assert_eq!(drives.join().unwrap(), 1);
        assert_eq!(jobs.stats().completed, 1);
    });
}

/// P33: The same for futures, also if one thread has the future and the driver.
#[cfg(feature = "tokio")]
#[test]
fn future_waits_for_the_clock_of_the_driver() {
    let doubles = |job: Close, run: &Run| run.set_result(&(2 * job.order));
    let builder = Jobs::memory().call_timeout(SECOND / 5).handle(doubles);
    let (jobs, driver) = builder.manual().unwrap();
    let jobs = jobs.asynchronous();
    one_thread().block_on(async {
        let moves = async { driver.advance_async(SECOND).await };
        let (called, runs) = tokio::join!(jobs.call::<_, u64>(close(21), 24 * HOUR), moves);
        assert_eq!((called, runs), (Ok(42), 1));
        let called = jobs.call::<_, u64>(close(21), 24 * HOUR).await;
        assert!(matches!(called, Err(CallError::ClockStands(_))), "{called:?}");
    });
}

/// A test compares the result of a handler with the expected one in one line. A failure that `?` passes on stays what
/// it was.
#[test]
fn failures_of_handlers_can_be_compared() {
    fn handler(job: Close, _: &Run) -> Result<(), Fail> {
        match job.order {
            0 => Err(Fail::snooze(SECOND))?,
            1 => Err(Fail::after(SECOND, "busy"))?,
            2 => Err(std::io::Error::other("no such user"))?,
            _ => Err(Fail::dead("no such user"))?,
        }
    }
    let (jobs, _driver) = Jobs::memory().handle(handler).manual().unwrap();
    let run = TestRun::new::<Close>(&jobs).build();
    assert_eq!(handler(close(0), &run), Err(Fail::snooze(SECOND)));
    assert_eq!(handler(close(1), &run), Err(Fail::after(SECOND, "busy")));
    assert_eq!(handler(close(2), &run), Err(Fail::retry("no such user")));
    assert_eq!(handler(close(3), &run), Err(Fail::dead("no such user")));
    assert_ne!(handler(close(1), &run), Err(Fail::after(MS, "busy")));
    assert_ne!(handler(close(3), &run), Err(Fail::dead("no user")));
    assert_ne!(handler(close(3), &run), Err(Fail::retry("no such user")));
}
