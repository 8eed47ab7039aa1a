//! Makes the overview and the history.

use crate::api::client::Client;
use crate::values::history::Step;
use crate::values::node::NodeInfo;
use crate::web::params::wrong;
use crate::web::read::{Reader, figures, warnings};
use crate::web::views::overview::{History, Overview, QueueRow};
use crate::web::views::{Number, Problem, Time};

/// How many minutes the overview has.
const MINUTES: usize = 60;
pub(crate) fn overview(reader: &Reader<'_>) -> Result<Overview, Problem> {
    let (client, now) = (reader.client(), reader.now());
    let counts = client.count()?;
    let from = figures::begin(Step::Minute, MINUTES, now).to_system();
    let to = now.to_system() + Step::Minute.length();
    let entries = client.history(Step::Minute, from..to)?;
    let minutes = figures::without_gaps(&entries, Step::Minute, MINUTES, now);
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
        p99_late_ms: figures::quantile(&figures::sum(&minutes).lateness, 99),
        minutes: minutes.iter().map(figures::minute).collect(),
        queues: (0..reader.queues.len()).map(|at| queue_row(reader, at)).collect(),
        warnings: Vec::new(),
    };
    view.warnings = warnings::warnings(reader, &view, &settings)?;
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
    let range = figures::begin(step, steps, now).to_system()..now.to_system() + step.length();
    let entries = match &kind {
        Some(kind) => client.kind_named(kind).history(step, range)?,
        None => client.history(step, range)?,
    };
    let entries = figures::without_gaps(&entries, step, steps, now);
    let entries = entries.iter().map(figures::minute).collect();
    Ok(History { now: Time::new(now.to_system()), step: word, kind, entries })
}
