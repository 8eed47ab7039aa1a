//! Prints a job or a schedule as a line of a table, and a job as a page. JSON is the library's own.

use std::io::{self, Write};
use std::time::SystemTime;

use tickwheel_jobs::{JobInfo, PendingReason, ScheduleInfo};

use crate::text::{cut, hex, plain, relative, shown, zone_name};

/// The most characters of a kind, a key or an error in a table.
const CELL_CHARS: usize = 60;

/// Prints everything about a job, one field a line.
pub(crate) fn page(
    job: &JobInfo,
    reasons: &[PendingReason],
    now: SystemTime,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<14}{}", plain(value));
    line("id", &job.id.to_string())?;
    line("kind", &job.kind)?;
    line("state", &job.state.to_string())?;
    line("due", &format!("{} ({})", shown(job.due), relative(job.due, now)))?;
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
    if let Some(claimed) = job.claimed {
        line("claimed", &format!("{} ({})", shown(claimed), relative(claimed, now)))?;
    }
    if let Some(end) = job.lease_ends {
        line("lease ends", &format!("{} ({})", shown(end), relative(end, now)))?;
    }
    if let Some(died) = job.died {
        line("died", &format!("{} ({})", shown(died), relative(died, now)))?;
    }
    if let Some(ended) = job.ended.filter(|_| job.died.is_none()) {
        line("ended", &format!("{} ({})", shown(ended), relative(ended, now)))?;
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

/// Prints a table of jobs.
pub(crate) fn jobs(jobs: &[JobInfo], now: SystemTime, out: &mut impl Write) -> io::Result<()> {
    let due = format!("DUE ({})", zone_name());
    let head = ["ID", "KIND", "STATE", &due, "", "FAILURES", "KEY", "ERROR"];
    let short = |text: &Option<String>| match text {
        None => "-".to_owned(),
        Some(text) => cut(&plain(text), CELL_CHARS).into_owned(),
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

/// Prints a table of schedules.
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
            shown(schedule.next),
            if schedule.is_paused { "paused".to_owned() } else { relative(schedule.next, now) },
        ]
    };
    let next = format!("NEXT ({})", zone_name());
    table(&["NAME", "KIND", "RULE", &next, ""], schedules.iter().map(row).collect(), out)
}

/// Prints rows in columns, each as wide as its widest cell.
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
