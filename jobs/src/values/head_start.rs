//! The head starts of kinds: each makes the due jobs of a kind count as due earlier. They decide the order of starts.
//!
//! Ground rules:
//!
//! - A head start orders jobs that are due. A job that is not due yet counts by its due time alone, so it neither
//!   starts early nor takes the place of a job that is due.
//! - Jobs of one kind have one head start, so their order stays that of due time.
//! - Without a head start, the order costs one check and allocates nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::time::{Millis, TimeError};

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
    pub(crate) fn new(by: Duration) -> Result<HeadStart, TimeError> {
        match i64::try_from(by.as_millis()) {
            Ok(ms) if by <= LONGEST => Ok(HeadStart(ms)),
            _ => Err(TimeError::TooLong(by)),
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self == HeadStart::NONE
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

#[cfg(test)]
mod tests {
    use super::*;

    /// P27: A head start is read back unchanged. One of more than ten years is refused, and a text that another version
    /// wrote is none.
    #[test]
    fn head_start_is_read_back_and_has_a_limit() {
        for ms in [1, 60_000, LONGEST.as_millis() as u64] {
            let head_start = HeadStart::new(Duration::from_millis(ms)).unwrap();
            assert_eq!(HeadStart::from_text(&head_start.to_text()), Some(head_start));
        }
        let too_long = LONGEST + Duration::from_nanos(1);
        assert_eq!(HeadStart::new(too_long), Err(TimeError::TooLong(too_long)));
        assert_eq!(HeadStart::new(Duration::MAX), Err(TimeError::TooLong(Duration::MAX)));
        assert!(HeadStart::new(Duration::from_micros(999)).unwrap().is_none());
        for text in ["", "-1", "else", "99999999999999999999", "999999999999999"] {
            assert_eq!(HeadStart::from_text(text), None, "{text}");
        }
    }
}
