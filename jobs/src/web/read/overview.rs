//! Makes the overview and the history: warnings, of which each names the true cause and a page where it can be mended,
//! minutes without gaps, and quantiles of buckets.

use std::time::SystemTime;

use crate::api::client::Client;
use crate::store::{KindGauges, StoredSchedule};
use crate::values::history::{Buckets, HistoryEntry, Step};
use crate::values::node::NodeInfo;
use crate::values::pending_reason::PendingReason;
use crate::values::setting::QueueSettings;
use crate::values::time::Millis;
use crate::web::page::counted;
use crate::web::page::layout::encoded;
use crate::web::params::wrong;
use crate::web::read::Reader;
use crate::web::read::kinds_and_limits::first_pending;
use crate::web::views::{
    Bound, History, Minute, Number, Overview, Problem, QueueRow, Time, Warning,
};

/// How many minutes the overview has.
const MINUTES: usize = 60;
pub(crate) fn overview(reader: &Reader<'_>) -> Result<Overview, Problem> {
    let (client, now) = (reader.client(), reader.now());
    let counts = client.count()?;
    let from = begin(Step::Minute, MINUTES, now).to_system();
    let to = now.to_system() + Step::Minute.length();
    let entries = client.history(Step::Minute, from..to)?;
    let minutes = without_gaps(&entries, Step::Minute, MINUTES, now);
    let last_full = &minutes[MINUTES - 2];
    let nodes = client.nodes()?;
    let seen = seen(client, &nodes);
    let settings = client.settings()?;
    let oldest = counts.oldest_overdue.map(|age| age.as_millis() as u64);
    let mut view = Overview {
        now: Time::new(now.to_system()),
        is_paused: settings.is_paused,
        pending: counts.pending,
        overdue: Number { count: counts.overdue.count, is_exact: counts.overdue.is_exact },
        oldest_overdue_ms: oldest,
        running: counts.running + counts.claimed,
        capacity: seen.iter().map(|node| node.most_runs as u64).sum(),
        dead: counts.dead,
        schedules: counts.schedules,
        completed_per_minute: last_full.completed,
        failed_per_minute: last_full.retried + last_full.dead,
        p99_late_ms: quantile(&sum(&minutes).lateness, 99),
        minutes: minutes.iter().map(minute).collect(),
        queues: (0..reader.queues.len()).map(|at| queue_row(reader, at)).collect(),
        warnings: Vec::new(),
    };
    view.warnings = warnings(reader, &view, &settings)?;
    Ok(view)
}

/// Returns the nodes that count as alive. On a file or in memory an idle node says nothing, and there is one at most.
pub(crate) fn seen<'a>(client: &Client, nodes: &'a [NodeInfo]) -> Vec<&'a NodeInfo> {
    let (now, on_server) = (client.present().to_system(), client.is_on_server());
    nodes.iter().filter(|node| !on_server || node.was_seen_lately(now)).collect()
}

fn queue_row(reader: &Reader<'_>, at: usize) -> QueueRow {
    let queue = &reader.queues[at];
    let client = &queue.client;
    let answers = client.count().and_then(|counts| Ok((counts, client.nodes()?)));
    let mut row = QueueRow {
        name: queue.name.clone(),
        is_current: at == reader.at,
        problem: None,
        pending: 0,
        overdue: None,
        dead: 0,
        nodes: 0,
    };
    match answers {
        Ok((counts, nodes)) => {
            let overdue = counts.overdue;
            row.pending = counts.pending;
            row.overdue = Some(Number { count: overdue.count, is_exact: overdue.is_exact });
            row.dead = counts.dead;
            row.nodes = seen(client, &nodes).len() as u64;
        }
        Err(error) => row.problem = Some(error.to_string()),
    }
    row
}

/// Makes the history of the queue or of a kind: `step=minute|hour`, `steps`, `kind`.
pub(crate) fn history(reader: &Reader<'_>) -> Result<History, Problem> {
    let (step, word, most, default) = match reader.params.get("step") {
        None | Some("minute") => (Step::Minute, "minute", 48 * 60, 60),
        Some("hour") => (Step::Hour, "hour", 90 * 24, 48),
        Some(_) => return Err(wrong("step is minute or hour")),
    };
    let steps = match reader.params.get("steps").map(str::parse::<usize>) {
        None => default,
        Some(Ok(steps)) if (1..=most).contains(&steps) => steps,
        Some(_) => return Err(wrong(&format!("steps is a number from 1 to {most}"))),
    };
    let kind = reader.params.name("kind")?;
    let (client, now) = (reader.client(), reader.now());
    let range = begin(step, steps, now).to_system()..now.to_system() + step.length();
    let entries = match &kind {
        Some(kind) => client.kind_named(kind).history(step, range)?,
        None => client.history(step, range)?,
    };
    let entries = without_gaps(&entries, step, steps, now);
    let entries = entries.iter().map(minute).collect();
    Ok(History { now: Time::new(now.to_system()), step: word, kind, entries })
}

/// Overdue for longer than this is worth a warning.
const OVERDUE_MS: i64 = 2_000;
/// A log above this size is worth a warning.
const LOG_BYTES: u64 = 256 << 20;
/// For how many kinds the cause of their delay is looked up: for those that have waited for the longest.
const MOST_KINDS: usize = 10;

pub(crate) fn warnings(
    reader: &Reader<'_>,
    view: &Overview,
    settings: &QueueSettings,
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

/// Returns the cause of a reason, if a person can remove the cause.
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

/// Fills the gaps of a history: returns `steps` entries, the last of which is that of `now`.
pub(crate) fn without_gaps(
    entries: &[HistoryEntry],
    step: Step,
    steps: usize,
    now: Millis,
) -> Vec<HistoryEntry> {
    let length = step.length();
    let ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let last = Millis::clamped(now.get() / ms * ms);
    let begin = |step: usize| {
        let back = u32::try_from(steps - 1 - step).unwrap_or(u32::MAX);
        last.minus(length.saturating_mul(back)).to_system()
    };
    let entry = |step: usize| {
        let begin = begin(step);
        let found = entries.iter().find(|entry| entry.begin == begin);
        found.cloned().unwrap_or_else(|| HistoryEntry::at(begin))
    };
    (0..steps).map(entry).collect()
}

/// Returns when a history of this many steps begins.
pub(crate) fn begin(step: Step, steps: usize, now: Millis) -> Millis {
    let ms = i64::try_from(step.length().as_millis()).unwrap_or(i64::MAX);
    let back = i64::try_from(steps).unwrap_or(i64::MAX).saturating_sub(1);
    Millis::clamped(now.get() / ms * ms - back.saturating_mul(ms))
}

pub(crate) fn minute(entry: &HistoryEntry) -> Minute {
    Minute {
        begin: Time::new(entry.begin),
        inserted: entry.inserted,
        completed: entry.completed,
        failed: entry.retried + entry.dead,
        retried: entry.retried,
        dead: entry.dead,
        snoozed: entry.snoozed,
        cancelled: entry.cancelled,
        interrupted: entry.interrupted,
        p50_late_ms: quantile(&entry.lateness, 50),
        p99_late_ms: quantile(&entry.lateness, 99),
        p50_run_ms: quantile(&entry.run_time, 50),
        p99_run_ms: quantile(&entry.run_time, 99),
    }
}

/// Adds up entries of a history.
pub(crate) fn sum(entries: &[HistoryEntry]) -> HistoryEntry {
    let mut sum = HistoryEntry::at(Millis::ZERO.to_system());
    for entry in entries {
        sum.inserted += entry.inserted;
        sum.completed += entry.completed;
        sum.retried += entry.retried;
        sum.snoozed += entry.snoozed;
        sum.dead += entry.dead;
        sum.cancelled += entry.cancelled;
        sum.interrupted += entry.interrupted;
        for (total, count) in sum.lateness.iter_mut().zip(&entry.lateness) {
            *total += count;
        }
        for (total, count) in sum.run_time.iter_mut().zip(&entry.run_time) {
            *total += count;
        }
    }
    sum
}

/// Returns the bound of the bucket that a quantile falls into.
pub(crate) fn quantile(counts: &[u64], in_hundred: u64) -> Option<Bound> {
    Buckets::bound_of(counts, in_hundred).map(Bound::of)
}
