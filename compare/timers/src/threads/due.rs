//! A million closures that come due.
//!
//! - `spread`: their deadlines lie evenly over two seconds. Figures: how late they ran, `p50`,
//!   `p99`, `p999`, `max` in ms; `early`, how many ran before their deadline; `cpu`, the process'
//!   processor time in s from the first deadline to the last run, and `cpu_all`, that with the
//!   inserting.
//! - `burst`: all are due at the same instant. Figures in ms: `done`, from the deadline until the
//!   last has run; `longest_wait` and `wait_p999`, how long single calls took of a thread that
//!   meanwhile went on to set timeouts and to cancel them. In a second burst, a thread does nothing
//!   but read the clock. `longest_gap` is the longest time between two readings: the scheduler
//!   takes that from any thread.
//!
//! All are inserted by one thread, well before the first deadline. A deadline is fixed before its
//! insert.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::processor::Usage;
use super::runs::{Runs, quantile};
use super::timer::Timer;

/// How often the main thread looks whether all have run.
const LOOK: Duration = Duration::from_millis(2);

/// A prime. Multiples of it put the deadlines into an order that is far from sorted.
const STRIDE: usize = 611_953;

/// How long the inserting may take.
fn head_start(short: bool) -> Duration {
    Duration::from_millis(if short { 500 } else { 2_000 })
}

pub(crate) fn spread<T: Timer>(timers: usize, short: bool) -> Fallible<Figures> {
    let range = Duration::from_millis(if short { 200 } else { 2_000 });
    let mut timer = T::start();
    let runs = Runs::new(timers);
    let before = Usage::now()?;

    let first = Instant::now() + head_start(short);
    for number in 0..timers {
        let place = number * STRIDE % timers;
        let at = first + range.mul_f64(place as f64 / timers as f64);
        T::forget(timer.insert_at(at, move || runs.record(place, at)));
    }
    sleep_until(first)?;
    let inserted = Usage::now()?;
    runs.wait(first + range, LOOK)?;
    let after = Usage::now()?;

    let late = runs.sorted_millis();
    Ok(vec![
        figure("p50", quantile(&late, 0.5)),
        figure("p99", quantile(&late, 0.99)),
        figure("p999", quantile(&late, 0.999)),
        figure("max", quantile(&late, 1.0)),
        figure("early", late.partition_point(|&late| late < 0.0) as f64),
        figure("cpu", after.since(inserted).cpu),
        figure("cpu_all", after.since(before).cpu),
    ])
}

pub(crate) fn burst<T: Timer>(timers: usize, short: bool) -> Fallible<Figures> {
    let mut timer = T::start();
    let (done, mut waits) = burst_beside(&mut timer, timers, short, |timer, going_on| {
        let mut waits = Vec::with_capacity(1 << 23);
        // At least once, because a short burst may be over already.
        loop {
            let before = Instant::now();
            let timeout = timer.timeout(Duration::from_secs(30), 7);
            let between = Instant::now();
            assert!(timer.cancel(timeout), "a timeout was gone");
            let after = Instant::now();
            waits.extend([millis(between - before), millis(after - between)]);
            if !going_on() {
                return waits;
            }
        }
    })?;
    let (_, gaps) = burst_beside(&mut timer, timers, short, |_, going_on| {
        let (mut longest, mut clock) = (0.0_f64, Instant::now());
        while going_on() {
            let now = Instant::now();
            longest = longest.max(millis(now - clock));
            clock = now;
        }
        vec![longest]
    })?;
    waits.sort_unstable_by(f64::total_cmp);
    Ok(vec![
        figure("done", done),
        figure("longest_wait", quantile(&waits, 1.0)),
        figure("wait_p999", quantile(&waits, 0.999)),
        figure("longest_gap", gaps.iter().copied().fold(0.0, f64::max)),
    ])
}

/// Lets all jobs come due at once. From the deadline on `beside` runs on a thread of its own, for
/// as long as its argument says. Returns how long after the deadline the last job ran, in ms, and
/// the result of `beside`.
fn burst_beside<T: Timer>(
    timer: &mut T,
    timers: usize,
    short: bool,
    beside: impl FnOnce(&mut T, &dyn Fn() -> bool) -> Vec<f64> + Send,
) -> Result<(f64, Vec<f64>), String> {
    let runs = Runs::new(timers);
    let over = AtomicBool::new(false);
    let at = Instant::now() + head_start(short);
    for number in 0..timers {
        T::forget(timer.insert_at(at, move || runs.record(number, at)));
    }
    let other = timer.clone();
    thread::scope(|scope| {
        let going_on = || !over.load(Ordering::Relaxed);
        let found = scope.spawn(move || {
            // A sleep may end late, so the last part of the wait is a loop.
            let nearly = at - Duration::from_millis(5);
            thread::sleep(nearly.saturating_duration_since(Instant::now()));
            while Instant::now() < at {}
            other.within(|| beside(&mut other.clone(), &going_on))
        });
        let all_ran = sleep_until(at).and_then(|()| runs.wait(at, LOOK));
        over.store(true, Ordering::Relaxed);
        let found = found.join().map_err(|_| "the thread beside panicked")?;
        all_ran?;
        let late = runs.sorted_millis();
        Ok((quantile(&late, 1.0), found))
    })
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Sleeps until `at`, which must not have passed.
fn sleep_until(at: Instant) -> Result<(), String> {
    let left = at.checked_duration_since(Instant::now());
    thread::sleep(left.ok_or("the inserting took longer than its head start")?);
    Ok(())
}
