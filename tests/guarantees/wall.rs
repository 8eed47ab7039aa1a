//! Wall-clock times.

use super::*;
use std::time::SystemTime;
use tickwheel::{Next, Repeat};

/// C49: A job for a `SystemTime` follows the wall clock, runs once and is never lost.
#[test]
fn job_for_a_wall_clock_time_follows_the_wall_clock() {
    let (wheel, driver) = manual();
    let noon = driver.wall_now();
    let (sender, ran) = channel();
    let at = |hour: u32| {
        let sender = sender.clone();
        wheel.insert(noon + HOUR * hour, move || sender.send(hour).unwrap())
    };
    let handles: Vec<Handle> = (1..=5).map(at).collect();
    let plain = wheel.insert(HOUR * 5, || ());
    driver.advance(HOUR + MS);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [1]);
    // Set forward past one time: that job runs at the next tick, and the others sooner.
    driver.set_wall(noon + HOUR * 2 + HOUR / 2);
    driver.advance(MS);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2]);
    assert!(wheel.remaining(handles[2]) <= Some(HOUR / 2));
    // Set back before the time of a job that has run: it does not run again, and the others run
    // later.
    driver.set_wall(noon + HOUR * 2 - HOUR / 2);
    assert!(wheel.remaining(handles[2]) > Some(HOUR));
    driver.advance(HOUR);
    assert!(ran.try_recv().is_err());
    driver.advance(HOUR / 2);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [3]);
    // A job that waits for a delay is not affected.
    assert_eq!(wheel.remaining(plain), Some(HOUR * 5 - HOUR * 5 / 2 - MS * 2));
    // Set to and fro by years, and by more than a clock can represent: no job is lost.
    driver.set_wall(SystemTime::UNIX_EPOCH);
    driver.advance(MS);
    assert_eq!((wheel.len(), ran.try_recv().is_err()), (3, true));
    driver.set_wall(noon + HOUR * 24 * 365 * 100);
    driver.advance(MS);
    assert_eq!(ran.try_iter().count(), 2);
}

/// C49: A wall clock that is set moves every job, and a job that was due before stays as late as it is.
#[test]
fn wall_clock_that_is_set_moves_every_job() {
    let (wheel, driver) = manual();
    let noon = driver.wall_now();
    let handles: Vec<Handle> =
        (0..2000).map(|n| wheel.insert(noon + HOUR + MS * n, || ())).collect();
    driver.set_wall(noon + HOUR * 2);
    assert!(handles.iter().all(|&handle| wheel.remaining(handle) == Some(MS)));
    assert_eq!(driver.advance(MS), 2000);
    // A job that was due before the clock was set, and has not run, keeps its deadline.
    let (sender, runs) = channel();
    let due = driver.now();
    let late = Repeat::irregular().starting(noon);
    let repeat = wheel.repeat(late, move |run| {
        sender.send((run.deadline, run.late)).unwrap();
        Next::Stop
    });
    assert!(repeat.is_ok());
    driver.advance(MS / 4);
    driver.set_wall(noon + HOUR * 3);
    driver.advance(MS);
    assert_eq!(runs.try_recv(), Ok((due, MS)));
}

/// C51: A job for a wall-clock time can be cancelled until it starts.
#[test]
fn job_for_a_wall_clock_time_can_be_cancelled_until_it_starts() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let (token, alive) = counted();
    let (sender, ran) = channel();
    let handles = [0, 1].map(|n| {
        let (token, sender) = (Arc::clone(&token), sender.clone());
        wheel.insert(SystemTime::UNIX_EPOCH, move || sender.send((n, token)).unwrap())
    });
    // Both jobs are on their way to the pool.
    wait_for(|| wheel.stats().in_flight == 3);
    assert!(wheel.is_pending(handles[0]) && wheel.cancel(handles[0]));
    assert!(!wheel.is_pending(handles[0]) && !wheel.cancel(handles[0]));
    drop(release);
    let (which, its_token) = ran.recv().unwrap();
    assert!(which == 1 && !wheel.is_pending(handles[1]) && !wheel.cancel(handles[1]));
    drop((its_token, token));
    wait_for(|| alive() == 0);
    assert!(ran.try_recv().is_err());
}

/// C51: `shutdown` hands back a job on its way to the pool, unless it was cancelled there.
#[test]
fn shutdown_hands_back_jobs_at_the_pool_unless_cancelled() {
    let wheel = threads(1);
    let scheduler = wheel.scheduler();
    // The only thread of the pool ends the wheel, so no other job starts before that.
    let (hand_in, wheels) = channel::<Wheel>();
    let (hand_out, unfired) = channel();
    wheel.insert(Duration::ZERO, move || {
        hand_out.send(wheels.recv().unwrap().shutdown()).unwrap();
    });
    wait_for(|| wheel.stats().in_flight == 1);
    let past = SystemTime::UNIX_EPOCH;
    let (token, alive) = counted();
    let [kept, cancelled] = [0, 1].map(|_| {
        let token = Arc::clone(&token);
        wheel.insert(past, move || drop(token))
    });
    let repeats = wheel.repeat(Repeat::irregular(), |_| Next::Stop).unwrap();
    drop(token);
    wait_for(|| wheel.stats().in_flight == 4);
    assert!(wheel.cancel(cancelled));
    hand_in.send(wheel).unwrap();
    let unfired = unfired.recv().unwrap();
    assert_eq!((unfired.len(), alive()), (2, 1));
    for job in unfired {
        assert!([kept, repeats].contains(&job.handle) && job.remaining == Duration::ZERO);
        assert!(!scheduler.cancel(job.handle), "it is not in the wheel's hands any more");
    }
}
