//! What lies under the lock of a source of events.
//!
//! No user code runs here: values move, and nothing is dropped.

use super::outlet::Outlet;
use super::wall::WallTimes;
use crate::engine::timers::Timers;
use crate::host::clock::WallOffset;
use crate::host::timebase::{Point, Target, Timebase};
use crate::structure::Key;
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::time::{Moment, Span, Tick};
use crate::values::when::When;

pub(super) struct State<T> {
    pub(super) timers: Timers<T>,
    pub(super) wall: WallTimes,
    /// Not while a thread delivers, and never again after the end.
    pub(super) outlet: Option<Outlet<T>>,
    /// The channel was full: when to look again.
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

    /// Nothing is delivered any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.is_disconnected
    }

    /// Returns whether the channel is known to be full.
    pub(super) fn is_full(&self) -> bool {
        self.outlet.as_ref().is_some_and(|outlet| outlet.room() == 0)
    }

    /// Says whether so many more events can come in.
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
        let estimate = timebase.estimate(target.point);
        let deadline = timebase.deadline(estimate.moment, target.window, now);
        let key = self.timers.insert(deadline, value);
        let wake = self.note_wall(timebase, key, target, estimate.reading);
        (key, deadline.min(wake))
    }

    /// Returns the new deadline of a pending event, and the tick for which the ticker has to be awake.
    pub(super) fn deadline(
        &mut self,
        timebase: &Timebase,
        key: Key,
        target: Target,
        now: Moment,
    ) -> (Tick, Tick) {
        let estimate = timebase.estimate(target.point);
        let deadline = timebase.deadline(estimate.moment, target.window, now);
        self.wall.remove(key);
        let wake = self.note_wall(timebase, key, target, estimate.reading);
        (deadline, deadline.min(wake))
    }

    /// Notes that an event waits for the wall clock, if it does. Returns when the ticker has to look
    /// at that.
    fn note_wall(
        &mut self,
        timebase: &Timebase,
        key: Key,
        target: Target,
        reading: Option<WallOffset>,
    ) -> Tick {
        let (Point::Wall(time), Some(reading)) = (target.point, reading) else { return Tick::MAX };
        self.wall.insert(key, time, target.window, reading, timebase);
        self.wall.next_look(timebase)
    }

    /// Takes out events that are due at the first tick up to `to` at which any is. Returns that tick,
    /// and whether that is all there is, or all there is room for.
    pub(super) fn take_due(
        &mut self,
        to: Tick,
        limit: usize,
        reading: Option<WallOffset>,
        timebase: &Timebase,
        outlet: &mut Outlet<T>,
    ) -> (Tick, bool) {
        self.retry = None;
        let tick = self.timers.next_due().min(to);
        if let Some(reading) = reading {
            self.wall.hold_back(tick, reading, &mut self.timers, timebase);
        }
        if limit == 0 && self.timers.next_due() <= to {
            self.retry = Some(timebase.present() + Span::new(1));
            return (to, true);
        }
        let finished = self.timers.advance(tick, limit.max(1), &mut outlet.due);
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
