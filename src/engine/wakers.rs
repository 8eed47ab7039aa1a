//! Wakers that are called at a tick: a source of timers without a job, a box or a pool.
//!
//! The wakers lie inline in the hierarchies of [`WakerShard`]s, each behind a lock, which are made when one is first
//! needed. Each future that waits holds its shard, and a shard points to no engine. So a waiting future keeps memory
//! alive, but no thread; and users of different shards share no reference count.
//!
//! Ground rules:
//!
//! - Wakers are called on the thread that advances the wheel, and at the end of the wheel on the thread that ends it.
//!   Each is called once, so every waiter learns of the end. The waker that was registered last is the one that is
//!   called.
//! - If the tick of a waiter had begun when the wheel ended, its wait is over, whether or not its waker had been called
//!   before. If the tick had not begun, the answer is [`Wait::Ended`].
//! - To check a timer and to register a waker is one step under the shard's lock, so no fire comes between. A timer
//!   that is gone has fired, or the shard is closed.
//! - A waker is user code. It is cloned, called and dropped outside the lock; it is called and dropped through the
//!   unwind boundary. A panic in its clone unwinds to the caller, before anything has changed.
//! - A waker that is reset by a thread of another shard moves to that shard. Otherwise a task that resets it for each
//!   packet would share a lock with the tasks that run where it began. Between the two locks it is in no shard, but no
//!   other thread looks for it.
//!
//! Two polls need no lock: with the registered waker before the tick has begun, and without a registered waker for a
//! tick that is finished. They read the [`Progress`] of the shard:
//!
//! - It is written under the lock of the shard, before any waker of the ticks in question is called.
//! - A finished tick has come, and its timers are gone.
//! - No waker of a tick is called before the tick has begun. If it begins during a poll, its waker is called after the
//!   poll began, so the task polls again. A poll that happens after the wake also sees `begun`.
//! - This holds for the registered waker. A poll with another waker takes the lock.
//! - `begun` never falls: an unfinished advance goes on to the same tick.

use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use crate::engine::alarm::Alarm;
use crate::engine::dispatch::JobRunner;
use crate::engine::shard::thread_index;
use crate::engine::sources::Source;
use crate::engine::timers::{Due, Tally, Timers, TimersSurplus};
use crate::host::clock::Timebase;
use crate::host::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::host::user_panics::call_hook;
use crate::structure::{Geometry, Hierarchy, Key};
use crate::values::time::Tick;

pub(crate) struct Wakers {
    shards: Box<[Arc<WakerShard>]>,
    /// Memory that every advance uses again.
    due: Mutex<Vec<Due<Waker>>>,
}

impl Wakers {
    pub(crate) fn new(shards: usize, geometry: &Geometry, context: WakerContext) -> Wakers {
        let shards = WakerShard::several(shards, geometry, usize::MAX, context);
        Wakers { shards, due: Mutex::new(Vec::new()) }
    }

    pub(crate) fn shard(&self, thread: u32) -> &Arc<WakerShard> {
        &self.shards[thread as usize % self.shards.len()]
    }

    pub(crate) fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.shards.iter().map(|shard| lock(&shard.state).timers.tally())
    }
}

impl Source for Wakers {
    fn next_due(&self) -> Tick {
        let next_due = |shard: &Arc<WakerShard>| lock(&shard.state).timers.next_due();
        self.shards.iter().map(next_due).min().unwrap_or(Tick::MAX)
    }

    fn earliest_deadline(&self) -> Tick {
        let earliest = |shard: &Arc<WakerShard>| lock(&shard.state).timers.earliest_deadline();
        self.shards.iter().map(earliest).min().unwrap_or(Tick::MAX)
    }

    fn advance(&self, to: Tick, limit: usize) -> bool {
        let mut due = core::mem::take(&mut *lock(&self.due));
        let mut left = limit;
        let finished = self.shards.iter().all(|shard| shard.advance(to, &mut left, &mut due));
        *lock(&self.due) = due;
        finished
    }

    fn close(&self, present: Tick) {
        for shard in &self.shards {
            shard.close(present);
        }
    }
}

/// Two cache lines to itself: while nothing comes due, no thread writes to it.
#[derive(Default)]
#[repr(align(128))]
struct Progress {
    /// No timer of a later tick has fired. [`Tick::MAX`] once the shard is closed.
    begun: AtomicU64,
    /// No timer of this tick or an earlier one is pending, unless it was reset to the past. Zero
    /// once the shard is closed.
    finished: AtomicU64,
}

impl Progress {
    #[inline]
    fn has_begun(&self, tick: Tick) -> bool {
        tick.get() <= self.begun.load(Ordering::Acquire)
    }

    #[inline]
    fn has_finished(&self, tick: Tick) -> bool {
        tick.get() <= self.finished.load(Ordering::Acquire)
    }

    fn begin(&self, tick: Tick) {
        debug_assert!(self.begun.load(Ordering::Relaxed) <= tick.get(), "it does not fall");
        self.begun.store(tick.get(), Ordering::Release);
    }

    fn finish(&self, tick: Tick) {
        self.finished.store(tick.get(), Ordering::Release);
    }

    /// From now on every poll takes the lock.
    fn close(&self) {
        self.begun.store(Tick::MAX.get(), Ordering::Release);
        self.finished.store(0, Ordering::Release);
    }
}

/// Distinguishes a waker from all others while it exists, as [`Waker::will_wake`] does: the addresses
/// of its data and of its table.
type WakerIdentity = (usize, usize);

#[inline]
fn identity_of(waker: &Waker) -> WakerIdentity {
    (waker.data().addr(), core::ptr::from_ref(waker.vtable()).addr())
}

/// One of several hierarchies of wakers that threads are spread over, behind its lock. Two cache
/// lines to itself, as a shard of jobs has.
#[repr(align(128))]
pub(crate) struct WakerShard {
    number: usize,
    state: Mutex<State>,
    progress: Progress,
    context: Arc<WakerContext>,
}

struct State {
    timers: Timers<Waker>,
    ended: Option<Tick>,
    max_timers: usize,
}

/// The parts of the wheel that a shard needs. It only reads them.
pub(crate) struct WakerContext {
    /// All shards of the wheel, once they are made.
    shards: OnceLock<Box<[Weak<WakerShard>]>>,
    timebase: Timebase,
    alarm: Arc<Alarm>,
    runner: Arc<JobRunner>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registration {
    key: Key,
    waker: WakerIdentity,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Its tick has come.
    Over,
    /// Its waker will be called. If the shard was full, its waker has been called already, and is
    /// not registered.
    Pending,
    /// The wheel ended before its tick came.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reset {
    /// The waker was called.
    Gone,
    /// It will be called at the new tick. If that `lies_ahead`, the tick before it has not begun,
    /// unless the ticker is late.
    Pending { lies_ahead: bool },
}

impl WakerContext {
    pub(crate) fn new(
        timebase: Timebase,
        alarm: Arc<Alarm>,
        runner: Arc<JobRunner>,
    ) -> WakerContext {
        WakerContext { shards: OnceLock::new(), timebase, alarm, runner }
    }
}

impl WakerShard {
    /// Makes the shards of a wheel, each for at most `max_timers` timers.
    fn several(
        shards: usize,
        geometry: &Geometry,
        max_timers: usize,
        context: WakerContext,
    ) -> Box<[Arc<WakerShard>]> {
        let context = Arc::new(context);
        let max_timers = max_timers.min(Timers::<Waker>::MAX);
        let shard = |number| {
            let timers = Timers::new(geometry.clone());
            let state = Mutex::new(State { timers, ended: None, max_timers });
            let context = Arc::clone(&context);
            Arc::new(WakerShard { number, state, progress: Progress::default(), context })
        };
        let shards: Box<[Arc<WakerShard>]> = (0..shards).map(shard).collect();
        context.shards.get_or_init(|| shards.iter().map(Arc::downgrade).collect());
        shards
    }

    /// Returns the shard that the calling thread uses, if that is another one of the same wheel.
    #[inline]
    pub(crate) fn other_of_this_thread(&self) -> Option<Arc<WakerShard>> {
        self.other_for(thread_index())
    }

    #[inline]
    pub(crate) fn other_for(&self, thread: u32) -> Option<Arc<WakerShard>> {
        let shards = self.context.shards.get()?;
        let number = thread as usize % shards.len();
        if number == self.number { None } else { shards[number].upgrade() }
    }

    pub(crate) fn timebase(&self) -> &Timebase {
        &self.context.timebase
    }

    /// Checks whether `tick` has come. If not, registers `waker`, unless it is registered already:
    /// it will be called at `tick`.
    #[inline]
    pub(crate) fn poll(
        &self,
        registered: &mut Option<Registration>,
        tick: Tick,
        waker: &Waker,
    ) -> Wait {
        let is_registered = registered.is_some_and(|it| it.waker == identity_of(waker));
        if is_registered && !self.progress.has_begun(tick) {
            return Wait::Pending;
        }
        self.poll_under_lock(registered, tick, waker)
    }

    #[inline(never)]
    fn poll_under_lock(
        &self,
        registered: &mut Option<Registration>,
        tick: Tick,
        waker: &Waker,
    ) -> Wait {
        let wait = match registered {
            Some(registered) => self.look(registered, tick, waker),
            None if self.progress.has_finished(tick) => Wait::Over,
            None => self.register(registered, tick, waker),
        };
        if wait != Wait::Pending {
            *registered = None;
        }
        wait
    }

    fn register(&self, registered: &mut Option<Registration>, tick: Tick, waker: &Waker) -> Wait {
        let waker = waker.clone();
        let identity = identity_of(&waker);
        let mut state = lock(&self.state);
        if let Some(answer) = state.answer_without_timer(tick) {
            drop(state);
            self.discard(waker);
            return answer;
        }
        if state.is_full() {
            drop(state);
            call_hook(|| self.wake(waker));
            return Wait::Pending;
        }
        let key = state.timers.insert(tick, waker);
        drop(state);
        self.context.alarm.wake_for(tick);
        *registered = Some(Registration { key, waker: identity });
        Wait::Pending
    }

    fn look(&self, registered: &mut Registration, tick: Tick, waker: &Waker) -> Wait {
        match lock(&self.state).known(registered.key, tick) {
            Err(answer) => return answer,
            Ok(known) if known.will_wake(waker) => return Wait::Pending,
            Ok(_) => {}
        }
        let mut waker = waker.clone();
        let identity = identity_of(&waker);
        // The timer may have fired meanwhile.
        let answer = match lock(&self.state).known(registered.key, tick) {
            Ok(known) => {
                core::mem::swap(known, &mut waker);
                registered.waker = identity;
                Wait::Pending
            }
            Err(answer) => answer,
        };
        self.discard(waker);
        answer
    }

    /// Returns whether the tick of a registered waker has come.
    pub(crate) fn is_over(&self, registered: Registration, tick: Tick) -> bool {
        self.progress.has_begun(tick)
            && lock(&self.state).known(registered.key, tick).err() == Some(Wait::Over)
    }

    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// See [`Alarm::is_turned`].
    pub(crate) fn is_turned(&self) -> bool {
        self.context.alarm.is_turned()
    }

    pub(crate) fn reset(&self, registered: Registration, tick: Tick) -> Reset {
        if !lock(&self.state).timers.reset(registered.key, tick) {
            return Reset::Gone;
        }
        self.will_fire(tick)
    }

    /// Does what [`WakerShard::reset`] does, and moves the waker to another shard of the wheel. If
    /// that is full or closed, calls the waker, so that its waiter polls there.
    pub(crate) fn reset_into(
        &self,
        other: &WakerShard,
        registered: &mut Registration,
        tick: Tick,
    ) -> Reset {
        let Some(waker) = lock(&self.state).timers.cancel(registered.key) else {
            return Reset::Gone;
        };
        let mut state = lock(&other.state);
        if state.ended.is_some() || state.is_full() {
            drop(state);
            call_hook(|| self.wake(waker));
            return Reset::Gone;
        }
        registered.key = state.timers.insert(tick, waker);
        drop(state);
        self.will_fire(tick)
    }

    /// Wakes the ticker, if need be, for a waker that was reset.
    #[inline]
    fn will_fire(&self, tick: Tick) -> Reset {
        self.context.alarm.wake_for(tick);
        Reset::Pending { lies_ahead: self.context.alarm.sleeps_to_before(tick) }
    }

    /// Drops a registered waker. Does nothing if it has fired.
    pub(crate) fn cancel(&self, registered: Registration) {
        let waker = lock(&self.state).timers.cancel(registered.key);
        if let Some(waker) = waker {
            self.discard(waker);
        }
    }

    /// Calls the due wakers. Looks at `limit` entries at most, and subtracts them. Returns whether all were called.
    fn advance(&self, to: Tick, limit: &mut usize, due: &mut Vec<Due<Waker>>) -> bool {
        let (finished, surplus) = self.take_due(to, limit, due);
        call_hook(|| {
            for (_, waker) in due.drain(..) {
                self.wake(core::mem::ManuallyDrop::into_inner(waker));
            }
        });
        drop(surplus);
        finished
    }

    /// Takes out the wakers that are due, and publishes the progress of the shard. Returns the surplus too.
    fn take_due(
        &self,
        to: Tick,
        limit: &mut usize,
        due: &mut Vec<Due<Waker>>,
    ) -> (bool, Option<TimersSurplus<Waker>>) {
        let timers = &mut lock(&self.state).timers;
        if timers.is_closed() || timers.has_come_to(to) {
            return (true, None);
        }
        // A waker that was reset to the past may make `to` earlier than `now`.
        self.progress.begin(to.max(timers.now()));
        let finished = timers.advance_leaving(to, limit, due);
        self.progress.finish(timers.now());
        (finished, timers.take_surplus())
    }

    /// Refuses every waker from now on, and calls all that are registered.
    fn close(&self, present: Tick) {
        let mut state = lock(&self.state);
        let closed = state.timers.close();
        state.ended.get_or_insert(present);
        self.progress.close();
        drop(state);
        call_hook(|| {
            for (_, _, waker) in closed.into_iter().flat_map(Hierarchy::into_timers) {
                self.wake(core::mem::ManuallyDrop::into_inner(waker));
            }
        });
    }

    fn wake(&self, waker: Waker) {
        self.context.runner.boundary().call_without_handle(|| waker.wake());
    }

    fn discard(&self, waker: Waker) {
        self.context.runner.boundary().discard(waker);
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.timers.len() >= self.max_timers
    }

    /// Returns the waker that is registered under `key` for `tick`, or the answer to its waiter.
    fn known(&mut self, key: Key, tick: Tick) -> Result<&mut Waker, Wait> {
        let ended = self.answer_at_the_end(tick);
        self.timers.get_mut(key).ok_or(ended.unwrap_or(Wait::Over))
    }

    /// Returns the answer to a waiter for `tick` that needs no registration, if it needs none.
    fn answer_without_timer(&self, tick: Tick) -> Option<Wait> {
        let has_come = || (tick <= self.timers.now()).then_some(Wait::Over);
        self.answer_at_the_end(tick).or_else(has_come)
    }

    /// Returns the answer to a waiter for `tick`, if the wheel has ended.
    fn answer_at_the_end(&self, tick: Tick) -> Option<Wait> {
        let answer = |ended| if tick <= ended { Wait::Over } else { Wait::Ended };
        self.ended.map(answer)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;
    use crate::engine::dispatch::IdleWaiters;
    use crate::host::clock::Clock;
    use crate::host::sync::Parker;
    use crate::host::user_panics::UnwindBoundary;
    use crate::values::time::Scale;

    /// The limit of an advance is the number of wakers that it wakes in all shards together.
    #[test]
    fn advance_limit_counts_for_all_shards_together() {
        let wakers = Wakers::new(3, &Geometry::default(), context());
        let wakes = Arc::new(WakesInHooks(AtomicUsize::new(0)));
        for thread in [0, 0, 1, 1, 1, 2, 2] {
            let waker = Waker::from(Arc::clone(&wakes));
            wakers.shard(thread).poll(&mut None, Tick::new(5), &waker);
        }
        for (woken, finished) in [(3, false), (6, false), (7, true)] {
            assert_eq!(wakers.advance(Tick::new(5), 3), finished);
            assert_eq!(wakes.0.load(Ordering::Relaxed), woken);
        }
    }

    pub(crate) struct WakesInHooks(pub(crate) AtomicUsize);

    impl Wake for WakesInHooks {
        fn wake(self: Arc<Self>) {
            self.0
                .fetch_add(usize::from(crate::host::user_panics::is_in_hook()), Ordering::Relaxed);
        }
    }

    pub(crate) fn context() -> WakerContext {
        let scale = Scale::new(Duration::from_millis(1)).unwrap();
        let runner = JobRunner::new(UnwindBoundary::default(), Arc::new(IdleWaiters::new()));
        let alarm = Arc::new(Alarm::new(Arc::new(Parker::new())));
        WakerContext::new(Timebase::new(Clock::manual(), scale), alarm, Arc::new(runner))
    }

    /// A full shard wakes the waiter at once, so that the waiter polls again.
    #[test]
    fn waker_shard_that_is_full_wakes_at_once() {
        let shards = WakerShard::several(2, &Geometry::default(), 1, context());
        let [shard, other] = [&shards[0], &shards[1]];
        let wakes = Arc::new(WakesInHooks(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&wakes));
        let (mut first, mut second) = (None, None);
        assert_eq!(shard.poll(&mut first, Tick::new(5), &waker), Wait::Pending);
        assert_eq!(shard.poll(&mut second, Tick::new(5), &waker), Wait::Pending);
        assert_eq!((second, wakes.0.load(Ordering::Relaxed)), (None, 1));
        shard.cancel(first.take().expect("it had room"));
        assert_eq!(shard.poll(&mut second, Tick::new(5), &waker), Wait::Pending);
        // A waker that moves finds no room elsewhere either.
        assert!(other.poll(&mut first, Tick::new(5), &waker) == Wait::Pending);
        let reset = shard.reset_into(other, second.as_mut().expect("it has room"), Tick::new(6));
        assert_eq!((reset, wakes.0.load(Ordering::Relaxed)), (Reset::Gone, 2));
    }
}
