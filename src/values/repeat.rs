//! What repeats, jobs and intervals: the periods, the policy for missed ones, the data of a run.
//!
//! Ground rules:
//!
//! - A fixed rate counts from the deadline of the previous run, to the nanosecond, and never from
//!   the clock. So it keeps its phase however late its runs are, and roundings to ticks do not add
//!   up.

use std::time::{Duration, Instant, SystemTime};

use crate::values::handle::Handle;
use crate::values::time::{Moment, When, Window};

/// How a job repeats, for [`Wheel::repeat`](crate::Wheel::repeat): its period, its first run, and
/// what happens when periods are missed or a run panics.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::{Missed, Next, Repeat};
/// let second = Duration::from_secs(1);
/// let ping = Repeat::every(second); // the first one second from now
/// let meter = Repeat::every(second).starting(Duration::ZERO).missed(Missed::Burst);
/// let backup = Repeat::every(3600 * second)
///     .starting(Instant::now() + second)
///     .jitter(60 * second)
///     .after_panic(Next::Period);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "this describes a repeating job and starts none"]
pub struct Repeat {
    period: Option<Duration>,
    first: When,
    missed: Missed,
    after_panic: Next,
}

impl Repeat {
    /// Returns a fixed rate: one run every `period`, the first after one period. The insert refuses
    /// a period of zero.
    ///
    /// A job runs at most once a tick. With a period shorter than the wheel's tick,
    /// [`Missed::Skip`] and [`Missed::Delay`] drop deadlines, and [`Missed::Burst`] never catches up.
    #[doc(alias("interval", "set_interval", "periodic"))]
    pub fn every(period: Duration) -> Repeat {
        Repeat { period: Some(period), ..Repeat::irregular().starting(period) }
    }

    /// Returns a repeat without a period: the [`Next`] that a run returns says when the next run
    /// is. The first run is at the next tick by default. Without a period, [`Next::Period`] **ends
    /// the repeat**.
    #[doc(alias("retry", "backoff", "cron"))]
    pub fn irregular() -> Repeat {
        Repeat {
            period: None,
            first: When::after(Duration::ZERO),
            missed: Missed::Skip,
            after_panic: Next::Stop,
        }
    }

    /// Sets when the first run is: after a delay, counted from the insert; at an instant; or at a
    /// wall-clock time. A slack or a jitter of `first` applies to every run, like one that is given
    /// to [`Repeat::within`] or [`Repeat::jitter`].
    ///
    /// If an instant has passed, the first run is at the next tick and is late for that instant;
    /// the policy decides about the periods missed since. An instant before the wheel was built counts as the moment at
    /// which it was built. A wall-clock time that has passed counts
    /// as the present: the run is due at the next tick and nothing was missed. A wall-clock time
    /// sets only the first run; later runs are a period apart on the monotonic clock. For a job at
    /// eight every morning, return [`Next::Wall`].
    pub fn starting(mut self, first: impl Into<When>) -> Repeat {
        let first = first.into();
        self.first = match first.window() {
            Window::Exact => first.with_window(self.first.window()),
            _ => first,
        };
        self
    }

    /// Lets every run be late by at most `slack`, so that it shares a tick with other jobs, as
    /// [`When::within`] does. The phase stays exact. A run that a reset moves takes the time and
    /// the slack of the reset. Replaces a jitter.
    #[doc(alias("slack", "coalesce"))]
    pub fn within(mut self, slack: Duration) -> Repeat {
        self.first = self.first.within(slack);
        self
    }

    /// Makes every run late by a random time of at most `most`, as [`When::jitter`] does. The phase
    /// stays exact: jitters do not add up. Replaces a slack.
    ///
    /// A jitter or a slack that is longer than the period makes runs miss periods.
    pub fn jitter(mut self, most: Duration) -> Repeat {
        self.first = self.first.jitter(most);
        self
    }

    /// Sets what happens when periods are missed. The default is [`Missed::Skip`].
    pub fn missed(mut self, policy: Missed) -> Repeat {
        self.missed = policy;
        self
    }

    /// Sets the [`Next`] that is used after a run that panics. The default is [`Next::Stop`]: a
    /// panic ends the repeat. With [`Next::Period`] a job with a period goes on; [`Next::After`]
    /// suits a job without. Every panic is counted, and reported to
    /// [`Builder::on_panic`](crate::Builder::on_panic) with the handle of the job.
    pub fn after_panic(mut self, next: Next) -> Repeat {
        self.after_panic = next;
        self
    }

    pub(crate) fn first(&self) -> When {
        self.first
    }

    pub(crate) fn window(&self) -> Window {
        self.first.window()
    }

    pub(crate) fn has_zero_period(&self) -> bool {
        self.period == Some(Duration::ZERO)
    }

    #[cfg(feature = "async")]
    pub(crate) fn is_periodic(&self) -> bool {
        self.period.is_some() && !self.has_zero_period()
    }

    pub(crate) fn answer_of_a_panic(&self) -> Next {
        self.after_panic
    }

    /// Returns the deadline that follows `deadline` under the policy if the run ended at `now`, and
    /// the number of deadlines dropped in between. Returns `None` without a period.
    pub(crate) fn follow(&self, deadline: Moment, now: Moment) -> Option<(Moment, u64)> {
        let period = self.period?;
        let next = deadline.plus(period);
        if next >= now || self.missed == Missed::Burst {
            return Some((next, 0));
        }
        // A deadline at `now` has not passed. `now` is not zero, because `next` lies before it.
        let passed = now.minus_a_nanosecond().periods_since(deadline, period);
        Some(match self.missed {
            Missed::Delay => (now.plus(period), passed),
            _ => (deadline.plus_periods(period, passed + 1), passed),
        })
    }
}

/// What happens to periods whose deadline passed before the previous run ended: because that run
/// took long, the pool was full, or the process was stopped.
///
/// As long as no period is missed, all three are the same. The names are those of tokio's
/// `MissedTickBehavior`, but here the default is [`Skip`](Missed::Skip), and a run that ends
/// less than a period after its deadline misses nothing.
///
/// For a fixed delay, which counts from the end of every run, return [`Next::After`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Missed {
    /// Every deadline gets its run: the missed ones follow at once, one a tick, until the job has
    /// caught up.
    Burst,
    /// Missed deadlines are dropped. The next run is at the next deadline of the same phase.
    #[default]
    Skip,
    /// Missed deadlines are dropped. The next run is one period after the end of the late run, and
    /// the phase counts from there.
    Delay,
}

/// The data of a run, which a repeating job receives when the run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The exact deadline of this run, before it was rounded up to a tick. For a wall-clock time it
    /// is the moment at which the wall clock reads that time; if the time had already passed when
    /// it was given, it is the moment at which it was given.
    pub deadline: Instant,
    /// The reading of the wheel's clock when this run started. For a wait that counts from here,
    /// not from the end of the run, return [`Next::At`]`(run.started + wait)`.
    pub started: Instant,
    /// How long after `deadline` this run started. It includes the rounding up to a tick, and the
    /// slack or the jitter.
    pub late: Duration,
    /// The reading of the wall clock when this run started.
    pub wall: SystemTime,
    /// The number of deadlines that [`Missed::Skip`] or [`Missed::Delay`] dropped between the
    /// previous run and this one, because the previous run was late or took long. Zero with
    /// [`Missed::Burst`], and in the first run after a reset.
    pub missed: u64,
    /// The job's own handle, the same in every run. A run that cancels it is the last.
    pub handle: Handle,
}

/// The answer of a run of a repeating job: when the next run is. A time that has passed means the
/// next tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[must_use]
pub enum Next {
    /// At a fixed rate: one period after the deadline of this run, under the policy for missed
    /// periods. Without a period ([`Repeat::irregular`]) this is the same as [`Next::Stop`].
    Period,
    /// With a fixed delay: this long after the end of this run.
    After(Duration),
    /// At this instant.
    At(Instant),
    /// When the wall clock reads this time: see [`When`].
    Wall(SystemTime),
    /// At this time. If it has a slack or a jitter, that replaces those of the [`Repeat`] for this
    /// run: useful for a jitter that grows with the wait.
    When(When),
    /// Never: this run is the last, and the handle is stale when it has ended.
    Stop,
}
