//! What each limited scope has: its claims, as sets and not as counters, and its tokens.
//!
//! A scope is the queue, a flow, or a lane.
//!
//! Ground rules:
//!
//! - A claim is in the set of each scope that limits it. A scope without a limit has no set, and one without a rate has
//!   no tokens: each costs only one check.
//! - A claim is added to its sets when it is made, and removed when it ends. An end that comes twice removes it once.
//! - A claim asks all scopes before it takes a token of any: queue, flow, lane. A scope waits for its next token, or
//!   for the end of a hold.
//! - Tokens are kept by the name of the setting that has the limit of their scope. A lane without a limit of its own
//!   has tokens too, under the name that its limit would have.
//! - After other limits, after a start, and after the clock was set back, `settle` adapts all tokens at once.
//! - A store that outlives the process writes the changed tokens in the commit of the claim, and reads all of them
//!   after a start and after a rollback.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::values::id::JobId;
use crate::values::limit::{Rate, Tokens};
use crate::values::stored_limits::{LimitScope, Limits};
use crate::values::time::Millis;

/// The claims of each scope that has a limit.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct ScopeClaims {
    of_queue: HashSet<JobId>,
    of_flows: HashMap<String, HashSet<JobId>>,
    of_lanes: HashMap<Arc<str>, HashMap<Arc<str>, HashSet<JobId>>>,
}

/// A claim: the job, its kind and its partition.
pub(crate) type ScopedClaim<'a> = (JobId, &'a Arc<str>, Option<&'a Arc<str>>);

impl ScopeClaims {
    /// Says whether the limits of the queue and of its flow allow one more claim of a kind.
    pub(super) fn allow(&self, limits: &Limits, kind: &str) -> bool {
        let flow = limits.flow_of(kind);
        let of_flow = self.of_flows.get(flow).map_or(0, HashSet::len);
        is_below(limits.of_queue().running, self.of_queue.len())
            && is_below(limits.of_flow(flow).running, of_flow)
    }

    /// Says whether a lane is not paused, and its limit allows one more claim.
    pub(super) fn allow_in_lane(&self, limits: &Limits, kind: &str, partition: &str) -> bool {
        let most = limits.of_partition(kind, partition).running;
        let of_lane = self.of_lanes.get(kind).and_then(|lanes| lanes.get(partition));
        let claims = of_lane.map_or(0, HashSet::len);
        !limits.is_paused(kind, partition) && is_below(most, claims)
    }

    pub(super) fn add(&mut self, limits: &Limits, (id, kind, partition): ScopedClaim<'_>) {
        if limits.of_queue().running.is_some() {
            self.of_queue.insert(id);
        }
        let flow = limits.flow_of(kind);
        if limits.of_flow(flow).running.is_some() {
            self.of_flows.entry(flow.to_owned()).or_default().insert(id);
        }
        if let Some(partition) = partition
            && limits.of_partition(kind, partition).running.is_some()
        {
            let lanes = self.of_lanes.entry(Arc::clone(kind)).or_default();
            lanes.entry(Arc::clone(partition)).or_default().insert(id);
        }
    }

    pub(super) fn remove(&mut self, limits: &Limits, (id, kind, partition): ScopedClaim<'_>) {
        self.of_queue.remove(&id);
        let flow = limits.flow_of(kind);
        if let Some(of_flow) = self.of_flows.get_mut(flow) {
            of_flow.remove(&id);
            if of_flow.is_empty() {
                self.of_flows.remove(flow);
            }
        }
        if let Some(partition) = partition
            && let Some(lanes) = self.of_lanes.get_mut(kind)
            && let Some(of_lane) = lanes.get_mut(partition)
        {
            of_lane.remove(&id);
            if of_lane.is_empty() {
                lanes.remove(partition);
            }
            if lanes.is_empty() {
                self.of_lanes.remove(kind);
            }
        }
    }
}

fn is_below(most: Option<u32>, running: usize) -> bool {
    most.is_none_or(|most| running < most as usize)
}

/// The tokens of each scope with a rate.
#[derive(Default)]
pub(crate) struct ScopeTokens {
    all: HashMap<String, Tokens>,
    /// The scopes whose tokens have changed since `changed` was last called.
    changed: BTreeSet<String>,
}

impl ScopeTokens {
    /// Returns the time before which no job of the kind may start, if that is later than now: the queue or its flow has
    /// no token, or is held.
    pub(super) fn wait(&self, limits: &Limits, kind: &str, now: Millis) -> Option<Millis> {
        if limits.is_empty() {
            return None;
        }
        let flow = limits.flow_of(kind);
        let of_queue = limits.of_queue().tokens().map(|_| self.next(&LimitScope::Queue, now));
        let of_flow = limits.of_flow(flow).tokens();
        let of_flow = of_flow.map(|_| self.next(&LimitScope::Flow(flow.to_owned()), now));
        limits.held_until(kind).max(of_queue).max(of_flow).filter(|wait| *wait > now)
    }

    /// Returns the time before which no job of the lane may start, if that is later than now: the lane has no token, or
    /// is held.
    pub(super) fn wait_in_lane(
        &self,
        limits: &Limits,
        (kind, partition): (&str, &str),
        now: Millis,
    ) -> Option<Millis> {
        if limits.is_empty() {
            return None;
        }
        let rate = limits.of_partition(kind, partition).tokens();
        let next = rate.map(|_| self.next(&lane(kind, partition), now));
        limits.partition_held_until(kind, partition).max(next).filter(|wait| *wait > now)
    }

    /// Takes a token of each scope of a claimed job.
    pub(super) fn take(
        &mut self,
        limits: &Limits,
        (kind, partition): (&str, Option<&str>),
        now: Millis,
    ) {
        if limits.is_empty() {
            return;
        }
        let flow = limits.flow_of(kind);
        if let Some(rate) = limits.of_queue().tokens() {
            self.take_of(&LimitScope::Queue, rate, now);
        }
        if let Some(rate) = limits.of_flow(flow).tokens() {
            self.take_of(&LimitScope::Flow(flow.to_owned()), rate, now);
        }
        if let Some(partition) = partition
            && let Some(rate) = limits.of_partition(kind, partition).tokens()
        {
            self.take_of(&lane(kind, partition), rate, now);
        }
    }

    /// Returns the tokens of a scope.
    pub(crate) fn get(&self, scope: &str) -> Option<Tokens> {
        self.all.get(scope).cloned()
    }

    /// Replaces all tokens by those that a store has kept.
    pub(crate) fn load(&mut self, stored: impl Iterator<Item = (String, String)>) {
        let read = |(scope, text): (String, String)| Some((scope, Tokens::from_text(&text)?));
        self.all = stored.filter_map(read).collect();
        self.changed.clear();
    }

    /// Returns the scopes whose tokens have changed, with their tokens as a store keeps them.
    pub(crate) fn changed(&mut self) -> Vec<(String, String)> {
        let changed = core::mem::take(&mut self.changed);
        let text = |scope: String| self.get(&scope).map(|tokens| (scope, tokens.to_text()));
        changed.into_iter().filter_map(text).collect()
    }

    /// Forgets the tokens that make no difference any more. Returns their scopes.
    pub(crate) fn purge(&mut self, now: Millis) -> Vec<String> {
        let past = |(scope, tokens): (&String, &Tokens)| tokens.is_past(now).then(|| scope.clone());
        let past: Vec<String> = self.all.iter().filter_map(past).collect();
        for scope in &past {
            self.all.remove(scope);
            self.changed.remove(scope);
        }
        past
    }

    /// Follows other limits, or a clock that was set back.
    pub(super) fn settle(&mut self, limits: &Limits, now: Millis) {
        let ScopeTokens { all, changed } = self;
        for (name, tokens) in all {
            let rate =
                LimitScope::of_setting(name).and_then(|scope| limits.of_scope(&scope).tokens());
            let before = tokens.clone();
            if let Some(rate) = rate {
                tokens.follow(rate, now);
            }
            if *tokens != before {
                changed.insert(name.clone());
            }
        }
    }

    fn next(&self, scope: &LimitScope, now: Millis) -> Millis {
        self.all.get(&scope.setting()).map_or(now, Tokens::next)
    }

    fn take_of(&mut self, scope: &LimitScope, rate: Rate, now: Millis) {
        let name = scope.setting();
        self.all.entry(name.clone()).or_insert_with(|| Tokens::new(rate, now)).take(now);
        self.changed.insert(name);
    }
}

fn lane(kind: &str, partition: &str) -> LimitScope {
    LimitScope::Partition { kind: kind.to_owned(), partition: partition.to_owned() }
}
