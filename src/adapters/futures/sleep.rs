//! The sleep: a future that is over when its time has come.
//!
//! Ground rules:
//!
//! - A sleep takes no place in the wheel until it is polled. Then it holds the key of its waker in
//!   the shard of the thread that made it, wherever it is polled or dropped.
//! - A sleep that was made for a delay never reads the clock again. One that was made for an
//!   instant, or reset to one, reads it once, at its next poll: the instant may have passed.
//! - It is over when the shard says so, or the clock; nothing else ends it. Once the wheel has ended
//!   the clock has no say: every sleep whose tick had begun by then is over, and no other ever is,
//!   whether or not it was polled before.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::FusedFuture;

use super::error::WheelGone;
use crate::engine::wakers::{Wait, WakerShard};
use crate::host::clock::Clock;
use crate::structure::Key;
use crate::values::time::{Moment, Tick};
use crate::values::when::Window;

/// A future that is over once a delay has passed, or when an instant has come: from
/// [`Wheel::sleep`](crate::Wheel::sleep), [`Scheduler::sleep`](crate::Scheduler::sleep) or
/// [`global::sleep`](crate::global::sleep).
///
/// It needs no runtime, and it is `Unpin`: it can be awaited by `&mut`, kept in a struct, moved
/// between tasks and threads, and polled in `select!` without being pinned or fused. Dropped or
/// forgotten, it leaves nothing behind once its time has come.
///
/// # Costs
///
/// The lock is that of a shard of wakers, which few threads share. Nothing is boxed; the shard grows
/// as more sleeps wait, and keeps its memory for the next ones.
///
/// | | locks | readings of the clock |
/// | --- | --- | --- |
/// | made for a delay | 0 | 1 |
/// | made for an instant | 0 | 0 |
/// | a poll | 1; 2 if the task has another waker than before | 0 |
/// | the first poll after an instant was given | the same; 1 or 2 if it has passed | 1; 0 after a `reset_at` to later |
/// | a poll once it is over | 0 | 0 |
/// | [`is_elapsed`](Sleep::is_elapsed), if it was polled and was not over then | 1 | 0 |
/// | [`reset`](Sleep::reset), if so | 1; otherwise 0 | 1 |
/// | [`reset_at`](Sleep::reset_at), if so | 1; otherwise 0 | 0 |
/// | a drop, if so | 1; otherwise 0 | 0 |
///
/// Once over, it stays so until a [reset](Sleep::reset), however often it is polled.
///
/// # The end of the wheel
///
/// A sleep whose time had not come when its wheel ended **never ends**: it must not be early, and a
/// panic would hide what came first. [`Sleep::poll_elapsed`] tells, and so does a
/// [`Timeout`](crate::Timeout). A task that waits is woken once when the wheel ends.
///
/// # Wakers
///
/// The task is woken on the ticker's thread, or in [`Driver::advance`](crate::Driver::advance). A
/// waker that blocks, or runs its task on the spot, holds up the wheel.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    shard: Arc<WakerShard>,
    deadline: Moment,
    /// The first tick from the deadline on, or a later one within the slack.
    tick: Tick,
    state: State,
    ask: AskClock,
}

/// What the next poll asks the clock before it asks the shard, because the time may have come
/// before it was given.
#[derive(Clone, Copy)]
enum AskClock {
    No,
    /// Whether the deadline has passed.
    ForDeadline,
    /// Whether the tick has begun: the shard knows that only when the ticker has come there.
    ForTick,
}

enum State {
    /// Not in the wheel, and not over.
    Unregistered,
    /// In the wheel, or fired, or the wheel has ended: the shard knows.
    Registered(Key),
    Over,
}

// Promised, so that structs which hold many of them can be planned.
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
        Sleep::new(shard, deadline, tick, AskClock::No)
    }

    pub(super) fn until(shard: &Arc<WakerShard>, deadline: Instant) -> Sleep {
        let deadline = shard.timebase().clock().moment(deadline);
        let tick = shard.timebase().scale().deadline(deadline);
        Sleep::new(shard, deadline, tick, AskClock::ForDeadline)
    }

    /// Over at a moment, and later within the window.
    pub(super) fn at(shard: &Arc<WakerShard>, deadline: Moment, window: Window) -> Sleep {
        let mut sleep = Sleep::new(shard, deadline, Tick::MAX, AskClock::No);
        sleep.set_at(deadline, window);
        sleep
    }

    fn new(shard: &Arc<WakerShard>, deadline: Moment, tick: Tick, ask: AskClock) -> Sleep {
        let shard = Arc::clone(shard);
        Sleep { shard, deadline, tick, state: State::Unregistered, ask }
    }

    /// Returns the instant at which the time is over, before it is rounded up to a tick, or some
    /// earlier one if the system cannot represent it. An instant before the wheel began is returned
    /// as its beginning.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.shard.timebase().clock().instant(self.deadline)
    }

    /// Returns whether the time was over when the wheel last looked. `false` before the first poll,
    /// also if the deadline has passed. Takes the lock that a poll takes, while the sleep waits.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match self.state {
            State::Unregistered => false,
            State::Registered(key) => self.shard.is_over(key, self.tick),
            State::Over => true,
        }
    }

    /// Sets the time anew: it is over once `delay` has passed since this call. The sleep may be
    /// over already, or never have been polled. A task that waits goes on waiting, and is woken at
    /// the new time.
    ///
    /// To a later time it costs one lock and one store. A slack does not stay.
    pub fn reset(&mut self, delay: Duration) {
        let timebase = self.shard.timebase();
        let now = timebase.clock().now();
        let deadline = now.plus(delay);
        let tick = timebase.deadline(deadline, Window::Exact, now);
        self.set(deadline, tick, AskClock::No);
    }

    /// The same for an instant, and reads no clock: for programs that read the clock once for each
    /// packet. The next poll reads it, and is ready at once if the instant has passed. But if the
    /// sleep waits for an instant that is earlier by a tick at least, and that has not come, neither
    /// has the new one: then the poll reads no clock either.
    pub fn reset_at(&mut self, deadline: Instant) {
        let deadline = self.shard.timebase().clock().moment(deadline);
        let tick = self.shard.timebase().scale().deadline(deadline);
        self.set(deadline, tick, AskClock::ForDeadline);
    }

    /// Sets the time anew to a moment, or to later within the window. A moment that has passed is
    /// over at the next poll.
    pub(super) fn set_at(&mut self, deadline: Moment, window: Window) {
        match window {
            Window::Exact => {
                let tick = self.shard.timebase().scale().deadline(deadline);
                self.set(deadline, tick, AskClock::ForDeadline);
            }
            _ => self.set_at_tick(deadline, window),
        }
    }

    /// The same, and not over before its tick has begun.
    pub(super) fn set_at_tick(&mut self, deadline: Moment, window: Window) {
        let tick = self.shard.timebase().deadline(deadline, window, Moment::default());
        self.set(deadline, tick, AskClock::ForTick);
    }

    /// The deadline as a reading of the clock.
    pub(super) fn moment(&self) -> Moment {
        self.deadline
    }

    pub(super) fn clock(&self) -> &Clock {
        self.shard.timebase().clock()
    }

    fn set(&mut self, deadline: Moment, tick: Tick, ask: AskClock) {
        let is_later = tick > self.tick && matches!(self.ask, AskClock::No);
        self.deadline = deadline;
        self.tick = tick;
        self.ask = ask;
        match self.state {
            // The earlier tick had not come when the shard looked, so the new one has not.
            State::Registered(key) if self.shard.reset(key, tick) => {
                self.ask = if is_later { AskClock::No } else { ask };
            }
            _ => self.state = State::Unregistered,
        }
    }

    /// Polls the sleep as a future, and returns an error where that would wait for ever: the wheel
    /// has ended, and the time will not come.
    ///
    /// # Errors
    ///
    /// [`WheelGone`], at every poll.
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WheelGone>> {
        if self.has_come_by_the_clock() {
            self.leave();
            self.state = State::Over;
        }
        let wait = match self.state {
            State::Unregistered => self.shard.register(self.tick, cx.waker()),
            State::Registered(key) => self.shard.look(key, self.tick, cx.waker()),
            State::Over => return Poll::Ready(Ok(())),
        };
        self.state = match wait {
            Wait::Over => State::Over,
            Wait::Pending(Some(key)) => State::Registered(key),
            Wait::Pending(None) | Wait::Ended => State::Unregistered,
        };
        match wait {
            Wait::Over => Poll::Ready(Ok(())),
            Wait::Pending(_) => Poll::Pending,
            Wait::Ended => Poll::Ready(Err(WheelGone(()))),
        }
    }

    /// Asks the clock what is to be asked, once. Returns whether the time has come. "Never" does not
    /// come, not even when the clock of a manual wheel has reached its end.
    fn has_come_by_the_clock(&mut self) -> bool {
        let ask = core::mem::replace(&mut self.ask, AskClock::No);
        let timebase = self.shard.timebase();
        let has_come = match ask {
            AskClock::No => false,
            AskClock::ForDeadline => self.deadline <= timebase.clock().now(),
            AskClock::ForTick => self.tick <= timebase.present(),
        };
        has_come && self.tick != Tick::MAX && !self.shard.has_ended()
    }

    /// Takes the waker out of the wheel.
    fn leave(&mut self) {
        if let State::Registered(key) = self.state {
            self.state = State::Unregistered;
            self.shard.cancel(key);
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
        matches!(self.state, State::Over)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unregistered => "not polled",
            State::Registered(_) => "polled",
            State::Over => "over",
        };
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("state", &state).finish()
    }
}
