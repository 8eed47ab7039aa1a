//! The cost of timers while nothing, or hardly anything, is due.
//!
//! - `idle`: many jobs are pending, an hour away, for some time. Figures: `wakeups`, how often the
//!   system switched to a thread other than the measuring one; `sleeps`, how many of these threads
//!   had been asleep (the others had given way to another thread, by themselves or not); and `cpu`
//!   in ms.
//! - `ticking`: one job at a time, every 50 ms for ten seconds, each inserts the next. Figures:
//!   `cpu` in per cent of one core, `wakeups` and `sleeps`.
//! - `heap`: a million pending jobs that capture 16 bytes. Figures: `bytes`, the resident memory of
//!   each; `bytes_after`, what is left of that when all are cancelled, and `bytes_again` when as
//!   many new ones are pending then. The allocator keeps memory that was freed in small pieces. So
//!   `bytes_after` does not show whether a peer frees cancelled jobs: it does if `bytes_again` is
//!   no more than `bytes`. The memory for the handles is there before the first reading.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::processor::{Usage, resident};
use super::timer::Timer;

const HOUR: Duration = Duration::from_secs(3600);

const PERIOD: Duration = Duration::from_millis(50);

pub(super) fn time(short: bool) -> Duration {
    Duration::from_millis(if short { 500 } else { 10_000 })
}

/// Long enough for busy threads to become idle.
const REST: Duration = Duration::from_millis(200);

pub(crate) fn idle<T: Timer>(timers: usize, time: Duration) -> Fallible<Figures> {
    let mut timer = T::start();
    let start = Instant::now();
    let _jobs: Vec<T::Job> = (0..timers)
        .map(|number| {
            let at = start + HOUR + Duration::from_micros(number as u64 * 100);
            timer.insert_at(at, capture(number))
        })
        .collect();
    timer.settle();
    thread::sleep(REST);

    let before = Usage::now()?;
    thread::sleep(time);
    let used = Usage::now()?.since(before);
    Ok(vec![
        figure("wakeups", used.sleeps + used.yields),
        figure("sleeps", used.sleeps),
        figure("cpu", used.cpu * 1e3),
    ])
}

pub(super) fn ticking<T: Timer>(short: bool) -> Fallible<Figures> {
    let timer = T::start();
    let ticks = Arc::new(AtomicUsize::new(0));
    tick(timer.clone(), Instant::now(), Arc::clone(&ticks));
    thread::sleep(REST);

    let (start, before) = (Instant::now(), Usage::now()?);
    let ticks_before = ticks.load(Ordering::Relaxed);
    thread::sleep(time(short));
    let (elapsed, used) = (start.elapsed().as_secs_f64(), Usage::now()?.since(before));
    let ticked = ticks.load(Ordering::Relaxed) - ticks_before;
    let expected = elapsed / PERIOD.as_secs_f64();
    // The chain has no end of its own: it ends with the process. In a short measurement on a busy
    // machine it may well be late.
    if !short && (ticked as f64) < expected * 0.9 {
        return Err(format!("ticked {ticked} times instead of {expected}"));
    }
    Ok(vec![
        figure("cpu", used.cpu / elapsed * 100.0),
        figure("wakeups", used.sleeps + used.yields),
        figure("sleeps", used.sleeps),
    ])
}

/// Runs one tick, and inserts the next one period after this one's deadline.
fn tick<T: Timer>(mut timer: T, at: Instant, ticks: Arc<AtomicUsize>) {
    ticks.fetch_add(1, Ordering::Relaxed);
    let (next, next_timer) = (at + PERIOD, timer.clone());
    T::forget(timer.insert_at(next, move || tick(next_timer, next, ticks)));
}

pub(super) fn heap<T: Timer>(timers: usize) -> Fallible<Figures> {
    let mut timer = T::start();
    timer.settle();
    let at = Instant::now() + HOUR;
    let mut jobs: Vec<Option<T::Job>> = (0..timers).map(|_| None).collect();
    black_box(&mut jobs);
    let empty = resident()?;

    let fill = |timer: &mut T, jobs: &mut [Option<T::Job>]| {
        for (number, job) in jobs.iter_mut().enumerate() {
            let at = at + Duration::from_micros(number as u64 * 100);
            *job = Some(timer.insert_at(at, capture(number)));
        }
        timer.settle();
        thread::sleep(REST);
        resident()
    };
    let full = fill(&mut timer, &mut jobs)?;

    for job in jobs.iter_mut().filter_map(Option::take) {
        assert!(timer.cancel_job(job), "a job was gone");
    }
    timer.settle();
    thread::sleep(REST);
    let after = resident()?;
    let again = fill(&mut timer, &mut jobs)?;

    let each = |bytes: f64| (bytes - empty) / timers as f64;
    Ok(vec![
        figure("bytes", each(full)),
        figure("bytes_after", each(after)),
        figure("bytes_again", each(again)),
    ])
}

/// A job that captures 16 bytes.
fn capture(number: usize) -> impl FnOnce() + Send + 'static {
    let captured = [number, !number];
    move || {
        black_box(captured);
    }
}
