//! What `time_limit` promises: a signal at the limit, and a failure after the grace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use tickwheel_jobs::{
    Builder, Cancel, Client, Driver, Event, Fail, JobState, Jobs, Outcome, Retry, Run, StopReason,
};

use super::run_reports::Reports;
use super::support::*;

const LIMIT: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(2);

/// Jobs on a manual clock, whose handler gets the driver, so that time passes in its run.
fn manual(
    builder: Builder,
    handler: impl Fn(Close, &Run, &Driver, &Client) -> Result<(), Fail> + Send + Sync + 'static,
) -> (Jobs, Arc<OnceLock<(Driver, Client)>>) {
    let slot = Arc::new(OnceLock::<(Driver, Client)>::new());
    let inside = Arc::clone(&slot);
    let (jobs, driver) = builder
        .time_limit::<Close>(LIMIT)
        .lease(GRACE)
        .retry(Retry::fixed(HOUR))
        .handle(move |job: Close, run| {
            let (driver, client) = inside.get().unwrap();
            handler(job, run, driver, client)
        })
        .manual()
        .unwrap();
    assert!(slot.set((driver, jobs.client())).is_ok());
    (jobs, slot)
}

/// P35: At the limit the run is cancelled, and not before. The limit counts from the start of the run: on a file the
/// claim comes 50 ms earlier, and here the due time comes a minute earlier.
#[test]
fn time_limit_cancels_the_run_that_long_after_its_start() {
    on_each_store(|builder| {
        let (jobs, slot) = manual(builder, |_, run, driver, _| {
            driver.advance(LIMIT - MS);
            assert_eq!(run.stop_reason(), None);
            driver.advance(MS);
            assert!(run.is_cancelled());
            assert_eq!(run.stop_reason(), Some(StopReason::TimeLimit));
            Ok(())
        });
        let driver = &slot.get().unwrap().0;
        jobs.insert(SECOND, close(1)).unwrap();
        driver.advance(HOUR);
        jobs.insert(driver.wall_now() - 60 * SECOND, close(2)).unwrap();
        driver.advance(HOUR);
        // The ends count, because they came within the grace.
        assert_eq!((jobs.stats().completed, jobs.count().unwrap().pending), (2, 0));
        jobs.check().unwrap();
    });
}

/// P35: After the limit and the grace the run has failed, and its job waits for a retry. Before that it is running.
/// The run occupies its slot until its handler returns, and that end is refused.
#[test]
fn run_past_its_limit_and_grace_has_failed_and_its_end_is_refused() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let events = Arc::new(std::sync::Mutex::new(Vec::new()));
        let emitted = Arc::clone(&events);
        let builder =
            reports.on(builder).on_event(move |event| emitted.lock().unwrap().push(event));
        let (jobs, slot) = manual(builder, |_, run, driver, client| {
            if run.attempt() > 1 {
                return Ok(());
            }
            driver.advance(LIMIT + GRACE - MS);
            let seen = || client.get(run.id()).unwrap().map(|job| (job.state, job.failures));
            assert_eq!(seen(), Some((JobState::Running, 0)));
            assert_eq!(client.stats().in_flight, 1);
            driver.advance(MS);
            assert_eq!(seen(), Some((JobState::Pending, 1)));
            assert_eq!(client.stats().in_flight, 1);
            driver.advance(SECOND);
            assert_eq!((client.stats().in_flight, client.stats().failed), (1, 1));
            assert_eq!(run.stop_reason(), Some(StopReason::TimeLimit));
            Err(Fail::dead("too late"))
        });
        let driver = &slot.get().unwrap().0;
        let id = jobs.insert(SECOND, close(1)).unwrap();
        driver.advance(SECOND);
        assert_eq!(jobs.stats().in_flight, 0);
        let job = jobs.get(id).unwrap().unwrap();
        let error = "took longer than 5s";
        assert_eq!((job.state, job.failures, job.attempt), (JobState::Pending, 1, 1));
        assert_eq!(job.error.as_deref(), Some(error));
        let events = core::mem::take(&mut *events.lock().unwrap());
        assert!(
            matches!(&events[..], [Event::Failed { error: its, .. }] if its == error),
            "{events:?}"
        );
        reports.check();
        let end = &reports.ends()[0];
        assert_eq!((end.outcome, end.error.as_deref()), (Some(Outcome::Retried), Some(error)));
        assert_eq!(end.took, Some(LIMIT + GRACE));
        // It is retried by its policy.
        driver.advance(2 * HOUR);
        assert_eq!(jobs.get(id).unwrap(), None);
        assert_eq!(reports.outcomes(), [Outcome::Retried, Outcome::Completed]);
        assert_eq!((jobs.stats().failed, jobs.stats().completed), (1, 1));
        reports.check();
        jobs.check().unwrap();
    });
}

/// P35: Its policy may retry the job beside the run that was given up. The second run has a greater fence, and only its
/// end counts.
#[test]
fn retry_beside_a_run_past_its_limit_has_a_greater_fence() {
    on_each_store(|builder| {
        let fences = Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = Arc::clone(&fences);
        let (jobs, slot) = manual(builder, move |_, run, driver, _| {
            noted.lock().unwrap().push(run.fence());
            if run.attempt() == 1 {
                assert_eq!(driver.advance(LIMIT + GRACE + HOUR), 1);
                return Err(Fail::dead("too late"));
            }
            Ok(())
        });
        let driver = &slot.get().unwrap().0;
        let id = jobs.keyed("import").insert(SECOND, close(1)).unwrap();
        driver.advance(SECOND);
        let fences = fences.lock().unwrap().clone();
        assert!(fences.len() == 2 && fences.is_sorted(), "{fences:?}");
        assert_eq!((jobs.get(id).unwrap(), jobs.count().unwrap().dead), (None, 0));
        assert_eq!(jobs.stats().in_flight, 0);
        jobs.check().unwrap();
    });
}

/// P35: A handler that gives up at its limit has failed: else its job would run again at once, and never end. A job
/// that was cancelled is gone in any case.
#[test]
fn handler_that_gives_up_at_its_limit_has_failed() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let log = Log::default();
        let (jobs, slot) = manual(reports.on(builder), move |job, run, driver, client| {
            log.add(job.order);
            assert!(log.get().len() <= 2, "it ran again at once");
            driver.advance(LIMIT);
            if job.order == 2 {
                assert_eq!(client.cancel(run.id()).unwrap(), Cancel::Running);
                assert_eq!(run.stop_reason(), Some(StopReason::TimeLimit));
            }
            Err(Fail::interrupted())
        });
        let driver = &slot.get().unwrap().0;
        let id = jobs.insert(SECOND, close(1)).unwrap();
        driver.advance(SECOND);
        let job = jobs.get(id).unwrap().unwrap();
        assert_eq!((job.state, job.failures), (JobState::Pending, 1));
        assert_eq!(job.error.as_deref(), Some("took longer than 5s"));
        let cancelled = jobs.insert(SECOND, close(2)).unwrap();
        driver.advance(SECOND);
        assert_eq!(jobs.get(cancelled).unwrap(), None);
        assert_eq!(reports.outcomes(), [Outcome::Retried, Outcome::Cancelled]);
        reports.check();
        jobs.check().unwrap();
    });
}

/// P35: A job that was cancelled is gone after the grace, and is not retried.
#[test]
fn cancelled_job_past_its_limit_is_gone() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let (jobs, slot) = manual(reports.on(builder), |_, run, driver, client| {
            assert_eq!(client.cancel(run.id()).unwrap(), Cancel::Running);
            driver.advance(LIMIT + GRACE);
            assert_eq!(client.get(run.id()).unwrap(), None);
            Ok(())
        });
        jobs.insert(SECOND, close(1)).unwrap();
        slot.get().unwrap().0.advance(SECOND);
        assert_eq!(reports.outcomes(), [Outcome::Cancelled]);
        reports.check();
        jobs.check().unwrap();
    });
}

/// P35: In real time too, and without an end of the handler: the job has failed while its handler goes on. Its own end
/// is refused.
#[test]
fn time_limit_in_real_time_ends_a_run_whose_handler_goes_on() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let release = Arc::new(AtomicBool::new(false));
        let released = Arc::clone(&release);
        let (told, at_limit) = mpsc::channel();
        let jobs = reports
            .on(builder)
            .time_limit::<Close>(20 * MS)
            .lease(30 * MS)
            .retry(Retry::fixed(HOUR))
            .handle(move |_: Close, run| {
                wait_until("the run is told", || run.is_cancelled());
                told.send(run.stop_reason()).unwrap();
                wait_until("it is released", || released.load(Ordering::SeqCst));
                Ok(())
            })
            .start()
            .unwrap();
        let id = jobs.insert(Duration::ZERO, close(1)).unwrap();
        assert_eq!(at_limit.recv_timeout(LONG), Ok(Some(StopReason::TimeLimit)));
        let failed = || jobs.get(id).unwrap().is_some_and(|job| job.failures == 1);
        wait_until("the run has failed", failed);
        wait_until("that is reported", || reports.outcomes() == [Outcome::Retried]);
        assert!(reports.ends()[0].took >= Some(50 * MS));
        assert_eq!(jobs.stats().in_flight, 1);
        release.store(true, Ordering::SeqCst);
        wait_until("the slot is free", || jobs.stats().in_flight == 0);
        let job = jobs.get(id).unwrap().unwrap();
        assert_eq!((job.state, job.failures), (JobState::Pending, 1));
        assert_eq!((jobs.stats().completed, jobs.stats().failed), (0, 1));
        reports.check();
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
        reports.check();
    });
}

/// P35: The start refuses a limit of zero, and a limit for a kind without a handler.
#[test]
fn time_limit_of_zero_or_without_a_handler_is_refused() {
    on_each_store(|builder| {
        let handled = builder.handle(|_: Close, _| Ok(()));
        let reason = config_error(handled.time_limit::<Close>(Duration::ZERO));
        assert!(reason.starts_with("time_limit(0)") && reason.contains("close-order"), "{reason}");
    });
    on_each_store(|builder| {
        let handled = builder.handle(|_: Close, _| Ok(()));
        let reason = config_error(handled.time_limit::<Push>(SECOND));
        assert!(reason.contains("no handler") && reason.contains("push"), "{reason}");
    });
    on_each_store(|builder| {
        // Never reached, and no overflow.
        let handled = builder.handle(|_: Close, _| Ok(())).time_limit::<Close>(Duration::MAX);
        let (jobs, driver) = handled.manual().unwrap();
        jobs.insert(SECOND, close(1)).unwrap();
        assert_eq!(driver.advance(HOUR), 1);
    });
}

/// P35: The limit wakes a handler that awaits [`Run::cancelled`], on the manual clock and in real time.
#[cfg(feature = "tokio")]
#[test]
fn time_limit_wakes_a_future_that_waits_for_it() {
    let runtime = runtime(1);
    let waits = |_: Close, run: Run| async move {
        run.cancelled().await;
        assert_eq!(run.stop_reason(), Some(StopReason::TimeLimit));
        Err(Fail::dead("over"))
    };
    on_each_store(|builder| {
        let builder = builder.runtime(runtime.handle().clone()).time_limit::<Close>(LIMIT);
        let (jobs, driver) = builder.handle_async(waits).manual().unwrap();
        jobs.insert(SECOND, close(1)).unwrap();
        driver.advance(SECOND);
        driver.advance(LIMIT - MS);
        assert_eq!(jobs.stats().died, 0);
        driver.advance(MS);
        driver.wait_idle();
        assert_eq!(jobs.stats().died, 1);
        jobs.check().unwrap();
    });
    on_each_store(|builder| {
        let builder = builder.runtime(runtime.handle().clone()).time_limit::<Close>(20 * MS);
        let jobs = builder.handle_async(waits).start().unwrap();
        jobs.insert(Duration::ZERO, close(1)).unwrap();
        wait_until("it is dead", || jobs.stats().died == 1);
        jobs.shutdown().unwrap();
    });
}
