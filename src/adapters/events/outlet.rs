//! The outlet of events: the channel, its bound, and the wakers that are called when events were sent.
//!
//! Ground rules:
//!
//! - One thread at a time has the [`Outlet`], and only that thread sends. So the channel keeps at least
//!   the room that this thread has found.
//! - A receiver that found the channel empty is woken by the next event. After each batch the sender
//!   looks at the length of the channel. If it is more than the batch, the channel was never empty, and
//!   the receiver that takes the older events goes on to the new ones. A look before the batch would
//!   not be enough: a receiver may empty the channel in between.
//! - Wakers are the user's code: they are cloned, called and dropped outside the lock.

use core::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crossbeam_channel::Sender;
use slab::Slab;

use super::source::handle;
use crate::engine::dispatch::JobRunner;
use crate::engine::timers::Due;
use crate::host::sync::{Mutex, lock};
use crate::host::user_panics::call_hook;
use crate::values::handle::Handle;

/// A value whose time has come, as the receiver of [`Events`](crate::Events) gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<T> {
    /// The value that was inserted.
    pub value: T,
    /// The handle that the insert returned. It is stale by now.
    pub handle: Handle,
    /// When the event was due, rounded up to a tick. Subtract it from the time now to get the lateness.
    pub deadline: Instant,
}

/// The policy for an event that comes due while the channel of
/// [`Events::bounded`](crate::Events::bounded) is full.
#[non_exhaustive]
pub enum Full<T> {
    /// The event stays pending until there is room, and can be cancelled until then. Due events are
    /// sent in the order of their deadlines. The wheel does not notice when a receiver makes room, so
    /// the ticker looks once a tick while an event waits.
    Wait,
    /// The value is passed to this closure, and counted in
    /// [`Stats::events_given_up`](crate::Stats::events_given_up). The closure runs on the ticker's
    /// thread (on a manual or driven wheel, on the thread that calls the driver; at the end, on the
    /// thread that ends the wheel), and must not block it.
    Give(Box<dyn FnMut(T) + Send>),
}

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Wait => "Wait",
            Full::Give(_) => "Give(..)",
        })
    }
}

/// How much memory an outlet keeps for the next batch: enough for a full batch of small values.
const KEPT_BYTES: usize = 16 << 10;

/// The sending half of the channel. The thread that delivers has it.
pub(super) struct Outlet<T> {
    sender: Sender<Event<T>>,
    room: usize,
    full: Full<T>,
    /// A buffer for the events that one advance takes out.
    pub(super) due: Vec<Due<T>>,
}

#[derive(Default)]
pub(super) struct Delivery {
    pub(super) sent: u64,
    pub(super) given_up: u64,
    /// No receiver is left.
    pub(super) is_disconnected: bool,
}

impl<T> Outlet<T> {
    pub(super) fn new(sender: Sender<Event<T>>, room: usize, full: Full<T>) -> Outlet<T> {
        Outlet { sender, room, full, due: Vec::new() }
    }

    /// How many events may be taken out of the hierarchy.
    pub(super) fn room(&self) -> usize {
        match self.full {
            Full::Wait => self.room.saturating_sub(self.sender.len()),
            Full::Give(_) => usize::MAX,
        }
    }

    /// Delivers the events in `due`, which were due at `deadline`.
    pub(super) fn deliver(&mut self, deadline: Instant, runner: &JobRunner) -> Delivery {
        let mut delivery = Delivery::default();
        for (key, value) in self.due.drain(..) {
            let value = core::mem::ManuallyDrop::into_inner(value);
            if let Full::Give(give) = &mut self.full
                && self.sender.len() >= self.room
            {
                runner.boundary().call_without_handle(|| give(value));
                delivery.given_up += 1;
                continue;
            }
            match self.sender.send(Event { value, handle: handle(key), deadline }) {
                Ok(()) => delivery.sent += 1,
                Err(unsent) => {
                    delivery.is_disconnected = true;
                    runner.boundary().discard(unsent.into_inner().value);
                }
            }
        }
        if self.due.capacity() * size_of::<Due<T>>() > KEPT_BYTES {
            self.due = Vec::new();
        }
        delivery
    }

    /// Returns whether the receivers may have found the channel empty before the last `sent` events.
    pub(super) fn may_have_been_empty(&self, sent: u64) -> bool {
        sent > 0 && self.sender.len() as u64 <= sent
    }
}

/// The number of a stream of one channel, and the place of its waker.
#[cfg(feature = "async")]
pub(super) struct StreamId {
    number: u64,
    /// Where its waker was last registered. After a wake, another stream may have this place, with a number of
    /// its own.
    place: usize,
}

/// The wakers that are called when events were sent, or the channel has disconnected.
pub(super) struct Ready {
    waiting: Mutex<Waiting>,
    runner: Arc<JobRunner>,
}

#[derive(Default)]
struct Waiting {
    hook: Option<Arc<Waker>>,
    /// The channel has disconnected: no hook is kept any more.
    is_over: bool,
    /// The tasks that wait, each with the number of its stream. A wake calls all of them, once: a task that was
    /// woken may do something else and leave the event to the others.
    tasks: Slab<(u64, Waker)>,
    #[cfg(feature = "async")]
    streams: u64,
}

impl Ready {
    pub(super) fn new(runner: &Arc<JobRunner>) -> Ready {
        Ready { waiting: Mutex::default(), runner: Arc::clone(runner) }
    }

    pub(super) fn set_hook(&self, waker: Waker) {
        let hook = Arc::new(waker);
        let old = {
            let mut waiting = lock(&self.waiting);
            let kept = (!waiting.is_over).then(|| Arc::clone(&hook));
            core::mem::replace(&mut waiting.hook, kept)
        };
        let boundary = self.runner.boundary();
        boundary.discard(old);
        call_hook(|| boundary.call_without_handle(|| hook.wake_by_ref()));
        // This is the last reference, if the hook was replaced meanwhile, or the wheel has ended.
        boundary.discard(hook);
    }

    /// Drops the hook, and keeps no later one: no event will be sent any more.
    pub(super) fn clear_hook(&self) {
        let old = {
            let mut waiting = lock(&self.waiting);
            waiting.is_over = true;
            waiting.hook.take()
        };
        self.runner.boundary().discard(old);
    }

    pub(super) fn wake(&self) {
        let (hook, tasks) = {
            let mut waiting = lock(&self.waiting);
            (waiting.hook.clone(), core::mem::take(&mut waiting.tasks))
        };
        let boundary = self.runner.boundary();
        call_hook(|| {
            for (_, (_, task)) in tasks {
                boundary.call_without_handle(|| task.wake());
            }
            if let Some(hook) = hook {
                boundary.call_without_handle(|| hook.wake_by_ref());
                boundary.discard(hook);
            }
        });
    }

    #[cfg(feature = "async")]
    pub(super) fn number_stream(&self) -> StreamId {
        let mut waiting = lock(&self.waiting);
        waiting.streams += 1;
        StreamId { number: waiting.streams, place: 0 }
    }

    #[cfg(feature = "async")]
    pub(super) fn register(&self, stream: &mut StreamId, waker: &Waker) {
        let mut waker = waker.clone();
        let mut waiting = lock(&self.waiting);
        match waiting.tasks.get_mut(stream.place) {
            Some((number, old)) if *number == stream.number => core::mem::swap(old, &mut waker),
            _ => {
                stream.place = waiting.tasks.insert((stream.number, waker));
                return;
            }
        }
        drop(waiting);
        self.runner.boundary().discard(waker);
    }

    /// Drops the waker of a stream that is gone. The other streams miss nothing: every wake is for all.
    #[cfg(feature = "async")]
    pub(super) fn leave(&self, stream: &StreamId) {
        let mut waiting = lock(&self.waiting);
        let is_here =
            waiting.tasks.get(stream.place).is_some_and(|(number, _)| *number == stream.number);
        let waker = is_here.then(|| waiting.tasks.remove(stream.place));
        drop(waiting);
        self.runner.boundary().discard(waker);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::dispatch::IdleWaiters;
    use crate::host::clock::Clock;
    use crate::host::user_panics::UnwindBoundary;
    use crate::structure::Hierarchy;
    use crate::values::time::{Moment, Tick};

    /// Returns how much memory an outlet keeps after a batch of these.
    fn kept_after_a_batch_of<T: Copy>(value: T) -> usize {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut outlet = Outlet::new(sender, usize::MAX, Full::Wait);
        let key = Hierarchy::default().insert(Tick::new(1), ());
        outlet.due.extend((0..256).map(|_| (key, core::mem::ManuallyDrop::new(value))));
        let runner = JobRunner::new(UnwindBoundary::default(), Arc::new(IdleWaiters::new()));
        outlet.deliver(Clock::manual().instant(Moment::default()), &runner);
        assert_eq!(receiver.len(), 256);
        outlet.due.capacity() * size_of::<Due<T>>()
    }

    /// An outlet keeps its buffer after a batch of small values, but not after one of large values.
    #[test]
    fn outlet_keeps_few_bytes() {
        assert!((1..=KEPT_BYTES).contains(&kept_after_a_batch_of(0_u64)));
        assert!(kept_after_a_batch_of([0_u8; 4096]) <= KEPT_BYTES);
    }

    /// A waiting stream has one place, while other streams register, are woken and leave. No stream takes the
    /// place of another, and no waiting stream is forgotten.
    #[cfg(feature = "async")]
    #[test]
    fn stream_that_waits_is_registered_once_and_woken_once() {
        struct Wakes(core::sync::atomic::AtomicUsize);
        impl std::task::Wake for Wakes {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            }
        }
        let runner = JobRunner::new(UnwindBoundary::default(), Arc::new(IdleWaiters::new()));
        let ready = Ready::new(&Arc::new(runner));
        let mut random = 1_u64;
        let mut streams: Vec<StreamId> = (0..20).map(|_| ready.number_stream()).collect();
        // Which streams wait, how often each was woken, and how often it should have been.
        let mut waits = [false; 20];
        let wakes: Vec<Arc<Wakes>> = (0..20).map(|_| Arc::new(Wakes(0.into()))).collect();
        let mut expected = [0; 20];
        for _ in 0..5000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let which = (random >> 8) as usize % 20;
            match random % 16 {
                0 => {
                    ready.wake();
                    for (count, waits) in expected.iter_mut().zip(&mut waits) {
                        *count += usize::from(core::mem::take(waits));
                    }
                }
                1..4 => {
                    ready.leave(&streams[which]);
                    streams[which] = ready.number_stream();
                    waits[which] = false;
                }
                _ => {
                    ready.register(&mut streams[which], &Waker::from(Arc::clone(&wakes[which])));
                    waits[which] = true;
                }
            }
            let kept = |which: usize| Arc::strong_count(&wakes[which]) - 1;
            assert!((0..20).all(|which| kept(which) == usize::from(waits[which])));
            let woken =
                wakes.iter().map(|wakes| wakes.0.load(core::sync::atomic::Ordering::Relaxed));
            assert!(woken.eq(expected.iter().copied()));
        }
    }
}
