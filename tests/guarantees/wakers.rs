//! The wakers of futures, which may use the wheel, on the ticker's thread too.

use super::polled::{Polled, poll_with, poll_with_captured, polled};
use super::*;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, RawWaker, RawWakerVTable};

use tickwheel::Sleep;

/// C64: The waker of the last poll is woken, and no other.
#[test]
fn last_waker_is_woken_and_no_other() {
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
        // The ticker drops a waker right after it has called it.
        time.until(|| tasks.iter().all(|task| task.clones() == 0));
        assert!(polled(&mut sleep).poll().is_ready());
    });
}

/// C68: A waker may drop, reset and make sleeps of its wheel.
#[test]
fn waker_may_use_its_wheel() {
    on_both_clocks(MS, |wheel, time| {
        // The first waker that is called resets a sleep, drops all sleeps, its own too, and registers
        // a new one.
        let sleeps: Arc<Mutex<Vec<Sleep>>> = Arc::default();
        let woken = Arc::new(AtomicUsize::new(0));
        let (token, wakers) = counted();
        for _ in 0..100 {
            let mut sleep = wheel.sleep(HOUR);
            let (all, woken, scheduler) =
                (Arc::clone(&sleeps), Arc::clone(&woken), wheel.scheduler());
            let token = Arc::clone(&token);
            poll_with(&mut sleep, move || {
                let _ = &token;
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
        // No waker is called before all sleeps exist.
        sleeps.lock().unwrap().iter_mut().for_each(|sleep| sleep.reset(5 * MS));
        drop(token);
        // The call of each waker has ended, or the waker was dropped.
        time.until(|| wakers() == 0);
        assert!(sleeps.lock().unwrap().is_empty() && wheel.stats().sleeping == 0);
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

/// C69: A waker that panics is counted and reported, and every other waker is woken.
#[test]
fn waker_that_panics_is_counted_and_spares_the_others() {
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
    // A waker whose drop panics: it is replaced, and then cancelled.
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

/// C69: A panic in the clone of a waker reaches the poll, which has changed nothing.
#[test]
fn waker_that_panics_in_its_clone_changes_nothing() {
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

/// C68: A waker may end its wheel, also on the ticker's thread.
#[test]
fn waker_may_end_its_wheel() {
    for end in [ENDS[0], ENDS[1], |wheel| _ = wheel.wait_idle()] {
        for (wheel, driver) in on_each_clock(|| Wheel::builder().name("ender")) {
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

/// C115: `shutdown_timeout` waits for a waker no longer than its limit.
#[test]
fn shutdown_timeout_waits_no_longer_for_a_waker() {
    let end: [fn(Wheel); 2] =
        [|wheel| drop(wheel), |wheel| assert_eq!(wheel.shutdown_timeout(30 * MS).len(), 1)];
    for end in end {
        let wheel = threads(1);
        wheel.insert(HOUR, || ());
        let (wait, gate) = gate();
        let wait = Mutex::new(wait);
        let mut sleep = wheel.sleep(20 * MS);
        let waker = waker(move || (wait.lock().unwrap())());
        while Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_ready() {
            // A loaded machine let the time pass before the waker was registered.
            sleep.reset(20 * MS);
        }
        gate.has_come();
        let (ended, ends) = channel();
        let ender = thread::spawn(move || {
            end(wheel);
            ended.send(()).unwrap();
        });
        assert_eq!(ends.recv_timeout(MINUTE), Ok(()));
        drop(gate);
        ender.join().unwrap();
    }
}

/// C120: `wait_idle` does not wait in a waker that a wheel calls.
#[test]
fn wait_idle_does_not_wait_in_a_waker() {
    // A waker of a wheel that ends: on the ticker's thread, and on the thread that ends the wheel.
    for on_the_ticker in [true, false] {
        let wheel = Arc::new(threads(1));
        let (wait, gate) = gate();
        wheel.every(MS, wait).unwrap();
        gate.has_come();
        let (may_ask, asks) = channel::<()>();
        let (answer, answers) = channel();
        let (own, asks) = (Arc::clone(&wheel), Mutex::new(asks));
        let mut sleep = wheel.sleep(HOUR);
        poll_with(&mut sleep, move || {
            let _ = asks.lock().unwrap().recv();
            answer.send(own.wait_idle()).unwrap();
        });
        if on_the_ticker {
            sleep.reset(MS);
            wait_for(|| sleep.is_elapsed());
        }
        let ender = Arc::clone(&wheel);
        let ender = thread::spawn(move || ender.close().len());
        wait_for(|| wheel.try_insert(HOUR, || ()).is_err());
        // The ending thread comes to the point where it waits.
        let_pass(20 * MS);
        drop(may_ask);
        assert_eq!(answers.recv_timeout(MINUTE), Ok(false), "on the ticker: {on_the_ticker}");
        drop(gate);
        assert!(ender.join().unwrap() >= 1, "the repeat comes back");
    }
}
