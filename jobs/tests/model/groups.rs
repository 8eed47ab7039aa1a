//! Groups, done to both (P31): their inserts, joins, seals and cancels, the fates of their members, their callbacks,
//! and how they are forgotten. And the results that they keep (P110).
//!
//! Ground rules:
//!
//! - Nothing is counted beforehand. A number is the length of a list of members that was filtered.
//! - A member is what the oracle has of its job: pending or running, dead, or gone. The oracle notes only which members
//!   have completed, so any other that is gone was cancelled, replaced or deleted.
//! - A result is compared with the fate of its member. A member that was deleted when it was dead is dead there.
//! - Whether a group is over is asked anew of every group after every event. What an ended group says stays as it is.
//! - A dead job is gone at some time after its retention, and its group may end then. So the oracle looks first at
//!   which dead jobs are left, and then at the callbacks.

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    BulkCounts, Client, GroupError, GroupId, GroupInfo, InsertErrorKind, JobId, JobState,
    MemberResult, NewJob, StoreError,
};

use crate::calls::{Call, ok};
use crate::history::What;
use crate::insert::{of_kind, refused_new};
use crate::new_job::Said;
use crate::ops::{Plan, Task, Time, micros};
use crate::oracle::{Known, Oracle, Outcome, ensure};
use crate::record::Record;
use crate::world::World;

/// The options of a group at its insert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GroupPlan {
    pub(crate) members: Vec<(usize, Time, Plan)>,
    pub(crate) callback: Option<CallbackPlan>,
    pub(crate) is_open: bool,
    pub(crate) waits: bool,
    #[serde(default)]
    pub(crate) keeps: bool,
    /// One of a few ids of the history's.
    pub(crate) id: Option<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CallbackPlan {
    pub(crate) kind: usize,
    pub(crate) time: Time,
    pub(crate) plan: Plan,
    /// One of a few ids of the history's.
    pub(crate) id: Option<usize>,
    /// The group of which it is a member.
    pub(crate) within: Option<usize>,
}

/// A group, as the oracle has it.
#[derive(Clone, Debug)]
pub(crate) struct Grouped {
    id: GroupId,
    members: Vec<JobId>,
    completed: Vec<(JobId, Option<Vec<u8>>)>,
    expired: Vec<JobId>,
    is_sealed: bool,
    is_cancelled: bool,
    waits: bool,
    /// It keeps results.
    keeps: bool,
    callback: Option<Callback>,
    /// The earliest and the latest time of its end, and the fates of its members then.
    ended: Option<((i64, i64), [u64; 5])>,
    /// A dead member may have been forgotten before its end.
    unsure: bool,
    /// When its callback was seen last, which may read its results.
    needed: i64,
    /// The store may have forgotten it, because its retention may be over.
    perhaps: bool,
}

#[derive(Clone, Debug)]
struct Callback {
    id: JobId,
    kind: usize,
    due: i64,
    plan: Plan,
    within: Option<GroupId>,
}

impl Grouped {
    fn coming(&self) -> Option<JobId> {
        self.callback.as_ref().filter(|_| self.ended.is_none()).map(|callback| callback.id)
    }

    /// Compares the answer of the store. `fates`: how many members are open, have completed, are dead, are gone
    /// otherwise, and have expired.
    fn compare(&self, info: &GroupInfo, fates: [u64; 5]) -> Outcome {
        let ended = info.ended.map(|ended| micros(ended) / 1000);
        let in_time = match (self.ended, ended) {
            (Some((ends, _)), Some(at)) => (ends.0..=ends.1).contains(&at),
            (is, at) => is.is_none() && at.is_none(),
        };
        let [open, completed, dead, gone, expired] = fates;
        let same = info.total == self.members.len() as u64
            && [info.open, info.completed, info.expired] == [open, completed, expired]
            && info.dead + info.cancelled == dead + gone
            && (info.dead == dead || self.unsure && info.dead < dead)
            && info.is_sealed == self.is_sealed
            && info.is_cancelled == self.is_cancelled
            && info.waits_for_the_dead == self.waits
            && info.callback == self.callback.as_ref().map(|callback| callback.id)
            && in_time;
        ensure(same, || format!("P31: the store has {info:?}, not {self:?} with {fates:?}"))
    }
}

impl Oracle {
    fn group(&self, id: GroupId) -> Option<&Grouped> {
        self.groups.iter().find(|group| group.id == id)
    }

    fn group_mut(&mut self, id: GroupId) -> Option<&mut Grouped> {
        self.groups.iter_mut().find(|group| group.id == id)
    }

    /// Returns the id of one of the groups, or of one that is not there.
    fn picked_group(&self, pick: usize) -> GroupId {
        let group = self.groups.get(pick % self.groups.len().max(1));
        group.map_or(GroupId::named("none"), |group| group.id)
    }

    /// Says whether this is the id of a callback that is to come.
    pub(crate) fn is_coming(&self, id: JobId) -> bool {
        self.groups.iter().any(|group| group.coming() == Some(id))
    }

    /// Says whether the store may have forgotten a group: its retention is over, no dead job names it, and its results may
    /// be gone.
    fn may_be_forgotten(&self, group: &Grouped) -> bool {
        let is_dead = |job: &Record| job.state == JobState::Dead && !job.perhaps;
        let is_named = |job: &Record| is_dead(job) && job.own.group == Some(group.id);
        let is_empty = group.ended.is_some_and(|(_, fates)| fates == [0; 5]);
        group.perhaps
            && !self.jobs.iter().any(is_named)
            && (is_empty || self.results_may_be_gone(group))
    }

    /// Returns how a change of a group may be refused, or not. `adds`: it adds a member.
    fn refusals(&self, id: GroupId, adds: bool) -> Vec<Option<GroupError>> {
        let Some(group) = self.group(id) else { return vec![Some(GroupError::Unknown)] };
        let refusal = match group {
            Grouped { is_cancelled: true, .. } if adds => Some(GroupError::Cancelled),
            Grouped { ended: Some(_), .. } => Some(GroupError::Ended),
            Grouped { is_sealed: true, .. } if adds => Some(GroupError::Sealed),
            _ => None,
        };
        let forgotten = self.may_be_forgotten(group).then_some(Some(GroupError::Unknown));
        [refusal].into_iter().chain(forgotten).collect()
    }

    /// A new job is a member of this group, if it is of any.
    pub(crate) fn joins(&mut self, at: usize, id: Option<GroupId>) {
        self.jobs[at].own.group = id;
        let member = self.jobs[at].id;
        if let Some(group) = id.and_then(|id| self.group_mut(id)) {
            group.members.extend(member);
        }
    }

    /// A job has completed. Its group may end once its follow-ups have joined.
    pub(crate) fn member_completed(&mut self, job: &Record, result: Option<Vec<u8>>) {
        if let Some(group) = job.own.group.and_then(|id| self.group_mut(id)) {
            group.completed.extend(job.id.map(|id| (id, result)));
        }
    }

    /// A job has expired. P107 asks that it was due, that it had its turn, and that its time had passed.
    pub(crate) fn expired(&mut self, id: JobId) -> Outcome {
        let at = self.find(id).ok_or_else(|| format!("P107: {id} has expired, and is unknown"))?;
        let job = self.jobs.remove(at);
        let is_too_old =
            job.own.expires.is_some_and(|expires| expires < self.wall.div_euclid(1000));
        let has_its_turn = job.state == JobState::Pending
            && self.may_run(job.kind)
            && (job.due - self.ahead) * 1000 <= self.wall;
        ensure(is_too_old && has_its_turn, || format!("P107: it has not expired: {job:?}"))?;
        self.happened[job.kind].add(What::Expired, 1);
        self.ends.push((id, JobState::Expired));
        if let Some(group) = job.own.group.and_then(|id| self.group_mut(id)) {
            group.expired.push(id);
        }
        self.leaves(job, JobState::Expired, (self.now(), self.now()), None);
        self.settle_now();
        Ok(())
    }

    /// Returns how many members of a group are open, have completed, are dead, are gone otherwise, and have expired.
    fn fates(&self, group: &Grouped) -> [u64; 5] {
        let mut fates = [0; 5];
        for member in &group.members {
            let state = self.find(*member).map(|at| self.jobs[at].state);
            fates[match state {
                Some(JobState::Dead) => 2,
                Some(_) => 0,
                None if self.is_coming(*member) => 0,
                None if group.completed.iter().any(|(id, _)| id == member) => 1,
                None if group.expired.contains(member) => 4,
                None => 3,
            }] += 1;
        }
        fates
    }

    /// Returns a group that is over and has not ended, with the fates of its members.
    fn over(&self) -> Option<(usize, [u64; 5])> {
        let all = self.groups.iter().enumerate();
        all.filter(|(_, it)| it.ended.is_none() && it.is_sealed).find_map(|(at, group)| {
            let fates = self.fates(group);
            let is_held = group.waits && !group.is_cancelled && fates[2] > 0;
            (fates[0] == 0 && !is_held).then_some((at, fates))
        })
    }

    /// Ends the groups that are over, at a time between these, and inserts their callbacks.
    pub(crate) fn settle(&mut self, ends: (i64, i64)) {
        while let Some((of, fates)) = self.over() {
            let is_unsure =
                |member: &JobId| self.find(*member).is_some_and(|at| self.jobs[at].perhaps);
            self.groups[of].unsure = self.groups[of].members.iter().any(is_unsure);
            self.groups[of].ended = Some((ends, fates));
            if let Some(Callback { id, kind, due, plan, within }) = self.groups[of].callback.clone()
            {
                let at = self.insert(Some(id), kind, due.max(ends.0), None, true, plan);
                let own = &mut self.jobs[at].own;
                (own.group, own.is_callback) = (within, true);
                own.due_between = Some((due.max(ends.0), due.max(ends.1)));
            }
        }
        // A dead member that is retried after the end of its group is a member no longer.
        let Oracle { jobs, groups, .. } = self;
        let is_there = |id| groups.iter().any(|group| group.id == id && group.ended.is_none());
        for job in jobs.iter_mut().filter(|job| job.state != JobState::Dead) {
            job.own.group = job.own.group.filter(|id| is_there(*id));
        }
        // If the end of a group was not seen, the store may have forgotten the group since.
        self.groups_may_be_forgotten(self.now() - self.retention);
    }

    /// Ends the groups that are over now. The millisecond in which a run ends may be rounded up.
    pub(crate) fn settle_now(&mut self) {
        self.settle((self.now(), self.now() + 1));
    }

    /// A job is seen that is due then. If it is a callback, it is not too early. It may have come because the store has
    /// forgotten dead members: then they are gone.
    pub(crate) fn is_seen(&mut self, id: JobId, due: i64) -> Outcome {
        if let Some(group) = self.groups.iter().find(|group| group.coming() == Some(id)) {
            let of = Some(group.id);
            let is_dead = |job: &Record| job.state == JobState::Dead && job.perhaps;
            self.jobs.retain(|job| !(is_dead(job) && job.own.group == of));
            self.settle((0, i64::MAX));
            ensure(!self.is_coming(id), || format!("P31: {id} came too early: {of:?}"))?;
        }
        if let Some(at) = self.find(id)
            && let Some((first, last)) = self.jobs[at].own.due_between.take()
        {
            let right = (first..=last).contains(&due);
            ensure(right, || format!("P31: {id} is due at {due}, not {first} to {last}"))?;
            self.jobs[at].due = due;
        }
        Ok(())
    }

    /// A process may have forgotten the groups that ended before this.
    pub(crate) fn groups_may_be_forgotten(&mut self, oldest: i64) {
        for group in &mut self.groups {
            group.perhaps |= group.ended.is_some_and(|((first, _), _)| first < oldest);
        }
    }

    /// Compares the list of the groups.
    fn groups_are(&mut self, found: &[GroupInfo]) -> Outcome {
        for info in found {
            let group = self.group(info.id).ok_or_else(|| format!("nobody inserted {info:?}"))?;
            let fates = group.ended.map_or_else(|| self.fates(group), |(_, fates)| fates);
            group.compare(info, fates)?;
            let right = info.keeps_results == group.keeps || self.results_may_be_gone(group);
            ensure(right, || format!("P110: {info:?}, not {group:?}"))?;
        }
        let oldest = self.now() - self.retention - 2 * 601_000;
        for at in (0..self.groups.len()).rev() {
            let group = &self.groups[at];
            if !found.iter().any(|info| info.id == group.id) {
                ensure(self.may_be_forgotten(group), || format!("P31: forgotten: {group:?}"))?;
                self.groups.remove(at);
            } else {
                let is_old = group.ended.is_some_and(|((_, last), _)| last < oldest);
                let needs = group.callback.as_ref().filter(|_| group.keeps);
                let is_needed = needs.is_some_and(|callback| self.find(callback.id).is_some());
                let was_needed = group.needed.max(if is_needed { self.now() } else { 0 });
                let is_old = is_old && was_needed < self.now() - 2 * 601_000;
                let stays = is_old && !self.set_back && self.may_be_forgotten(group);
                ensure(!stays, || format!("P31: past its retention: {group:?}"))?;
                self.groups[at].needed = was_needed;
            }
        }
        Ok(())
    }
}

impl Oracle {
    /// Says whether the store may have no results of a group: it keeps none, or it has ended and its callback is gone.
    fn results_may_be_gone(&self, group: &Grouped) -> bool {
        let is_left = |callback: &Callback| {
            let at = self.find(callback.id);
            at.is_some_and(|at| self.jobs[at].state != JobState::Dead || !self.jobs[at].perhaps)
        };
        let may_go = group.callback.as_ref().map_or(group.perhaps, |callback| !is_left(callback));
        !group.keeps || group.ended.is_some() && may_go
    }

    /// P110: Compares the results of a group, if the store has any.
    fn results_are(&self, id: GroupId, found: Option<&[MemberResult]>) -> Outcome {
        let group = self.group(id).ok_or("a group is gone")?;
        let Some(found) = found else {
            let may_be_gone = self.results_may_be_gone(group);
            return ensure(may_be_gone, || format!("P110: the results are gone: {group:?}"));
        };
        let fates = group.ended.map_or_else(|| self.fates(group), |(_, fates)| fates);
        let many = |state| found.iter().filter(|it| it.state == state).count() as u64;
        let (dead, cancelled) = (many(JobState::Dead), many(JobState::Cancelled));
        let is_whole = group.keeps
            && many(JobState::Completed) == fates[1]
            && (dead >= fates[2] && dead + cancelled == fates[2] + fates[3])
            && many(JobState::Expired) == fates[4]
            && found.is_sorted_by(|a, b| a.id < b.id);
        let is_right = |member: &MemberResult| {
            let result = member.result.clone();
            let job = self.find(member.id).map(|at| &self.jobs[at]);
            // Dead since its last end, or retried after the end of its group.
            let dead = job.filter(|job| job.state == JobState::Dead && job.own.group == Some(id));
            group.members.contains(&member.id)
                && match member.state {
                    JobState::Completed => group.completed.contains(&(member.id, result)),
                    JobState::Dead => dead.is_none_or(|job| job.has_these(&member.errors)),
                    _ => result.is_none() && member.errors.is_empty(),
                }
        };
        ensure(is_whole && found.iter().all(is_right), || {
            format!("P110: the results are {found:?}, not those of {group:?} with {fates:?}")
        })
    }
}

/// Returns why a group was not changed, or that it was.
fn refusal<T>(got: Result<T, StoreError>) -> Outcome<Result<T, GroupError>> {
    match got {
        Err(StoreError::Group(error)) => Ok(Err(error)),
        got => ok(got).map(Ok),
    }
}

impl Call<'_> {
    pub(crate) fn insert_group(&self, group: &GroupPlan) -> Outcome {
        let named = |n| GroupId::named(&format!("group {n}"));
        let id = group.id.map_or_else(GroupId::new, named);
        let mut new = self.client.group().id(id);
        let mut members = Vec::new();
        for (kind, time, plan) in &group.members {
            let (job_id, plan, when) = (JobId::new(), self.numbered(plan), self.when(*time));
            let task = plan.clone();
            new = of_kind!(*kind, N => {
                new.add_job(NewJob::new(Task::<N>(task)).at(when).id(job_id))
            });
            members.push((
                job_id,
                *kind,
                time.due(self.wall).ok_or("a time that no job has")?,
                plan,
            ));
        }
        let callback = group.callback.as_ref().map(|it| self.callback(it)).transpose()?;
        if let Some(Callback { id, kind, plan, within, .. }) = callback.clone() {
            let when = self.when(group.callback.as_ref().map_or(Time::After(0), |it| it.time));
            new = of_kind!(kind, N => new.then_job(NewJob::new(Task::<N>(plan)).at(when).id(id)));
            new = within.into_iter().fold(new, |new, outer| new.within(outer));
        }
        new = if group.waits { new.waits_for_the_dead() } else { new };
        new = if group.keeps { new.keep_results() } else { new };
        let allowed = self.group_refusals(id, callback.as_ref());
        let got = if group.is_open { new.open().map(|it| it.id()) } else { new.insert() };
        let got = match got.map_err(|error| error.kind().clone()) {
            Err(InsertErrorKind::Store(StoreError::Group(error))) => Some(error),
            got => ensure(got == Ok(id), || format!("a group: {got:?}")).map(|()| None)?,
        };
        ensure(allowed.contains(&got), || format!("P31: {got:?}, not {allowed:?}"))?;
        if got.is_none() {
            let oracle = &mut self.shared.lock().oracle;
            oracle.groups.retain(|group| group.id != id);
            oracle.groups.push(Grouped {
                id,
                members: Vec::new(),
                completed: Vec::new(),
                expired: Vec::new(),
                is_sealed: !group.is_open,
                is_cancelled: false,
                waits: group.waits,
                keeps: group.keeps,
                callback: callback.clone(),
                ended: None,
                unsure: false,
                needed: 0,
                perhaps: false,
            });
            if let Some(Callback { id, within: Some(outer), .. }) = callback {
                oracle.group_mut(outer).into_iter().for_each(|outer| outer.members.push(id));
            }
            for (job_id, kind, due, plan) in members {
                let at = oracle.insert(Some(job_id), kind, due, None, true, plan);
                oracle.joins(at, Some(id));
            }
        }
        Ok(())
    }

    fn callback(&self, drawn: &CallbackPlan) -> Outcome<Callback> {
        let named = |n| JobId::named(&format!("chosen {n}"));
        let id = drawn.id.map_or_else(JobId::new, named);
        let within = drawn.within.map(|pick| self.shared.lock().oracle.picked_group(pick));
        // One that is due at once is due at the end, also if the clock is set back before.
        let due = match drawn.time {
            Time::After(0) if !self.other => 0,
            time => time.due(self.wall).ok_or("a time that no job has")?,
        };
        Ok(Callback { id, kind: drawn.kind, due, plan: self.numbered(&drawn.plan), within })
    }

    /// Returns how the insert of a group may be refused, or not.
    fn group_refusals(&self, id: GroupId, callback: Option<&Callback>) -> Vec<Option<GroupError>> {
        let oracle = &self.shared.lock().oracle;
        let mut allowed = Vec::new();
        if let Some(group) = oracle.group(id) {
            allowed.push(Some(GroupError::Exists));
            if !oracle.may_be_forgotten(group) {
                return allowed;
            }
        }
        if let Some(outer) = callback.and_then(|callback| callback.within) {
            let of_outer = oracle.refusals(outer, true);
            if of_outer != [None] {
                allowed.extend(of_outer);
                return allowed;
            }
        }
        let known = callback.map_or(Known::No, |callback| oracle.known(callback.id));
        allowed.extend((known != Known::No).then_some(Some(GroupError::CallbackKnown)));
        allowed.extend((known != Known::Yes).then_some(None));
        allowed
    }

    pub(crate) fn add_to_group(
        &self,
        pick: usize,
        said: &Said,
        (kind, time, plan): (usize, Time, &Plan),
    ) -> Outcome {
        let (plan, when) = (self.numbered(plan), self.when(time));
        let id = self.shared.lock().oracle.picked_group(pick);
        let handle = self.client.group_by_id(id);
        let task = plan.clone();
        let due = time.due(self.wall);
        let got = of_kind!(kind, N => {
            handle.add_job(said.new_job(Task::<N>(task), when, due)).map_err(refused_new)
        });
        let is_valid = !matches!(&got, Err((InsertErrorKind::Invalid(_), _)));
        if is_valid && time.due(self.wall).is_some() {
            let allowed = self.shared.lock().oracle.refusals(id, true);
            let refused = match &got {
                Err((InsertErrorKind::Store(StoreError::Group(error)), _)) => Some(*error),
                _ => None,
            };
            ensure(allowed.contains(&refused), || format!("P31: {got:?}, not {allowed:?}"))?;
            if refused.is_some() {
                return Ok(());
            }
        }
        let is_new = |id: JobId| self.shared.lock().oracle.find(id).is_none();
        let got = got.map(|id| (id, is_new(id)));
        self.new_job_inserted(said, kind, time, plan, got.clone())?;
        if let Ok((member, true)) = got {
            let oracle = &mut self.shared.lock().oracle;
            let at = oracle.find(member).ok_or("a member is not there")?;
            oracle.joins(at, Some(id));
        }
        Ok(())
    }

    pub(crate) fn seal_group(&self, pick: usize) -> Outcome {
        let id = self.shared.lock().oracle.picked_group(pick);
        let got = refusal(self.client.group_by_id(id).seal())?;
        let oracle = &mut self.shared.lock().oracle;
        let allowed = oracle.refusals(id, false);
        ensure(allowed.contains(&got.err()), || format!("P31: {got:?}, not {allowed:?}"))?;
        if let (Ok(changed), Some(group)) = (got, oracle.group_mut(id)) {
            ensure(changed != group.is_sealed, || format!("sealed: {changed}: {group:?}"))?;
            group.is_sealed = true;
        }
        Ok(())
    }

    pub(crate) fn cancel_group(&self, pick: usize) -> Outcome {
        let id = self.shared.lock().oracle.picked_group(pick);
        let got = refusal(self.client.group_by_id(id).cancel())?;
        let oracle = &mut self.shared.lock().oracle;
        let allowed = oracle.refusals(id, false);
        let error = got.as_ref().err().copied();
        ensure(allowed.contains(&error), || format!("P31: {got:?}, not {allowed:?}"))?;
        let (Ok(got), Some(group)) = (got, oracle.group_mut(id)) else { return Ok(()) };
        (group.is_sealed, group.is_cancelled) = (true, true);
        let (members, mut counts) = (group.members.clone(), BulkCounts::default());
        for member in members {
            match oracle.find(member) {
                None => counts.passed_over += u64::from(oracle.is_coming(member)),
                Some(at) if oracle.jobs[at].state == JobState::Pending => {
                    counts.changed += 1;
                    oracle.end(at, self.ends(oracle));
                }
                Some(at) if oracle.jobs[at].state == JobState::Running => {
                    counts.asked_to_stop += 1;
                    oracle.jobs[at].asked = true;
                }
                Some(_) => {}
            }
        }
        counts.seen = counts.changed + counts.asked_to_stop + counts.passed_over;
        // For another process a job runs that is claimed.
        let same = if self.other { got.seen == counts.seen } else { got == counts };
        ensure(same, || format!("P31: {got:?}, not {counts:?}"))
    }
}

impl World {
    pub(crate) fn groups_agree(&self, jobs: &Client) -> Outcome {
        let found = ok(jobs.groups())?;
        self.shared.lock().oracle.groups_are(&found)?;
        let keeps = |info: &&GroupInfo| {
            self.shared.lock().oracle.group(info.id).is_some_and(|group| group.keeps)
        };
        for GroupInfo { id, .. } in found.iter().filter(keeps) {
            let results: Result<Vec<_>, _> = jobs.group_by_id(*id).results().collect();
            let results = match results {
                Err(StoreError::Group(GroupError::NoResults)) => None,
                results => Some(ok(results)?),
            };
            self.shared.lock().oracle.results_are(*id, results.as_deref())?;
        }
        Ok(())
    }
}
