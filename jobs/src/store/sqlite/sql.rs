//! The text of a statement, with the names of a queue's tables in it. A statement stands beside its use; here are those
//! with several uses.
//!
//! Ground rules:
//!
//! - In the text of a statement, `{p}` stands for the prefix of the queue's tables. [`PARTS`] has the other names.
//! - Each text is completed once for a connection, at its first use.

use core::cell::{Cell, RefCell};
use std::sync::Arc;

use foldhash::HashMap;

/// The parts that several statements share.
const PARTS: [(&str, &str); 7] = [
    (
        "row",
        "due, id, failures, interruptions, callers_id, key, errors, payload, attempts, extra, part",
    ),
    // A row of `job`, `later` or `lane`, without the hour.
    (
        "columns",
        "kind, due, id, failures, interruptions, attempts, callers_id, part, key, errors, extra, payload",
    ),
    (
        "kept",
        "id, kind, at, due, took, failures, interruptions, attempts, callers_id, part, key, errors, extra, \
         result, payload",
    ),
    // The columns that `check` reads beside the place of a job.
    ("more", "failures, interruptions, attempts, typeof(errors), typeof(payload)"),
    (
        "bytes",
        "coalesce(octet_length(payload), 0) + coalesce(octet_length(result), 0) \
         + coalesce(octet_length(errors), 0) + coalesce(octet_length(extra), 0)",
    ),
    ("tally", "id, made, ended, flags, total, completed, dead, cancelled, dead_left, callback"),
    // The jobs of a kind from one place in the table of jobs to another.
    ("between", "kind = ?1 AND (due, id) >= (?2, ?3) AND (due, id) <= (?4, ?5)"),
];

/// The names of the tables of a queue, and which of them the file has, as far as this connection knows: `State::begin`
/// reads that.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    /// The names of the tables and of their indexes begin with it. It has the queue before the last `__`, and behind it
    /// no name has a `__` or begins with a `_`. So no two queues have a name in common, however they are called.
    prefix: String,
    pub(super) has_lanes: Cell<bool>,
    pub(super) has_tokens: Cell<bool>,
    pub(super) has_kept: Cell<bool>,
    /// The complete texts, by the place and the length of the text in the program.
    made: RefCell<HashMap<(usize, usize), Arc<str>>>,
}

impl Sql {
    pub(crate) fn new(queue: Option<&str>) -> Sql {
        let prefix = match queue {
            None => "tickwheel_".to_owned(),
            Some(queue) => format!("tickwheel_{queue}__"),
        };
        let no = || Cell::new(false);
        let made = RefCell::default();
        Sql { prefix, has_lanes: no(), has_tokens: no(), has_kept: no(), made }
    }

    /// Returns the complete text of a statement.
    pub(super) fn text(&self, text: &'static str) -> Arc<str> {
        let mut made = self.made.borrow_mut();
        let text_of = || Arc::from(self.complete(text));
        Arc::clone(made.entry((text.as_ptr().addr(), text.len())).or_insert_with(text_of))
    }

    /// Puts the names into a text. Leaves other words in braces as they are.
    pub(super) fn complete(&self, text: &str) -> String {
        let (mut complete, mut rest) = (String::with_capacity(2 * text.len()), text);
        while let Some((before, word)) = rest.split_once('{') {
            let (word, after) = word.split_once('}').unwrap_or((word, ""));
            complete.push_str(before);
            match PARTS.iter().find(|(name, _)| *name == word) {
                _ if word == "p" => complete.push_str(&self.prefix),
                Some((_, part)) => complete.push_str(part),
                None => complete.extend(["{", word, "}"]),
            }
            rest = after;
        }
        complete.push_str(rest);
        complete
    }
}

pub(super) const ALL_PROGRESS: &str = "SELECT id FROM {p}progress";
pub(super) const CANCEL_REQUESTS: &str = "SELECT id FROM {p}cancel_requested";
pub(super) const DEAD_BY_ERROR: &str =
    "SELECT kind, error, jobs, first, last FROM {p}dead_by_error ORDER BY jobs DESC LIMIT ?1";
pub(super) const DELETE: &str = "DELETE FROM {p}job WHERE kind = ?1 AND due = ?2 AND id = ?3";
pub(super) const DELETE_LANE: &str = "DELETE FROM {p}lane WHERE kind = ?1 AND due = ?2 AND id = ?3";
pub(super) const DROP_ENDED: &str = "DELETE FROM {p}ended WHERE id = ?1";
pub(super) const DROP_NODES: &str = "DELETE FROM {p}node";
pub(super) const DROP_SETTING: &str = "DELETE FROM {p}setting WHERE name = ?1";
pub(super) const FLUSH: &str = "UPDATE {p}meta SET value = value + 1 WHERE name = 'flushes'";
pub(super) const HAS_ENDED: &str = "SELECT 1 FROM {p}ended WHERE id = ?1";
pub(super) const PUT_SETTING: &str = "INSERT INTO {p}setting VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2 \
     WHERE value <> ?2";
pub(super) const REMEMBER: &str =
    "INSERT INTO {p}ended (id, ending, until, at) VALUES (?1, 0, ?2, ?3)";
pub(super) const SETTINGS: &str = "SELECT name, value FROM {p}setting ORDER BY name";
