//! The timebase: turns a delay, an instant or a wall-clock time into a deadline in ticks.
//!
//! Ground rules:
//!
//! - A delay or an instant becomes a [`Moment`] once, when it is given. A wall-clock time stays one
//!   ([`Target::Wall`]) until its job runs: the moment at which the wall clock will read it is an
//!   estimate, made anew whenever the wall clock is set.
//! - The earliest deadline is the first tick after the present, however long the wheel was idle.
//!   Otherwise a job that inserts itself anew for a time that has passed would run again and again
//!   within one tick; and on a manual clock, which stands while jobs run, time would never pass.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::host::clock::{Clock, WallOffset};
use crate::values::time::{Moment, Scale, Tick};
use crate::values::when::When;

/// What a job waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Moment(Moment),
    Wall(SystemTime),
}

/// The moment at which a target is reached unless the wall clock is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) moment: Moment,
    /// The reading of the wall clock from which `moment` follows, if the target is a wall-clock
    /// time.
    pub(crate) reading: Option<WallOffset>,
}

/// The clock, and the length of a tick.
pub(crate) struct Timebase {
    clock: Arc<Clock>,
    scale: Scale,
}

impl Timebase {
    pub(crate) fn new(clock: Clock, scale: Scale) -> Timebase {
        Timebase { clock: Arc::new(clock), scale }
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the target of a job that is given `when` at `now`.
    pub(crate) fn target(&self, when: When, now: Moment) -> Target {
        match when {
            When::After(delay) => Target::Moment(now.plus(delay)),
            When::At(instant) => Target::Moment(self.clock.moment(instant)),
            When::Wall(time) => Target::Wall(time),
        }
    }

    /// Returns when the clocks will reach `target` unless the wall clock is set; the present if it
    /// is a wall-clock time that has passed.
    pub(crate) fn estimate(&self, target: Target) -> Estimate {
        match target {
            Target::Moment(moment) => Estimate { moment, reading: None },
            Target::Wall(time) => {
                let (moment, reading) = self.clock.moment_of_wall(time);
                Estimate { moment, reading: Some(reading) }
            }
        }
    }

    /// Returns whether the clock of `target`, monotonic or wall, has reached it.
    pub(crate) fn has_come(&self, target: Target) -> bool {
        match target {
            Target::Moment(moment) => moment <= self.clock.now(),
            Target::Wall(time) => time <= self.clock.wall(),
        }
    }

    /// Returns the tick at which a job is due that is given `moment` at `now`: the first tick that
    /// begins at or after `moment`, and after `now`.
    #[inline]
    pub(crate) fn deadline(&self, moment: Moment, now: Moment) -> Tick {
        self.scale.deadline(moment.max(now.plus_a_nanosecond()))
    }

    /// Returns the tick that the clock is at.
    pub(crate) fn present(&self) -> Tick {
        self.scale.present(self.clock.now())
    }

    /// Returns the time until `tick` begins: zero if it has begun, [`Duration::MAX`] for "never".
    pub(crate) fn until(&self, tick: Tick) -> Duration {
        match tick {
            Tick::MAX => Duration::MAX,
            tick => self.scale.begin(tick).since(self.clock.now()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_earliest_deadline_is_the_tick_after_the_present() {
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
                let deadline = timebase.deadline(at(moment), at(now));
                assert_eq!(deadline, Tick::new(tick), "{moment} given at {now}");
            }
            assert_eq!(timebase.deadline(at(5), Moment::NEVER), Tick::MAX);
            assert_eq!(timebase.deadline(Moment::NEVER, at(5)), Tick::MAX);
        }
    }
}
