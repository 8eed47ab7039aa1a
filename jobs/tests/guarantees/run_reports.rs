//! What `on_run` promises: each start and each end of a run, once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use tickwheel_jobs::{
    Buckets, Builder, Client, Fail, Fence, Job, JobByHand, JobId, JobState, Jobs, Outcome, Retry,
    Run, RunReport, StoreError,
};

use super::hooks::every_call_is_refused;
use super::support::*;

/// Notes every report.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<RunReport>>>);

impl Reports {
    pub(crate) fn on(&self, builder: Builder) -> Builder {
        let noted = Arc::clone(&self.0);
        builder.on_run(move |run| noted.lock().unwrap().push(run.clone()))
    }

    pub(crate) fn get(&self) -> Vec<RunReport> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the reports of the ends.
    pub(crate) fn ends(&self) -> Vec<RunReport> {
        self.get().into_iter().filter(|run| run.outcome.is_some()).collect()
    }

    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        self.get().into_iter().filter_map(|run| run.outcome).collect()
    }

    /// Each run has one start, and after it one end.
    pub(crate) fn check(&self) {
        let mut under_way: HashMap<(JobId, Fence), bool> = HashMap::new();
        for run in self.get() {
            match run.outcome {
                None => {
                    assert!(run.took.is_none() && run.error.is_none(), "{run:?}");
                    assert_eq!(under_way.insert((run.id, run.fence), true), None, "{run:?}");
                }
                Some(_) => {
                    assert!(run.took.is_some(), "{run:?}");
                    assert_eq!(under_way.insert((run.id, run.fence), false), Some(true), "{run:?}");
                }
            }
        }
        assert!(under_way.values().all(|is_under_way| !is_under_way), "{under_way:?}");
    }
}

/// P50: The end says how the run ended and why, and both reports say of which job and which attempt: also of a job that
/// does not decode.
#[test]
fn run_reports_say_which_job_and_how_it_ended() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let slot = Arc::new(OnceLock::<Client>::new());
        let inside = Arc::clone(&slot);
        let (jobs, driver) = reports
            .on(builder)
            .retry(Retry::fixed(HOUR).max_retries(1))
            .handle(move |job: Close, run| match job.order {
                1 => Ok(()),
                2 => Err(Fail::retry("busy")),
                3 => Err(Fail::snooze(24 * HOUR)),
                4 => Err(Fail::dead("never")),
                5 => {
                    let _ = inside.get().unwrap().cancel(run.id()).unwrap();
                    Err(Fail::retry("stopped"))
                }
                6 => panic!("a wrong turn"),
                // It was not asked to stop.
                _ => Err(Fail::interrupted()),
            })
            .manual()
            .unwrap();
        slot.set(jobs.client()).unwrap();
        let due = driver.wall_now() + SECOND;
        let id = jobs.keyed("order-1").insert(SECOND, close(1)).unwrap();
        for order in 2..=7 {
            jobs.insert(order as u32 * SECOND, close(order)).unwrap();
        }
        jobs.insert_by_hand(8 * SECOND, JobByHand::new(Close::KIND, *b"8")).unwrap();
        driver.advance(2 * HOUR);
        reports.check();
        let first = &reports.get()[..2];
        for run in first {
            assert_eq!((run.id, &*run.kind, run.due, run.attempt), (id, "close-order", due, 1));
            assert_eq!((run.key.as_deref(), run.late), (Some("order-1"), Duration::ZERO));
        }
        assert_eq!(
            (first[1].took, first[1].outcome),
            (Some(Duration::ZERO), Some(Outcome::Completed))
        );
        let ends = reports.ends();
        let end = |run: &RunReport| {
            (run.attempt, run.outcome.unwrap(), run.error.clone().unwrap_or_default())
        };
        let mut found: Vec<_> = ends.iter().map(end).collect();
        let (_, outcome, error) = found.remove(7);
        assert_eq!((outcome, error.contains("does not decode")), (Outcome::Dead, true));
        let expected = [
            (1, Outcome::Completed, ""),
            (1, Outcome::Retried, "busy"),
            (1, Outcome::Snoozed, ""),
            (1, Outcome::Dead, "never"),
            (1, Outcome::Cancelled, "stopped"),
            (1, Outcome::Retried, "panicked: a wrong turn"),
            (1, Outcome::Retried, "the run was told to stop"),
            (2, Outcome::Dead, "busy"),
            (2, Outcome::Dead, "panicked: a wrong turn"),
            (2, Outcome::Dead, "the run was told to stop"),
        ];
        let expected =
            expected.map(|(attempt, outcome, error)| (attempt, outcome, error.to_owned()));
        assert_eq!(found, expected);
        // The counters agree.
        let stats = jobs.stats();
        let [of_kind] = &stats.kinds[..] else { panic!("{stats:?}") };
        for outcome in Outcome::ALL {
            let many = reports.outcomes().iter().filter(|its| *its == outcome).count();
            assert_eq!(of_kind.ended(*outcome).count(), many as u64, "{outcome}");
        }
        assert_eq!((of_kind.lateness.count, of_kind.run_time.count), (11, 11));
    });
}

/// P50: The start is reported before the handler is called, on its thread.
#[test]
fn run_start_is_reported_on_the_thread_of_the_handler_before_it() {
    on_each_store(|builder| {
        let (said, heard) = mpsc::channel();
        let (hook, handler) = (said.clone(), said);
        let jobs = builder
            .on_run(move |run| {
                let what = if run.outcome.is_none() { "start" } else { "end" };
                let _ = hook.send((what, std::thread::current().id()));
            })
            .handle(move |_: Close, _| {
                let _ = handler.send(("handler", std::thread::current().id()));
                Ok(())
            })
            .start()
            .unwrap();
        for order in 0..20 {
            jobs.insert(MS, close(order)).unwrap();
            let seen: [_; 3] = core::array::from_fn(|_| heard.recv_timeout(LONG).unwrap());
            assert_eq!(seen.map(|(what, _)| what), ["start", "handler", "end"]);
            assert_eq!(seen[0].1, seen[1].1);
            assert_ne!(seen[1].1, seen[2].1);
        }
    });
}

/// P50: The end is reported after the commit that ends the run. So a thread that hears of the end finds the job gone,
/// or changed.
#[test]
fn run_end_is_reported_after_its_commit() {
    on_each_store(|builder| {
        let (said, heard) = mpsc::channel();
        let jobs = builder
            .retry(Retry::fixed(HOUR))
            .handle(|job: Close, _| if job.order.is_multiple_of(2) { Ok(()) } else { Err("no")? })
            .on_run(move |run| {
                if run.outcome.is_some() {
                    let _ = said.send(run.id);
                }
            })
            .start()
            .unwrap();
        for order in 0..200 {
            jobs.insert(Duration::ZERO, close(order)).unwrap();
            let found = jobs.get(heard.recv_timeout(LONG).unwrap()).unwrap();
            let retried = (order % 2 == 1).then_some((1, JobState::Pending));
            assert_eq!(found.map(|job| (job.failures, job.state)), retried);
        }
    });
}

/// P22, P51: Every start has one end, also if a shutdown reaches its limit, and returns the number of runs that are
/// still under way, or if the jobs are dropped.
#[test]
fn run_that_a_shutdown_leaves_behind_is_reported_as_interrupted_once() {
    for is_dropped in [false, true] {
        on_each_store(|builder| {
            let reports = Reports::default();
            let (started, at_start) = mpsc::channel();
            let release = Arc::new(AtomicBool::new(false));
            let released = Arc::clone(&release);
            let (ended, at_end) = mpsc::channel();
            let jobs = reports
                .on(builder)
                .threads(2)
                .handle(move |job: Close, _| {
                    started.send(job.order).unwrap();
                    if job.order < 100 {
                        wait_until("it is released", || released.load(Ordering::SeqCst));
                        let _ = ended.send(());
                    }
                    Ok(())
                })
                .start()
                .unwrap();
            jobs.insert(Duration::ZERO, close(100)).unwrap();
            assert_eq!(at_start.recv_timeout(LONG), Ok(100));
            wait_until("it is done", || reports.outcomes() == [Outcome::Completed]);
            jobs.insert_batch([(Duration::ZERO, close(1)), (Duration::ZERO, close(2))]).unwrap();
            at_start.recv_timeout(LONG).unwrap();
            at_start.recv_timeout(LONG).unwrap();
            match is_dropped {
                true => drop(jobs),
                false => assert_eq!(jobs.shutdown_timeout(MS), Err(StoreError::StillRunning(2))),
            }
            wait_until("the ends are reported", || reports.ends().len() == 3);
            reports.check();
            assert_eq!(reports.outcomes()[1..], [Outcome::Interrupted; 2]);
            release.store(true, Ordering::SeqCst);
            at_end.recv_timeout(LONG).unwrap();
            at_end.recv_timeout(LONG).unwrap();
            pause(20 * MS);
            reports.check();
        });
    }
}

/// P51: A run that a shutdown waits for is reported as it ended, before the shutdown returns. A handler that gives up
/// then has not failed, also if its run has a time limit: it is interrupted.
#[test]
fn run_that_a_shutdown_waits_for_is_reported_as_it_ended() {
    type Case = (Option<Duration>, fn() -> Result<(), Fail>, Outcome);
    let cases: [Case; 3] = [
        (None, || Ok(()), Outcome::Completed),
        (None, || Err(Fail::interrupted()), Outcome::Interrupted),
        (Some(24 * HOUR), || Err(Fail::interrupted()), Outcome::Interrupted),
    ];
    for (limit, answer, outcome) in cases {
        on_each_store(|builder| {
            let reports = Reports::default();
            let (started, at_start) = mpsc::channel();
            let builder = match limit {
                Some(limit) => builder.time_limit::<Close>(limit),
                None => builder,
            };
            let handler = move |_: Close, run: &Run| {
                started.send(())?;
                wait_until("the shutdown has begun", || run.is_cancelled());
                answer()
            };
            let jobs = reports.on(builder).handle(handler).start().unwrap();
            jobs.insert(MS, close(1)).unwrap();
            at_start.recv_timeout(LONG).unwrap();
            jobs.shutdown_timeout(LONG).unwrap();
            reports.check();
            assert_eq!(reports.outcomes(), [outcome], "a limit of {limit:?}");
            assert_eq!(reports.ends()[0].error, None);
        });
    }
}

/// P51: Jobs that are dropped in a handler on a manual clock report the end of its run too.
#[test]
fn run_that_drops_its_jobs_is_reported_as_interrupted() {
    on_each_store(|builder| {
        let reports = Reports::default();
        let slot: Arc<Mutex<Option<Jobs>>> = Arc::default();
        let inside = Arc::clone(&slot);
        let (jobs, driver) = reports
            .on(builder)
            .handle(move |_: Close, _| {
                drop(inside.lock().unwrap().take());
                Ok(())
            })
            .manual()
            .unwrap();
        jobs.insert(MS, close(1)).unwrap();
        *slot.lock().unwrap() = Some(jobs);
        driver.advance(SECOND);
        reports.check();
        assert_eq!(reports.outcomes(), [Outcome::Interrupted]);
    });
}

/// P50: An end that is known while the start is still being reported is reported after the start.
#[test]
fn run_end_never_overtakes_its_start() {
    on_each_store(|builder| {
        let (said, heard) = mpsc::channel();
        let release = Arc::new(AtomicBool::new(false));
        let released = Arc::clone(&release);
        let jobs = builder
            .handle(|_: Close, _| Ok(()))
            .on_run(move |run| {
                let _ = said.send(run.outcome);
                if run.outcome.is_none() {
                    wait_until("it is released", || released.load(Ordering::SeqCst));
                    let _ = said.send(None);
                }
            })
            .start()
            .unwrap();
        jobs.insert(MS, close(1)).unwrap();
        assert_eq!(heard.recv_timeout(LONG), Ok(None));
        assert!(jobs.shutdown_timeout(MS).is_err());
        assert!(heard.try_recv().is_err());
        release.store(true, Ordering::SeqCst);
        assert_eq!(heard.recv_timeout(LONG), Ok(None));
        assert_eq!(heard.recv_timeout(LONG), Ok(Some(Outcome::Interrupted)));
        // The hook is dropped when the last run has ended: no other report follows.
        assert_eq!(heard.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    });
}

/// A value whose drop panics.
struct PanicsTwice;

impl Drop for PanicsTwice {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in the drop of a panic");
        }
    }
}

/// P50: A panic of `on_run` harms nothing, that of the start neither: the run goes on, and its end is recorded.
#[test]
fn on_run_that_panics_harms_nothing() {
    on_each_store(|builder| {
        let jobs = builder
            .handle(|_: Close, _| Ok(()))
            .on_run(|_| std::panic::panic_any(PanicsTwice))
            .start()
            .unwrap();
        let client = jobs.client();
        jobs.insert_batch((0..20).map(|order| (MS, close(order)))).unwrap();
        wait_until("all are gone", || {
            let counts = jobs.count().unwrap();
            counts.pending + counts.running == 0
        });
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
        assert_eq!(client.stats().completed, 20);
    });
}

/// P58: At the start `on_run` may make any call. At the end a call that would wait is refused, and a nudge is not.
#[test]
fn on_run_may_call_at_the_start_and_is_refused_at_the_end() {
    on_each_store(|builder| {
        let slot = Arc::new(OnceLock::<Client>::new());
        let inside = Arc::clone(&slot);
        let (said, heard) = mpsc::channel();
        let jobs = builder
            .handle(|_: Close, _| Ok(()))
            .on_run(move |run| {
                let client = inside.get().unwrap();
                client.nudge();
                let _ = said.send(match run.outcome {
                    None => client.insert(HOUR, close(1)).is_ok() && client.check().is_ok(),
                    Some(_) => every_call_is_refused(client),
                });
            })
            .start()
            .unwrap();
        slot.set(jobs.client()).unwrap();
        jobs.insert(MS, close(1)).unwrap();
        assert_eq!(heard.recv_timeout(LONG), Ok(true));
        assert_eq!(heard.recv_timeout(LONG), Ok(true));
        jobs.shutdown().unwrap();
    });
}

/// P58: A shutdown in `on_run` at the start does not wait for the run.
#[test]
fn shutdown_in_on_run_at_the_start_does_not_wait_for_the_run() {
    on_each_store(|builder| {
        let slot: Arc<Mutex<Option<Jobs>>> = Arc::default();
        let inside = Arc::clone(&slot);
        let (said, heard) = mpsc::channel();
        let jobs = builder
            .handle(|_: Close, _| Ok(()))
            .on_run(move |run| {
                let _ = said.send(run.outcome);
                if run.outcome.is_none() {
                    wait_until("the jobs are there", || inside.lock().unwrap().is_some());
                    let jobs = inside.lock().unwrap().take().unwrap();
                    assert!(jobs.shutdown().is_err());
                }
            })
            .start()
            .unwrap();
        jobs.insert(MS, close(1)).unwrap();
        *slot.lock().unwrap() = Some(jobs);
        assert_eq!(heard.recv_timeout(LONG), Ok(None));
        assert_eq!(heard.recv_timeout(LONG), Ok(Some(Outcome::Interrupted)));
    });
}

/// P87: The lateness and the run times of a kind are counted under the exact bounds, in the kind's own counters.
#[test]
fn stats_have_lateness_and_run_times_of_each_kind() {
    on_each_store(|builder| {
        let slot = Arc::new(OnceLock::<tickwheel_jobs::Driver>::new());
        let inside = Arc::clone(&slot);
        let (jobs, driver) = builder
            .retry(Retry::never())
            .handle(move |job: Close, _| {
                // The run takes as many milliseconds as its order says.
                inside.get().unwrap().advance(job.order as u32 * MS);
                Ok(())
            })
            .handle(|_: Push, _| Err(Fail::dead("no")))
            .manual()
            .unwrap();
        slot.set(driver).unwrap();
        let driver = slot.get().unwrap();
        assert!(jobs.stats().kinds.is_empty());
        jobs.insert(SECOND, close(5)).unwrap();
        driver.advance(HOUR);
        // It starts 5 ms late.
        jobs.insert(driver.wall_now() - 5 * MS, close(6)).unwrap();
        driver.advance(HOUR);
        jobs.insert(SECOND, Push { to: "ann".to_owned() }).unwrap();
        driver.advance(HOUR);
        let stats = jobs.stats();
        let [of_close, of_push] = &stats.kinds[..] else { panic!("{stats:?}") };
        assert_eq!((&*of_close.kind, &*of_push.kind), ("close-order", "push"));
        assert_eq!((of_close.lateness.count, of_close.lateness_buckets.count()), (2, 2));
        // Up to 1, 2, 5 and 10 ms.
        assert_eq!(of_close.lateness_buckets.counts[..4], [1, 0, 1, 0]);
        let times: &Buckets = of_close.ended(Outcome::Completed);
        assert_eq!((times.count(), of_close.run_time.count), (2, 2));
        assert_eq!(times.counts[..4], [0, 0, 1, 1]);
        assert_eq!(times.sum, of_close.run_time.sum);
        assert_eq!(of_push.ended(Outcome::Dead).counts[0], 1);
        assert_eq!(of_push.ended(Outcome::Completed).count(), 0);
    });
}
