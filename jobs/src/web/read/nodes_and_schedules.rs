//! Makes the views of the schedules, the nodes and the store.

use crate::store::StoredSchedule;
use crate::values::schedule::Rule;
use crate::values::time::Millis;
use crate::web::read::{MOST_ROWS, Reader};
use crate::web::views::{NodeRow, Nodes, Problem, ScheduleRow, Schedules, Store, Time};

/// How many occurrences of a schedule are shown.
const NEXT: usize = 5;
/// An occurrence that is late by more than this was missed.
const MISSED_MS: i64 = 2_000;

pub(crate) fn schedules(reader: &Reader<'_>) -> Result<Schedules, Problem> {
    let (now, rows) = (reader.now(), reader.rows()?);
    let after = reader.params.name("after")?;
    let mut all = reader.client().stored_schedules()?;
    let paused = reader.client().settings()?.paused_schedules;
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let begin = all.partition_point(|it| after.as_ref().is_some_and(|after| it.name <= *after));
    let shown = &all[begin..all.len().min(begin + rows)];
    let is_last = begin + shown.len() == all.len();
    Ok(Schedules {
        now: Time::new(now.to_system()),
        rows: shown
            .iter()
            .map(|schedule| schedule_row(schedule, paused.contains(&schedule.name), now))
            .collect(),
        next: if is_last { None } else { shown.last().map(|schedule| schedule.name.clone()) },
        is_later_page: begin > 0,
    })
}

fn schedule_row(schedule: &StoredSchedule, is_paused: bool, now: Millis) -> ScheduleRow {
    let rule = &schedule.schedule.rule;
    let first = match is_paused {
        true => rule.skip_to(schedule.next, now),
        false => Some(schedule.next),
    };
    let mut next: Vec<Millis> = first.into_iter().collect();
    while let Some(time) =
        next.last().and_then(|last| rule.after(*last)).filter(|_| next.len() < NEXT)
    {
        next.push(time);
    }
    ScheduleRow {
        name: schedule.name.clone(),
        kind: schedule.kind.clone(),
        rule: schedule.rule_text.clone(),
        in_words: in_words(schedule),
        next: next.into_iter().map(|time| Time::new(time.to_system())).collect(),
        is_missed: !is_paused && now.get() - schedule.next.get() > MISSED_MS,
        is_paused,
    }
}

fn in_words(schedule: &StoredSchedule) -> String {
    match &schedule.schedule.rule {
        Rule::Every(ms) => every(*ms),
        #[cfg(feature = "cron")]
        Rule::Cron(cron) => {
            format!("at the times of {}, in {}", cron.expression(), cron.zone_name())
        }
        Rule::Unknown => schedule.rule_text.clone(),
    }
}

/// Returns a period in its largest whole unit: `every 5 minutes`.
fn every(ms: u64) -> String {
    let units = [
        (604_800_000, "week"),
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1_000, "second"),
        (1, "millisecond"),
    ];
    let unit = units.into_iter().find(|(length, _)| ms > 0 && ms.is_multiple_of(*length));
    let (length, name) = unit.unwrap_or((1, "millisecond"));
    match ms / length {
        1 => format!("every {name}"),
        many => format!("every {many} {name}s"),
    }
}

pub(crate) fn nodes(reader: &Reader<'_>) -> Result<Nodes, Problem> {
    let now = reader.now();
    let mut nodes = reader.client().nodes()?;
    nodes.sort_by_key(|node| core::cmp::Reverse(node.seen));
    let total = nodes.len() as u64;
    let row = |node: crate::values::node::NodeInfo| NodeRow {
        is_quiet: !node.was_seen_lately(now.to_system()),
        host: node.host,
        pid: node.pid,
        version: node.version,
        started: Time::new(node.started),
        seen: Time::new(node.seen),
        threads: node.threads.map(|threads| threads as u64),
        in_flight: node.in_flight as u64,
        most_runs: node.most_runs as u64,
        kinds: node.kinds,
    };
    let rows = nodes.into_iter().take(MOST_ROWS).map(row).collect();
    Ok(Nodes { now: Time::new(now.to_system()), rows, total })
}

pub(crate) fn store(reader: &Reader<'_>) -> Result<Store, Problem> {
    let client = reader.client();
    let asked = crate::web::params::now();
    let counts = client.count()?;
    let answered_in_ms = crate::web::params::now().duration_since(asked).as_millis() as u64;
    let stats = reader.queue().own.stats();
    #[cfg(feature = "sqlite-unbundled")]
    let path = client.file();
    #[cfg(not(feature = "sqlite-unbundled"))]
    let path: Option<&std::path::Path> = None;
    let size = |path: &std::path::Path| std::fs::metadata(path).ok().map(|file| file.len());
    let log = path.map(|path| {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        std::path::PathBuf::from(log)
    });
    Ok(Store {
        now: Time::new(reader.now().to_system()),
        sort: match (path, client.is_on_server()) {
            (_, true) => "server",
            (Some(_), false) => "file",
            (None, false) => "memory",
        },
        path: path.map(|path| path.display().to_string()),
        bytes: path.and_then(size),
        log_bytes: log.as_deref().and_then(size),
        version: env!("CARGO_PKG_VERSION"),
        pending: counts.pending,
        running: counts.running + counts.claimed,
        dead: counts.dead,
        schedules: counts.schedules,
        commits: stats.commits,
        syncs: stats.syncs,
        failed_commits: stats.failed_commits,
        answered_in_ms,
    })
}
