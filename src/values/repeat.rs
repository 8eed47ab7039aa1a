//! What a repeating job is told, what it answers, and which run comes next.
//!
//! Ground rules:
//!
//! - A fixed rate counts from the deadline of the run before, to the nanosecond, and never from the
//!   clock: it keeps its phase however late its runs are, and roundings to ticks do not add up.
//! - A period is missed when its deadline has passed while the run before had not ended. What
//!   happens then is the policy's to say ([`Missed`]), and only then.

use std::time::{Duration, Instant, SystemTime};

use crate::values::handle::Handle;
use crate::values::time::Moment;
use crate::values::when::When;

/// How a job repeats: its period, its first run, and what to do about trouble. For
/// [`Wheel::repeat`](crate::Wheel::repeat).
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::{Missed, Repeat};
/// let second = Duration::from_secs(1);
/// let ping = Repeat::every(second); // the first one second from now
/// let meter = Repeat::every(second).starting(Duration::ZERO).missed(Missed::Burst);
/// let backup = Repeat::every(3600 * second).starting(Instant::now() + second).despite_panics();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "this describes a repeating job and starts none"]
pub struct Repeat {
    period: Option<Duration>,
    first: When,
    missed: Missed,
    despite_panics: bool,
}

impl Repeat {
    /// At a fixed rate: once every `period`, the first time after one period. A period of zero is
    /// refused by the insert.
    ///
    /// A job runs once a tick at most. With a period shorter than the wheel's tick,
    /// [`Missed::Skip`] and [`Missed::Delay`] drop deadlines at every run, and [`Missed::Burst`]
    /// never catches up.
    pub fn every(period: Duration) -> Repeat {
        Repeat { period: Some(period), ..Repeat::irregular().starting(period) }
    }

    /// Without a period: every answer of the job says when it runs again. The first run is at the
    /// next tick, unless said otherwise. Here [`Next::Period`] **ends the repeat**, and so does a
    /// panic.
    pub fn irregular() -> Repeat {
        Repeat {
            period: None,
            first: When::After(Duration::ZERO),
            missed: Missed::Skip,
            despite_panics: false,
        }
    }

    /// When the first run is: after a delay, counted from the insert; at an instant; or at a
    /// wall-clock time.
    ///
    /// An instant that has passed counts as a deadline that is late: the job runs at the next tick,
    /// and what was missed since is up to the policy. A wall-clock time says when the first run is,
    /// and no more; the later ones are a period apart on the monotonic clock. For a job at eight
    /// every morning answer [`Next::Wall`].
    pub fn starting(mut self, first: impl Into<When>) -> Repeat {
        self.first = first.into();
        self
    }

    /// What happens when periods were missed. [`Missed::Skip`] unless said.
    pub fn missed(mut self, policy: Missed) -> Repeat {
        self.missed = policy;
        self
    }

    /// A run that panics is followed by the next, after one period; without a period it is the last
    /// all the same. Unless said, a panic ends the repeat. Either way it is counted, and reported
    /// to [`Builder::on_panic`](crate::Builder::on_panic).
    pub fn despite_panics(mut self) -> Repeat {
        self.despite_panics = true;
        self
    }

    pub(crate) fn first(&self) -> When {
        self.first
    }

    /// Whether there is a period, and it is zero.
    pub(crate) fn has_zero_period(&self) -> bool {
        self.period == Some(Duration::ZERO)
    }

    /// What a run that panicked would have answered.
    pub(crate) fn after_panic(&self) -> Next {
        if self.despite_panics { Next::Period } else { Next::Stop }
    }

    /// The deadline that follows `deadline` by the period, as of `now`, and how many deadlines were
    /// dropped; `None` without a period.
    pub(crate) fn follow(&self, deadline: Moment, now: Moment) -> Option<(Moment, u64)> {
        let period = self.period?;
        let next = deadline.plus(period);
        if next >= now || self.missed == Missed::Burst {
            return Some((next, 0));
        }
        // A deadline that is just now has not passed. And `now` is not zero: `next` lies before it.
        let passed = now.minus_a_nanosecond().periods_since(deadline, period);
        Some(match self.missed {
            Missed::Delay => (now.plus(period), passed),
            _ => (deadline.plus_periods(period, passed + 1), passed),
        })
    }
}

/// What becomes of periods whose deadline passed while the run before had not ended: because that
/// run took long, or because the pool was full, or the machine slept.
///
/// As long as nothing is missed, all three are the same. The names are those of tokio's
/// `MissedTickBehavior`; but here [`Skip`](Missed::Skip) is what happens unless said, and a run
/// that is late by less than a period misses nothing.
///
/// None of them is a fixed delay, which counts from the end of every run: that is an answer,
/// [`Next::After`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Missed {
    /// Every deadline gets its run: those that were missed follow at once, one a tick, until the
    /// job has caught up.
    Burst,
    /// What was missed is dropped. The next run is at the next deadline of the same phase.
    #[default]
    Skip,
    /// What was missed is dropped. The next run is one period after the end of the late one, and
    /// the phase counts from there.
    Delay,
}

/// What a run of a repeating job is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Run {
    /// When this run was to be, exactly: before it was rounded up to a tick.
    pub deadline: Instant,
    /// How long after that it started. The rounding is part of it.
    pub late: Duration,
    /// How many deadlines were dropped between the run before and this one: what [`Missed::Skip`]
    /// skipped, or [`Missed::Delay`] put off. A late run has made others miss; the run after it is
    /// told. Zero with [`Missed::Burst`], and after a reset.
    pub missed: u64,
    /// The job's own handle, the same in every run. To cancel it here means that this run is the
    /// last.
    pub handle: Handle,
}

/// What a run of a repeating job answers: when the next one is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[must_use]
pub enum Next {
    /// At a fixed rate: one period after the deadline of this run, under the policy for missed
    /// periods. Without a period ([`Repeat::irregular`]) the same as [`Next::Stop`].
    Period,
    /// With a fixed delay: so long after the end of this run.
    After(Duration),
    /// At an instant.
    At(Instant),
    /// At a wall-clock time: see [`Wheel::insert_at`](crate::Wheel::insert_at).
    Wall(SystemTime),
    /// Never: this run was the last, and the handle is stale.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Moment {
        Moment::after(Duration::from_nanos(nanos))
    }

    /// Deadline by deadline.
    fn follow_slowly(period: u64, missed: Missed, deadline: u64, now: u64) -> (Moment, u64) {
        let (mut next, mut dropped) = (deadline + period, 0);
        while next < now && missed != Missed::Burst {
            next += period;
            dropped += 1;
        }
        match missed {
            Missed::Delay if dropped > 0 => (at(now + period), dropped),
            _ => (at(next), dropped),
        }
    }

    proptest! {
        #[test]
        fn the_next_deadline_is_the_one_that_is_found_by_counting(
            period in 1..50_u64,
            deadline in 0..1000_u64,
            late in 0..1000_u64,
            missed in prop::sample::select(vec![Missed::Burst, Missed::Skip, Missed::Delay]),
        ) {
            let repeat = Repeat::every(Duration::from_nanos(period)).missed(missed);
            let now = deadline + late;
            let expected = follow_slowly(period, missed, deadline, now);
            prop_assert_eq!(repeat.follow(at(deadline), at(now)), Some(expected));
        }
    }

    #[test]
    fn a_period_without_end_is_never() {
        let repeat = Repeat::every(Duration::MAX);
        assert_eq!(repeat.follow(at(5), at(9)), Some((Moment::NEVER, 0)));
        assert_eq!(Repeat::irregular().follow(at(5), at(9)), None);
    }
}
