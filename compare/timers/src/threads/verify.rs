//! Checks the rules of a timer under light load: no job is early or lost, none runs twice, and none
//! runs that was cancelled in time.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::runs::Runs;
use super::timer::Timer;

const TIMERS: usize = 2_000;

/// One job in this number is cancelled.
const CANCELLED: usize = 4;

/// A job that is nearly due may rightly run before its cancel, so such jobs are not cancelled.
const FAR: Duration = Duration::from_millis(100);

/// The pause between two inserts.
const PAUSE: Duration = Duration::from_micros(200);

/// "exact", or what was found.
pub(crate) fn verify<T: Timer>() -> String {
    let mut timer = T::start();
    let runs = Runs::new(TIMERS);
    let mut random = Rng::with_seed(0);
    let (mut last, mut kept, mut refused) = (Instant::now(), Vec::new(), 0);
    for number in 0..TIMERS {
        let delay = Duration::from_micros(1_000 + random.u64(..299_001));
        let at = Instant::now() + delay;
        last = last.max(at);
        let job = timer.insert_at(at, move || runs.record(number, at));
        thread::sleep(PAUSE);
        let keep = number % CANCELLED > 0 || delay < FAR;
        if keep {
            T::forget(job);
        } else if !timer.cancel_job(job) {
            refused += 1;
        }
        kept.push(keep);
    }
    thread::sleep(last.saturating_duration_since(Instant::now()) + Duration::from_secs(1));
    verdict(runs, &kept, refused)
}

fn verdict(runs: &Runs, kept: &[bool], refused: usize) -> String {
    let count = |was_kept: bool, has_run: bool| {
        let jobs = kept.iter().enumerate();
        jobs.filter(|&(job, &keep)| keep == was_kept && runs.has_run(job) == has_run).count()
    };
    let late = runs.sorted_millis();
    let early = late.partition_point(|&late| late < 0.0);
    let (lost, not_cancelled) = (count(true, false), count(false, true));

    let mut found = Vec::new();
    if early > 0 {
        found.push(format!("{early} early, by up to {:.3} ms", -late[0]));
    }
    for (number, what) in [
        (lost, "lost"),
        (runs.twice(), "run twice"),
        (not_cancelled, "run though cancelled"),
        (refused, "not cancelled, though far from due"),
    ] {
        if number > 0 {
            found.push(format!("{number} {what}"));
        }
    }
    if found.is_empty() { "exact".to_owned() } else { found.join(", ") }
}
