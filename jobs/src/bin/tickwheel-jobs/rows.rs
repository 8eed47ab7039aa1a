//! A job or a schedule as a line of a table, as a page, and as JSON.

use std::io::{self, Write};
use std::time::SystemTime;

use serde::Serialize;
use tickwheel_jobs::{JobInfo, JobState, ScheduleInfo};

use crate::text::{cut, hex, json, plain, relative, utc};

/// How many characters of a key or an error a table shows.
const CELL_CHARS: usize = 60;

/// A job as JSON. The names of the fields are an interface: scripts read them.
#[derive(Serialize)]
struct JsonJob<'a> {
    id: String,
    kind: &'a str,
    state: &'static str,
    due: String,
    tries: u32,
    interruptions: u32,
    key: Option<&'a str>,
    error: Option<&'a str>,
    died: Option<String>,
    /// The payload, if it is UTF-8.
    payload: Option<&'a str>,
    /// The payload, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
}

#[derive(Serialize)]
struct JsonSchedule<'a> {
    name: &'a str,
    kind: &'a str,
    rule: &'a str,
    next: String,
}

fn state(job: &JobInfo) -> &'static str {
    match job.state {
        JobState::Pending => "pending",
        JobState::Running => "running",
        JobState::Dead => "dead",
    }
}

pub(crate) fn json_job(job: &JobInfo) -> serde_json::Result<String> {
    let payload = std::str::from_utf8(&job.payload).ok();
    json(&JsonJob {
        id: job.id.to_string(),
        kind: &job.kind,
        state: state(job),
        due: utc(job.deadline),
        tries: job.tries,
        interruptions: job.interruptions,
        key: job.key.as_deref(),
        error: job.error.as_deref(),
        died: job.died.map(utc),
        payload,
        payload_hex: payload.is_none().then(|| hex(&job.payload)),
    })
}

pub(crate) fn json_schedule(schedule: &ScheduleInfo) -> serde_json::Result<String> {
    let ScheduleInfo { name, kind, rule, next, .. } = schedule;
    json(&JsonSchedule { name, kind, rule, next: utc(*next) })
}

/// Everything about a job, a line each.
pub(crate) fn page(job: &JobInfo, now: SystemTime, out: &mut impl Write) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<14}{}", plain(value));
    line("id", &job.id.to_string())?;
    line("kind", &job.kind)?;
    line("state", state(job))?;
    line("due", &format!("{} ({})", utc(job.deadline), relative(job.deadline, now)))?;
    line("tries", &job.tries.to_string())?;
    line("interruptions", &job.interruptions.to_string())?;
    line("key", job.key.as_deref().unwrap_or("-"))?;
    line("error", job.error.as_deref().unwrap_or("-"))?;
    if let Some(died) = job.died {
        line("died", &format!("{} ({})", utc(died), relative(died, now)))?;
    }
    match std::str::from_utf8(&job.payload) {
        Ok(payload) => line("payload", payload),
        Err(_) => line("payload", &format!("0x{}", hex(&job.payload))),
    }
}

/// A table of jobs.
pub(crate) fn jobs(jobs: &[JobInfo], now: SystemTime, out: &mut impl Write) -> io::Result<()> {
    let head = ["ID", "KIND", "STATE", "DUE (UTC)", "", "TRIES", "KEY", "ERROR"];
    let short = |text: &Option<String>| match text {
        None => "-".to_owned(),
        Some(text) => cut(&plain(text), CELL_CHARS).into_owned(),
    };
    let row = |job: &JobInfo| {
        vec![
            job.id.to_string(),
            cut(&plain(&job.kind), CELL_CHARS).into_owned(),
            state(job).to_owned(),
            utc(job.deadline),
            relative(job.deadline, now),
            job.tries.to_string(),
            short(&job.key),
            short(&job.error),
        ]
    };
    table(&head, jobs.iter().map(row).collect(), out)
}

/// A table of schedules.
pub(crate) fn schedules(
    schedules: &[ScheduleInfo],
    now: SystemTime,
    out: &mut impl Write,
) -> io::Result<()> {
    let row = |schedule: &ScheduleInfo| {
        vec![
            plain(&schedule.name).into_owned(),
            plain(&schedule.kind).into_owned(),
            plain(&schedule.rule).into_owned(),
            utc(schedule.next),
            relative(schedule.next, now),
        ]
    };
    table(&["NAME", "KIND", "RULE", "NEXT (UTC)", ""], schedules.iter().map(row).collect(), out)
}

/// Prints rows in columns that are as wide as they need be.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, out: &mut impl Write) -> io::Result<()> {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
