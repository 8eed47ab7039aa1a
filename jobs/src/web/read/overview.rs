//! Makes the overview and the history.

use crate::store::StoredSchedule;
use crate::values::history::Step;
use crate::values::node::NodeInfo;
use crate::values::setting::Settings;
use crate::values::time::Millis;
use crate::web::params::wrong;
use crate::web::read::{Reader, figures};
use crate::web::views::overview::{History, Overview, QueueRow, Warning};
use crate::web::views::{Number, Problem, Time};

/// How many minutes the overview has.
const MINUTES: usize = 60;
/// Overdue for longer than this is worth a warning.
const OVERDUE_MS: u64 = 2_000;
/// A log above this size is worth a warning.
const LOG_BYTES: u64 = 256 << 20;
/// The most kinds that a warning names.
const MOST_NAMED: usize = 20;

pub(crate) fn overview(reader: &Reader<'_>) -> Result<Overview, Problem> {
    let (client, now) = (reader.client(), reader.now());
    let counts = client.count()?;
    let from = figures::begin(Step::Minute, MINUTES, now).to_system();
    let to = now.to_system() + Step::Minute.length();
    let entries = client.history(Step::Minute, from..to)?;
    let minutes = figures::without_gaps(&entries, Step::Minute, MINUTES, now);
    let last_full = &minutes[MINUTES - 2];
    let nodes = client.nodes()?;
    let seen = seen(&nodes, now);
    let settings = client.settings()?;
    let oldest = counts.oldest_overdue.map(|age| age.as_millis() as u64);
    let mut view = Overview {
        now: Time::new(now.to_system()),
        is_paused: settings.is_paused,
        pending: counts.pending,
        overdue: Number { count: counts.overdue.count, is_exact: counts.overdue.is_exact },
        oldest_overdue_ms: oldest,
        running: counts.running + counts.claimed,
        capacity: seen.iter().map(|node| node.max_in_flight as u64).sum(),
        dead: counts.dead,
        schedules: counts.schedules,
        completed_per_minute: last_full.completed,
        failed_per_minute: last_full.retried + last_full.dead,
        p99_late_ms: figures::quantile(&figures::sum(&minutes).lateness, 99),
        minutes: minutes.iter().map(figures::minute).collect(),
        queues: (0..reader.queues.len()).map(|at| queue_row(reader, at)).collect(),
        warnings: Vec::new(),
    };
    view.warnings = warnings(reader, &view, &seen, &settings)?;
    Ok(view)
}

/// Returns the nodes that count as alive. A node of a file or of memory may be idle, and says nothing then.
pub(crate) fn seen(nodes: &[NodeInfo], now: Millis) -> Vec<&NodeInfo> {
    nodes.iter().filter(|node| node.was_seen_lately(now.to_system())).collect()
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
            row.nodes = seen(&nodes, client.present()).len() as u64;
        }
        Err(error) => row.problem = Some(error.to_string()),
    }
    row
}

fn warnings(
    reader: &Reader<'_>,
    view: &Overview,
    seen: &[&NodeInfo],
    settings: &Settings,
) -> Result<Vec<Warning>, Problem> {
    let mut warnings = Vec::new();
    let mut warn = |what, text: String, cure: &str, link: Option<&str>| {
        let (cure, link) = (cure.to_owned(), link.map(str::to_owned));
        warnings.push(Warning { what, text, cure, link });
    };
    let is_late = view.oldest_overdue_ms.is_some_and(|ms| ms > OVERDUE_MS);
    if view.is_paused {
        let text = "The queue is paused: no further job starts.".to_owned();
        warn("paused", text, "Resume it on the page of the kinds.", Some("kinds"));
    } else if is_late && seen.is_empty() {
        let text =
            "Jobs are overdue, and no process that runs jobs was seen in the last 30 seconds.";
        warn("no_node", text.to_owned(), "Start a process that runs them.", Some("nodes"));
    } else if is_late {
        let kinds = reader.client().kinds()?;
        let handled = |kind: &String| seen.iter().any(|node| node.kinds.contains(kind));
        let strange = kinds.iter().filter(|(kind, jobs)| *jobs > 0 && !handled(kind));
        let names: Vec<String> =
            strange.take(MOST_NAMED).map(|(kind, _)| format!("{kind:?}")).collect();
        if names.is_empty() {
            let text =
                "Jobs are overdue: the processes that run them are busy, or behind.".to_owned();
            let cure = "Look which kinds wait, and give them more threads or processes.";
            warn("overdue", text, cure, Some("kinds"));
        } else {
            let names = names.join(", ");
            let text = format!("No process that was seen lately handles the kinds {names}.");
            let cure = "Start a process with a handler for them, or cancel their jobs.";
            warn("no_handler", text, cure, Some("kinds"));
        }
    }
    let log = reader.client().stats().wal_bytes;
    if log > LOG_BYTES {
        let text = format!("The log of the file has {} MiB.", log >> 20);
        let cure = "Look for a connection that keeps a transaction open: it holds the log back.";
        warn("log_grows", text, cure, Some("store"));
    }
    let lost: u64 = view.minutes.iter().map(|minute| minute.interrupted).sum();
    if lost > 0 {
        let text = format!(
            "In the last hour {lost} runs were interrupted: their process ended, or lost its claim."
        );
        warn(
            "lost_claims",
            text,
            "Look for crashes and for machines without contact.",
            Some("nodes"),
        );
    }
    let late = view.now.ms() - OVERDUE_MS as i64;
    if view.schedules > 0 && !view.is_paused {
        let schedules = reader.client().stored_schedules()?;
        let is_missed = |it: &&StoredSchedule| {
            it.next.get() < late && !settings.paused_schedules.contains(&it.name)
        };
        let missed = schedules.iter().filter(is_missed).count();
        if missed > 0 {
            let text = format!("{missed} schedules have missed an occurrence: no process made it.");
            let cure = "Start a process that handles their kinds.";
            warn("missed_schedule", text, cure, Some("schedules"));
        }
    }
    Ok(warnings)
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
    let range = figures::begin(step, steps, now).to_system()..now.to_system() + step.length();
    let entries = match &kind {
        Some(kind) => client.kind_named(kind).history(step, range)?,
        None => client.history(step, range)?,
    };
    let entries = figures::without_gaps(&entries, step, steps, now);
    let entries = entries.iter().map(figures::minute).collect();
    Ok(History { now: Time::new(now.to_system()), step: word, kind, entries })
}
