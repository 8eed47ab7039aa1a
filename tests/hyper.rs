//! The timer for hyper fulfils its trait, on the real clock and on a manual one.
//! A server of hyper with this timer is in `compare/with/`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tickwheel::{Driver, HyperTimer, Wheel, global, testing};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

type Boxed = Pin<Box<dyn Sleep>>;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wakes {
    fn poll(self: &Arc<Self>, sleep: &mut Boxed) -> Poll<()> {
        sleep.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn manual() -> (Wheel, Driver, HyperTimer, Arc<Wakes>) {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let timer = HyperTimer::new(&wheel);
    (wheel, driver, timer, Arc::default())
}

/// Returns the address of a sleep in memory.
fn address(sleep: &Boxed) -> *const () {
    (&raw const **sleep).cast()
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
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
    assert!(Arc::<Wakes>::default().poll(&mut timer.sleep_until(deadline)).is_ready());
    // The wheel of the process works like any other.
    let begin = now();
    futures::executor::block_on(HyperTimer::new(global::wheel()).sleep(2 * MS));
    assert!(begin.elapsed() >= 2 * MS);
}

/// C88: On a manual wheel, the driver moves the time of hyper.
#[test]
fn manual_wheel_moves_the_time_of_hyper() {
    let (_wheel, driver, timer, wakes) = manual();
    let begin = timer.now();
    assert_eq!(begin, driver.now());
    let mut after = timer.sleep(HOUR);
    let mut until = timer.sleep_until(begin + 2 * HOUR);
    assert!(wakes.poll(&mut after).is_pending() && wakes.poll(&mut until).is_pending());
    driver.advance(HOUR - MS);
    assert_eq!(wakes.count(), 0);
    driver.advance(MS);
    assert!(wakes.count() == 1 && wakes.poll(&mut after).is_ready());
    testing::run(&driver, until);
    assert_eq!(timer.now(), begin + 2 * HOUR);
}

/// C88: A reset keeps the box of the sleep, and the task that waits.
#[test]
fn reset_keeps_the_box_and_the_waker() {
    let (wheel, driver, timer, wakes) = manual();
    let begin = timer.now();
    let mut sleep = timer.sleep(10 * MS);
    let place = address(&sleep);
    assert!(wakes.poll(&mut sleep).is_pending());
    // Later, and earlier: the task that waits is woken at the new time, and not at the old one.
    timer.reset(&mut sleep, begin + 30 * MS);
    driver.advance(20 * MS);
    assert_eq!(wakes.count(), 0);
    timer.reset(&mut sleep, begin + 25 * MS);
    driver.advance(5 * MS);
    assert!(wakes.count() == 1 && wakes.poll(&mut sleep).is_ready());
    // After it was over, and before a poll.
    timer.reset(&mut sleep, begin + 40 * MS);
    assert!(wakes.poll(&mut sleep).is_pending());
    driver.advance(15 * MS);
    assert!(wakes.count() == 2 && wakes.poll(&mut sleep).is_ready());
    timer.reset(&mut sleep, begin + HOUR);
    timer.reset(&mut sleep, begin);
    assert!(wakes.poll(&mut sleep).is_ready(), "the new time has passed");
    assert_eq!((address(&sleep), wheel.stats().sleeping), (place, 0));
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
    let (_wheel, driver, timer, wakes) = manual();
    let mut sleep: Boxed = Box::pin(Never);
    timer.reset(&mut sleep, timer.now() + MS);
    assert!(wakes.poll(&mut sleep).is_pending());
    driver.advance(MS);
    assert!(wakes.count() == 1 && wakes.poll(&mut sleep).is_ready());
}

/// C88: After the end of the wheel, only those sleeps end whose time had come.
#[test]
fn sleep_of_hyper_never_ends_after_its_wheel() {
    let (wheel, driver, timer, wakes) = manual();
    let mut over = timer.sleep(MS);
    let mut waits = timer.sleep(HOUR);
    assert!(wakes.poll(&mut over).is_pending() && wakes.poll(&mut waits).is_pending());
    driver.advance(MS);
    let end = timer.now();
    drop(wheel);
    assert_eq!(wakes.count(), 2, "one for its time, the other for the end");
    assert!(wakes.poll(&mut over).is_ready());
    driver.advance(2 * HOUR);
    timer.reset(&mut over, timer.now() + HOUR);
    let mut late = timer.sleep(Duration::ZERO);
    for sleep in [&mut over, &mut waits, &mut late] {
        driver.advance(MS);
        assert!(wakes.poll(sleep).is_pending());
    }
    timer.reset(&mut waits, end);
    assert!(wakes.poll(&mut waits).is_ready(), "it had come before the end");
}
