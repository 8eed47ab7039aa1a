//! The history and the metrics of a queue against a list of what happened.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, Cancel, Driver, Fail, HistoryEntry, Job, JobId, Jobs, Keep, Retry, Run, Step,
};

use super::{DAY, HOUR, LONG, MINUTE, MS, Mail, SECOND, metrics};
use crate::support::on_stores;

/// How a run ends.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Well,
    /// Fails each time: it is retried once.
    Fails,
    Dies,
    /// Snoozes once, and then ends well.
    Snoozes,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Order(Ends);

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Push(Ends);

impl Job for Order {
    const KIND: &'static str = "order";
}

impl Job for Push {
    const KIND: &'static str = "push";
}

/// In the order of the fields of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Inserted,
    Completed,
    Retried,
    Snoozed,
    Dead,
    Cancelled,
}

type Counts = [u64; 7];

/// When something happened, to which kind, and what.
type Event = (SystemTime, &'static str, What);

/// Everything that happened, and the jobs that have failed once.
#[derive(Clone, Default)]
pub(super) struct Happened(pub(super) Arc<Mutex<Vec<Event>>>, Arc<Mutex<HashSet<JobId>>>);

fn counts(entry: &HistoryEntry) -> Counts {
    [
        entry.inserted,
        entry.completed,
        entry.retried,
        entry.snoozed,
        entry.dead,
        entry.cancelled,
        entry.interrupted,
    ]
}

/// Adds up what happened to a kind, or to all, by steps.
fn expected(happened: &Happened, kind: Option<&str>, step: Step) -> BTreeMap<u64, Counts> {
    let mut sums = BTreeMap::new();
    for (at, of, what) in &*happened.0.lock().unwrap() {
        if kind.is_none_or(|kind| kind == *of) {
            let at = at.duration_since(UNIX_EPOCH).unwrap().as_secs() / step.length().as_secs();
            let sum: &mut Counts = sums.entry(at).or_default();
            sum[*what as usize] += 1;
        }
    }
    sums
}

fn found(entries: Vec<HistoryEntry>, step: Step) -> BTreeMap<u64, Counts> {
    let at = |entry: &HistoryEntry| {
        let begin = entry.begin.duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(begin.as_nanos() % step.length().as_nanos(), 0, "{entry:?}");
        begin.as_secs() / step.length().as_secs()
    };
    let counted = entries.len();
    let sums: BTreeMap<u64, Counts> =
        entries.iter().map(|entry| (at(entry), counts(entry))).collect();
    assert_eq!(sums.len(), counted, "each minute or hour once");
    for entry in &entries {
        let runs = entry.completed + entry.retried + entry.snoozed + entry.dead;
        assert!(entry.runs() >= runs, "each of these is a run: {entry:?}");
        assert_eq!(entry.lateness.iter().sum::<u64>(), entry.runs());
    }
    sums
}

fn handle(ends: Ends, kind: &'static str, run: &Run, happened: &Happened) -> Result<(), Fail> {
    // The manual clock stands still until the end of the run is committed.
    let at = run.due() + run.late();
    let mut failed = happened.1.lock().unwrap();
    let (what, result) = match ends {
        Ends::Well => (What::Completed, Ok(())),
        // A retry by hand forgets the failures.
        Ends::Fails if failed.insert(run.id()) => (What::Retried, Err(Fail::retry("no"))),
        Ends::Fails => {
            failed.remove(&run.id());
            (What::Dead, Err(Fail::retry("no")))
        }
        Ends::Dies => (What::Dead, Err(Fail::dead("never"))),
        Ends::Snoozes if run.fence().get().is_multiple_of(2) => {
            (What::Snoozed, Err(Fail::snooze(7 * MINUTE)))
        }
        Ends::Snoozes => (What::Completed, Ok(())),
    };
    happened.0.lock().unwrap().push((at, kind, what));
    result
}

fn manual(builder: Builder, happened: &Happened) -> (Jobs, Driver) {
    let (orders, pushes) = (happened.clone(), happened.clone());
    let retry = Retry::fixed(90 * SECOND).max_retries(1);
    let builder = builder
        .handle_with(retry, move |order: Order, run| handle(order.0, "order", run, &orders))
        .handle_with(retry, move |push: Push, run| handle(push.0, "push", run, &pushes));
    builder.manual().unwrap()
}

/// Compares the history of the last hours by minutes, and all of it by hours.
fn compare(jobs: &Jobs, now: SystemTime, happened: &Happened) {
    let ever = UNIX_EPOCH..now + DAY;
    for kind in [None, Some("order"), Some("push")] {
        let history = |step| match kind {
            None => jobs.queue().history(step, ever.clone()).unwrap(),
            Some(kind) => jobs.kind_named(kind).history(step, ever.clone()).unwrap(),
        };
        let hours = found(history(Step::Hour), Step::Hour);
        assert_eq!(hours, expected(happened, kind, Step::Hour), "hours of {kind:?}");
        let recent = now.duration_since(UNIX_EPOCH).unwrap() - 48 * HOUR;
        let recent = recent.as_secs() / 60;
        let mut minutes = found(history(Step::Minute), Step::Minute);
        let mut wanted = expected(happened, kind, Step::Minute);
        minutes.retain(|minute, _| *minute >= recent);
        wanted.retain(|minute, _| *minute >= recent);
        assert_eq!(minutes, wanted, "minutes of {kind:?}");
    }
}

/// P34, P82: The history counts every event once, in the minute in which it was committed: in entries of minutes for
/// two days, and of hours from then on. The metrics have the same counts, and their gauges are those of the lists.
#[test]
fn history_and_metrics_count_every_event() {
    on_stores(|store| {
        for seed in 0..3 {
            let (happened, queue) = (Happened::default(), format!("h{seed}"));
            let (jobs, driver) = manual(store.open().queue(&queue), &happened);
            let mut draw = Rng::with_seed(seed);
            let wall = || driver.wall_now();
            let note = |kind, what| happened.0.lock().unwrap().push((wall(), kind, what));
            jobs.insert(SECOND, Mail(seed)).unwrap();
            note("mail", What::Inserted);
            let mut pending = Vec::new();
            for _ in 0..160 {
                let ends = [Ends::Well, Ends::Fails, Ends::Dies, Ends::Snoozes][draw.usize(..4)];
                let delay = Duration::from_secs(draw.u64(..1200));
                match draw.u32(..7) {
                    0 | 1 => {
                        pending.push((jobs.insert(delay, Order(ends)).unwrap(), "order"));
                        note("order", What::Inserted);
                    }
                    2 => {
                        let batch = [ends, Ends::Well].map(|ends| (delay, Push(ends)));
                        for id in jobs.insert_batch(batch).unwrap() {
                            pending.push((id, "push"));
                            note("push", What::Inserted);
                        }
                    }
                    3 => {
                        let keyed = jobs.keyed("one");
                        if keyed.get().unwrap().is_some() {
                            note("push", What::Cancelled);
                        }
                        keyed.insert(delay, Push(ends)).unwrap();
                        note("push", What::Inserted);
                    }
                    4 if !pending.is_empty() => {
                        let (id, kind) = pending.swap_remove(draw.usize(..pending.len()));
                        if jobs.cancel(id).unwrap() == Cancel::Cancelled {
                            note(kind, What::Cancelled);
                        }
                    }
                    5 => {
                        for dead in jobs.dead().collect::<Vec<_>>() {
                            // Refused if another job has its key now.
                            let _ = jobs.retry(dead.id);
                        }
                    }
                    // Mostly minutes, sometimes many hours.
                    _ => {
                        let by = if draw.u32(..8) == 0 { 9 * HOUR } else { 5 * MINUTE };
                        driver.advance(by);
                    }
                }
                while driver.advance(MS) > 0 {}
            }
            compare(&jobs, driver.wall_now(), &happened);
            metrics::compare(store, &queue, &jobs, driver.wall_now(), &happened);
            jobs.check().unwrap();
            jobs.shutdown().unwrap();
        }
    });
}

/// P34, P36: A run that fails or is snoozed after a cancel of its job counts as cancelled, and the job is gone. It has
/// not completed, so it is not kept.
#[test]
fn run_that_fails_after_a_cancel_counts_as_cancelled() {
    on_stores(|store| {
        let handler = |order: Order, run: &Run| {
            assert_eq!(run.client().cancel(run.id()).unwrap(), Cancel::Running);
            Err(if order.0 == Ends::Fails { Fail::retry("too late") } else { Fail::snooze(HOUR) })
        };
        let (jobs, driver) = store.open().handle(handler).manual().unwrap();
        jobs.kind::<Order>().keep_completed(Keep::last(9)).unwrap();
        for ends in [Ends::Fails, Ends::Snoozes] {
            jobs.insert(Duration::ZERO, Order(ends)).unwrap();
        }
        while driver.advance(MS) > 0 {}
        let ever = UNIX_EPOCH..driver.wall_now() + DAY;
        let history = jobs.queue().history(Step::Hour, ever).unwrap();
        assert_eq!(history.iter().map(counts).collect::<Vec<_>>(), [[2, 0, 0, 0, 0, 2, 0]]);
        assert_eq!(history[0].runs(), 2);
        assert_eq!((jobs.count().unwrap().pending, jobs.ended().count()), (0, 0));
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P34: Hours are there for 90 days, and with `history(false)` a program counts nothing.
#[test]
fn history_lasts_for_ninety_days_and_can_be_turned_off() {
    on_stores(|store| {
        let happened = Happened::default();
        let (jobs, driver) = manual(store.open(), &happened);
        for _ in 0..100 {
            jobs.insert(Duration::ZERO, Order(Ends::Well)).unwrap();
            driver.advance(DAY);
        }
        let ever = UNIX_EPOCH..driver.wall_now() + DAY;
        let days = jobs.queue().history(Step::Hour, ever.clone()).unwrap().len();
        assert!((90..=94).contains(&days), "{days} days");
        let last = jobs
            .queue()
            .history(Step::Hour, driver.wall_now() - DAY - HOUR..driver.wall_now())
            .unwrap();
        assert_eq!(last.iter().map(|entry| entry.completed).sum::<u64>(), 1, "{last:?}");
        let nothing = jobs.kind_named("unknown").history(Step::Hour, ever.clone()).unwrap();
        assert_eq!(nothing, []);
        assert!(jobs.kind_named("").history(Step::Hour, ever.clone()).is_err());
        let reversed = driver.wall_now()..UNIX_EPOCH;
        assert_eq!(jobs.queue().history(Step::Minute, reversed).unwrap(), []);
        jobs.shutdown().unwrap();

        let (jobs, driver) = manual(store.open().queue("off").history(false), &happened);
        jobs.insert(Duration::ZERO, Order(Ends::Fails)).unwrap();
        let other = jobs.insert(DAY, Push(Ends::Well)).unwrap();
        assert_eq!(jobs.cancel(other).unwrap(), Cancel::Cancelled);
        driver.advance(HOUR);
        assert_eq!(jobs.queue().history(Step::Hour, ever).unwrap(), []);
        jobs.shutdown().unwrap();
    });
}

/// P34: A run that gives up at a shutdown counts as interrupted, and its job completes later.
#[test]
fn history_counts_interrupted_runs() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let (started, starts) = mpsc::channel();
        let handler = move |_: Order, run: &Run| {
            started.send(()).unwrap();
            while run.attempt() == 1 && !run.is_cancelled() {
                std::thread::yield_now();
            }
            if run.is_cancelled() { Err(Fail::interrupted()) } else { Ok(()) }
        };
        let waits = handler.clone();
        let jobs = store.open().handle(waits).start().unwrap();
        jobs.insert(Duration::ZERO, Order(Ends::Well)).unwrap();
        starts.recv_timeout(LONG).unwrap();
        jobs.shutdown().unwrap();
        let jobs = store.open().handle(|_: Order, _| Ok(())).start().unwrap();
        let sums = |jobs: &Jobs| {
            let ever = UNIX_EPOCH..UNIX_EPOCH + 100 * 365 * DAY;
            let history = jobs.queue().history(Step::Hour, ever).unwrap();
            history.iter().map(counts).fold([0; 7], |mut sums: Counts, counts| {
                sums.iter_mut().zip(counts).for_each(|(sum, by)| *sum += by);
                sums
            })
        };
        while sums(&jobs)[1] == 0 {
            std::thread::yield_now();
        }
        assert_eq!(sums(&jobs), [1, 1, 0, 0, 0, 0, 1]);
        jobs.shutdown().unwrap();
    });
}
