//! The refusal, the cancel and the end of jobs that repeat.

use super::again::told;
use super::*;
use tickwheel::{Next, Repeat};

/// C28: The handle is the same in all runs, and stale after the last.
#[test]
fn handle_of_a_repeating_job_lasts_until_its_last_run() {
    let (wheel, driver) = manual();
    let mut left = 3;
    let (sender, handles) = channel();
    let handle = wheel
        .repeat(Repeat::every(MS * 10), move |run| {
            sender.send(run.handle).unwrap();
            left -= 1;
            if left > 0 { Next::Period } else { Next::Stop }
        })
        .unwrap();
    for run in 1..=3 {
        assert!(wheel.is_pending(handle) && wheel.location(handle).is_some());
        assert_eq!(wheel.remaining(handle), Some(MS * 10));
        assert_eq!(driver.advance(MS * 10), 1, "run {run}");
        assert_eq!(handles.try_recv(), Ok(handle));
    }
    assert!(!wheel.is_pending(handle) && wheel.remaining(handle).is_none());
    assert!(!wheel.cancel(handle) && !wheel.reset(handle, MS) && wheel.take(handle).is_none());
    // Another job has the table entry now.
    let next = wheel.every(MS, || ()).unwrap();
    assert!(next != handle && !wheel.cancel(handle) && wheel.is_pending(next));
}

/// C29: A repeating job can be cancelled between runs, while it waits for a thread, and while it runs.
#[test]
fn repeating_job_can_be_cancelled_at_any_time() {
    // Cancelled from outside, between two runs.
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let ping = wheel.every(MS, move || drop(Arc::clone(&token))).unwrap();
    assert_eq!(driver.advance(MS * 3), 3);
    assert!(wheel.cancel(ping) && alive() == 0);
    assert_eq!((driver.advance(MS * 3), wheel.len()), (0, 0));
    // Cancelled by itself: this run is the last, although it returns another time.
    let scheduler = wheel.scheduler();
    let suicide = wheel.repeat(Repeat::every(MS), move |run| {
        assert!(scheduler.cancel(run.handle) && !scheduler.cancel(run.handle));
        Next::After(MS)
    });
    assert_eq!(driver.advance(MS * 3), 1);
    assert!(!wheel.is_pending(suicide.unwrap()));
    assert_eq!(wheel.stats().panicked, 0);
    // Cancelled while it runs, and while it waits for a thread of the pool.
    let wheel = threads(1);
    let (token, alive) = counted();
    let (mut wait, gate) = gate();
    let running = wheel.repeat(Repeat::irregular(), move |_| {
        let _ = &token;
        wait();
        Next::After(Duration::ZERO)
    });
    gate.has_come();
    let (queued_token, queued_alive) = counted();
    let queued = wheel.repeat(Repeat::irregular(), move |_| {
        let _ = &queued_token;
        unreachable!("it was cancelled before it started")
    });
    wait_for(|| wheel.stats().in_flight == 2);
    for handle in [running.unwrap(), queued.unwrap()] {
        assert!(wheel.is_pending(handle) && wheel.remaining(handle) == Some(Duration::ZERO));
        assert!(wheel.take(handle).is_none(), "nobody can have it back now");
        assert!(wheel.cancel(handle) && !wheel.is_pending(handle));
    }
    drop(gate);
    wait_for(|| alive() == 0 && queued_alive() == 0);
    wait_for(|| wheel.stats().in_flight == 0);
    assert_eq!((wheel.len(), wheel.stats().panicked, wheel.stats().completed), (0, 0, 2));
}

/// C30: A repeating job that is taken runs once at most, and does not go back to the wheel.
#[test]
fn repeating_job_that_is_taken_does_not_go_back() {
    let (wheel, driver) = manual();
    let (handle, runs) = told(&wheel, Repeat::every(MS), Next::Period);
    let job = wheel.take(handle).unwrap();
    assert_eq!((driver.advance(MS * 5), wheel.len()), (0, 0));
    job.run();
    assert_eq!(runs.recv().unwrap().handle, handle);
    assert!(runs.recv().is_err(), "ran once, and is gone");
    assert_eq!(wheel.len(), 0);
}

/// C32: A period of zero is refused, and the job comes back.
#[test]
fn period_of_zero_is_refused() {
    let (wheel, _driver) = manual();
    let (token, alive) = counted();
    let refused = wheel.every(Duration::ZERO, move || drop(Arc::clone(&token))).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::ZeroPeriod);
    let mut job = refused.into_inner();
    job();
    assert_eq!((alive(), wheel.len()), (1, 0));
    let refused = wheel.repeat(Repeat::every(Duration::ZERO), |_| Next::Stop).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::ZeroPeriod);
    assert!(wheel.every(Duration::from_nanos(1), || ()).is_ok());
    assert!(wheel.every(Duration::MAX, || ()).is_ok());
}

/// C33: A panic ends the repeating job, unless `Repeat::after_panic` says otherwise.
#[test]
fn panic_ends_a_repeating_job_unless_it_chose_otherwise() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    let (token, alive) = counted();
    let once = wheel.every(MS, move || {
        let _ = &token;
        panic_any("every")
    });
    assert_eq!(driver.advance(MS * 10), 1);
    assert!(!wheel.is_pending(once.unwrap()) && alive() == 0);
    assert_eq!(panics.try_iter().collect::<Vec<_>>(), ["every"]);
    let again = wheel.repeat(Repeat::every(MS).after_panic(Next::Period), |_| panic_any("again"));
    assert_eq!(driver.advance(MS * 10), 10);
    assert_eq!(panics.try_iter().collect::<Vec<_>>(), ["again"; 10]);
    assert!(wheel.cancel(again.unwrap()));
    assert_eq!(wheel.stats().panicked, 11);
}

/// C34: On a bounded wheel, a repeating job keeps its room until its end.
#[test]
fn repeating_job_keeps_its_room_until_its_end() {
    let wheel = Wheel::builder().max_pending(1).threads(1).build().unwrap();
    let (mut wait, gate) = gate();
    let repeat = wheel.repeat(Repeat::irregular(), move |_| {
        wait();
        Next::After(HOUR)
    });
    gate.has_come();
    // The job runs, and no job is in the wheel; but this one will come back.
    assert_eq!(wheel.len(), 0);
    assert_eq!(wheel.try_insert(HOUR, || ()).unwrap_err().kind(), InsertErrorKind::Full);
    drop(gate);
    wait_for(|| wheel.len() == 1);
    assert!(wheel.try_insert(HOUR, || ()).is_err());
    assert!(wheel.cancel(repeat.unwrap()));
    assert!(wheel.try_insert(HOUR, || ()).is_ok() && wheel.try_insert(HOUR, || ()).is_err());
}

/// C34: `shutdown` hands back repeating jobs, a running one after its run.
#[test]
fn the_end_of_the_wheel_is_the_end_of_its_repeats() {
    let (wheel, driver) = manual();
    let (handle, _runs) = told(&wheel, Repeat::every(MS * 10), Next::Period);
    driver.advance(MS * 25);
    let unfired: Vec<_> = wheel.shutdown().collect();
    assert_eq!((unfired.len(), unfired[0].handle, unfired[0].remaining), (1, handle, MS * 5));
    // While a shutdown waits, the jobs that it has taken out cannot be cancelled, but the running
    // jobs that it waits for can.
    let wheel = threads(2);
    let scheduler = wheel.scheduler();
    let pending = wheel.every(HOUR, || ()).unwrap();
    let mut gates = Vec::new();
    let running = [0, 1].map(|_| {
        let (mut wait, gate) = gate();
        gates.push(gate);
        wheel.repeat(Repeat::irregular(), move |_| {
            wait();
            Next::After(HOUR)
        })
    });
    gates.iter().for_each(Gate::has_come);
    let end = thread::spawn(|| wheel.shutdown());
    wait_for(|| scheduler.insert(HOUR, || ()).is_err());
    assert!(!scheduler.cancel(pending) && !scheduler.is_pending(pending));
    drop(gates.remove(0));
    wait_for(|| scheduler.stats().in_flight == 1);
    let [back, still_running] = running.map(Result::unwrap);
    assert!(scheduler.cancel(back), "it has come back, and nobody has handed it out");
    drop(gates);
    let unfired: Vec<Handle> = end.join().unwrap().map(|unfired| unfired.handle).collect();
    assert!(unfired.contains(&pending) && unfired.contains(&still_running));
    assert!(!unfired.contains(&back));
    // A job that runs ends its run and comes back too, unless it was cancelled meanwhile, or the
    // wheel is dropped, which does not wait.
    for (cancel, shutdown) in [(false, true), (true, true), (false, false)] {
        let wheel = threads(1);
        let scheduler = wheel.scheduler();
        let (token, alive) = counted();
        let (mut wait, gate) = gate();
        let other = scheduler.clone();
        let running = wheel.repeat(Repeat::irregular(), move |run| {
            let _ = &token;
            wait();
            assert!(!cancel || other.cancel(run.handle));
            Next::After(HOUR)
        });
        gate.has_come();
        if !shutdown {
            drop((wheel, gate));
            wait_for(|| alive() == 0);
            continue;
        }
        let end = thread::spawn(move || wheel.shutdown().collect::<Vec<_>>());
        wait_for(|| scheduler.insert(HOUR, || ()).is_err());
        drop(gate);
        let (unfired, running) = (end.join().unwrap(), running.unwrap());
        let found = unfired.iter().find(|unfired| unfired.handle == running);
        assert_eq!(found.is_some(), !cancel);
        assert!(found.is_none_or(|unfired| unfired.remaining > HOUR / 2));
        drop(unfired);
        assert_eq!(alive(), 0);
        assert!(!scheduler.is_pending(running));
        let late = scheduler.every(MS, || ()).unwrap_err();
        assert_eq!(late.kind(), InsertErrorKind::Shutdown);
    }
}
