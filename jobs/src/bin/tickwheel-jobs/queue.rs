//! The commands about whole queues: `queues`, `nodes`, `errors`, `metrics`, `pause`, `resume`.

use std::error::Error;
use std::io::Write;

use serde::Serialize;
use tickwheel_jobs::{Client, Counts, StoreError};

use crate::args::{OfKind, Paused};
use crate::open::Queue;
use crate::text::{cut, now, plain, relative, shown, zone_name};
use crate::{Outcome, find, rows, text, unserved};

/// The most characters of an error or of a list of kinds in a table.
const CELL_CHARS: usize = 80;

/// Lists the processes that run the jobs.
pub(crate) fn nodes(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (nodes, now) = (client.nodes()?, now());
    unserved::warn(client)?;
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
    rows::table(&head, nodes.iter().map(row).collect(), out)?;
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
        rows::table(&head, lines, out)?;
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
    rows::table(&["DEAD", "KIND", "ERROR"], groups.iter().map(row).collect(), out)?;
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
