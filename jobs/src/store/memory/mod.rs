//! The store in memory: the reference, for tests and for programs whose jobs may end with the process. Here are its
//! maps, their check, and the questions about them.
//!
//! Ground rules:
//!
//! - The maps are simple rather than fast, so that the reference is easy to check.
//! - No operation fails, so nothing has to be undone.
//! - Nothing is counted beforehand, so each count looks at every job.

mod changes;
mod claim;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use changes::GroupRecord;

use super::history::{Figure, Noted};
use super::lanes::Lanes;
use super::{
    Answer, ApplyError, Batch, BatchOutcome, Ending, Fence, Op, Page, PollResult, Store,
    StoreStats, StoredSchedule, Tally, Tries,
};
use crate::store::history::{self, Rows};
use crate::store::{HistoryPart, KindGauges};
use crate::values::error::{StoreError, Violation};
use crate::values::group::GroupId;
use crate::values::id::JobId;
use crate::values::info::{Counts, DeadByError, JobInfo, JobState, Number};
use crate::values::job::{Extra, Shown};
use crate::values::node::{NODE_KEPT, StoredNode};
use crate::values::stored_limits::hold_in;
use crate::values::time::Millis;

/// The store in memory.
#[derive(Default)]
pub(crate) struct Memory {
    alive: BTreeMap<JobId, JobRecord>,
    ended: BTreeMap<JobId, EndedEntry>,
    keys: HashMap<String, JobId>,
    claims: HashMap<JobId, ClaimRecord>,
    /// Jobs without a partition that are not claimed, in the order of due time, then of id.
    waiting: BTreeMap<(Millis, JobId), Arc<str>>,
    /// Jobs with a partition that are not claimed, until a claim finds them due; then they are in their lanes.
    coming: BTreeMap<(Millis, JobId), Arc<str>>,
    in_lanes: BTreeMap<LaneKey, BTreeSet<(Millis, JobId)>>,
    lanes: Lanes,
    /// Up to when jobs were moved to their lanes.
    moved_until: Option<Millis>,
    kinds: HashSet<Arc<str>>,
    handled: HashSet<Arc<str>>,
    schedules: BTreeMap<String, StoredSchedule>,
    settings: BTreeMap<String, String>,
    /// The process that runs the jobs, and when it was last seen.
    node: Option<(Millis, String)>,
    starts: u64,
    claimed: u64,
    /// The last claim passed over suspects that were due by this time: they wait for other suspects.
    suspects_wait: Option<Millis>,
    commits: u64,
    interruptions: u64,
    groups: BTreeMap<GroupId, GroupRecord>,
    /// How long dead jobs and ids are kept.
    pub(in crate::store) keep_dead: Duration,
    /// The figures that this batch adds to the history.
    noted: Noted<Arc<str>>,
    /// The rows of the history: see `store/history.rs`.
    history: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// An entry of a job that has ended: the job, if it is dead or kept, and the id alone otherwise.
#[derive(Clone)]
struct EndedEntry {
    until: Millis,
    at: Millis,
    job: Option<KeptJob>,
}

#[derive(Clone)]
struct KeptJob {
    ending: Ending,
    record: JobRecord,
    took: u64,
    result: Option<Vec<u8>>,
}

/// A kind and a partition.
type LaneKey = (Arc<str>, Arc<str>);

struct ClaimRecord {
    /// A cancel was requested.
    asked: bool,
    /// The latest progress of its run.
    progress: Option<Vec<u8>>,
    /// The number of the claim, in the order of claiming.
    order: u64,
    /// When it was made.
    at: Millis,
}

#[derive(Clone)]
struct JobRecord {
    kind: Arc<str>,
    due: Millis,
    tries: Tries,
    key: Option<String>,
    callers_id: bool,
    extra: Option<Box<Extra>>,
    payload: Vec<u8>,
}

impl JobRecord {
    fn info(&self, id: JobId, state: JobState) -> JobInfo {
        let shown = self.extra.as_deref().map_or_else(Shown::default, Shown::of);
        JobInfo {
            key: self.key.clone(),
            payload: self.payload.clone(),
            ..self.tries.info(id, self.kind.to_string(), state, self.due, shown)
        }
    }
}

impl Memory {
    /// Makes an empty store that keeps dead jobs and ids for this long.
    pub(crate) fn new(keep_dead: Duration, history: bool) -> Memory {
        Memory { keep_dead, noted: Noted::new(history), ..Memory::default() }
    }

    fn apply_one(&mut self, op: &Op, now: Millis) -> Answer {
        match op {
            Op::Insert(job) => Answer::Inserted(self.insert(job, now)),
            Op::InsertMany(jobs) => self.insert_many(jobs, now),
            Op::Cancel(id) => Answer::Cancelled(self.cancel(*id, now)),
            Op::CancelKey(key) => Answer::Changed(self.cancel_key(key, now)),
            Op::Reschedule(id, due) => Answer::Changed(self.reschedule(*id, *due)),
            Op::RescheduleKey(key, due) => Answer::Changed(match self.pending_holder(key) {
                Some(id) => self.reschedule(id, *due),
                None => false,
            }),
            Op::InsertGroup(group) => self.insert_group(group, now),
            Op::AddToGroup(id, jobs) => self.add_to_group(*id, jobs, now),
            Op::SealGroup(id) => self.change_group(*id, now, |tally| tally.is_sealed = true),
            Op::CancelGroup(id) => self.change_group(*id, now, Tally::cancel),
            Op::Retry(id, due) => self.retry(*id, *due),
            Op::Delete(id) => Answer::Changed(self.delete(*id, now)),
            Op::Each(ops) => Answer::Each(ops.iter().map(|op| self.apply_one(op, now)).collect()),
            Op::PutSchedule(new) => Answer::Changed(self.put_schedule(new)),
            Op::DropSchedule(name) => Answer::Changed(self.drop_schedule(name)),
            Op::PauseSchedule(name, at) => Answer::Changed(self.pause_schedule(name, *at)),
            Op::ResumeSchedule { name, expected, next } => {
                Answer::Changed(self.resume_schedule(name, *expected, *next))
            }
            Op::PutSetting { name, value } => Answer::Changed(self.put_setting(name, value)),
            Op::ReplaceSetting { name, expected, value } => {
                let stored = self.settings.get(name);
                let is_there = stored == value.as_ref();
                let is_expected = stored == expected.as_ref();
                Answer::Changed(is_there || is_expected && self.put_setting(name, value))
            }
            Op::Hold { name, until } => Answer::Changed(self.hold(name, *until)),
            Op::PutNode { node } => {
                self.node = Some((now, node.clone()));
                Answer::Done
            }
            Op::PutProgress { id, fence, value } => {
                Answer::Changed(self.put_progress(*id, *fence, value))
            }
            Op::Occur { name, expected, jobs, next } => {
                self.occur(name, *expected, jobs, *next, now)
            }
            Op::Finish(finish) => self.finish(finish, now),
            Op::Release { id, interrupted, .. } => {
                self.release(*id, *interrupted, now);
                Answer::Done
            }
            Op::Extend(_) => Answer::ClaimsLost(Vec::new()),
            Op::Purge => {
                self.purge(now);
                Answer::Changed(false)
            }
            Op::Flush => Answer::Done,
            Op::Get(id) => Answer::Info(self.get(*id).map(Box::new)),
            Op::GetKey(key) => {
                Answer::Info(self.keys.get(key).and_then(|id| self.get(*id)).map(Box::new))
            }
            Op::Page(request) => Answer::Page(self.page(request)),
            Op::Claimed => {
                let mut ids: Vec<JobId> = self.claims.keys().copied().collect();
                ids.sort_unstable();
                let jobs = ids.into_iter().filter_map(|id| self.get(id)).collect();
                Answer::Page(Page { jobs, next: None })
            }
            Op::Counts => Answer::Counts(self.counts(now)),
            Op::Kinds => Answer::Kinds(self.kinds()),
            Op::Gauges => Answer::Gauges(self.gauges(now)),
            Op::DeadByError(most) => Answer::DeadByError(self.dead_by_error(*most)),
            Op::Nodes => {
                let node = self.node.iter();
                Answer::Nodes(
                    node.filter_map(|(seen, node)| StoredNode::info(node, *seen)).collect(),
                )
            }
            Op::Tokens(scopes) => {
                Answer::Tokens(scopes.iter().map(|scope| self.lanes.tokens.get(scope)).collect())
            }
            Op::Settings => Answer::Settings(self.settings.clone().into_iter().collect()),
            Op::Schedules => Answer::Schedules(self.schedules.values().cloned().collect()),
            Op::Group(id) => Answer::Group(self.group_info(*id).map(Box::new)),
            Op::Groups(most) => Answer::Groups(self.latest_groups(*most)),
            Op::Members(id, after) => Answer::Members(self.members(*id, *after)),
            Op::Results(id, after) => self.results(*id, *after),
            Op::History { kind, from, to } => {
                Answer::History(self.read_history(kind.as_deref(), *from, *to))
            }
        }
    }

    fn cancel_key(&mut self, key: &str, now: Millis) -> bool {
        self.pending_holder(key).map(|id| self.cancelled(id, now)).is_some()
    }

    /// Deletes a kept job.
    fn delete(&mut self, id: JobId, now: Millis) -> bool {
        let Some(kept) = self.ended.get(&id).and_then(|ended| ended.job.clone()) else {
            return false;
        };
        self.ended.remove(&id);
        self.dead_is_gone(&kept, now);
        if kept.record.callers_id {
            self.remember(id, now);
        }
        true
    }

    /// Sets or removes a setting. Returns whether that changed it.
    fn put_setting(&mut self, name: &str, value: &Option<String>) -> bool {
        match value {
            Some(value) => {
                self.settings.insert(name.to_owned(), value.clone()).as_ref() != Some(value)
            }
            None => self.settings.remove(name).is_some(),
        }
    }

    /// Holds a scope until a time. Returns `false` if it is held that long already.
    fn hold(&mut self, name: &str, until: Millis) -> bool {
        let before = self.settings.get(name).and_then(|time| time.parse().ok());
        let is_later = before.is_none_or(|before: i64| before < until.get());
        if is_later {
            self.settings.insert(name.to_owned(), until.get().to_string());
        }
        is_later
    }

    /// Sets the progress of a run whose claim is held.
    fn put_progress(&mut self, id: JobId, fence: Fence, value: &[u8]) -> bool {
        let starts = self.starts;
        let holds = |claim: &&mut ClaimRecord| fence_of(starts, claim.order) == fence;
        let held = self.claims.get_mut(&id).filter(holds);
        held.map(|claim| claim.progress = Some(value.to_owned())).is_some()
    }

    /// Gives a claim back.
    fn release(&mut self, id: JobId, interrupted: bool, now: Millis) {
        if let Some(ClaimRecord { asked: true, .. }) = self.end_claim(id) {
            self.cancelled(id, now);
            return;
        }
        if interrupted {
            self.note(id, Figure::Interrupted);
        }
        self.wait(id);
    }

    /// Drops what has been kept long enough.
    fn purge(&mut self, now: Millis) {
        let over = self.ended.iter().filter(|(_, ended)| ended.until < now);
        let over: Vec<JobId> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.drop_ended(id, now));
        self.purge_groups(now);
        self.node.take_if(|(seen, _)| seen.plus(NODE_KEPT) < now);
        self.lanes.tokens.purge(now);
        let is_over =
            |name: &str, value: &str| hold_in(name, value).is_some_and(|(_, until)| until < now);
        self.settings.retain(|name, value| !is_over(name, value));
    }

    /// Returns how many jobs each kind has.
    fn kinds(&self) -> Vec<(String, u64)> {
        let count = |kind: &Arc<str>| {
            self.alive.values().filter(|record| record.kind == *kind).count() as u64
        };
        let mut kinds: Vec<(String, u64)> =
            self.kinds.iter().map(|kind| (kind.to_string(), count(kind))).collect();
        kinds.sort_unstable();
        kinds
    }
}

/// Returns the fence of a claim of the process that has started so often before.
fn fence_of(starts: u64, order: u64) -> Fence {
    Fence::new(starts << 40 | order, 0)
}

impl Store for Memory {
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
        self.starts += 1;
        self.handled = kinds.iter().cloned().collect();
        self.kinds.extend(kinds.iter().cloned());
        let mut claims: Vec<(JobId, ClaimRecord)> =
            core::mem::take(&mut self.claims).into_iter().collect();
        self.lanes.forget(core::iter::empty());
        for key in core::mem::take(&mut self.in_lanes).into_values().flatten() {
            self.wait(key.1);
        }
        claims.sort_unstable_by_key(|(_, claim)| claim.order);
        // Backwards from the latest claim: of two suspects, the one claimed later is the more likely cause, so
        // the earlier one does not die.
        let mut suspect_after = false;
        for (id, ClaimRecord { asked, progress, .. }) in claims.into_iter().rev() {
            let Some(record) = self.alive.get_mut(&id) else { continue };
            record.set_progress(progress);
            self.interruptions += 1;
            let was_suspect = record.tries.interruptions > 0;
            if asked {
                suspect_after |= was_suspect;
                self.cancelled(id, now);
                continue;
            }
            let dies = record.tries.interrupt(suspect_after, now);
            let errors = record.tries.errors.clone();
            suspect_after |= was_suspect;
            self.note(id, if dies { Figure::Dead } else { Figure::Interrupted });
            match dies {
                true => {
                    let member = self.membership(id);
                    self.bury(id, 0, now);
                    self.leave_group(member, id, Ending::Dead, errors.as_text().as_bytes(), now);
                }
                false => self.wait(id),
            }
        }
        self.write_history(now)
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<BatchOutcome, ApplyError> {
        let answers = batch.ops.iter().map(|op| self.apply_one(op, batch.now)).collect();
        let mut request = batch.claim.clone();
        let claimed = request.as_mut().map(|request| self.claim(request)).unwrap_or_default();
        let writes = batch.ops.iter().any(|op| !op.is_question()) || !claimed.is_empty();
        self.commits += u64::from(writes);
        self.write_history(batch.now)?;
        let next_due = self.next_due(request.as_ref());
        let (suspects_wait, unreadable) = (self.suspects_wait.is_some(), Vec::new());
        Ok(BatchOutcome { answers, claimed, next_due, suspects_wait, unreadable })
    }

    fn poll(&mut self, _now: Millis) -> Result<PollResult, StoreError> {
        Ok(PollResult::default())
    }

    fn maintain(&mut self, _idle: Duration) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.look_for_violations()
    }

    fn stats(&self) -> StoreStats {
        let (commits, interruptions) = (self.commits, self.interruptions);
        StoreStats { commits, interruptions, ..StoreStats::default() }
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Memory {
    fn counts(&self, now: Millis) -> Counts {
        let running = self.claims.len() as u64;
        let lanes = self.in_lanes.values().flatten().map(|(due, _)| *due);
        let filed = self.waiting.keys().chain(self.coming.keys()).map(|(due, _)| *due).chain(lanes);
        let overdue = filed.filter(|due| *due < now);
        let first = overdue.clone().min();
        Counts {
            pending: self.alive.len() as u64 - running,
            claimed: 0,
            running,
            dead: self.kept(Ending::Dead).count() as u64,
            schedules: self.schedules.len() as u64,
            overdue: Number { count: overdue.count() as u64, is_exact: true },
            oldest_overdue: first.map(|due| now.since(due)),
        }
    }

    fn gauges(&self, now: Millis) -> Vec<KindGauges> {
        let of = |kind: &Arc<str>| (kind.to_string(), KindGauges::default());
        let mut kinds: BTreeMap<String, KindGauges> = self.kinds.iter().map(of).collect();
        for (id, record) in &self.alive {
            let of = kinds.entry(record.kind.to_string()).or_default();
            let is_claimed = self.claims.contains_key(id);
            *(if is_claimed { &mut of.claimed } else { &mut of.pending }) += 1;
            if !is_claimed && record.due < now {
                of.overdue += 1;
                of.oldest_overdue = of.oldest_overdue.max(Some(now.since(record.due)));
            }
        }
        for (.., kept) in self.kept(Ending::Dead) {
            kinds.entry(kept.record.kind.to_string()).or_default().dead += 1;
        }
        kinds.into_iter().map(|(kind, of)| KindGauges { kind, ..of }).collect()
    }

    fn dead_by_error(&self, most: usize) -> Vec<DeadByError> {
        let mut groups: BTreeMap<(String, String), Vec<Millis>> = BTreeMap::new();
        for (_, at, kept) in self.kept(Ending::Dead) {
            let error = kept.record.tries.errors.first_line();
            groups.entry((kept.record.kind.to_string(), error)).or_default().push(at);
        }
        let group = |((kind, error), deaths): (_, Vec<Millis>)| DeadByError {
            kind,
            error,
            jobs: deaths.len() as u64,
            first_died: deaths.iter().min().map(|at| at.to_system()),
            last_died: deaths.iter().max().map(|at| at.to_system()),
        };
        let mut groups: Vec<DeadByError> = groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.cmp(b)));
        groups.truncate(most);
        groups
    }
}

impl Rows for BTreeMap<Vec<u8>, Vec<u8>> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(BTreeMap::get(self, key).cloned())
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError> {
        self.insert(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        BTreeMap::remove(self, key);
        Ok(())
    }
}

impl Memory {
    /// Counts an event of a job that is alive.
    fn note(&mut self, id: JobId, figure: Figure) {
        if let Some(record) = self.alive.get(&id) {
            self.noted.note(&record.kind, figure);
        }
    }

    /// Writes what was counted since the last call.
    fn write_history(&mut self, now: Millis) -> Result<(), StoreError> {
        for (kind, figures) in self.noted.take() {
            history::add(&mut self.history, &kind, now, &figures)?;
        }
        Ok(())
    }

    fn read_history(&self, kind: Option<&str>, from: Millis, to: Millis) -> Vec<HistoryPart> {
        let get =
            |keys: &[Vec<u8>]| Ok(keys.iter().map(|key| self.history.get(key).cloned()).collect());
        let Ok(parts) = history::read::<core::convert::Infallible>(kind, (from, to), get);
        parts
    }
}

impl Memory {
    fn look_for_violations(&self) -> Result<(), Violation> {
        for (id, record) in &self.alive {
            let at = (record.due, *id);
            let on_road = match record.lane() {
                None => self.waiting.contains_key(&at),
                Some(_) => self.coming.contains_key(&at),
            };
            let in_lane = record.lane().and_then(|lane| self.in_lanes.get(&lane));
            let in_lane = in_lane.is_some_and(|lane| lane.contains(&at));
            if on_road && in_lane {
                return Err(Violation(format!("M5: {id} is in its lane, and was not moved there")));
            }
            let filed = on_road || in_lane;
            let claimed = self.claims.contains_key(id);
            if filed == claimed {
                return Err(Violation(format!("M1: {id} is filed: {filed}, claimed: {claimed}")));
            }
            if let Some(key) = &record.key
                && self.keys.get(key) != Some(id)
            {
                return Err(Violation(format!("M2: the key {key:?} does not name {id}")));
            }
            if self.ended.contains_key(id) {
                return Err(Violation(format!("M3: {id} is alive, and has ended")));
            }
        }
        let keyed = self.alive.values().filter(|record| record.key.is_some()).count();
        let in_lanes: usize = self.in_lanes.values().map(BTreeSet::len).sum();
        let filed = self.waiting.len() + self.coming.len() + in_lanes;
        if filed + self.claims.len() != self.alive.len() || keyed != self.keys.len() {
            return Err(Violation("M4: something is filed, claimed or named and gone".to_owned()));
        }
        self.look_at_groups()?;
        if let Some(wrong) = self.lanes.violation(self.claims_by_lane()) {
            return Err(Violation(format!("M6: {wrong}")));
        }
        Ok(())
    }
}
