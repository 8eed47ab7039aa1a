//! The events that wait for a wall-clock time, in tables beside their hierarchy.
//!
//! Their deadlines in the hierarchy are estimates, from a reading of the wall clock. Ground rules:
//!
//! - Every look at the source reads the wall clock before an event is taken out. If the clock has
//!   moved against a reading from which a deadline was estimated, all deadlines are estimated anew: a
//!   limited number at a time, so that the lock is free in between.
//! - An event whose time has not come by that reading gets a new deadline instead.
//! - On the system's clock, the ticker looks at the source once a [`WALL_CHECK_INTERVAL`], because the
//!   clock may be set while nothing is due. A manual driver looks at it in every step anyway.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::{Duration, SystemTime};

use crate::engine::shard::WALL_STEP_MIN;
use crate::engine::ticker::WALL_CHECK_INTERVAL;
use crate::engine::timers::Timers;
use crate::host::clock::{Point, Timebase, WallOffset};
use crate::structure::Key;
use crate::values::handle::Generation;
use crate::values::time::{Tick, Window};

/// How many deadlines are estimated before the lock is released.
const ENTRIES_PER_LOCK: usize = 256;

/// The table of times shrinks when it has room for more than `KEPT_TIMES`, and less than one place in
/// `SPARSE` is taken.
const SPARSE: usize = 16;
const KEPT_TIMES: usize = 1024;

#[derive(Default)]
pub(super) struct WallTimes {
    times: HashMap<Key, (SystemTime, Window)>,
    /// The same, in the order of the times.
    order: BTreeMap<Place, Key>,
    /// The reading from which the deadlines were estimated, to within `apart_at_most`.
    reading: Option<WallOffset>,
    /// The largest distance of `reading` from a reading that a deadline was estimated from.
    apart_at_most: Duration,
    /// Set while all deadlines are being estimated anew: those up to here are done.
    estimated: Option<Bound<Place>>,
}

type Place = (SystemTime, Generation);

impl WallTimes {
    pub(super) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub(super) fn insert(
        &mut self,
        key: Key,
        time: SystemTime,
        window: Window,
        reading: WallOffset,
        timebase: &Timebase,
    ) {
        self.times.insert(key, (time, window));
        self.order.insert((time, key.generation), key);
        let before = *self.reading.get_or_insert(reading);
        self.apart_at_most = self.apart_at_most.max(before.distance(reading));
        if before.distance(reading) > step_min(timebase) {
            // The clock was set since the last look.
            self.estimated = Some(Bound::Unbounded);
        }
    }

    pub(super) fn remove(&mut self, key: Key) {
        if self.times.is_empty() {
            return;
        }
        if let Some((time, _)) = self.times.remove(&key) {
            self.order.remove(&(time, key.generation));
        }
        if self.times.is_empty() {
            *self = WallTimes::default();
        } else if self.times.capacity() > KEPT_TIMES
            && self.times.len() < self.times.capacity() / SPARSE
        {
            // A few entries must not keep the memory of a burst. The tree frees its nodes by itself.
            self.times.shrink_to(2 * self.times.len());
        }
    }

    /// Returns the tick at which the wall clock must be read again.
    pub(super) fn next_look(&self, timebase: &Timebase) -> Tick {
        if self.is_empty() || timebase.clock().is_manual() {
            return Tick::MAX;
        }
        timebase.scale().deadline(timebase.clock().now().plus(WALL_CHECK_INTERVAL))
    }

    /// Estimates deadlines anew, if the clock was set. Returns whether all of them are done.
    pub(super) fn follow<T>(
        &mut self,
        reading: WallOffset,
        timers: &mut Timers<T>,
        timebase: &Timebase,
    ) -> bool {
        let before = self.reading.replace(reading);
        if before.is_none_or(|before| before.distance(reading) > step_min(timebase)) {
            (self.estimated, self.apart_at_most) = (Some(Bound::Unbounded), Duration::ZERO);
        } else {
            // Keeps the old reading, or small steps in one direction would add up unnoticed.
            self.reading = before;
        }
        let Some(from) = self.estimated else { return true };
        let some = self.order.range((from, Bound::Unbounded)).take(ENTRIES_PER_LOCK);
        let mut last = None;
        for (place, key) in some {
            let used = estimate(*key, self.times[key], timers, timebase);
            self.apart_at_most = self.apart_at_most.max(distance(self.reading, used));
            last = Some(*place);
        }
        self.estimated = last.map(Bound::Excluded);
        self.estimated.is_none()
    }

    /// Gives a new deadline to events that would be due at `tick`, but whose time has not come by
    /// `reading`.
    pub(super) fn hold_back<T>(
        &mut self,
        tick: Tick,
        reading: WallOffset,
        timers: &mut Timers<T>,
        timebase: &Timebase,
    ) {
        if timebase.clock().is_manual() {
            // Every deadline was estimated from this very reading.
            return;
        }
        let wall = reading.wall_at(timebase.clock().now());
        // A deadline is too early by at most the distance of this reading from the one that it was
        // estimated from. While the clock runs evenly, that is next to nothing, so next to no event is
        // looked at.
        let mut most = self.apart_at_most + distance(self.reading, Some(reading));
        if self.estimated.is_some() {
            // Some deadlines are still estimates from the reading before.
            most = most.max(2 * WALL_STEP_MIN);
        }
        let last = wall.checked_add(most).unwrap_or(wall);
        let from = Bound::Excluded((wall, Generation::MAX));
        let early = self.order.range((from, Bound::Included((last, Generation::MAX))));
        for key in early.map(|(_, key)| *key) {
            if timers.deadline(key).is_some_and(|deadline| deadline <= tick) {
                let used = estimate(key, self.times[&key], timers, timebase);
                self.apart_at_most = self.apart_at_most.max(distance(self.reading, used));
            }
        }
    }
}

/// Estimates the deadline of an event from the wall clock as it is now. Returns the reading.
fn estimate<T>(
    key: Key,
    (time, window): (SystemTime, Window),
    timers: &mut Timers<T>,
    timebase: &Timebase,
) -> Option<WallOffset> {
    let now = timebase.clock().now();
    let estimate = timebase.estimate(Point::Wall(time));
    timers.move_to(key, timebase.deadline(estimate.moment, window, now));
    estimate.reading
}

fn distance(one: Option<WallOffset>, other: Option<WallOffset>) -> Duration {
    one.zip(other).map_or(Duration::ZERO, |(one, other)| one.distance(other))
}

/// The distance of two readings above which the clock counts as set. Two readings of the system's
/// clock differ a little even if it was not set.
fn step_min(timebase: &Timebase) -> Duration {
    if timebase.clock().is_manual() { Duration::ZERO } else { WALL_STEP_MIN }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::adapters::events::Events;
    use crate::api::wheel::Wheel;
    use crate::engine::sources::Source;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    /// Longer than anything here takes on the slowest machine.
    const MINUTE: Duration = Duration::from_secs(60);

    /// C100: An event follows the system's wall clock, also while the ticker has planned a long sleep.
    #[test]
    fn wall_clock_of_the_system_is_followed_while_nothing_is_due() {
        let wheel = Wheel::builder().threads(1).build().unwrap();
        let scheduler = wheel.scheduler();
        let clock = scheduler.engine().timebase().clock();
        let (events, due) = Events::unbounded(&scheduler);
        // The ticker plans a long sleep. The event for a wall-clock time must make it look at the clock.
        events.insert(2 * DAY, "the day after tomorrow").unwrap();
        let short = Duration::from_millis(50);
        assert!(due.recv_timeout(short).is_err());
        events.insert(clock.wall() + DAY, "tomorrow").unwrap();
        assert!(due.recv_timeout(short).is_err());
        clock.set_wall(clock.wall() + 3 * DAY);
        assert_eq!(due.recv_timeout(MINUTE).unwrap().value, "tomorrow");
        // The clock is set back before the time has come, and forward again.
        let time = clock.wall() + Duration::from_secs(1);
        events.insert(time, "in a second").unwrap();
        clock.set_wall(clock.wall() - DAY);
        assert!(due.recv_timeout(Duration::from_millis(1500)).is_err());
        clock.set_wall(time);
        assert_eq!(due.recv_timeout(MINUTE).unwrap().value, "in a second");
        assert_eq!(events.len(), 1);
    }

    /// An event does not come before its wall-clock time, also if the clock loses a little at a time.
    #[test]
    fn event_is_held_back_while_the_wall_clock_is_slewed() {
        let wheel = Wheel::builder().driven().unwrap().0;
        let scheduler = wheel.scheduler();
        let timebase = scheduler.engine().timebase();
        let clock = timebase.clock();
        // The clock loses a little, each time less than a step.
        let lost = WALL_STEP_MIN / 5;
        for _ in 0..5 {
            let (events, due) = Events::unbounded(&scheduler);
            let time = clock.wall() + Duration::from_millis(15);
            events.insert(time, ()).unwrap();
            let began = clock.now();
            for _ in 0..4 {
                clock.set_wall(clock.wall() - lost);
            }
            while due.is_empty() {
                assert!(clock.now().since(began) < MINUTE, "it does not come");
                events.owner.source.advance(timebase.present(), 1);
                assert!(due.is_empty() || clock.wall() >= time, "before its time");
            }
        }
    }

    /// One event for a wall-clock time does not keep the memory of many that have gone.
    #[test]
    fn wall_times_of_past_events_take_no_memory() {
        let wheel = Wheel::builder().driven().unwrap().0;
        let scheduler = wheel.scheduler();
        let (events, _due) = Events::unbounded(&scheduler);
        let tomorrow = scheduler.engine().timebase().clock().wall() + DAY;
        let stays = events.insert(tomorrow, ()).unwrap();
        let batch = events.insert_batch((0..20_000).map(|_| (tomorrow, ()))).unwrap();
        assert!(events.cancel_batch(&batch).into_iter().all(|was_pending| was_pending));
        events.owner.source.with_times(|times| {
            assert!(times.times.len() == 1 && times.times.capacity() <= 2 * KEPT_TIMES);
        });
        assert!(events.cancel(stays));
    }

    /// While the wall clock runs evenly, no event gets a later deadline.
    #[test]
    fn wall_clock_that_runs_evenly_costs_no_visit_of_an_event() {
        let wheel = Wheel::builder().driven().unwrap().0;
        let scheduler = wheel.scheduler();
        let timebase = scheduler.engine().timebase();
        let (mut wall, soon) = (WallTimes::default(), timebase.clock().wall() + WALL_STEP_MIN);
        let reading = timebase.clock().read_wall_closely();
        let mut timers = Timers::<()>::new(crate::structure::Geometry::default());
        let keys: Vec<Key> = (0..100).map(|_| timers.insert(Tick::new(1), ())).collect();
        for &key in &keys {
            wall.insert(key, soon, Window::Exact, reading, timebase);
        }
        wall.hold_back(Tick::new(1), reading, &mut timers, timebase);
        // An event that was looked at would have a later deadline than tick 1.
        assert!(keys.iter().all(|&key| timers.deadline(key) == Some(Tick::new(1))));
    }
}
