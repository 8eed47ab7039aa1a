//! The state of a source of events, which its lock protects.
//!
//! No user code runs here: values move, and nothing is dropped.

use super::outlet::Outlet;
use super::wall::WallTimes;
use crate::engine::timers::Timers;
use crate::host::clock::WallOffset;
use crate::host::timebase::{Point, Target, Timebase};
use crate::structure::{Key, StoppedBy};
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::time::{Moment, Span, Tick};
use crate::values::when::When;

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

    /// Checks that `events` more events can be inserted.
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
        let due = Due::of(timebase, when, now);
        let key = self.timers.insert(due.deadline, value);
        (key, self.note_wall(timebase, key, due))
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
        let due = Due::of(timebase, when, now);
        self.wall.remove(key);
        self.timers.reset(key, due.deadline);
        Some(self.note_wall(timebase, key, due))
    }

    /// Notes that an event waits for the wall clock, if it does. Returns the tick for which the ticker
    /// has to be awake: for the event, or for a look at that clock.
    fn note_wall(&mut self, timebase: &Timebase, key: Key, due: Due) -> Tick {
        let Due { deadline, target, reading } = due;
        let (Point::Wall(time), Some(reading)) = (target.point, reading) else { return deadline };
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

/// The deadline of an event, and the values from which it was estimated.
struct Due {
    deadline: Tick,
    target: Target,
    /// The reading of the wall clock, for a wall-clock time.
    reading: Option<WallOffset>,
}

impl Due {
    fn of(timebase: &Timebase, when: When, now: Moment) -> Due {
        let target = timebase.target(when, now);
        let estimate = timebase.estimate(target.point);
        let deadline = timebase.deadline(estimate.moment, target.window, now);
        Due { deadline, target, reading: estimate.reading }
    }
}

pub(super) fn handle(key: Key) -> Handle {
    Handle::new(0, key.generation, key.index)
}

pub(super) fn key(handle: Handle) -> Key {
    Key { generation: handle.generation(), index: handle.index() }
}
