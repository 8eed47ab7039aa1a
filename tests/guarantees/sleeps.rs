//! Futures that wait for a time.

use super::*;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::task::Wake;

use futures::future::FusedFuture;
use tickwheel::Sleep;

/// A future that is polled by hand, with a waker that counts.
pub(crate) struct Polled<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn polled<F: Future>(future: F) -> Polled<F> {
    Polled { future: Box::pin(future), wakes: Arc::default() }
}

impl<F: Future> Polled<F> {
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = self.waker();
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.wakes))
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// How many clones of the waker there are beside this one.
    pub(crate) fn clones(&self) -> usize {
        Arc::strong_count(&self.wakes) - 1
    }

    /// Polls, and again whenever woken, and never else.
    #[track_caller]
    pub(crate) fn finish(&mut self, time: &Time) -> F::Output {
        loop {
            let seen = self.wakes();
            match self.poll() {
                Poll::Ready(output) => return output,
                Poll::Pending => time.until(|| self.wakes() > seen),
            }
        }
    }
}

impl<F: Future + Unpin> Polled<F> {
    pub(crate) fn get(&mut self) -> &mut F {
        &mut self.future
    }
}

/// Calls a closure when it is woken.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Polls a sleep with a waker that calls `wake`. It must not be over.
fn poll_with(sleep: &mut Sleep, wake: impl Fn() + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(Calls(wake)));
    assert!(Pin::new(sleep).poll(&mut Context::from_waker(&waker)).is_pending());
}

/// Polls a sleep with a waker that drops a value when it is dropped.
fn poll_with_captured<T: Send + Sync + 'static>(sleep: &mut Sleep, captured: T) {
    poll_with(sleep, move || {
        let _ = &captured;
    });
}

#[test]
fn a_sleep_is_never_early() {
    on_both_clocks(MS, |wheel, time| {
        for delay in [0, 1, 999, 1000, 1001, 7_300, 40_000].map(Duration::from_micros) {
            let begin = time.now();
            let mut after = polled(wheel.sleep(delay));
            let mut within = polled(wheel.sleep_within(delay, 3 * MS));
            let mut until = polled(wheel.sleep_until(begin + delay));
            for sleep in [&mut after, &mut within, &mut until] {
                assert!(sleep.get().deadline() >= begin + delay);
                sleep.finish(time);
                assert!(time.now() >= begin + delay, "{delay:?}");
            }
        }
    });
}

#[test]
fn a_sleep_is_over_at_the_first_tick_after_its_time() {
    type Make = fn(&Wheel) -> Sleep;
    let cases: [(Make, u32); 6] = [
        (|wheel| wheel.sleep(Duration::ZERO), 1),
        (|wheel| wheel.sleep(Duration::from_micros(700)), 1),
        (|wheel| wheel.sleep(Duration::from_micros(701)), 2),
        (|wheel| wheel.sleep_until(wheel.now() + 6 * MS), 7),
        (|wheel| wheel.sleep_within(5 * MS, 5 * MS), 8),
        (|wheel| wheel.sleep(300 * MS), 301),
    ];
    for (sleep, tick) in cases {
        let (wheel, driver) = manual();
        let begin = driver.now();
        driver.advance(Duration::from_micros(300));
        let mut sleep = polled(sleep(&wheel));
        assert!(sleep.poll().is_pending());
        driver.advance(tick * MS - Duration::from_micros(301));
        assert!(sleep.wakes() == 0 && sleep.poll().is_pending() && !sleep.get().is_elapsed());
        driver.advance(Duration::from_micros(1));
        assert_eq!((driver.now() - begin, sleep.wakes()), (tick * MS, 1));
        assert!(sleep.get().is_elapsed() && sleep.poll().is_ready());
    }
    // On every level, and at the edges of each.
    let edges = [255, 256, 257, 65_535, 65_536, 65_537, 1 << 24, (1 << 24) + 1];
    let (wheel, driver) = manual();
    driver.advance(77 * MS);
    let sleeps = (1..1024).chain(edges).map(|ticks| {
        let mut sleep = polled(wheel.sleep(ticks * MS));
        assert!(sleep.poll().is_pending());
        (driver.now() + ticks * MS, sleep)
    });
    let mut sleeps: Vec<_> = sleeps.collect();
    sleeps.sort_by_key(|&(at, _)| at);
    for (at, mut sleep) in sleeps {
        driver.advance((at - MS).saturating_duration_since(driver.now()));
        assert!(driver.now() == at || sleep.poll().is_pending() && sleep.wakes() == 0);
        driver.advance(at - driver.now());
        assert!(sleep.wakes() == 1 && sleep.poll().is_ready());
    }
    // The real clock can only tell that it comes.
    on_both_clocks(MS, |wheel, time| polled(wheel.sleep(3 * MS)).finish(time));
}

#[test]
fn an_instant_that_has_passed_is_over_at_once_and_a_delay_of_zero_at_the_next_tick() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(5 * MS);
        for deadline in [time.now(), time.now() - MS, time.now() - HOUR] {
            let mut sleep = polled(wheel.sleep_until(deadline));
            assert!(!sleep.get().is_elapsed(), "nobody has looked");
            assert!(sleep.poll().is_ready() && sleep.get().is_elapsed() && sleep.wakes() == 0);
        }
        let (begin, rounds) = (time.now(), 10);
        for _ in 0..rounds {
            polled(wheel.sleep(Duration::ZERO)).finish(time);
        }
        assert!(time.ticks_between(begin, time.now()) >= rounds - 1, "one a tick");
    });
}

#[test]
fn no_sleep_is_lost_between_the_look_and_the_registration() {
    // What loom shows for each interleaving of one: many, with all their machinery.
    let wheel = Wheel::builder().tick(Duration::from_micros(50)).shards(1).build().unwrap();
    let time = &Time::real();
    thread::scope(|scope| {
        for thread in 0..4 {
            let wheel = &wheel;
            scope.spawn(move || {
                for round in 0..500 {
                    let delay = Duration::from_micros((thread * 37 + round * 13) % 120);
                    polled(wheel.sleep(delay)).finish(time);
                }
            });
        }
    });
    assert_eq!(wheel.stats().sleeping, 0);
}

#[test]
fn the_last_waker_is_woken() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleep = wheel.sleep(20 * MS);
        let tasks = [0, 1, 2].map(|_| polled(core::future::pending::<()>()));
        for task in [0, 1, 1, 2, 0, 2] {
            let waker = tasks[task].waker();
            let mut cx = Context::from_waker(&waker);
            if Pin::new(&mut sleep).poll(&mut cx).is_ready() {
                // A loaded machine let the time pass.
                return;
            }
            drop(waker);
            let kept: Vec<usize> = tasks.iter().map(Polled::clones).collect();
            assert!(sleep.is_elapsed() || kept.iter().sum::<usize>() == 1 && kept[task] == 1);
        }
        time.until(|| tasks[2].wakes() == 1);
        assert_eq!((tasks[0].wakes(), tasks[1].wakes()), (0, 0));
        assert!(tasks.iter().all(|task| task.clones() == 0), "the waker was dropped");
        assert!(polled(&mut sleep).poll().is_ready());
    });
}

#[test]
fn a_sleep_may_be_polled_and_dropped_on_any_thread() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleep = polled(wheel.sleep(20 * MS));
        let dropped = polled(wheel.sleep(HOUR));
        let _ = sleep.poll();
        thread::scope(|scope| {
            let (sleep, mut dropped) = (&mut sleep, dropped);
            scope.spawn(move || {
                assert!(dropped.poll().is_pending());
                let (time, wheel) = (time.clone(), wheel);
                drop(thread::scope(|scope| scope.spawn(move || dropped).join().unwrap()));
                sleep.finish(&time);
                assert_eq!(wheel.stats().sleeping, 0);
            });
        });
    });
}

#[test]
fn a_sleep_that_is_over_stays_over() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleep = polled(wheel.sleep(MS));
        assert!(!sleep.get().is_terminated());
        sleep.finish(time);
        let wakes = sleep.wakes();
        for _ in 0..3 {
            assert!(sleep.poll().is_ready() && sleep.get().is_terminated());
            assert!(sleep.get().is_elapsed());
        }
        time.pass(5 * MS);
        assert_eq!(sleep.wakes(), wakes);
    });
}

#[test]
fn a_reset_sleep_waits_for_its_new_time() {
    on_both_clocks(MS, |wheel, time| {
        // Never polled, polled to later, polled to earlier, and after it was over.
        let far = || polled(wheel.sleep(HOUR));
        let (mut unpolled, mut later, mut earlier, mut over) =
            (far(), polled(wheel.sleep(2 * MS)), far(), polled(wheel.sleep(MS)));
        let _ = (later.poll(), earlier.poll());
        over.finish(time);
        let begin = time.now();
        for sleep in [&mut unpolled, &mut later, &mut earlier, &mut over] {
            sleep.get().reset(20 * MS);
            assert!(!sleep.get().is_terminated());
        }
        for sleep in [&mut unpolled, &mut later, &mut earlier, &mut over] {
            sleep.finish(time);
            assert!(time.now() >= begin + 20 * MS);
            assert!(sleep.get().is_terminated());
        }
        let at = time.now() + 10 * MS;
        later.get().reset_at(at);
        assert!(later.get().deadline() >= at - MS && later.get().deadline() <= at);
        later.finish(time);
        assert!(time.now() >= at);
        earlier.get().reset(Duration::MAX);
        let wakes = earlier.wakes();
        assert!(earlier.poll().is_pending());
        time.pass(5 * MS);
        assert_eq!((earlier.wakes(), wheel.stats().sleeping), (wakes, 1));
    });
}

#[test]
fn a_reset_to_the_past_is_over_at_the_next_poll_and_wakes_its_task() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(3 * MS);
        let mut polls = polled(wheel.sleep(HOUR));
        let mut waits = polled(wheel.sleep(HOUR));
        assert!(polls.poll().is_pending() && waits.poll().is_pending());
        polls.get().reset_at(time.now());
        assert!(polls.poll().is_ready());
        waits.get().reset_at(time.now() - MS);
        time.until(|| waits.wakes() == 1);
        assert!(waits.poll().is_ready());
        assert_eq!((polls.clones(), waits.clones()), (0, 0));
    });
}

#[test]
fn a_dropped_sleep_leaves_nothing_behind() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleeps: Vec<_> = (0..100).map(|n| polled(wheel.sleep(n * MS))).collect();
        assert_eq!(wheel.stats().sleeping, 0, "it has no place before it is polled");
        let wakers: Vec<_> = sleeps
            .iter_mut()
            .map(|sleep| {
                let _ = sleep.poll();
                Arc::downgrade(&sleep.wakes)
            })
            .collect();
        drop(sleeps);
        // One that fires at this moment is with the ticker, for a moment more.
        time.until(|| wakers.iter().all(|waker| waker.strong_count() == 0));
        assert_eq!(wheel.stats().sleeping, 0);
    });
}

#[test]
fn a_forgotten_sleep_fires_once_and_leaves_nothing_behind() {
    on_both_clocks(MS, |wheel, time| {
        let task = polled(core::future::pending::<()>());
        let mut sleep = wheel.sleep(2 * MS);
        let waker = task.waker();
        let _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        drop(waker);
        core::mem::forget(sleep);
        time.until(|| task.clones() == 0);
        assert_eq!(wheel.stats().sleeping, 0);
        time.pass(3 * MS);
        assert!(task.wakes() <= 1);
    });
}

#[test]
fn the_longest_sleep_is_never() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleep = polled(wheel.sleep(Duration::MAX));
        let mut within = polled(wheel.sleep_within(Duration::MAX, Duration::MAX));
        let mut nearly = polled(wheel.sleep(Duration::MAX - MS));
        let mut years = polled(wheel.sleep(10 * 365 * 24 * HOUR));
        let mut near = polled(wheel.sleep(MS));
        for sleep in [&mut sleep, &mut within, &mut nearly, &mut years] {
            assert!(sleep.poll().is_pending());
        }
        near.finish(time);
        for sleep in [&mut sleep, &mut within, &mut nearly, &mut years] {
            assert!(sleep.poll().is_pending() && sleep.wakes() == 0);
        }
        sleep.get().reset(MS);
        sleep.finish(time);
    });
    let (wheel, driver) = manual();
    let mut years = polled(wheel.sleep(10 * 365 * 24 * HOUR));
    assert!(years.poll().is_pending());
    driver.advance(10 * 365 * 24 * HOUR - MS);
    assert!(years.poll().is_pending() && years.wakes() == 0);
    driver.advance(MS);
    assert!(years.wakes() == 1 && years.poll().is_ready());
}

#[test]
fn a_full_wheel_still_sleeps() {
    let (wheel, driver) = Wheel::builder().max_pending(1).manual().unwrap();
    wheel.insert(HOUR, || ());
    let mut sleeps: Vec<_> = (0..10).map(|_| polled(wheel.sleep(MS))).collect();
    assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_pending()));
    assert_eq!((wheel.len(), wheel.stats().sleeping), (1, 10));
    assert_eq!(driver.advance(MS), 0, "a sleep is no job");
    assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_ready()));
    assert_eq!((wheel.stats().sleeping, wheel.stats().woken), (0, 10));
}

#[test]
fn jobs_that_block_hold_up_no_sleep() {
    let wheel = Wheel::builder().threads(1).max_in_flight(1).build().unwrap();
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    wheel.insert(Duration::ZERO, || ());
    let_pass(5 * MS);
    for _ in 0..5 {
        polled(wheel.sleep(MS)).finish(&Time::real());
    }
    assert_eq!(wheel.stats().pending, 1, "this one waits for room");
    drop(release);
    wheel.wait_idle();
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_only_sleeps_has_one_thread_more() {
    let wheel = Wheel::builder().threads(3).name("sleepy").build().unwrap();
    for _ in 0..5 {
        polled(wheel.sleep(MS)).finish(&Time::real());
    }
    wait_for(|| threads_named("sleepy").len() == 1);
    drop(wheel);
    wait_for(|| threads_named("sleepy").is_empty());
}

#[test]
fn a_waker_may_use_its_wheel() {
    on_both_clocks(MS, |wheel, time| {
        // The first one to be woken drops all others, itself, and resets and registers more.
        let sleeps: Arc<Mutex<Vec<Sleep>>> = Arc::default();
        let woken = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let mut sleep = wheel.sleep(5 * MS);
            let (all, woken, scheduler) =
                (Arc::clone(&sleeps), Arc::clone(&woken), wheel.scheduler());
            poll_with(&mut sleep, move || {
                woken.fetch_add(1, Ordering::SeqCst);
                let mut dropped = core::mem::take(&mut *all.lock().unwrap());
                if let Some(last) = dropped.last_mut() {
                    last.reset(Duration::ZERO);
                    last.reset(HOUR);
                }
                drop(dropped);
                let mut more = scheduler.sleep(HOUR);
                poll_with(&mut more, || ());
                assert!(!more.is_elapsed());
            });
            sleeps.lock().unwrap().push(sleep);
        }
        time.until(|| sleeps.lock().unwrap().is_empty());
        time.until(|| wheel.stats().sleeping == 0);
        assert!(woken.load(Ordering::SeqCst) >= 1);
        // The drop of a waker drops another sleep, whose waker does the same.
        let mut last = wheel.sleep(HOUR);
        poll_with(&mut last, || ());
        for _ in 0..10 {
            let mut sleep = wheel.sleep(HOUR);
            poll_with_captured(&mut sleep, last);
            last = sleep;
        }
        assert_eq!(wheel.stats().sleeping, 11);
        // A poll with another waker drops the first one.
        poll_with(&mut last, || ());
        assert_eq!(wheel.stats().sleeping, 1);
    });
    // Each function of a waker makes a sleep, polls it and drops it.
    let (wheel, driver) = manual();
    SCHEDULER.with(|scheduler| scheduler.set(Some(wheel.scheduler())));
    let uses = || Hooks { clone: use_the_wheel, wake: use_the_wheel, drop: use_the_wheel }.waker();
    let mut sleep = wheel.sleep(MS);
    pend(&mut sleep, &uses());
    pend(&mut sleep, &uses());
    driver.advance(MS);
    sleep.reset(MS);
    pend(&mut sleep, &uses());
    drop(sleep);
    assert_eq!((wheel.stats().sleeping, wheel.stats().panicked), (0, 0));
    SCHEDULER.with(|scheduler| scheduler.set(None));
}

thread_local! {
    static SCHEDULER: Cell<Option<Scheduler>> = const { Cell::new(None) };
}

fn use_the_wheel() {
    SCHEDULER.with(|cell| {
        let Some(scheduler) = cell.take() else { return };
        pend(&mut scheduler.sleep(HOUR), Waker::noop());
        cell.set(Some(scheduler));
    });
}

/// A waker that does something when it is cloned, woken, woken by reference or dropped.
struct Hooks {
    clone: fn(),
    wake: fn(),
    drop: fn(),
}

impl Hooks {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            (Hooks::of(data).clone)();
            RawWaker::new(data, &Hooks::VTABLE)
        },
        |data| (Hooks::of(data).wake)(),
        |data| (Hooks::of(data).wake)(),
        |data| (Hooks::of(data).drop)(),
    );

    fn of(data: *const ()) -> &'static Hooks {
        // SAFETY: every such waker is made in `waker`, from a reference that lives for ever.
        unsafe { &*data.cast::<Hooks>() }
    }

    fn waker(self) -> Waker {
        let hooks: &'static Hooks = Box::leak(Box::new(self));
        // SAFETY: the data is `Sync` and never freed, and the functions use nothing else.
        unsafe { Waker::from_raw(RawWaker::new(core::ptr::from_ref(hooks).cast(), &Hooks::VTABLE)) }
    }
}

const NOTHING: Hooks = Hooks { clone: || (), wake: || (), drop: || () };

fn pend(sleep: &mut Sleep, waker: &Waker) {
    assert!(Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_pending());
}

#[test]
fn a_waker_that_panics_is_counted_and_spares_the_others() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    let mut before = polled(wheel.sleep(MS));
    assert!(before.poll().is_pending());
    let mut sleep = wheel.sleep(MS);
    pend(&mut sleep, &Hooks { wake: || panic_any("woken"), ..NOTHING }.waker());
    let mut after = polled(wheel.sleep(MS));
    assert!(after.poll().is_pending());
    driver.advance(MS);
    assert_eq!(panics.try_recv(), Ok("woken"));
    assert!(before.poll().is_ready() && after.poll().is_ready() && sleep.is_elapsed());
    // One whose drop panics: replaced, and then cancelled.
    let quiet = Waker::noop();
    let bad =
        || core::mem::ManuallyDrop::new(Hooks { drop: || panic_any("dropped"), ..NOTHING }.waker());
    sleep.reset(MS);
    pend(&mut sleep, &bad());
    pend(&mut sleep, quiet);
    assert_eq!(panics.try_recv(), Ok("dropped"));
    pend(&mut sleep, &bad());
    drop(sleep);
    assert_eq!(panics.try_recv(), Ok("dropped"));
    assert_eq!((wheel.stats().sleeping, wheel.stats().panicked), (0, 3));
    // On the ticker's thread too.
    let (builder, panics) = reporting();
    let wheel = builder.build().unwrap();
    let mut sleep = wheel.sleep(MS);
    pend(&mut sleep, &Hooks { wake: || panic_any("woken"), ..NOTHING }.waker());
    assert_eq!(panics.recv_timeout(MINUTE), Ok("woken"));
    polled(wheel.sleep(MS)).finish(&Time::real());
}

#[test]
fn a_waker_that_panics_when_it_is_cloned_changes_nothing() {
    let (wheel, driver) = manual();
    let bad = Hooks { clone: || panic_any("cloned"), ..NOTHING }.waker();
    let mut sleep = wheel.sleep(MS);
    let poll = |sleep: &mut Sleep| {
        let poll = || Pin::new(sleep).poll(&mut Context::from_waker(&bad));
        let unwound = catch_unwind(AssertUnwindSafe(poll)).unwrap_err();
        assert_eq!(*unwound.downcast::<&'static str>().unwrap(), "cloned");
    };
    poll(&mut sleep);
    assert_eq!(wheel.stats().sleeping, 0);
    let task = polled(core::future::pending::<()>());
    pend(&mut sleep, &task.waker());
    poll(&mut sleep);
    driver.advance(MS);
    assert_eq!((task.wakes(), wheel.stats().panicked), (1, 0));
}

#[test]
fn a_sleep_never_ends_after_its_wheel() {
    let end: [fn(Wheel); 2] = [|wheel| drop(wheel), |wheel| drop(wheel.shutdown())];
    for end in end {
        let (wheel, driver) = manual();
        let mut waits = polled(wheel.sleep(2 * MS));
        let mut unpolled = polled(wheel.sleep(2 * MS));
        let mut due = polled(wheel.sleep(MS));
        let mut over = polled(wheel.sleep(MS));
        assert!(waits.poll().is_pending() && due.poll().is_pending() && over.poll().is_pending());
        driver.advance(MS);
        assert!(over.poll().is_ready());
        let scheduler = wheel.scheduler();
        end(wheel);
        assert_eq!((waits.wakes(), waits.clones()), (1, 0), "it is told once, and let go");
        assert!(due.poll().is_ready() && over.poll().is_ready(), "their time had come");
        let mut late = polled(scheduler.sleep(Duration::ZERO));
        driver.advance(HOUR);
        for sleep in [&mut waits, &mut unpolled, &mut late] {
            assert!(sleep.poll().is_pending() && !sleep.get().is_elapsed());
            let waker = Waker::noop();
            let elapsed = sleep.get().poll_elapsed(&mut Context::from_waker(waker));
            let Poll::Ready(Err(gone)) = elapsed else { panic!("{elapsed:?}") };
            assert!(gone.to_string().contains("ended"), "{gone}");
            sleep.get().reset(Duration::ZERO);
            assert!(sleep.poll().is_pending() && sleep.clones() == 0);
        }
        assert!(polled(scheduler.sleep_until(scheduler.now())).poll().is_ready(), "it has passed");
        assert_eq!(scheduler.stats().sleeping, 0);
        // On the real clock the time passes, and the sleep goes on.
        let wheel = threads(1);
        let mut sleep = polled(wheel.sleep(MINUTE));
        assert!(sleep.poll().is_pending());
        end(wheel);
        assert_eq!(sleep.wakes(), 1);
        sleep.get().reset(Duration::ZERO);
        let_pass(5 * MS);
        assert!(sleep.poll().is_pending() && !sleep.get().is_elapsed());
    }
}

#[test]
fn a_waker_may_end_its_wheel() {
    let end: [fn(Wheel); 3] = [
        |wheel| drop(wheel),
        |wheel| drop(wheel.shutdown()),
        |wheel| {
            wheel.wait_idle();
        },
    ];
    for end in end {
        for real in [false, true] {
            let builder = Wheel::builder().threads(1).name("ender");
            let (wheel, driver) = match real {
                true => (builder.build().unwrap(), None),
                false => {
                    let (wheel, driver) = manual();
                    (wheel, Some(driver))
                }
            };
            let mut others: Vec<_> = (0..10).map(|_| polled(wheel.sleep(HOUR))).collect();
            assert!(others.iter_mut().all(|sleep| sleep.poll().is_pending()));
            wheel.insert(HOUR, || ());
            let mut sleep = wheel.sleep(5 * MS);
            let wheel = Mutex::new(Some(wheel));
            let (ended, ends) = channel();
            poll_with(&mut sleep, move || {
                let wheel = wheel.lock().unwrap().take().unwrap();
                end(wheel);
                ended.send(()).unwrap();
            });
            driver.iter().for_each(|driver| assert_eq!(driver.advance(5 * MS), 0));
            ends.recv_timeout(MINUTE).unwrap();
            assert!(others.iter().all(|sleep| sleep.wakes() == 1));
            assert!(sleep.is_elapsed());
        }
    }
    #[cfg(target_os = "linux")]
    wait_for(|| threads_named("ender").is_empty());
}

#[test]
fn a_sleep_is_small_and_may_go_anywhere() {
    fn promised<T: Send + Sync + Unpin + FusedFuture + core::fmt::Debug>() {}
    promised::<Sleep>();
    assert!(size_of::<Sleep>() <= 64, "{}", size_of::<Sleep>());
}
