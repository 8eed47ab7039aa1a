//! Virtual time for futures: runs a future on a manual wheel, without a runtime and without waits.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::api::driver::Driver;
use crate::host::sync::{AtomicBool, Ordering, Parker};

/// How often `run` checks whether another thread's advance has ended, or a full channel has room.
const LOOK_AT_OTHERS: Duration = Duration::from_millis(1);

/// Runs a future on this thread. Whenever the future waits, time jumps to the next timer of the
/// wheel ([`Driver::advance_to_next`]). Jobs that come due run on the way. Returns the output of the
/// future.
///
/// If no timer is pending, it waits until another thread wakes the future. If one is pending, it
/// does not wait: so a future that waits for a socket or for another thread, with a timeout, finds
/// the timeout over. Such a program runs on any executor instead, with any number of threads, and
/// moves the clock itself with [`Driver::advance`].
///
/// While another thread advances the driver, it waits for that, too. While events wait for room in
/// a full channel, it checks every millisecond whether there is room.
///
/// # Panics
///
/// If the future waits, and this is called inside an advance of the same driver: by a job that the
/// advance runs, or by a waker that it calls. Time cannot pass until that job or waker has returned.
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
        // A wake that came after the swap above, or that comes during the wait, ends the wait at once.
        match driver.advances_on() {
            Some(thread) if thread == thread::current().id() => {
                panic!("a future cannot wait inside an advance of its driver")
            }
            Some(_) => wakeup.parker.park(Some(LOOK_AT_OTHERS)),
            None if driver.advance_to_next().is_none() => {
                // No call announces that a channel has room again.
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
