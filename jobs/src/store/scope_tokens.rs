//! The tokens of each scope with a rate, and how long a scope waits for its next token or for the end of a hold.
//!
//! Ground rules:
//!
//! - A claim asks all scopes before it takes a token of any: queue, flow, lane.
//! - Tokens are kept by the name of the setting that has the limit of their scope. A lane without a limit of its own has
//!   tokens too, under the name that its limit would have.
//! - After other limits, after a start, and after the clock was set back, `settle` adapts all tokens at once.
//! - A store that outlives the process writes the changed tokens in the commit of the claim, and reads all of them after
//!   a start and after a rollback.
//! - A scope without a rate has no tokens, and costs one check.

use std::collections::{BTreeSet, HashMap};

use crate::values::limits::{LimitScope, Limits};
use crate::values::rate::{Rate, Tokens};
use crate::values::time::Millis;

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
