//! The stored limits of a queue: of the queue, of a flow, of each partition of a kind, of one partition.
//!
//! | name of the setting | value |
//! | --- | --- |
//! | `limit` | the limit of the queue |
//! | `limit-flow:FLOW` | the limit of a flow |
//! | `limit-each:KIND` | the limit of each partition of a kind |
//! | `limit-part:BYTES:KIND:PARTITION` | the limit of one partition; `BYTES` is the length of the kind |
//! | `pause-part:BYTES:KIND:PARTITION` | the partition is paused; the value is the time of the pause |
//! | `flow:KIND` | the flow of the kind, if it is not the kind itself |
//!
//! Ground rules:
//!
//! - A number or a weight that the limit of a partition does not set is that of each partition of its kind.
//! - Without a limit the value is empty, costs one check, and allocates nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::limit::Limit;

/// The limits of a queue. A clone shares them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Limits(Option<Arc<Scopes>>);

#[derive(Default, PartialEq, Eq, Debug)]
struct Scopes {
    queue: Limit,
    flows: HashMap<String, Limit>,
    /// The limits of flows that the program has given.
    of_program: HashMap<String, Limit>,
    each: HashMap<String, Limit>,
    partitions: HashMap<String, HashMap<String, Limit>>,
    paused: HashMap<String, HashSet<String>>,
    /// The flow of each kind whose flow is not the kind itself.
    flow_of: HashMap<String, String>,
}

/// The jobs that a limit counts together.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum LimitScope {
    /// All jobs of the queue.
    Queue,
    /// The kinds of a flow together.
    Flow(String),
    /// Each partition of a kind by itself.
    Each(String),
    /// One partition of a kind.
    Partition {
        /// The kind.
        kind: String,
        /// The partition.
        partition: String,
    },
}

impl LimitScope {
    /// Returns the name of the setting that has the limit.
    pub(crate) fn setting(&self) -> String {
        match self {
            LimitScope::Queue => "limit".to_owned(),
            LimitScope::Flow(flow) => format!("limit-flow:{flow}"),
            LimitScope::Each(kind) => format!("limit-each:{kind}"),
            LimitScope::Partition { kind, partition } => {
                format!("limit-part:{}:{kind}:{partition}", kind.len())
            }
        }
    }

    /// Returns the scope of a setting, if it has a limit.
    pub(crate) fn of_setting(name: &str) -> Option<LimitScope> {
        let Some((before, rest)) = name.split_once(':') else {
            return (name == "limit").then_some(LimitScope::Queue);
        };
        match before {
            "limit-flow" => Some(LimitScope::Flow(rest.to_owned())),
            "limit-each" => Some(LimitScope::Each(rest.to_owned())),
            "limit-part" => {
                let (kind, partition) = kind_and_partition(rest)?;
                let (kind, partition) = (kind.to_owned(), partition.to_owned());
                Some(LimitScope::Partition { kind, partition })
            }
            _ => None,
        }
    }

    /// Says whether the scope is a partition, which has turns.
    pub(crate) fn has_turns(&self) -> bool {
        matches!(self, LimitScope::Each(_) | LimitScope::Partition { .. })
    }
}

/// Reads the length of a kind, the kind and a partition.
fn kind_and_partition(text: &str) -> Option<(&str, &str)> {
    let (bytes, rest) = text.split_once(':')?;
    let (kind, rest) = rest.split_at_checked(bytes.parse().ok()?)?;
    Some((kind, rest.strip_prefix(':')?))
}

/// Returns the name of the setting that pauses a partition.
pub(crate) fn pause(kind: &str, partition: &str) -> String {
    format!("{PAUSE}{}:{kind}:{partition}", kind.len())
}

const PAUSE: &str = "pause-part:";

/// Says whether a setting is of one scope among many: a limit, or the pause of a partition.
pub(crate) fn is_of_a_scope(name: &str) -> bool {
    name.starts_with(PAUSE) || LimitScope::of_setting(name).is_some()
}

/// Returns the name of the setting that has the flow of a kind.
pub(crate) fn flow(kind: &str) -> String {
    format!("flow:{kind}")
}

impl Limits {
    /// Reads the limits among the stored settings, without flows of its own.
    #[cfg(test)]
    pub(crate) fn of(stored: &[(String, String)], unless_set: &[(String, Limit)]) -> Limits {
        Limits::with_flows(stored, unless_set, core::iter::empty())
    }

    /// Reads the limits among the stored settings. `unless_set`: the limits of flows that a program has for those that
    /// no setting limits. `flows`: kinds and their flows, which come before those that are stored.
    pub(crate) fn with_flows<'a>(
        stored: &[(String, String)],
        unless_set: &[(String, Limit)],
        flows: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Limits {
        let mut scopes = Scopes::default();
        scopes.flows.extend(unless_set.iter().cloned());
        scopes.of_program.clone_from(&scopes.flows);
        for (name, value) in stored {
            if let Some(kind) = name.strip_prefix("flow:") {
                scopes.flow_of.insert(kind.to_owned(), value.clone());
                continue;
            }
            if let Some((kind, partition)) = name.strip_prefix(PAUSE).and_then(kind_and_partition) {
                scopes.paused.entry(kind.to_owned()).or_default().insert(partition.to_owned());
                continue;
            }
            let Some(scope) = LimitScope::of_setting(name) else { continue };
            let Some(limit) = Limit::from_text(value) else { continue };
            match scope {
                LimitScope::Queue => scopes.queue = limit,
                LimitScope::Flow(flow) => drop(scopes.flows.insert(flow, limit)),
                LimitScope::Each(kind) => drop(scopes.each.insert(kind, limit)),
                LimitScope::Partition { kind, partition } => {
                    scopes.partitions.entry(kind).or_default().insert(partition, limit);
                }
            }
        }
        for (kind, flow) in flows {
            match kind == flow {
                true => scopes.flow_of.remove(kind),
                false => scopes.flow_of.insert(kind.to_owned(), flow.to_owned()),
            };
        }
        let Scopes { queue, flows, each, partitions, paused, .. } = &scopes;
        let none = queue.is_none()
            && flows.is_empty()
            && each.is_empty()
            && partitions.is_empty()
            && paused.is_empty();
        Limits((!none).then(|| Arc::new(scopes)))
    }

    /// Says whether nothing is limited.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns how many jobs of the queue may run.
    pub(crate) fn of_queue(&self) -> Option<u32> {
        self.0.as_ref()?.queue.running
    }

    /// Returns how many jobs of a flow may run while no limit of it is stored.
    #[cfg(feature = "redis")]
    pub(crate) fn of_program(&self, flow: &str) -> Option<u32> {
        self.0.as_ref()?.of_program.get(flow)?.running
    }

    /// Returns the flow of a kind.
    pub(crate) fn flow_of<'a>(&'a self, kind: &'a str) -> &'a str {
        let flow = self.0.as_ref().and_then(|scopes| scopes.flow_of.get(kind));
        flow.map_or(kind, |flow| flow)
    }

    /// Returns how many jobs of a flow may run.
    pub(crate) fn of_flow(&self, flow: &str) -> Option<u32> {
        self.0.as_ref()?.flows.get(flow)?.running
    }

    /// Says whether a partition is paused.
    pub(crate) fn is_paused(&self, kind: &str, partition: &str) -> bool {
        let Some(scopes) = &self.0 else { return false };
        scopes.paused.get(kind).is_some_and(|paused| paused.contains(partition))
    }

    /// Returns the limit of a partition.
    pub(crate) fn of_partition(&self, kind: &str, partition: &str) -> Limit {
        let Some(scopes) = &self.0 else { return Limit::none() };
        let own = scopes.partitions.get(kind).and_then(|own| own.get(partition));
        own.copied().unwrap_or_default().or(scopes.each.get(kind).copied().unwrap_or_default())
    }
}

impl PartialEq for Limits {
    fn eq(&self, other: &Limits) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(these), Some(others)) => Arc::ptr_eq(these, others) || these == others,
            _ => false,
        }
    }
}

impl Eq for Limits {}

/// A scope with a limit, and the number of its claimed jobs: see [`Client::limits`](crate::Client::limits).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitInfo {
    /// The scope.
    pub scope: LimitScope,
    /// Its limit.
    pub limit: Limit,
    /// How many of its jobs are claimed now. For [`LimitScope::Each`]: the number in the partition with the most.
    pub running: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(kind: &str, partition: &str) -> LimitScope {
        LimitScope::Partition { kind: kind.to_owned(), partition: partition.to_owned() }
    }

    /// A scope is found again by the name of its setting, with any names of kind and partition.
    #[test]
    fn scope_is_found_by_its_setting() {
        for scope in [
            LimitScope::Queue,
            LimitScope::Flow("stripe: eu".to_owned()),
            LimitScope::Each("charge:2".to_owned()),
            partition("charge", "acme"),
            partition("a:b", ":c:"),
            partition("ä", "1:1"),
        ] {
            assert_eq!(LimitScope::of_setting(&scope.setting()), Some(scope));
        }
        for other in
            ["pause", "pause:charge", "limit-part:9:a:b", "limit-part:x:a:b", "limit-all:a"]
        {
            assert_eq!(LimitScope::of_setting(other), None, "{other}");
        }
    }

    /// A partition is paused by itself, and under its own name.
    #[test]
    fn pause_of_a_partition_is_read_back() {
        let stored = [(pause("a:b", "c"), "7".to_owned())];
        let limits = Limits::of(&stored, &[]);
        assert!(limits.is_paused("a:b", "c"));
        assert!(!limits.is_paused("a:b", "d") && !limits.is_paused("a", "b:c"));
        assert!(is_of_a_scope(&stored[0].0) && !is_of_a_scope("pause:a"));
    }

    /// A partition has its own limit. A part that this limit does not set is that of the limit of each.
    #[test]
    fn limit_of_a_partition_comes_before_that_of_each() {
        let set = |scope: LimitScope, limit: Limit| (scope.setting(), limit.to_text());
        let stored = [
            set(LimitScope::Each("charge".to_owned()), Limit::running(2).weight(5)),
            set(partition("charge", "acme"), Limit::running(10)),
            set(partition("mail", "acme"), Limit::none().weight(3)),
            (flow("charge"), "stripe".to_owned()),
            set(LimitScope::Flow("stripe".to_owned()), Limit::running(20)),
        ];
        let limits = Limits::of(&stored, &[("mail".to_owned(), Limit::running(7))]);
        assert_eq!(limits.of_partition("charge", "acme"), Limit::running(10).weight(5));
        assert_eq!(limits.of_partition("charge", "else"), Limit::running(2).weight(5));
        assert_eq!(limits.of_partition("mail", "acme"), Limit::none().weight(3));
        assert_eq!(limits.of_partition("mail", "else"), Limit::none());
        assert_eq!(limits.of_flow(limits.flow_of("charge")), Some(20));
        assert_eq!(limits.of_flow(limits.flow_of("mail")), Some(7));
        assert_eq!((limits.of_queue(), limits.flow_of("else")), (None, "else"));
    }

    /// A stored limit comes before the limit of a program. Without a limit there is nothing.
    #[test]
    fn stored_limit_wins() {
        let stored = [(LimitScope::Flow("a".to_owned()).setting(), Limit::running(1).to_text())];
        let said = [("a".to_owned(), Limit::running(9)), ("b".to_owned(), Limit::running(9))];
        let limits = Limits::of(&stored, &said);
        assert_eq!((limits.of_flow("a"), limits.of_flow("b")), (Some(1), Some(9)));
        assert!(Limits::of(&[(flow("a"), "b".to_owned())], &[]).is_empty());
        assert_eq!(Limits::of(&stored, &said), limits);
    }
}
