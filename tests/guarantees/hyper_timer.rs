//! The timer for hyper fulfils its trait, on the real clock and on a manual one.
//! A server of hyper with this timer is in `compare/with/`.

use super::polled::{Polled, polled};
use super::*;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::hyper::rt::{Sleep, Timer};
use tickwheel::{HyperTimer, global, testing};

type Boxed = Pin<Box<dyn Sleep>>;

fn with_timer() -> (Wheel, Driver, HyperTimer) {
    let (wheel, driver) = manual();
    let timer = HyperTimer::new(&wheel);
    (wheel, driver, timer)
}

/// Returns the address of a sleep in memory.
fn address(sleep: &mut Polled<Boxed>) -> *const () {
    (&raw const **sleep.get()).cast()
}

/// C88: A sleep of `HyperTimer` is never early on the real clock.
#[test]
fn sleeps_on_the_real_clock_are_never_early() {
    let wheel = Wheel::new();
    let timer: Arc<dyn Timer + Send + Sync> = Arc::new(HyperTimer::new(&wheel));
    let begin = now();
    futures::executor::block_on(timer.sleep(5 * MS));
    assert!(begin.elapsed() >= 5 * MS);
    let deadline = timer.now() + 5 * MS;
    assert!(deadline >= begin + 10 * MS);
    let mut sleep = timer.sleep_until(deadline);
    futures::executor::block_on(sleep.as_mut());
    assert!(now() >= deadline && timer.now() >= deadline);
    // A deadline that has passed is over at the first poll, as hyper expects of a timer.
    assert!(polled(timer.sleep_until(deadline)).poll().is_ready());
    // The wheel of the process works like any other.
    let begin = now();
    futures::executor::block_on(HyperTimer::new(global::wheel()).sleep(2 * MS));
    assert!(begin.elapsed() >= 2 * MS);
}

/// C88: On a manual wheel, the driver moves the time of hyper.
#[test]
fn manual_wheel_moves_the_time_of_hyper() {
    let (_wheel, driver, timer) = with_timer();
    let begin = timer.now();
    assert_eq!(begin, driver.now());
    let mut after = polled(timer.sleep(HOUR));
    let mut until = polled(timer.sleep_until(begin + 2 * HOUR));
    assert!(after.poll().is_pending() && until.poll().is_pending());
    driver.advance(HOUR - MS);
    assert_eq!((after.wakes(), until.wakes()), (0, 0));
    driver.advance(MS);
    assert!((after.wakes(), until.wakes()) == (1, 0) && after.poll().is_ready());
    testing::run(&driver, until.get());
    assert_eq!(timer.now(), begin + 2 * HOUR);
}

/// C88: A reset keeps the box of the sleep, and the task that waits.
#[test]
fn reset_keeps_the_box_and_the_waker() {
    let (wheel, driver, timer) = with_timer();
    let begin = timer.now();
    let mut sleep = polled(timer.sleep(10 * MS));
    let place = address(&mut sleep);
    assert!(sleep.poll().is_pending());
    // Later, and earlier: the task that waits is woken at the new time, and not at the old one.
    timer.reset(sleep.get(), begin + 30 * MS);
    driver.advance(20 * MS);
    assert_eq!(sleep.wakes(), 0);
    timer.reset(sleep.get(), begin + 25 * MS);
    driver.advance(5 * MS);
    assert!(sleep.wakes() == 1 && sleep.poll().is_ready());
    // After it was over, and before a poll.
    timer.reset(sleep.get(), begin + 40 * MS);
    assert!(sleep.poll().is_pending());
    driver.advance(15 * MS);
    assert!(sleep.wakes() == 2 && sleep.poll().is_ready());
    timer.reset(sleep.get(), begin + HOUR);
    timer.reset(sleep.get(), begin);
    assert!(sleep.poll().is_ready(), "the new time has passed");
    assert_eq!((address(&mut sleep), wheel.stats().sleeping), (place, 0));
}

/// C88: A reset replaces the sleep of another timer by one of this wheel.
#[test]
fn reset_replaces_a_sleep_of_another_timer() {
    struct Never;
    impl Sleep for Never {}
    impl Future for Never {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    let (_wheel, driver, timer) = with_timer();
    let mut sleep = polled(Box::pin(Never) as Boxed);
    timer.reset(sleep.get(), timer.now() + MS);
    assert!(sleep.poll().is_pending());
    driver.advance(MS);
    assert!(sleep.wakes() == 1 && sleep.poll().is_ready());
}

/// C88: After the end of the wheel, only those sleeps end whose time had come before it.
#[test]
fn sleep_of_hyper_never_ends_after_its_wheel() {
    let (wheel, driver, timer) = with_timer();
    let (mut over, mut waits) = (polled(timer.sleep(MS)), polled(timer.sleep(HOUR)));
    assert!(over.poll().is_pending() && waits.poll().is_pending());
    driver.advance(MS);
    let end = timer.now();
    drop(wheel);
    assert!(over.poll().is_ready());
    driver.advance(2 * HOUR);
    timer.reset(over.get(), timer.now() + HOUR);
    let mut late = polled(timer.sleep(Duration::ZERO));
    driver.advance(2 * HOUR);
    for sleep in [&mut over, &mut waits, &mut late] {
        assert!(sleep.poll().is_pending());
    }
    timer.reset(waits.get(), end);
    assert!(waits.poll().is_ready(), "its time had come before the end");
}
