//! Futures on an executor that is as unkind as an executor may be, and on busy runtimes. `timeouts.rs` has ordinary
//! executors, and `compare/with/` has smol.
//!
//! The unkind executor runs in virtual time. When no task is runnable, it lets time jump to the
//! next timer. If there is none and a task waits, a wake was lost, and the test fails at once.

use super::polled::tokio;
use super::*;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Context;

use futures::stream::{FuturesUnordered, StreamExt};
use tickwheel::{Repeat, Sleep};

/// In which order woken tasks are polled, and when, and with which wakers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// The task that was woken last comes first.
    NewestFirst,
    /// If one task is woken, all are polled, most of them without need.
    Everyone,
    /// A woken task is polled twice, each time with a new waker. A wake by any but its last is lost.
    LastWakerOnly,
    /// Time goes on before a woken task is polled.
    Late,
}

const ORDERS: [Order; 4] = [Order::NewestFirst, Order::Everyone, Order::LastWakerOnly, Order::Late];

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;
/// Which tasks were woken, and by the waker of which poll.
type Woken = Arc<Mutex<Vec<(usize, u64)>>>;

struct TaskWaker {
    task: usize,
    poll: u64,
    woken: Woken,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().unwrap().push((self.task, self.poll));
    }
}

struct Executor {
    order: Order,
    /// Each with the waker of its last poll, and the number of its polls. `None` when it has ended.
    tasks: Vec<Option<(BoxedTask, Waker, u64)>>,
    woken: Woken,
}

impl Executor {
    fn new(order: Order) -> Executor {
        Executor { order, tasks: Vec::new(), woken: Arc::default() }
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        let waker = self.waker(self.tasks.len(), 0);
        waker.wake_by_ref();
        self.tasks.push(Some((Box::pin(task), waker, 0)));
    }

    fn waker(&self, task: usize, poll: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker { task, poll, woken: Arc::clone(&self.woken) }))
    }

    fn waiting(&self) -> usize {
        self.tasks.iter().flatten().count()
    }

    /// Polls the woken tasks. Returns whether any was woken.
    fn turn(&mut self, driver: &Driver) -> bool {
        if self.order == Order::Late && !self.woken.lock().unwrap().is_empty() {
            driver.advance(7 * MS);
        }
        let mut woken = core::mem::take(&mut *self.woken.lock().unwrap());
        let any = !woken.is_empty();
        match self.order {
            Order::NewestFirst | Order::Late => woken.reverse(),
            Order::Everyone => woken = (0..self.tasks.len()).rev().map(|task| (task, 0)).collect(),
            Order::LastWakerOnly => {}
        }
        for (task, poll) in woken {
            match &self.tasks[task] {
                Some((_, _, polls)) if self.order != Order::LastWakerOnly || *polls == poll => {}
                _ => continue,
            }
            self.poll(task);
            if self.order == Order::LastWakerOnly {
                self.poll(task);
            }
        }
        any
    }

    fn poll(&mut self, index: usize) {
        let Some((mut task, mut waker, mut polls)) = self.tasks[index].take() else { return };
        if self.order == Order::LastWakerOnly {
            polls += 1;
            waker = self.waker(index, polls);
        }
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.tasks[index] = Some((task, waker, polls));
        }
    }

    /// Runs all tasks until they have ended.
    fn run(&mut self, driver: &Driver) {
        while self.waiting() > 0 {
            if !self.turn(driver) && driver.advance_to_next().is_none() {
                panic!("{} tasks wait, and nothing wakes them: {:?}", self.waiting(), self.order);
            }
        }
    }
}

/// How long `life` takes, if every poll is in time.
fn life_takes(number: u32) -> Duration {
    (number + 5 + 3 + 5 * 4 + 2 + 6 + 7 * 3) * MS
}

/// A task that uses each kind of future.
async fn life(scheduler: Scheduler, number: u32) {
    let begin = scheduler.now();
    let delay = number * MS;
    scheduler.sleep(delay).await;
    assert!(scheduler.now() >= begin + delay);
    // A time limit that is over, and one that is not.
    assert!(scheduler.timeout(5 * MS, pending::<()>()).await.is_err());
    assert_eq!(scheduler.timeout(HOUR, scheduler.sleep(3 * MS)).await, Ok(()));
    // Each beat resets another sleep to later.
    let mut beats = scheduler.interval(Repeat::every(4 * MS)).unwrap();
    let mut idle = scheduler.sleep(HOUR);
    for _ in 0..5 {
        futures::select! {
            beat = beats.select_next_some() => assert!(beat.deadline <= scheduler.now()),
            () = idle => unreachable!("it is put off again and again"),
        }
        idle.reset(HOUR);
    }
    // Two branches, of which the first is never over.
    let never = async { (&mut idle).await };
    futures_lite::future::or(never, scheduler.sleep(2 * MS)).await;
    tokio::select! {
        biased;
        () = &mut idle => unreachable!("it is far"),
        () = scheduler.sleep(6 * MS) => {}
    }
    // Many sleeps at once, each polled with a waker of the set.
    let set: FuturesUnordered<Sleep> = (0..8).map(|n| scheduler.sleep(n * 3 * MS)).collect();
    assert_eq!(set.count().await, 8);
}

/// C71: No wake is lost, in any order in which the executor polls, and no sleep is early.
#[test]
fn wakes_survive_any_order_of_polls() {
    for order in ORDERS {
        let (wheel, driver) = manual();
        let mut executor = Executor::new(order);
        for number in 1..=40 {
            let scheduler = wheel.scheduler();
            executor.spawn(async move {
                let begin = scheduler.now();
                life(scheduler.clone(), number).await;
                let took = scheduler.now() - begin;
                // Nothing is early, and nothing is late unless its task is polled late.
                let least = life_takes(number);
                let as_it_should = if order == Order::Late { took >= least } else { took == least };
                assert!(as_it_should, "{order:?}, {number}: {took:?}, not {least:?}");
            });
        }
        executor.run(&driver);
        let stats = wheel.stats();
        assert_eq!((stats.sleeping, stats.panicked), (0, 0), "{order:?}");
    }
}

/// C71: A task that is dropped at any of its waits leaves no waker in the wheel.
#[test]
fn task_that_is_dropped_leaves_no_waker_behind() {
    for order in [Order::NewestFirst, Order::LastWakerOnly] {
        for turns in 0..30 {
            let (wheel, driver) = manual();
            let mut executor = Executor::new(order);
            (1..=3).for_each(|number| executor.spawn(life(wheel.scheduler(), number)));
            for _ in 0..turns {
                if !executor.turn(&driver) {
                    driver.advance_to_next();
                }
            }
            // The executor is dropped, and its wakers with it.
            let woken = Arc::downgrade(&executor.woken);
            drop(executor);
            assert_eq!((wheel.stats().sleeping, woken.strong_count()), (0, 0), "{turns}");
            let before = wheel.stats().woken;
            driver.advance(2 * HOUR);
            assert_eq!(wheel.stats().woken, before, "{turns}");
        }
    }
}

/// C71: When the wheel ends first, each task is woken and gets the error of its wait.
#[test]
fn wheel_that_ends_first_wakes_every_task() {
    for order in ORDERS {
        let (wheel, driver) = manual();
        let mut executor = Executor::new(order);
        for number in 1..=20 {
            let scheduler = wheel.scheduler();
            executor.spawn(async move {
                let limited = scheduler.timeout(number * HOUR, pending::<()>()).await;
                assert!(limited.unwrap_err().wheel_gone());
            });
            let mut beats = wheel.interval(Repeat::every(HOUR)).unwrap();
            executor.spawn(async move { assert!(beats.tick().await.is_none()) });
            let mut sleep = wheel.sleep(HOUR);
            executor.spawn(async move {
                assert!(poll_fn(|cx| sleep.poll_elapsed(cx)).await.is_err());
            });
        }
        while executor.turn(&driver) {}
        assert_eq!((executor.waiting(), wheel.stats().sleeping), (60, 60));
        drop(wheel);
        while executor.turn(&driver) {}
        assert_eq!(executor.waiting(), 0, "{order:?}");
    }
}

/// C71: A task that is always ready delays no sleep.
#[test]
fn task_that_never_rests_delays_no_sleep() {
    let wheel = Wheel::new();
    let over = Arc::new(AtomicBool::new(false));
    let (scheduler, sleeper) = (wheel.scheduler(), Arc::clone(&over));
    let runtime = tokio(1);
    let sleeps = runtime.spawn(async move {
        scheduler.sleep(5 * MS).await;
        sleeper.store(true, Ordering::SeqCst);
    });
    runtime.block_on(async {
        let begin = wheel.now();
        while !over.load(Ordering::SeqCst) {
            assert!(wheel.now() < begin + MINUTE);
            tokio::task::yield_now().await;
        }
        sleeps.await.unwrap();
    });
}

/// C71: A blocked worker of a runtime delays no sleep on another worker.
#[test]
fn worker_that_is_blocked_delays_no_sleep() {
    let wheel = Wheel::new();
    let runtime = tokio(2);
    let (started, starts) = channel();
    let (release, gate) = channel::<()>();
    // One of the two workers is blocked until the task on the other one has slept.
    let blocked = runtime.spawn(async move {
        started.send(()).unwrap();
        gate.recv_timeout(MINUTE).unwrap();
    });
    starts.recv().unwrap();
    let scheduler = wheel.scheduler();
    runtime.spawn(async move {
        for _ in 0..20 {
            scheduler.sleep(MS).await;
            assert!(scheduler.timeout(MS, pending::<()>()).await.is_err());
        }
        release.send(()).unwrap();
    });
    runtime.block_on(blocked).unwrap();
}
