//! The promises about lists of running jobs, for every store.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::view::{JobFilter, ListState, Number, View};
use tickwheel_jobs::{Cancel, Fail, JobInfo, Keep, Retry, Run, StopReason};

use super::{Charge, DAY, LONG, MS, Mail, SECOND, asker, pause, run_for};
use crate::support::{on_stores, wait_until};

/// A job is claimed this long before it is due, at most.
const AHEAD: Duration = Duration::from_millis(50);

/// P39: A job that runs shows to every process when it was claimed, and on a server when its lease ends, which its
/// process renews; and which process that is. A job that waits, also for its next attempt, and a job that has ended
/// show none of it.
#[test]
fn run_shows_when_it_was_claimed_and_when_its_lease_ends() {
    on_stores(|store| {
        let (started, at_start) = channel();
        let (go_on, may_end) = channel::<()>();
        let may_end = Mutex::new(may_end);
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            started.send(()).unwrap();
            may_end.lock().unwrap().recv_timeout(LONG)?;
            if run.attempt() == 1 { Err(Fail::retry("once more")) } else { Ok(()) }
        };
        let builder = store.open().lease(6 * SECOND).handle_with(Retry::fixed(DAY), handler);
        let jobs = builder.start().unwrap();
        jobs.kind::<Charge>().keep_completed(Keep::last(1)).unwrap();
        let asker = asker(store, &jobs);
        let id = jobs.insert(DAY, Charge(1)).unwrap();
        let job = || asker.get(id).unwrap().unwrap();
        let nothing =
            |job: JobInfo| assert_eq!((job.claimed, job.lease_ends, job.node), (None, None, None));
        nothing(job());
        let mut claims = Vec::new();
        for attempt in 1..=2 {
            assert!(jobs.reschedule(id, MS).unwrap());
            at_start.recv_timeout(LONG).unwrap();
            let info = job();
            assert_eq!(asker.running().map(|job| job.claimed).collect::<Vec<_>>(), [info.claimed]);
            let claimed = info.claimed.unwrap();
            assert!(claimed + AHEAD >= info.due && claimed < info.due + LONG, "{info:?}");
            claims.push(claimed);
            let node = jobs.nodes().unwrap().pop().expect("the process is noted").name();
            assert_eq!(info.node.as_ref(), Some(&node));
            let view = View::new(asker.clone());
            for (name, many) in [(node, 1), ("shop-3/4711".to_owned(), 0)] {
                let mut of_node = JobFilter::new(ListState::Running);
                of_node.node = Some(name);
                assert_eq!(view.jobs(&of_node, None, 9).unwrap().rows.len(), many);
                assert_eq!(view.count(&of_node).unwrap(), Number::exactly(many as u64));
            }
            if let Some(first) = info.lease_ends {
                assert!(first > claimed && first < claimed + LONG, "{info:?}");
                let is_renewed = || job().lease_ends.is_some_and(|end| end > first);
                let renewed = attempt == 2
                    || (0..LONG.as_millis()).any(|_| {
                        pause(MS);
                        is_renewed()
                    });
                assert!(renewed, "no renewal");
                assert_eq!(job().claimed, Some(claimed));
            }
            go_on.send(()).unwrap();
            while attempt == 1 && job().failures == 0 {
                pause(MS);
            }
            if attempt == 1 {
                nothing(job());
            }
        }
        assert!(claims[0] <= claims[1], "{claims:?}");
        nothing(jobs.wait(id, LONG).unwrap());
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P39: Of two claims the later has the greater fence, although the clock was set back or far ahead between them.
#[test]
fn later_claims_have_greater_fences_whatever_the_clock_reads() {
    on_stores(|store| {
        let fences = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&fences);
        let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
            seen.lock().unwrap().push(run.fence());
            Ok(())
        };
        let (jobs, driver) = store.open().handle(handler).manual().unwrap();
        let start = driver.wall_now();
        // The year 2200: a number of a server no longer tells the time there.
        let far = SystemTime::UNIX_EPOCH + DAY * 84_005;
        let clocks = [start, start + DAY, start, far, far + SECOND, start + DAY, start + 2 * DAY];
        for wall in clocks {
            driver.set_wall(wall);
            jobs.insert(wall, Charge(1)).unwrap();
            run_for(&driver, 2 * MS);
        }
        let fences = fences.lock().unwrap();
        assert_eq!(fences.len(), clocks.len());
        assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
        jobs.check().unwrap();
    });
}

/// P11, P13, P67, Redis P11: A cancel by another process sets `Run::is_cancelled`, and the job is neither moved nor
/// retried. Before a fix, callers that never paused kept the process that runs the jobs from seeing the cancel.
#[test]
fn cancel_by_another_process_reaches_the_run() {
    on_stores(|store| {
        let ((started, at_start), (told, was_told)) = (channel(), channel());
        let handler = move |_: Mail, run: &Run| -> Result<(), Fail> {
            started.send(run.id())?;
            wait_until("the run is told", || run.is_cancelled());
            told.send(run.stop_reason())?;
            Err(Fail::after(MS, "stopped"))
        };
        let jobs = store.open().handle(handler).start().unwrap();
        let client = asker(store, &jobs);
        let id = client.insert(MS, Mail(1)).unwrap();
        assert_eq!(at_start.recv_timeout(LONG), Ok(id));
        assert_eq!(client.cancel(id).unwrap(), Cancel::Running);
        assert!(!client.reschedule(id, DAY).unwrap());
        // Each of these calls makes a step.
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        assert_eq!(was_told.try_recv(), Ok(Some(StopReason::Requested)));
        jobs.check().unwrap();
    });
}
