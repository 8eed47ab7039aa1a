//! The names of the keys of a queue.
//!
//! All of them have one hash tag, so a cluster keeps them on one server.

/// The keys of a queue, in the order in which every script takes them.
pub(super) struct Keys {
    prefix: String,
    /// All keys but the due sets of the kinds.
    fixed: Vec<String>,
    pub(super) channel: String,
}

/// The queue of a builder that names none.
const DEFAULT_QUEUE: &str = "jobs";

/// The type of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Hash,
    Set,
    SortedSet,
}

use Type::{Hash, Set, SortedSet};

/// The names behind the prefix, and the types, of all keys but the due sets.
const NAMES: [(&str, Type); 25] = [
    ("sent", Hash),
    ("jobs", Hash),
    ("run", SortedSet),
    ("fence", Hash),
    ("keys", Hash),
    ("ended", SortedSet),
    ("over", SortedSet),
    ("counters", Hash),
    ("schedules", Hash),
    ("cancel_requested", Set),
    ("kinds", Hash),
    ("meta", Hash),
    ("unreadable", Hash),
    ("settings", Hash),
    ("dead_by_error", SortedSet),
    ("nodes", Hash),
    ("history", Hash),
    ("progress", Hash),
    ("wait", SortedSet),
    ("turn", SortedSet),
    ("lanes", Hash),
    ("held", SortedSet),
    ("flow", Hash),
    ("groups", Hash),
    ("members", SortedSet),
];

const SENT: usize = 0;
const JOBS: usize = 1;
const FENCES: usize = 3;
const KEYS: usize = 4;
const ENDED: usize = 5;
const COUNTERS: usize = 7;
const SCHEDULES: usize = 8;
const KINDS: usize = 10;
const META: usize = 11;

/// The version of the keys and of the formats of their values. `meta` holds it.
pub(super) const LAYOUT: u32 = 1;

const UNREADABLE: usize = 12;
const SETTINGS: usize = 13;
const DEAD_BY_ERROR: usize = 14;
const NODES: usize = 15;
const HISTORY: usize = 16;
const PROGRESS: usize = 17;
const LANES: usize = 20;
const FLOW: usize = 22;
const GROUPS: usize = 23;
const MEMBERS: usize = 24;

/// Returns the hash tag of a queue, from which a cluster computes its slot.
pub(super) fn hash_tag(queue: Option<&str>) -> String {
    format!("{{{}}}", queue.unwrap_or(DEFAULT_QUEUE))
}

impl Keys {
    /// `owner` identifies the process.
    pub(super) fn new(queue: Option<&str>, owner: &str) -> Keys {
        let prefix = format!("tw:{}:", hash_tag(queue));
        let mut fixed: Vec<String> =
            NAMES.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
        fixed[SENT] = format!("{prefix}sent:{owner}");
        Keys { channel: format!("{prefix}wake"), prefix, fixed }
    }

    /// Returns what all keys of the queue begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the keys of a script call by a process that knows these kinds.
    pub(super) fn all(&self, kinds: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let due = kinds.iter().map(|kind| [self.prefix.as_bytes(), b"due:", kind].concat());
        self.fixed.iter().map(|key| key.clone().into_bytes()).chain(due).collect()
    }

    /// Returns the same keys, each with its name behind the prefix and its type. That of a due set is `due`.
    pub(super) fn with_types(&self, kinds: &[Vec<u8>]) -> Vec<(&'static str, Type, Vec<u8>)> {
        let types = NAMES.into_iter().chain(core::iter::repeat(("due", SortedSet)));
        types.zip(self.all(kinds)).map(|((name, of), key)| (name, of, key)).collect()
    }

    pub(super) fn sent(&self) -> &str {
        &self.fixed[SENT]
    }

    pub(super) fn jobs(&self) -> &str {
        &self.fixed[JOBS]
    }

    pub(super) fn fences(&self) -> &str {
        &self.fixed[FENCES]
    }

    pub(super) fn keys(&self) -> &str {
        &self.fixed[KEYS]
    }

    pub(super) fn ended(&self) -> &str {
        &self.fixed[ENDED]
    }

    pub(super) fn schedules(&self) -> &str {
        &self.fixed[SCHEDULES]
    }

    pub(super) fn unreadable(&self) -> &str {
        &self.fixed[UNREADABLE]
    }

    pub(super) fn meta(&self) -> &str {
        &self.fixed[META]
    }

    pub(super) fn nodes(&self) -> &str {
        &self.fixed[NODES]
    }

    pub(super) fn history(&self) -> &str {
        &self.fixed[HISTORY]
    }

    pub(super) fn progress(&self) -> &str {
        &self.fixed[PROGRESS]
    }

    pub(super) fn lanes(&self) -> &str {
        &self.fixed[LANES]
    }

    pub(super) fn flow(&self) -> &str {
        &self.fixed[FLOW]
    }

    pub(super) fn groups(&self) -> &str {
        &self.fixed[GROUPS]
    }

    pub(super) fn members(&self) -> &str {
        &self.fixed[MEMBERS]
    }

    pub(super) fn settings(&self) -> &str {
        &self.fixed[SETTINGS]
    }

    pub(super) fn counters(&self) -> &str {
        &self.fixed[COUNTERS]
    }

    pub(super) fn dead_by_error(&self) -> &str {
        &self.fixed[DEAD_BY_ERROR]
    }

    pub(super) fn kinds(&self) -> &str {
        &self.fixed[KINDS]
    }
}
