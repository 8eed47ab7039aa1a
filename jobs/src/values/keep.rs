//! How many completed jobs of a kind are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How many completed jobs of a kind are kept: up to a number, an age and a size. The first bound that is reached
/// removes the oldest. A job on whose end a caller waits ([`Client::call`](crate::Client::call)) is kept for a minute in any
/// case, and does not count so long. See [`Kind::keep_completed`](crate::Kind::keep_completed).
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Keep;
///
/// let week = Duration::from_secs(7 * 24 * 3600);
/// let keep = Keep::last(1000).age(week).bytes(16 << 20);
/// # drop(keep);
/// ```
#[must_use = "a bound has an effect once it is given to a kind"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    pub(crate) last: u64,
    pub(crate) age: Duration,
    pub(crate) bytes: u64,
}

/// A bound, as the stores keep it.
#[derive(Serialize, Deserialize)]
struct Stored {
    last: u64,
    age_ms: u64,
    bytes: u64,
}

impl Keep {
    /// Keeps the last `jobs` jobs that completed, of any age and size.
    pub const fn last(jobs: u64) -> Keep {
        Keep { last: jobs, age: Duration::MAX, bytes: u64::MAX }
    }

    /// Keeps no job. This is the state of a kind for which nothing was set.
    pub const fn nothing() -> Keep {
        Keep::last(0)
    }

    /// Keeps a job for at most this long. A purge, which comes within ten minutes, removes it then.
    pub const fn age(self, age: Duration) -> Keep {
        Keep { age, ..self }
    }

    /// Keeps at most this many bytes: those of payloads, results, errors and headers.
    pub const fn bytes(self, bytes: u64) -> Keep {
        Keep { bytes, ..self }
    }

    /// Says whether no job is kept.
    pub(crate) fn is_nothing(self) -> bool {
        self.last == 0 || self.age.is_zero() || self.bytes == 0
    }

    /// Returns the text that a store keeps.
    pub(crate) fn to_text(self) -> String {
        let age_ms = u64::try_from(self.age.as_millis()).unwrap_or(u64::MAX);
        let stored = Stored { last: self.last, age_ms, bytes: self.bytes };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads the text that a store has kept.
    pub(crate) fn from_text(text: &str) -> Option<Keep> {
        let Stored { last, age_ms, bytes } = serde_json::from_str(text).ok()?;
        let age = match age_ms {
            u64::MAX => Duration::MAX,
            ms => Duration::from_millis(ms),
        };
        Some(Keep { last, age, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds are read back unchanged.
    #[test]
    fn keep_is_read_back() {
        let week = Duration::from_secs(7 * 24 * 3600);
        for keep in [Keep::last(7), Keep::last(u64::MAX).age(week).bytes(1 << 20), Keep::nothing()]
        {
            assert_eq!(Keep::from_text(&keep.to_text()), Some(keep));
        }
        assert_eq!(Keep::from_text("else"), None);
    }
}
