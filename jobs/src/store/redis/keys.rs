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

const SENT: usize = 0;
const JOBS: usize = 1;
const FENCES: usize = 3;
const KEYS: usize = 4;
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
        let sent = format!("sent:{owner}");
        let names = [
            &*sent,
            "jobs",
            "run",
            "fence",
            "keys",
            "ended",
            "over",
            "counters",
            "schedules",
            "cancel_requested",
            "kinds",
            "meta",
            "unreadable",
            "settings",
            "dead_by_error",
            "nodes",
            "history",
            "progress",
            "wait",
            "turn",
            "lanes",
            "held",
            "flow",
            "groups",
            "members",
        ];
        let fixed = names.iter().map(|name| format!("{prefix}{name}")).collect();
        Keys { channel: format!("{prefix}wake"), prefix, fixed }
    }

    /// Returns the keys of a script call by a process that knows these kinds.
    pub(super) fn all(&self, kinds: &[String]) -> Vec<String> {
        let due = kinds.iter().map(|kind| format!("{}due:{kind}", self.prefix));
        self.fixed.iter().cloned().chain(due).collect()
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

    pub(super) fn dead_by_error(&self) -> &str {
        &self.fixed[DEAD_BY_ERROR]
    }

    pub(super) fn kinds(&self) -> &str {
        &self.fixed[KINDS]
    }
}
