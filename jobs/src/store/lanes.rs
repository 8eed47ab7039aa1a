//! Lanes: the due jobs of each partition of a kind, and the turns of the partitions.
//!
//! Ground rules:
//!
//! - A lane is here while jobs of it are due and not claimed, as far as the store has seen. The store has the jobs.
//!   It calls `file` when a lane gets its first job, and `drained` when the lane has no job left.
//! - A lane is *in turn*, or it is *parked*: it is paused or held, has as many claims as its limit allows, or waits for
//!   its next token. A parked lane is in no list that a claim reads. The end of a claim, the time of the token or
//!   another limit brings it back. A lane whose first job is a suspect that has to wait is passed over until the next
//!   claim.
//! - `turns.rs` says which lane is next.
//! - All of this follows from the jobs and the claims, so a restart makes it anew.

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use super::scopes::ScopedClaim;
use super::scopes::{ScopeClaims, ScopeTokens};
use super::turns::Turns;
use crate::values::job::{Extra, may_start};
use crate::values::limit::Limit;
use crate::values::stored_limits::Limits;
use crate::values::time::Millis;

/// The lanes of a queue, and the claims and tokens of each limited scope.
#[derive(Default)]
pub(crate) struct Lanes {
    limits: Limits,
    /// The time of the latest claim.
    now: Millis,
    kinds: HashMap<Arc<str>, Turns>,
    /// Lanes that this claim passes over: kind and partition.
    passed_over: Vec<(Arc<str>, Arc<str>)>,
    claims: ScopeClaims,
    pub(crate) tokens: ScopeTokens,
}

/// When a claim may take a job of a kind, by the limits of its flow and of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opens {
    Now,
    /// The next token comes then, or a hold ends.
    At(Millis),
    /// When a claim has ended.
    Later,
}

impl Lanes {
    /// Begins a claim at this time under these limits. `claims`: all claims, which are counted anew if the limits have
    /// changed.
    pub(crate) fn begin<'a>(
        &mut self,
        limits: &Limits,
        now: Millis,
        claims: impl Iterator<Item = ScopedClaim<'a>>,
    ) {
        for (kind, partition) in core::mem::take(&mut self.passed_over) {
            self.bring_back(&kind, &partition);
        }
        let was_set_back = now < self.now;
        self.now = now;
        if self.limits == *limits && !was_set_back {
            self.kinds.values_mut().for_each(|turns| turns.bring_back_until(now));
            return;
        }
        if self.limits != *limits {
            self.limits = limits.clone();
            self.count(claims);
        }
        self.tokens.settle(&self.limits, now);
        let mut all = Vec::new();
        for (kind, turns) in &mut self.kinds {
            turns.bring_all_back(|partition| weight(&self.limits, kind, partition));
            all.extend(
                turns.partitions().map(|partition| (Arc::clone(kind), Arc::clone(partition))),
            );
        }
        for (kind, partition) in all {
            self.park_if_stopped(&kind, &partition);
        }
    }

    /// Parks a lane that may not run, so that the others share its turns.
    fn park_if_stopped(&mut self, kind: &str, partition: &Arc<str>) -> bool {
        let until = match self.claims.allow_in_lane(&self.limits, kind, partition) {
            false => None,
            true => match self.tokens.wait_in_lane(&self.limits, (kind, partition), self.now) {
                None => return false,
                until => until,
            },
        };
        if let Some(turns) = self.kinds.get_mut(kind) {
            turns.park(partition, until);
        }
        true
    }

    /// Forgets every lane, and takes the claims anew: the store has undone changes.
    pub(crate) fn forget<'a>(&mut self, claims: impl Iterator<Item = ScopedClaim<'a>>) {
        self.kinds.clear();
        self.passed_over.clear();
        self.count(claims);
    }

    /// Replaces all tokens by those that the store has kept.
    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn load_tokens(&mut self, stored: impl Iterator<Item = (String, String)>) {
        self.tokens.load(stored);
        self.tokens.settle(&self.limits, self.now);
    }

    fn count<'a>(&mut self, claims: impl Iterator<Item = ScopedClaim<'a>>) {
        self.claims = ScopeClaims::default();
        if !self.limits.is_empty() {
            claims.for_each(|claim| self.claims.add(&self.limits, claim));
        }
    }

    /// A job of the lane is due and not claimed.
    pub(crate) fn file(&mut self, kind: &Arc<str>, partition: &Arc<str>) {
        let turns = self.kinds.entry(Arc::clone(kind)).or_default();
        turns.add(partition, || weight(&self.limits, kind, partition));
    }

    /// No job of the lane is due and not claimed.
    pub(crate) fn drained(&mut self, kind: &str, partition: &Arc<str>) {
        if let Some(turns) = self.kinds.get_mut(kind) {
            turns.remove(partition);
        }
    }

    /// A job is claimed. A job of a lane takes the turn of its lane. A job that is too old at `now`, by its properties,
    /// takes no token.
    pub(crate) fn claimed(&mut self, claim: ScopedClaim<'_>, extra: Option<&Extra>, now: Millis) {
        if !self.limits.is_empty() {
            self.claims.add(&self.limits, claim);
            let (_, kind, partition) = claim;
            if may_start(extra, now) {
                self.tokens.take(&self.limits, (kind, partition.map(|its| &**its)), self.now);
            }
        }
        if let (_, kind, Some(partition)) = claim
            && let Some(turns) = self.kinds.get_mut(kind)
        {
            turns.serve(partition);
            self.park_if_stopped(kind, partition);
        }
    }

    /// A claim has ended.
    pub(crate) fn ended(&mut self, claim: ScopedClaim<'_>) {
        if !self.limits.is_empty() {
            self.claims.remove(&self.limits, claim);
        }
        if let (_, kind, Some(partition)) = claim
            && let Some(turns) = self.kinds.get_mut(kind)
        {
            turns.end(partition);
        }
    }

    /// Says whether a kind is limited, by its flow or by the queue. Jobs of such a kind are not claimed before they are
    /// due: they would take a place, or a token, that another job could use.
    pub(crate) fn is_limited(&self, kind: &str) -> bool {
        let limits = &self.limits;
        let is_limited = |limit: Limit| limit.running.is_some() || limit.tokens().is_some();
        !limits.is_empty()
            && (is_limited(limits.of_queue()) || is_limited(limits.of_flow(limits.flow_of(kind))))
    }

    /// Says whether the queue or the flow of a kind has a rate. Of such a kind a process claims no more jobs than it
    /// can start soon: otherwise the handlers would not start at the rate of the claims.
    pub(crate) fn has_rate(&self, kind: &str) -> bool {
        self.limits.has_rate(kind)
    }

    /// Says whether the limits of the queue and of its flow allow one more claim of a kind.
    pub(crate) fn has_room(&self, kind: &str) -> bool {
        self.opens(kind) == Opens::Now
    }

    /// Says when the limits of the queue and of its flow allow one more claim of a kind.
    pub(crate) fn opens(&self, kind: &str) -> Opens {
        if self.limits.is_empty() {
            return Opens::Now;
        }
        if !self.claims.allow(&self.limits, kind) {
            return Opens::Later;
        }
        self.tokens.wait(&self.limits, kind, self.now).map_or(Opens::Now, Opens::At)
    }

    /// Returns when the next lane of the kind comes back that waits for a token or for the end of a hold.
    pub(crate) fn next_waiting(&self, kind: &str) -> Option<Millis> {
        self.kinds.get(kind)?.first_waiting()
    }

    /// Returns the lane of a kind that is next in turn and may run. Parks those before it.
    pub(crate) fn next(&mut self, kind: &str) -> Option<Arc<str>> {
        loop {
            let partition = Arc::clone(self.kinds.get(kind)?.first()?);
            if !self.park_if_stopped(kind, &partition) {
                return Some(partition);
            }
        }
    }

    /// Passes over the lane until the next claim: its first job is a suspect that has to wait.
    pub(crate) fn pass_over(&mut self, kind: &Arc<str>, partition: &Arc<str>) {
        if let Some(turns) = self.kinds.get_mut(kind)
            && turns.has(partition)
        {
            turns.park(partition, None);
            self.passed_over.push((Arc::clone(kind), Arc::clone(partition)));
        }
    }

    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn has(&self, kind: &str, partition: &str) -> bool {
        self.kinds.get(kind).is_some_and(|turns| turns.has(partition))
    }

    /// Says whether the last claim has passed over a lane.
    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn any_passed_over(&self) -> bool {
        !self.passed_over.is_empty()
    }

    /// Says whether any lane of the kind is in turn.
    pub(crate) fn any_in_turn(&self, kind: &str) -> bool {
        self.kinds.get(kind).is_some_and(|turns| turns.first().is_some())
    }

    /// Returns the sentence about the first thing that is wrong, if anything is.
    pub(crate) fn violation<'a>(
        &self,
        claims: impl Iterator<Item = ScopedClaim<'a>>,
    ) -> Option<String> {
        let mut expected = ScopeClaims::default();
        if !self.limits.is_empty() {
            claims.for_each(|claim| expected.add(&self.limits, claim));
        }
        if expected != self.claims {
            let found = &self.claims;
            return Some(format!("the limited scopes have the claims {found:?}, not {expected:?}"));
        }
        self.kinds.iter().find_map(|(kind, turns)| {
            let may_run = |partition: &Arc<str>| {
                self.claims.allow_in_lane(&self.limits, kind, partition)
                    && !self.passed_over.iter().any(|(_, name)| name == partition)
            };
            let lost = turns.lost(may_run)?;
            Some(format!("the lane {lost:?} of {kind:?} may run, and is not in turn"))
        })
    }

    fn bring_back(&mut self, kind: &str, partition: &Arc<str>) {
        if let Some(turns) = self.kinds.get_mut(kind) {
            turns.bring_back(partition);
        }
    }
}

fn weight(limits: &Limits, kind: &str, partition: &str) -> u32 {
    limits.of_partition(kind, partition).weight.unwrap_or(1).max(1)
}
