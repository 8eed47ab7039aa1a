//! The commands about whole queues: `queues`, `nodes`, `errors`, `metrics`; `history`: how many jobs ended in each
//! minute or hour; `limits`; and of groups of jobs `groups`, `seal-group`, `cancel-group`.

use std::io::Write;
use std::time::Duration;

use tickwheel_jobs::view::{
    Bound, Dead, DeadGroup, GroupRow, GroupState, HistoryRow, LimitRow, NodeRow, Time, View,
};
use tickwheel_jobs::{Client, GroupError, GroupId, Step, StoreError};

use crate::args::{History, StepName};
use crate::open::Queue;
use crate::text::{self, cut, now, or_dash, plain, relative, shown, span, zone_name};
use crate::{Answer, Outcome, find, inspect};

const CELL_CHARS: usize = 80;

pub(crate) fn nodes(client: &Client, json: bool, out: &mut impl Write) -> Answer {
    let nodes = View::new(client.clone()).nodes(usize::MAX)?;
    inspect::warn_unserved(client)?;
    let started = format!("STARTED ({})", zone_name());
    let head = ["HOST", "PID", "VERSION", &started, "SEEN", "CLAIMED", "MOST RUNS", "KINDS"];
    let row = |node: &NodeRow| {
        vec![
            plain(&node.host).into_owned(),
            node.pid.to_string(),
            plain(&node.version).into_owned(),
            shown(node.started.to_system()),
            relative(node.seen.to_system(), nodes.now.to_system()),
            node.in_flight.to_string(),
            node.most_runs.to_string(),
            cut(&plain(&node.kinds.join(" ")), CELL_CHARS).into_owned(),
        ]
    };
    inspect::listed(&nodes.rows, json, &head, row, out)
}

pub(crate) fn metrics(client: &Client, openmetrics: bool, out: &mut impl Write) -> Answer {
    let metrics = client.metrics()?;
    match openmetrics {
        true => out.write_all(metrics.openmetrics().as_bytes())?,
        false => write!(out, "{metrics}")?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn queues(queues: &[Queue], json: bool, out: &mut impl Write) -> Answer {
    let mut lines = Vec::new();
    for (name, client) in queues {
        let counts = client.count()?;
        if json {
            let mut queue = serde_json::to_value(counts)?;
            queue["queue"] = name.clone().into();
            writeln!(out, "{}", text::json(&queue)?)?;
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

pub(crate) fn errors(client: &Client, limit: usize, json: bool, out: &mut impl Write) -> Answer {
    let Dead { groups, now, .. } = View::new(client.clone()).dead(limit)?;
    let row = |group: &DeadGroup| {
        vec![
            group.jobs.to_string(),
            from_now(group.first_died, now),
            from_now(group.last_died, now),
            cut(&plain(&group.kind), CELL_CHARS).into_owned(),
            cut(&plain(&group.error), CELL_CHARS).into_owned(),
        ]
    };
    inspect::listed(&groups, json, &["DEAD", "FIRST", "LAST", "KIND", "ERROR"], row, out)
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn history(client: &Client, args: &History, out: &mut impl Write) -> Answer {
    let (step, lasts) = match args.step {
        StepName::Minute => (Step::Minute, HOUR),
        StepName::Hour => (Step::Hour, 2 * DAY),
    };
    let now = now();
    let from = args.from.map_or(now - lasts, text::Moment::resolve);
    let to = args.to.map_or(now, text::Moment::resolve);
    // The kinds behind the first 200 have one history under the name "other".
    if let Some(kind) = args.of.kind.as_deref().filter(|kind| *kind != "other") {
        find::check_kind(client, Some(kind))?;
    }
    let length = step.length().as_secs();
    let steps = now.duration_since(from).unwrap_or_default().as_secs() / length + 2;
    let steps = usize::try_from(steps).unwrap_or(usize::MAX);
    let history = View::new(client.clone()).history(args.of.kind.as_deref(), step, steps)?;
    // A minute in which nothing happened has no line.
    let is_shown = |row: &HistoryRow| {
        let mut empty = HistoryRow::default();
        empty.begin = row.begin;
        (from..=to).contains(&row.begin.to_system()) && *row != empty
    };
    let entries: Vec<HistoryRow> = history.entries.into_iter().filter(is_shown).collect();
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
        "EXPIRED",
        "99% LATE",
        "99% TOOK",
    ];
    let row = |entry: &HistoryRow| {
        let counts = [
            entry.inserted,
            entry.completed,
            entry.retried,
            entry.snoozed,
            entry.dead,
            entry.cancelled,
            entry.interrupted,
            entry.expired,
        ];
        let mut row = vec![shown(entry.begin.to_system())];
        row.extend(counts.map(|count| count.to_string()));
        row.extend([entry.late_p99_ms, entry.took_p99_ms].map(at_most));
        row
    };
    inspect::listed(&entries, args.output.json, &head, row, out)
}

fn from_now(time: Option<Time>, now: Time) -> String {
    or_dash(time.map(|time| relative(time.to_system(), now.to_system())))
}

fn at_most(bound: Option<Bound>) -> String {
    match bound {
        None => "-".to_owned(),
        Some(bound) if bound.is_above() => "> 1h".to_owned(),
        Some(bound) => format!("<= {}", span(Duration::from_millis(bound.ms()))),
    }
}

pub(crate) fn limits(client: &Client, json: bool, out: &mut impl Write) -> Answer {
    let view = View::new(client.clone());
    let (limits, now) = (view.limits(usize::MAX)?.rows, view.now());
    let head = ["SCOPE", "RUNNING", "LIMIT", "RATE", "BURST", "WEIGHT", "NEXT START", "HELD UNTIL"];
    let row = |limit: &LimitRow| {
        let most = or_dash(limit.most_running);
        let first = [plain(&limit.name()).into_owned(), limit.running.to_string(), most];
        first.into_iter().chain(limit_cells(limit, |time| from_now(time, now))).collect()
    };
    inspect::listed(&limits, json, &head, row, out)
}

pub(crate) fn limit_cells(limit: &LimitRow, time: impl Fn(Option<Time>) -> String) -> [String; 5] {
    let rate = limit.rate.zip(limit.per_ms);
    let rate = rate.map(|(jobs, per)| format!("{jobs} in {}", span(Duration::from_millis(per))));
    let held = if limit.is_paused { "paused".to_owned() } else { time(limit.held_until) };
    let (burst, weight) = (or_dash(limit.burst), or_dash(limit.weight));
    [or_dash(rate), burst, weight, time(limit.next_start), held]
}

const MOST_GROUPS: usize = 1_000;

pub(crate) fn groups(client: &Client, json: bool, out: &mut impl Write) -> Answer {
    let groups = View::new(client.clone()).groups(MOST_GROUPS)?;
    let made = format!("MADE ({})", zone_name());
    let head = ["ID", &made, "STATE", "TOTAL", "OPEN", "COMPLETED", "DEAD", "CANCELLED", "EXPIRED"];
    let row = |group: &GroupRow| {
        let counts =
            [group.total, group.open, group.completed, group.dead, group.cancelled, group.expired];
        let ago = |ended: Time| relative(ended.to_system(), groups.now.to_system());
        let state = match group.ended {
            Some(ended) => format!("ended {}", ago(ended)),
            None => state_text(group.state).to_owned(),
        };
        let row = [group.id.to_string(), shown(group.made.to_system()), state];
        row.into_iter().chain(counts.map(|count| count.to_string())).collect()
    };
    inspect::listed(&groups.rows, json, &head, row, out)
}

pub(crate) fn state_text(state: GroupState) -> &'static str {
    match state {
        GroupState::WaitsForTheDead => "waits for the dead",
        other => other.word(),
    }
}

pub(crate) fn seal_group(client: &Client, id: GroupId, out: &mut impl Write) -> Answer {
    match client.group_by_id(id).seal() {
        Ok(true) => writeln!(out, "{id} is sealed")?,
        Ok(false) => writeln!(out, "{id} was sealed before")?,
        Err(error) => return missed(id, error),
    }
    Ok(Outcome::Done)
}

pub(crate) fn cancel_group(client: &Client, id: GroupId, out: &mut impl Write) -> Answer {
    let (jobs, runs) = match client.group_by_id(id).cancel() {
        Ok(counts) => (counts.changed, counts.asked_to_stop),
        Err(error) => return missed(id, error),
    };
    writeln!(
        out,
        "{id} is cancelled: {jobs} pending jobs with it, {runs} runs were asked to stop"
    )?;
    Ok(Outcome::Done)
}

fn missed(id: GroupId, error: StoreError) -> Answer {
    match error {
        StoreError::Group(error @ (GroupError::Unknown | GroupError::Ended)) => {
            eprintln!("tickwheel-jobs: {id}: {error}");
            Ok(Outcome::Missed)
        }
        error => Err(error.into()),
    }
}
