//! The claims of each limited scope, as sets and not as counters.
//!
//! Ground rules:
//!
//! - A claim is in the set of each scope that limits it: the queue, its flow, its lane. A scope without a limit has
//!   no set, so a job without limits costs only one check.
//! - A claim is added to its sets when it is made, and removed when it ends. An end that comes twice removes it once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::values::id::JobId;
use crate::values::limits::Limits;

/// The claims of each scope that has a limit.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Claims {
    of_queue: HashSet<JobId>,
    of_flows: HashMap<String, HashSet<JobId>>,
    of_lanes: HashMap<Arc<str>, HashMap<Arc<str>, HashSet<JobId>>>,
}

/// A claim: the job, its kind and its partition.
pub(crate) type Claim<'a> = (JobId, &'a Arc<str>, Option<&'a Arc<str>>);

impl Claims {
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
        !limits.is_paused(kind, partition) && is_below(most, self.of_lane(kind, partition))
    }

    pub(super) fn add(&mut self, limits: &Limits, (id, kind, partition): Claim<'_>) {
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

    pub(super) fn remove(&mut self, limits: &Limits, (id, kind, partition): Claim<'_>) {
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

    fn of_lane(&self, kind: &str, partition: &str) -> usize {
        let lanes = self.of_lanes.get(kind);
        lanes.and_then(|lanes| lanes.get(partition)).map_or(0, HashSet::len)
    }
}

fn is_below(most: Option<u32>, running: usize) -> bool {
    most.is_none_or(|most| running < most as usize)
}
