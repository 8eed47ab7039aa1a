//! The turns of the lanes of a kind.
//!
//! Ground rules:
//!
//! - The lanes of one weight take turns in rounds: each has one turn in a round. A new lane begins in the round behind
//!   that of the lane that was served last. So it saves up no turns, and waits no longer than a lane that has just had
//!   its turn. A parked lane keeps its round, or is in the present one.
//! - The weights take turns by their shares, as in WF2Q (Bennett and Zhang, 1996): the share of a weight is the sum of
//!   its lanes' weights, divided by that of all lanes in turn. Its *lag* is the turns that its lanes should have had,
//!   less those that they had. Among the weights whose lag is not negative, the one is next whose next turn is due
//!   first. If weights leave or come, the lags of those behind, or of those ahead, shrink until the sum of all is zero.
//!   So no weight is ahead or behind by more than one turn, and the turns of a heavy lane are spread among those of the
//!   others. If the weights of all lanes in turn are W together, a lane of weight w has at least ⌊k·w/W⌋ - 1 of any k
//!   turns.
//! - A lane is in turn, or it is parked. If it is parked until a time, it stands in `waiting`, and only that time or
//!   another limit brings it back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::values::time::Millis;

/// Rounding makes no lag less than zero.
const EPSILON: f64 = 1e-9;

/// The lanes of a kind.
#[derive(Default)]
pub(super) struct Turns {
    weights: BTreeMap<u32, Weight>,
    /// The lanes that are parked until a time.
    waiting: BTreeSet<(Millis, Arc<str>)>,
    lanes: HashMap<Arc<str>, Lane>,
}

/// The lanes of one weight.
#[derive(Default)]
struct Weight {
    /// The round of the lane that was served last. It never falls.
    round: u64,
    /// A weight without lanes in turn has none that is positive.
    lag: f64,
    /// The lanes in turn, the earliest round first.
    in_turn: BTreeSet<(u64, Arc<str>)>,
}

struct Lane {
    weight: u32,
    round: u64,
    is_in_turn: bool,
    /// Its time in `waiting`.
    until: Option<Millis>,
}

impl Turns {
    /// Adds a lane, unless it is there.
    pub(super) fn add(&mut self, partition: &Arc<str>, weight: impl FnOnce() -> u32) {
        if !self.lanes.contains_key(partition) {
            let weight = weight();
            let round = self.weights.entry(weight).or_default().round + 1;
            let lane = Lane { weight, round, is_in_turn: false, until: None };
            self.lanes.insert(Arc::clone(partition), lane);
            self.put_in_turn(partition);
        }
    }

    pub(super) fn remove(&mut self, partition: &Arc<str>) {
        self.leave_turn(partition);
        if let Some(lane) = self.lanes.remove(partition)
            && let Some(until) = lane.until
        {
            self.waiting.remove(&(until, Arc::clone(partition)));
        }
    }

    pub(super) fn has(&self, partition: &str) -> bool {
        self.lanes.contains_key(partition)
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lanes.keys()
    }

    /// Returns the lane whose turn it is.
    pub(super) fn first(&self) -> Option<&Arc<str>> {
        self.weights.get(&self.next_weight()?)?.in_turn.first().map(|(_, partition)| partition)
    }

    /// Returns the first time until which a lane is parked.
    pub(super) fn first_waiting(&self) -> Option<Millis> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// Returns a lane that is neither in turn nor parked rightly. `may_run`: whether a lane that is parked without a
    /// time would have to be in turn.
    pub(super) fn lost(&self, may_run: impl Fn(&Arc<str>) -> bool) -> Option<&Arc<str>> {
        let is_lost = |(partition, lane): &(&Arc<str>, &Lane)| {
            let place = (lane.round, Arc::clone(partition));
            let is_in_turn =
                self.weights.get(&lane.weight).is_some_and(|its| its.in_turn.contains(&place));
            let waits = |until| self.waiting.contains(&(until, Arc::clone(partition)));
            is_in_turn != lane.is_in_turn
                || lane.until.is_some_and(|until| is_in_turn || !waits(until))
                || !is_in_turn && lane.until.is_none() && may_run(partition)
        };
        self.lanes.iter().find(is_lost).map(|(partition, _)| partition)
    }

    /// Parks a lane, until this time if one is given.
    pub(super) fn park(&mut self, partition: &Arc<str>, until: Option<Millis>) {
        self.leave_turn(partition);
        if let Some(lane) = self.lanes.get_mut(partition) {
            lane.until = until;
        }
        self.waiting.extend(until.map(|until| (until, Arc::clone(partition))));
    }

    pub(super) fn bring_back(&mut self, partition: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(partition)
            && !lane.is_in_turn
        {
            if let Some(until) = lane.until.take() {
                self.waiting.remove(&(until, Arc::clone(partition)));
            }
            self.put_in_turn(partition);
        }
    }

    /// A claim of the lane has ended. A lane that waits for a time goes on waiting.
    pub(super) fn end(&mut self, partition: &Arc<str>) {
        if self.lanes.get(partition).is_some_and(|lane| lane.until.is_none()) {
            self.bring_back(partition);
        }
    }

    /// Brings the lanes back that wait until now.
    pub(super) fn bring_back_until(&mut self, now: Millis) {
        while let Some((until, partition)) = self.waiting.first().cloned()
            && until <= now
        {
            self.waiting.remove(&(until, Arc::clone(&partition)));
            self.bring_back(&partition);
        }
    }

    /// Puts every lane in turn. The weights may have changed.
    pub(super) fn bring_all_back(&mut self, weight: impl Fn(&str) -> u32) {
        self.waiting.clear();
        self.weights.values_mut().for_each(|its| its.in_turn.clear());
        let all: Vec<Arc<str>> = self.lanes.keys().map(Arc::clone).collect();
        for partition in all {
            let Some(lane) = self.lanes.get_mut(&partition) else { continue };
            (lane.is_in_turn, lane.until) = (false, None);
            let weight = weight(&partition);
            if weight != lane.weight {
                lane.weight = weight;
                lane.round = self.weights.entry(weight).or_default().round + 1;
            }
            self.put_in_turn(&partition);
        }
    }

    /// Gives the lane its turn.
    pub(super) fn serve(&mut self, partition: &Arc<str>) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let place = (lane.round, Arc::clone(partition));
        let its = self.weights.entry(lane.weight).or_default();
        its.round = its.round.max(lane.round);
        lane.round = its.round + 1;
        if lane.is_in_turn {
            its.in_turn.remove(&place);
            its.in_turn.insert((lane.round, place.1));
            let weight = lane.weight;
            self.count_turn(weight);
        }
    }

    fn put_in_turn(&mut self, partition: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(partition) {
            let its = self.weights.entry(lane.weight).or_default();
            lane.round = lane.round.max(its.round);
            lane.is_in_turn = true;
            its.in_turn.insert((lane.round, Arc::clone(partition)));
        }
    }

    fn leave_turn(&mut self, partition: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(partition)
            && let Some(its) = self.weights.get_mut(&lane.weight)
        {
            lane.is_in_turn = false;
            its.in_turn.remove(&(lane.round, Arc::clone(partition)));
            if its.in_turn.is_empty() {
                its.lag = its.lag.min(0.0);
            }
        }
    }

    /// Returns each weight with lanes in turn, its share, and its lag so that the sum of all is zero.
    fn shares(&self) -> impl Iterator<Item = (u32, f64, f64)> {
        let some = || self.weights.iter().filter(|(_, its)| !its.in_turn.is_empty());
        let sum_of = |weight: u32, its: &Weight| f64::from(weight) * its.in_turn.len() as f64;
        let total: f64 = some().map(|(weight, its)| sum_of(*weight, its)).sum();
        let behind: f64 = some().map(|(_, its)| its.lag.max(0.0)).sum();
        let ahead: f64 = some().map(|(_, its)| -its.lag.min(0.0)).sum();
        some().map(move |(weight, its)| {
            let all = if its.lag > 0.0 { behind } else { ahead };
            let part = if all > 0.0 { behind.min(ahead) / all } else { 0.0 };
            (*weight, sum_of(*weight, its) / total, its.lag * part)
        })
    }

    /// Returns the weight whose turn it is.
    fn next_weight(&self) -> Option<u32> {
        let may_have_it = self.shares().filter(|(_, _, lag)| *lag >= -EPSILON);
        let due = |(_, share, lag): &(u32, f64, f64)| (1.0 - lag) / share;
        let next = may_have_it.min_by(|one, other| due(one).total_cmp(&due(other)));
        next.map(|(weight, ..)| weight)
    }

    /// Counts a turn of a lane with this weight.
    fn count_turn(&mut self, served: u32) {
        let shares: Vec<(u32, f64, f64)> = self.shares().collect();
        for (weight, share, lag) in shares {
            if let Some(its) = self.weights.get_mut(&weight) {
                let had = if weight == served { 1.0 } else { 0.0 };
                its.lag = lag + share - had;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change of the lanes. Some turns follow it.
    #[derive(Clone, Debug)]
    enum Step {
        Add(u32),
        Remove(usize),
        Park(usize),
        BringBack(usize),
    }

    /// Serves this many lanes, or none if no lane is in turn. Returns them in order.
    fn served(turns: &mut Turns, many: usize) -> Vec<Arc<str>> {
        let serve = |_| {
            let next = Arc::clone(turns.first()?);
            turns.serve(&next);
            Some(next)
        };
        (0..many).map_while(serve).collect()
    }

    /// P26: A new lane saves up no turns. Among lanes of equal weight it waits for one turn of each other lane.
    #[test]
    fn new_lane_waits_for_one_turn_of_each_other() {
        let mut turns = Turns::default();
        ["a", "b"].iter().for_each(|lane| turns.add(&Arc::from(*lane), || 1));
        assert_eq!(served(&mut turns, 20).len(), 20);
        turns.add(&Arc::from("new"), || 1);
        assert_eq!(served(&mut turns, 6).concat(), "abnewabnew");
    }

    fn step() -> impl Strategy<Value = Step> {
        let weight = prop_oneof![Just(1u32), 1..6u32, Just(100), Just(1000)];
        prop_oneof![
            3 => weight.prop_map(Step::Add),
            1 => any::<usize>().prop_map(Step::Remove),
            1 => any::<usize>().prop_map(Step::Park),
            1 => any::<usize>().prop_map(Step::BringBack),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// P26: Of any k turns one lane has its share of them, less one: with any weights, and while the same lanes are
        /// in turn, however they came there.
        #[test]
        fn lane_has_its_share_of_any_turns(
            steps in proptest::collection::vec((step(), 0..40usize), 1..40),
        ) {
            let mut turns = Turns::default();
            let mut lanes: Vec<(Arc<str>, u32, bool)> = Vec::new();
            for (number, (step, many)) in steps.into_iter().enumerate() {
                let all = lanes.len().max(1);
                match step {
                    Step::Add(weight) => {
                        let name: Arc<str> = Arc::from(format!("{number}"));
                        turns.add(&name, || weight);
                        lanes.push((name, weight, true));
                    }
                    Step::Remove(n) if n % all < lanes.len() => {
                        turns.remove(&lanes.remove(n % all).0);
                    }
                    Step::Park(n) if n % all < lanes.len() => {
                        turns.park(&lanes[n % all].0, None);
                        lanes[n % all].2 = false;
                    }
                    Step::BringBack(n) if n % all < lanes.len() => {
                        turns.bring_back(&lanes[n % all].0);
                        lanes[n % all].2 = true;
                    }
                    _ => {}
                }
                let served = served(&mut turns, many);
                let in_turn = || lanes.iter().filter(|(.., is_in_turn)| *is_in_turn);
                let total: u32 = in_turn().map(|(_, weight, _)| weight).sum();
                prop_assert!(served.len() == many || total == 0);
                for (name, weight, _) in in_turn() {
                    for from in 0..served.len() {
                        let mut had = 0;
                        for to in from..served.len() {
                            had += u32::from(served[to] == *name);
                            let share = (to - from + 1) as u32 * weight / total;
                            prop_assert!(had + 1 >= share, "{had} of {share} turns: {lanes:?}, {served:?}");
                        }
                    }
                }
            }
        }
    }
}
