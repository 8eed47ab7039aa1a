//! The overview. It has warnings, each with its true cause and a remedy, and slowdowns: pauses, holds and operators'
//! limits.

use serde::Serialize;

use super::history::{HistoryRow, MINUTES, Rates};
use super::queue::View;
use super::values::Time;
use crate::store::{KindGauges, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Number;
use crate::values::pending_reason::PendingReason;
use crate::values::setting::QueueSettings;
use crate::values::stored_limits::{LimitScope, Slowed};
use crate::values::time::{Millis, in_words};

/// Overdue for longer than this is worth a warning.
const OVERDUE_MS: i64 = 2_000;
/// A log above this size is worth a warning.
const LOG_BYTES: u64 = 256 << 20;
/// The overview has this many slowdowns at most.
const MOST_SLOWDOWNS: usize = 10;
/// For how many kinds the cause of their delay is looked up: for those that have waited for the longest.
const MOST_KINDS: usize = 10;

/// The figures of a queue.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// When it was asked for, by the clock of the store.
    pub now: Time,
    /// The queue is paused.
    pub is_paused: bool,
    /// Jobs that wait.
    pub pending: u64,
    /// Those of them that are due.
    pub overdue: Number,
    /// How long ago the first of them was due.
    pub oldest_overdue_ms: Option<u64>,
    /// Jobs that run, of every process, and those that are claimed.
    pub running: u64,
    /// How many runs the nodes can have under way at once.
    pub capacity: u64,
    /// Jobs that are dead.
    pub dead: u64,
    /// Schedules.
    pub schedules: u64,
    /// Processes that run jobs: on a server those that were seen within 30 seconds.
    pub alive_nodes: u64,
    /// Of the last full minute: runs that ended well.
    pub completed_per_minute: u64,
    /// Of the last full minute: runs that failed, retried or not.
    pub failed_per_minute: u64,
    /// Of the last sixty minutes.
    pub hour: Rates,
    /// Of the present minute and the one before it.
    pub recent: Rates,
    /// Sixty minutes, the oldest first, without gaps. The last one is not over yet.
    pub minutes: Vec<HistoryRow>,
    /// Problems that need an operator.
    pub warnings: Vec<Warning>,
    /// The pauses, holds and operators' limits, ten rows at most.
    pub slowdowns: Slowdowns,
}

/// Everything that stops or slows jobs until a person lifts it, or until its time is over: pauses, holds, and limits
/// that an operator has set with the dashboard or the command. A program's limit is not one of these.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Slowdowns {
    /// The pause of the queue, the pauses of kinds, and then those of the scopes: see [`Warning::what`].
    pub rows: Vec<Warning>,
    /// How many there are.
    pub total: u64,
}

/// A problem that needs an operator.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// A word for programs: `paused`, `kind_paused`, `partition_paused`, `limit`, `no_handler`, `no_node`, `overdue`,
    /// `interrupted`, `log_grows`, `lost_claims`, `missed_schedule`; of [`Slowdowns`] also `held`, `limited`.
    pub what: &'static str,
    /// The problem, in a sentence.
    pub text: String,
    /// The remedy, in a sentence.
    pub cure: String,
    /// The page, kind or job where the problem is seen.
    pub about: About,
}

/// The place to which a [`Warning`] leads.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum About {
    /// The kinds, where a pause ends.
    #[default]
    Kinds,
    /// One kind, with its limits and its partitions.
    Kind(String),
    /// The limits.
    Limits,
    /// The processes.
    Nodes,
    /// The schedules.
    Schedules,
    /// The store.
    Store,
    /// One job.
    Job(JobId),
    /// The overdue jobs of a kind.
    Overdue(String),
}

/// Says whether a schedule has missed an occurrence: nothing has made it though it was due for a while.
pub(super) fn is_missed(schedule: &StoredSchedule, is_paused: bool, now: Millis) -> bool {
    !is_paused && now.get() - schedule.next.get() > OVERDUE_MS
}

impl View {
    /// Returns the figures of the queue.
    pub fn overview(&self) -> Result<Overview, StoreError> {
        let (client, now) = (&self.client, self.present());
        let counts = client.count()?;
        let minutes = self.minutes(None, now)?;
        let last_full = &minutes[MINUTES - 2];
        let nodes = client.nodes()?;
        let nodes: Vec<_> = nodes.iter().filter(|node| self.is_there(node)).collect();
        let stored = self.stored_settings()?;
        let settings = QueueSettings::of(&stored);
        let mut view = Overview {
            now: Time(now),
            is_paused: settings.is_paused,
            pending: counts.pending,
            overdue: counts.overdue,
            oldest_overdue_ms: counts.oldest_overdue.map(|age| age.as_millis() as u64),
            running: counts.running + counts.claimed,
            capacity: nodes.iter().map(|node| node.most_runs as u64).sum(),
            dead: counts.dead,
            schedules: counts.schedules,
            alive_nodes: nodes.len() as u64,
            completed_per_minute: last_full.completed,
            failed_per_minute: last_full.retried + last_full.dead,
            hour: Rates::of(&minutes, now),
            recent: Rates::of(&minutes[MINUTES - 2..], now),
            minutes: minutes.iter().map(HistoryRow::of).collect(),
            warnings: Vec::new(),
            slowdowns: self.slowdowns_in(&stored, MOST_SLOWDOWNS),
        };
        view.warnings = self.warnings(&view, &settings)?;
        Ok(view)
    }

    /// Returns the pauses, holds and operators' limits, `most` rows at most. It reads only the settings of the queue.
    pub fn slowdowns(&self, most: usize) -> Result<Slowdowns, StoreError> {
        Ok(self.slowdowns_in(&self.stored_settings()?, most))
    }

    fn slowdowns_in(&self, stored: &[(String, String)], most: usize) -> Slowdowns {
        let (settings, now) = (QueueSettings::of(stored), self.present());
        let mut kinds: Vec<String> = settings.paused_kinds.into_iter().collect();
        kinds.sort_unstable();
        let slowed = self.client.slowed_in(stored);
        let total = u64::from(settings.is_paused) + (kinds.len() + slowed.len()) as u64;
        let mut rows = Vec::new();
        let mut say = |what, text: String, cure: &str, about| {
            rows.push(Warning { what, text, cure: cure.to_owned(), about });
        };
        if settings.is_paused {
            say("paused", "Paused: the queue.".to_owned(), "Resume it.", About::Kinds);
        }
        for kind in kinds.into_iter().take(most) {
            let text = format!("Paused: the kind {kind:?}.");
            say("kind_paused", text, "Resume it.", About::Kind(kind));
        }
        for (scope, slowed) in slowed.into_iter().take(most) {
            let (what, text, cure) = match slowed {
                Slowed::Paused => ("partition_paused", format!("Paused: {scope}."), "Resume it."),
                Slowed::Held(until) => {
                    let text = format!("Held for another {}: {scope}.", in_words(until.since(now)));
                    ("held", text, "End the hold.")
                }
                Slowed::ByHand(limit) => {
                    let text = format!("Limited by hand: {scope}, {limit}.");
                    ("limited", text, "Lift the limit.")
                }
            };
            let about = match scope {
                LimitScope::Queue | LimitScope::Flow(_) => About::Limits,
                LimitScope::Each(kind) | LimitScope::Partition { kind, .. } => About::Kind(kind),
            };
            say(what, text, cure, about);
        }
        rows.truncate(most);
        Slowdowns { rows, total }
    }

    fn warnings(
        &self,
        view: &Overview,
        settings: &QueueSettings,
    ) -> Result<Vec<Warning>, StoreError> {
        let mut warnings = Vec::new();
        let mut warn = |what, text: String, cure: &str, about| {
            warnings.push(Warning { what, text, cure: cure.to_owned(), about });
        };
        if view.is_paused {
            let text = "The queue is paused: no further job starts.".to_owned();
            warn("paused", text, "Resume the queue.", About::Kinds);
        } else {
            for (cause, kinds) in self.causes(view)? {
                let names: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}")).collect();
                let kinds = if names.len() == 1 { "kind" } else { "kinds" };
                let (names, because) = (names.join(", "), &cause.because);
                let text = format!("Jobs of the {kinds} {names} are overdue: {because}.");
                warn(cause.what, text, cause.cure, cause.about);
            }
        }
        let log = self.own.stats().wal_bytes;
        if log > LOG_BYTES {
            let text = format!("The log of the file has {} MiB.", log >> 20);
            let cure =
                "Look for a connection that keeps a transaction open: it holds the log back.";
            warn("log_grows", text, cure, About::Store);
        }
        let lost: u64 = view.minutes.iter().map(|minute| minute.interrupted).sum();
        if lost > 0 {
            let runs = counted(lost, "run was", "runs were");
            let text = format!(
                "In the last hour {runs} interrupted: the process ended, or lost its claim."
            );
            let cure = "Look for crashes and for machines without contact.";
            warn("lost_claims", text, cure, About::Nodes);
        }
        if view.schedules > 0 && !view.is_paused {
            let is_missed = |it: &&StoredSchedule| {
                is_missed(it, settings.paused_schedules.contains(&it.name), view.now.0)
            };
            let missed = self.stored_schedules()?.iter().filter(is_missed).count() as u64;
            if missed > 0 {
                let schedules = counted(missed, "schedule has", "schedules have");
                let text = format!("{schedules} missed an occurrence: no process made it.");
                let cure = "Start a process that handles their kinds.";
                warn("missed_schedule", text, cure, About::Schedules);
            }
        }
        Ok(warnings)
    }

    /// Returns each cause for which jobs are overdue, with the kinds that wait for it.
    fn causes(&self, view: &Overview) -> Result<Vec<(Cause, Vec<String>)>, StoreError> {
        let mut causes: Vec<(Cause, Vec<String>)> = Vec::new();
        if view.oldest_overdue_ms.is_none_or(|ms| ms <= OVERDUE_MS as u64) {
            return Ok(causes);
        }
        let is_late = |kind: &KindGauges| {
            kind.oldest_overdue.is_some_and(|age| age.as_millis() > OVERDUE_MS as u128)
        };
        let mut late = self.gauges()?;
        late.retain(is_late);
        late.sort_by_key(|kind| core::cmp::Reverse(kind.oldest_overdue));
        let mut jobs = Vec::new();
        for kind in late.iter().take(MOST_KINDS) {
            let from = kind.oldest_overdue.map_or(Millis::ZERO, |age| view.now.0.minus(age));
            jobs.extend(self.first_pending(&kind.kind, from)?);
        }
        let reasons = self.client.why_of(&jobs)?;
        for (job, reasons) in jobs.into_iter().zip(reasons) {
            for reason in reasons {
                let Some(cause) = Cause::of(&reason, view, job.id, &job.kind) else { continue };
                match causes.iter_mut().find(|(known, _)| known.because == cause.because) {
                    Some((_, kinds)) => kinds.push(job.kind.clone()),
                    None => causes.push((cause, vec![job.kind.clone()])),
                }
            }
        }
        Ok(causes)
    }
}

/// Why the oldest overdue job of a kind waits.
struct Cause {
    what: &'static str,
    because: String,
    cure: &'static str,
    about: About,
}

impl Cause {
    /// Returns the cause of a reason, if a person can remove the cause.
    fn of(reason: &PendingReason, view: &Overview, id: JobId, kind: &str) -> Option<Cause> {
        let look = "Look at the oldest job.";
        let (what, because, cure, about): (_, String, _, _) = match reason {
            // The queue has a warning of its own. A job may have been rescheduled meanwhile.
            PendingReason::NotDue(_) | PendingReason::QueuePaused => return None,
            PendingReason::KindPaused => {
                ("kind_paused", "the kind is paused".into(), "Resume the kind.", About::Kinds)
            }
            PendingReason::PartitionPaused => {
                let because = "the partition of the oldest is paused".into();
                ("partition_paused", because, look, About::Job(id))
            }
            PendingReason::Limit(_) => {
                ("limit", format!("of the oldest, {reason}"), "Look at the limits.", About::Limits)
            }
            PendingReason::NoNode => {
                let because = "no process handles them that was seen in the last 30 seconds".into();
                let cure = "Start a process with a handler for them, or cancel them.";
                ("no_handler", because, cure, About::Overdue(kind.to_owned()))
            }
            PendingReason::Interrupted(_) => {
                let because = "runs of the oldest ended with their process again and again".into();
                ("interrupted", because, look, About::Job(id))
            }
            PendingReason::Turn { seen, .. } if view.now.since((*seen).into()).as_secs() > 30 => {
                let because = "the process that handles them was last seen more than 30 seconds ago. It has ended, or \
                     long runs hold all of its threads";
                ("no_node", because.into(), "Look at the nodes.", About::Nodes)
            }
            // A process tells how much it has claimed with its next commit, so the jobs that are claimed count too.
            PendingReason::Turn { in_flight, most_runs, .. }
                if in_flight >= most_runs || view.running >= view.capacity =>
            {
                let jobs = counted(*most_runs as u64, "job", "jobs");
                let because =
                    format!("the processes that handle them are busy. They can run {jobs} at once");
                let cure = "Give them more threads, or start more of them.";
                ("overdue", because, cure, About::Nodes)
            }
            PendingReason::Turn { .. } => {
                let because = "the processes that handle them are behind".into();
                ("overdue", because, "Look at the nodes.", About::Nodes)
            }
        };
        Some(Cause { what, because, cure, about })
    }
}

/// A number with its noun: `1 job`, `344 jobs`.
fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}
