//! The commands about whole queues: `queues`, `nodes`, `errors`, `metrics`, `pause`, `resume`; `history`: how many jobs
//! ended in each minute or hour; `limits`; and of groups of jobs `groups`, `seal-group`, `cancel-group`.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tickwheel_jobs::{
    Buckets, Client, Counts, GroupError, GroupId, GroupInfo, HistoryEntry, LimitInfo, LimitScope,
    Step, StoreError,
};

use crate::args::{History, OfKind, Paused, StepName};
use crate::open::Queue;
use crate::text::{self, cut, now, plain, relative, shown, span, utc, zone_name};
use crate::{Outcome, find, inspect};

/// The most characters of an error or of a list of kinds in a table.
const CELL_CHARS: usize = 80;

/// Lists the processes that run the jobs.
pub(crate) fn nodes(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (nodes, now) = (client.nodes()?, now());
    inspect::warn_unserved(client)?;
    if json {
        for node in &nodes {
            writeln!(out, "{}", text::json(node)?)?;
        }
        return Ok(Outcome::Done);
    }
    let started = format!("STARTED ({})", zone_name());
    let head = ["HOST", "PID", "VERSION", &started, "SEEN", "CLAIMED", "MOST RUNS", "KINDS"];
    let row = |node: &tickwheel_jobs::NodeInfo| {
        vec![
            plain(&node.host).into_owned(),
            node.pid.to_string(),
            plain(&node.version).into_owned(),
            shown(node.started),
            relative(node.seen, now),
            node.in_flight.to_string(),
            node.most_runs.to_string(),
            cut(&plain(&node.kinds.join(" ")), CELL_CHARS).into_owned(),
        ]
    };
    inspect::table(&head, nodes.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

/// Prints the gauges of the queue, for a monitoring system.
pub(crate) fn metrics(
    client: &Client,
    openmetrics: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let metrics = client.metrics()?;
    match openmetrics {
        true => out.write_all(metrics.openmetrics().as_bytes())?,
        false => write!(out, "{metrics}")?,
    }
    Ok(Outcome::Done)
}

#[derive(Serialize)]
struct JsonQueue<'a> {
    queue: Option<&'a str>,
    #[serde(flatten)]
    counts: Counts,
}

/// Lists the queues.
pub(crate) fn queues(
    queues: &[Queue],
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let mut lines = Vec::new();
    for (name, client) in queues {
        let counts = client.count()?;
        if json {
            let queue = name.as_deref();
            writeln!(out, "{}", text::json(&JsonQueue { queue, counts })?)?;
            continue;
        }
        lines.push(vec![
            plain(name.as_deref().unwrap_or("the default one")).into_owned(),
            counts.pending.to_string(),
            counts.overdue.to_string(),
            (counts.claimed + counts.running).to_string(),
            counts.dead.to_string(),
            counts.schedules.to_string(),
        ]);
    }
    if !json {
        let head = ["QUEUE", "PENDING", "OVERDUE", "RUNNING", "DEAD", "SCHEDULES"];
        inspect::table(&head, lines, out)?;
    }
    Ok(Outcome::Done)
}

/// Lists the dead jobs by kind and first line of their error.
pub(crate) fn errors(
    client: &Client,
    limit: usize,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let groups = client.dead_by_error(limit)?;
    if json {
        for group in &groups {
            writeln!(out, "{}", text::json(group)?)?;
        }
        return Ok(Outcome::Done);
    }
    let row = |group: &tickwheel_jobs::DeadByError| {
        vec![
            group.jobs.to_string(),
            cut(&plain(&group.kind), CELL_CHARS).into_owned(),
            cut(&plain(&group.error), CELL_CHARS).into_owned(),
        ]
    };
    inspect::table(&["DEAD", "KIND", "ERROR"], groups.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

/// Pauses the queue, a kind or a schedule.
pub(crate) fn pause(
    client: &Client,
    paused: &Paused,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    if let Some(name) = &paused.schedule {
        return of_schedule(client, name, client.pause_schedule(name), "is paused", out);
    }
    find::check_kind(client, paused.of.kind.as_deref())?;
    match &paused.of.kind {
        Some(kind) => client.kind_named(kind).pause()?,
        None => client.pause()?,
    }
    writeln!(out, "{} is paused", named(&paused.of))?;
    Ok(Outcome::Done)
}

/// Ends a pause of the queue, of a kind or of a schedule.
pub(crate) fn resume(
    client: &Client,
    paused: &Paused,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    if let Some(name) = &paused.schedule {
        return of_schedule(client, name, client.resume_schedule(name), "goes on", out);
    }
    find::check_kind(client, paused.of.kind.as_deref())?;
    match &paused.of.kind {
        Some(kind) => client.kind_named(kind).resume()?,
        None => client.resume()?,
    }
    writeln!(out, "{} goes on", named(&paused.of))?;
    Ok(Outcome::Done)
}

/// Prints the effect on a schedule, or which schedules there are.
fn of_schedule(
    client: &Client,
    name: &str,
    changed: Result<(), StoreError>,
    effect: &str,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    if let Err(StoreError::NoSchedule(_)) = changed {
        return Ok(find::no_schedule(name, &client.schedules()?));
    }
    changed?;
    writeln!(out, "the schedule {} {effect}", plain(name))?;
    Ok(Outcome::Done)
}

fn named(of: &OfKind) -> String {
    match &of.kind {
        Some(kind) => format!("the kind {}", plain(kind)),
        None => "the queue".to_owned(),
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn history(
    client: &Client,
    args: &History,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (step, lasts) = match args.step {
        StepName::Minute => (Step::Minute, HOUR),
        StepName::Hour => (Step::Hour, 2 * DAY),
    };
    let now = now();
    let from = args.from.map_or(now - lasts, text::Moment::resolve);
    // The present minute began before now. The end of the range lies behind it.
    let range = from..args.to.map_or(now + HOUR, text::Moment::resolve);
    let entries = match &args.of.kind {
        None => client.history(step, range)?,
        Some(kind) => {
            // The kinds behind the first 200 have one history under this name.
            if kind != "other" {
                find::check_kind(client, Some(kind))?;
            }
            client.kind_named(kind).history(step, range)?
        }
    };
    if args.json {
        for entry in &entries {
            writeln!(out, "{}", text::json(entry)?)?;
        }
        return Ok(Outcome::Done);
    }
    let begin = format!("BEGIN ({})", zone_name());
    let head = [
        &*begin,
        "INSERTED",
        "COMPLETED",
        "RETRIED",
        "SNOOZED",
        "DEAD",
        "CANCELLED",
        "INTERRUPTED",
        "99% LATE",
        "99% TOOK",
    ];
    let row = |entry: &HistoryEntry| {
        let counts = [
            entry.inserted,
            entry.completed,
            entry.retried,
            entry.snoozed,
            entry.dead,
            entry.cancelled,
            entry.interrupted,
        ];
        let mut row = vec![shown(entry.begin)];
        row.extend(counts.map(|count| count.to_string()));
        row.extend([&entry.lateness, &entry.run_time].map(|buckets| at_most(buckets)));
        row
    };
    inspect::table(&head, entries.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

/// Returns the bound under which 99 of 100 durations are, as text.
fn at_most(buckets: &[u64]) -> String {
    match bound_of_99(buckets) {
        None => "-".to_owned(),
        Some(Duration::MAX) => "> 1h".to_owned(),
        Some(bound) => format!("<= {}", span(bound)),
    }
}

/// Returns the bound under which 99 of 100 durations are, as [`Buckets::bound_of`] does.
pub(crate) fn bound_of_99(buckets: &[u64]) -> Option<Duration> {
    Buckets::bound_of(buckets, 99)
}

/// A scope with a limit, as JSON and in tables. Times are in UTC.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Debug)]
pub(crate) struct LimitRow {
    pub(crate) scope: &'static str,
    pub(crate) flow: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) partition: Option<String>,
    pub(crate) running: u64,
    pub(crate) most_running: Option<u32>,
    pub(crate) rate: Option<u32>,
    pub(crate) per_ms: Option<u64>,
    pub(crate) burst: Option<u32>,
    pub(crate) weight: Option<u32>,
    #[serde(serialize_with = "as_utc")]
    pub(crate) next_start: Option<SystemTime>,
    #[serde(serialize_with = "as_utc")]
    pub(crate) held_until: Option<SystemTime>,
    /// It lets no further job start now.
    #[serde(skip)]
    pub(crate) is_reached: bool,
}

fn as_utc<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(utc).serialize(serializer)
}

/// Lists the limits.
pub(crate) fn limits(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (limits, now) = (client.limits()?, now());
    let limits: Vec<LimitRow> = limits.iter().map(LimitRow::of).collect();
    if json {
        for limit in &limits {
            writeln!(out, "{}", text::json(limit)?)?;
        }
        return Ok(Outcome::Done);
    }
    let head = ["SCOPE", "RUNNING", "LIMIT", "RATE", "BURST", "WEIGHT", "NEXT START", "HELD UNTIL"];
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let time = |time: Option<SystemTime>| time.map_or("-".to_owned(), |time| relative(time, now));
    let row = |limit: &LimitRow| {
        vec![
            plain(&limit.name()).into_owned(),
            limit.running.to_string(),
            number(limit.most_running),
            limit.rate_text(),
            number(limit.burst),
            number(limit.weight),
            time(limit.next_start),
            time(limit.held_until),
        ]
    };
    inspect::table(&head, limits.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

impl LimitRow {
    pub(crate) fn of(info: &LimitInfo) -> LimitRow {
        let rate = info.limit.start_rate();
        let limit = LimitRow {
            running: info.running,
            most_running: info.limit.most_running(),
            rate: rate.map(|(jobs, _)| jobs),
            per_ms: rate.map(|(_, per)| u64::try_from(per.as_millis()).unwrap_or(u64::MAX)),
            burst: info.limit.start_burst(),
            weight: info.limit.turn_weight(),
            next_start: info.next_start,
            held_until: info.held_until,
            is_reached: info.is_reached(),
            ..LimitRow::default()
        };
        match &info.scope {
            LimitScope::Queue => LimitRow { scope: "queue", ..limit },
            LimitScope::Flow(flow) => LimitRow { scope: "flow", flow: Some(flow.clone()), ..limit },
            LimitScope::Each(kind) => {
                LimitRow { scope: "each_partition", kind: Some(kind.clone()), ..limit }
            }
            LimitScope::Partition { kind, partition } => LimitRow {
                scope: "partition",
                kind: Some(kind.clone()),
                partition: Some(partition.clone()),
                ..limit
            },
            // A later version has it.
            _ => LimitRow { scope: "other", ..limit },
        }
    }

    /// Returns the name of the scope, with the names as the store has them.
    pub(crate) fn name(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        match (self.scope, &self.flow, &self.partition) {
            ("queue", ..) => "the queue".to_owned(),
            ("each_partition", ..) => format!("each partition of {kind}"),
            (_, Some(flow), _) => format!("flow {flow}"),
            (_, _, Some(partition)) => format!("partition {partition} of {kind}"),
            (other, ..) => other.to_owned(),
        }
    }

    /// Returns the rate as text, with `-` for none.
    pub(crate) fn rate_text(&self) -> String {
        match (self.rate, self.per_ms) {
            (Some(jobs), Some(per)) => format!("{jobs} in {}", span(Duration::from_millis(per))),
            _ => "-".to_owned(),
        }
    }
}

/// Lists the groups, those that were made last first.
pub(crate) fn groups(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (groups, now) = (client.groups()?, now());
    if json {
        for group in &groups {
            writeln!(out, "{}", text::json(group)?)?;
        }
        return Ok(Outcome::Done);
    }
    let made = format!("MADE ({})", zone_name());
    let head = ["ID", &made, "STATE", "TOTAL", "OPEN", "COMPLETED", "DEAD", "CANCELLED"];
    let row = |group: &GroupInfo| {
        let counts = [group.total, group.open, group.completed, group.dead, group.cancelled];
        let state = match group.ended {
            Some(ended) => format!("ended {}", relative(ended, now)),
            None => state(group).to_owned(),
        };
        let row = [group.id.to_string(), shown(group.made), state];
        row.into_iter().chain(counts.map(|count| count.to_string())).collect()
    };
    inspect::table(&head, groups.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

/// Returns the state of a group that has not ended.
pub(crate) fn state(group: &GroupInfo) -> &'static str {
    match group {
        GroupInfo { is_cancelled: true, .. } => "cancelled",
        GroupInfo { is_sealed: false, .. } => "open",
        GroupInfo { open: 0, waits_for_the_dead: true, .. } => "waits for the dead",
        _ => "sealed",
    }
}

/// Seals a group.
pub(crate) fn seal_group(
    client: &Client,
    id: GroupId,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    match client.group_by_id(id).seal() {
        Ok(true) => writeln!(out, "{id} is sealed")?,
        Ok(false) => writeln!(out, "{id} was sealed before")?,
        Err(error) => return missed(id, error),
    }
    Ok(Outcome::Done)
}

/// Cancels a group and its pending members.
pub(crate) fn cancel_group(
    client: &Client,
    id: GroupId,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let counts = match client.group_by_id(id).cancel() {
        Ok(counts) => counts,
        Err(error) => return missed(id, error),
    };
    writeln!(
        out,
        "{id} is cancelled: {} pending jobs with it, {} runs were asked to stop",
        counts.changed, counts.asked_to_stop
    )?;
    Ok(Outcome::Done)
}

/// Prints why a group was not changed.
fn missed(id: GroupId, error: StoreError) -> Result<Outcome, Box<dyn Error>> {
    match error {
        StoreError::Group(error @ (GroupError::Unknown | GroupError::Ended)) => {
            eprintln!("tickwheel-jobs: {id}: {error}");
            Ok(Outcome::Missed)
        }
        error => Err(error.into()),
    }
}
