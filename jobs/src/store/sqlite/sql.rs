//! The text of a statement, with the names of a queue's tables in it. A statement stands beside its use; here are those
//! with several uses.
//!
//! Ground rules:
//!
//! - In the text of a statement, `{p}` stands for the prefix of the queue's tables. [`PARTS`] has the other names.
//! - A statement on a job names its table: `{table}` stands for the name of that table, and `{at}` for the place of the
//!   job whose kind, due time and id are the first three parameters.
//!   `{by_due}` is the name of a table that has its jobs in the order of due time, which `later` has not.
//! - Each text is completed once for a connection, at its first use.

use core::cell::{Cell, RefCell};
use std::sync::Arc;

use foldhash::HashMap;

use super::schema::Table;

/// The parts that several statements share.
const PARTS: [(&str, &str); 6] = [
    // The columns of a job in each table that has jobs. The kind stands before them.
    (
        "row",
        "due, id, failures, interruptions, attempts, callers_id, part, key, errors, extra, payload",
    ),
    (
        "columns",
        "kind INTEGER NOT NULL, due INTEGER NOT NULL, id BLOB NOT NULL,
    failures INTEGER NOT NULL, interruptions INTEGER NOT NULL, attempts INTEGER NOT NULL,
    callers_id INTEGER NOT NULL,
    part TEXT, key TEXT, errors TEXT, extra BLOB, payload BLOB NOT NULL",
    ),
    ("ended", "{row}, kind, ending, at, took, result"),
    ("list", "kind, ending, at, n, jobs"),
    (
        "tally",
        "id, made, ended, flags, total, completed, dead, cancelled, expired, dead_left, callback",
    ),
    // The jobs of a kind from one place in the table of jobs to another.
    ("between", "kind = ?1 AND (due, id) >= (?2, ?3) AND (due, id) <= (?4, ?5)"),
];

/// The text of a statement in the program, and the table for which `{table}` stands.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    text: &'static str,
    table: Table,
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text { text, table: Table::Job }
    }
}

impl From<(Table, &'static str)> for Text {
    fn from((table, text): (Table, &'static str)) -> Text {
        Text { text, table }
    }
}

impl Table {
    /// Returns what a word stands for in a statement on this table. The jobs of later hours are found by their hour.
    fn word(self, word: &str) -> Option<&'static str> {
        Some(match (word, self) {
            ("at", Table::Job | Table::Lane) => "kind = ?1 AND due = ?2 AND id = ?3",
            ("at", Table::Later) => "kind = ?1 AND hour = ?2 / 3600000 AND id = ?3 AND due = ?2",
            ("hour", Table::Later) => "?2 / 3600000, ",
            ("hour", _) => "",
            _ => return PARTS.iter().find(|(name, _)| *name == word).map(|(_, part)| *part),
        })
    }

    /// Returns the table with which this one exchanges jobs that have a partition.
    fn other(self) -> Table {
        if self == Table::Lane { Table::Job } else { Table::Lane }
    }

    fn name(self) -> &'static str {
        match self {
            Table::Job => "job",
            Table::Later => "later",
            Table::Lane => "lane",
        }
    }
}

/// The names of the tables of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    /// The names of the tables and of their indexes begin with it. It has the queue before the last `__`, and behind it
    /// no name has a `__` or begins with a `_`. So no two queues have a name in common, however they are called.
    prefix: String,
    /// The file has the index of the jobs with a partition, as far as this connection knows: `State::begin` reads that.
    pub(super) has_lanes: Cell<bool>,
    /// The complete texts, by the place and the length of the text in the program, and by the table.
    made: RefCell<HashMap<(usize, usize, Table), Arc<str>>>,
}

impl Sql {
    pub(crate) fn new(queue: Option<&str>) -> Sql {
        let prefix = match queue {
            None => "tickwheel_".to_owned(),
            Some(queue) => format!("tickwheel_{queue}__"),
        };
        Sql { prefix, has_lanes: Cell::new(false), made: RefCell::default() }
    }

    /// Returns the complete text of a statement.
    pub(super) fn text(&self, Text { text, table }: Text) -> Arc<str> {
        let mut made = self.made.borrow_mut();
        let text_of = || Arc::from(self.complete(text, table));
        Arc::clone(made.entry((text.as_ptr().addr(), text.len(), table)).or_insert_with(text_of))
    }

    /// Puts the names into a text. Leaves other words in braces as they are.
    pub(super) fn complete(&self, text: &str, table: Table) -> String {
        let (mut complete, mut rest) = (String::with_capacity(2 * text.len()), text);
        while let Some((before, word)) = rest.split_once('{') {
            let (word, after) = word.split_once('}').unwrap_or((word, ""));
            complete.push_str(before);
            match (word, table.word(word)) {
                ("p", _) => complete.push_str(&self.prefix),
                ("table" | "by_due", _) => complete.extend([&self.prefix, table.name()]),
                ("other", _) => complete.extend([&self.prefix, table.other().name()]),
                (_, Some(part)) => complete.push_str(&self.complete(part, table)),
                (_, None) => complete.extend(["{", word, "}"]),
            }
            rest = after;
        }
        complete.push_str(rest);
        complete
    }
}

pub(super) const ALL_PROGRESS: &str = "SELECT id FROM {p}progress";
pub(super) const PROGRESS: &str = "SELECT value FROM {p}progress WHERE id = ?1";
pub(super) const CANCEL_REQUESTS: &str = "SELECT id FROM {p}cancel_requested";
pub(super) const DEAD_BY_ERROR: &str =
    "SELECT kind, error, jobs, first, last FROM {p}dead_by_error ORDER BY jobs DESC LIMIT ?1";
pub(super) const DROP_NODES: &str = "DELETE FROM {p}node";
pub(super) const DROP_SETTING: &str = "DELETE FROM {p}setting WHERE name = ?1";
pub(super) const FLUSH: &str = "UPDATE {p}meta SET value = value + 1 WHERE name = 'flushes'";
pub(super) const PUT_SETTING: &str = "INSERT INTO {p}setting VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2 \
     WHERE value <> ?2";
pub(super) const REMEMBER: &str = "INSERT INTO {p}remembered VALUES (?1, ?2)";
pub(super) const SETTING: &str = "SELECT value FROM {p}setting WHERE name = ?1";
pub(super) const SETTINGS: &str = "SELECT name, value FROM {p}setting ORDER BY name";
