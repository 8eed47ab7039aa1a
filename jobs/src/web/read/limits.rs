//! Makes the views of the limits: the first scopes of the queue, and those of the shown kinds.

use std::collections::HashSet;

use crate::api::limits::SeenLimit;
use crate::api::limits::flows_in;
use crate::store::KindGauges;
use crate::values::stored_limits::LimitScope;
use crate::web::read::{MOST_ROWS, Reader};
use crate::web::views::limits::{LimitRow, Limits};
use crate::web::views::{Number, Problem, Time};

/// The store counts overdue jobs up to this number.
const MOST_COUNTED: u64 = 10_000;

/// Returns the limits of the queue, and for each of these kinds the limits that hold for its jobs.
pub(crate) fn limits(
    reader: &Reader<'_>,
    stored: &[(String, String)],
    kinds: &[(String, u64)],
    gauges: &[KindGauges],
) -> Result<(Limits, Vec<Vec<LimitRow>>), Problem> {
    let client = reader.client();
    let scopes = client.scopes_in(stored);
    let flows = flows_in(stored);
    let of_kind = |name: &str| {
        let flow = flows.get(name).copied().unwrap_or(name);
        [LimitScope::Flow(flow.to_owned()), LimitScope::Each(name.to_owned())]
    };
    let wanted: HashSet<LimitScope> = kinds.iter().flat_map(|(name, _)| of_kind(name)).collect();
    let total = scopes.0.len();
    let mut place = 0;
    let scopes = scopes.only(|scope| {
        place += 1;
        place <= MOST_ROWS || wanted.contains(scope)
    });
    let seen = client.limits_of(stored, scopes, gauges)?;
    // The first rows of a list that keeps its order.
    let rows = seen.iter().take(MOST_ROWS).map(row).collect();
    let limits_of = |(name, _): &(String, u64)| {
        let scopes = of_kind(name);
        let found =
            scopes.iter().filter_map(|its| seen.iter().find(|seen| seen.info.scope == *its));
        found.map(row).collect()
    };
    Ok((Limits { rows, total: total as u64 }, kinds.iter().map(limits_of).collect()))
}

fn row(seen: &SeenLimit) -> LimitRow {
    let (info, limit) = (&seen.info, seen.info.limit);
    let (scope, flow, kind, partition) = match &info.scope {
        LimitScope::Queue => ("queue", None, None, None),
        LimitScope::Flow(flow) => ("flow", Some(flow), None, None),
        LimitScope::Each(kind) => ("each_partition", None, Some(kind), None),
        LimitScope::Partition { kind, partition } => {
            ("partition", None, Some(kind), Some(partition))
        }
    };
    let rate = limit.start_rate();
    let waiting = |count| Number { count, is_exact: count < MOST_COUNTED };
    LimitRow {
        scope,
        flow: flow.cloned(),
        kind: kind.cloned(),
        partition: partition.cloned(),
        running: info.running,
        most_running: limit.most_running(),
        rate: rate.map(|(jobs, _)| jobs),
        per_ms: rate.map(|(_, per)| u64::try_from(per.as_millis()).unwrap_or(u64::MAX)),
        burst: limit.start_burst(),
        weight: limit.turn_weight(),
        waiting: seen.waiting.map(waiting),
        is_paused: seen.is_paused,
        next_start: info.next_start.map(Time::new),
        held_until: info.held_until.map(Time::new),
    }
}
