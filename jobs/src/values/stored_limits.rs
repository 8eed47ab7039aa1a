//! The limits of a queue as they are stored: under which names, of which scope (the queue, a flow, each partition of a
//! kind, one partition), and what is known of a scope with a limit.
//!
//! | name of the setting | value |
//! | --- | --- |
//! | `limit` | the limit of the queue |
//! | `limit-flow:FLOW` | the limit of a flow |
//! | `limit-each:KIND` | the limit of each partition of a kind |
//! | `limit-part:BYTES:KIND:PARTITION` | the limit of one partition; `BYTES` is the length of the kind |
//! | `pause-part:BYTES:KIND:PARTITION` | the partition is paused; the value is the time of the pause |
//! | `hold`, `hold-flow:FLOW`, `hold-part:BYTES:KIND:PARTITION` | the time until which no job of the scope starts |
//! | `flow:KIND` | the flow of the kind, if it is not the kind itself |
//!
//! Ground rules:
//!
//! - An operator's limit has the limit before it in its field `by_hand`.
//! - A number, a rate or a weight that the limit of a partition does not set is that of each partition of its kind.
//! - Without a limit the value is empty, costs one check, and allocates nothing.

use core::fmt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use super::limit::{Limit, StoredLimit};
use super::time::Millis;

/// The limits of a queue. A clone shares them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Limits(Option<Arc<Scopes>>);

#[derive(Default, PartialEq, Eq, Debug)]
struct Scopes {
    limits: ByScope<Limit>,
    /// The limits of flows that the program has given.
    of_program: HashMap<String, Limit>,
    paused: HashMap<String, HashSet<String>>,
    /// The times until which no job of a scope starts. They may be over.
    holds: ByScope<Millis>,
    /// The flow of each kind whose flow is not the kind itself.
    flow_of: HashMap<String, String>,
}

#[derive(Default, PartialEq, Eq, Debug)]
struct ByScope<T> {
    queue: Option<T>,
    flows: HashMap<String, T>,
    each: HashMap<String, T>,
    partitions: HashMap<String, HashMap<String, T>>,
}

impl<T> ByScope<T> {
    fn put(&mut self, scope: LimitScope, value: T) {
        match scope {
            LimitScope::Queue => self.queue = Some(value),
            LimitScope::Flow(flow) => drop(self.flows.insert(flow, value)),
            LimitScope::Each(kind) => drop(self.each.insert(kind, value)),
            LimitScope::Partition { kind, partition } => {
                self.partitions.entry(kind).or_default().insert(partition, value);
            }
        }
    }
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
            "limit-part" => partition_in(rest),
            _ => None,
        }
    }

    /// Returns the name of the setting that holds the scope. Each partition of a kind is held by itself.
    pub(crate) fn hold(&self) -> Option<String> {
        let name = self.setting().strip_prefix("limit").map(|rest| format!("{HOLD}{rest}"));
        name.filter(|_| !matches!(self, LimitScope::Each(_)))
    }

    /// Says whether the scope is a partition, which has turns.
    pub(crate) fn has_turns(&self) -> bool {
        matches!(self, LimitScope::Each(_) | LimitScope::Partition { .. })
    }
}

/// The scope in words: `the queue`, `the flow "mail"`, `the partition "7" of the kind "mail"`.
impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitScope::Queue => f.write_str("the queue"),
            LimitScope::Flow(flow) => write!(f, "the flow {flow:?}"),
            LimitScope::Each(kind) => write!(f, "each partition of the kind {kind:?}"),
            LimitScope::Partition { kind, partition } => {
                write!(f, "the partition {partition:?} of the kind {kind:?}")
            }
        }
    }
}

/// Reads the length of a kind, the kind and a partition.
fn kind_and_partition(text: &str) -> Option<(&str, &str)> {
    let (bytes, rest) = text.split_once(':')?;
    let (kind, rest) = rest.split_at_checked(bytes.parse().ok()?)?;
    Some((kind, rest.strip_prefix(':')?))
}

/// Returns the name of the setting that pauses a partition.
pub(crate) fn partition_pause_setting(kind: &str, partition: &str) -> String {
    format!("{PAUSE}{}:{kind}:{partition}", kind.len())
}

fn partition_in(text: &str) -> Option<LimitScope> {
    let (kind, partition) = kind_and_partition(text)?;
    Some(LimitScope::Partition { kind: kind.to_owned(), partition: partition.to_owned() })
}

/// Returns the partition that a setting pauses.
pub(crate) fn pause_in(name: &str) -> Option<LimitScope> {
    name.strip_prefix(PAUSE).and_then(partition_in)
}

const PAUSE: &str = "pause-part:";
const HOLD: &str = "hold";

/// Returns the scope that a setting holds, and until when.
pub(crate) fn hold_in(name: &str, value: &str) -> Option<(LimitScope, Millis)> {
    let scope = LimitScope::of_setting(&format!("limit{}", name.strip_prefix(HOLD)?))?;
    scope.hold()?;
    Some((scope, Millis::clamped(value.parse().ok()?)))
}

/// The pause, the hold or the operator's limit of a scope. It lasts until it is lifted; a hold also ends at its time. A
/// program's limit is not one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slowed {
    Paused,
    Held(Millis),
    ByHand(Limit),
}

/// Returns the scope of a setting that stops or slows jobs, and how.
pub(crate) fn slowed_in(name: &str, value: &str, now: Millis) -> Option<(LimitScope, Slowed)> {
    if let Some(scope) = pause_in(name) {
        return Some((scope, Slowed::Paused));
    }
    if let Some((scope, until)) = hold_in(name, value).filter(|(_, until)| *until > now) {
        return Some((scope, Slowed::Held(until)));
    }
    let scope = LimitScope::of_setting(name)?;
    let stored = StoredLimit::from_text(value);
    stored.before.map(|_| (scope, Slowed::ByHand(stored.limit)))
}

/// Says whether a setting is of one scope among many: a limit, the pause of a partition, or a hold that is not over.
pub(crate) fn is_of_a_scope(name: &str, value: &str, now: Millis) -> bool {
    name.starts_with(PAUSE)
        || LimitScope::of_setting(name).is_some()
        || hold_in(name, value).is_some_and(|(_, until)| until > now)
}

/// Returns the name of the setting that has the flow of a kind.
pub(crate) fn flow_setting(kind: &str) -> String {
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
        scopes.of_program.extend(unless_set.iter().cloned());
        scopes.limits.flows.clone_from(&scopes.of_program);
        for (name, value) in stored {
            if let Some(kind) = name.strip_prefix("flow:") {
                scopes.flow_of.insert(kind.to_owned(), value.clone());
                continue;
            }
            if let Some((kind, partition)) = name.strip_prefix(PAUSE).and_then(kind_and_partition) {
                scopes.paused.entry(kind.to_owned()).or_default().insert(partition.to_owned());
                continue;
            }
            if let Some((scope, until)) = hold_in(name, value) {
                scopes.holds.put(scope, until);
                continue;
            }
            if let (Some(scope), Some(limit)) =
                (LimitScope::of_setting(name), Limit::from_text(value))
            {
                scopes.limits.put(scope, limit);
            }
        }
        for (kind, flow) in flows {
            match kind == flow {
                true => scopes.flow_of.remove(kind),
                false => scopes.flow_of.insert(kind.to_owned(), flow.to_owned()),
            };
        }
        let has_none = scopes.limits == ByScope::default()
            && scopes.holds == ByScope::default()
            && scopes.paused.is_empty();
        Limits((!has_none).then(|| Arc::new(scopes)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn of_queue(&self) -> Limit {
        self.0.as_ref().and_then(|scopes| scopes.limits.queue).unwrap_or_default()
    }

    /// Returns the limit of a flow while no limit of it is stored.
    #[cfg(feature = "redis")]
    pub(crate) fn of_program(&self, flow: &str) -> Option<Limit> {
        self.0.as_ref()?.of_program.get(flow).copied()
    }

    /// Returns the time until which no job of the kind starts, because its flow or the queue is held. It may be over.
    pub(crate) fn held_until(&self, kind: &str) -> Option<Millis> {
        let holds = &self.0.as_ref()?.holds;
        holds.queue.max(holds.flows.get(self.flow_of(kind)).copied())
    }

    /// Returns the time until which no job of the partition starts, because the partition is held. It may be over.
    pub(crate) fn partition_held_until(&self, kind: &str, partition: &str) -> Option<Millis> {
        self.0.as_ref()?.holds.partitions.get(kind)?.get(partition).copied()
    }

    pub(crate) fn flow_of<'a>(&'a self, kind: &'a str) -> &'a str {
        let flow = self.0.as_ref().and_then(|scopes| scopes.flow_of.get(kind));
        flow.map_or(kind, |flow| flow)
    }

    pub(crate) fn of_flow(&self, flow: &str) -> Limit {
        let of_flow = self.0.as_ref().and_then(|scopes| scopes.limits.flows.get(flow));
        of_flow.copied().unwrap_or_default()
    }

    pub(crate) fn is_paused(&self, kind: &str, partition: &str) -> bool {
        let Some(scopes) = &self.0 else { return false };
        scopes.paused.get(kind).is_some_and(|paused| paused.contains(partition))
    }

    /// Says whether the flow of a kind or the queue has a rate.
    pub(crate) fn has_rate(&self, kind: &str) -> bool {
        !self.is_empty()
            && (self.of_queue().tokens().is_some()
                || self.of_flow(self.flow_of(kind)).tokens().is_some())
    }

    /// Returns the limit of the queue, of a flow or of a partition.
    pub(crate) fn of_scope(&self, scope: &LimitScope) -> Limit {
        match scope {
            LimitScope::Queue => self.of_queue(),
            LimitScope::Flow(flow) => self.of_flow(flow),
            LimitScope::Each(_) => Limit::none(),
            LimitScope::Partition { kind, partition } => self.of_partition(kind, partition),
        }
    }

    pub(crate) fn of_partition(&self, kind: &str, partition: &str) -> Limit {
        let Some(Scopes { limits, .. }) = self.0.as_deref() else { return Limit::none() };
        let own = limits.partitions.get(kind).and_then(|own| own.get(partition));
        own.copied().unwrap_or_default().or(limits.each.get(kind).copied().unwrap_or_default())
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

/// A scope with a limit, and the number of its claimed jobs: see [`Queue::limits`](crate::Queue::limits).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitInfo {
    /// The scope.
    pub scope: LimitScope,
    /// Its limit.
    pub limit: Limit,
    /// How many of its jobs are claimed now. For [`LimitScope::Each`]: the number in the partition with the most.
    pub running: u64,
    /// When the next job of it may start, if its rate lets none start now. Never for [`LimitScope::Each`].
    pub next_start: Option<SystemTime>,
    /// Until when no job of it starts, if it is held.
    pub held_until: Option<SystemTime>,
}

impl LimitInfo {
    /// Says whether the scope lets no further job start now: because as many jobs run as may, because of its rate, or
    /// because it is held.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.is_full() || self.next_start.is_some() || self.held_until.is_some()
    }

    /// Says whether as many jobs are claimed as the limit allows.
    pub(crate) fn is_full(&self) -> bool {
        self.limit.most_running().is_some_and(|most| self.running >= u64::from(most))
    }
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
        let stored = [(partition_pause_setting("a:b", "c"), "7".to_owned())];
        let limits = Limits::of(&stored, &[]);
        assert!(limits.is_paused("a:b", "c"));
        assert_eq!(pause_in(&stored[0].0), Some(partition("a:b", "c")));
        assert!(!limits.is_paused("a:b", "d") && !limits.is_paused("a", "b:c"));
        let is_of_a_scope = |name| is_of_a_scope(name, "7", Millis::ZERO);
        assert!(is_of_a_scope(&stored[0].0) && !is_of_a_scope("pause:a"));
    }

    /// A hold is of one scope: the queue, a flow or a partition. A hold that is over counts no more.
    #[test]
    fn hold_is_of_one_scope() {
        let queue = LimitScope::Queue;
        let flow = LimitScope::Flow("stripe".to_owned());
        let acme = partition("charge", "acme");
        for scope in [&queue, &flow, &acme] {
            let name = scope.hold().unwrap();
            let at = Millis::clamped(7);
            assert_eq!(hold_in(&name, "7"), Some((scope.clone(), at)));
            let limits = Limits::of(&[(name.clone(), "7".to_owned())], &[]);
            let of_flow = limits.held_until("stripe");
            let of_acme = limits.partition_held_until("charge", "acme");
            assert_eq!(of_flow.is_some(), *scope != acme, "{scope:?}");
            assert_eq!(of_acme.is_some(), *scope == acme, "{scope:?}");
            assert_eq!(limits.held_until("else").is_some(), *scope == queue, "{scope:?}");
            assert!(is_of_a_scope(&name, "7", Millis::ZERO) && !is_of_a_scope(&name, "7", at));
        }
        assert_eq!(LimitScope::Each("charge".to_owned()).hold(), None);
        for (name, value) in [("hold-each:a", "7"), ("hold", "x"), ("holds", "7"), ("limit", "7")] {
            assert_eq!(hold_in(name, value), None, "{name}");
        }
    }

    /// A partition has its own limit. A part that this limit does not set is that of the limit of each.
    #[test]
    fn limit_of_a_partition_comes_before_that_of_each() {
        let set = |scope: LimitScope, limit: Limit| (scope.setting(), limit.to_text());
        let stored = [
            set(LimitScope::Each("charge".to_owned()), Limit::running(2).weight(5)),
            set(partition("charge", "acme"), Limit::running(10)),
            set(partition("mail", "acme"), Limit::none().weight(3)),
            (flow_setting("charge"), "stripe".to_owned()),
            set(LimitScope::Flow("stripe".to_owned()), Limit::running(20)),
        ];
        let limits = Limits::of(&stored, &[("mail".to_owned(), Limit::running(7))]);
        assert_eq!(limits.of_partition("charge", "acme"), Limit::running(10).weight(5));
        assert_eq!(limits.of_partition("charge", "else"), Limit::running(2).weight(5));
        assert_eq!(limits.of_partition("mail", "acme"), Limit::none().weight(3));
        assert_eq!(limits.of_partition("mail", "else"), Limit::none());
        assert_eq!(limits.of_flow(limits.flow_of("charge")), Limit::running(20));
        assert_eq!(limits.of_flow(limits.flow_of("mail")), Limit::running(7));
        assert_eq!((limits.of_queue(), limits.flow_of("else")), (Limit::none(), "else"));
    }

    /// A stored limit comes before the limit of a program. Without a limit there is nothing.
    #[test]
    fn stored_limit_wins() {
        let stored = [(LimitScope::Flow("a".to_owned()).setting(), Limit::running(1).to_text())];
        let said = [("a".to_owned(), Limit::running(9)), ("b".to_owned(), Limit::running(9))];
        let limits = Limits::of(&stored, &said);
        assert_eq!(limits.of_flow("a"), Limit::running(1));
        assert_eq!(limits.of_flow("b"), Limit::running(9));
        assert!(Limits::of(&[(flow_setting("a"), "b".to_owned())], &[]).is_empty());
        assert_eq!(Limits::of(&stored, &said), limits);
    }
}
