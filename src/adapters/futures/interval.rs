//! The interval: a stream of beats at a fixed rate.
//!
//! Ground rules:
//!
//! - The deadline of a beat follows from the deadline of the beat before, to the nanosecond
//!   (`values/repeat.rs`), and never from the clock: so the phase stays.
//! - When a beat is taken, the deadlines that have passed by then are dropped or kept, as the policy
//!   says. The next beat carries the number of dropped ones, as a job's `Run` does.
//! - A poll that returns a beat registers no waker.
//! - A beat that follows another is returned once its tick has begun. Beats that are owed follow at once, but for a
//!   `Pending` after [`BEATS_IN_A_ROW`] of them.

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::stream::{FusedStream, Stream};

use super::sleep::Sleep;
use crate::adapters::futures::{WheelGone, ZeroPeriod};
use crate::engine::wakers::WakerShard;
use crate::values::repeat::Repeat;
use crate::values::time::Moment;

/// The number of beats in a row after which a poll returns `Pending` and wakes the task.
const BEATS_IN_A_ROW: u8 = 128;

/// Beats at a fixed rate: from [`Wheel::interval`](crate::Wheel::interval) and the like.
///
/// The beats keep their phase for ever, however late they are taken (unless the policy is
/// [`Missed::Delay`](crate::Missed::Delay)). [`Repeat`] sets the period,
/// the first beat (after one period by default) and the policy for missed periods
/// ([`Missed::Skip`](crate::Missed::Skip) by default). Its setting for panics has no effect here.
///
/// With a period that is shorter than a tick there is at most one beat a tick, unless
/// [`Missed::Burst`](crate::Missed::Burst) owes more. While a task takes owed beats without a pause,
/// a poll returns `Pending` now and then, so that other tasks run.
///
/// It is `Unpin`, and nothing in it is boxed. It ends with the wheel: it returns the beats whose time
/// had come by then, and then `None`.
#[must_use = "an interval does nothing until it is awaited"]
pub struct Interval {
    sleep: Sleep,
    repeat: Repeat,
    /// How many deadlines were dropped before the next beat.
    missed: u64,
    /// How many beats were returned since a poll last returned `Pending`.
    in_a_row: u8,
    ended: bool,
}

/// One beat of an [`Interval`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// When the beat was due, before that was rounded up to a tick.
    pub deadline: Instant,
    /// How long after `deadline` it was taken. It includes the rounding up to a tick, the slack or
    /// the jitter, and the time that the task was busy.
    pub late: Duration,
    /// How many deadlines [`Missed::Skip`](crate::Missed::Skip) or
    /// [`Missed::Delay`](crate::Missed::Delay) dropped between the beat before and this one,
    /// because the beat before was taken late. Zero with [`Missed::Burst`](crate::Missed::Burst),
    /// and after a reset.
    pub missed: u64,
}

impl Interval {
    pub(super) fn new(shard: &Arc<WakerShard>, repeat: Repeat) -> Result<Interval, ZeroPeriod> {
        if !repeat.is_periodic() {
            return Err(ZeroPeriod(()));
        }
        let timebase = shard.timebase();
        let first = timebase.target(repeat.first(), timebase.clock().now());
        let first = timebase.estimate(first.point).moment;
        let sleep = Sleep::at(shard, first, repeat.window());
        Ok(Interval { sleep, repeat, missed: 0, in_a_row: 0, ended: false })
    }

    /// Waits for the next beat. Returns `None` when the wheel has ended. No beat is lost if the
    /// future is dropped before it is ready.
    pub async fn tick(&mut self) -> Option<Beat> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next beat, for which [`Interval::tick`] waits. A stream of your own may call this, receive a beat,
    /// and still return `Pending`. It must then wake its task itself, because this has registered no waker.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Option<Beat>> {
        if self.in_a_row == BEATS_IN_A_ROW {
            self.in_a_row = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let elapsed = self.sleep.poll_elapsed(cx);
        self.in_a_row = if elapsed.is_ready() { self.in_a_row + 1 } else { 0 };
        if let Err(WheelGone(())) = ready!(elapsed) {
            (self.ended, self.in_a_row) = (true, 0);
            return Poll::Ready(None);
        }
        let (deadline, now) = (self.sleep.moment(), self.sleep.clock().now());
        let beat = Beat {
            deadline: self.sleep.deadline(),
            late: now.since(deadline),
            missed: self.missed,
        };
        let (next, dropped) = self.repeat.follow(deadline, now).unwrap_or((Moment::NEVER, 0));
        self.missed = dropped;
        self.sleep.set_at_tick(next, self.repeat.window());
        Poll::Ready(Some(beat))
    }

    /// Moves the next beat to one period after this call, and the phase with it.
    pub fn reset(&mut self) {
        let now = self.sleep.clock().now();
        let next = self.repeat.follow(now, now).map_or(Moment::NEVER, |(next, _)| next);
        self.restart(next);
    }

    /// Moves the next beat to an instant, and the phase with it.
    pub fn reset_at(&mut self, next: Instant) {
        self.restart(self.sleep.clock().moment(next));
    }

    fn restart(&mut self, next: Moment) {
        self.missed = 0;
        self.sleep.set_at(next, self.repeat.window());
    }
}

impl Stream for Interval {
    type Item = Beat;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Beat>> {
        self.poll_tick(cx)
    }
}

impl FusedStream for Interval {
    /// Returns whether a poll has returned `None`.
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.sleep.deadline())
            .field("repeat", &self.repeat)
            .finish_non_exhaustive()
    }
}
