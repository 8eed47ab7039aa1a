//! The timebase: turns a delay, an instant or a wall-clock time into a deadline in ticks.
//!
//! Ground rules:
//!
//! - A delay or an instant becomes a [`Moment`] once, when it is given. A wall-clock time stays one
//!   ([`Point::Wall`]) until its job runs: the moment at which the wall clock will read it is an
//!   estimate, made anew whenever the wall clock is set.
//! - A window (slack, jitter) counts from the exact moment, and moves only the tick.
//! - The earliest deadline is the first tick after the present, however long the wheel was idle.
//!   Otherwise a job that inserts itself again for a time that has passed would run again and again
//!   within one tick. On a manual clock, which stands while jobs run, time would then never pass.

use core::hash::{BuildHasher, BuildHasherDefault};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::host::clock::{Clock, WallOffset};
use crate::values::time::{Moment, Scale, Tick, most_aligned};
use crate::values::when::{Earliest, When, Window};

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
    /// The number of random numbers drawn so far.
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

    /// Returns whether the clock of `point`, monotonic or wall, has reached it.
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

    /// Returns a random number.
    fn draw(&self) -> u64 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, count))
    }

    /// Returns the clock's reading, or an earlier instant if the system cannot represent that.
    pub(crate) fn now(&self) -> Instant {
        self.clock.instant(self.clock.now())
    }

    /// Returns the tick of the clock's reading.
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

#[cfg(all(test, not(loom)))]
mod tests {
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
