//! The turns of the lanes of a kind.
//!
//! Ground rules:
//!
//! - Turns are strides (Waldspurger and Weihl, 1995): each turn raises the pass of its lane by `STRIDE` divided by the
//!   weight, and the lowest pass is next. A new lane begins one stride behind the lane that was served last. So it
//!   saves up no turns, and waits no longer than a lane that has just had its turn. A parked lane keeps its pass.
//! - A lane is in turn, or it is parked. If it is parked until a time, it stands in `waiting`, and only that time or
//!   another limit brings it back.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::values::time::Millis;

/// By how much a turn raises the pass of a lane of weight 1.
pub(super) const STRIDE: u64 = 1 << 20;

/// The lanes of a kind.
#[derive(Default)]
pub(super) struct Turns {
    /// The pass of the lane that was served last. It never falls.
    present: u64,
    /// The lanes in turn, the lowest pass first.
    in_turn: BTreeSet<(u64, Arc<str>)>,
    /// The lanes that are parked until a time.
    waiting: BTreeSet<(Millis, Arc<str>)>,
    lanes: HashMap<Arc<str>, Lane>,
}

struct Lane {
    pass: u64,
    is_in_turn: bool,
    /// Its time in `waiting`.
    until: Option<Millis>,
}

impl Turns {
    /// Adds a lane, unless it is there. `stride`: a turn adds it to the pass of the lane.
    pub(super) fn add(&mut self, partition: &Arc<str>, stride: impl FnOnce() -> u64) {
        if !self.lanes.contains_key(partition) {
            let pass = self.present + stride();
            let lane = Lane { pass, is_in_turn: true, until: None };
            self.lanes.insert(Arc::clone(partition), lane);
            self.in_turn.insert((pass, Arc::clone(partition)));
        }
    }

    pub(super) fn remove(&mut self, partition: &Arc<str>) {
        if let Some(lane) = self.lanes.remove(partition) {
            self.in_turn.remove(&(lane.pass, Arc::clone(partition)));
            if let Some(until) = lane.until {
                self.waiting.remove(&(until, Arc::clone(partition)));
            }
        }
    }

    pub(super) fn has(&self, partition: &str) -> bool {
        self.lanes.contains_key(partition)
    }

    /// Returns the lane whose turn it is.
    pub(super) fn first(&self) -> Option<&Arc<str>> {
        self.in_turn.first().map(|(_, partition)| partition)
    }

    /// Returns the first time until which a lane is parked.
    pub(super) fn first_waiting(&self) -> Option<Millis> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// Returns a lane that is neither in turn nor parked rightly. `may_run`: whether a lane that is parked without a
    /// time would have to be in turn.
    pub(super) fn lost(&self, may_run: impl Fn(&Arc<str>) -> bool) -> Option<&Arc<str>> {
        let is_lost = |(partition, lane): &(&Arc<str>, &Lane)| {
            let is_in_turn = self.in_turn.contains(&(lane.pass, Arc::clone(partition)));
            let waits = |until| self.waiting.contains(&(until, Arc::clone(partition)));
            is_in_turn != lane.is_in_turn
                || lane.until.is_some_and(|until| is_in_turn || !waits(until))
                || !is_in_turn && lane.until.is_none() && may_run(partition)
        };
        self.lanes.iter().find(is_lost).map(|(partition, _)| partition)
    }

    /// Parks a lane, until this time if one is given.
    pub(super) fn park(&mut self, partition: &Arc<str>, until: Option<Millis>) {
        if let Some(lane) = self.lanes.get_mut(partition) {
            self.in_turn.remove(&(lane.pass, Arc::clone(partition)));
            (lane.is_in_turn, lane.until) = (false, until);
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
            lane.is_in_turn = true;
            lane.pass = lane.pass.max(self.present);
            self.in_turn.insert((lane.pass, Arc::clone(partition)));
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

    /// Puts every lane in turn. With its earlier weight, a lane may be further behind than a new lane.
    pub(super) fn bring_all_back(&mut self, stride: impl Fn(&str) -> u64) {
        self.in_turn.clear();
        self.waiting.clear();
        for (partition, lane) in &mut self.lanes {
            (lane.is_in_turn, lane.until) = (true, None);
            let last = self.present + stride(partition);
            lane.pass = lane.pass.clamp(self.present, last);
            self.in_turn.insert((lane.pass, Arc::clone(partition)));
        }
    }

    /// Gives the lane its turn.
    pub(super) fn serve(&mut self, partition: &Arc<str>, stride: u64) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        self.present = self.present.max(lane.pass);
        if lane.is_in_turn {
            self.in_turn.remove(&(lane.pass, Arc::clone(partition)));
            self.in_turn.insert((lane.pass + stride, Arc::clone(partition)));
        }
        lane.pass += stride;
    }
}
