//! What a handler may return: every error by `?`, and what becomes of its job.

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Fail, InsertError, Job, JobState, Jobs, Retry, Run, StoreError};

use super::support::*;

/// A job whose type is not `Sync`.
#[derive(Serialize, Deserialize)]
struct NotSync(Cell<u64>);

impl Job for NotSync {
    const KIND: &'static str = "not-sync";
}

fn refused() -> Result<(), InsertError<NotSync>> {
    let (jobs, _driver) = Jobs::memory().handle(|_: Close, _| Ok(())).manual().expect("in memory");
    let client = jobs.client();
    drop(jobs);
    client.insert(SECOND, NotSync(Cell::new(1))).map(drop)
}

/// P36: `?` makes a failure of every error that can be boxed. The failure is retried by the policy, and its text
/// has the sources.
#[test]
fn errors_become_failures_through_a_question_mark() {
    fn no_disk() -> io::Error {
        io::Error::other("no disk")
    }
    fn boxed() -> Box<dyn Error + Send + Sync> {
        Box::new(no_disk())
    }
    type Handler = fn() -> Result<(), Fail>;
    let handlers: [(Handler, &str); 10] = [
        (|| Err(anyhow::Error::from(no_disk()).context("no mail"))?, "no mail: no disk"),
        (|| Err(anyhow::anyhow!("no {}", "route"))?, "no route"),
        (|| Err(boxed())?, "no disk"),
        (|| Err("no answer")?, "no answer"),
        (|| Err(format!("status {}", 500))?, "status 500"),
        (|| Err(no_disk())?, "no disk"),
        (|| Ok(refused()?), "the insert was refused: the jobs are shut down"),
        (|| Err(StoreError::Full)?, "the store is full"),
        // A failure stays what it was.
        (|| Err(Fail::retry("nested"))?, "nested"),
        (
            || Err(Fail::retry(anyhow::Error::from(no_disk()).context("made here"))),
            "made here: no disk",
        ),
    ];
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .retry(Retry::fixed(HOUR).max_retries(1))
            .handle(move |job: Close, _| handlers[job.order as usize].0())
            .manual()
            .unwrap();
        let insert = |order: usize| jobs.insert(Duration::ZERO, close(order as u64)).unwrap();
        let ids: Vec<_> = (0..handlers.len()).map(insert).collect();
        driver.advance(MS);
        for (id, (_, error)) in ids.iter().zip(&handlers) {
            let job = jobs.get(*id).unwrap().unwrap();
            let found = (job.state, job.failures, job.error.as_deref());
            assert_eq!(found, (JobState::Pending, 1, Some(*error)));
        }
        driver.advance(HOUR);
        assert_eq!(jobs.count().unwrap().dead, handlers.len() as u64);
    });
}

/// `JobInfo::attempt` counts as `Run::attempt` does: 0 before the first run, and the run under way counts.
#[test]
fn attempt_of_a_job_counts_the_run_under_way() {
    on_each_store(|builder| {
        let seen = Arc::<Mutex<Vec<(u32, u32)>>>::default();
        let noted = Arc::clone(&seen);
        let handler = move |_: Close, run: &Run| {
            let info = run.client().get(run.id())?.ok_or("it is gone")?;
            noted.lock().unwrap().push((run.attempt(), info.attempt));
            Err(Fail::retry("again"))
        };
        let policy = Retry::fixed(HOUR).max_retries(1);
        let (jobs, driver) = builder.handle_with(policy, handler).manual().unwrap();
        let id = jobs.insert(SECOND, close(1)).unwrap();
        let attempt = || jobs.get(id).unwrap().unwrap().attempt;
        assert_eq!(attempt(), 0);
        driver.advance(SECOND);
        assert_eq!(attempt(), 1);
        driver.advance(HOUR);
        assert_eq!(attempt(), 2);
        assert_eq!(*seen.lock().unwrap(), [(1, 1), (2, 2)]);
    });
}

/// P36: A snooze leaves everything of a job as it was, but its time: the failures before it, their text, the key,
/// the number of the attempt. The policy counts on from there. The fences ascend. A snooze causes no event, and one of
/// any length ends with the year 9999 at the latest.
#[test]
fn snooze_changes_only_the_due_time_of_a_job() {
    on_each_store(|builder| {
        let runs = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&runs);
        let events = Log::default();
        let told = events.clone();
        let (jobs, driver) = builder
            .retry(Retry::fixed(SECOND).max_retries(2))
            .on_event(move |_| told.add(0))
            .handle(move |_: Close, run| {
                let mut runs = noted.lock().unwrap();
                runs.push((run.attempt(), run.fence()));
                match runs.len() {
                    1 => Err("fails once")?,
                    2..=4 => Err(Fail::snooze(HOUR)),
                    _ => Err("fails again")?,
                }
            })
            .handle(|_: Push, _| Err(Fail::snooze(Duration::MAX)))
            .manual()
            .unwrap();
        let id = jobs.keyed("order-1").insert(Duration::ZERO, close(1)).unwrap();
        let put_off = jobs.insert(Duration::ZERO, Push { to: "Ada".to_owned() }).unwrap();
        driver.advance(SECOND + MS);
        let after_one = jobs.get(id).unwrap().unwrap();
        driver.advance(2 * HOUR);
        let after_three = jobs.get(id).unwrap().unwrap();
        assert_eq!(after_three.due, after_one.due + 2 * HOUR);
        let mut before = after_three.clone();
        before.due = after_one.due;
        assert_eq!(before, after_one);
        assert_eq!((after_three.failures, after_three.key.as_deref()), (1, Some("order-1")));
        assert_eq!(after_three.error.as_deref(), Some("fails once"));
        assert_eq!(jobs.keyed("order-1").get().unwrap(), Some(after_three));
        // The second and the third failure.
        driver.advance(2 * HOUR);
        let dead = jobs.get(id).unwrap().unwrap();
        assert_eq!((dead.state, dead.failures), (JobState::Dead, 3));
        let runs = runs.lock().unwrap();
        let attempts: Vec<u32> = runs.iter().map(|(attempt, _)| *attempt).collect();
        assert_eq!(attempts, [1, 2, 2, 2, 2, 3]);
        assert!(runs.is_sorted_by(|a, b| a.1 < b.1), "{runs:?}");
        assert_eq!((jobs.stats().snoozed, events.get().len()), (4, 3));
        let last = jobs.get(put_off).unwrap().unwrap().due;
        assert_eq!(last.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 253_402_300_799);
        jobs.check().unwrap();
    });
}

/// Handlers share one value of each type. A run that reads a type which the builder does not have fails by
/// its policy. Two values of one type are refused at the start.
#[test]
fn handlers_share_the_state_of_the_builder() {
    struct Pool(&'static str);
    #[derive(Clone)]
    struct Missing;

    fn named(job: Close, run: &Run) -> Result<(), Fail> {
        let pool: &Pool = run.state()?;
        assert_eq!((pool.0, run.state::<u64>()?), ("pool", &7));
        if job.order == 2 {
            let Missing = run.state::<Missing>()?.clone();
        }
        Ok(())
    }

    let dropped = Arc::new(());
    let (jobs, driver) = Jobs::memory()
        .state(Pool("pool"))
        .state(7_u64)
        .state(Arc::clone(&dropped))
        .handle(named)
        .handle(|_: Push, run| run.state::<Pool>().map(drop))
        .manual()
        .unwrap();
    let ids = [1, 2].map(|order| jobs.insert(Duration::ZERO, close(order)).unwrap());
    let push = jobs.insert(Duration::ZERO, Push { to: "Ada".to_owned() }).unwrap();
    assert_eq!(driver.advance(MS), 3);
    assert_eq!((jobs.get(ids[0]).unwrap(), jobs.get(push).unwrap()), (None, None));
    let failed = jobs.get(ids[1]).unwrap().unwrap();
    let error = failed.error.unwrap();
    assert_eq!((failed.state, failed.failures), (JobState::Pending, 1));
    assert!(error.contains("Missing") && error.contains("no state of the type"), "{error}");
    // A client that outlives the jobs does not keep it.
    let _client = jobs.client();
    drop((jobs, driver));
    assert_eq!(Arc::strong_count(&dropped), 1);

    let twice = Jobs::memory().state(1_u64).state(2_u64).handle(named).manual();
    let error = twice.map(drop).unwrap_err().to_string();
    assert!(error.contains("two values of the type u64"), "{error}");
}
