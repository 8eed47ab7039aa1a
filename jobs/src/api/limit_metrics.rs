//! The metrics of limits: gauges of the queue and of flows, and how many partitions have a limit or are paused.
//!
//! Ground rules:
//!
//! - A scope has samples while it has a limit or is held, up to [`MOST_SCOPES`] scopes: the queue, and flows by name.
//! - Partitions are not bounded in number. They are counted, and never a label.

use std::time::SystemTime;

use tickwheel::Metrics;

use super::caller::Caller;
use super::client::Client;
use super::limits_seen::{Scopes, SeenLimit};
use crate::store::KindGauges;
use crate::values::error::StoreError;
use crate::values::limits::{self, LimitScope};
use crate::values::time::Millis;

/// The most scopes with samples.
const MOST_SCOPES: usize = 100;

impl Client {
    /// Adds the gauges of the limits. Without a limit no question is asked.
    pub(super) async fn limit_gauges(
        &self,
        caller: Caller,
        metrics: &mut Metrics,
        stored: &[(String, String)],
        kinds: &[KindGauges],
    ) -> Result<(), StoreError> {
        let queue = self.queue();
        let scopes = self.scopes_in(stored);
        let of_partitions = partitions(stored, &scopes);
        let mut many = 0;
        let scopes = scopes.only(|scope| {
            many += usize::from(!scope.has_turns());
            !scope.has_turns() && many <= MOST_SCOPES
        });
        let now = self.dispatcher.clock.now().millis();
        let seen = self.seen_limits(caller, stored, scopes, Some(kinds)).await?;
        let mut gauge = |name, help, of: &dyn Fn(&SeenLimit) -> Option<f64>| {
            for seen in &seen {
                let (scope, flow) = match &seen.info.scope {
                    LimitScope::Flow(flow) => ("flow", &**flow),
                    _ => ("queue", ""),
                };
                if let Some(value) = of(seen) {
                    let labels = [("queue", queue), ("scope", scope), ("flow", flow)];
                    metrics.gauge(name, help, &labels, value);
                }
            }
        };
        let help = "Claimed jobs of a scope that has a limit or is held.";
        gauge("tickwheel_jobs_limit_claimed", help, &|seen| Some(seen.info.running as f64));
        let help = "How many jobs of the scope may run at once.";
        let most = |seen: &SeenLimit| seen.info.limit.most_running().map(f64::from);
        gauge("tickwheel_jobs_limit_most_claimed", help, &most);
        let help = "Pending jobs of the scope whose time has passed. At most 10000 are counted.";
        gauge("tickwheel_jobs_limit_waiting", help, &|seen| seen.waiting.map(|jobs| jobs as f64));
        let left = |until| seconds_until(until, now);
        let help = "Seconds until the rate of the scope lets the next job start.";
        let next = |seen: &SeenLimit| seen.info.limit.tokens().map(|_| left(seen.info.next_start));
        gauge("tickwheel_jobs_limit_next_start_seconds", help, &next);
        let help = "Seconds until the hold of the scope ends, or 0.";
        let held = |seen: &SeenLimit| Some(left(seen.info.held_until));
        gauge("tickwheel_jobs_limit_held_seconds", help, &held);
        if let Some((limited, paused)) = of_partitions {
            let (labels, help) = ([("queue", queue)], "Partitions with a limit of their own.");
            metrics.gauge("tickwheel_jobs_limited_partitions", help, &labels, limited as f64);
            let help = "Partitions that are paused.";
            metrics.gauge("tickwheel_jobs_paused_partitions", help, &labels, paused as f64);
        }
        Ok(())
    }
}

/// Returns how many partitions have a limit of their own, and how many are paused, if any scope of partitions is stored.
fn partitions(stored: &[(String, String)], scopes: &Scopes) -> Option<(usize, usize)> {
    let is_partition = |scope: &LimitScope| matches!(scope, LimitScope::Partition { .. });
    let limited = scopes.0.iter().filter(|(limit, its)| !limit.is_none() && is_partition(its));
    let paused = stored.iter().filter(|(name, _)| limits::pause_in(name).is_some()).count();
    let has_any = scopes.0.iter().any(|(_, scope)| scope.has_turns());
    has_any.then(|| (limited.count(), paused))
}

/// Returns how long it is until a time, or zero if it has passed or there is none.
fn seconds_until(until: Option<SystemTime>, now: Millis) -> f64 {
    let left = until.and_then(|until| until.duration_since(now.to_system()).ok());
    left.unwrap_or_default().as_secs_f64()
}
