//! Lanes: the due jobs of each partition of a kind, and the turns of the partitions.
//!
//! Ground rules:
//!
//! - A lane is here while jobs of it are due and not claimed, as far as the store has seen. The store has the jobs.
//!   It calls `file` when a lane gets its first job, and `drained` when the lane has no job left.
//! - A lane is *in turn*, or it is *parked*: it is paused, or has as many claims as its limit allows. A parked lane is in
//!   no list that a claim reads. The end of a claim, or another limit, brings it back. A lane whose first job is a suspect
//!   that has to wait is passed over until the next claim.
//! - Turns are strides (Waldspurger and Weihl, 1995): each turn raises the pass of its lane by `STRIDE` divided by the
//!   weight, and the lowest pass is next. A new lane begins one stride behind the lane that was served last. So it
//!   saves up no turns, and waits no longer than a lane that has just had its turn. A parked lane keeps its pass.
//! - All of this follows from the jobs and the claims, so a restart makes it anew.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) use super::scope_claims::Claim;
use super::scope_claims::Claims;
use crate::values::limits::Limits;

/// The lanes of a queue, and the claims of each limited scope.
#[derive(Default)]
pub(crate) struct Lanes {
    limits: Limits,
    kinds: HashMap<Arc<str>, Turns>,
    /// Lanes that this claim passes over: kind and partition.
    passed_over: Vec<(Arc<str>, Arc<str>)>,
    claims: Claims,
}

/// The lanes of a kind.
#[derive(Default)]
struct Turns {
    /// The pass of the lane that was served last. It never falls.
    present: u64,
    /// The lanes in turn, the lowest pass first.
    in_turn: BTreeSet<(u64, Arc<str>)>,
    lanes: HashMap<Arc<str>, Lane>,
}

struct Lane {
    pass: u64,
    is_in_turn: bool,
}

/// By how much a turn raises the pass of a lane of weight 1.
const STRIDE: u64 = 1 << 20;

impl Lanes {
    /// Begins a claim under these limits. `claims`: all claims, which are counted anew if the limits have changed.
    pub(crate) fn begin<'a>(&mut self, limits: &Limits, claims: impl Iterator<Item = Claim<'a>>) {
        for (kind, partition) in core::mem::take(&mut self.passed_over) {
            self.bring_back(&kind, &partition);
        }
        if self.limits == *limits {
            return;
        }
        self.limits = limits.clone();
        self.count(claims);
        for (kind, turns) in &mut self.kinds {
            turns.bring_all_back(|partition| stride(&self.limits, kind, partition));
        }
    }

    /// Forgets every lane, and takes the claims anew: the store has undone changes.
    pub(crate) fn forget<'a>(&mut self, claims: impl Iterator<Item = Claim<'a>>) {
        self.kinds.clear();
        self.passed_over.clear();
        self.count(claims);
    }

    fn count<'a>(&mut self, claims: impl Iterator<Item = Claim<'a>>) {
        self.claims = Claims::default();
        if !self.limits.is_empty() {
            claims.for_each(|claim| self.claims.add(&self.limits, claim));
        }
    }

    /// A job of the lane is due and not claimed.
    pub(crate) fn file(&mut self, kind: &Arc<str>, partition: &Arc<str>) {
        let turns = self.kinds.entry(Arc::clone(kind)).or_default();
        if turns.lanes.contains_key(partition) {
            return;
        }
        let pass = turns.present + stride(&self.limits, kind, partition);
        turns.lanes.insert(Arc::clone(partition), Lane { pass, is_in_turn: true });
        turns.in_turn.insert((pass, Arc::clone(partition)));
    }

    /// No job of the lane is due and not claimed.
    pub(crate) fn drained(&mut self, kind: &str, partition: &Arc<str>) {
        if let Some(turns) = self.kinds.get_mut(kind)
            && let Some(lane) = turns.lanes.remove(partition)
        {
            turns.in_turn.remove(&(lane.pass, Arc::clone(partition)));
        }
    }

    /// A job is claimed. A job of a lane takes the turn of its lane.
    pub(crate) fn claimed(&mut self, claim: Claim<'_>) {
        if !self.limits.is_empty() {
            self.claims.add(&self.limits, claim);
        }
        if let (_, kind, Some(partition)) = claim {
            let stride = stride(&self.limits, kind, partition);
            if let Some(turns) = self.kinds.get_mut(kind) {
                turns.serve(partition, stride);
            }
        }
    }

    /// A claim has ended.
    pub(crate) fn ended(&mut self, claim: Claim<'_>) {
        if !self.limits.is_empty() {
            self.claims.remove(&self.limits, claim);
        }
        if let (_, kind, Some(partition)) = claim {
            self.bring_back(kind, partition);
        }
    }

    /// Says whether a kind is limited, by its flow or by the queue. Jobs of such a kind are not claimed before they are
    /// due: they would take a place that another job could use.
    pub(crate) fn is_limited(&self, kind: &str) -> bool {
        let limits = &self.limits;
        !limits.is_empty()
            && (limits.of_queue().is_some() || limits.of_flow(limits.flow_of(kind)).is_some())
    }

    /// Says whether the limits of the queue and of its flow allow one more claim of a kind.
    pub(crate) fn has_room(&self, kind: &str) -> bool {
        self.limits.is_empty() || self.claims.allow(&self.limits, kind)
    }

    /// Returns the lane of a kind that is next in turn and may run. Parks those before it.
    pub(crate) fn next(&mut self, kind: &str) -> Option<Arc<str>> {
        let turns = self.kinds.get_mut(kind)?;
        loop {
            let (pass, partition) = turns.in_turn.first()?.clone();
            if self.claims.allow_in_lane(&self.limits, kind, &partition) {
                return Some(partition);
            }
            turns.park(pass, &partition);
        }
    }

    /// Passes over the lane until the next claim: its first job is a suspect that has to wait.
    pub(crate) fn pass_over(&mut self, kind: &Arc<str>, partition: &Arc<str>) {
        if let Some(turns) = self.kinds.get_mut(kind)
            && let Some(pass) = turns.lanes.get(partition).map(|lane| lane.pass)
        {
            turns.park(pass, partition);
            self.passed_over.push((Arc::clone(kind), Arc::clone(partition)));
        }
    }

    /// Says whether the lane is known.
    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn has(&self, kind: &str, partition: &str) -> bool {
        self.kinds.get(kind).is_some_and(|turns| turns.lanes.contains_key(partition))
    }

    /// Says whether the last claim has passed over a lane.
    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn any_passed_over(&self) -> bool {
        !self.passed_over.is_empty()
    }

    /// Says whether any lane of the kind is in turn.
    pub(crate) fn any_in_turn(&self, kind: &str) -> bool {
        self.kinds.get(kind).is_some_and(|turns| !turns.in_turn.is_empty())
    }

    /// Returns the sentence about the first thing that is wrong, if anything is.
    pub(crate) fn violation<'a>(&self, claims: impl Iterator<Item = Claim<'a>>) -> Option<String> {
        let mut expected = Claims::default();
        if !self.limits.is_empty() {
            claims.for_each(|claim| expected.add(&self.limits, claim));
        }
        if expected != self.claims {
            let found = &self.claims;
            return Some(format!("the limited scopes have the claims {found:?}, not {expected:?}"));
        }
        self.kinds.iter().find_map(|(kind, turns)| {
            let is_lost = |(partition, lane): &(&Arc<str>, &Lane)| {
                let waits = || self.passed_over.iter().any(|(_, name)| name == *partition);
                let is_in_turn = turns.in_turn.contains(&(lane.pass, Arc::clone(partition)));
                let may_run =
                    || self.claims.allow_in_lane(&self.limits, kind, partition) && !waits();
                is_in_turn != lane.is_in_turn || !is_in_turn && may_run()
            };
            let (lost, _) = turns.lanes.iter().find(is_lost)?;
            Some(format!("the lane {lost:?} of {kind:?} may run, and is not in turn"))
        })
    }

    fn bring_back(&mut self, kind: &str, partition: &Arc<str>) {
        if let Some(turns) = self.kinds.get_mut(kind) {
            turns.bring_back(partition);
        }
    }
}

impl Turns {
    fn park(&mut self, pass: u64, partition: &Arc<str>) {
        self.in_turn.remove(&(pass, Arc::clone(partition)));
        if let Some(lane) = self.lanes.get_mut(partition) {
            lane.is_in_turn = false;
        }
    }

    fn bring_back(&mut self, partition: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(partition)
            && !lane.is_in_turn
        {
            lane.is_in_turn = true;
            lane.pass = lane.pass.max(self.present);
            self.in_turn.insert((lane.pass, Arc::clone(partition)));
        }
    }

    /// Puts every lane in turn. With its earlier weight, a lane may be further behind than a new lane.
    fn bring_all_back(&mut self, stride: impl Fn(&str) -> u64) {
        self.in_turn.clear();
        for (partition, lane) in &mut self.lanes {
            lane.is_in_turn = true;
            let last = self.present + stride(partition);
            lane.pass = lane.pass.clamp(self.present, last);
            self.in_turn.insert((lane.pass, Arc::clone(partition)));
        }
    }

    /// Gives the lane its turn.
    fn serve(&mut self, partition: &Arc<str>, stride: u64) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        self.present = self.present.max(lane.pass);
        if lane.is_in_turn {
            self.in_turn.remove(&(lane.pass, Arc::clone(partition)));
            self.in_turn.insert((lane.pass + stride, Arc::clone(partition)));
        }
        lane.pass += stride;
    }
}

fn stride(limits: &Limits, kind: &str, partition: &str) -> u64 {
    STRIDE / u64::from(limits.of_partition(kind, partition).weight.unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id::JobId;
    use crate::values::limit::Limit;
    use crate::values::limits::LimitScope;

    fn of_partition(partition: &str, limit: Limit) -> (String, String) {
        let (kind, partition) = ("charge".to_owned(), partition.to_owned());
        (LimitScope::Partition { kind, partition }.setting(), limit.to_text())
    }

    fn lanes(stored: &[(String, String)], partitions: &[&str]) -> (Lanes, Arc<str>) {
        let (mut lanes, kind) = (Lanes::default(), Arc::from("charge"));
        lanes.begin(&Limits::of(stored, &[]), core::iter::empty());
        partitions.iter().for_each(|partition| lanes.file(&kind, &Arc::from(*partition)));
        (lanes, kind)
    }

    /// Serves lanes this many `turns`, and returns their names in order. No lane is ever empty.
    fn served(lanes: &mut Lanes, kind: &Arc<str>, turns: usize) -> String {
        let mut served = String::new();
        for n in 0..turns as u128 {
            let Some(partition) = lanes.next(kind) else { break };
            lanes.claimed((JobId::from_u128(1000 + n), kind, Some(&partition)));
            served.push_str(&partition);
        }
        served
    }

    /// Lanes are served by weight.
    #[test]
    fn lanes_are_served_by_weight() {
        let (mut equal, kind) = lanes(&[], &["a", "b", "c"]);
        assert_eq!(served(&mut equal, &kind, 7), "abcabca");
        let weights = [of_partition("a", Limit::none().weight(3))];
        let (mut unequal, kind) = lanes(&weights, &["a", "b"]);
        let turns = served(&mut unequal, &kind, 40);
        assert_eq!(turns.matches('a').count(), 30, "{turns}");
    }

    /// A new lane saves up no turns. Among lanes of equal weight it waits for one turn of each other lane.
    #[test]
    fn new_lane_waits_for_one_turn_of_each_other() {
        let (mut lanes, kind) = lanes(&[], &["a", "b"]);
        assert_eq!(served(&mut lanes, &kind, 20).len(), 20);
        lanes.file(&kind, &Arc::from("new"));
        assert_eq!(served(&mut lanes, &kind, 6), "abnewabnew");
    }

    /// A lane that is full is parked until a claim of it ends. An end that comes twice frees one place.
    #[test]
    fn full_lane_is_parked_until_a_claim_ends() {
        let (mut lanes, kind) = lanes(&[of_partition("a", Limit::running(2))], &["a"]);
        let a: Arc<str> = Arc::from("a");
        assert_eq!(served(&mut lanes, &kind, 9), "aa");
        assert!(!lanes.any_in_turn(&kind));
        for _ in 0..2 {
            lanes.ended((JobId::from_u128(1000), &kind, Some(&a)));
        }
        assert_eq!(served(&mut lanes, &kind, 9), "a");
        // Another limit brings it back.
        let claims = [(JobId::from_u128(1001), &kind, Some(&a))];
        lanes.begin(&Limits::default(), claims.into_iter());
        assert_eq!(served(&mut lanes, &kind, 5), "aaaaa");
    }

    /// A lane that is passed over is back at the next claim.
    #[test]
    fn lane_that_is_passed_over_is_back_at_the_next_claim() {
        let (mut lanes, kind) = lanes(&[], &["a", "b"]);
        lanes.pass_over(&kind, &Arc::from("a"));
        assert_eq!(served(&mut lanes, &kind, 2), "bb");
        assert_eq!(lanes.violation(core::iter::empty()), None);
        lanes.begin(&Limits::default(), core::iter::empty());
        assert_eq!(served(&mut lanes, &kind, 3), "aab");
    }
}
