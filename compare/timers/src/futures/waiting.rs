//! Few tasks that sleep.
//!
//! - `ticking`: one task sleeps until an instant 50 ms after the one before, for five seconds.
//!   Figures: `cpu` in per cent of one core; `late_p50` and `late_p99`, how long after the instant
//!   the task ran, in µs; `wakeups`, how often the system switched to a thread other than the
//!   measuring one, for each sleep. The period is a little more than 50 ms, so that the instants do
//!   not always lie at the same place within a tick.
//! - `blocked`: of two workers, the one that runs a task after a sleep of 50 ms is blocked for
//!   1.5 s. Meanwhile another task sleeps 200 ms. Figure: `over`, the seconds until that sleep was
//!   over and its task ran.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::tasks::Tasks;
use super::timer::Futures;
use crate::threads::processor::Usage;
use crate::threads::runs::quantile;
use crate::threads::timer::Timer;

const PERIOD: Duration = Duration::from_micros(50_137);

/// Long enough for busy threads to become idle.
const REST: Duration = Duration::from_millis(200);

pub(super) fn ticking<F: Futures>(short: bool) -> Fallible<Figures> {
    let Tasks { futures, runtime } = Tasks::<F>::start();
    let (report, late) = mpsc::channel();
    runtime.spawn(async move {
        let mut at = Instant::now();
        loop {
            at += PERIOD;
            futures.sleep_until(at).await;
            if report.send(at.elapsed()).is_err() {
                return;
            }
        }
    });
    thread::sleep(REST);
    while late.try_recv().is_ok() {}

    let (start, before) = (Instant::now(), Usage::now()?);
    thread::sleep(Duration::from_millis(if short { 200 } else { 5_000 }));
    let (elapsed, used) = (start.elapsed().as_secs_f64(), Usage::now()?.since(before));
    let mut late: Vec<f64> = late.try_iter().map(|late| late.as_secs_f64() * 1e6).collect();
    if late.is_empty() {
        return Err("the task did not run".to_owned());
    }
    late.sort_unstable_by(f64::total_cmp);
    Ok(vec![
        figure("cpu", used.cpu / elapsed * 100.0),
        figure("late_p50", quantile(&late, 0.5)),
        figure("late_p99", quantile(&late, 0.99)),
        figure("wakeups", (used.sleeps + used.yields) / late.len() as f64),
    ])
}

pub(super) fn blocked<F: Futures>(short: bool) -> Fallible<Figures> {
    let Tasks { futures, runtime } = Tasks::<F>::start();
    let blocked = Duration::from_millis(if short { 250 } else { 1_500 });
    let (report, over) = mpsc::channel();
    let blocks = futures.clone();
    let start = Instant::now();
    runtime.spawn(async move {
        futures.sleep_until(start + Duration::from_millis(200)).await;
        // The receiver is gone only if the other thread has panicked.
        let _ = report.send(start.elapsed());
    });
    runtime.spawn(async move {
        blocks.sleep_until(start + Duration::from_millis(50)).await;
        thread::sleep(blocked);
    });
    let over = over.recv_timeout(Duration::from_secs(10)).map_err(|error| error.to_string())?;
    Ok(vec![figure("over", over.as_secs_f64())])
}
