//! Virtual time for a future: no runtime, and no wait.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::api::driver::Driver;
use crate::host::sync::{AtomicBool, Ordering, Parker};

/// How often a future that waits for another thread's advance looks whether that has ended.
const LOOK_AT_OTHERS: Duration = Duration::from_millis(1);

/// Runs a future on this thread, and lets time jump whenever the future waits: to the next timer of
/// the wheel ([`Driver::advance_to_next`]). Jobs that come due run on the way. Returns what the
/// future returns.
///
/// When no timer is left to wait for, it waits until another thread wakes the future. While there
/// is one, it does not: a future that waits for a socket or for another thread, and for a timer
/// too, finds that the time is over. Such a program lets time pass by [`Driver::advance`], when it
/// is ready for that: on any executor and with any number of threads time stands until it is told.
///
/// While another thread advances the driver, it waits for that, too.
///
/// While events wait for room in a full channel, it looks every millisecond whether there is some.
///
/// # Panics
///
/// If the future waits, and this is called inside an advance of the same driver: by a job that it
/// runs, or by a waker that it calls. Time does not pass until that has returned.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Wheel, testing};
///
/// let (wheel, driver) = Wheel::builder().manual()?;
/// let begin = driver.now();
/// let year = Duration::from_secs(365 * 24 * 3600);
/// let slow = async { wheel.sleep(year).await };
/// let limited = testing::run(&driver, wheel.timeout(year / 2, slow));
/// assert!(limited.is_err());
/// assert_eq!(driver.now() - begin, year / 2);
/// # Ok::<(), tickwheel::ConfigError>(())
/// ```
pub fn run<F: Future>(driver: &Driver, future: F) -> F::Output {
    let mut future = pin!(future);
    let wakeup = Arc::new(Wakeup { woken: AtomicBool::new(true), parker: Parker::new() });
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut cx = Context::from_waker(&waker);
    loop {
        if wakeup.woken.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            continue;
        }
        // A wake that comes meanwhile, or has come before, ends the wait at once.
        match driver.advances_on() {
            Some(thread) if thread == thread::current().id() => {
                panic!("a future cannot wait inside an advance of its driver")
            }
            Some(_) => wakeup.parker.park(Some(LOOK_AT_OTHERS)),
            None if driver.advance_to_next().is_none() => {
                // Nobody tells when there is room in a channel again.
                let limit = driver.has_pending_events().then_some(LOOK_AT_OTHERS);
                wakeup.parker.park(limit);
            }
            None => {}
        }
    }
}

struct Wakeup {
    woken: AtomicBool,
    parker: Parker,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.parker.wake();
    }
}
