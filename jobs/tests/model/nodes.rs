//! The processes that are listed: the one that runs the jobs, and on a server those that crashed.

use tickwheel_jobs::Client;

use crate::calls::ok;
use crate::ops::{LATE, NAMES, micros};
use crate::oracle::{Outcome, ensure};
use crate::world::World;

impl World {
    pub(crate) fn nodes_agree(&self, jobs: &Client) -> Outcome {
        let nodes = ok(jobs.nodes())?;
        let has_leases = self.shared.place.has_leases();
        let oracle = &self.shared.lock().oracle;
        let mut kinds: Vec<&str> = NAMES.to_vec();
        if !oracle.handled[LATE] {
            kinds.remove(LATE);
        }
        kinds.sort_unstable();
        let here = nodes.iter().filter(|node| micros(node.started) == oracle.opened * 1000);
        let here: Vec<_> = here.filter(|node| node.kinds == kinds).collect();
        if here.is_empty() && oracle.set_back && !has_leases {
            // An idle process on a file is listed with its first change.
            return Ok(());
        }
        let [node] = here[..] else { return Err(format!("{nodes:?}, at {}", oracle.opened)) };
        let same = node.pid == std::process::id()
            && node.version == env!("CARGO_PKG_VERSION")
            && node.threads.is_none()
            && node.max_in_flight == oracle.in_flight
            && node.in_flight <= oracle.in_flight;
        ensure(same, || format!("{node:?}"))?;
        let seen = micros(node.seen) / 1000;
        let in_time = (oracle.now() - seen).abs() <= 10_000;
        ensure(!has_leases || in_time, || format!("{node:?} at {}", oracle.now()))?;
        let gone = nodes.len() as u64 - 1;
        let may_be = if has_leases { oracle.crashes } else { 0 };
        ensure(gone <= may_be, || format!("{may_be} have crashed: {nodes:?}"))
    }
}
