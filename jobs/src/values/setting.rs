//! The settings of a queue that are stored, so that they hold in every process: pauses, head starts, and how many
//! completed jobs of a kind are kept. Those of limits are in `stored_limits.rs`.
//!
//! | name | value |
//! | --- | --- |
//! | `pause` | the queue is paused; when, in milliseconds since 1970 |
//! | `pause:KIND` | the kind is paused; when |
//! | `pause-schedule:NAME` | the schedule is paused; when |
//! | `keep:KIND` | how many completed jobs of the kind are kept, as JSON: `last`, `age_ms`, `bytes` |
//! | `head:KIND` | the head start of the kind, in milliseconds |
//!
//! A setting with another name is ignored: a later version wrote it.
//!
//! Ground rules of head starts, each of which makes the due jobs of a kind count as due earlier:
//!
//! - A head start orders jobs that are due. A job that is not due yet counts by its due time alone, so it neither
//!   starts early nor takes the place of a job that is due.
//! - Jobs of one kind have one head start, so their order stays that of due time.
//! - Without a head start, the order costs one check and allocates nothing.

use core::fmt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::invalid_input::InvalidInput;
use super::time::{Millis, in_words};

/// How many completed jobs of a kind are kept: up to a number, an age and a size. The first bound that is reached
/// removes the oldest. A job on whose end a caller waits ([`Client::call`](crate::Client::call)) is kept for a minute
/// in any case, and does not count during that minute. See [`Kind::keep_completed`](crate::Kind::keep_completed).
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
struct StoredBound {
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
        let stored = StoredBound { last: self.last, age_ms, bytes: self.bytes };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads the text that a store has kept.
    pub(crate) fn from_text(text: &str) -> Option<Keep> {
        let StoredBound { last, age_ms, bytes } = serde_json::from_str(text).ok()?;
        let age = match age_ms {
            u64::MAX => Duration::MAX,
            ms => Duration::from_millis(ms),
        };
        Some(Keep { last, age, bytes })
    }
}

/// The bounds in words: `the last 1000, for 7 d, up to 1048576 bytes`; `nothing`; `all`.
impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nothing() {
            return f.write_str("nothing");
        }
        let bounds = [
            (self.last != u64::MAX).then(|| format!("the last {}", self.last)),
            (self.age != Duration::MAX).then(|| format!("for {}", in_words(self.age))),
            (self.bytes != u64::MAX).then(|| format!("up to {} bytes", self.bytes)),
        ];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        f.write_str(if bounds.is_empty() { "all" } else { "" })?;
        f.write_str(&bounds.join(", "))
    }
}

/// By how much earlier the due jobs of a kind count, in milliseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct HeadStart(i64);

/// The place of a job in the order of starts: the lowest rank comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rank(i64);

/// The longest head start: ten years of 365 days.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl HeadStart {
    pub(crate) const NONE: HeadStart = HeadStart(0);

    /// Returns the head start, rounded down to milliseconds.
    pub(crate) fn new(by: Duration) -> Result<HeadStart, InvalidInput> {
        match i64::try_from(by.as_millis()) {
            Ok(ms) if by <= LONGEST => Ok(HeadStart(ms)),
            _ => Err(InvalidInput::DelayTooLong(by)),
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self == HeadStart::NONE
    }

    pub(crate) fn to_duration(self) -> Duration {
        Duration::from_millis(self.0.unsigned_abs())
    }

    #[cfg(feature = "redis")]
    pub(crate) fn millis(self) -> i64 {
        self.0
    }

    /// Returns the text that a store keeps.
    pub(crate) fn to_text(self) -> String {
        self.0.to_string()
    }

    /// Reads the text that a store has kept.
    pub(crate) fn from_text(text: &str) -> Option<HeadStart> {
        HeadStart::new(Duration::from_millis(text.parse().ok()?)).ok()
    }

    /// Returns the rank of a due job.
    pub(crate) fn rank(self, due: Millis) -> Rank {
        Rank(due.get() - self.0)
    }
}

/// The kinds that have a head start.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct HeadStarts(Option<Arc<HashMap<String, HeadStart>>>);

impl HeadStarts {
    /// Takes the kinds that have one.
    pub(crate) fn new(kinds: HashMap<String, HeadStart>) -> HeadStarts {
        HeadStarts(Some(kinds).filter(|kinds| !kinds.is_empty()).map(Arc::new))
    }

    /// Says whether no kind has a head start.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn of(&self, kind: &str) -> HeadStart {
        self.0.as_ref().and_then(|kinds| kinds.get(kind).copied()).unwrap_or_default()
    }

    /// Returns the head starts of those kinds that `is_handled` selects.
    pub(crate) fn only(self, is_handled: impl Fn(&str) -> bool) -> HeadStarts {
        match self.0 {
            None => HeadStarts(None),
            Some(kinds) => {
                let handled = kinds.iter().filter(|(kind, _)| is_handled(kind));
                HeadStarts::new(handled.map(|(kind, its)| (kind.clone(), *its)).collect())
            }
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct QueueSettings {
    pub(crate) is_paused: bool,
    pub(crate) paused_kinds: HashSet<String>,
    pub(crate) paused_schedules: HashSet<String>,
    pub(crate) keeps: HashMap<String, Keep>,
    pub(crate) head_starts: HeadStarts,
}

/// Returns the name of the setting that pauses a kind, or the queue.
pub(crate) fn pause_setting(kind: Option<&str>) -> String {
    kind.map_or_else(|| "pause".to_owned(), |kind| format!("pause:{kind}"))
}

/// Returns the name of the setting that pauses a schedule.
pub(crate) fn schedule_pause_setting(name: &str) -> String {
    format!("pause-schedule:{name}")
}

/// Returns the name of the setting that says how many completed jobs of a kind are kept.
pub(crate) fn keep_setting(kind: &str) -> String {
    format!("keep:{kind}")
}

/// Returns the name of the setting that is the head start of a kind.
pub(crate) fn head_start_setting(kind: &str) -> String {
    format!("head:{kind}")
}

impl QueueSettings {
    /// Reads the stored settings.
    pub(crate) fn of(stored: &[(String, String)]) -> QueueSettings {
        let mut settings = QueueSettings::default();
        let mut head_starts = HashMap::new();
        for (name, value) in stored {
            match name.split_once(':') {
                None if name == "pause" => settings.is_paused = true,
                Some(("pause", kind)) => drop(settings.paused_kinds.insert(kind.to_owned())),
                Some(("pause-schedule", name)) => {
                    settings.paused_schedules.insert(name.to_owned());
                }
                Some(("keep", kind)) => {
                    let keep = Keep::from_text(value).filter(|keep| !keep.is_nothing());
                    settings.keeps.extend(keep.map(|keep| (kind.to_owned(), keep)));
                }
                Some(("head", kind)) => {
                    let its = HeadStart::from_text(value).filter(|its| !its.is_none());
                    head_starts.extend(its.map(|its| (kind.to_owned(), its)));
                }
                _ => {}
            }
        }
        settings.head_starts = HeadStarts::new(head_starts);
        settings
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
        let all = Keep::last(u64::MAX);
        let words = [all, Keep::nothing(), Keep::last(7).age(week / 2).bytes(9)];
        let words = words.map(|keep| keep.to_string());
        assert_eq!(words, ["all", "nothing", "the last 7, for 3 d 12 h, up to 9 bytes"]);
    }

    /// P27: A head start is read back unchanged. One of more than ten years is refused, and a text that another version
    /// wrote is none.
    #[test]
    fn head_start_is_read_back_and_has_a_limit() {
        for ms in [1, 60_000, LONGEST.as_millis() as u64] {
            let head_start = HeadStart::new(Duration::from_millis(ms)).unwrap();
            assert_eq!(HeadStart::from_text(&head_start.to_text()), Some(head_start));
        }
        let too_long = LONGEST + Duration::from_nanos(1);
        assert_eq!(HeadStart::new(too_long), Err(InvalidInput::DelayTooLong(too_long)));
        assert_eq!(HeadStart::new(Duration::MAX), Err(InvalidInput::DelayTooLong(Duration::MAX)));
        assert!(HeadStart::new(Duration::from_micros(999)).unwrap().is_none());
        for text in ["", "-1", "else", "99999999999999999999", "999999999999999"] {
            assert_eq!(HeadStart::from_text(text), None, "{text}");
        }
    }
}
