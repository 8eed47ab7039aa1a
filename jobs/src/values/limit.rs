//! Limits: how many jobs of a scope run at once, how often they start, and how often a partition has its turn.
//!
//! Ground rules:
//!
//! - A limit is a value. `store/lanes.rs` says how it works, and `limits.rs` under which name it is stored.
//! - A limit of zero is refused: to run nothing, pause the scope.
//! - `rate.rs` says what a rate and a burst mean.
//! - A store keeps a limit as JSON. A later version may add fields, and a reader ignores those that it does not know.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::rate::Rate;

/// How many jobs of a scope may run at once, how often they may start, and the weight of a partition. A scope is the
/// queue ([`Client::limit`](crate::Client::limit)), a flow ([`Kind::limit`](crate::Kind::limit)), each partition of a
/// kind ([`Kind::limit_each`](crate::Kind::limit_each)), or one of them
/// ([`Partition::limit`](crate::Partition::limit)).
///
/// ```
/// use tickwheel_jobs::Limit;
///
/// # use std::time::Duration;
/// let two_at_once = Limit::running(2);
/// let at_most_100_a_minute = Limit::none().rate(100, Duration::from_secs(60));
/// let both = Limit::running(2).rate(100, Duration::from_secs(60)).burst(10);
/// let thrice_the_turns = Limit::none().weight(3);
/// # drop((two_at_once, at_most_100_a_minute, both, thrice_the_turns));
/// ```
#[must_use = "a limit has an effect once it is given to a scope"]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Limit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) running: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<u32>,
}

/// Why a limit was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// The limit is zero, so no job of the scope would ever run. For that, use [`Kind::pause`](crate::Kind::pause).
    Zero,
    /// The weight is not from 1 to 1000.
    Weight(u32),
    /// Only a partition has a weight: each partition of a kind, or one.
    NoTurns,
    /// The period of a rate is not from one millisecond to 366 days.
    Period(Duration),
    /// The burst is below 1 or above 1,000,000. Or the rate would need more than a thousand years to start as many
    /// jobs.
    Burst(u32),
    /// A burst belongs to a rate, and this limit has none.
    NoRate,
    /// The queue has this many scopes with a limit, a hold or a paused partition, and takes no more.
    TooManyScopes(usize),
}

/// The greatest weight.
const MOST_WEIGHT: u32 = 1000;
/// The longest period of a rate.
const LONGEST_PERIOD: Duration = Duration::from_secs(366 * 24 * 3600);
const MOST_BURST: u32 = 1_000_000;
/// How many scopes of a queue may have a limit, because each process reads all of them.
pub(crate) const MOST_SCOPES: usize = 10_000;

impl Limit {
    /// Lets at most `jobs` jobs of the scope run at once, on all machines together. A claimed job counts from its claim
    /// to its end.
    #[doc(alias("concurrency", "max_in_flight", "global_limit"))]
    pub const fn running(jobs: u32) -> Limit {
        Limit { running: Some(jobs), ..Limit::none() }
    }

    /// Limits nothing: it removes the limit of the scope.
    pub const fn none() -> Limit {
        Limit { running: None, rate: None, per_ms: None, burst: None, weight: None }
    }

    /// Lets at most `jobs` jobs of the scope start in any period of this length, on all machines together. A job starts
    /// when a process claims it. A claim that is given back, because its process ends or the job was cancelled, counts
    /// as well.
    ///
    /// The starts are spread over the period. So the first hour of `rate(60, HOUR)` has one job a minute, and not 60
    /// jobs at once: for that, see [`Limit::burst`]. After a delay some starts follow each other closely, but never
    /// more than
    /// `jobs` in a period. `rate(1, SECOND)` has a second between two starts, where `rate(60, MINUTE)` may have less.
    ///
    /// The period is rounded up to a millisecond. It is at most 366 days.
    #[doc(alias("throttle", "rate_limit", "tokens"))]
    pub const fn rate(self, jobs: u32, per: Duration) -> Limit {
        let per_ms = per.as_millis() + !per.subsec_nanos().is_multiple_of(1_000_000) as u128;
        let per_ms = if per_ms > u64::MAX as u128 { u64::MAX } else { per_ms as u64 };
        Limit { rate: Some(jobs), per_ms: Some(per_ms), ..self }
    }

    /// Lets `jobs` jobs start at once after a quiet time. With [`Limit::rate`] of n, at most n + `jobs` - 1 jobs start
    /// in any period. The default is 1, the most is 1,000,000. A burst is refused if the rate would need more than a
    /// thousand years to start as many jobs.
    pub const fn burst(self, jobs: u32) -> Limit {
        Limit { burst: Some(jobs), ..self }
    }

    /// Gives the partition `weight` turns where others have one. The default is 1, the most is 1000.
    #[doc(alias("priority", "share"))]
    pub const fn weight(self, weight: u32) -> Limit {
        Limit { weight: Some(weight), ..self }
    }

    /// Returns how many jobs may run at once, if that is limited: what [`Limit::running`] was given.
    #[must_use]
    pub const fn most_running(self) -> Option<u32> {
        self.running
    }

    /// Returns how many jobs may start in which period, if that is limited: what [`Limit::rate`] was given.
    #[must_use]
    pub fn start_rate(self) -> Option<(u32, Duration)> {
        Some((self.rate?, Duration::from_millis(self.per_ms?)))
    }

    /// Returns how many jobs may start at once, if it was set: what [`Limit::burst`] was given.
    #[must_use]
    pub const fn start_burst(self) -> Option<u32> {
        self.burst
    }

    /// Returns the weight, if it was set: what [`Limit::weight`] was given.
    #[must_use]
    pub const fn turn_weight(self) -> Option<u32> {
        self.weight
    }

    /// Says whether the limit limits nothing.
    pub(crate) fn is_none(self) -> bool {
        self == Limit::none()
    }

    /// Returns the rate, if the limit has one.
    pub(crate) fn tokens(self) -> Option<Rate> {
        let (jobs, per) = (self.rate?, self.per_ms?);
        Some(Rate { jobs, per, burst: self.burst.unwrap_or(1) })
    }

    /// Returns the limit if it is valid. `has_turns`: its scope is a partition.
    pub(crate) fn checked(self, has_turns: bool) -> Result<Limit, LimitError> {
        let longest = LONGEST_PERIOD.as_millis();
        match (self.running, self.rate, self.per_ms, self.burst, self.weight) {
            (Some(0), ..) | (_, Some(0), ..) => Err(LimitError::Zero),
            (_, Some(_), Some(per), ..) if per == 0 || u128::from(per) > longest => {
                Err(LimitError::Period(Duration::from_millis(per)))
            }
            (_, Some(_), None, ..) => Err(LimitError::Period(Duration::ZERO)),
            (_, None, _, Some(_), _) => Err(LimitError::NoRate),
            (_, rate, per, Some(burst), _) if !is_burst(burst, rate, per) => {
                Err(LimitError::Burst(burst))
            }
            (.., Some(_)) if !has_turns => Err(LimitError::NoTurns),
            (.., Some(weight)) if weight == 0 || weight > MOST_WEIGHT => {
                Err(LimitError::Weight(weight))
            }
            _ => Ok(self),
        }
    }

    /// Returns this limit. A number, a rate or a weight that it does not set is taken from the other limit.
    pub(crate) fn or(self, other: Limit) -> Limit {
        let Limit { rate, per_ms, burst, .. } = if self.rate.is_some() { self } else { other };
        let (running, weight) = (self.running.or(other.running), self.weight.or(other.weight));
        Limit { running, rate, per_ms, burst, weight }
    }

    /// Returns the text that a store keeps.
    pub(crate) fn to_text(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// Reads the text that a store has kept. A text that cannot be read is no limit.
    pub(crate) fn from_text(text: &str) -> Option<Limit> {
        let limit: Limit = serde_json::from_str(text).ok()?;
        limit.checked(true).ok().filter(|limit| !limit.is_none())
    }
}

/// Says whether a burst is valid. So many starts later than now, all times are numbers that a store can keep.
fn is_burst(burst: u32, rate: Option<u32>, per_ms: Option<u64>) -> bool {
    let spacing = u128::from(per_ms.unwrap_or(0)).div_ceil(u128::from(rate.unwrap_or(1).max(1)));
    let longest = 1000 * LONGEST_PERIOD.as_millis();
    (1..=MOST_BURST).contains(&burst) && spacing * u128::from(burst) <= longest
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Zero => f.write_str("a limit of zero jobs: no job would run; use a pause"),
            LimitError::Weight(weight) => {
                write!(f, "a weight of {weight}: a partition has between 1 and {MOST_WEIGHT}")
            }
            LimitError::NoTurns => f.write_str("a weight: only a partition has one"),
            LimitError::Period(per) => {
                write!(f, "a rate for {per:?}: a period has between 1 ms and {LONGEST_PERIOD:?}")
            }
            LimitError::Burst(burst) => {
                write!(
                    f,
                    "a burst of {burst}: it has between 1 and {MOST_BURST}, and less than the starts of a thousand years"
                )
            }
            LimitError::NoRate => f.write_str("a burst without a rate"),
            LimitError::TooManyScopes(scopes) => {
                write!(f, "{scopes} scopes of the queue have a limit, and no more may have one")
            }
        }
    }
}

impl std::error::Error for LimitError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit is read back unchanged, also by a version that does not know all of it.
    #[test]
    fn limit_is_read_back() {
        let a_minute = Limit::none().rate(100, Duration::from_secs(60));
        assert_eq!(a_minute.burst(7).start_rate(), Some((100, Duration::from_secs(60))));
        assert_eq!(a_minute.burst(7).start_burst(), Some(7));
        for limit in [
            Limit::running(1),
            Limit::running(u32::MAX).weight(7),
            Limit::none().weight(2),
            a_minute,
            a_minute.burst(7),
        ] {
            assert_eq!(Limit::from_text(&limit.to_text()), Some(limit));
        }
        let both = Limit::running(5).weight(3);
        assert_eq!((both.most_running(), both.turn_weight()), (Some(5), Some(3)));
        assert_eq!((Limit::none().most_running(), Limit::none().turn_weight()), (None, None));
        assert_eq!(Limit::from_text("{\"running\":3,\"later\":{}}"), Some(Limit::running(3)));
        for wrong in ["", "7", "{}", "{\"running\":0}", "{\"running\":-1}", "{\"weight\":1001}"] {
            assert_eq!(Limit::from_text(wrong), None, "{wrong}");
        }
    }

    /// P23: A limit that could not hold is refused.
    #[test]
    fn limit_that_cannot_hold_is_refused() {
        assert_eq!(Limit::running(0).checked(true), Err(LimitError::Zero));
        assert_eq!(Limit::running(1).weight(0).checked(true), Err(LimitError::Weight(0)));
        assert_eq!(Limit::running(1).weight(1001).checked(true), Err(LimitError::Weight(1001)));
        assert_eq!(Limit::running(1).weight(2).checked(false), Err(LimitError::NoTurns));
        assert_eq!(Limit::running(1).checked(false), Ok(Limit::running(1)));
        let per = |jobs, per| Limit::none().rate(jobs, per).checked(true);
        let (year, second) = (Duration::from_secs(365 * 24 * 3600), Duration::from_secs(1));
        assert_eq!(per(0, second), Err(LimitError::Zero));
        assert_eq!(per(1, Duration::ZERO), Err(LimitError::Period(Duration::ZERO)));
        assert_eq!(per(1, 2 * year), Err(LimitError::Period(2 * year)));
        assert!(per(1, year).is_ok() && per(u32::MAX, Duration::from_nanos(1)).is_ok());
        assert!(matches!(per(1, Duration::MAX), Err(LimitError::Period(_))));
        assert_eq!(Limit::running(1).burst(2).checked(true), Err(LimitError::NoRate));
        let burst = |jobs| Limit::none().rate(1, second).burst(jobs).checked(false);
        assert_eq!(burst(0), Err(LimitError::Burst(0)));
        assert_eq!(burst(1_000_001), Err(LimitError::Burst(1_000_001)));
        assert!(burst(1_000_000).is_ok());
        let rare = Limit::none().rate(1, year).burst(1_000_000);
        assert_eq!(rare.checked(false), Err(LimitError::Burst(1_000_000)));
    }
}
