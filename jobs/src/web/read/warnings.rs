//! Makes the warnings of the overview: each names the true cause, and a page where it can be mended.

use std::time::SystemTime;

use crate::store::{KindGauges, StoredSchedule};
use crate::values::pending_reason::PendingReason;
use crate::values::setting::Settings;
use crate::values::time::Millis;
use crate::web::frame::encoded;
use crate::web::page::text::counted;
use crate::web::read::Reader;
use crate::web::read::kinds::first_pending;
use crate::web::views::Problem;
use crate::web::views::overview::{Overview, Warning};

/// Overdue for longer than this is worth a warning.
const OVERDUE_MS: i64 = 2_000;
/// A log above this size is worth a warning.
const LOG_BYTES: u64 = 256 << 20;
/// For how many kinds the cause of their delay is looked up: for those that have waited for the longest.
const MOST_KINDS: usize = 10;

pub(crate) fn warnings(
    reader: &Reader<'_>,
    view: &Overview,
    settings: &Settings,
) -> Result<Vec<Warning>, Problem> {
    let mut warnings = Vec::new();
    if view.is_paused {
        let text = "The queue is paused: no further job starts.".to_owned();
        warnings.push(warning("paused", text, "Resume it on the page of the kinds.", "kinds"));
    } else {
        add_overdue(reader, view, &mut warnings)?;
    }
    let log = reader.queue().own.stats().wal_bytes;
    if log > LOG_BYTES {
        let text = format!("The log of the file has {} MiB.", log >> 20);
        let cure = "Look for a connection that keeps a transaction open: it holds the log back.";
        warnings.push(warning("log_grows", text, cure, "store"));
    }
    let lost: u64 = view.minutes.iter().map(|minute| minute.interrupted).sum();
    if lost > 0 {
        let runs = counted(lost, "run was", "runs were");
        let text =
            format!("In the last hour {runs} interrupted: the process ended, or lost its claim.");
        let cure = "Look for crashes and for machines without contact.";
        warnings.push(warning("lost_claims", text, cure, "nodes"));
    }
    if view.schedules > 0 && !view.is_paused {
        let late = view.now.ms() - OVERDUE_MS;
        let is_missed = |it: &&StoredSchedule| {
            it.next.get() < late && !settings.paused_schedules.contains(&it.name)
        };
        let schedules = reader.client().stored_schedules()?;
        let missed = schedules.iter().filter(is_missed).count() as u64;
        if missed > 0 {
            let schedules = counted(missed, "schedule has", "schedules have");
            let text = format!("{schedules} missed an occurrence: no process made it.");
            let cure = "Start a process that handles their kinds.";
            warnings.push(warning("missed_schedule", text, cure, "schedules"));
        }
    }
    Ok(warnings)
}

fn warning(what: &'static str, text: String, cure: &str, link: &str) -> Warning {
    Warning { what, text, cure: cure.to_owned(), link: Some(link.to_owned()) }
}

/// Why the oldest overdue job of a kind waits.
struct Cause {
    what: &'static str,
    because: String,
    cure: &'static str,
    link: String,
}

/// Adds a warning for each cause for which jobs are overdue. Kinds that wait for the same cause share one.
fn add_overdue(
    reader: &Reader<'_>,
    view: &Overview,
    warnings: &mut Vec<Warning>,
) -> Result<(), Problem> {
    let now = Millis::clamped(view.now.ms());
    let is_late = view.oldest_overdue_ms.is_some_and(|ms| ms > OVERDUE_MS as u64);
    if !is_late {
        return Ok(());
    }
    let mut late: Vec<KindGauges> = reader.client().gauges()?;
    late.retain(|kind| kind.oldest_overdue.is_some_and(|age| age.as_millis() > OVERDUE_MS as u128));
    late.sort_by_key(|kind| core::cmp::Reverse(kind.oldest_overdue));
    let mut jobs = Vec::new();
    for kind in late.iter().take(MOST_KINDS) {
        let from = kind.oldest_overdue.map_or(Millis::ZERO, |age| now.minus(age));
        jobs.extend(first_pending(reader, &kind.kind, from)?);
    }
    let mut causes: Vec<(Cause, Vec<&str>)> = Vec::new();
    for (job, reasons) in jobs.iter().zip(reader.client().why_of(&jobs)?) {
        let own_page = format!("jobs/{}", job.id);
        let list = format!("jobs?state=overdue&kind={}", encoded(&job.kind));
        for reason in reasons {
            let Some(cause) = cause(&reason, view, &own_page, &list) else { continue };
            let same = |(known, _): &&mut (Cause, Vec<&str>)| {
                known.what == cause.what && known.because == cause.because
            };
            match causes.iter_mut().find(same) {
                Some((_, kinds)) => kinds.push(&job.kind),
                None => causes.push((cause, vec![&job.kind])),
            }
        }
    }
    for (cause, kinds) in causes {
        let names: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}")).collect();
        let kinds = if names.len() == 1 { "kind" } else { "kinds" };
        let text =
            format!("Jobs of the {kinds} {} are overdue: {}.", names.join(", "), cause.because);
        warnings.push(warning(cause.what, text, cause.cure, &cause.link));
    }
    Ok(())
}

/// Returns the cause behind a reason of a job, if it is one that somebody can do something about.
fn cause(reason: &PendingReason, view: &Overview, own_page: &str, list: &str) -> Option<Cause> {
    let now = Millis::clamped(view.now.ms()).to_system();
    let cause = |what, because: &str, cure, link: &str| {
        Some(Cause { what, because: because.to_owned(), cure, link: link.to_owned() })
    };
    match reason {
        // The queue has a warning of its own. A job may have been rescheduled meanwhile.
        PendingReason::NotDue(_) | PendingReason::QueuePaused => None,
        PendingReason::KindPaused => {
            let cure = "Resume it on the page of the kinds.";
            cause("kind_paused", "the kind is paused", cure, "kinds")
        }
        PendingReason::PartitionPaused => {
            let because = "the partition of the oldest is paused";
            cause("partition_paused", because, "Look at the oldest job.", own_page)
        }
        PendingReason::Limit(_) => {
            let because = format!("of the oldest, {reason}");
            cause("limit", &because, "Look at the limits.", "kinds#limits")
        }
        PendingReason::NoNode => {
            let because = "no process handles them that was seen in the last 30 seconds";
            let cure = "Start a process with a handler for them, or cancel them.";
            cause("no_handler", because, cure, list)
        }
        PendingReason::Interrupted(_) => {
            let because = "runs of the oldest ended with their process again and again";
            cause("interrupted", because, "Look at the oldest job.", own_page)
        }
        PendingReason::Turn { seen, .. } if is_long_ago(*seen, now) => {
            let because = "the process that handles them was last seen more than 30 seconds ago. It has ended, or long \
                 runs hold all of its threads";
            cause("no_node", because, "Look at the nodes.", "nodes")
        }
        // A process tells how much it has claimed with its next commit, so the jobs that are claimed count too.
        PendingReason::Turn { in_flight, most_runs, .. }
            if in_flight >= most_runs || view.running >= view.capacity =>
        {
            let because = format!(
                "the processes that handle them are busy. They can run {} at once",
                counted(*most_runs as u64, "job", "jobs"),
            );
            let cure = "Give them more threads, or start more of them.";
            cause("overdue", &because, cure, "nodes")
        }
        PendingReason::Turn { .. } => {
            let because = "the processes that handle them are behind";
            cause("overdue", because, "Look at the nodes.", "nodes")
        }
    }
}

fn is_long_ago(seen: SystemTime, now: SystemTime) -> bool {
    now.duration_since(seen).is_ok_and(|age| age.as_secs() > 30)
}
