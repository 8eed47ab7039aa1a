//! The source of events: their hierarchy behind its lock, and how it ends.
//!
//! Ground rules:
//!
//! - The thread that delivers takes the outlet out of the state. A thread that finds it gone leaves
//!   the delivery to that thread, which looks at the state again before it puts the outlet back.
//! - One advance takes out events of one tick, so the deadline of an event is not stored in its node.
//! - While the channel is full, due events stay in the hierarchy, and the ticker looks again at the
//!   next tick, as long as any is due. On a manual clock, where a look at a full channel is of no use,
//!   the next look is at the first tick with room.
//! - Once the outlet is dropped, the source is finished, and leaves the list of sources.

use std::sync::Arc;
use std::time::Duration;

use super::outlet::{Delivery, Outlet, Ready};
use super::state::{State, handle, key};
use super::wall::WallTimes;
use crate::engine::alarm::Alarm;
use crate::engine::dispatch::JobRunner;
use crate::engine::sources::{EventMetrics, Source};
use crate::engine::timers::Timers;
use crate::engine::verbs::Engine;
use crate::host::clock::WallOffset;
use crate::host::in_hook::call_hook;
use crate::host::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::host::timebase::Timebase;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::time::Tick;
use crate::values::when::When;

pub(super) struct EventSource<T> {
    state: Mutex<State<T>>,
    ready: Arc<Ready>,
    /// Nothing is sent any more.
    is_finished: AtomicBool,
    timebase: Timebase,
    alarm: Arc<Alarm>,
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

    pub(super) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    pub(super) fn insert(&self, when: When, value: T) -> Result<Handle, InsertError<T>> {
        let now = self.timebase.clock().now();
        let mut state = lock(&self.state);
        if let Err(kind) = state.admit(1) {
            drop(state);
            return Err(InsertError::new(kind, value));
        }
        let (key, wake) = state.insert(&self.timebase, when, now, value);
        drop(state);
        self.alarm.wake_for(wake);
        Ok(handle(key))
    }

    pub(super) fn insert_batch<W>(
        &self,
        timers: Vec<(W, T)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(W, T)>>>
    where
        W: Into<When> + Copy,
    {
        let now = self.timebase.clock().now();
        // The conversion may be user code, so it runs before the lock is taken.
        let times: Vec<When> = timers.iter().map(|&(when, _)| when.into()).collect();
        let mut state = lock(&self.state);
        if let Err(kind) = state.admit(timers.len()) {
            drop(state);
            return Err(InsertError::new(kind, timers));
        }
        let mut earliest = Tick::MAX;
        let handles = times.into_iter().zip(timers).map(|(when, (_, value))| {
            let (key, wake) = state.insert(&self.timebase, when, now, value);
            earliest = earliest.min(wake);
            handle(key)
        });
        let handles = handles.collect();
        drop(state);
        self.alarm.wake_for(earliest);
        Ok(handles)
    }

    pub(super) fn take(&self, handle: Handle) -> Option<T> {
        let mut state = lock(&self.state);
        let key = key(handle);
        let value = state.timers.cancel(key);
        state.wall.remove(key);
        value
    }

    pub(super) fn reset(&self, handle: Handle, when: When) -> bool {
        let now = self.timebase.clock().now();
        let wake = lock(&self.state).reset(&self.timebase, key(handle), when, now);
        self.alarm.wake_for(wake.unwrap_or(Tick::MAX));
        wake.is_some()
    }

    pub(super) fn reset_batch(&self, timers: &[(Handle, When)]) -> Vec<bool> {
        let now = self.timebase.clock().now();
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        let were_pending = timers.iter().map(|&(handle, when)| {
            let wake = state.reset(&self.timebase, key(handle), when, now);
            earliest = earliest.min(wake.unwrap_or(Tick::MAX));
            wake.is_some()
        });
        let were_pending = were_pending.collect();
        drop(state);
        self.alarm.wake_for(earliest);
        were_pending
    }

    pub(super) fn remaining(&self, handle: Handle) -> Option<Duration> {
        self.follow_the_wall();
        let deadline = lock(&self.state).timers.deadline(key(handle))?;
        Some(self.timebase.until(deadline))
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.state).timers.len()
    }

    #[cfg(test)]
    pub(super) fn with_times(&self, look: impl FnOnce(&WallTimes)) {
        look(&lock(&self.state).wall);
    }

    pub(super) fn drain(&self) -> Vec<(Handle, Duration, T)> {
        self.follow_the_wall();
        let mut pending = {
            let mut state = lock(&self.state);
            state.wall = WallTimes::default();
            state.timers.drain()
        };
        pending.sort_by_key(|&(_, deadline, _)| deadline);
        let now = self.timebase.clock().now();
        let back =
            |(key, deadline, value)| (handle(key), self.timebase.between(now, deadline), value);
        pending.into_iter().map(back).collect()
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
        let pending = {
            let mut state = lock(&self.state);
            let is_over = state.is_disconnected || state.is_abandoned && state.ended.is_some();
            if !is_over {
                return;
            }
            state.wall = WallTimes::default();
            state.timers.drain()
        };
        pending.into_iter().for_each(|(_, _, value)| self.discard(value));
    }

    /// Reads the wall clock, and updates the deadlines of the events that wait for it. Returns the
    /// reading, or `None` if no event waits for it.
    fn follow_the_wall(&self) -> Option<WallOffset> {
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
