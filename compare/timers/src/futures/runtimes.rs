//! Tasks that sleep again and again on runtimes with one thread: tokio's current-thread runtime, and
//! smol's executor with `async-io`.
//!
//! Each task sleeps until an instant half a second after the one before. 10,000 tasks do that for
//! five seconds, evenly spread, which are 20,000 sleeps a second.
//!
//! Figures: `cpu`, the processor time of the whole process in ms; `late_p50` and `late_p99`, how
//! long after the instant the task ran, in µs; and `wakeups`, how often the system switched to a
//! thread other than the main one, for each sleep. A task that runs early fails the measurement.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use async_executor::Executor;
use harness::Fallible;
use harness::case::{Figures, figure};

use super::timer::Futures;
use crate::threads::processor::Usage;
use crate::threads::runs::quantile;

const PERIOD: Duration = Duration::from_millis(500);

/// How late tasks were in µs. A task that was early is late by less than nothing.
type Late = Arc<Mutex<Vec<f64>>>;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// On tokio's current-thread runtime, whose thread does nothing else.
pub(super) fn on_current_thread<F: Futures>(tasks: usize, short: bool) -> Fallible<Figures> {
    let runtime = ::tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    let runtime: &'static _ = Box::leak(Box::new(runtime));
    let futures = F::on(runtime);
    thread::spawn(|| runtime.block_on(pending::<()>()));
    measure(&futures, tasks, short, |task| drop(runtime.spawn(task)))
}

/// On an executor of smol, which one thread runs.
pub(super) fn on_smol<F: Futures>(tasks: usize, short: bool) -> Fallible<Figures> {
    let executor: &'static Executor<'static> = Box::leak(Box::default());
    let futures = F::on_smol(executor);
    thread::spawn(|| async_io::block_on(executor.run(pending::<()>())));
    measure(&futures, tasks, short, |task| executor.spawn(task).detach())
}

fn measure<F: Futures>(
    futures: &F,
    tasks: usize,
    short: bool,
    spawn: impl Fn(Task),
) -> Fallible<Figures> {
    let late = Late::default();
    let begin = Instant::now();
    for number in 0..tasks {
        let at = begin + PERIOD.mul_f64(1.0 + number as f64 / tasks as f64);
        spawn(Box::pin(sleep_again_and_again(futures.clone(), at, Arc::clone(&late))));
    }
    thread::sleep(2 * PERIOD);
    late.lock().expect("no task panics").clear();
    let before = Usage::now()?;
    thread::sleep(if short { PERIOD } else { 10 * PERIOD });
    let used = Usage::now()?.since(before);
    let mut late = std::mem::take(&mut *late.lock().expect("no task panics"));
    late.sort_unstable_by(f64::total_cmp);
    match late.first() {
        None => return Err("no task ran".to_owned()),
        Some(earliest) if *earliest < 0.0 => return Err(format!("a task ran {earliest} µs late")),
        Some(_) => {}
    }
    Ok(vec![
        figure("cpu", used.cpu * 1e3),
        figure("late_p50", quantile(&late, 0.5)),
        figure("late_p99", quantile(&late, 0.99)),
        figure("wakeups", (used.sleeps + used.yields) / late.len() as f64),
    ])
}

async fn sleep_again_and_again<F: Futures>(futures: F, mut at: Instant, late: Late) {
    loop {
        futures.sleep_until(at).await;
        let now = Instant::now();
        let by = now.saturating_duration_since(at).as_secs_f64()
            - at.saturating_duration_since(now).as_secs_f64();
        late.lock().expect("no task panics").push(by * 1e6);
        at += PERIOD;
    }
}
