//! Limits: how many jobs of a scope run at once, and how often a partition has its turn.
//!
//! Ground rules:
//!
//! - A limit is a value. `store/lanes.rs` says how it works, and `limits.rs` under which name it is stored.
//! - A limit of zero is refused: to run nothing, pause the scope.
//! - A store keeps a limit as JSON. A later version may add fields, and a reader ignores those that it does not know.

use core::fmt;

use serde::{Deserialize, Serialize};

/// How many jobs of a scope may run at once, and the weight of a partition. A scope is the queue
/// ([`Client::limit`](crate::Client::limit)), a flow ([`Kind::limit`](crate::Kind::limit)), each partition of a kind
/// ([`Kind::limit_each`](crate::Kind::limit_each)), or one of them
/// ([`Partition::limit`](crate::Partition::limit)).
///
/// ```
/// use tickwheel_jobs::Limit;
///
/// let two_at_once = Limit::running(2);
/// let thrice_the_turns = Limit::none().weight(3);
/// # drop((two_at_once, thrice_the_turns));
/// ```
#[must_use = "a limit has an effect once it is given to a scope"]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Limit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) running: Option<u32>,
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
    /// The queue has this many scopes with a limit, and takes no more.
    TooManyScopes(usize),
}

/// The greatest weight.
const MOST_WEIGHT: u32 = 1000;
/// How many scopes of a queue may have a limit, because each process reads all of them.
pub(crate) const MOST_SCOPES: usize = 10_000;

impl Limit {
    /// Lets at most `jobs` jobs of the scope run at once, on all machines together. A claimed job counts from its claim
    /// to its end.
    #[doc(alias("concurrency", "max_in_flight", "global_limit"))]
    pub const fn running(jobs: u32) -> Limit {
        Limit { running: Some(jobs), weight: None }
    }

    /// Limits nothing: it removes the limit of the scope.
    pub const fn none() -> Limit {
        Limit { running: None, weight: None }
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

    /// Returns the weight, if it was set: what [`Limit::weight`] was given.
    #[must_use]
    pub const fn turn_weight(self) -> Option<u32> {
        self.weight
    }

    /// Says whether the limit limits nothing.
    pub(crate) fn is_none(self) -> bool {
        self == Limit::none()
    }

    /// Returns the limit if it is valid. `has_turns`: its scope is a partition.
    pub(crate) fn checked(self, has_turns: bool) -> Result<Limit, LimitError> {
        match (self.running, self.weight) {
            (Some(0), _) => Err(LimitError::Zero),
            (_, Some(_)) if !has_turns => Err(LimitError::NoTurns),
            (_, Some(weight)) if weight == 0 || weight > MOST_WEIGHT => {
                Err(LimitError::Weight(weight))
            }
            _ => Ok(self),
        }
    }

    /// Returns this limit. A number or a weight that it does not set is taken from the other limit.
    pub(crate) fn or(self, other: Limit) -> Limit {
        Limit { running: self.running.or(other.running), weight: self.weight.or(other.weight) }
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

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Zero => f.write_str("a limit of zero jobs: no job would run; use a pause"),
            LimitError::Weight(weight) => {
                write!(f, "a weight of {weight}: a partition has between 1 and {MOST_WEIGHT}")
            }
            LimitError::NoTurns => f.write_str("a weight: only a partition has one"),
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
        for limit in
            [Limit::running(1), Limit::running(u32::MAX).weight(7), Limit::none().weight(2)]
        {
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

    /// A limit that could not hold is refused.
    #[test]
    fn limit_that_cannot_hold_is_refused() {
        assert_eq!(Limit::running(0).checked(true), Err(LimitError::Zero));
        assert_eq!(Limit::running(1).weight(0).checked(true), Err(LimitError::Weight(0)));
        assert_eq!(Limit::running(1).weight(1001).checked(true), Err(LimitError::Weight(1001)));
        assert_eq!(Limit::running(1).weight(2).checked(false), Err(LimitError::NoTurns));
        assert_eq!(Limit::running(1).checked(false), Ok(Limit::running(1)));
    }
}
