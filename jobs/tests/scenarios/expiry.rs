//! Jobs that expire: no run of a job starts after its expiry, and its end is reported, counted and kept.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, CallError, Driver, Event, Fail, InsertErrorKind, InvalidInput, Job, JobId, JobState,
    Jobs, Keep, Limit, Missed, NewJob, Outcome, Retry, Run, Schedule, Step,
};

use super::{DAY, HOUR, MINUTE, MS, Mail, SECOND, limits, run_all};
use crate::support::on_stores;

/// A push, which is useless an hour after its time.
#[derive(Serialize, Deserialize, Clone)]
struct Push(u64);

impl Job for Push {
    const KIND: &'static str = "push";
    const EXPIRES: Option<Duration> = Some(HOUR);
}

/// The jobs that an event has reported as expired.
type Told = Arc<Mutex<Vec<JobId>>>;

/// Jobs on a manual clock. A push with a number above 1,000 fails, and is retried after two hours.
fn pushing(builder: Builder) -> (Jobs, Driver, Told) {
    let told = Told::default();
    let noted = Arc::clone(&told);
    let builder = builder.on_event(move |event| match event {
        Event::Expired { id, kind } if kind == "push" => noted.lock().unwrap().push(id),
        Event::Failed { .. } | Event::Died { .. } | Event::OccurrencesSkipped { .. } => {}
        other => panic!("{other:?}"),
    });
    let push = |push: Push, _: &Run| match push.0 {
        0..=1000 => Ok(()),
        _ => Err(Fail::retry("as planned")),
    };
    let retry = Retry::fixed(2 * HOUR).max_retries(1);
    let builder = builder.handle_with(retry, push).handle(|_: Mail, _| Ok(()));
    let (jobs, driver) = builder.manual().unwrap();
    (jobs, driver, told)
}

/// Pauses the pushes for a time.
fn pause_for(jobs: &Jobs, driver: &Driver, time: Duration) {
    jobs.kind::<Push>().pause().unwrap();
    driver.advance(time);
    jobs.kind::<Push>().resume().unwrap();
    driver.advance(SECOND);
}

fn state(jobs: &Jobs, id: JobId) -> Option<JobState> {
    jobs.get(id).unwrap().map(|job| job.state)
}

/// P107: A job that is too old at its turn never starts. It ends as expired: an event reports it, it is counted, it is
/// kept as its kind keeps completed jobs, it has left its group, and its key is free. A job whose turn comes in time
/// runs.
#[test]
fn job_that_is_too_old_never_starts() {
    on_stores(|store| {
        let (jobs, driver, told) = pushing(store.open());
        jobs.kind::<Push>().keep_completed(Keep::last(9)).unwrap();
        let old = NewJob::new(Push(1)).expires(10 * MINUTE).key("user");
        let group = jobs.group().add_job(old).then(Mail(9)).insert().unwrap();
        let in_time = jobs.insert(Duration::ZERO, Push(2)).unwrap();
        let old = jobs.keyed("user").get().unwrap().unwrap();
        let expires = old.expires.unwrap().duration_since(driver.wall_now()).unwrap();
        assert!(expires <= 10 * MINUTE && expires > 10 * MINUTE - SECOND, "{expires:?}");
        pause_for(&jobs, &driver, 11 * MINUTE);
        assert_eq!((state(&jobs, old.id), state(&jobs, in_time)), {
            (Some(JobState::Expired), Some(JobState::Completed))
        });
        assert_eq!(*told.lock().unwrap(), [old.id]);
        // The other push, and the callback.
        assert_eq!((jobs.stats().started, jobs.stats().expired), (2, 1));
        let ended = jobs.ended().state(JobState::Expired).next_page().unwrap();
        assert_eq!((ended.len(), ended[0].id, ended[0].attempt), (1, old.id, 0));
        assert_eq!(jobs.ended().state(JobState::Completed).count(), 1);
        assert_eq!(jobs.wait(old.id, Duration::ZERO), Err(CallError::Expired(old.id)));
        let info = jobs.group_by_id(group).info().unwrap().unwrap();
        assert_eq!((info.total, info.expired, info.cancelled, info.open), (1, 1, 0, 0));
        assert!(info.ended.is_some(), "{info:?}");
        let ever = SystemTime::UNIX_EPOCH..driver.wall_now() + DAY;
        let history = jobs.kind::<Push>().history(Step::Hour, ever).unwrap();
        let sums = |of: fn(&tickwheel_jobs::HistoryEntry) -> u64| history.iter().map(of).sum();
        assert_eq!((sums(|of| of.expired), sums(|of| of.completed), sums(|of| of.runs())), {
            (1, 1, 1)
        });
        let pushes = jobs.stats().kinds.into_iter().find(|of| of.kind == "push").unwrap();
        assert_eq!(pushes.ended(Outcome::Expired).count(), 1);
        let metrics = jobs.process_metrics().to_string();
        let ended = "ended_total{kind=\"push\",outcome=\"expired\",queue=\"default\"} 1\n";
        assert!(metrics.contains(ended), "{metrics}");
        let running = "jobs_running{kind=\"push\",queue=\"default\"} 0\n";
        assert!(metrics.contains(running), "{metrics}");
        let next = NewJob::new(Push(3)).at(HOUR).key("user").if_absent();
        assert!(jobs.insert_job(next).unwrap().is_new, "the key is free");
        assert!(jobs.delete(old.id).unwrap());
        jobs.check().unwrap();
    });
}

/// P107: Completed and expired jobs share the bound of their kind. A kind that keeps no jobs leaves nothing of them.
/// But a caller of `call` learns of the end.
#[test]
fn expired_jobs_are_kept_as_completed_ones_are() {
    on_stores(|store| {
        let (jobs, driver, _) = pushing(store.open());
        let call = jobs.call::<_, ()>(Push(1), Duration::ZERO).unwrap_err();
        let CallError::TimedOut(called) = call else { panic!("{call:?}") };
        let other = jobs.insert(Duration::ZERO, Push(2)).unwrap();
        pause_for(&jobs, &driver, 2 * HOUR);
        assert_eq!(jobs.wait(called, Duration::ZERO), Err(CallError::Expired(called)));
        assert_eq!(jobs.wait(other, Duration::ZERO), Err(CallError::Gone(other)));
        driver.advance(2 * MINUTE);
        jobs.kind::<Push>().keep_completed(Keep::last(3)).unwrap();
        for n in 0..4 {
            jobs.insert(Duration::ZERO, Push(n)).unwrap();
            driver.advance(SECOND);
            jobs.insert(Duration::ZERO, Push(10 + n)).unwrap();
            pause_for(&jobs, &driver, 2 * HOUR);
        }
        run_all(&driver);
        let kept = |state| -> Vec<u64> {
            let jobs = jobs.ended().kind::<Push>().state(state);
            jobs.map(|job| job.job::<Push>().unwrap().0).collect()
        };
        assert_eq!((kept(JobState::Expired), kept(JobState::Completed)), (vec![13, 12], vec![3]));
        // A state only leaves jobs out of a list.
        assert_eq!(jobs.ended().state(JobState::Expired).state(JobState::Completed).count(), 0);
        assert_eq!(jobs.dead().state(JobState::Completed).count(), 0);
        jobs.check().unwrap();
    });
}

/// P107: Nothing moves an expiry: neither a retry, nor a reschedule, nor the retry of a dead job by hand. A copy has
/// none.
#[test]
fn no_verb_moves_an_expiry() {
    on_stores(|store| {
        let (jobs, driver, told) = pushing(store.open());
        jobs.kind::<Push>().keep_completed(Keep::last(9)).unwrap();
        // Its retry is due in time, after two hours, but behind a pause.
        let retried = NewJob::new(Push(1001)).expires(3 * HOUR);
        let retried = jobs.insert_job(retried).unwrap().id;
        let moved = jobs.insert(MINUTE, Push(2)).unwrap();
        let dead = NewJob::new(Push(1002)).retry(Retry::never());
        let dead = jobs.insert_job(dead).unwrap().id;
        driver.advance(SECOND);
        assert!(jobs.reschedule(moved, 3 * HOUR).unwrap());
        assert_eq!(state(&jobs, dead), Some(JobState::Dead));
        pause_for(&jobs, &driver, 4 * HOUR);
        assert_eq!(*told.lock().unwrap(), [retried, moved]);
        assert_eq!(jobs.get(retried).unwrap().unwrap().failures, 1);
        assert!(jobs.retry(dead).unwrap());
        driver.advance(SECOND);
        assert_eq!((state(&jobs, dead), jobs.stats().started), (Some(JobState::Expired), 2));
        let old = jobs.get(moved).unwrap().unwrap();
        let copy = jobs.insert_copy(&old, 4 * HOUR).unwrap();
        assert_eq!(jobs.get(copy).unwrap().unwrap().expires, None);
        driver.advance(5 * HOUR);
        assert_eq!(jobs.stats().started, 3);
        jobs.check().unwrap();
    });
}

/// P107: A job that fails is dead at once if its retry would be due after its expiry, so its error is not lost. If a
/// snooze leads past the expiry, the job expires.
#[test]
fn job_whose_retry_would_come_too_late_is_dead() {
    on_stores(|store| {
        let push = |_: Push, _: &Run| Err::<(), _>(Fail::retry("as planned"));
        let mail = |mail: Mail, run: &Run| {
            run.set_progress(&mail.0)?;
            Err::<(), _>(if mail.0 == 1 { Fail::snooze(HOUR) } else { Fail::after(HOUR, "busy") })
        };
        let builder = store.open().handle_with(Retry::fixed(2 * HOUR), push).handle(mail);
        let (jobs, driver) = builder.manual().unwrap();
        let push = jobs.insert(Duration::ZERO, Push(1001)).unwrap();
        let mail = |n| jobs.insert_job(NewJob::new(Mail(n)).expires(30 * MINUTE)).unwrap().id;
        let [snoozed, failed] = [1, 2].map(mail);
        driver.advance(2 * HOUR);
        for (id, error) in [(push, "as planned"), (failed, "busy")] {
            let job = jobs.get(id).unwrap().unwrap();
            assert_eq!((job.state, job.error.as_deref(), job.failures), {
                (JobState::Dead, Some(error), 1)
            });
        }
        assert_eq!(jobs.get(failed).unwrap().unwrap().progress, Some(b"2".to_vec()));
        assert_eq!((state(&jobs, snoozed), jobs.stats().expired, jobs.stats().died), (None, 1, 2));
        jobs.check().unwrap();
    });
}

/// P107: In a schedule without overlap, a missed occurrence that is too old keeps out no occurrence in time.
#[test]
fn occurrence_that_is_too_old_keeps_out_none_in_time() {
    on_stores(|store| {
        let (jobs, driver, told) = pushing(store.open());
        let rule = Schedule::every(10 * MINUTE).missed(Missed::Burst(100)).without_overlap();
        jobs.schedule("pushes", rule, Push(1)).unwrap();
        driver.set_wall(driver.wall_now() + 5 * HOUR);
        assert_eq!((driver.advance(MS), told.lock().unwrap().len()), (1, 0));
        jobs.check().unwrap();
    });
}

/// P107: An insert is refused if its job would expire before or at its due time. The latest time of its jitter counts.
#[test]
fn insert_that_would_expire_before_it_is_due_is_refused() {
    on_stores(|store| {
        let (jobs, _driver, _) = pushing(store.open());
        let due = tickwheel_jobs::tickwheel::When::after(HOUR);
        for when in [due, due.jitter(HOUR)] {
            let new = || NewJob::new(Push(1)).at(when);
            let latest = HOUR + when.leeway();
            let is_early = |kind: &InsertErrorKind| {
                let InsertErrorKind::Invalid(error) = kind else { return false };
                matches!(error, InvalidInput::ExpiresBeforeDue { expires, due } if expires <= due)
            };
            for early in [SECOND, Duration::ZERO] {
                let refused = jobs.insert_job(new().expires(latest - early)).unwrap_err();
                assert!(is_early(refused.kind()), "{refused:?}");
            }
            assert!(jobs.insert_job(new().expires(latest + SECOND)).unwrap().is_new);
        }
        assert_eq!(jobs.count().unwrap().pending, 2);
    });
}

/// P107: The expiry of a kind counts from the due time, for occurrences of schedules too, and not for a callback. The
/// expiry of one job overrides it.
#[test]
fn expiry_of_a_kind_counts_from_the_due_time() {
    on_stores(|store| {
        let (jobs, driver, told) = pushing(store.open());
        let expires = |id| jobs.get(id).unwrap().unwrap().expires;
        let later = jobs.insert(3 * HOUR, Push(1)).unwrap();
        let due = jobs.get(later).unwrap().unwrap().due;
        assert_eq!(expires(later), Some(due + HOUR));
        let own = NewJob::new(Push(2)).at(3 * HOUR).expires(due + 5 * MINUTE);
        assert_eq!(expires(jobs.insert_job(own).unwrap().id), Some(due + 5 * MINUTE));
        assert!(jobs.cancel(later).unwrap().is_cancelled());
        let slow = jobs.group().add(2 * HOUR, Mail(1)).then(Push(3)).insert().unwrap();
        driver.advance(2 * HOUR + SECOND);
        let info = jobs.group_by_id(slow).info().unwrap().unwrap();
        assert_eq!((info.completed, jobs.stats().started, jobs.stats().expired), (1, 2, 0));
        jobs.schedule("pushes", Schedule::every(HOUR), Push(4)).unwrap();
        jobs.kind::<Push>().pause().unwrap();
        driver.advance(4 * HOUR + 30 * MINUTE);
        let waiting = jobs.pending().kind::<Push>().count();
        jobs.kind::<Push>().resume().unwrap();
        driver.advance(SECOND);
        // Of the occurrences only the last one is younger than an hour.
        let expired = told.lock().unwrap().len();
        assert!(waiting >= 4 && expired == waiting - 1, "{waiting} waited, {expired} expired");
        assert_eq!(jobs.stats().started, 3);
        jobs.check().unwrap();
    });
}

/// P107: The expiry of a kind does not hold for a job that takes the due time of another job, because that time is not
/// known at the insert. Its own expiry holds. A debounced job that comes earlier keeps the expiry of its later due
/// time.
#[test]
fn job_that_keeps_the_due_time_of_another_has_no_expiry_of_its_kind() {
    on_stores(|store| {
        let (jobs, driver, told) = pushing(store.open());
        let key = jobs.keyed("user");
        key.insert(3 * DAY, Push(1)).unwrap();
        let due = key.get().unwrap().unwrap().due;
        key.insert_keeping_time(Duration::ZERO, Push(2)).unwrap();
        let kept = key.get().unwrap().unwrap();
        assert_eq!((kept.due, kept.expires), (due, None));
        driver.advance(3 * DAY + SECOND);
        assert_eq!((jobs.stats().started, told.lock().unwrap().len()), (1, 0));
        let own = NewJob::new(Push(3)).key("user").keeping_time().expires(MINUTE);
        let own = jobs.insert_job(own).unwrap().id;
        assert!(jobs.get(own).unwrap().unwrap().expires.is_some());
        let other = jobs.keyed("burst");
        other.debounce(HOUR, 90 * MINUTE, Push(4)).unwrap();
        driver.advance(50 * MINUTE);
        let last = other.debounce(HOUR, 90 * MINUTE, Push(5)).unwrap();
        let last = jobs.get(last).unwrap().unwrap();
        assert_eq!(last.expires.unwrap().duration_since(last.due).unwrap(), 80 * MINUTE);
        jobs.check().unwrap();
    });
}

/// P107: The claim of a job that is too old takes no token of a rate. So a backlog of such jobs delays no other job: no
/// job of its flow, and none of its partition.
#[test]
fn job_that_is_too_old_takes_no_token() {
    on_stores(|store| {
        let old = |partition: &str| limits::charge(partition);
        let started = Arc::new(Mutex::new(0));
        let noted = Arc::clone(&started);
        let builder = store.open().handle(move |_: limits::Charge, _: &Run| {
            *noted.lock().unwrap() += 1;
            Ok(())
        });
        let (jobs, driver) = builder.manual().unwrap();
        let charges = jobs.kind::<limits::Charge>();
        charges.limit(Limit::none().rate(1, MINUTE).burst(2)).unwrap();
        charges.limit_each(Limit::none().rate(1, HOUR)).unwrap();
        for partition in ["acme", "nobody"] {
            let jobs_of = (0..50).map(|_| NewJob::new(old(partition)).expires(SECOND));
            charges.pause().unwrap();
            jobs.insert_batch(jobs_of).unwrap();
        }
        driver.advance(MINUTE);
        for partition in ["acme", "nobody"] {
            jobs.insert(Duration::ZERO, old(partition)).unwrap();
        }
        charges.resume().unwrap();
        driver.advance(SECOND);
        assert_eq!((jobs.stats().expired, *started.lock().unwrap()), (100, 2));
        jobs.check().unwrap();
    });
}

/// P107: A job that becomes too old while it waits for the rest of its batch does not start.
#[test]
fn job_that_becomes_too_old_in_its_batch_does_not_start() {
    on_stores(|store| {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&batches);
        let handler = move |mails: &[(Mail, Run)]| {
            noted.lock().unwrap().push(mails.iter().map(|(mail, _)| mail.0).collect::<Vec<_>>());
            Ok(())
        };
        let (jobs, driver) = store.open().handle_batch(9, 10 * SECOND, handler).manual().unwrap();
        jobs.insert(Duration::ZERO, Mail(1)).unwrap();
        jobs.insert_job(NewJob::new(Mail(2)).expires(5 * SECOND)).unwrap();
        jobs.insert_job(NewJob::new(Mail(3)).expires(MINUTE)).unwrap();
        driver.advance(MINUTE);
        assert_eq!(*batches.lock().unwrap(), [[1, 3]]);
        assert_eq!((jobs.stats().started, jobs.stats().expired), (2, 1));
        assert_eq!(jobs.count().unwrap().pending, 0);
        jobs.check().unwrap();
    });
}
