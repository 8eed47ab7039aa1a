//! The clocks, the system's two or those that a [`Driver`](crate::Driver) moves, and the [`Timebase`], which turns a
//! delay, an instant or a wall-clock time into a deadline in ticks. No other file reads a clock, and there is no other
//! origin.
//!
//! Ground rules:
//!
//! - Moments count from the origin, on the monotonic clock. An [`Instant`] before the origin becomes the origin. If a
//!   clock steps back, this file reports the earlier reading; the structure never goes back.
//! - The wall clock gives the date and the time of day. It may be set at any time, so no delay is counted on it.
//! - A delay or an instant becomes a [`Moment`] once, when it is given. A wall-clock time stays one ([`Point::Wall`])
//!   until its job runs: the moment at which the wall clock will read it is an estimate, made anew whenever the wall
//!   clock is set.
//! - A window (slack, jitter) counts from the exact moment, and moves only the tick.
//! - The earliest deadline is the first tick after the present, however long the wheel was idle. Otherwise a job that
//!   inserts itself again for a time that has passed would run again and again within one tick. On a manual clock,
//!   which stands while jobs run, time would then never pass.

use core::hash::{BuildHasher, BuildHasherDefault};
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::values::time::{Earliest, Moment, Scale, Tick, When, Window, most_aligned};

/// Readings of the two clocks that are no further apart than this count as simultaneous.
const SIMULTANEOUS_WITHIN: Duration = Duration::from_millis(1);

/// How often the clocks are read, at most, to find two readings that are close. On a slow machine
/// no two may be.
const READ_ATTEMPTS_MAX: usize = 8;

/// The wall clock's offset from the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct WallOffset {
    /// The time that the wall clock would have read at the origin if it had always run as the
    /// monotonic clock does. It changes only when the wall clock is set or slewed.
    at_origin: SystemTime,
}

impl WallOffset {
    /// Returns the time that the wall clock reads at a moment, according to this offset.
    pub(crate) fn wall_at(self, moment: Moment) -> SystemTime {
        later(self.at_origin, moment.elapsed())
    }

    /// Returns by how much the wall clock was set between this reading and another.
    pub(crate) fn distance(self, other: WallOffset) -> Duration {
        let since = self.at_origin.duration_since(other.at_origin);
        since.unwrap_or_else(|error| error.duration())
    }
}

#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    wall_origin: SystemTime,
    /// Nanoseconds since the origin, if this is a manual clock.
    hand: Option<AtomicU64>,
    /// Nanoseconds by which [`Clock::set_wall`] has set the wall clock.
    wall_shift: AtomicI64,
}

impl Clock {
    /// Returns the system's clock. Its origin is now.
    pub(crate) fn monotonic() -> Clock {
        Clock::new(None)
    }

    /// Returns a manual clock, which stands until [`Clock::set`] moves it. Its origin is now.
    pub(crate) fn manual() -> Clock {
        Clock::new(Some(AtomicU64::new(0)))
    }

    fn new(hand: Option<AtomicU64>) -> Clock {
        let wall_shift = AtomicI64::new(0);
        Clock { origin: read(), wall_origin: read_wall(), hand, wall_shift }
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.hand.is_some()
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        match &self.hand {
            None => self.moment(read()),
            Some(hand) => Moment::after(Duration::from_nanos(hand.load(Ordering::Acquire))),
        }
    }

    /// Moves the hand of a manual clock. Does nothing to the system's clock.
    pub(crate) fn set(&self, moment: Moment) {
        if let Some(hand) = &self.hand {
            hand.store(moment.elapsed().as_nanos() as u64, Ordering::Release);
        }
    }

    pub(crate) fn wall(&self) -> SystemTime {
        shift(self.unshifted_wall(), self.wall_shift.load(Ordering::Acquire))
    }

    /// Sets the wall clock, by at most 292 years. After that it runs as before.
    pub(crate) fn set_wall(&self, time: SystemTime) {
        let now = self.unshifted_wall();
        let nanos = |by: Duration| i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let by = match time.duration_since(now) {
            Ok(forward) => nanos(forward),
            Err(back) => -nanos(back.duration()),
        };
        self.wall_shift.store(by, Ordering::Release);
    }

    fn unshifted_wall(&self) -> SystemTime {
        match &self.hand {
            None => read_wall(),
            Some(_) => later(self.wall_origin, self.now().elapsed()),
        }
    }

    /// Reads both clocks, with little time in between. Returns the closest pair of a few.
    pub(crate) fn read_wall_closely(&self) -> WallOffset {
        let read = || {
            let before = self.now();
            let reading = self.read_wall();
            (self.now().since(before), reading)
        };
        // A thread that loses the processor in between reads the clocks at two times. It then reads
        // again, and keeps the readings that were closest.
        let (mut apart, mut closest) = read();
        for _ in 1..READ_ATTEMPTS_MAX {
            if apart <= SIMULTANEOUS_WITHIN {
                break;
            }
            let (next_apart, next) = read();
            if next_apart < apart {
                (apart, closest) = (next_apart, next);
            }
        }
        closest
    }

    /// Reads both clocks, the wall clock first: time that passes in between makes every moment that
    /// follows from the reading later, and none earlier.
    fn read_wall(&self) -> WallOffset {
        let wall = self.wall();
        WallOffset { at_origin: earlier(wall, self.now().elapsed()) }
    }

    /// Returns the moment at which the wall clock will read `time` unless it is set; the present if
    /// `time` has passed. Also returns the offset from which this follows.
    pub(crate) fn moment_of_wall(&self, time: SystemTime) -> (Moment, WallOffset) {
        // The wall clock first, as in `read_wall`.
        let wall = self.wall();
        let now = self.now();
        let left = time.duration_since(wall).unwrap_or_default();
        (now.plus(left), WallOffset { at_origin: earlier(wall, now.elapsed()) })
    }

    /// Returns the moment of an instant, or the origin if the instant lies before it.
    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        Moment::after(instant.saturating_duration_since(self.origin))
    }

    /// Returns the instant of a moment, or some earlier one if the system cannot represent it.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        let mut elapsed = moment.elapsed();
        loop {
            match self.origin.checked_add(elapsed) {
                Some(instant) => return instant,
                None => elapsed /= 2,
            }
        }
    }
}

/// The end of a caller's wait, in real time.
pub(crate) struct Limit {
    clock: Clock,
    end: Moment,
}

impl Limit {
    /// The limit of a wait that begins now; [`Duration::MAX`] is no limit.
    pub(crate) fn new(limit: Duration) -> Limit {
        let clock = Clock::monotonic();
        let end = clock.now().plus(limit);
        Limit { clock, end }
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.end.since(self.clock.now())
    }
}

#[allow(clippy::disallowed_methods)]
fn read() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods)]
fn read_wall() -> SystemTime {
    SystemTime::now()
}

fn shift(time: SystemTime, nanos: i64) -> SystemTime {
    let by = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { earlier(time, by) } else { later(time, by) }
}

/// Returns the time `by` later, or `time` if the system cannot represent that.
fn later(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_add(by).unwrap_or(time)
}

/// Returns the time `by` earlier, or `time` if the system cannot represent that.
fn earlier(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_sub(by).unwrap_or(time)
}

/// The point that a job waits for, and how much later it may be due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) point: Point,
    pub(crate) window: Window,
}

impl Target {
    /// Returns the target of a job that is due at the first tick from `point` on.
    pub(crate) fn exact(point: Point) -> Target {
        Target { point, window: Window::Exact }
    }
}

/// A reading of one of the two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Point {
    Moment(Moment),
    Wall(SystemTime),
}

/// The moment at which a point is reached unless the wall clock is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) moment: Moment,
    /// The reading of the wall clock from which `moment` follows, if the point is a wall-clock
    /// time.
    pub(crate) reading: Option<WallOffset>,
}

/// The clock, the length of a tick, and the source of jitter.
pub(crate) struct Timebase {
    clock: Arc<Clock>,
    scale: Scale,
    /// The seed of the random numbers: the same for every manual clock.
    seed: u64,
    drawn: AtomicU64,
}

impl Timebase {
    pub(crate) fn new(clock: Clock, scale: Scale) -> Timebase {
        let seed = if clock.is_manual() { 0 } else { RandomState::new().hash_one(0) };
        Timebase { clock: Arc::new(clock), scale, seed, drawn: AtomicU64::new(0) }
    }

    /// Returns a timebase with the same clock and ticks, and a source of jitter of its own. Its
    /// random numbers differ from those of this timebase, and from those of every other that this
    /// function returned.
    pub(crate) fn share(&self) -> Timebase {
        let (clock, drawn) = (Arc::clone(&self.clock), AtomicU64::new(0));
        Timebase { clock, scale: self.scale, seed: self.draw(), drawn }
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the target of a job that gets `when` at `now`.
    #[inline]
    pub(crate) fn target(&self, when: When, now: Moment) -> Target {
        let point = match when.earliest() {
            Earliest::After(delay) => Point::Moment(now.plus(delay)),
            Earliest::At(instant) => Point::Moment(self.clock.moment(instant)),
            Earliest::Wall(time) => Point::Wall(time),
        };
        Target { point, window: when.window() }
    }

    /// Returns when the clocks will reach `point` unless the wall clock is set; the present if
    /// `point` is a wall-clock time that has passed.
    #[inline]
    pub(crate) fn estimate(&self, point: Point) -> Estimate {
        match point {
            Point::Moment(moment) => Estimate { moment, reading: None },
            Point::Wall(time) => {
                let (moment, reading) = self.clock.moment_of_wall(time);
                Estimate { moment, reading: Some(reading) }
            }
        }
    }

    /// Returns the tick at which a job with this target is due that gets it at `now`, and the estimate
    /// from which this follows.
    #[inline]
    pub(crate) fn due_tick(&self, target: Target, now: Moment) -> (Tick, Estimate) {
        let estimate = self.estimate(target.point);
        (self.deadline(estimate.moment, target.window, now), estimate)
    }

    pub(crate) fn has_come(&self, point: Point) -> bool {
        match point {
            Point::Moment(moment) => moment <= self.clock.now(),
            Point::Wall(time) => time <= self.clock.wall(),
        }
    }

    /// Returns the tick at which a job is due that gets `moment` and `window` at `now`: the first
    /// tick that begins at or after `moment`, and after `now`; or a later one within the window, if
    /// there is one.
    #[inline]
    pub(crate) fn deadline(&self, moment: Moment, window: Window, now: Moment) -> Tick {
        let first = self.scale.deadline(moment.max(now.plus_a_nanosecond()));
        match window {
            Window::Exact => first,
            _ => self.choose(first, moment, window),
        }
    }

    /// Returns a tick of the window of `moment`, from `first` on; `first` if the window ends before
    /// it.
    fn choose(&self, first: Tick, moment: Moment, window: Window) -> Tick {
        let last = |leeway| self.scale.present(moment.plus(leeway));
        match window {
            Window::Exact => first,
            Window::Slack(slack) => most_aligned(first, last(slack)),
            Window::Jitter(most) => match last(most) {
                last if last > first => {
                    let ticks = (last - first).get() + 1;
                    Tick::new(first.get() + self.draw() % ticks)
                }
                _ => first,
            },
        }
    }

    fn draw(&self) -> u64 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, count))
    }

    /// Returns the clock's reading, or an earlier instant if the system cannot represent that.
    pub(crate) fn now(&self) -> Instant {
        self.clock.instant(self.clock.now())
    }

    pub(crate) fn present(&self) -> Tick {
        self.scale.present(self.clock.now())
    }

    /// Returns the time until `tick` begins: zero if it has begun, [`Duration::MAX`] for "never".
    pub(crate) fn until(&self, tick: Tick) -> Duration {
        self.between(self.clock.now(), tick)
    }

    /// Returns the time from `now` until `tick` begins, as [`Timebase::until`] does.
    pub(crate) fn between(&self, now: Moment, tick: Tick) -> Duration {
        match tick {
            Tick::MAX => Duration::MAX,
            tick => self.scale.begin(tick).since(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instant before the origin of the clock counts as the origin.
    #[test]
    fn instant_before_the_origin_is_the_origin() {
        let before = read();
        let clock = Clock::manual();
        assert_eq!(clock.moment(before), Moment::default());
    }

    /// The system's clock does not go back, and `set` does not move it.
    #[test]
    fn system_clock_does_not_go_back() {
        let clock = Clock::monotonic();
        let first = clock.now();
        assert!(clock.now() >= first);
        clock.set(Moment::NEVER);
        assert!(clock.now() < Moment::NEVER);
    }
}

#[cfg(all(test, not(loom)))]
mod timebase_tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A deadline is rounded up to a tick, and is never before the tick after the present.
    #[test]
    fn earliest_deadline_is_the_tick_after_the_present() {
        for clock in [Clock::manual(), Clock::monotonic()] {
            let timebase = Timebase::new(clock, Scale::new(MS).unwrap());
            let at = |micros| Moment::after(Duration::from_micros(micros));
            for (moment, now, tick) in [
                (0, 0, 1),
                (0, 7_000, 8),
                (7_000, 7_000, 8),
                (7_000, 7_001, 8),
                (7_001, 7_000, 8),
                (8_000, 7_999, 8),
                (8_000, 8_000, 9),
                (8_001, 7_000, 9),
                (90_000, 7_000, 90),
            ] {
                let deadline = timebase.deadline(at(moment), Window::Exact, at(now));
                assert_eq!(deadline, Tick::new(tick), "{moment} given at {now}");
            }
            let all = |leeway| [Window::Exact, Window::Slack(leeway), Window::Jitter(leeway)];
            for window in all(MS).into_iter().chain(all(Duration::MAX)) {
                assert_eq!(timebase.deadline(at(5), window, Moment::NEVER), Tick::MAX);
                assert_eq!(timebase.deadline(Moment::NEVER, window, at(5)), Tick::MAX);
            }
        }
    }

    /// Each share of a timebase draws other random numbers.
    #[cfg(feature = "async")]
    #[test]
    fn timebase_that_is_shared_draws_a_jitter_of_its_own() {
        for clock in [Clock::manual(), Clock::monotonic()] {
            let first = Timebase::new(clock, Scale::new(MS).unwrap());
            let timebases = [first.share(), first.share().share(), first.share(), first];
            let jitter = Window::Jitter(Duration::from_secs(1_000_000));
            let draws = timebases.map(|timebase| {
                let draw = || timebase.deadline(Moment::after(MS), jitter, Moment::default());
                [draw(), draw(), draw()]
            });
            for (index, draw) in draws.iter().enumerate() {
                assert!(!draws[..index].contains(draw), "{draws:?}");
            }
        }
    }

    /// Jitter reaches every tick of its window, and no tick outside it.
    #[test]
    fn jitter_reaches_every_tick_of_its_window_and_no_other() {
        for clock in [Clock::manual(), Clock::monotonic()] {
            let timebase = Timebase::new(clock, Scale::new(MS).unwrap());
            let at = |micros| Moment::after(Duration::from_micros(micros));
            for (moment, jitter, ticks) in [
                (7_000, 0, 7..=7),
                (7_000, 999, 7..=7),
                (7_000, 4_999, 7..=11),
                (7_001, 999, 8..=8),
                (7_001, 998, 8..=8),
                (7_001, 2_998, 8..=9),
            ] {
                let window = Window::Jitter(Duration::from_micros(jitter));
                let mut seen: Vec<u64> =
                    (0..1000).map(|_| timebase.deadline(at(moment), window, at(0)).get()).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen, ticks.collect::<Vec<u64>>(), "{moment} and up to {jitter}");
            }
        }
    }
}
