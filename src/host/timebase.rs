//! From what a user says about time to a deadline: the clock, and how long a tick is.
//!
//! Ground rules:
//!
//! - A delay, and an instant, become a [`Moment`] once, when they are given. A wall-clock time
//!   stays one ([`Target::Wall`]) until its job runs: the moment at which the wall clock will read it
//!   is a guess, made anew whenever the clock was set.
//! - Nothing that is given now is due now: on a manual clock, which stands while jobs run, a job
//!   that inserts itself anew without a delay would never let time pass.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::host::clock::Clock;
use crate::values::time::{Moment, Scale, Span, Tick};
use crate::values::when::When;

/// What a job waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Moment(Moment),
    Wall(SystemTime),
}

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

    /// What a user means, as of now.
    pub(crate) fn target(&self, when: When) -> Target {
        match when {
            When::After(delay) => Target::Moment(self.clock.now().plus(delay)),
            When::At(instant) => Target::Moment(self.clock.moment(instant)),
            When::Wall(time) => Target::Wall(time),
        }
    }

    /// When that will be, as the clocks go now.
    pub(crate) fn moment(&self, target: Target) -> Moment {
        match target {
            Target::Moment(moment) => moment,
            Target::Wall(time) => self.clock.moment_of_wall(time),
        }
    }

    /// Whether the clock that an target was taken on has come there.
    pub(crate) fn has_come(&self, target: Target) -> bool {
        match target {
            Target::Moment(moment) => moment <= self.clock.now(),
            Target::Wall(time) => time <= self.clock.wall(),
        }
    }

    /// The tick at which a job is due that is inserted now for `moment`.
    #[inline]
    pub(crate) fn deadline(&self, moment: Moment) -> Tick {
        let deadline = self.scale.deadline(moment);
        match self.clock.is_manual() {
            true => deadline.max(self.present() + Span::new(1)),
            // Time passes by itself; the structure sees to the rest.
            false => deadline,
        }
    }

    /// The tick that the clock is at.
    pub(crate) fn present(&self) -> Tick {
        self.scale.present(self.clock.now())
    }

    /// How long it is until `tick` begins; [`Duration::MAX`] until never.
    pub(crate) fn until(&self, tick: Tick) -> Duration {
        match tick {
            Tick::MAX => Duration::MAX,
            tick => self.scale.begin(tick).since(self.clock.now()),
        }
    }
}
