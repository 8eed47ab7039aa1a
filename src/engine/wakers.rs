//! Wakers that are called at a tick: a source of timers without a job, a box or a pool.
//!
//! The wakers lie inline in the hierarchies of [`WakerShard`]s, which are made when one is first
//! needed. A shard is kept alive by its users, not by the engine, and points to no engine: so what
//! waits in it keeps memory alive and no thread, and its users share a count with no other shard.
//!
//! Ground rules:
//!
//! - To look and to register is one step under the shard's lock: a timer that is not there any more
//!   has fired, or the shard is closed. So no fire comes between.
//! - A look needs no lock before the tick has begun, with the waker that is registered, and to
//!   register for a tick that is finished needs none (`wakers/progress.rs`).
//! - A waker is the user's code. It is cloned, called and dropped outside the lock; it is called
//!   and dropped through the unwind boundary. A panic in its clone unwinds to the caller, before
//!   anything has changed.
//! - The waker that was registered last is the one that is called.
//! - Wakers are called on the thread that advances the wheel, and at the end of the wheel on the
//!   thread that ends it: each once, so that those who wait can find out.
//! - A waiter whose tick had begun at the end of the wheel is over, whether or not its waker came
//!   to its turn. One whose tick had not begun never is.

mod progress;

use std::sync::Arc;
use std::task::Waker;

use crate::engine::alarm::Alarm;
use crate::engine::dispatch::JobRunner;
use crate::engine::sources::{Source, deliver};
use crate::engine::timers::{Due, Tally, Timers};
use crate::host::sync::{Mutex, lock};
use crate::host::timebase::Timebase;
use crate::structure::{Geometry, Key};
use crate::values::time::Tick;
use progress::{Progress, WakerIdentity};

/// All wakers of one wheel.
pub(crate) struct Wakers {
    shards: Box<[Arc<WakerShard>]>,
    /// Room for the wakers of one advance.
    due: Mutex<Vec<Due<Waker>>>,
}

/// One of several hierarchies of wakers that threads are spread over, behind its lock. Two cache
/// lines to itself, as a shard of jobs has.
#[repr(align(128))]
pub(crate) struct WakerShard {
    state: Mutex<State>,
    progress: Progress,
    context: Arc<WakerContext>,
}

struct State {
    timers: Timers<Waker>,
    /// The tick at which the wheel ended.
    ended: Option<Tick>,
    max_timers: usize,
}

/// What a shard needs of its wheel. Nobody writes to it.
pub(crate) struct WakerContext {
    timebase: Timebase,
    alarm: Arc<Alarm>,
    runner: Arc<JobRunner>,
}

/// A waker that was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registration {
    key: Key,
    waker: WakerIdentity,
}

/// What a waiter is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Its tick has come.
    Over,
    /// Its waker will be called. If the shard is full, it was called, and is not registered.
    Pending,
    /// The wheel ended before its tick came.
    Ended,
}

/// What a reset finds.
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
        WakerContext { timebase, alarm, runner }
    }
}

impl Wakers {
    pub(crate) fn new(shards: usize, geometry: &Geometry, context: WakerContext) -> Wakers {
        let context = Arc::new(context);
        let shard = |_| Arc::new(WakerShard::new(geometry, usize::MAX, &context));
        Wakers { shards: (0..shards).map(shard).collect(), due: Mutex::new(Vec::new()) }
    }

    /// The shard for the thread with this number.
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

impl WakerShard {
    fn new(geometry: &Geometry, max_timers: usize, context: &Arc<WakerContext>) -> WakerShard {
        let timers = Timers::new(geometry.clone());
        let max_timers = max_timers.min(Timers::<Waker>::MAX);
        let state = State { timers, ended: None, max_timers };
        let context = Arc::clone(context);
        WakerShard { state: Mutex::new(state), progress: Progress::default(), context }
    }

    pub(crate) fn timebase(&self) -> &Timebase {
        &self.context.timebase
    }

    /// Looks whether `tick` has come. If not, `waker` is the one that will be called: it is
    /// registered, unless it is already.
    #[inline]
    pub(crate) fn poll(
        &self,
        registered: &mut Option<Registration>,
        tick: Tick,
        waker: &Waker,
    ) -> Wait {
        let is_registered = registered.is_some_and(|it| it.waker == WakerIdentity::of(waker));
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
        let identity = WakerIdentity::of(&waker);
        let mut state = lock(&self.state);
        if let Some(answer) = state.answer_without_timer(tick) {
            drop(state);
            self.discard(waker);
            return answer;
        }
        if state.timers.len() >= state.max_timers {
            drop(state);
            self.wake(waker);
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
        let identity = WakerIdentity::of(&waker);
        // By now it may have fired.
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

    /// Returns whether the wheel has ended.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Returns whether a loop turns the wheel, and may be any time behind.
    pub(crate) fn is_turned(&self) -> bool {
        self.context.alarm.is_turned()
    }

    /// Gives a registered waker another tick.
    pub(crate) fn reset(&self, registered: Registration, tick: Tick) -> Reset {
        if !lock(&self.state).timers.reset(registered.key, tick) {
            return Reset::Gone;
        }
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

    /// Calls the wakers that are due, looking at no more than `limit` entries, which are taken off
    /// it. Returns whether that is all of them.
    fn advance(&self, to: Tick, limit: &mut usize, due: &mut Vec<Due<Waker>>) -> bool {
        let finished = self.take_due(&mut lock(&self.state).timers, to, limit, due);
        deliver(|| {
            for (_, waker) in due.drain(..) {
                self.wake(core::mem::ManuallyDrop::into_inner(waker));
            }
        });
        finished
    }

    /// Takes out what is due, and publishes how far the shard has come.
    fn take_due(
        &self,
        timers: &mut Timers<Waker>,
        to: Tick,
        limit: &mut usize,
        due: &mut Vec<Due<Waker>>,
    ) -> bool {
        if timers.is_closed() || (timers.next_due() > to && timers.now() >= to) {
            return true;
        }
        // What was reset to the past asks for a tick that is over.
        self.progress.begin(to.max(timers.now()));
        let finished = timers.advance_counting(to, limit, due);
        self.progress.finish(timers.now());
        finished
    }

    /// Takes nothing in from here on, and calls every waker.
    fn close(&self, present: Tick) {
        let mut state = lock(&self.state);
        let closed = state.timers.close();
        state.ended.get_or_insert(present);
        self.progress.close();
        drop(state);
        deliver(|| {
            for (_, _, waker) in closed.into_iter().flat_map(|hierarchy| hierarchy.into_timers()) {
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
    /// The waker that is registered under `key` for `tick`, or what its waiter is told.
    fn known(&mut self, key: Key, tick: Tick) -> Result<&mut Waker, Wait> {
        let ended = self.answer_at_the_end(tick);
        self.timers.get_mut(key).ok_or(ended.unwrap_or(Wait::Over))
    }

    /// What a waiter for `tick` is told without being registered, if so.
    fn answer_without_timer(&self, tick: Tick) -> Option<Wait> {
        let has_come = || (tick <= self.timers.now()).then_some(Wait::Over);
        self.answer_at_the_end(tick).or_else(has_come)
    }

    /// What a waiter for `tick` is told, if the wheel has ended.
    fn answer_at_the_end(&self, tick: Tick) -> Option<Wait> {
        let answer = |ended| if tick <= ended { Wait::Over } else { Wait::Ended };
        self.ended.map(answer)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::idle::IdleWaiters;
    use crate::host::clock::Clock;
    use crate::host::sync::Parker;
    use crate::host::unwind::UnwindBoundary;
    use crate::values::time::Scale;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn context() -> WakerContext {
        let scale = Scale::new(Duration::from_millis(1)).unwrap();
        let runner = JobRunner::new(UnwindBoundary::default(), Arc::new(IdleWaiters::new()));
        let alarm = Arc::new(Alarm::new(Arc::new(Parker::new())));
        WakerContext::new(Timebase::new(Clock::manual(), scale), alarm, Arc::new(runner))
    }

    #[test]
    fn the_limit_of_an_advance_goes_for_all_shards_together() {
        let wakers = Wakers::new(3, &Geometry::default(), context());
        let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
        for thread in [0, 0, 1, 1, 1, 2, 2] {
            let waker = Waker::from(Arc::clone(&wakes));
            wakers.shard(thread).poll(&mut None, Tick::new(5), &waker);
        }
        for (woken, finished) in [(3, false), (6, false), (7, true)] {
            assert_eq!(wakers.advance(Tick::new(5), 3), finished);
            assert_eq!(wakes.0.load(Ordering::Relaxed), woken);
        }
    }

    #[test]
    fn a_full_shard_wakes_at_once_so_that_the_waiter_asks_again() {
        let context = Arc::new(context());
        let shard = WakerShard::new(&Geometry::default(), 1, &context);
        let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&wakes));
        let (mut first, mut second) = (None, None);
        assert_eq!(shard.poll(&mut first, Tick::new(5), &waker), Wait::Pending);
        assert_eq!(shard.poll(&mut second, Tick::new(5), &waker), Wait::Pending);
        assert_eq!((second, wakes.0.load(Ordering::Relaxed)), (None, 1));
        shard.cancel(first.expect("it had room"));
        assert_eq!(shard.poll(&mut second, Tick::new(5), &waker), Wait::Pending);
        assert!(second.is_some());
    }
}
