//! The kinds, one kind with its settings, and the limits: those of the first scopes of the queue, and of the shown
//! kinds.

use core::ops::Range;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Serialize;

use super::history::Rates;
use super::queue::View;
use super::values::Time;
use crate::api::limits::{SeenLimit, flow_in, flows_in};
use crate::api::request;
use crate::store::{JobSet, KindGauges, PageRequest};
use crate::values::error::StoreError;
use crate::values::history::MOST_KINDS;
use crate::values::info::{DeadByError, JobInfo, JobState, Number};
use crate::values::limit::Limit;
use crate::values::node::NodeInfo;
use crate::values::setting::{Keep, QueueSettings};
use crate::values::stored_limits::LimitScope;
use crate::values::time::Millis;

/// The most groups of dead jobs that are added up to the dead jobs of each kind.
pub(super) const MOST_GROUPS: usize = 1_000;

/// Kinds of a queue.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Kinds {
    /// When they were asked for.
    pub now: Time,
    /// Which they are.
    pub filter: KindFilter,
    /// The queue is paused.
    pub is_paused: bool,
    /// A row for each.
    pub rows: Vec<KindRow>,
    /// How many kinds the filter takes.
    pub total: u64,
    /// The kind after which the next page begins, if there is one.
    pub next: Option<String>,
    /// The limits of the whole queue.
    pub limits: Limits,
}

/// Which kinds a list has, and in which order.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct KindFilter {
    /// With this text in the name. Upper and lower case are the same.
    pub text: Option<String>,
    /// True: by the number of jobs, with the dead ones; 200 at most, on one page. False: paused kinds first, then by
    /// name.
    pub by_jobs: bool,
}

/// A kind.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct KindRow {
    /// Its name.
    pub kind: String,
    /// It is paused by itself.
    pub is_paused: bool,
    /// A process that handles it is there: on a server one that was seen within 30 seconds.
    pub has_node: bool,
    /// Jobs that wait.
    pub pending: u64,
    /// Jobs that run, of every process, and those that are claimed.
    pub running: u64,
    /// How long ago its earliest pending job was due, if that has passed.
    pub oldest_overdue_ms: Option<u64>,
    /// When its earliest pending job is due.
    pub next_due: Option<Time>,
    /// Dead jobs, of the groups with the most of them: exact unless there are very many groups.
    pub dead: Number,
    /// Of the last full minute: runs that ended well.
    pub completed_per_minute: u64,
    /// Of the last sixty minutes.
    pub hour: Rates,
    /// Of the present minute and the one before it.
    pub recent: Rates,
    /// Runs that ended well in each of the last sixty minutes, the oldest first.
    pub completed_by_minute: Vec<u64>,
    /// How much earlier than they are its jobs count as due.
    pub head_start_ms: Option<u64>,
    /// Which completed jobs are kept, in words.
    pub keeps: Option<String>,
    /// The limit of its flow, and that of each of its partitions: those that there are.
    pub limits: Vec<LimitRow>,
}

/// A kind with its settings.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct KindPage {
    /// When it was asked for.
    pub now: Time,
    /// The kind.
    #[serde(flatten)]
    pub kind: KindRow,
    /// The queue has had a job of it.
    pub is_known: bool,
    /// Its flow: itself, or the one that the program has given it.
    pub flow: String,
    /// Its partitions that have a limit of their own, are held or are paused.
    pub partitions: Limits,
}

/// The limits of a queue, or of the partitions of a kind.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Limits {
    /// First the scopes that are paused or held, or whose limit an operator has set; then the others. Each of these two
    /// parts has first the queue, then flows, then each partition of a kind, then partitions.
    pub rows: Vec<LimitRow>,
    /// How many scopes have a limit, are held, or are paused partitions.
    pub total: u64,
}

/// A scope: its limit, and how far it is reached.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitRow {
    /// `queue`, `flow`, `each_partition`, `partition`.
    pub scope: &'static str,
    /// The flow, of a flow.
    pub flow: Option<String>,
    /// The kind, of partitions.
    pub kind: Option<String>,
    /// The partition, of one.
    pub partition: Option<String>,
    /// Its claimed jobs. Of each partition of a kind: those of the partition with the most.
    pub running: u64,
    /// How many of its jobs may run at once.
    pub most_running: Option<u32>,
    /// How many of its jobs may start in `per_ms`.
    pub rate: Option<u32>,
    /// The period of the rate.
    pub per_ms: Option<u64>,
    /// How many starts may come at once, of its rate.
    pub burst: Option<u32>,
    /// The share of its turns.
    pub weight: Option<u32>,
    /// Its overdue jobs. `None`: it is a partition, whose jobs are not counted.
    pub waiting: Option<Number>,
    /// The queue or the partition is paused.
    pub is_paused: bool,
    /// It lets no further job start now.
    pub is_reached: bool,
    /// When its next job may start, if its rate lets none start now.
    pub next_start: Option<Time>,
    /// Until when no job of it starts, if it is held.
    pub held_until: Option<Time>,
    /// If an operator has set the limit: the limit that the scope had before, in words. It comes back when the
    /// operator's limit is lifted.
    pub before: Option<String>,
}

/// The answers of the store that every row of a kind needs.
struct Asked {
    now: Millis,
    stored: Vec<(String, String)>,
    settings: QueueSettings,
    nodes: Vec<NodeInfo>,
    gauges: Vec<KindGauges>,
    groups: Vec<DeadByError>,
    dead: HashMap<String, u64>,
}

impl View {
    /// Returns at most `most` kinds, from the one behind `after` on: [`Kinds::next`]. A list by jobs has no `after`.
    pub fn kinds(
        &self,
        filter: &KindFilter,
        after: Option<&str>,
        most: usize,
    ) -> Result<Kinds, StoreError> {
        let asked = self.asked()?;
        let mut all = self.client.queue().kinds()?;
        // A kind that never had a job can be paused.
        let mut paused: Vec<String> = asked.settings.paused_kinds.iter().cloned().collect();
        paused.retain(|name| !all.iter().any(|(its, _)| its == name));
        all.extend(paused.into_iter().map(|name| (name, 0)));
        if let Some(text) = filter.text.as_ref().map(|text| text.to_lowercase()) {
            all.retain(|(name, _)| name.to_lowercase().contains(&text));
        }
        if filter.by_jobs {
            let jobs =
                |(name, jobs): &(String, u64)| jobs + asked.dead.get(name).copied().unwrap_or(0);
            all.sort_by(|a, b| jobs(b).cmp(&jobs(a)).then_with(|| a.0.cmp(&b.0)));
            let rows = self.rows_of(&asked, filter, &all, 0..most.min(MOST_KINDS))?;
            return Ok(Kinds { next: None, ..rows });
        }
        let place = |name: &str| (!asked.settings.paused_kinds.contains(name), name.to_owned());
        all.sort_by_cached_key(|(name, _)| place(name));
        let after = after.map(place);
        let is_before =
            |(name, _): &(String, u64)| after.as_ref().is_some_and(|it| place(name) <= *it);
        let begin = all.partition_point(is_before);
        self.rows_of(&asked, filter, &all, begin..begin.saturating_add(most))
    }

    /// Returns a kind with its settings. It has at most `most` of the partitions that have a limit of their own, are
    /// held or are paused. The queue need not have had a job of the kind.
    pub fn kind(&self, name: &str, most: usize) -> Result<KindPage, StoreError> {
        let asked = self.asked()?;
        let all = self.client.queue().kinds()?.into_iter().find(|(its, _)| its == name);
        let is_known = all.is_some();
        let one = [all.unwrap_or_else(|| (name.to_owned(), 0))];
        let is_its = |scope: &LimitScope| match scope {
            LimitScope::Partition { kind, .. } => kind == name,
            _ => false,
        };
        let (partitions, limits) =
            self.limits_of(&asked.stored, &asked.gauges, most, &one, is_its)?;
        let [(_, jobs)] = one;
        Ok(KindPage {
            now: Time(asked.now),
            kind: self.kind_row(&asked, name, jobs, limits.into_iter().flatten().collect())?,
            is_known,
            flow: flow_in(&asked.stored, name),
            partitions,
        })
    }

    fn asked(&self) -> Result<Asked, StoreError> {
        let groups = self.client.dead_by_error(MOST_GROUPS)?;
        let mut dead: HashMap<String, u64> = HashMap::new();
        for group in &groups {
            *dead.entry(group.kind.clone()).or_default() += group.jobs;
        }
        let (gauges, stored) = (self.gauges()?, self.stored_settings()?);
        let settings = QueueSettings::of(&stored);
        let mut nodes = self.client.nodes()?;
        nodes.retain(|node| self.is_there(node));
        Ok(Asked { now: self.present(), stored, settings, nodes, gauges, groups, dead })
    }

    fn rows_of(
        &self,
        asked: &Asked,
        filter: &KindFilter,
        all: &[(String, u64)],
        rows: Range<usize>,
    ) -> Result<Kinds, StoreError> {
        let (end, most) = (all.len().min(rows.end), rows.len());
        let (shown, is_last) = (&all[rows.start..end], end == all.len());
        let (limits, of_kinds) =
            self.limits_of(&asked.stored, &asked.gauges, most, shown, |_| true)?;
        let row =
            |((name, jobs), limits): (&(String, u64), _)| self.kind_row(asked, name, *jobs, limits);
        Ok(Kinds {
            now: Time(asked.now),
            filter: filter.clone(),
            is_paused: asked.settings.is_paused,
            rows: shown.iter().zip(of_kinds).map(row).collect::<Result<_, _>>()?,
            total: all.len() as u64,
            next: if is_last { None } else { shown.last().map(|(name, _)| name.clone()) },
            limits,
        })
    }

    fn kind_row(
        &self,
        asked: &Asked,
        name: &str,
        jobs: u64,
        limits: Vec<LimitRow>,
    ) -> Result<KindRow, StoreError> {
        let Asked { now, settings, .. } = asked;
        let minutes = self.minutes(Some(name), *now)?;
        let gauges = asked.gauges.iter().find(|its| its.kind == name);
        let running = gauges.map_or(0, |its| its.claimed);
        let overdue = gauges.and_then(|its| its.oldest_overdue);
        let next_due = match overdue {
            Some(age) => Some(Time(now.minus(age))),
            None if jobs > running => self.first_pending(name, *now)?.map(|job| job.due.into()),
            None => None,
        };
        let recent = &minutes[minutes.len() - 2..];
        Ok(KindRow {
            kind: name.to_owned(),
            is_paused: settings.paused_kinds.contains(name),
            has_node: asked.nodes.iter().any(|node| node.kinds.iter().any(|kind| kind == name)),
            pending: jobs.saturating_sub(running),
            running,
            oldest_overdue_ms: overdue.map(|age| age.as_millis() as u64),
            next_due,
            dead: Number {
                count: asked.dead.get(name).copied().unwrap_or(0),
                is_exact: asked.groups.len() < MOST_GROUPS,
            },
            completed_per_minute: recent[0].completed,
            hour: Rates::of(&minutes, *now),
            recent: Rates::of(recent, *now),
            completed_by_minute: minutes.iter().map(|minute| minute.completed).collect(),
            head_start_ms: match settings.head_starts.of(name) {
                start if start.is_none() => None,
                start => start.to_text().parse().ok(),
            },
            keeps: settings.keeps.get(name).map(Keep::to_string),
            limits,
        })
    }

    pub(super) fn gauges(&self) -> Result<Vec<KindGauges>, StoreError> {
        self.client.answer_of(request::gauges())
    }

    /// Returns the earliest pending job of a kind that is due at this time or later.
    pub(super) fn first_pending(
        &self,
        kind: &str,
        from: Millis,
    ) -> Result<Option<JobInfo>, StoreError> {
        let (kind, to) = (Some(kind.to_owned()), Millis::MAX);
        // One job is needed, and the first ones of the list may be claimed.
        let mut request = PageRequest { set: JobSet::Alive, kind, from, to, after: None, limit: 1 };
        for limit in [1, 8, 64, 256] {
            request.limit = limit;
            let page = self.client.answer_of(request::page(request.clone()))?;
            let pending = page.jobs.into_iter().find(|job| job.state == JobState::Pending);
            if pending.is_some() || page.next.is_none() {
                return Ok(pending);
            }
            request.after = page.next;
        }
        Ok(None)
    }

    /// Returns the first `most` limits of the queue.
    pub fn limits(&self, most: usize) -> Result<Limits, StoreError> {
        let (stored, gauges) = (self.stored_settings()?, self.gauges()?);
        Ok(self.limits_of(&stored, &gauges, most, &[], |_| true)?.0)
    }

    /// Returns the first limits that `takes` selects. For each of `kinds` it also returns the limits that hold for its
    /// jobs.
    fn limits_of(
        &self,
        stored: &[(String, String)],
        gauges: &[KindGauges],
        most: usize,
        kinds: &[(String, u64)],
        takes: impl Fn(&LimitScope) -> bool,
    ) -> Result<(Limits, Vec<Vec<LimitRow>>), StoreError> {
        let mut scopes = self.client.scopes_in(stored);
        let flows = flows_in(stored);
        let of_kind = |name: &str| {
            let flow = flows.get(name).copied().unwrap_or(name);
            [LimitScope::Flow(flow.to_owned()), LimitScope::Each(name.to_owned())]
        };
        let wanted: HashSet<LimitScope> =
            kinds.iter().flat_map(|(name, _)| of_kind(name)).collect();
        let slowed = self.client.slowed_in(stored).into_iter().map(|(scope, _)| scope);
        let slowed: HashSet<LimitScope> = slowed.collect();
        let mut first: Vec<LimitScope> = scopes.keys().filter(|it| takes(it)).cloned().collect();
        let total = first.len() as u64;
        first.sort_by_key(|scope| !slowed.contains(scope));
        first.truncate(most);
        let is_first: HashSet<&LimitScope> = first.iter().collect();
        scopes.retain(|scope, _| is_first.contains(scope) || wanted.contains(scope));
        let seen = self.client.limits_of(stored, scopes, gauges)?;
        let seen: HashMap<&LimitScope, &SeenLimit> =
            seen.iter().map(|seen| (&seen.info.scope, seen)).collect();
        let row = |scope: &LimitScope| seen.get(scope).map(|seen| LimitRow::of(seen));
        let of_kinds = kinds.iter().map(|(name, _)| of_kind(name).iter().filter_map(row).collect());
        let of_kinds = of_kinds.collect();
        Ok((Limits { rows: first.iter().filter_map(row).collect(), total }, of_kinds))
    }
}

impl LimitRow {
    /// Says whether as many of its jobs run as may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.most_running.is_some_and(|most| self.running >= u64::from(most))
    }

    /// Returns the limit itself.
    pub fn limit(&self) -> Limit {
        let mut limit = self.most_running.map_or(Limit::none(), Limit::running);
        if let Some((jobs, per)) = self.rate.zip(self.per_ms) {
            limit = limit.rate(jobs, Duration::from_millis(per));
        }
        limit = self.burst.map_or(limit, |burst| limit.burst(burst));
        self.weight.map_or(limit, |weight| limit.weight(weight))
    }

    /// Returns the scope in words: `the queue`, `flow mail`, `each partition of mail`, `partition 7 of mail`.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        match (&self.flow, &self.partition, self.scope) {
            (Some(flow), ..) => format!("flow {flow}"),
            (_, Some(partition), _) => format!("partition {partition} of {kind}"),
            (.., "each_partition") => format!("each partition of {kind}"),
            _ => "the queue".to_owned(),
        }
    }

    fn of(seen: &SeenLimit) -> LimitRow {
        let (info, limit) = (&seen.info, seen.info.limit);
        let (scope, flow, kind, partition) = match &info.scope {
            LimitScope::Queue => ("queue", None, None, None),
            LimitScope::Flow(flow) => ("flow", Some(flow), None, None),
            LimitScope::Each(kind) => ("each_partition", None, Some(kind), None),
            LimitScope::Partition { kind, partition } => {
                ("partition", None, Some(kind), Some(partition))
            }
        };
        let rate = limit.start_rate();
        LimitRow {
            scope,
            flow: flow.cloned(),
            kind: kind.cloned(),
            partition: partition.cloned(),
            running: info.running,
            most_running: limit.most_running(),
            rate: rate.map(|(jobs, _)| jobs),
            per_ms: rate.map(|(_, per)| u64::try_from(per.as_millis()).unwrap_or(u64::MAX)),
            burst: limit.start_burst(),
            weight: limit.turn_weight(),
            waiting: seen.waiting,
            is_paused: seen.is_paused,
            is_reached: info.is_reached(),
            next_start: info.next_start.map(Time::from),
            held_until: info.held_until.map(Time::from),
            before: seen.before.map(|limit| limit.to_string()),
        }
    }
}
