//! Tasks that repeat one operation on sleeps, none of which comes due.
//!
//! - `ready`: a timeout round a future that is ready at its first poll.
//! - `once`: a sleep of 30 s is made, polled once and dropped.
//! - `outstanding`: each task has 100,000 sleeps pending, drops a random one, and makes and polls
//!   another in its place.
//! - `reset`, `reset_at`: a pending sleep is reset to 30 s from now, or to an instant that the task
//!   has computed already, and polled.
//!
//! The size is the number of tasks, each on a worker of its own. The figure is `rate`: millions a
//! second, all tasks together.
//!
//! A task yields after each batch, as tokio wants it, and wakes itself; the figures of all peers
//! include that. Counting begins once all tasks have run for a while.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ::tokio::task::unconstrained;

use fastrand::Rng;
use harness::Fallible;
use harness::case::{Figures, figure};

use super::timer::Futures;
use crate::threads::runs::{Lap, rate};

/// None of the sleeps comes due.
const DELAY: Duration = Duration::from_secs(30);

/// The number of operations between two checks whether to stop.
const BATCH: usize = 64;

/// How a work is measured.
#[derive(Clone, Copy)]
pub(super) struct Race {
    pub(super) tasks: usize,
    /// Whether sleeps are polled with a waker that does nothing.
    pub(super) noop: bool,
    pub(super) short: bool,
}

pub(super) fn ready<F: Futures>(race: Race) -> Fallible<Figures> {
    race.run(|futures: F, _, _: &mut Context<'_>| {
        move |cx: &mut Context<'_>| {
            for number in 0..BATCH as u64 {
                assert!(futures.ready(DELAY, number, cx), "it was ready");
            }
        }
    })
}

pub(super) fn once<F: Futures>(race: Race) -> Fallible<Figures> {
    race.run(|futures: F, _, _: &mut Context<'_>| {
        move |cx: &mut Context<'_>| {
            for _ in 0..BATCH {
                assert!(futures.once(DELAY, cx), "the delay lies ahead");
            }
        }
    })
}

/// A sleep in its place, which another can take without an allocation.
type Slot<S> = Pin<Box<Option<S>>>;

pub(super) fn outstanding<F: Futures>(race: Race) -> Fallible<Figures> {
    let pending = if race.short { 1_000 } else { 100_000 };
    race.run(move |futures: F, task, cx: &mut Context<'_>| {
        let mut random = Rng::with_seed(task as u64);
        let mut slots: Vec<Slot<F::Sleep>> = (0..pending).map(|_| Box::pin(None)).collect();
        let replace = move |slot: &mut Slot<F::Sleep>, extra: u64, cx: &mut Context<'_>| {
            slot.set(None);
            slot.set(Some(futures.sleep(DELAY + Duration::from_millis(extra))));
            assert!(is_pending(slot, cx), "the delay lies ahead");
        };
        for slot in &mut slots {
            replace(slot, random.u64(..30_000), cx);
        }
        move |cx: &mut Context<'_>| {
            for _ in 0..BATCH {
                let slot = random.usize(..pending);
                replace(&mut slots[slot], random.u64(..30_000), cx);
            }
        }
    })
}

pub(super) fn reset<F: Futures>(race: Race) -> Fallible<Figures> {
    race.run(|futures: F, _, cx: &mut Context<'_>| {
        let mut slot = pending(futures.sleep(DELAY), cx);
        move |cx: &mut Context<'_>| {
            for _ in 0..BATCH {
                futures.reset(in_slot(&mut slot), DELAY);
                assert!(is_pending(&mut slot, cx), "the delay lies ahead");
            }
        }
    })
}

pub(super) fn reset_at<F: Futures>(race: Race) -> Fallible<Figures> {
    race.run(|futures: F, _, cx: &mut Context<'_>| {
        let mut slot = pending(futures.sleep(DELAY), cx);
        let mut at = Instant::now() + DELAY;
        move |cx: &mut Context<'_>| {
            for _ in 0..BATCH {
                at += Duration::from_nanos(100);
                futures.reset_at(in_slot(&mut slot), at);
                assert!(is_pending(&mut slot, cx), "the instant lies ahead");
            }
        }
    })
}

fn pending<S: Future>(sleep: S, cx: &mut Context<'_>) -> Slot<S> {
    let mut slot = Box::pin(Some(sleep));
    assert!(is_pending(&mut slot, cx), "the delay lies ahead");
    slot
}

fn in_slot<S>(slot: &mut Slot<S>) -> Pin<&mut S> {
    slot.as_mut().as_pin_mut().expect("the slot is full")
}

fn is_pending<S: Future>(slot: &mut Slot<S>, cx: &mut Context<'_>) -> bool {
    in_slot(slot).poll(cx).is_pending()
}

/// The state that the tasks share with the thread that measures.
#[derive(Default)]
struct Flags {
    begun: AtomicUsize,
    count: AtomicBool,
    stop: AtomicBool,
}

impl Race {
    /// Has each task repeat the batch that `make` makes for it.
    fn run<F: Futures, B: FnMut(&mut Context<'_>) + Send + 'static>(
        self,
        make: impl Fn(F, usize, &mut Context<'_>) -> B + Clone + Send + 'static,
    ) -> Fallible<Figures> {
        let [first, then] = if self.short { [1, 10] } else { [150, 350] };
        let runtime = F::runtime(self.tasks);
        let (futures, flags) = (F::on(&runtime), Arc::new(Flags::default()));
        let spawn = |task| {
            let (make, futures, flags) = (make.clone(), futures.clone(), Arc::clone(&flags));
            let make = move |cx: &mut Context<'_>| make(futures, task, cx);
            runtime.spawn(unconstrained(self.lap(make, flags)))
        };
        let tasks: Vec<_> = (0..self.tasks).map(spawn).collect();
        while flags.begun.load(Ordering::Relaxed) < self.tasks {
            thread::sleep(Duration::from_millis(1));
            if tasks.iter().any(|task| task.is_finished()) {
                return Err("a task panicked".to_owned());
            }
        }
        thread::sleep(Duration::from_millis(first));
        flags.count.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(then));
        flags.stop.store(true, Ordering::Relaxed);

        let laps = tasks.into_iter().map(|task| runtime.block_on(task));
        let laps: Result<Vec<Lap>, _> = laps.collect();
        // The end of the runtime is not measured, and the process ends sooner without it.
        std::mem::forget(runtime);
        Ok(vec![figure("rate", rate(&laps.map_err(|error| error.to_string())?))])
    }

    /// A task that repeats a batch until the stop. If it got no turn while operations were counted,
    /// it counts none.
    async fn lap<B: FnMut(&mut Context<'_>)>(
        self,
        make: impl FnOnce(&mut Context<'_>) -> B,
        flags: Arc<Flags>,
    ) -> Lap {
        let (mut make, mut batch) = (Some(make), None);
        let (mut start, mut operations) = (None, 0);
        poll_fn(move |cx| {
            let waker = if self.noop { Waker::noop() } else { cx.waker() };
            let polled_with = &mut Context::from_waker(waker);
            if let Some(make) = make.take() {
                batch = Some(make(polled_with));
                flags.begun.fetch_add(1, Ordering::Relaxed);
            }
            if flags.stop.load(Ordering::Relaxed) {
                let end = Instant::now();
                return Poll::Ready(Lap { operations, start: start.unwrap_or(end), end });
            }
            if start.is_none() && flags.count.load(Ordering::Relaxed) {
                start = Some(Instant::now());
            }
            if let Some(batch) = &mut batch {
                batch(polled_with);
            }
            operations += if start.is_some() { BATCH } else { 0 };
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}
