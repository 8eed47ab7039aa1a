//! The commands that show jobs and change nothing, `list`, `show`, `stats`, `check`: a job or a schedule as a line of a
//! table, a job as a page, and a warning if jobs are due whose kind no process that was seen lately handles.
//!
//! Ground rules:
//!
//! - JSON is the library's own.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};
use tickwheel_jobs::view::{KindFilter, KindRow, Overview, Time, View, Warning};
use tickwheel_jobs::{Client, JobInfo, PendingReason, ScheduleInfo};

use crate::args::{List, What};
use crate::open::{Place, Sizes};
use crate::text::{
    self, bytes, cut, dated, hex, now, or_dash, plain, relative, shown, span, zone_name,
};
use crate::{Answer, Outcome, find, settings};

pub(crate) fn list(client: &Client, list: &List, out: &mut impl Write) -> Answer {
    let filter = &list.filter;
    find::check_kind(client, filter.kind.as_deref())?;
    let pages = match list.what {
        What::Pending => client.pending(),
        What::Running => client.running(),
        What::Dead => client.dead(),
        What::Ended => client.ended(),
        What::Schedules => return schedules(client, list, out),
    };
    let mut pages = find::narrowed(pages, filter, find::times(filter));
    let now = now();
    let mut jobs = Vec::new();
    let mut listed = 0;
    let mut wanted = pages.by_ref().filter(|job| find::takes(filter, job));
    for job in wanted.by_ref().take(list.limit) {
        listed += 1;
        match list.output.json {
            // Printed at once, so that a list of millions of jobs need not fit into memory.
            true => writeln!(out, "{}", text::json(&job)?)?,
            false => jobs.push(job),
        }
    }
    let more = listed == list.limit && wanted.next().is_some();
    if let Some(error) = pages.error() {
        return Err(error.clone().into());
    }
    if !list.output.json {
        jobs_table(&jobs, now, out)?;
    }
    tell_more(more, list.limit);
    warn_unserved(client)?;
    Ok(Outcome::Done)
}

fn schedules(client: &Client, list: &List, out: &mut impl Write) -> Answer {
    let filter = &list.filter;
    if filter.key.is_some() || filter.error.is_some() {
        return Err("--key, --error: a schedule has neither".into());
    }
    let (from, to) = find::times(filter);
    let mut schedules = client.schedules().list()?;
    schedules.retain(|schedule| {
        filter.kind.as_ref().is_none_or(|kind| schedule.kind == *kind)
            && (from..=to).contains(&schedule.next)
    });
    let more = schedules.len() > list.limit;
    schedules.truncate(list.limit);
    let now = now();
    let row = |schedule: &ScheduleInfo| {
        let overlap = if schedule.without_overlap { ", without overlap" } else { "" };
        vec![
            plain(&schedule.name).into_owned(),
            plain(&schedule.kind).into_owned(),
            format!("{}{overlap}", plain(&schedule.rule)),
            shown(schedule.next),
            if schedule.is_paused { "paused".to_owned() } else { relative(schedule.next, now) },
        ]
    };
    let head = ["NAME", "KIND", "RULE", &format!("NEXT ({})", zone_name()), ""];
    let outcome = listed(&schedules, list.output.json, &head, row, out)?;
    tell_more(more, list.limit);
    Ok(outcome)
}

fn tell_more(more: bool, limit: usize) {
    if more {
        eprintln!("tickwheel-jobs: there are more than {limit}: --limit N lists N");
    }
}

pub(crate) fn show(client: &Client, text: &str, json: bool, out: &mut impl Write) -> Answer {
    let Some(job) = find::job(client, text)? else { return Ok(Outcome::Missed) };
    match json {
        true => writeln!(out, "{}", text::json(&job)?)?,
        false => job_page(&job, &client.why_pending(job.id)?, now(), out)?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn stats(client: &Client, place: &Place, as_json: bool, out: &mut impl Write) -> Answer {
    let counts = client.count()?;
    let view = View::new(client.clone());
    let mut kinds = view.kinds(&KindFilter::default(), None, usize::MAX)?.rows;
    let now = now();
    let Overview { warnings, slowdowns, .. } = view.overview()?;
    warn_of(&warnings);
    let limits = view.limits(usize::MAX)?.rows;
    kinds.retain(|kind| kind.pending + kind.running > 0);
    let next_due = kinds.iter().filter_map(|kind| kind.next_due).min();
    let reached = limits.iter().filter(|limit| limit.is_reached).count();
    let open_groups = client.groups()?.iter().filter(|group| group.ended.is_none()).count();
    if as_json {
        let mut stats = serde_json::to_value(counts)?;
        let mut put = |name: &str, value: Value| stats[name] = value;
        put("queue", json!(place.queue));
        put("next_due", json!(next_due));
        put("limits", json!(limits.len()));
        put("limits_reached", json!(reached));
        put("slowdowns", json!(slowdowns));
        put("open_groups", json!(open_groups));
        put("kinds", json!(kinds));
        put("queues", json!(place.queues));
        match place.sizes {
            Sizes::File { file, log } => {
                put("file_bytes", json!(file));
                put("wal_bytes", json!(log));
            }
            #[cfg(feature = "redis")]
            Sizes::Server(memory) => put("memory_bytes", json!(memory)),
        }
        writeln!(out, "{}", text::json(&stats)?)?;
        return Ok(Outcome::Done);
    }
    let due = |due: Option<Time>| or_dash(due.map(|due| dated(due.to_system(), now)));
    match place.sizes {
        Sizes::File { file, log } => {
            writeln!(out, "file       {} ({})", plain(&place.name), bytes(file))?;
            writeln!(out, "log        {}", bytes(log))?;
        }
        #[cfg(feature = "redis")]
        Sizes::Server(memory) => {
            writeln!(out, "server     {}", plain(&place.name))?;
            writeln!(out, "memory     {}", or_dash(memory.map(bytes)))?;
        }
    }
    writeln!(out, "queue      {}", plain(place.queue.as_deref().unwrap_or("the default one")))?;
    if !place.queues.is_empty() {
        let default = if place.has_default { "the default one, " } else { "" };
        writeln!(out, "queues     {default}{}", plain(&place.queues.join(", ")))?;
    }
    writeln!(out, "pending    {}", counts.pending)?;
    // The command runs no jobs, so it sees what other processes have claimed, and not what of it has started.
    writeln!(out, "claimed    {}", counts.claimed)?;
    writeln!(out, "dead       {}", counts.dead)?;
    writeln!(out, "schedules  {}", counts.schedules)?;
    writeln!(out, "next due   {}", due(next_due))?;
    match counts.oldest_overdue {
        None => writeln!(out, "overdue    {}", counts.overdue)?,
        Some(age) => writeln!(out, "overdue    {}, the oldest by {}", counts.overdue, span(age))?,
    }
    if !limits.is_empty() {
        writeln!(out, "limits     {}, {reached} of them reached", limits.len())?;
    }
    if let Some(line) = settings::line(&slowdowns) {
        writeln!(out, "slowed     {line}")?;
    }
    if open_groups > 0 {
        writeln!(out, "groups     {open_groups} not over")?;
    }
    let row = |kind: &KindRow| {
        let jobs = kind.pending + kind.running;
        vec![plain(&kind.kind).into_owned(), jobs.to_string(), due(kind.next_due)]
    };
    if !kinds.is_empty() {
        writeln!(out)?;
        table(&["KIND", "JOBS", "NEXT DUE"], kinds.iter().map(row).collect(), out)?;
    }
    for warning in &warnings {
        writeln!(out, "\n{} {}", plain(&warning.text), plain(&warning.cure))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn check(client: &Client, out: &mut impl Write) -> Answer {
    client.check()?;
    let counts = client.count()?;
    let jobs = counts.pending + counts.claimed + counts.running;
    writeln!(out, "ok: {jobs} jobs, {} dead", counts.dead)?;
    Ok(Outcome::Done)
}

const CELL_CHARS: usize = 60;

pub(crate) fn job_page(
    job: &JobInfo,
    reasons: &[PendingReason],
    now: SystemTime,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<14}{}", plain(value));
    line("id", &job.id.to_string())?;
    line("kind", &job.kind)?;
    line("state", &job.state.to_string())?;
    line("due", &dated(job.due, now))?;
    for reason in reasons {
        line("waits because", &reason.to_string())?;
    }
    line("failures", &job.failures.to_string())?;
    line("attempt", &job.attempt.to_string())?;
    line("interruptions", &job.interruptions.to_string())?;
    line("key", job.key.as_deref().unwrap_or("-"))?;
    if let Some(partition) = &job.partition {
        line("partition", partition)?;
    }
    if let Some(group) = job.group {
        line("group", &group.to_string())?;
    }
    line("error", job.error.as_deref().unwrap_or("-"))?;
    let times = [
        ("expires", job.expires),
        ("claimed", job.claimed),
        ("lease ends", job.lease_ends),
        ("died", job.died),
        ("ended", job.ended.filter(|_| job.died.is_none())),
    ];
    for (name, time) in times {
        if let Some(time) = time {
            line(name, &dated(time, now))?;
        }
    }
    if let Some(took) = job.took {
        line("took", &format!("{took:?}"))?;
    }
    for error in job.errors.iter().skip(1) {
        let (attempt, at) = (error.attempt, relative(error.at, now));
        line("earlier error", &format!("attempt {attempt}, {at}: {}", error.error))?;
    }
    for (name, value) in &job.headers {
        line("header", &format!("{name}: {value}"))?;
    }
    if let Some(progress) = &job.progress {
        line("progress", &String::from_utf8_lossy(progress))?;
    }
    if let Some(result) = &job.result {
        line("result", &String::from_utf8_lossy(result))?;
    }
    match std::str::from_utf8(&job.payload) {
        Ok(payload) => line("payload", payload),
        Err(_) => line("payload", &format!("0x{}", hex(&job.payload))),
    }
}

pub(crate) fn jobs_table(
    jobs: &[JobInfo],
    now: SystemTime,
    out: &mut impl Write,
) -> io::Result<()> {
    let due = format!("DUE ({})", zone_name());
    let head = ["ID", "KIND", "STATE", &due, "", "FAILURES", "KEY", "ERROR"];
    let short = |text: &Option<String>| {
        or_dash(text.as_ref().map(|text| cut(&plain(text), CELL_CHARS).into_owned()))
    };
    let row = |job: &JobInfo| {
        vec![
            job.id.to_string(),
            cut(&plain(&job.kind), CELL_CHARS).into_owned(),
            job.state.to_string(),
            shown(job.due),
            relative(job.due, now),
            job.failures.to_string(),
            short(&job.key),
            short(&job.error),
        ]
    };
    table(&head, jobs.iter().map(row).collect(), out)
}

pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, out: &mut impl Write) -> io::Result<()> {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    columns(&rows, |_| false, out)
}

/// Prints rows, the first of which is the head, in columns. `is_right` says which of them are aligned to the right.
pub(crate) fn columns(
    rows: &[Vec<String>],
    is_right: impl Fn(usize) -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in rows {
        let cell = |(at, cell): (usize, &String)| match (is_right(at), widths[at]) {
            (true, width) => format!("{cell:>width$}"),
            (false, width) => format!("{cell:<width$}"),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// Prints each entry as a JSON object in a line, or all of them as a table with a row for each.
pub(crate) fn listed<T: Serialize>(
    entries: &[T],
    json: bool,
    head: &[&str],
    row: impl Fn(&T) -> Vec<String>,
    out: &mut impl Write,
) -> Answer {
    if !json {
        table(head, entries.iter().map(row).collect(), out)?;
        return Ok(Outcome::Done);
    }
    for entry in entries {
        writeln!(out, "{}", text::json(entry)?)?;
    }
    Ok(Outcome::Done)
}

/// A job that has been due for longer than this is worth a warning.
pub(crate) const OVERDUE_MS: u64 = 2_000;

/// Warns if jobs are overdue that no process handles. Looks further only if any job is overdue.
pub(crate) fn warn_unserved(client: &Client) -> Answer<()> {
    let oldest = client.count()?.oldest_overdue.unwrap_or_default();
    if oldest > Duration::from_millis(OVERDUE_MS) {
        warn_of(&View::new(client.clone()).overview()?.warnings);
    }
    Ok(())
}

fn warn_of(warnings: &[Warning]) {
    for warning in warnings.iter().filter(|it| matches!(it.what, "no_handler" | "no_node")) {
        eprintln!("tickwheel-jobs: warning: {}", plain(&warning.text));
    }
}
