//! The sleep: a future that is over when its time has come.
//!
//! Ground rules:
//!
//! - A sleep takes no place in the wheel until it is polled. Then it holds the key of its waker in the shard of the
//!   thread that made it or reset it last, whichever thread polls or drops it.
//! - A sleep that was made for a delay never reads the clock again. One that was made for an instant, or reset to one,
//!   reads it once, at its next poll: the instant may have passed.
//! - A sleep is over when the shard or the clock says so; nothing else ends it. After the end of the wheel the clock
//!   does not count: a sleep whose tick had begun by then is over, and no other ever is, whether or not it was polled
//!   before.
//! - Each thread keeps the reference to one shard at hand ([`ShardRef`]). A thread that makes and drops one sleep after
//!   the other reuses it, and does not write to the reference count. This saves two atomic additions for each sleep.
//! - The reference at hand keeps the memory of one shard, perhaps of a wheel that has ended, until the thread makes or
//!   drops a sleep of another shard, or ends.

use core::cell::Cell;
use core::fmt;
use core::future::Future;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::FusedFuture;

use super::WheelGone;
use crate::engine::wakers::{Registration, Reset, Wait, WakerShard};
use crate::host::clock::Clock;
use crate::values::time::{Moment, Tick, Window};

/// A future that is over once a delay has passed, or when an instant has come: from
/// [`Wheel::sleep`](crate::Wheel::sleep), [`Scheduler::sleep`](crate::Scheduler::sleep) or
/// [`global::sleep`](crate::global::sleep).
///
/// It needs no runtime, and it is `Unpin`: it can be awaited by `&mut`, kept in a struct, moved
/// between tasks and threads, and polled in `select!` without being pinned or fused. A sleep that is
/// dropped or leaked leaves nothing in the wheel after its time has come.
///
/// # Costs
///
/// The lock is that of a shard of wakers, which few threads share. Nothing is boxed. The shard grows
/// as more sleeps wait. It frees the memory of a burst, and keeps a little for the next sleeps.
///
/// | | locks | readings of the clock |
/// | --- | --- | --- |
/// | made for a delay | 0 | 1 |
/// | made for an instant | 0 | 0 |
/// | the first poll | 1; 0 if its tick is finished | 0 |
/// | the first poll after an instant was given | 1; 1 or 2 if it has passed | 1; 0 after most calls of `reset_at` |
/// | a poll with the same waker as the last one | 0; 1 once the tick has begun | 0 |
/// | a poll with another waker | 2 | 0 |
/// | the poll that finds it over | 1 | 0 |
/// | a poll after that | 0 | 0 |
/// | [`is_elapsed`](Sleep::is_elapsed) | 0; 1 once the tick has begun | 0 |
/// | [`reset`](Sleep::reset), if it was polled and was not over then | 1, or 2 from another thread than before; otherwise 0 | 1 |
/// | [`reset_at`](Sleep::reset_at), in the same case | the same | 0 |
/// | a drop, in the same case | 1; otherwise 0 | 0 |
///
/// Once over, a sleep stays over until a [reset](Sleep::reset), however often it is polled.
///
/// # The end of the wheel
///
/// A sleep whose time had not come when its wheel ended **never ends**: it must not be early, and a
/// panic would hide why the wheel ended. [`Sleep::poll_elapsed`] returns an error then, and so does
/// a [`Timeout`](crate::Timeout). When the wheel ends, a task that waits is woken once.
///
/// # Wakers
///
/// The task is woken on the ticker's thread; on a thread of the runtime that drives the wheel
/// ([`Wheel::drive`](crate::Wheel::drive)); or on the thread that calls
/// [`Driver::advance`](crate::Driver::advance) or [`LoopDriver::run_due`](crate::LoopDriver::run_due).
/// A waker that blocks, or that runs its task itself, delays the whole wheel.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    shard: ShardRef,
    deadline: Moment,
    /// The first tick at or after the deadline, or a later one within the slack.
    tick: Tick,
    /// The waker that was registered. The shard knows whether it still waits, has fired, or the wheel
    /// has ended. `None` if it is not in the wheel, and once the sleep is over.
    registered: Option<Registration>,
    next_poll: NextPoll,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NextPoll {
    /// Asks the shard.
    AskShard,
    /// Asks the clock first whether the deadline has passed: it may have, even before it was set.
    AskForDeadline,
    /// Asks the clock first whether the tick has begun. The shard knows that only once the ticker
    /// has reached the tick.
    AskForTick,
    /// Returns that it is over.
    IsOver,
}

// Promised to users, who may hold many sleeps in their structs.
const _: () = assert!(size_of::<Sleep>() <= 64);
const _: () = {
    const fn promised<T: Send + Sync + Unpin>() {}
    promised::<Sleep>();
};

impl Sleep {
    pub(super) fn after(shard: &Arc<WakerShard>, delay: Duration, window: Window) -> Sleep {
        let timebase = shard.timebase();
        let now = timebase.clock().now();
        let deadline = now.plus(delay);
        let tick = timebase.deadline(deadline, window, now);
        Sleep::new(shard, deadline, tick, NextPoll::AskShard)
    }

    pub(super) fn until(shard: &Arc<WakerShard>, deadline: Instant) -> Sleep {
        let deadline = shard.timebase().clock().moment(deadline);
        let tick = shard.timebase().scale().deadline(deadline);
        Sleep::new(shard, deadline, tick, NextPoll::AskForDeadline)
    }

    /// Returns a sleep that is over at `deadline`, or later within the window.
    pub(super) fn at(shard: &Arc<WakerShard>, deadline: Moment, window: Window) -> Sleep {
        let mut sleep = Sleep::new(shard, deadline, Tick::MAX, NextPoll::AskShard);
        sleep.set_at(deadline, window);
        sleep
    }

    fn new(shard: &Arc<WakerShard>, deadline: Moment, tick: Tick, next_poll: NextPoll) -> Sleep {
        let shard = ShardRef::new(shard);
        Sleep { shard, deadline, tick, registered: None, next_poll }
    }

    /// Returns the instant at which the time is over, before it is rounded up to a tick, or some
    /// earlier one if the system cannot represent it. If that lies before the wheel was built,
    /// returns the instant at which it was built.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.shard.timebase().clock().instant(self.deadline)
    }

    /// Returns whether the time is over, as far as the ticker or the last poll has seen. `false`
    /// before the first poll, even if the deadline has passed.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match self.registered {
            Some(registered) => self.shard.is_over(registered, self.tick),
            None => self.next_poll == NextPoll::IsOver,
        }
    }

    /// Sets a new time: the sleep is over once `delay` has passed since this call. It may be over
    /// already, or never have been polled. A task that waits goes on waiting, and is woken at the
    /// new time.
    ///
    /// A reset to a later time costs one lock and one store. If another thread than the last time
    /// calls it, the sleep moves to the shard of that thread. A slack is not kept.
    pub fn reset(&mut self, delay: Duration) {
        let timebase = self.shard.timebase();
        let now = timebase.clock().now();
        let deadline = now.plus(delay);
        let tick = timebase.deadline(deadline, Window::Exact, now);
        self.set(deadline, tick, NextPoll::AskShard);
    }

    /// As [`Sleep::reset`], but to an instant, and without a reading of the clock: for programs that
    /// read the clock once for each packet. The next poll reads the clock, and is ready at once if
    /// the instant has passed.
    ///
    /// The poll reads no clock in two cases, in which the instant cannot have passed: the ticker
    /// sleeps until a tick before that of the instant, or the sleep was waiting for an earlier tick
    /// that had not come. If the ticker is late just then, the poll is ready once the ticker has
    /// reached the tick.
    pub fn reset_at(&mut self, deadline: Instant) {
        let deadline = self.shard.timebase().clock().moment(deadline);
        let tick = self.shard.timebase().scale().deadline(deadline);
        self.set(deadline, tick, NextPoll::AskForDeadline);
    }

    /// Sets the time to a moment, or later within the window. If the moment has passed, the next poll
    /// is ready.
    pub(super) fn set_at(&mut self, deadline: Moment, window: Window) {
        match window {
            Window::Exact => {
                let tick = self.shard.timebase().scale().deadline(deadline);
                self.set(deadline, tick, NextPoll::AskForDeadline);
            }
            _ => self.set_at_tick(deadline, window),
        }
    }

    /// The same, but the sleep is not over before its tick has begun.
    pub(super) fn set_at_tick(&mut self, deadline: Moment, window: Window) {
        let tick = self.shard.timebase().deadline(deadline, window, Moment::default());
        self.set(deadline, tick, NextPoll::AskForTick);
    }

    pub(super) fn moment(&self) -> Moment {
        self.deadline
    }

    pub(super) fn clock(&self) -> &Clock {
        self.shard.timebase().clock()
    }

    fn set(&mut self, deadline: Moment, tick: Tick, next_poll: NextPoll) {
        let is_later = tick > self.tick && self.next_poll == NextPoll::AskShard;
        // A loop that drives the wheel may be late by any time, so only the clock can tell.
        let is_later = is_later && !self.shard.is_turned();
        self.deadline = deadline;
        self.tick = tick;
        self.next_poll = next_poll;
        let reset = match self.shard.other_of_this_thread() {
            None => self.registered.map(|registered| self.shard.reset(registered, tick)),
            Some(own) => self.reset_into(&own),
        };
        match reset {
            Some(Reset::Gone) => self.registered = None,
            // The earlier tick had not come when the shard looked, so neither has the new one.
            Some(Reset::Pending { lies_ahead }) if is_later || lies_ahead => {
                self.next_poll = NextPoll::AskShard;
            }
            Some(Reset::Pending { .. }) | None => {}
        }
    }

    /// Moves to another shard of the wheel, with its waker if that is registered.
    #[inline(never)]
    fn reset_into(&mut self, shard: &Arc<WakerShard>) -> Option<Reset> {
        let before = core::mem::replace(&mut self.shard, ShardRef::new(shard));
        let registered = self.registered.as_mut()?;
        Some(before.reset_into(shard, registered, self.tick))
    }

    /// Polls the sleep as the future does, but returns an error if that would wait for ever, because
    /// the wheel ended before the time came.
    ///
    /// # Errors
    ///
    /// [`WheelGone`], at every such poll.
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WheelGone>> {
        if self.next_poll != NextPoll::AskShard && self.is_over_without_shard() {
            return Poll::Ready(Ok(()));
        }
        match self.shard.poll(&mut self.registered, self.tick, cx.waker()) {
            Wait::Over => {
                self.next_poll = NextPoll::IsOver;
                Poll::Ready(Ok(()))
            }
            Wait::Pending => Poll::Pending,
            Wait::Ended => Poll::Ready(Err(WheelGone(()))),
        }
    }

    /// Asks the clock, if `next_poll` says so, and only once. Returns whether the sleep is over.
    fn is_over_without_shard(&mut self) -> bool {
        if self.next_poll != NextPoll::IsOver {
            self.next_poll = match self.has_come_by_the_clock() {
                true => NextPoll::IsOver,
                false => NextPoll::AskShard,
            };
            if self.next_poll == NextPoll::IsOver {
                self.leave();
            }
        }
        self.next_poll == NextPoll::IsOver
    }

    /// Returns whether the time has come. "Never" does not come, not even when the clock of a manual
    /// wheel has reached its end.
    fn has_come_by_the_clock(&self) -> bool {
        let timebase = self.shard.timebase();
        let has_come = match self.next_poll {
            NextPoll::AskForTick => self.tick <= timebase.present(),
            _ => self.deadline <= timebase.clock().now(),
        };
        has_come && self.tick != Tick::MAX && !self.shard.has_ended()
    }

    fn leave(&mut self) {
        if let Some(registered) = self.registered.take() {
            self.shard.cancel(registered);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_elapsed(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(WheelGone(())) => Poll::Pending,
        }
    }
}

impl FusedFuture for Sleep {
    /// Returns whether a poll has returned `Ready` since the last reset.
    fn is_terminated(&self) -> bool {
        self.next_poll == NextPoll::IsOver
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.registered, self.next_poll) {
            (Some(_), _) => "polled",
            (None, NextPoll::IsOver) => "over",
            (None, _) => "not polled",
        };
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("state", &state).finish()
    }
}

thread_local! {
    static AT_HAND: Cell<Option<Arc<WakerShard>>> = const { Cell::new(None) };
}

pub(super) struct ShardRef {
    /// `None` only while it is being dropped.
    shard: Option<Arc<WakerShard>>,
}

impl ShardRef {
    #[inline]
    pub(super) fn new(shard: &Arc<WakerShard>) -> ShardRef {
        // A thread that is ending has none at hand.
        let at_hand = AT_HAND.try_with(Cell::take).ok().flatten();
        let at_hand = at_hand.filter(|at_hand| Arc::ptr_eq(at_hand, shard));
        ShardRef { shard: Some(at_hand.unwrap_or_else(|| Arc::clone(shard))) }
    }
}

impl Deref for ShardRef {
    type Target = WakerShard;

    #[inline]
    fn deref(&self) -> &WakerShard {
        self.shard.as_ref().expect("it is not being dropped")
    }
}

impl Drop for ShardRef {
    #[inline]
    fn drop(&mut self) {
        let shard = self.shard.take();
        // In a thread that is ending, the reference is dropped here.
        let _ = AT_HAND.try_with(|at_hand| at_hand.replace(shard));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::api::wheel::Wheel;

    /// A thread keeps one reference to its latest shard, and drops it when it ends.
    #[test]
    fn shard_ref_is_kept_once_for_each_thread_until_it_ends() {
        let shard = || {
            let (wheel, _driver) = Wheel::builder().manual().unwrap();
            Arc::clone(wheel.engine().own_waker_shard())
        };
        let (one, other) = (shard(), shard());
        let counts = || (Arc::strong_count(&one), Arc::strong_count(&other));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let first = ShardRef::new(&one);
                let second = ShardRef::new(&one);
                assert_eq!(counts(), (3, 1));
                drop((first, second));
                assert_eq!(counts(), (2, 1));
                let again = ShardRef::new(&one);
                assert_eq!(counts(), (2, 1));
                drop((again, ShardRef::new(&other)));
                assert_eq!(counts(), (1, 2));
            });
            // A scope may end before the thread has dropped its reference at hand; a join does not.
            thread.join().unwrap();
        });
        assert_eq!(counts(), (1, 1));
    }
}
