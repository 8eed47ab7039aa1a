//! The source of events: their hierarchy behind its lock, and how it ends.
//!
//! Ground rules:
//!
//! - No user code runs under the lock: in [`State`], values move, and nothing is dropped.
//! - The thread that delivers takes the outlet out of the state. A thread that finds it gone leaves the delivery to
//!   that thread, which looks at the state again before it puts the outlet back.
//! - One advance takes out events of one tick, so the deadline of an event is not stored in its node.
//! - While the channel is full, due events stay in the hierarchy, and the ticker looks again at the next tick, as long
//!   as any is due. On a manual clock, where a look at a full channel is of no use, the next look is at the first tick
//!   with room.
//! - Once the outlet is dropped, the source is finished, and leaves the list of sources.

use std::sync::Arc;

use super::outlet::{Delivery, Outlet, Ready};
use super::wall_times::WallTimes;
use crate::engine::alarm::Alarm;
use crate::engine::dispatch::JobRunner;
use crate::engine::sources::{EventMetrics, Source};
use crate::engine::timers::Timers;
use crate::engine::verbs::Engine;
use crate::host::clock::{Estimate, Point, Target, Timebase, WallOffset};
use crate::host::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::host::user_panics::call_hook;
use crate::structure::{Key, StoppedBy};
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::time::{Moment, Span, Tick, When};

pub(super) struct EventSource<T> {
    pub(super) state: Mutex<State<T>>,
    pub(super) ready: Arc<Ready>,
    /// Nothing is sent any more.
    is_finished: AtomicBool,
    pub(super) timebase: Timebase,
    pub(super) alarm: Arc<Alarm>,
    runner: Arc<JobRunner>,
    metrics: Arc<EventMetrics>,
}

/// How many events one step looks at, when due events are sent at the end of the wheel.
const ENTRIES_PER_LOCK: usize = 256;

impl<T> EventSource<T> {
    pub(super) fn new(engine: &Engine, outlet: Outlet<T>) -> EventSource<T> {
        let runner = engine.runner();
        let mut timers = Timers::new(engine.geometry().clone());
        // Starts at the present tick, as if it had advanced with the wheel from the beginning.
        timers.advance(engine.timebase().present(), usize::MAX, &mut Vec::new());
        EventSource {
            state: Mutex::new(State::new(timers, outlet)),
            ready: Arc::new(Ready::new(runner)),
            is_finished: AtomicBool::new(false),
            timebase: engine.timebase().share(),
            alarm: Arc::clone(engine.sources().alarm()),
            runner: Arc::clone(runner),
            metrics: Arc::clone(engine.sources().event_metrics()),
        }
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.state).timers.len()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn with_times(&self, look: impl FnOnce(&WallTimes)) {
        look(&lock(&self.state).wall);
    }

    pub(super) fn take_all(&self) -> Vec<(Key, Tick, T)> {
        let mut state = lock(&self.state);
        state.wall = WallTimes::default();
        state.timers.drain()
    }

    /// Called when the last [`Events`](super::Events) is dropped. Pending events are still sent, unless the
    /// wheel has ended.
    pub(super) fn abandon(&self) {
        let mut state = lock(&self.state);
        state.is_abandoned = true;
        // If an event is pending, the outlet stays where the ticker finds it.
        let is_last = state.timers.len() == 0;
        let outlet = if is_last { state.outlet.take() } else { None };
        drop(state);
        match outlet {
            Some(outlet) => self.put_back(outlet),
            None if self.is_over() => self.discard_if_over(),
            // The next thread that puts the outlet back does it. Events that were due before the end are
            // still sent.
            None => {}
        }
    }

    /// Returns whether no event is sent any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }

    pub(super) fn discard(&self, value: T) {
        self.runner.boundary().discard(value);
    }

    /// Takes out the events of the first tick up to `to` at which any is due, and delivers them.
    /// Returns whether the work up to `to` is done: no other event is due, or there is no room for it.
    fn deliver(&self, outlet: &mut Outlet<T>, to: Tick, limit: usize) -> bool {
        let reading = self.follow_the_wall();
        let room = outlet.room();
        let (tick, finished) = {
            let mut state = lock(&self.state);
            if state.is_disconnected {
                return true;
            }
            state.take_due(to, limit, room, reading, &self.timebase, outlet)
        };
        if outlet.due.is_empty() {
            return finished;
        }
        let deadline = self.timebase.clock().instant(self.timebase.scale().begin(tick));
        let Delivery { sent, given_up, is_disconnected } = outlet.deliver(deadline, &self.runner);
        self.metrics.add(sent, given_up);
        if outlet.may_have_been_empty(sent) {
            self.ready.wake();
        }
        if is_disconnected {
            lock(&self.state).is_disconnected = true;
        }
        finished || is_disconnected
    }

    /// Returns whether the channel of a manual wheel is full. The driver takes a step for each tick that a
    /// source names. It needs none here until a job, or another thread, has made room.
    fn needs_no_look(&self, state: &State<T>) -> bool {
        state.retry.is_some() && self.timebase.clock().is_manual() && state.is_full()
    }

    /// Ends a delivery: puts the outlet back, or drops it if no event will be sent any more.
    fn put_back(&self, mut outlet: Outlet<T>) {
        loop {
            let mut state = lock(&self.state);
            if let Some(end) = state.ended
                && !state.is_disconnected
                && state.timers.next_due() <= end
                && outlet.room() > 0
            {
                drop(state);
                // Events that were due before the end.
                self.deliver(&mut outlet, end, ENTRIES_PER_LOCK);
                continue;
            }
            let is_empty = state.is_abandoned && state.timers.len() == 0;
            if !state.is_over() && !is_empty {
                state.outlet = Some(outlet);
                return;
            }
            break;
        }
        self.is_finished.store(true, Ordering::Release);
        // The channel disconnects here.
        self.runner.boundary().discard(outlet);
        self.ready.wake();
        self.ready.clear_hook();
        self.discard_if_over();
    }

    /// Drops the pending events, if the receivers are gone, or both the wheel and every `Events`.
    fn discard_if_over(&self) {
        let is_over = {
            let state = lock(&self.state);
            state.is_disconnected || state.is_abandoned && state.ended.is_some()
        };
        if is_over {
            self.take_all().into_iter().for_each(|(_, _, value)| self.discard(value));
        }
    }

    /// Reads the wall clock, and updates the deadlines of the events that wait for it. Returns the
    /// reading, or `None` if no event waits for it.
    pub(super) fn follow_the_wall(&self) -> Option<WallOffset> {
        loop {
            let State { timers, wall, .. } = &mut *lock(&self.state);
            if wall.is_empty() {
                return None;
            }
            // Read under the lock, each time. Otherwise one of two threads might go back to a reading
            // from before the clock was set, and both would begin anew, again and again.
            let reading = self.timebase.clock().read_wall_closely();
            if wall.follow(reading, timers, &self.timebase) {
                return Some(reading);
            }
        }
    }
}

impl<T: Send + 'static> Source for EventSource<T> {
    fn next_due(&self) -> Tick {
        self.follow_the_wall();
        let state = lock(&self.state);
        if state.is_over() {
            return Tick::MAX;
        }
        let due = match state.retry {
            None => state.timers.next_due(),
            Some(_) if self.needs_no_look(&state) => Tick::MAX,
            Some(retry) => state.timers.next_due().max(retry),
        };
        due.min(state.wall.next_look(&self.timebase))
    }

    fn earliest_deadline(&self) -> Tick {
        self.follow_the_wall();
        let state = lock(&self.state);
        if state.is_over() {
            Tick::MAX
        } else if self.needs_no_look(&state) {
            // Due events wait for room, not for a time.
            state.timers.earliest_deadline_after(self.timebase.present())
        } else {
            state.timers.earliest_deadline()
        }
    }

    fn advance(&self, to: Tick, limit: usize) -> bool {
        let Some(mut outlet) = lock(&self.state).outlet.take() else { return true };
        let mut finished = true;
        call_hook(|| {
            finished = self.deliver(&mut outlet, to, limit);
            self.put_back(outlet);
        });
        finished
    }

    fn close(&self, present: Tick) {
        let mut state = lock(&self.state);
        state.ended.get_or_insert(present);
        let outlet = state.outlet.take();
        drop(state);
        // Without an outlet, the thread that delivers does this when it puts the outlet back.
        if let Some(outlet) = outlet {
            call_hook(|| self.put_back(outlet));
        }
    }

    fn is_finished(&self) -> bool {
        self.is_over()
    }

    fn pending_events(&self) -> usize {
        self.len()
    }
}

pub(super) struct State<T> {
    pub(super) timers: Timers<T>,
    pub(super) wall: WallTimes,
    /// `None` while a thread delivers, and after the end.
    pub(super) outlet: Option<Outlet<T>>,
    /// If the channel was full: the tick at which to look again.
    pub(super) retry: Option<Tick>,
    /// The tick at which the wheel ended.
    pub(super) ended: Option<Tick>,
    /// No receiver is left.
    pub(super) is_disconnected: bool,
    /// No [`Events`](crate::Events) is left.
    pub(super) is_abandoned: bool,
}

impl<T> State<T> {
    pub(super) fn new(timers: Timers<T>, outlet: Outlet<T>) -> State<T> {
        State {
            timers,
            wall: WallTimes::default(),
            outlet: Some(outlet),
            retry: None,
            ended: None,
            is_disconnected: false,
            is_abandoned: false,
        }
    }

    /// Returns whether no event is delivered any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.is_disconnected
    }

    /// Returns whether the channel is known to be full.
    pub(super) fn is_full(&self) -> bool {
        self.outlet.as_ref().is_some_and(|outlet| outlet.room() == 0)
    }

    pub(super) fn admit(&self, events: usize) -> Result<(), InsertErrorKind> {
        match () {
            () if self.ended.is_some() => Err(InsertErrorKind::Shutdown),
            () if self.is_disconnected => Err(InsertErrorKind::Disconnected),
            () if events > Timers::<T>::MAX - self.timers.len() => Err(InsertErrorKind::Full),
            () => Ok(()),
        }
    }

    /// Inserts an admitted value. Returns its key, and the tick for which the ticker has to be awake.
    pub(super) fn insert(
        &mut self,
        timebase: &Timebase,
        when: When,
        now: Moment,
        value: T,
    ) -> (Key, Tick) {
        let target = timebase.target(when, now);
        let due = timebase.due_tick(target, now);
        let key = self.timers.insert(due.0, value);
        (key, self.note_wall(timebase, key, target, due))
    }

    /// Gives an event another time. Returns the tick for which the ticker has to be awake, or `None` if
    /// the event is not pending.
    pub(super) fn reset(
        &mut self,
        timebase: &Timebase,
        key: Key,
        when: When,
        now: Moment,
    ) -> Option<Tick> {
        if self.ended.is_some() || self.timers.deadline(key).is_none() {
            return None;
        }
        let target = timebase.target(when, now);
        let due = timebase.due_tick(target, now);
        self.wall.remove(key);
        self.timers.reset(key, due.0);
        Some(self.note_wall(timebase, key, target, due))
    }

    /// Notes that an event waits for the wall clock, if it does. Returns the tick for which the ticker
    /// has to be awake: for the event, or for a look at that clock.
    fn note_wall(
        &mut self,
        timebase: &Timebase,
        key: Key,
        target: Target,
        (deadline, estimate): (Tick, Estimate),
    ) -> Tick {
        let (Point::Wall(time), Some(reading)) = (target.point, estimate.reading) else {
            return deadline;
        };
        self.wall.insert(key, time, target.window, reading, timebase);
        deadline.min(self.wall.next_look(timebase))
    }

    /// Takes out the events of the first tick up to `to` at which any is due: at most `room` events,
    /// looking at no more than `limit`. Returns that tick, and whether the work up to `to` is done:
    /// no other event is due, or there is no room for it.
    ///
    /// Without room, it searches for an event that is due, and sets `retry` only if it finds one.
    /// `next_due` is a lower bound: the event there may have been cancelled or reset, and then nothing
    /// waits for room.
    pub(super) fn take_due(
        &mut self,
        to: Tick,
        limit: usize,
        room: usize,
        reading: Option<WallOffset>,
        timebase: &Timebase,
        outlet: &mut Outlet<T>,
    ) -> (Tick, bool) {
        self.retry = None;
        let tick = self.timers.next_due().min(to);
        if let Some(reading) = reading {
            self.wall.hold_back(tick, reading, &mut self.timers, timebase);
        }
        let finished = match room {
            0 => match self.timers.advance_to_due(tick, limit) {
                StoppedBy::End => true,
                StoppedBy::Limit => false,
                StoppedBy::Due => {
                    self.retry = Some(timebase.present() + Span::new(1));
                    return (to, true);
                }
            },
            room => self.timers.advance(tick, limit.min(room), &mut outlet.due),
        };
        outlet.due.iter().for_each(|(key, _)| self.wall.remove(*key));
        (tick, finished && self.timers.next_due() > to)
    }
}

pub(super) fn handle(key: Key) -> Handle {
    Handle::new(0, key.generation, key.index)
}

pub(super) fn key(handle: Handle) -> Key {
    Key { generation: handle.generation(), index: handle.index() }
}
