//! The promises of limits and partitions: never more at once than the limit, turns, and no job left behind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, Cancel, ChangedByHand, Client, Fail, HowChanged, InvalidInput, Job, JobId, JobState,
    Jobs, Keep, Limit, LimitScope, NewJob, PendingReason, Run, StoreError, StoredLimit,
};

use super::{Charge as Sale, LONG, MS, Mail, SECOND, asker, holding, pause};
use crate::support::on_stores;

/// A job of a customer. The name of the customer is its partition; the name "nobody" stands for no partition.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Charge(pub(crate) String);

impl Job for Charge {
    const KIND: &'static str = "charge";
    const FLOW: &'static str = "stripe";

    fn partition(&self) -> Option<String> {
        Some(self.0.clone()).filter(|name| name != "nobody")
    }
}

/// A kind of the same flow, without partitions.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct Refund;

impl Job for Refund {
    const KIND: &'static str = "refund";
    const FLOW: &'static str = "stripe";
}

pub(crate) fn charge(name: &str) -> Charge {
    Charge(name.to_owned())
}

/// How many runs of each scope are under way, and how many there were at most.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<HashMap<String, (usize, usize)>>>);

impl Running {
    /// Counts a run in these scopes while it takes a few milliseconds.
    fn run(&self, scopes: &[&str]) {
        let change = |by: isize| {
            let mut running = self.0.lock().unwrap();
            for scope in scopes {
                let (now, most) = running.entry((*scope).to_owned()).or_default();
                *now = now.checked_add_signed(by).unwrap();
                *most = (*most).max(*now);
            }
        };
        change(1);
        pause(3 * MS);
        change(-1);
    }

    fn most(&self, scope: &str) -> usize {
        self.0.lock().unwrap().get(scope).map_or(0, |(_, most)| *most)
    }
}

/// Starts jobs that count the runs side by side, and tell when a run has ended.
fn counted(builder: Builder) -> (Jobs, Running, mpsc::Receiver<()>) {
    let (running, (ended, ends)) = (Running::default(), mpsc::channel());
    let (of_refunds, refunded) = (running.clone(), ended.clone());
    let of_charges = running.clone();
    let jobs = builder
        .threads(8)
        .handle(move |job: Charge, _: &Run| {
            of_charges.run(&["queue", "stripe", &job.0]);
            Ok(ended.send(())?)
        })
        .handle(move |_: Refund, _: &Run| {
            of_refunds.run(&["queue", "stripe", "refunds"]);
            Ok(refunded.send(())?)
        })
        .start()
        .unwrap();
    (jobs, running, ends)
}

/// P23, P29: With many free threads, no scope has more runs side by side than its limit, and every job runs.
#[test]
fn no_scope_has_more_runs_than_its_limit() {
    on_stores(|store| {
        let (jobs, running, ends) = counted(store.open());
        let charges = jobs.kind::<Charge>();
        charges.limit(Limit::running(4)).unwrap();
        charges.limit_each(Limit::running(1)).unwrap();
        charges.partition("acme").limit(Limit::running(2)).unwrap();
        for n in 0..120 {
            let delay = Duration::from_millis(n % 40);
            match n % 4 {
                0 => drop(jobs.insert(delay, Refund).unwrap()),
                1 => drop(jobs.insert(delay, charge("acme")).unwrap()),
                2 => drop(jobs.insert(Duration::ZERO, charge("beta")).unwrap()),
                _ => drop(jobs.insert(Duration::ZERO, charge("nobody")).unwrap()),
            }
        }
        for _ in 0..120 {
            ends.recv_timeout(LONG).unwrap();
        }
        assert!(running.most("stripe") <= 4, "{}", running.most("stripe"));
        assert!(running.most("acme") <= 2, "{}", running.most("acme"));
        assert_eq!(running.most("beta"), 1);
        jobs.check().unwrap();
        // Without the limit of the flow, the limit of the queue holds.
        charges.limit(Limit::none()).unwrap();
        jobs.queue().limit(Limit::running(3)).unwrap();
        running.0.lock().unwrap().clear();
        for _ in 0..40 {
            jobs.insert(Duration::ZERO, Refund).unwrap();
            jobs.insert(Duration::ZERO, charge("core")).unwrap();
        }
        for _ in 0..80 {
            ends.recv_timeout(LONG).unwrap();
        }
        assert!(running.most("queue") <= 3, "{}", running.most("queue"));
        jobs.check().unwrap();
    });
}

/// Starts jobs on a manual clock that note the customer of each run.
pub(crate) fn noted(builder: Builder) -> (Jobs, tickwheel_jobs::Driver, Arc<Mutex<Vec<String>>>) {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&ran);
    let (jobs, driver) = builder
        .handle(move |job: Charge, _: &Run| {
            notes.lock().unwrap().push(job.0);
            Ok(())
        })
        .manual()
        .unwrap();
    (jobs, driver, ran)
}

/// P26: A partition with few jobs does not wait behind one with many. A weight gives more turns.
#[test]
fn partitions_take_turns_by_weight() {
    on_stores(|store| {
        let (jobs, driver, ran) = noted(store.open());
        let due = driver.wall_now() + SECOND;
        let of = |name: &'static str, many| vec![NewJob::new(charge(name)).at(due); many];
        jobs.insert_batch(of("acme", 100)).unwrap();
        jobs.insert_batch(of("beta", 3)).unwrap();
        assert_eq!(driver.advance(SECOND), 103);
        let last = ran.lock().unwrap().iter().rposition(|name| name == "beta").unwrap();
        assert!(last < 10, "{last}");
        jobs.kind::<Charge>().partition("acme").limit(Limit::none().weight(3)).unwrap();
        let due = driver.wall_now() + SECOND;
        let of = |name: &'static str, many| vec![NewJob::new(charge(name)).at(due); many];
        jobs.insert_batch(of("beta", 40)).unwrap();
        jobs.insert_batch(of("acme", 40)).unwrap();
        ran.lock().unwrap().clear();
        assert_eq!(driver.advance(SECOND), 80);
        let first = ran.lock().unwrap()[..40].iter().filter(|name| *name == "acme").count();
        assert!((27..=33).contains(&first), "{first}");
        jobs.check().unwrap();
    });
}

/// P26: The backlog of a customer, however large, delays the first job of another one by few jobs, however long they
/// take: with an insert, at its due time, and with a retry.
#[test]
fn backlog_of_a_partition_delays_the_first_job_of_another_by_few_jobs() {
    const THREADS: usize = 2;
    on_stores(|store| {
        let (started, starts) = mpsc::channel();
        let (failed, fails) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let handler = move |job: Charge, run: &Run| {
            if job.0 == "again" && run.attempt() == 1 {
                failed.send(())?;
                return Err(Fail::after(50 * MS, "again"));
            }
            started.send(job.0)?;
            let _ = released.lock().unwrap().recv();
            // More jobs are claimed ahead if the threads finish more within 10 ms.
            pause(15 * MS);
            Ok(())
        };
        let jobs = store.open().threads(THREADS).handle(handler).start().unwrap();
        let next = || starts.recv_timeout(LONG).unwrap();
        jobs.insert_batch((0..10_000).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
        (0..THREADS).for_each(|_| assert_eq!(next(), "acme"));
        // The jobs that start before that of another customer, while each run takes as long as it wants.
        let before = |name: &str| {
            let mut before = 0;
            loop {
                release.send(()).unwrap();
                match next() {
                    its if its == name => return before,
                    _ => before += 1,
                }
            }
        };
        // Each thread may have one turn more, and two jobs for each may be claimed already.
        let few = 3 * THREADS;
        for name in ["now", "soon", "again"] {
            let delay = if name == "soon" { 50 * MS } else { Duration::ZERO };
            let id = jobs.insert(delay, charge(name)).unwrap();
            if name == "again" {
                while fails.try_recv().is_err() {
                    release.send(()).unwrap();
                    assert_eq!(next(), "acme");
                }
                while jobs.get(id).unwrap().unwrap().errors.is_empty() {
                    pause(MS);
                }
            }
            let is_later = |reason: &PendingReason| matches!(reason, PendingReason::NotDue(_));
            while jobs.why_pending(id).unwrap().iter().any(is_later) {
                pause(MS);
            }
            // The step under way may have read the clock before.
            (0..2).for_each(|_| assert_eq!(jobs.cancel(JobId::new()).unwrap(), Cancel::Gone));
            let before = before(name);
            assert!(before <= few, "{before} before {name}");
            println!("{before} jobs started before {name}");
        }
        jobs.check().unwrap();
        drop(release);
        drop(jobs);
    });
}

/// P25: A partition that is full keeps no other job waiting, and goes on when a run ends.
#[test]
fn full_partition_delays_no_other_job() {
    on_stores(|store| {
        let (handler, starts, release) = holding(|job: &Charge| job.0 == "acme");
        let jobs = store.open().threads(4).handle(handler).start().unwrap();
        jobs.kind::<Charge>().limit_each(Limit::running(1)).unwrap();
        let next = || starts.recv_timeout(LONG).unwrap().0;
        jobs.insert_batch((0..500).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
        assert_eq!(next(), "acme");
        for name in ["beta", "core", "nobody"] {
            jobs.insert(Duration::ZERO, charge(name)).unwrap();
            assert_eq!(next(), name);
        }
        for _ in 0..3 {
            release.send(()).unwrap();
            assert_eq!(next(), "acme");
        }
        let limits = jobs.queue().limits().unwrap();
        assert_eq!(limits.len(), 1);
        assert_eq!(limits[0].scope, LimitScope::Each("charge".to_owned()));
        assert_eq!((limits[0].limit, limits[0].running), (Limit::running(1), 1));
        jobs.check().unwrap();
        drop(release);
    });
}

/// P25: When a limit is raised, jobs that waited for it start, although no run has ended.
#[test]
fn raised_limit_lets_waiting_jobs_start() {
    on_stores(|store| {
        let (handler, starts, release) = holding(|_: &Charge| true);
        let jobs = store.open().threads(8).handle(handler).start().unwrap();
        let charges = jobs.kind::<Charge>();
        charges.limit_each(Limit::running(1)).unwrap();
        jobs.insert_batch((0..4).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
        let next = || starts.recv_timeout(LONG).unwrap().0;
        let waits = || starts.recv_timeout(20 * MS).is_err();
        assert_eq!(next(), "acme");
        assert!(waits());
        charges.limit_each(Limit::running(2)).unwrap();
        assert_eq!(next(), "acme");
        assert!(waits());
        charges.partition("acme").limit(Limit::running(3)).unwrap();
        assert_eq!(next(), "acme");
        assert!(waits());
        charges.partition("acme").limit(Limit::none()).unwrap();
        charges.limit_each(Limit::none()).unwrap();
        assert_eq!(next(), "acme");
        drop(release);
    });
}

/// P28: A partition that is paused starts nothing, delays no other job, and goes on when it is resumed, also after a
/// restart.
#[test]
fn paused_partition_starts_nothing() {
    on_stores(|store| {
        let (mut jobs, mut driver, mut ran) = noted(store.open());
        let acme = jobs.kind::<Charge>().partition("acme");
        acme.pause().unwrap();
        let insert = |jobs: &Jobs| {
            for name in ["acme", "beta", "nobody"] {
                jobs.insert(Duration::ZERO, charge(name)).unwrap();
            }
        };
        insert(&jobs);
        assert_eq!(driver.advance(SECOND), 2);
        if store.keeps {
            drop((jobs, driver));
            (jobs, driver, ran) = noted(store.open());
            insert(&jobs);
            assert_eq!(driver.advance(SECOND), 2);
        }
        assert!(!ran.lock().unwrap().contains(&"acme".to_owned()));
        let paused = jobs.count().unwrap().pending;
        jobs.kind_named("charge").partition("acme").resume().unwrap();
        // Not with the next poll: a second later.
        assert_eq!(driver.advance(MS) as u64, paused);
        let refused = jobs.kind_named("charge").partition("").pause();
        assert!(matches!(
            refused,
            Err(StoreError::Invalid(InvalidInput::TooLong { what: "partition", bytes: 0, .. }))
        ));
        jobs.check().unwrap();
    });
}

/// P23: A stored limit comes before the limit of a program. The flow is found by the name of the kind.
#[test]
fn stored_limit_comes_before_that_of_the_program() {
    on_stores(|store| {
        let of_program = || store.open().limit_unless_set::<Charge>(Limit::running(2));
        let (jobs, running, ends) = counted(of_program());
        let run = |jobs: &Jobs, ends: &mpsc::Receiver<()>| {
            jobs.insert_batch((0..40).map(|n| (Duration::ZERO, charge(&n.to_string())))).unwrap();
            (0..40).for_each(|_| ends.recv_timeout(LONG).unwrap());
        };
        run(&jobs, &ends);
        assert!(running.most("stripe") <= 2, "{}", running.most("stripe"));
        assert_eq!(jobs.queue().limits().unwrap(), []);
        // The flow is stored with the first steps of the jobs.
        let is_stored = || {
            jobs.kind_named("charge").limit(Limit::running(1)).unwrap();
            let limits = jobs.queue().limits().unwrap();
            limits.iter().any(|limit| limit.scope == LimitScope::Flow("stripe".to_owned()))
        };
        while !is_stored() {
            pause(MS);
        }
        running.0.lock().unwrap().clear();
        run(&jobs, &ends);
        assert_eq!(running.most("stripe"), 1);
        if store.keeps {
            jobs.shutdown().unwrap();
            let (jobs, running, ends) = counted(of_program());
            run(&jobs, &ends);
            assert_eq!(running.most("stripe"), 1);
        }
    });
}

/// P25: A limit that a program has for a kind that it does not handle, or no limit for one that it handles, holds
/// nothing back.
#[test]
fn limit_of_a_kind_that_is_not_handled_holds_nothing_back() {
    on_stores(|store| {
        let builder = store.open().handle(|_: Sale, _| Ok(()));
        let builder = builder.limit_unless_set::<Mail>(Limit::running(1));
        let (jobs, driver) = builder.limit_unless_set::<Sale>(Limit::none()).manual().unwrap();
        for _ in 0..2 {
            jobs.insert_batch((0..3).map(|n| (MS, Sale(n)))).unwrap();
            assert_eq!(driver.advance(SECOND), 3);
        }
        jobs.check().unwrap();
    });
}

/// P23: `limits` and the list of what runs have the jobs that run, and not those that were claimed with them and have
/// ended.
#[test]
fn jobs_that_have_ended_take_no_place() {
    on_stores(|store| {
        let (handler, _starts, release) = holding(|sale: &Sale| sale.0 == 9);
        let jobs = store.open().threads(1).handle(handler).start().unwrap();
        jobs.kind::<Sale>().keep_completed(Keep::last(100)).unwrap();
        jobs.insert_batch((0..10).map(|n| (Duration::ZERO, Sale(n)))).unwrap();
        let completed = || jobs.ended().count();
        while completed() < 9 {
            pause(MS);
        }
        jobs.queue().limit(Limit::running(20)).unwrap();
        let asker = asker(store, &jobs);
        for client in [&asker, &jobs.client()] {
            assert_eq!(client.queue().limits().unwrap()[0].running, 1);
            assert_eq!(client.running().count(), 1);
        }
        release.send(()).unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P38: A job that this process has claimed and not started waits for its turn, and not for the place that it has
/// itself.
#[test]
fn claimed_job_does_not_wait_for_its_own_place() {
    on_stores(|store| {
        let (handler, starts, release) = holding(|_: &Sale| true);
        let jobs = store
            .open()
            .threads(1)
            .handle(handler)
            .handle(|_: Mail, _: &Run| Ok(()))
            .start()
            .unwrap();
        jobs.kind::<Mail>().limit(Limit::running(1)).unwrap();
        jobs.insert(Duration::ZERO, Sale(1)).unwrap();
        starts.recv_timeout(LONG).unwrap();
        let mail = jobs.insert(Duration::ZERO, Mail(1)).unwrap();
        let info = jobs.get(mail).unwrap().unwrap();
        assert_eq!((info.state, info.claimed), (JobState::Pending, None));
        let names: Vec<&str> =
            jobs.why_pending(mail).unwrap().iter().map(PendingReason::name).collect();
        assert_eq!(names, ["turn"]);
        release.send(()).unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P28: A partition whose name has 255 bytes waits as any other, and the check finds nothing.
#[test]
fn longest_partition_waits_as_any_other() {
    on_stores(|store| {
        let (jobs, driver, ran) = noted(store.open());
        let longest = "p".repeat(255);
        let partition = jobs.kind::<Charge>().partition(&longest);
        partition.pause().unwrap();
        jobs.insert_batch((0..70).map(|_| (MS, charge(&longest)))).unwrap();
        for _ in 0..5 {
            assert_eq!(driver.advance(SECOND), 0);
            jobs.check().unwrap();
        }
        partition.resume().unwrap();
        assert_eq!(driver.advance(MS), 70);
        assert_eq!(ran.lock().unwrap().len(), 70);
        jobs.check().unwrap();
    });
}

/// Sets the limit of a scope as an operator does.
fn set_by_hand(operator: &Client, scope: &LimitScope, limit: Limit) -> Result<Limit, StoreError> {
    let plan = |stored: StoredLimit| Ok::<_, StoreError>(stored.by_hand(limit));
    operator.limit_by_hand(scope, HowChanged::default(), plan).map(|changed| changed.now.limit)
}

/// Lifts the limit that an operator has set; with `program` also that of a program.
fn lift_by_hand(
    operator: &Client,
    scope: &LimitScope,
    how: HowChanged<'_>,
    program: bool,
) -> Result<ChangedByHand<StoredLimit>, StoreError> {
    let none = || StoreError::Other("no limit by hand".to_owned());
    operator.limit_by_hand(scope, how, |stored| stored.lift(program).ok_or_else(none))
}

/// P109: A limit that an operator has set holds, although programs that start set theirs at the same time. If two
/// operators change different parts of a limit at once, both changes are made.
#[test]
fn limit_of_an_operator_outlasts_programs_that_start() {
    on_stores(|store| {
        let jobs = store.open().handle(|_: Charge, _| Ok(())).start().unwrap();
        let operator = asker(store, &jobs);
        let other = asker(store, &jobs);
        let (queue, rate) = (LimitScope::Queue, |jobs| Limit::none().rate(jobs, SECOND));
        // The second operator comes between the read and the write of the first one.
        let mut calls = 0;
        let change = |stored: StoredLimit| {
            calls += 1;
            if calls == 1 {
                let _ = set_by_hand(&other, &queue, Limit::running(4))?;
            }
            let running = stored.limit.most_running().map_or(Limit::none(), Limit::running);
            Ok::<_, StoreError>(stored.by_hand(running.rate(9, SECOND)))
        };
        let both = operator.limit_by_hand(&queue, HowChanged::default(), change).unwrap();
        assert_eq!((both.now.limit, calls), (Limit::running(4).rate(9, SECOND), 2));
        // An operator who has seen another limit changes nothing.
        let how = HowChanged::new(false, Some(""));
        let plan = |stored: StoredLimit| Ok::<_, StoreError>(stored.by_hand(Limit::running(1)));
        let late = operator.limit_by_hand(&queue, how, plan).unwrap();
        assert!(!late.changes && late.now == both.now && late.before == both.now, "{late:?}");
        // The same is true if the limit changes between the read and the write.
        let mut now = None;
        let raced = |stored: StoredLimit| {
            now = Some(set_by_hand(&other, &queue, Limit::running(5))?);
            Ok::<_, StoreError>(stored.by_hand(Limit::running(1)))
        };
        let how = HowChanged::new(false, Some(&late.was));
        let late = operator.limit_by_hand(&queue, how, raced).unwrap();
        assert!(!late.changes && late.now == late.before, "{late:?}");
        assert_eq!(Some(late.now.limit), now);
        assert_eq!(
            lift_by_hand(&operator, &queue, HowChanged::default(), false).unwrap().now,
            StoredLimit::default()
        );

        for n in 1..=100 {
            thread::scope(|scope| {
                let starts = || (1..=3).try_for_each(|n| jobs.queue().limit(Limit::running(n)));
                let starts = scope.spawn(starts);
                assert_eq!(set_by_hand(&operator, &queue, rate(n)), Ok(rate(n)));
                starts.join().unwrap().unwrap();
            });
            let mut wanted = StoredLimit::default();
            (wanted.limit, wanted.before) = (rate(n), Some(Limit::running(3)));
            for dry_run in [true, false] {
                let how = HowChanged::new(dry_run, None);
                let lifted = lift_by_hand(&operator, &queue, how, false).unwrap();
                assert_eq!((lifted.before, lifted.now.limit), (wanted, Limit::running(3)));
            }
        }
        // A second lift leaves the limit of the program alone.
        assert!(lift_by_hand(&operator, &queue, HowChanged::default(), false).is_err());
        assert_eq!(jobs.queue().limits().unwrap()[0].limit, Limit::running(3));
        assert_eq!(
            lift_by_hand(&operator, &queue, HowChanged::default(), true).unwrap().now,
            StoredLimit::default()
        );
        jobs.shutdown().unwrap();
    });
}

/// P109: A limit that an operator has set holds across restarts. After the lift, the one that a program has set
/// meanwhile holds.
#[test]
fn limit_of_an_operator_holds_across_restarts() {
    on_stores(|store| {
        let scope = LimitScope::Flow(Charge::FLOW.to_owned());
        for programs in 1..=3 {
            let jobs = store.open().handle(|_: Charge, _| Ok(())).start().unwrap();
            let limit = Limit::running(2).rate(9, SECOND);
            if programs == 1 {
                assert_eq!(set_by_hand(&jobs, &scope, limit), Ok(limit));
            }
            let limits = jobs.queue().limits().unwrap();
            assert_eq!((limits.len(), limits[0].limit), (1, limit));
            jobs.kind::<Charge>().limit(Limit::running(10 + programs)).unwrap();
            jobs.shutdown().unwrap();
            if !store.keeps {
                return;
            }
        }
        let client = store.open().client().unwrap();
        let lifted = lift_by_hand(&client, &scope, HowChanged::default(), false);
        assert_eq!(lifted.unwrap().now.limit, Limit::running(13));
        assert_eq!(client.queue().limits().unwrap()[0].limit, Limit::running(13));
    });
}
