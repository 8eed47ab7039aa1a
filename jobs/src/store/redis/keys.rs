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

/// Makes of the rows the table of all keys but the due sets, in the order in which every script takes them, and a
/// function for each. A row has the name behind the prefix and the type.
macro_rules! keys {
    ($($name:ident $of:ident;)+) => {
        #[allow(non_camel_case_types, reason = "they are the names of keys")]
        enum Place {
            $($name),+
        }

        const NAMES: &[(&str, Type)] = &[$((stringify!($name), $of)),+];

        #[allow(dead_code, reason = "scripts alone read some of the keys")]
        impl Keys {
            $(pub(super) fn $name(&self) -> &str {
                &self.fixed[Place::$name as usize]
            })+
        }
    };
}

keys! {
    sent Hash;
    jobs Hash;
    run SortedSet;
    fence Hash;
    keys Hash;
    ended SortedSet;
    over SortedSet;
    counters Hash;
    schedules Hash;
    cancel_requested Set;
    kinds Hash;
    meta Hash;
    unreadable Hash;
    settings Hash;
    dead_by_error SortedSet;
    nodes Hash;
    history Hash;
    progress Hash;
    wait SortedSet;
    turn SortedSet;
    lanes Hash;
    held SortedSet;
    flow Hash;
    groups Hash;
    members SortedSet;
}

/// The version of the keys and of the formats of their values. `meta` holds it.
pub(super) const LAYOUT: u32 = 1;

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
        fixed[Place::sent as usize] = format!("{prefix}sent:{owner}");
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
        let types = NAMES.iter().copied().chain(core::iter::repeat(("due", SortedSet)));
        types.zip(self.all(kinds)).map(|((name, of), key)| (name, of, key)).collect()
    }
}
