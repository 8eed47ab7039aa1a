//! Events: values that come out of a channel when their time has come.
//!
//! [`Events`] has a hierarchy of its own, in a source that the ticker advances beside the jobs. So a
//! value needs no box and no pool, and the cost of a verb does not depend on the jobs.
//!
//! Ground rules:
//!
//! - A value is pending, in the channel, given up, or back with the user: never lost in between. A
//!   value that cannot be received any more is dropped, outside every lock and through the unwind
//!   boundary.
//! - The handle of an event is its key in the hierarchy. Keys of different tables never match, so no
//!   verb of a wheel confuses an event with a job.
//! - The source holds neither the engine nor a receiver: so it keeps neither a wheel alive nor a
//!   channel connected.

mod outlet;
mod source;
#[cfg(feature = "async")]
mod stream;
mod wall_times;

use core::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};

use outlet::Outlet;
pub use outlet::{Event, Full};
use source::{EventSource, handle, key};
#[cfg(feature = "async")]
pub use stream::EventStream;

use crate::api::scheduler::Scheduler;
use crate::engine::sources::Source;
use crate::host::sync::lock;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::time::{Tick, When};

/// Timers that carry values: when its time has come, each value is sent to one channel, as an
/// [`Event`]. For a loop that already waits for messages, and wants its timeouts in the same place.
///
/// The channel is one of `crossbeam-channel` 0.5, so a loop can `select!` on it. A value needs no closure,
/// no box and no thread of the pool: the ticker sends it. Until then it can be cancelled, taken back
/// and given a new time. No verb repeats: the receiver of an event inserts the next one.
///
/// A clone costs a reference count; clones share one channel. After the last of them is dropped, the
/// pending events are still sent, and then the channel disconnects.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Events, Wheel};
///
/// let (wheel, driver) = Wheel::builder().manual()?;
/// let (events, due) = Events::unbounded(&wheel.scheduler());
/// let second = Duration::from_secs(1);
/// let lamp = events.insert(30 * second, "lamp 7 is silent")?;
/// events.insert(30 * second, "lamp 8 is silent")?;
/// driver.advance(20 * second);
/// events.reset(lamp, 30 * second); // lamp 7 reports
/// driver.advance(20 * second);
/// let values: Vec<_> = due.try_iter().map(|event| event.value).collect();
/// assert_eq!(values, ["lamp 8 is silent"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Costs
///
/// An insert, a cancel and a reset cost as much as for a job, without the box: one lock, which all
/// clones share, and for an insert or a reset a reading of the clock. A pending event takes some 31
/// bytes and the value. Each `Events::unbounded` or `bounded` makes a hierarchy of the wheel's geometry
/// (33 KB by default), which the ticker looks at whenever it wakes. So use one `Events` for many timers,
/// not one for each.
///
/// Events are no jobs: they are not in [`Wheel::len`](crate::Wheel::len) and not under
/// [`Builder::max_pending`](crate::Builder::max_pending), and a wheel with pending events may be idle.
///
/// # If the receivers or the wheel go first
///
/// - **The receivers.** The next event that comes due finds no receiver. Then it and all pending
///   events are dropped. From there on inserts give the value back, with
///   [`InsertErrorKind::Disconnected`](crate::InsertErrorKind::Disconnected).
/// - **The wheel.** Events that were due by then are sent, as far as there is room, and the channel
///   disconnects. The other events stay pending: [`Events::drain`] returns all of them, and
///   [`Events::take`] one. Otherwise they are dropped with the last `Events`. A value that holds a
///   clone of its own `Events` must be drained, because it would keep itself alive. Inserts are
///   refused, and resets return `false`.
pub struct Events<T> {
    owner: Arc<Owner<T>>,
}

/// Shared by the clones of one [`Events`], and dropped with the last of them.
struct Owner<T> {
    scheduler: Scheduler,
    source: Arc<EventSource<T>>,
}

impl<T: Send + 'static> Events<T> {
    /// Returns an `Events` on the scheduler's wheel, and the receiver of the due events. The channel
    /// has no bound: events that are not received take memory.
    #[must_use]
    pub fn unbounded(scheduler: &Scheduler) -> (Events<T>, Receiver<Event<T>>) {
        Events::new(scheduler, usize::MAX, Full::Wait)
    }

    /// The same, with a channel that holds at most `room` events. `full` is the policy for an event
    /// that comes due while the channel is full. A room of zero counts as one. No memory is reserved.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Events, Full, Wheel};
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let (events, due) = Events::bounded(&wheel.scheduler(), 2, Full::Wait);
    /// let ms = Duration::from_millis(1);
    /// let numbers = (1..=5).map(|number| (number * ms, number));
    /// let handles = events.insert_batch(numbers)?;
    /// driver.advance(10 * ms);
    /// assert_eq!((due.len(), events.len()), (2, 3));
    /// assert!(events.cancel(handles[2])); // due, but not out
    /// let first: Vec<u32> = due.try_iter().map(|event| event.value).collect();
    /// driver.advance(ms);
    /// let then: Vec<u32> = due.try_iter().map(|event| event.value).collect();
    /// assert_eq!((first, then), (vec![1, 2], vec![4, 5]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn bounded(
        scheduler: &Scheduler,
        room: usize,
        full: Full<T>,
    ) -> (Events<T>, Receiver<Event<T>>) {
        Events::new(scheduler, room.max(1), full)
    }

    fn new(scheduler: &Scheduler, room: usize, full: Full<T>) -> (Events<T>, Receiver<Event<T>>) {
        let (sender, receiver) = unbounded();
        let source =
            Arc::new(EventSource::new(scheduler.engine(), Outlet::new(sender, room, full)));
        scheduler.engine().sources().add(Arc::clone(&source) as Arc<dyn Source>);
        (Events { owner: Arc::new(Owner { scheduler: scheduler.clone(), source }) }, receiver)
    }

    /// Sends `value` after a delay, at an instant, or at a wall-clock time: never before, and at most
    /// one tick after, plus the time that the ticker takes to wake, unless the channel is full.
    ///
    /// Each kind of [`When`] works as for a job. An event with a wall-clock time takes an entry in two
    /// more tables, and the ticker wakes once a second while it is pending.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the value: the wheel is gone, a due event has found no receiver, or
    /// 2^32 - 1 events are pending.
    pub fn insert(&self, when: impl Into<When>, value: T) -> Result<Handle, InsertError<T>> {
        let (when, source) = (when.into(), &*self.owner.source);
        let now = source.timebase.clock().now();
        let mut state = lock(&source.state);
        if let Err(kind) = state.admit(1) {
            return Err(InsertError::new(kind, value));
        }
        let (key, wake) = state.insert(&source.timebase, when, now, value);
        drop(state);
        source.alarm.wake_for(wake);
        Ok(handle(key))
    }

    /// Inserts many values at once: under one lock, with one reading of the clock, all of them or
    /// none. Returns their handles in the same order.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the whole batch, as [`Events::insert`].
    pub fn insert_batch<W>(
        &self,
        timers: impl IntoIterator<Item = (W, T)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(W, T)>>>
    where
        W: Into<When> + Copy,
    {
        let (source, timers) = (&*self.owner.source, timers.into_iter().collect::<Vec<(W, T)>>());
        let now = source.timebase.clock().now();
        // The conversion may be user code, so it runs before the lock is taken.
        let times: Vec<When> = timers.iter().map(|&(when, _)| when.into()).collect();
        let mut state = lock(&source.state);
        if let Err(kind) = state.admit(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        let mut earliest = Tick::MAX;
        let handles = times.into_iter().zip(timers).map(|(when, (_, value))| {
            let (key, wake) = state.insert(&source.timebase, when, now, value);
            earliest = earliest.min(wake);
            handle(key)
        });
        let handles = handles.collect();
        drop(state);
        source.alarm.wake_for(earliest);
        Ok(handles)
    }

    /// Cancels an event: it will not be sent, and its value is dropped here. Returns `false` if it is
    /// not pending: it was sent, or cancelled before.
    pub fn cancel(&self, handle: Handle) -> bool {
        let value = self.take(handle);
        value.map(|value| self.owner.source.discard(value)).is_some()
    }

    /// Cancels many events, one after the other. Returns the result of [`Events::cancel`] for each.
    pub fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
        handles.iter().map(|&handle| self.cancel(handle)).collect()
    }

    /// Cancels an event and gives its value back, if it is pending.
    #[must_use = "to drop the value, cancel"]
    pub fn take(&self, handle: Handle) -> Option<T> {
        let (mut state, key) = (lock(&self.owner.source.state), key(handle));
        let value = state.timers.cancel(key);
        state.wall.remove(key);
        value
    }

    /// Gives a pending event a new time. Returns whether it was pending.
    pub fn reset(&self, handle: Handle, when: impl Into<When>) -> bool {
        let (when, source) = (when.into(), &*self.owner.source);
        let now = source.timebase.clock().now();
        let wake = lock(&source.state).reset(&source.timebase, key(handle), when, now);
        source.alarm.wake_for(wake.unwrap_or(Tick::MAX));
        wake.is_some()
    }

    /// Gives many events new times. Returns the result of [`Events::reset`] for each. All delays count
    /// from one moment. Takes one lock and one reading of the clock.
    pub fn reset_batch<W: Into<When> + Copy>(&self, timers: &[(Handle, W)]) -> Vec<bool> {
        // The conversion may be user code, so it runs before the lock is taken.
        let timers: Vec<(Handle, When)> =
            timers.iter().map(|&(handle, when)| (handle, when.into())).collect();
        let (source, mut earliest) = (&*self.owner.source, Tick::MAX);
        let now = source.timebase.clock().now();
        let mut state = lock(&source.state);
        let were_pending = timers.into_iter().map(|(handle, when)| {
            let wake = state.reset(&source.timebase, key(handle), when, now);
            earliest = earliest.min(wake.unwrap_or(Tick::MAX));
            wake.is_some()
        });
        let were_pending = were_pending.collect();
        drop(state);
        source.alarm.wake_for(earliest);
        were_pending
    }

    /// Returns whether an event is still to be sent: it was neither sent nor cancelled.
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.remaining(handle).is_some()
    }

    /// Returns the time until a pending event is due: zero if it waits for room.
    #[must_use]
    pub fn remaining(&self, handle: Handle) -> Option<Duration> {
        let source = &*self.owner.source;
        source.follow_the_wall();
        let deadline = lock(&source.state).timers.deadline(key(handle))?;
        Some(source.timebase.until(deadline))
    }

    /// Returns the number of pending events. Those in the channel are not among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owner.source.len()
    }

    /// Returns whether no event is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out all pending events, in the order of deadlines: the handle of each, the time that was
    /// left, and the value. Works after the end of the wheel, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Events, Wheel};
    /// let (wheel, _driver) = Wheel::builder().manual()?;
    /// let (events, due) = Events::unbounded(&wheel.scheduler());
    /// let hour = Duration::from_secs(3600);
    /// let order = events.insert(72 * hour, "order 7 closes")?;
    /// wheel.shutdown();
    /// assert_eq!(events.drain(), [(order, 72 * hour, "order 7 closes")]);
    /// assert!(due.recv().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "what was pending is in it"]
    pub fn drain(self) -> Vec<(Handle, Duration, T)> {
        let source = &*self.owner.source;
        source.follow_the_wall();
        let mut pending = source.take_all();
        pending.sort_by_key(|&(_, deadline, _)| deadline);
        let now = source.timebase.clock().now();
        let back =
            |(key, deadline, value)| (handle(key), source.timebase.between(now, deadline), value);
        pending.into_iter().map(back).collect()
    }

    /// Sets a waker that is called after an event came into an empty channel, and when the channel
    /// disconnects. It is also called once now, because an event may be there already. It may be
    /// called more often than needed. Replaces an earlier waker.
    ///
    /// This is the hook for a loop that waits in the operating system: the waker of `mio`, a ping of
    /// `calloop`, an eventfd. A loop that is woken receives until the channel is empty.
    ///
    /// The waker is called on the ticker's thread, or on the thread that calls the driver of a manual
    /// or driven wheel; it must not block that thread. The first call is on this thread. When the
    /// channel disconnects, the call may be on the thread that ends the wheel or drops the last
    /// `Events`. A panic in the waker is caught and counted. It is dropped when the channel has
    /// disconnected.
    pub fn on_ready(&self, waker: Waker) {
        self.owner.source.ready.set_hook(waker);
    }

    /// Returns the receiver as a stream. Feature `async`.
    ///
    /// `receiver` must be the one of these events, or a clone: events of another channel would not
    /// wake the stream. Several streams, on clones of the receiver, share the events among them.
    #[cfg(feature = "async")]
    pub fn stream(&self, receiver: Receiver<Event<T>>) -> EventStream<T> {
        EventStream::new(receiver, Arc::clone(&self.owner.source.ready))
    }

    /// Returns the scheduler that was handed in.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.owner.scheduler
    }

    /// Returns the reading of the wheel's clock, as [`Wheel::now`](crate::Wheel::now) does.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.owner.scheduler.now()
    }
}

impl<T> Clone for Events<T> {
    fn clone(&self) -> Events<T> {
        Events { owner: Arc::clone(&self.owner) }
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("pending", &self.owner.source.len()).finish_non_exhaustive()
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        self.source.abandon();
        if self.source.is_over() {
            self.scheduler.engine().sources().note_finished();
        }
    }
}
