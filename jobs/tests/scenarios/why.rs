//! The promises about the answer to "why has it not started?", for every store.

use std::sync::{Arc, Mutex};

use tickwheel_jobs::{Fail, JobId, Limit, LimitScope, PendingReason, Run};

use super::limits::{Charge as Bill, charge};
use super::{Charge, DAY, MS, Mail, SECOND, run_for};
use crate::support::on_stores;

/// P38: A pending job has a reason why it has not started: its due time, a pause, no process for its kind, or its turn.
/// The answer has all of its reasons. A job that runs, or that the store does not have, has no reason.
#[test]
fn pending_job_has_a_reason_why_it_waits() {
    on_stores(|store| {
        let seen: Arc<Mutex<Vec<Vec<PendingReason>>>> = Arc::default();
        let others: Arc<Mutex<Vec<JobId>>> = Arc::default();
        let (noted, of_others) = (Arc::clone(&seen), Arc::clone(&others));
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            let client = run.client();
            for id in std::iter::once(run.id()).chain(of_others.lock().unwrap().drain(..)) {
                noted.lock().unwrap().push(client.why_pending(id)?);
            }
            Ok(())
        };
        let (jobs, driver) = store.open().max_in_flight(1).handle(handler).manual().unwrap();
        let names = |id| -> Vec<&str> {
            jobs.why_pending(id).unwrap().iter().map(PendingReason::name).collect()
        };
        let later = jobs.insert(DAY, Charge(1)).unwrap();
        let due = jobs.get(later).unwrap().unwrap().due;
        assert_eq!(jobs.why_pending(later).unwrap(), [PendingReason::NotDue(due)]);
        let mail = jobs.insert(SECOND, Mail(1)).unwrap();
        assert_eq!(names(mail), ["not_due", "no_node"]);
        driver.advance(2 * SECOND);
        assert_eq!(jobs.why_pending(mail).unwrap(), [PendingReason::NoNode]);
        // Two jobs are due at once, and one may run.
        let first = jobs.insert(MS, Charge(2)).unwrap();
        let second = jobs.insert(MS, Charge(3)).unwrap();
        others.lock().unwrap().extend([first, second]);
        run_for(&driver, 2 * MS);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let told: Vec<Vec<&str>> =
            seen.iter().map(|all| all.iter().map(PendingReason::name).collect()).collect();
        // The first run asks about itself, then about both jobs. The second run asks about itself.
        let mut waits = told.clone();
        waits.retain(|all| !all.is_empty());
        assert_eq!((told.len(), waits), (4, vec![vec!["turn"]]));
        assert_eq!(names(first), [] as [&str; 0], "it is gone");
        jobs.kind::<Charge>().pause().unwrap();
        jobs.queue().pause().unwrap();
        let paused = jobs.insert(MS, Charge(4)).unwrap();
        driver.advance(SECOND);
        let both = [PendingReason::QueuePaused, PendingReason::KindPaused];
        assert_eq!(jobs.why_pending(paused).unwrap(), both);
        assert_eq!(names(JobId::new()), [] as [&str; 0]);
        jobs.check().unwrap();
    });
}

/// P38: A due job tells every stored limit that holds it back, and the pause of its partition.
#[test]
fn limited_job_tells_the_limits_that_it_waits_for() {
    on_stores(|store| {
        let seen: Arc<Mutex<Vec<Vec<PendingReason>>>> = Arc::default();
        let others: Arc<Mutex<Vec<JobId>>> = Arc::default();
        let (noted, of_others) = (Arc::clone(&seen), Arc::clone(&others));
        let handler = move |_: Bill, run: &Run| -> Result<(), Fail> {
            for id in of_others.lock().unwrap().drain(..) {
                noted.lock().unwrap().push(run.client().why_pending(id)?);
            }
            Ok(())
        };
        let (jobs, driver) = store.open().handle(handler).manual().unwrap();
        let bills = jobs.kind::<Bill>();
        bills.limit_each(Limit::running(1)).unwrap();
        jobs.queue().limit(Limit::running(5)).unwrap();
        let ask = |names: [&str; 2]| {
            let ids = names.map(|name| jobs.insert(MS, charge(name)).unwrap());
            others.lock().unwrap().push(ids[1]);
            run_for(&driver, 2 * MS);
            let told = std::mem::take(&mut *seen.lock().unwrap());
            let told: Vec<PendingReason> = told.into_iter().flatten().collect();
            let scope = |reason: &PendingReason| match reason {
                PendingReason::Limit(info) => Some((info.scope.clone(), info.running)),
                _ => None,
            };
            told.iter().filter_map(scope).collect::<Vec<_>>()
        };
        let each = LimitScope::Each("charge".to_owned());
        assert_eq!(ask(["acme", "acme"]), [(each.clone(), 1)]);
        let acme =
            LimitScope::Partition { kind: "charge".to_owned(), partition: "acme".to_owned() };
        bills.partition("acme").limit(Limit::running(1)).unwrap();
        bills.limit(Limit::running(1)).unwrap();
        let flow = LimitScope::Flow("stripe".to_owned());
        assert_eq!(ask(["acme", "acme"]), [(flow.clone(), 1), (acme, 1)]);
        assert_eq!(ask(["acme", "other"]), [(flow, 1)]);
        bills.partition("acme").pause().unwrap();
        let paused = jobs.insert(MS, charge("acme")).unwrap();
        driver.advance(2 * MS);
        assert_eq!(jobs.why_pending(paused).unwrap(), [PendingReason::PartitionPaused]);
        jobs.check().unwrap();
    });
}
