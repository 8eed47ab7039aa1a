//! The errors of the last failed attempts of a job.
//!
//! Ground rules:
//!
//! - Every store keeps the same text: a JSON array of objects with `at` (milliseconds since 1970), `attempt`, `node`
//!   and `error`. So an operator reads it with any tool. A job that has not failed has an empty text.
//! - The newest error comes first, in full. Of earlier ones the first 800 bytes are kept; a script on a server that adds
//!   one keeps the others as they are. There are five at most.
//! - A text that is damaged holds no errors. Only people read it, so no job fails because of it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::fail::ERROR_BYTES;
use super::time::Millis;

/// How many errors are kept.
const KEPT: usize = 5;
/// How many bytes of an earlier error are kept.
const OLD_ERROR_BYTES: usize = 800;

/// A failed attempt of a job.
///
/// Its serialized form has the fields `at`, a time as in a [`JobInfo`](crate::JobInfo), `attempt`, `node` and
/// `error`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptError {
    /// When the attempt ended, by the clock of the store.
    pub at: SystemTime,
    /// The number of the attempt, as [`Run::attempt`](crate::Run::attempt) counts.
    pub attempt: u32,
    /// The process that ran it: its host and its process id, `shop-3/4711`. Empty if the process ended during
    /// the attempt: another one noticed that, and does not know its name.
    pub node: String,
    /// The error: of the latest failure 4096 bytes at most, of earlier ones 800.
    pub error: String,
}

/// The errors of a job, as the stores keep them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AttemptErrors(String);

/// An error, as the stores keep it.
#[derive(Serialize, Deserialize)]
struct Stored {
    at: i64,
    attempt: u32,
    node: String,
    error: String,
}

impl AttemptErrors {
    /// Takes the text that a store has kept.
    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn from_text(text: String) -> AttemptErrors {
        AttemptErrors(text)
    }

    /// Returns the text that a store keeps.
    pub(crate) fn as_text(&self) -> &str {
        &self.0
    }

    /// Returns these errors and a new one before them, without the oldest if there are too many.
    pub(crate) fn and(&self, at: Millis, attempt: u32, node: &str, error: &str) -> AttemptErrors {
        let (node, error) = (node.to_owned(), cut(error, ERROR_BYTES));
        let mut all = vec![Stored { at: at.get(), attempt, node, error }];
        all.extend(self.stored());
        all.truncate(KEPT);
        for old in &mut all[1..] {
            old.error = cut(&old.error, OLD_ERROR_BYTES);
        }
        AttemptErrors(serde_json::to_string(&all).unwrap_or_default())
    }

    /// Returns the errors, the newest first.
    pub(crate) fn list(&self) -> Vec<AttemptError> {
        let error = |stored: Stored| AttemptError {
            at: Millis::clamped(stored.at).to_system(),
            attempt: stored.attempt,
            node: stored.node,
            error: stored.error,
        };
        self.stored().into_iter().take(KEPT).map(error).collect()
    }

    /// Returns the text of the newest error.
    pub(crate) fn latest(&self) -> Option<String> {
        self.stored().into_iter().next().map(|stored| stored.error)
    }

    /// Returns the first line of the newest error.
    pub(crate) fn first_line(&self) -> String {
        let latest = self.latest().unwrap_or_default();
        latest.lines().next().unwrap_or_default().to_owned()
    }

    fn stored(&self) -> Vec<Stored> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => serde_json::from_str(&self.0).unwrap_or_default(),
        }
    }
}

/// Returns at most `bytes` bytes of a text.
fn cut(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five errors are kept, the newest first, each with its time, attempt and node.
    #[test]
    fn attempt_errors_keep_the_last_five() {
        let mut errors = AttemptErrors::default();
        assert_eq!((errors.list(), errors.latest()), (Vec::new(), None));
        for n in 1..=8 {
            errors = errors.and(Millis::clamped(n), n as u32, "shop/1", &format!("é {n}"));
            assert_eq!(errors.latest().unwrap(), format!("é {n}"));
        }
        let list = errors.list();
        let numbers: Vec<u32> = list.iter().map(|error| error.attempt).collect();
        assert_eq!(numbers, [8, 7, 6, 5, 4]);
        assert_eq!((list[1].at, &*list[1].node), (Millis::clamped(7).to_system(), "shop/1"));
        assert_eq!(list[4].error, "é 4");
    }

    /// A long error is cut between two characters: the newest later than the others.
    #[test]
    fn attempt_errors_cut_long_texts() {
        let long = "é".repeat(40_000);
        let errors = AttemptErrors::default().and(Millis::ZERO, 1, "a", &long);
        let list = errors.and(Millis::ZERO, 2, "", &long).list();
        assert_eq!((list[0].error.len(), list[1].error.len()), (4096, 800));
    }

    /// A damaged text has no errors, and causes no panic.
    #[test]
    fn attempt_errors_survive_damage() {
        let one = AttemptErrors::default().and(Millis::ZERO, 1, "a", "one");
        for end in 0..one.0.len() {
            assert!(AttemptErrors(one.0[..end].to_owned()).list().is_empty(), "{end}");
        }
    }
}
