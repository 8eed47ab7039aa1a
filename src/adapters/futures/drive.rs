//! The future that drives a wheel on an async runtime.
//!
//! Ground rules:
//!
//! - The ticker lies in its slot while user code runs: the user's function, and the user's sleep.
//! - A poll holds the future's place in the queue, and a panic of user code drops it there. So the
//!   next party goes on, also if the task catches the panic and keeps the future. The poll after
//!   that begins anew, at the end of the queue.
//! - It polls the sleep before it looks at the wheel, and once more after it has made a new one: so
//!   the sleep always has the waker of the last poll.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sleep::Sleep;
use crate::api::wheel::Wheel;
use crate::engine::dispatch::pool::PoolOutlet;
use crate::engine::ticker_slot::{NextPoll, TickerSlot};

/// Drives a wheel on an async runtime: from [`Wheel::drive`]. It is ready when the wheel has ended.
///
/// A drop gives the wheel back to its own thread. It is `Unpin`.
#[must_use = "a future does nothing until it is spawned or awaited"]
pub struct Drive<S, F> {
    wheel: Driven,
    sleep_until: S,
    /// The sleep of the runtime, until it is over.
    sleep: Option<Pin<Box<F>>>,
    /// When the latest sleep is over.
    until: Option<Instant>,
}

enum Driven {
    /// The future's place in the queue of the slot. `None` before the first poll, while a poll holds
    /// it, and after a panic.
    Slot(Arc<TickerSlot<PoolOutlet>>, Option<Place>),
    /// A wheel without a thread, which its driver advances, or one that has ended. This sleep never
    /// is over, and ends with the wheel.
    End(Sleep),
}

/// The place of a future in the queue of the slot, until it is dropped.
struct Place {
    slot: Arc<TickerSlot<PoolOutlet>>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.slot.leave(self.number);
    }
}

impl Wheel {
    /// Returns a future that drives the wheel on the async runtime on which it is spawned, in place
    /// of the wheel's own thread. `sleep_until` says how that runtime sleeps. Feature `async`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let wheel = Wheel::new();
    /// tokio::spawn(wheel.drive(|until| tokio::time::sleep_until(until.into())));
    /// wheel.sleep(Duration::from_millis(5)).await;
    /// # });
    /// ```
    ///
    /// Timers then come due on a thread of the runtime. A sleep wakes its task there, without a
    /// switch to another thread. So a program whose tasks sleep a lot uses less processor time. The
    /// wheel needs one timer of the runtime for all sleeps. Jobs still run on the wheel's pool.
    ///
    /// From the first poll on, the wheel is as punctual as the runtime. While all threads of the
    /// runtime are blocked, or the runtime is not running, no timer comes due, as with the runtime's
    /// own timers. If jobs must start in time even then, do not drive the wheel. A runtime whose
    /// timers have a granularity, such as a millisecond on tokio, adds that to the lateness.
    ///
    /// If the future is dropped, the wheel's own thread goes on at once. So it does if `sleep_until` or
    /// the sleep panics, which ends the task. (A task that catches the panic may poll the future
    /// again, which then drives anew.) If there are several such futures, the first one that was polled
    /// drives, and the others stand by. On a manual or driven wheel the future only waits for the
    /// end of the wheel.
    pub fn drive<S, F>(&self, sleep_until: S) -> Drive<S, F>
    where
        S: FnMut(Instant) -> F,
        F: Future,
    {
        let wheel = match self.ticker_slot() {
            Some(slot) => Driven::Slot(slot, None),
            None => Driven::End(self.sleep(Duration::MAX)),
        };
        Drive { wheel, sleep_until, sleep: None, until: None }
    }
}

// The function is never pinned, and the sleep is boxed.
impl<S, F> Unpin for Drive<S, F> {}

impl<S, F> Drive<S, F>
where
    S: FnMut(Instant) -> F,
    F: Future,
{
    /// Polls the sleep of the runtime, and drops it when it is over.
    fn is_sleep_over(&mut self, cx: &mut Context<'_>) -> bool {
        let is_over = |sleep: &mut Pin<Box<F>>| sleep.as_mut().poll(cx).is_ready();
        let is_over = self.sleep.as_mut().is_some_and(is_over);
        if is_over {
            self.sleep = None;
        }
        is_over
    }

    /// Makes the runtime's sleep end at `until`, unless it does already.
    fn set_sleep(&mut self, until: Instant) {
        if self.sleep.is_some() && self.until == Some(until) {
            return;
        }
        let new = (self.sleep_until)(until);
        match &mut self.sleep {
            Some(sleep) => sleep.set(new),
            None => self.sleep = Some(Box::pin(new)),
        }
        self.until = Some(until);
    }
}

impl<S, F> Future for Drive<S, F>
where
    S: FnMut(Instant) -> F,
    F: Future,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let place = match &mut this.wheel {
            Driven::End(end) => return end.poll_elapsed(cx).map(drop),
            Driven::Slot(slot, place) => place.take().unwrap_or_else(|| {
                // One that panicked, or that was kept when the function did.
                this.sleep = None;
                Place { slot: Arc::clone(slot), number: slot.join(cx.waker()) }
            }),
        };
        this.is_sleep_over(cx);
        match place.slot.poll(place.number, cx.waker()) {
            NextPoll::Never => {
                this.sleep = None;
                return Poll::Ready(());
            }
            NextPoll::WhenWoken => this.sleep = None,
            NextPoll::At(until) => {
                this.set_sleep(until);
                if this.is_sleep_over(cx) {
                    // Other tasks have a turn before the next timers.
                    cx.waker().wake_by_ref();
                }
            }
        }
        if let Driven::Slot(_, kept) = &mut this.wheel {
            *kept = Some(place);
        }
        Poll::Pending
    }
}

impl<S, F> fmt::Debug for Drive<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").finish_non_exhaustive()
    }
}
