//! Makes the list of the kinds and the views of the limits: the first scopes of the queue, and those of the shown
//! kinds.

use std::collections::{HashMap, HashSet};

use crate::api::limits::{SeenLimit, flows_in};
use crate::store::{JobSet, KindGauges, PageRequest};
use crate::values::history::Step;
use crate::values::info::{JobInfo, JobState};
use crate::values::setting::{Keep, QueueSettings};
use crate::values::stored_limits::LimitScope;
use crate::values::time::Millis;
use crate::web::read::overview::{self, seen};
use crate::web::read::{MOST_GROUPS, MOST_ROWS, Reader};
use crate::web::views::{KindRow, Kinds, LimitRow, Limits, Number, Problem, Time};

const MINUTES: usize = 60;

/// Lists the kinds, the paused ones first and then by name, from the one after the parameter `after` on.
pub(crate) fn kinds(reader: &Reader<'_>) -> Result<Kinds, Problem> {
    let (client, now, rows) = (reader.client(), reader.now(), reader.rows()?);
    let after = reader.params.name("after")?;
    let mut all = client.kinds()?;
    let groups = client.dead_by_error(MOST_GROUPS)?;
    let mut dead: HashMap<String, u64> = HashMap::new();
    for group in &groups {
        *dead.entry(group.kind.clone()).or_default() += group.jobs;
    }
    let (stored, nodes) = (client.stored_settings()?, client.nodes()?);
    let settings = QueueSettings::of(&stored);
    let seen = seen(reader.client(), &nodes);
    let gauges = client.gauges()?;
    let place = |name: &str| (!settings.paused_kinds.contains(name), name.to_owned());
    all.sort_by_cached_key(|(name, _)| place(name));
    let total = all.len() as u64;
    let after = after.map(|after| place(&after));
    let begin =
        all.partition_point(|(name, _)| after.as_ref().is_some_and(|it| place(name) <= *it));
    let shown = &all[begin..all.len().min(begin + rows)];
    let is_last = begin + shown.len() == all.len();
    let (limits, of_kinds) = limits(reader, &stored, shown, &gauges)?;
    let mut view = Kinds {
        now: Time::new(now.to_system()),
        is_paused: settings.is_paused,
        rows: Vec::new(),
        total,
        next: if is_last { None } else { shown.last().map(|(name, _)| name.clone()) },
        is_later_page: begin > 0,
        limits,
    };
    for ((name, jobs), limits) in shown.iter().zip(of_kinds) {
        let from = overview::begin(Step::Minute, MINUTES, now).to_system();
        let to = now.to_system() + Step::Minute.length();
        let entries = client.kind_named(name).history(Step::Minute, from..to)?;
        let minutes = overview::without_gaps(&entries, Step::Minute, MINUTES, now);
        let hour = overview::sum(&minutes);
        let failed = hour.retried + hour.dead;
        let ended = hour.completed + failed;
        let gauges = gauges.iter().find(|its| its.kind == *name);
        let overdue = gauges.and_then(|its| its.oldest_overdue);
        let next_due = match overdue {
            Some(age) => Some(now.minus(age)),
            None if *jobs > 0 => {
                first_pending(reader, name, now)?.map(|job| Millis::present(job.due))
            }
            None => None,
        };
        view.rows.push(KindRow {
            name: name.clone(),
            pending: *jobs,
            running: gauges.map_or(0, |its| its.claimed),
            oldest_overdue_ms: overdue.map(|age| age.as_millis() as u64),
            next_due: next_due.map(|due| Time::new(due.to_system())),
            dead: Number {
                count: dead.get(name).copied().unwrap_or(0),
                is_exact: groups.len() < MOST_GROUPS,
            },
            is_paused: settings.paused_kinds.contains(name),
            has_node: seen.iter().any(|node| node.kinds.contains(name)),
            completed: hour.completed,
            failed,
            completed_per_minute: minutes[MINUTES - 2].completed,
            failures_in_hundred: (ended > 0).then(|| failed as f64 * 100.0 / ended as f64),
            p50_late_ms: overview::quantile(&hour.lateness, 50),
            p99_late_ms: overview::quantile(&hour.lateness, 99),
            p50_run_ms: overview::quantile(&hour.run_time, 50),
            p99_run_ms: overview::quantile(&hour.run_time, 99),
            sparkline: minutes.iter().map(|minute| minute.completed).collect(),
            head_start_ms: match settings.head_starts.of(name) {
                start if start.is_none() => None,
                start => start.to_text().parse().ok(),
            },
            keeps: settings.keeps.get(name).map(|keep| keep_in_words(*keep)),
            limits,
        });
    }
    Ok(view)
}

/// Returns the earliest pending job of a kind that is due at this time or later.
pub(crate) fn first_pending(
    reader: &Reader<'_>,
    kind: &str,
    from: Millis,
) -> Result<Option<JobInfo>, Problem> {
    let (kind, to) = (Some(kind.to_owned()), Millis::MAX);
    // One job is needed, and the first ones of the list may be claimed.
    let mut request = PageRequest { set: JobSet::Alive, kind, from, to, after: None, limit: 1 };
    for limit in [1, 8, 64, 256] {
        request.limit = limit;
        let page = reader.client().page(request.clone())?;
        let pending = page.jobs.into_iter().find(|job| job.state == JobState::Pending);
        if pending.is_some() || page.next.is_none() {
            return Ok(pending);
        }
        request.after = page.next;
    }
    Ok(None)
}

fn keep_in_words(keep: Keep) -> String {
    let mut bounds = Vec::new();
    if keep.last != u64::MAX {
        bounds.push(format!("the last {}", keep.last));
    }
    if keep.age != std::time::Duration::MAX {
        bounds.push(format!("for {} s", keep.age.as_secs()));
    }
    if keep.bytes != u64::MAX {
        bounds.push(format!("up to {} bytes", keep.bytes));
    }
    if bounds.is_empty() { "all".to_owned() } else { bounds.join(", ") }
}

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
    let rows = seen.iter().take(MOST_ROWS).map(limit_row).collect();
    let limits_of = |(name, _): &(String, u64)| {
        let scopes = of_kind(name);
        let found =
            scopes.iter().filter_map(|its| seen.iter().find(|seen| seen.info.scope == *its));
        found.map(limit_row).collect()
    };
    Ok((Limits { rows, total: total as u64 }, kinds.iter().map(limits_of).collect()))
}

fn limit_row(seen: &SeenLimit) -> LimitRow {
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
