//! The promises about ended jobs, pauses, head starts and limits, for every store. These tests are a part of
//! `tests/guarantees`, where `on_stores` runs them in memory and on a file, and of `tests/redis`, where it runs them
//! on a server.

mod bulk;
mod by_hand;
mod ended_pages;
mod expiry;
mod follow_ups;
mod group_results;
mod groups;
mod history;
pub(crate) mod metrics;
mod head_start;
mod keys;
pub(crate) mod limits;
mod middleware;
mod progress;
pub(crate) mod rates;
mod running;
mod schedules;
mod throttle;
pub(crate) mod verbs;
mod why;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::view::View;
use tickwheel_jobs::{
    Builder, CallError, Cancel, Client, Counts, Driver, Fail, InvalidInput, Job, JobId, JobInfo,
    JobState, Jobs, Keep, NewJob, Retry, Run, StoreError,
};

use crate::support::on_stores;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MS: Duration = Duration::from_millis(1);
/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// A charge of so many cents. One of 13 cents fails for good, with a second line in its error.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Charge(pub(crate) u64);

impl Job for Charge {
    const KIND: &'static str = "charge";
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mail(pub(crate) u64);

impl Job for Mail {
    const KIND: &'static str = "mail";
}

/// Of a kind that is stored behind the mails.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct NewMail(u64);

impl Job for NewMail {
    const KIND: &'static str = "new mail";
}

/// The store of a test.
pub(crate) struct Store<'a> {
    pub(crate) open: &'a dyn Fn() -> Builder,
    /// Who opens it again finds the same jobs.
    pub(crate) keeps: bool,
    /// Jobs are claimed while every thread is busy, since no other process could run them.
    pub(crate) claims_ahead: bool,
}

impl Store<'_> {
    pub(crate) fn open(&self) -> Builder {
        (self.open)()
    }
}

fn pause(time: Duration) {
    std::thread::park_timeout(time);
}

fn with_handlers(builder: Builder) -> Builder {
    builder
        .handle_with(Retry::never(), |charge: Charge, run| match charge.0 {
            13 => Err(Fail::dead("bad luck\nand more of it")),
            14 => Err(Fail::dead("no such card")),
            cents => run.set_result(&(cents * 2)),
        })
        .handle(|_: Mail, _| Ok(()))
}

fn manual(builder: Builder) -> (Jobs, Driver) {
    with_handlers(builder).manual().unwrap()
}

/// The numbers of the mails that ran, in order.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<u64>>>);

impl Ran {
    fn get(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

/// Jobs on a manual clock that note which mails run.
fn mailing(builder: Builder) -> (Jobs, Driver, Ran) {
    let ran = Ran::default();
    let noted = ran.clone();
    let handler = move |mail: Mail, _: &Run| {
        noted.0.lock().unwrap().push(mail.0);
        Ok(())
    };
    let (jobs, driver) = builder.handle(handler).manual().unwrap();
    (jobs, driver, ran)
}

/// Returns a handler that sends each job when its run starts. A run of a job that `waits` ends once the test has sent a
/// message, or has dropped its sender.
#[expect(clippy::type_complexity, reason = "the type of a closure has no name")]
pub(crate) fn holding<J: Job + Clone + Send + 'static>(
    waits: impl Fn(&J) -> bool + Send + Sync + 'static,
) -> (
    impl Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    mpsc::Receiver<J>,
    mpsc::Sender<()>,
) {
    let ((started, starts), (let_go, may_end)) = (mpsc::channel(), mpsc::channel());
    let may_end = Mutex::new(may_end);
    let handler = move |job: J, _: &Run| {
        let _ = started.send(job.clone());
        if waits(&job) {
            let _ = may_end.lock().unwrap().recv();
        }
        Ok(())
    };
    (handler, starts, let_go)
}

fn run_all(driver: &Driver) {
    while driver.advance(MS) > 0 {}
}

/// Advances, and then until nothing is due.
fn run_for(driver: &Driver, by: Duration) {
    driver.advance(by);
    run_all(driver);
}

fn charges(jobs: &Jobs) -> Vec<u64> {
    jobs.ended().kind::<Charge>().map(|job| job.job::<Charge>().unwrap().0).collect()
}

/// P32: A copy of a job that has ended is a new job with its kind, payload, partition, headers and retry policy, and
/// without its key and its group. A view says how many retries are left, by the policy of the job or of the process.
#[test]
fn copy_of_a_job_runs_once_more() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let of_group = jobs.group().add(HOUR, Mail(1)).open().unwrap();
        let new = NewJob::new(Mail(7)).at(MS).key("ann").header("tenant", "acme");
        let new =
            new.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let id = jobs.insert_job(new.retry(Retry::fixed(SECOND).max_retries(3))).unwrap().id;
        let plain = of_group.add(MS, Mail(8)).unwrap();
        jobs.kind::<Mail>().keep_completed(Keep::last(9)).unwrap();
        let left = |id| View::new(jobs.client()).job(id).unwrap().unwrap().retries_left;
        assert_eq!((left(id), left(plain)), (Some(3), Some(20)));
        run_all(&driver);
        assert_eq!(left(id), None);
        let ended = [id, plain].map(|id| jobs.get(id).unwrap().expect("it is kept"));
        assert_eq!((ended[1].group, ended[1].retry), (Some(of_group.id()), None));
        for old in ended {
            let copy = jobs.insert_copy(&old, HOUR).unwrap();
            let new = jobs.get(copy).unwrap().unwrap();
            // The trace is that of the insert.
            let same = |job: &JobInfo| {
                let tenant = job.headers.get("tenant").cloned();
                (job.kind.clone(), job.payload.clone(), tenant, job.retry)
            };
            assert!(!new.headers.contains_key("traceparent"));
            assert_eq!(same(&new), same(&old));
            assert_eq!((new.state, new.key, new.group), (JobState::Pending, None, None));
            assert!(new.id != old.id && new.attempt == 0);
        }
        let of_acme = jobs.insert(DAY, limits::Charge("acme".to_owned())).unwrap();
        let of_acme = jobs.get(of_acme).unwrap().unwrap();
        let copy = jobs.insert_copy(&of_acme, DAY).unwrap();
        let partition = jobs.get(copy).unwrap().unwrap().partition;
        assert_eq!((&*partition.unwrap(), of_acme.partition.as_deref()), ("acme", Some("acme")));
        let with_header = jobs.client().with_header("region", "eu");
        let copy = with_header.insert_copy(&of_acme, DAY).unwrap();
        assert_eq!(jobs.get(copy).unwrap().unwrap().headers["region"], "eu");
        // A partition or a header that is too long is refused.
        let (mut partition, mut header) = (of_acme.clone(), of_acme);
        partition.partition = Some("x".repeat(300));
        header.headers.insert("x".repeat(300), String::new());
        for job in [partition, header] {
            assert!(jobs.insert_copy(&job, DAY).is_err(), "{job:?}");
        }
        run_for(&driver, HOUR);
        assert_eq!(jobs.ended().count(), 5);
        jobs.check().unwrap();
    });
}

/// P32: A completed job is not kept unless its kind keeps it. Then it is found with its result and times, up to a
/// number, an age and a size; the latest end comes first.
#[test]
fn completed_jobs_are_kept_by_number_age_and_bytes() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let gone = jobs.insert(MS, Charge(1)).unwrap();
        run_all(&driver);
        assert_eq!((jobs.get(gone).unwrap(), jobs.ended().count()), (None, 0));
        let kind = jobs.kind::<Charge>();
        kind.keep_completed(Keep::last(3).age(DAY)).unwrap();
        let mut ids = Vec::new();
        for cents in 1..=5 {
            ids.push(jobs.insert(MS, Charge(cents)).unwrap());
            jobs.insert(MS, Mail(cents)).unwrap();
            run_all(&driver);
            jobs.check().unwrap();
        }
        assert_eq!(charges(&jobs), [5, 4, 3]);
        assert_eq!(jobs.ended().count(), 3, "mails are not kept");
        assert_eq!(jobs.get(ids[1]).unwrap(), None);
        let last = jobs.get(ids[4]).unwrap().unwrap();
        assert_eq!((last.state, last.died), (JobState::Completed, None));
        assert_eq!((last.result.as_deref(), last.attempt), (Some(&b"10"[..]), 1));
        assert!(last.ended.unwrap() >= last.due && last.took.is_some());
        assert_eq!((jobs.retry(last.id), jobs.reschedule(last.id, SECOND)), (Ok(false), Ok(false)));
        assert_eq!(jobs.cancel(last.id), Ok(Cancel::Gone));
        // A smaller number: each job that completes removes two at most.
        kind.keep_completed(Keep::last(1)).unwrap();
        jobs.insert(MS, Charge(6)).unwrap();
        run_all(&driver);
        assert_eq!(charges(&jobs), [6, 5]);
        // By bytes: a result of one byte, and a payload of two.
        kind.keep_completed(Keep::last(100).bytes(7)).unwrap();
        for cents in 1..=4 {
            jobs.insert(MS, Charge(cents)).unwrap();
            run_all(&driver);
        }
        let kept = charges(&jobs);
        assert!(kept.starts_with(&[4, 3]) && kept.len() <= 3, "{kept:?}");
        // By age: a purge comes within ten minutes.
        kind.keep_completed(Keep::last(100).age(60 * SECOND)).unwrap();
        jobs.insert(MS, Charge(7)).unwrap();
        run_all(&driver);
        assert_eq!(charges(&jobs)[0], 7);
        run_for(&driver, 700 * SECOND);
        jobs.insert(700 * SECOND, Mail(1)).unwrap();
        run_for(&driver, 700 * SECOND);
        assert!(!charges(&jobs).contains(&7), "{:?}", charges(&jobs));
        jobs.check().unwrap();
    });
}

/// P19: Floats reach the handler, and those of a result its reader, with each of their bits.
#[test]
fn floats_keep_each_bit() {
    #[derive(Serialize, Deserialize, Clone)]
    struct Rates(Vec<f64>);
    impl Job for Rates {
        const KIND: &'static str = "rates";
    }
    let mut rates = vec![0.1 + 0.2, 1.0 - f64::EPSILON / 2.0, f64::MIN_POSITIVE, f64::MAX, -0.0];
    rates.push(f64::from_bits(1));
    let mut random = fastrand::Rng::with_seed(1);
    rates.extend((0..1_000).map(|_| random.f64()));
    rates
        .extend((0..1_000).map(|_| f64::from_bits(random.u64(..))).filter(|rate| rate.is_finite()));
    let changed = |read: &[f64]| {
        let pairs = rates.iter().zip(read);
        pairs.filter(|(rate, read)| rate.to_bits() != read.to_bits()).count()
    };
    on_stores(|store| {
        let handler = |job: Rates, run: &Run| run.set_result(&job.0);
        let (jobs, driver) = store.open().handle(handler).manual().unwrap();
        jobs.kind::<Rates>().keep_completed(Keep::last(1)).unwrap();
        jobs.insert(MS, Rates(rates.clone())).unwrap();
        run_all(&driver);
        let ended = jobs.ended().next().unwrap();
        let result = String::from_utf8(ended.result.clone().unwrap()).unwrap();
        let numbers = result.trim_matches(['[', ']']).split(',');
        let result: Vec<f64> = numbers.map(|number| number.parse().unwrap()).collect();
        let job = ended.job::<Rates>().unwrap().0;
        assert_eq!((result.len(), job.len()), (rates.len(), rates.len()));
        assert_eq!((changed(&result), changed(&job)), (0, 0));
    });
}

/// P32: An id that its caller chose stays known after its job was removed from the kept ones.
#[test]
fn kept_job_that_is_removed_leaves_its_chosen_id() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        jobs.kind::<Charge>().keep_completed(Keep::last(1)).unwrap();
        let id = JobId::named("charge 1");
        for n in 0..3 {
            jobs.insert_job(NewJob::new(Charge(1)).at(MS).id(id)).unwrap();
            jobs.insert(MS, Charge(10 + n)).unwrap();
            run_for(&driver, 5 * MS);
            jobs.check().unwrap();
        }
        assert!(!jobs.insert_job(NewJob::new(Charge(1)).at(MS).id(id)).unwrap().is_new);
        assert_eq!(jobs.get(id).unwrap(), None);
        assert_eq!(jobs.ended().count(), 1);
    });
}

/// P32: The age of a kept job counts from its end, and not from its due time or its insert: a job that was late is kept
/// as long as any other. One on whose end a caller waits is kept for a minute, although its kind keeps jobs for a
/// second.
#[test]
fn kept_job_ages_from_its_end() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        // A purge comes with a change, ten minutes after the one before.
        let purge_after = |time: Duration| {
            driver.advance(time);
            jobs.insert(DAY, Mail(1)).unwrap();
            run_all(&driver);
        };
        let kind = jobs.kind::<Charge>();
        kind.keep_completed(Keep::last(9).age(3600 * SECOND)).unwrap();
        kind.pause().unwrap();
        let late = jobs.insert(MS, Charge(1)).unwrap();
        driver.advance(2 * 3600 * SECOND);
        kind.resume().unwrap();
        run_all(&driver);
        purge_after(1800 * SECOND);
        assert_eq!(jobs.get(late).unwrap().map(|job| job.state), Some(JobState::Completed));
        purge_after(3600 * SECOND);
        assert_eq!(jobs.get(late).unwrap(), None);
        kind.keep_completed(Keep::last(9).age(SECOND)).unwrap();
        purge_after(590 * SECOND);
        let called = jobs.call::<_, u64>(Charge(2), Duration::ZERO);
        let Err(CallError::TimedOut(called)) = called else { panic!("{called:?}") };
        let other = jobs.insert(MS, Charge(3)).unwrap();
        run_all(&driver);
        // One of these steps purges.
        for _ in 0..3 {
            purge_after(15 * SECOND);
        }
        assert_eq!(jobs.get(other).unwrap(), None);
        assert_eq!(jobs.wait(called, LONG).unwrap().result.as_deref(), Some(&b"4"[..]));
        purge_after(700 * SECOND);
        assert_eq!(jobs.get(called).unwrap(), None, "a minute is over");
        jobs.check().unwrap();
    });
}

/// P21: Dead jobs are grouped by kind and first line of their error, and the groups follow retries and deletes.
#[test]
fn dead_jobs_are_counted_by_kind_and_error() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let ids: Vec<JobId> =
            [13, 13, 13, 14, 1].map(|cents| jobs.insert(MS, Charge(cents)).unwrap()).to_vec();
        run_for(&driver, 2 * MS);
        let groups = |jobs: &Jobs| -> Vec<(String, String, u64)> {
            let groups = jobs.dead_by_error(10).unwrap();
            groups.into_iter().map(|group| (group.kind, group.error, group.jobs)).collect()
        };
        let group = |error: &str, jobs| ("charge".to_owned(), error.to_owned(), jobs);
        assert_eq!(groups(&jobs), [group("bad luck", 3), group("no such card", 1)]);
        // A death of an hour later is the last of its group, and the first of a group that had none left.
        let deaths = || {
            let groups = View::new(jobs.client()).dead(9).unwrap().groups.into_iter();
            groups.map(|group| group.first_died.zip(group.last_died).unwrap()).collect::<Vec<_>>()
        };
        let before = deaths();
        assert!(before.iter().all(|(first, last)| first == last), "{before:?}");
        driver.advance(HOUR);
        let later = [13, 14].map(|cents| jobs.insert(MS, Charge(cents)).unwrap());
        assert!(jobs.delete(ids[3]).unwrap());
        run_all(&driver);
        driver.advance(2 * MS);
        let now = deaths();
        let hour = now[0].1.to_system().duration_since(before[0].0.to_system()).unwrap();
        assert!(now[0].0 == before[0].0 && hour >= HOUR, "{before:?} {now:?}");
        assert!(now[1].0 == now[1].1 && now[1].0 > before[1].1, "{before:?} {now:?}");
        assert!(later.into_iter().all(|id| jobs.delete(id).unwrap()));
        let again = jobs.insert(MS, Charge(14)).unwrap();
        run_for(&driver, 2 * MS);
        assert_eq!(jobs.dead_by_error(1).unwrap().len(), 1);
        assert!(jobs.delete(ids[0]).unwrap());
        assert!(jobs.delete(again).unwrap());
        assert_eq!(groups(&jobs), [group("bad luck", 2)]);
        assert!(jobs.retry(ids[1]).unwrap());
        assert_eq!((groups(&jobs), jobs.count().unwrap().dead), (vec![group("bad luck", 1)], 1));
        run_for(&driver, 2 * MS);
        assert_eq!(groups(&jobs), [group("bad luck", 2)]);
        let dead: Vec<JobState> = jobs.ended().map(|job| job.state).collect();
        assert_eq!(dead, [JobState::Dead, JobState::Dead]);
        assert_eq!(jobs.ended().state(JobState::Completed).count(), 0);
        jobs.check().unwrap();
    });
}

/// P28: What is paused starts nothing, and goes on once it is resumed. Inserts go on meanwhile, and so do other kinds.
/// A pause survives a restart.
#[test]
fn paused_kinds_and_queues_start_nothing() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let charges = jobs.kind_named("charge");
        charges.pause().unwrap();
        assert!(charges.is_paused().unwrap() && !jobs.queue().is_paused().unwrap());
        jobs.insert(MS, Charge(1)).unwrap();
        jobs.insert(MS, Mail(1)).unwrap();
        assert_eq!(driver.advance(SECOND), 1, "the mail");
        assert_eq!(jobs.count().unwrap().pending, 1);
        jobs.queue().pause().unwrap();
        charges.resume().unwrap();
        jobs.insert(MS, Mail(2)).unwrap();
        assert_eq!(driver.advance(SECOND), 0, "the whole queue is paused");
        let (jobs, driver) = match store.keeps {
            false => (jobs, driver),
            true => {
                drop((jobs, driver));
                manual(store.open())
            }
        };
        assert!(jobs.queue().is_paused().unwrap());
        assert_eq!(driver.advance(SECOND), 0);
        jobs.queue().resume().unwrap();
        assert_eq!(driver.advance(SECOND), 2);
        jobs.kind_named("nobody knows it").pause().unwrap();
        let empty = jobs.kind_named("").pause();
        assert!(
            matches!(empty, Err(StoreError::Invalid(InvalidInput::TooLong { bytes: 0, .. }))),
            "{empty:?}"
        );
        jobs.check().unwrap();
    });
}

/// P28: A job that is claimed and has not started when its kind is paused does not start. One that runs goes on.
#[test]
fn pause_holds_back_claimed_jobs() {
    on_stores(|store| {
        let (handler, at_start, go_on) = holding(|_: &Charge| true);
        let jobs = store.open().threads(1).handle(handler).start().unwrap();
        jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        assert_eq!(at_start.recv_timeout(LONG), Ok(Charge(1)));
        let waits = jobs.insert(Duration::ZERO, Charge(2)).unwrap();
        jobs.kind::<Charge>().pause().unwrap();
        // The run goes on, and ends well.
        go_on.send(()).unwrap();
        for _ in 0..20 {
            assert!(at_start.recv_timeout(10 * MS).is_err(), "it started in a pause");
        }
        assert_eq!(jobs.get(waits).unwrap().unwrap().state, JobState::Pending);
        jobs.kind::<Charge>().resume().unwrap();
        assert_eq!(at_start.recv_timeout(LONG), Ok(Charge(2)));
        go_on.send(()).unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P33: A call returns the result of its job, or says how the job has ended, also in another process. A wait ends at
/// its limit.
#[test]
fn call_returns_the_result_of_its_job() {
    on_stores(|store| {
        let jobs = with_handlers(store.open()).start().unwrap();
        for client in [&jobs as &Client, &asker(store, &jobs)] {
            assert_eq!(client.call(Charge(21), LONG), Ok(42));
        }
        let nothing: () = jobs.call(Mail(1), LONG).unwrap();
        assert_eq!(nothing, ());
        let wrong = jobs.call::<_, String>(Charge(1), LONG);
        assert!(matches!(wrong, Err(CallError::Result(..))), "{wrong:?}");
        let dead = jobs.call::<_, u64>(Charge(13), LONG);
        assert!(
            matches!(&dead, Err(CallError::Dead(_, error)) if error.contains("luck")),
            "{dead:?}"
        );
        let late = jobs.insert(DAY, Charge(1)).unwrap();
        assert_eq!(jobs.wait(late, 5 * MS), Err(CallError::TimedOut(late)));
        assert_eq!(jobs.wait(late, Duration::ZERO), Err(CallError::TimedOut(late)));
        let nobody = JobId::new();
        assert_eq!(jobs.wait(nobody, LONG), Err(CallError::Gone(nobody)));
        jobs.kind::<Charge>().keep_completed(Keep::last(10)).unwrap();
        let kept = jobs.insert(5 * MS, Charge(4)).unwrap();
        assert_eq!(jobs.wait(kept, LONG).unwrap().result.as_deref(), Some(&b"8"[..]));
        assert_eq!(jobs.wait(kept, LONG).unwrap().id, kept, "again");
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P32: A caller may look for the end of its job for a minute: no bound of the kind removes it before. The bounds keep
/// as many other jobs beside it, also after a called job was deleted.
#[test]
fn called_job_outlasts_the_bounds_of_its_kind() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let kind = jobs.kind::<Charge>();
        kind.keep_completed(Keep::last(1)).unwrap();
        let call = |cents| {
            let called = jobs.call::<_, u64>(Charge(cents), Duration::ZERO);
            let Err(CallError::TimedOut(id)) = called else { panic!("{called:?}") };
            run_all(&driver);
            id
        };
        let id = call(2);
        for cents in 3..=5 {
            jobs.insert(MS, Charge(cents)).unwrap();
            run_all(&driver);
            assert_eq!(jobs.wait(id, LONG).unwrap().result.as_deref(), Some(&b"4"[..]));
            jobs.check().unwrap();
        }
        assert_eq!(charges(&jobs), [5, 2]);
        let latest = call(6);
        assert_eq!(charges(&jobs), [6, 5, 2]);
        assert_eq!((jobs.delete(latest), jobs.delete(latest)), (Ok(true), Ok(false)));
        jobs.insert(MS, Charge(7)).unwrap();
        run_all(&driver);
        assert_eq!(charges(&jobs), [7, 2]);
        // A result that is too large for its kind.
        kind.keep_completed(Keep::last(9).bytes(1)).unwrap();
        let large = call(8);
        assert_eq!(jobs.wait(large, LONG).unwrap().id, large);
        driver.advance(61 * SECOND);
        jobs.insert(MS, Charge(9)).unwrap();
        run_all(&driver);
        assert_eq!(jobs.wait(id, LONG), Err(CallError::Gone(id)), "a minute is over");
        jobs.check().unwrap();
    });
}

/// P33: A waiter learns that its job was cancelled, also if it was not running.
#[test]
fn wait_ends_when_its_job_is_cancelled() {
    on_stores(|store| {
        let jobs = store.open().handle(|_: Charge, _| Ok(())).start().unwrap();
        jobs.kind::<Mail>().pause().unwrap();
        let client = jobs.client();
        let waiter = std::thread::spawn(move || client.call::<_, ()>(Mail(1), LONG));
        let id = loop {
            if let Some(job) = jobs.pending().next() {
                break job.id;
            }
            std::thread::yield_now();
        };
        assert_eq!(jobs.cancel(id).unwrap(), Cancel::Cancelled);
        assert_eq!(waiter.join().unwrap(), Err(CallError::Cancelled(id)));
        assert_eq!(jobs.get(id).unwrap().unwrap().state, JobState::Cancelled);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P47: A process that runs jobs is listed with its kinds while it runs, and not after its shutdown.
#[test]
fn nodes_are_listed_while_they_run() {
    on_stores(|store| {
        let jobs = with_handlers(store.open().threads(2).max_in_flight(77)).start().unwrap();
        jobs.insert(DAY, Charge(1)).unwrap();
        let node = loop {
            if let Some(node) = jobs.nodes().unwrap().pop() {
                break node;
            }
            std::thread::yield_now();
        };
        assert_eq!((node.pid, node.threads, node.max_in_flight), (std::process::id(), Some(2), 77));
        assert_eq!(node.kinds, ["charge", "mail"]);
        assert_eq!(node.max_retries, [("charge".to_owned(), 0), ("mail".to_owned(), 20)].into());
        assert_eq!((&*node.version, node.in_flight), (env!("CARGO_PKG_VERSION"), 0));
        assert!(!node.host.is_empty() && node.started <= node.seen);
        assert!(node.was_seen_lately(node.seen) && !node.was_seen_lately(node.seen + 60 * SECOND));
        jobs.shutdown().unwrap();
        if store.keeps {
            assert_eq!(store.open().client().unwrap().nodes().unwrap(), []);
        }
    });
}

/// A process that asks: another one, if the store can be opened twice.
fn asker(store: &Store, jobs: &Jobs) -> Client {
    if store.keeps { store.open().client().unwrap() } else { jobs.client() }
}

/// P40: `count` says how many jobs are overdue, of every kind, and for how long the oldest has been. Jobs that run or
/// are due later do not count.
#[test]
fn overdue_jobs_are_counted() {
    on_stores(|store| {
        let seen = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&seen);
        let handler = move |charge: Charge, run: &Run| -> Result<(), Fail> {
            if charge.0 == 1 {
                *noted.lock().unwrap() = Some(run.client().count()?);
            }
            Ok(())
        };
        let (jobs, driver) = store.open().max_in_flight(1).handle(handler).manual().unwrap();
        let of =
            |counts: Counts| (counts.overdue.count, counts.overdue.is_exact, counts.oldest_overdue);
        assert_eq!(of(jobs.count().unwrap()), (0, true, None));
        let due = driver.wall_now() + 10 * SECOND;
        for n in 1..=4 {
            jobs.insert(due + u32::try_from(n).unwrap() * MS, Charge(n)).unwrap();
        }
        jobs.insert(due + SECOND, Mail(1)).unwrap();
        jobs.insert(due + DAY, Mail(2)).unwrap();
        assert_eq!(of(jobs.count().unwrap()), (0, true, None));
        driver.set_wall(due + 3 * SECOND);
        while driver.advance(MS) > 0 {}
        let (count, is_exact, oldest) = of(seen.lock().unwrap().unwrap());
        // The first one runs, three wait for its slot, and the mail has no handler.
        assert_eq!((count, is_exact), (4, true));
        let oldest = oldest.unwrap();
        assert!(oldest >= 3 * SECOND - 2 * MS && oldest < 4 * SECOND, "{oldest:?}");
        let (count, is_exact, oldest) = of(jobs.count().unwrap());
        assert_eq!((count, is_exact), (1, true), "the mail");
        assert!(oldest.unwrap() >= 2 * SECOND && oldest.unwrap() < 3 * SECOND, "{oldest:?}");
    });
}

/// P40: The count of overdue jobs is exact below ten thousand, and the age of the oldest always.
#[test]
fn many_overdue_jobs_are_ten_thousand_or_more() {
    on_stores(|store| {
        let (jobs, driver) = store.open().handle(|_: Charge, _| Ok(())).manual().unwrap();
        let oldest = driver.wall_now() + 10 * SECOND;
        let mails = |many| (0..many).map(|n| (oldest + SECOND, Mail(n)));
        jobs.insert_batch(mails(9_998)).unwrap();
        jobs.insert_batch([(oldest, NewMail(1))]).unwrap();
        driver.set_wall(oldest + 60 * SECOND);
        driver.advance(MS);
        let counts = jobs.count().unwrap();
        assert_eq!((counts.overdue.count, counts.overdue.is_exact), (9_999, true));
        jobs.insert_batch(mails(2)).unwrap();
        let counts = jobs.count().unwrap();
        // A store that can count more for the same cost says so.
        let is_right = match counts.overdue.is_exact {
            true => counts.overdue.count == 10_001,
            false => counts.overdue.to_string() == "10000+",
        };
        assert!(is_right, "{counts:?}");
        let age = counts.oldest_overdue.unwrap();
        assert!(age >= 60 * SECOND && age < 61 * SECOND, "{age:?}");
    });
}
