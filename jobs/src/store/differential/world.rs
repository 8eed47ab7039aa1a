//! The world of a history: the model, the store that is compared with it, and the oracle of the claims.
//!
//! Ground rules:
//!
//! - An operation is done in both stores, and their answers are compared.
//! - A claim is free to choose. So the store that is compared makes it, the oracle looks at it, and the model claims
//!   the same jobs. Where only memory is tested, the model makes the claims itself.
//! - After each step both are asked for all counts, all groups, each job that has changed, and some other jobs.
//! - A step picks its job or its group among those that the model has.
//! - Some runs set their progress: when they are claimed, and before they end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::oracle::{Job, Oracle};
use super::place::Place;
use super::steps::{Drawn, Ends, SCOPES, Step};
use super::{
    AHEAD, BEGINNING, Checked, FLOW, HOUR, KEYS, KINDS, LEASE, PARTITIONS, SCHEDULE, ensure,
};
use crate::store::memory::Memory;
use crate::store::{
    Answer, Batch, BatchOutcome, ClaimRequest, Claimed, End, Finish, IfTaken, NewGroup, NewJob,
    NewSchedule, Op, Store, StoredSchedule,
};
use crate::values::group::{GroupId, GroupInfo};
use crate::values::id::{Fence, JobId};
use crate::values::info::{JobInfo, JobState};
use crate::values::job::{Extra, group_of};
use crate::values::schedule::{Schedule, key_of_occurrences};
use crate::values::setting::Keep;
use crate::values::stored_limits::{self, LimitScope, Limits, flow_setting};
use crate::values::time::Millis;

/// The states of the jobs that have not gone.
const THERE: [JobState; 3] = [JobState::Pending, JobState::Running, JobState::Dead];

/// After a step, one in this many of the jobs that it has not changed is compared.
const IN_TURN: usize = 8;

pub(super) struct World {
    /// The store in memory: the model of the other one.
    model: Memory,
    other: Option<Other>,
    oracle: Oracle,
    now: Millis,
    /// The settings, as a store keeps them.
    settings: Vec<(String, String)>,
    /// The claims of the model. Beside each is the fence of the same claim in the other store.
    claimed: Vec<(Claimed, Fence)>,
    /// The ids of all jobs and groups that were ever made.
    ids: Vec<JobId>,
    groups: Vec<GroupId>,
    /// The last answer of the model about each id.
    compared: Vec<String>,
    batches: u64,
    /// The next occurrence of the schedule.
    next: Millis,
    /// The groups with a callback that have ended.
    pub(super) callbacks: BTreeSet<GroupId>,
}

/// The store that is compared with the model.
struct Other {
    place: Place,
    store: Box<dyn Store>,
}

impl World {
    /// Makes a world to compare the store at a place, or to test memory alone.
    pub(super) fn new(place: Option<Place>) -> World {
        let keep_dead = if place.is_some() { 4 * HOUR } else { HOUR };
        let ahead = place.as_ref().map_or(AHEAD, Place::ahead);
        let mut world = World {
            model: Memory::new(keep_dead, false),
            other: place.map(|place| Other { store: place.open(keep_dead), place }),
            oracle: Oracle::new(ahead),
            now: Millis::clamped(BEGINNING),
            settings: Vec::new(),
            claimed: Vec::new(),
            ids: Vec::new(),
            groups: Vec::new(),
            compared: Vec::new(),
            batches: 0,
            next: Millis::clamped(BEGINNING),
            callbacks: BTreeSet::new(),
        };
        world.start();
        let StoredSchedule { name, schedule, payload, next: first, .. } = world.schedule();
        let kind = Arc::from(KINDS[0]);
        let new = NewSchedule { name, kind, schedule, payload, first };
        world.answer(Op::PutSchedule(new)).unwrap();
        for kind in [KINDS[0], KINDS[1]] {
            world.set(flow_setting(kind), Some(FLOW.to_owned())).unwrap();
        }
        world
    }

    fn start(&mut self) {
        let kinds: Vec<Arc<str>> = KINDS[..3].iter().map(|kind| Arc::from(*kind)).collect();
        self.model.start_runner(&kinds, self.now).unwrap();
        if let Some(other) = &mut self.other {
            other.store.start_runner(&kinds, self.now).unwrap();
        }
        self.claimed.clear();
    }

    fn is_shared(&self) -> bool {
        self.other.as_ref().is_some_and(|other| other.place.is_shared())
    }

    fn after(&self, ms: u64) -> Millis {
        self.now.plus(Duration::from_millis(ms))
    }

    fn by_model(&mut self, ops: &[Op], claim: Option<ClaimRequest>) -> BatchOutcome {
        self.model.apply(&batch(self.batches, ops, claim, self.now)).unwrap()
    }

    /// Applies a batch in the store that is compared. A server gets every third one twice, as if its answer had been
    /// lost. The second time it claims the same jobs. It may ask for a step at once then, which is ignored.
    fn by_other(other: &mut Other, batch: &Batch<'_>) -> BatchOutcome {
        let mut outcome = other.store.apply(batch).unwrap();
        if !other.place.is_shared() || !batch.number.is_multiple_of(3) {
            return outcome;
        }
        let again = other.store.apply(batch).unwrap();
        assert_eq!(format!("{:?}", again.answers), format!("{:?}", outcome.answers));
        assert_eq!(again.claimed.len(), outcome.claimed.len());
        for job in &mut outcome.claimed {
            let same = again.claimed.iter().find(|same| same.id == job.id);
            job.fence = same.expect("the same jobs are claimed").fence;
        }
        outcome
    }

    /// Does operations in both stores. Returns the answers.
    fn apply(&mut self, ops: &[Op]) -> Checked<Vec<Answer>> {
        self.batches += 1;
        let answers = self.by_model(ops, None).answers;
        let claimed = &self.claimed;
        let Some(other) = &mut self.other else { return Ok(answers) };
        let its_fence = |id: JobId| claimed.iter().find(|(its, _)| its.id == id).unwrap().1;
        let of_other = |op: &Op| match op.clone() {
            Op::Finish(finish) => Op::Finish(Finish { fence: its_fence(finish.id), ..finish }),
            Op::Release { id, interrupted, .. } => {
                Op::Release { id, fence: its_fence(id), interrupted }
            }
            Op::PutProgress { id, value, .. } => {
                Op::PutProgress { id, fence: its_fence(id), value }
            }
            op => op,
        };
        let theirs: Vec<Op> = ops.iter().map(of_other).collect();
        let found = World::by_other(other, &batch(self.batches, &theirs, None, self.now)).answers;
        ensure(found.len() == ops.len(), || format!("{} answers", found.len()))?;
        for ((op, answer), found) in ops.iter().zip(&answers).zip(found) {
            let (answer, found) = (comparable(answer.clone()), comparable(found));
            ensure(answer == found, || format!("{op:?}: {found}, and not {answer}"))?;
        }
        Ok(answers)
    }

    fn answer(&mut self, op: Op) -> Checked<Answer> {
        Ok(self.apply(&[op])?.remove(0))
    }

    /// Returns the jobs of the model that are in one of these states.
    fn those(&mut self, states: &[JobState]) -> Vec<JobInfo> {
        let questions: Vec<Op> = self.ids.iter().map(|id| Op::Get(*id)).collect();
        let answers = self.by_model(&questions, None).answers.into_iter();
        let jobs = answers.filter_map(|answer| match answer {
            Answer::Info(info) => info.map(|info| *info),
            _ => None,
        });
        jobs.filter(|job| states.contains(&job.state)).collect()
    }

    /// Does an operation on one of the jobs that are in these states.
    fn on(&mut self, pick: usize, states: &[JobState], op: impl FnOnce(JobId) -> Op) -> Checked {
        let those = self.those(states);
        match those.get(pick % those.len().max(1)) {
            Some(job) => self.answer(op(job.id)).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the groups of the model.
    fn groups(&mut self) -> Vec<GroupInfo> {
        match self.by_model(&[Op::Groups(usize::MAX)], None).answers.remove(0) {
            Answer::Groups(groups) => groups,
            answer => panic!("{answer:?}"),
        }
    }

    /// Returns the id of a group that is there, or of one that was.
    fn group(&mut self, pick: usize) -> GroupId {
        let there = self.groups();
        let there = there.get(pick % there.len().max(1)).map(|group| group.id);
        let any = self.groups.get(pick % self.groups.len().max(1)).copied();
        let any = any.filter(|_| there.is_none() || pick.is_multiple_of(4));
        any.or(there).unwrap_or(GroupId::from_u128(u128::MAX))
    }

    /// Returns a new id. Every second one is of those whose callers choose it.
    fn number(&mut self) -> u128 {
        let number = self.ids.len() as u128 + 2;
        self.ids.push(JobId::from_u128(number));
        number
    }

    /// Returns the id of a job that is there, or of a callback that is to come. Its caller chose it, so that a store
    /// remembers it.
    fn known(&mut self, pick: usize) -> Option<JobId> {
        let coming = self.groups().into_iter().filter(|group| group.ended.is_none());
        let coming: Vec<JobId> = coming.filter_map(|group| group.callback).collect();
        let mut those: Vec<JobId> = self.those(&THERE).iter().map(|job| job.id).collect();
        those.extend(coming);
        those.retain(|id| id.to_u128().is_multiple_of(2));
        those.get(pick % those.len().max(1)).copied()
    }

    fn new_job(&mut self, drawn: &Drawn, group: Option<GroupId>) -> NewJob {
        let known = drawn.again.and_then(|pick| self.known(pick));
        let id = known.unwrap_or_else(|| JobId::from_u128(self.number()));
        let partition = drawn.partition.map(|of| Arc::from(PARTITIONS[of]));
        let (wanted, due) = (drawn.wanted, self.after(drawn.delay));
        let expires = drawn.expires.map(|after| due.plus(Duration::from_millis(after)));
        let extra = Extra { partition, wanted, group, expires, ..Extra::default() }.boxed();
        let if_taken = if drawn.leaves { IfTaken::Leave } else { IfTaken::Replace };
        NewJob {
            id,
            kind: Arc::from(KINDS[drawn.kind]),
            due,
            key: drawn.key.map(|key| (KEYS[key].to_owned(), if_taken)),
            callers_id: id.to_u128().is_multiple_of(2),
            extra,
            payload: b"{}".to_vec(),
        }
    }

    fn new_jobs(&mut self, drawn: &[Drawn], group: Option<GroupId>) -> Vec<NewJob> {
        drawn.iter().map(|drawn| self.new_job(drawn, group)).collect()
    }

    /// Does a step, and compares the stores.
    pub(super) fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Insert(drawn, many) => {
                let jobs = (0..*many).map(|_| Op::Insert(self.new_job(drawn, None)));
                let jobs: Vec<Op> = jobs.collect();
                self.apply(&jobs)?;
            }
            Step::Group { members, callback, is_sealed, waits, keeps, within, again } => {
                self.insert_group(
                    members,
                    callback.as_ref(),
                    (*is_sealed, *waits, *keeps),
                    *within,
                    *again,
                )?;
            }
            Step::Add(pick, drawn) => {
                let id = self.group(*pick);
                let jobs = self.new_jobs(drawn, Some(id));
                self.answer(Op::AddToGroup(id, jobs))?;
            }
            Step::Seal(pick) => {
                let id = self.group(*pick);
                self.answer(Op::SealGroup(id))?;
            }
            Step::CancelGroup(pick, members) => {
                let id = self.group(*pick);
                self.answer(Op::CancelGroup(id))?;
                if let Answer::Members(ids) = self.answer(Op::Members(id, None))?
                    && *members
                {
                    self.answer(Op::Each(ids.into_iter().map(Op::Cancel).collect()))?;
                }
            }
            Step::Claim { limit, in_lanes, suspects } => {
                self.claim(*limit, *in_lanes, *suspects)?;
            }
            Step::Finish { pick, ends, then, seal } => self.finish(*pick, ends, then, *seal)?,
            Step::Release(pick) => {
                if let Some((job, _)) = self.claimed.get(pick % self.claimed.len().max(1)) {
                    let (id, fence) = (job.id, job.fence);
                    let release = Op::Release { id, fence, interrupted: false };
                    let progress = progress(job, *pick);
                    self.apply(&progress.into_iter().chain([release]).collect::<Vec<_>>())?;
                    self.claimed.retain(|(job, _)| job.id != id);
                }
            }
            Step::Cancel(pick) => self.on(*pick, &THERE, Op::Cancel)?,
            Step::Reschedule(pick, delay) => {
                let due = self.after(*delay);
                self.on(*pick, &[JobState::Pending], |id| Op::Reschedule(id, due))?;
            }
            Step::CancelKeys => {
                let key = key_of_occurrences(SCHEDULE);
                let cancel = |key: &str| Op::CancelKey(key.to_owned());
                self.answer(Op::Each([KEYS[0], &key, KEYS[1]].map(cancel).to_vec()))?;
            }
            Step::Occur(many, is_expected) => self.occur(*many, *is_expected)?,
            Step::Retry(pick) => {
                let now = self.now;
                self.on(*pick, &[JobState::Dead], |id| Op::Retry(id, now))?;
            }
            Step::Delete(pick) => {
                use JobState::{Cancelled, Completed, Dead, Expired};
                self.on(*pick, &[Dead, Completed, Cancelled, Expired], Op::Delete)?;
            }
            Step::Limit(scope, limit) => {
                let (scope, mut limit) = (scope_of(*scope), *limit);
                limit.weight = limit.weight.filter(|_| scope.has_turns());
                self.replace(scope.setting(), (!limit.is_none()).then(|| limit.to_text()))?;
            }
            Step::Hold(scope, ms) => {
                let (scope, until) = (scope_of(*scope), self.after(*ms));
                if let Some(name) = scope.hold() {
                    self.set(name, Some(until.get().to_string()))?;
                    self.oracle.held(&scope, until);
                }
            }
            Step::Pause(kind, partition, pauses) => {
                let lane = (KINDS[*kind], PARTITIONS[*partition]);
                let name = stored_limits::partition_pause_setting(lane.0, lane.1);
                self.set(name, pauses.then(|| "1".to_owned()))?;
                self.oracle.paused(lane, *pauses);
            }
            // A lease on a server is one of its clock, so a claim would outlast the next process.
            Step::Advance(ms) if *ms < -1000 && self.is_shared() => {}
            Step::Advance(ms) => {
                self.now = Millis::clamped(self.now.get() + ms);
                if *ms < 0 {
                    self.oracle.set_back();
                }
            }
            Step::Restart(hours) => self.restart(*hours),
            Step::Later(hours) => {
                self.restart(1);
                self.now = self.now.plus(*hours * HOUR);
                self.purge();
            }
            Step::Crashes => {
                for _ in 0..5 {
                    self.claim(100, 100, true)?;
                    self.restart(4);
                }
            }
        }
        self.agree()
    }

    fn insert_group(
        &mut self,
        members: &[Drawn],
        callback: Option<&Drawn>,
        (is_sealed, waits_for_the_dead, keeps_results): (bool, bool, bool),
        within: Option<usize>,
        again: Option<usize>,
    ) -> Checked {
        let within = within.map(|pick| self.group(pick));
        let id = match again {
            Some(pick) => self.group(pick),
            None => GroupId::from_u128(self.number()),
        };
        let members = self.new_jobs(members, Some(id));
        let callback = callback.map(|drawn| {
            let mut new = self.new_job(drawn, within);
            new.extra.get_or_insert_default().callback_of = Some(id);
            new
        });
        self.groups.extend((!self.groups.contains(&id)).then_some(id));
        let new = NewGroup { id, members, callback, is_sealed, waits_for_the_dead, keeps_results };
        self.answer(Op::InsertGroup(Box::new(new))).map(drop)
    }

    fn claim(&mut self, limit: usize, in_lanes: usize, suspects: bool) -> Checked {
        let until = self.now.plus(self.other.as_ref().map_or(AHEAD, |other| other.place.ahead()));
        let mut request = ClaimRequest::new(until, limit, limit, Vec::new());
        request.now = self.now;
        request.limits = Limits::of(&self.settings, &[]);
        request.in_lanes = in_lanes;
        if suspects {
            (request.crashed_once, request.poison_pill, request.last_try) = (32, true, true);
        }
        let jobs = self.those(&[JobState::Pending, JobState::Running]);
        let running = jobs.iter().filter(|job| job.state == JobState::Running).count();
        ensure(running == self.claimed.len(), || {
            format!("{running} jobs run, and {} are claimed", self.claimed.len())
        })?;
        self.oracle.jobs = jobs.iter().map(Job::of).collect();
        self.batches += 1;
        let outcome = match &mut self.other {
            Some(other) => {
                World::by_other(other, &batch(self.batches, &[], Some(request), self.now))
            }
            None => self.by_model(&[], Some(request)),
        };
        self.oracle.claim(&outcome, (self.now, until), limit, in_lanes)?;
        for mut job in outcome.claimed {
            let fence = job.fence;
            if self.other.is_none() {
                self.claimed.push((job, fence));
                continue;
            }
            let its = self.model.claim_one(job.id, self.now);
            let mut its =
                its.ok_or_else(|| format!("the model has no such pending job: {job:?}"))?;
            // Only a server says this.
            let of_server = job.extra.as_mut().map(|extra| &mut extra.gives_result);
            let gives_result = of_server.is_some_and(core::mem::take);
            let (one, other) =
                (format!("{:?}", Claimed { fence: its.fence, ..job }), format!("{its:?}"));
            ensure(one == other, || format!("{one} is claimed, and not {other}"))?;
            its.extra.iter_mut().for_each(|extra| extra.gives_result = gives_result);
            self.claimed.push((its, fence));
        }
        let progress: Vec<Op> =
            self.claimed.iter().filter_map(|(job, _)| progress(job, limit)).collect();
        self.apply(&progress).map(drop)
    }

    /// Ends some runs in one commit, perhaps together with a seal. Those that complete have follow-ups.
    fn finish(
        &mut self,
        pick: usize,
        ends: &[Ends],
        then: &[Drawn],
        seal: Option<usize>,
    ) -> Checked {
        let seal = seal.map(|pick| Op::SealGroup(self.group(pick)));
        let (many, mut ops) = (self.claimed.len(), Vec::new());
        self.claimed.rotate_left(pick % many.max(1));
        let ended: Vec<Claimed> =
            self.claimed.iter().take(ends.len()).map(|(job, _)| job.clone()).collect();
        for (job, ends) in ended.iter().zip(ends) {
            let group = group_of(job.extra.as_deref());
            let errors = job.tries.errors.and(self.now, job.tries.attempts + 1, "", "failed");
            let (end, then) = match ends {
                Ends::Well => (End::Completed, self.new_jobs(then, group)),
                Ends::Dead => (End::Dead { errors }, Vec::new()),
                Ends::Expired => (End::Expired, Vec::new()),
                Ends::Again(delay) => (End::Retry { due: self.after(*delay), errors }, Vec::new()),
            };
            let result = (end == End::Completed && pick.is_multiple_of(2))
                .then(|| job.id.to_string().into_bytes());
            let keeps = matches!(end, End::Completed | End::Expired) && pick.is_multiple_of(3);
            ops.extend(progress(job, pick));
            ops.push(Op::Finish(Finish {
                keep: keeps.then(|| Keep::last(2)),
                wanted: job.extra.as_ref().is_some_and(|extra| extra.wanted),
                then: (!then.is_empty()).then(|| Arc::new(then)),
                result,
                group,
                gives_result: job.extra.as_ref().is_some_and(|extra| extra.gives_result),
                ..Finish::of(job.id, job.fence, end)
            }));
        }
        ops.extend(seal);
        self.apply(&ops)?;
        self.claimed.drain(..ended.len());
        Ok(())
    }

    fn schedule(&self) -> StoredSchedule {
        let schedule = Schedule::every(Duration::from_secs(1)).without_overlap();
        StoredSchedule {
            name: SCHEDULE.to_owned(),
            kind: KINDS[0].to_owned(),
            rule_text: schedule.rule.to_text(),
            schedule,
            payload: b"{}".to_vec(),
            next: self.next,
        }
    }

    /// Makes occurrences of the schedule that are due now. If `is_expected` is not set, the schedule was changed
    /// meanwhile.
    fn occur(&mut self, many: usize, is_expected: bool) -> Checked {
        let (schedule, kind) = (self.schedule(), Arc::<str>::from(KINDS[0]));
        let key = key_of_occurrences(SCHEDULE);
        let alive = self.those(&[JobState::Pending, JobState::Running]);
        let is_any = alive.iter().any(|job| job.key.as_ref() == Some(&key));
        let job = |_| {
            let id = JobId::from_u128(self.number());
            let id = (id, id.to_u128().is_multiple_of(2));
            NewJob::occurrence(&schedule, Arc::clone(&kind), self.now, id)
        };
        let jobs = (0..many).map(job).collect();
        let expected = if is_expected { self.next } else { Millis::ZERO };
        let next = self.next.plus(Duration::from_secs(1));
        let (name, is_one) = (schedule.name, many > 0 && is_expected && !is_any);
        let made = match self.answer(Op::Occur { name, expected, jobs, next: Some(next) })? {
            Answer::InsertedMany(taken) => many - taken.len(),
            _ => 0,
        };
        self.next = if is_expected { next } else { self.next };
        ensure(made == usize::from(is_one), || format!("P18: {made} of {many}, {is_any}"))
    }

    fn set(&mut self, name: String, value: Option<String>) -> Checked {
        self.settings.retain(|(its, _)| *its != name);
        self.settings.extend(value.clone().map(|value| (name.clone(), value)));
        self.oracle.limited(Limits::of(&self.settings, &[]));
        self.answer(Op::PutSetting { name, value }).map(drop)
    }

    /// Replaces a setting. The store refuses it with another expected value, and accepts it twice with the right one.
    fn replace(&mut self, name: String, value: Option<String>) -> Checked {
        let stored = self.settings.iter().find(|(its, _)| *its == name);
        let expected = stored.map(|(_, value)| value.clone());
        for wrong in [None, Some("{}".to_owned())] {
            if wrong != expected && value != expected {
                let (name, value) = (name.clone(), value.clone());
                let refused = Op::ReplaceSetting { name, expected: wrong, value };
                let answer = self.answer(refused)?;
                ensure(matches!(answer, Answer::Changed(false)), || format!("P109: {answer:?}"))?;
            }
        }
        let replace = Op::ReplaceSetting { name: name.clone(), expected, value: value.clone() };
        for _ in 0..2 {
            let answer = self.answer(replace.clone())?;
            ensure(matches!(answer, Answer::Changed(true)), || format!("P109: {answer:?}"))?;
        }
        // A further write of the same value changes nothing in a store.
        self.set(name, value)
    }

    /// The process ends, and another one begins, which keeps dead jobs and groups for `hours`. A store in memory ends with
    /// its process, so the test of memory alone goes on with the same store.
    fn restart(&mut self, hours: u32) {
        if let Some(other) = &mut self.other {
            let keep_dead = hours * HOUR;
            other.store = other.place.open(keep_dead);
            self.model.keep_dead = keep_dead;
        }
        if self.is_shared() {
            // The clock may have been set back.
            self.now = self.now.plus(10 * LEASE);
        }
        self.start();
        if let Some(other) = &mut self.other {
            other.store.poll(self.now).unwrap();
        }
        self.oracle.restarted();
    }

    /// Both stores forget what is over.
    fn purge(&mut self) {
        self.by_model(&[Op::Purge], None);
        let mut is_any_left = true;
        while let Some(other) = self.other.as_mut().filter(|_| is_any_left) {
            self.batches += 1;
            let outcome =
                World::by_other(other, &batch(self.batches, &[Op::Purge], None, self.now));
            is_any_left = matches!(outcome.answers[..], [Answer::Changed(true)]);
        }
    }

    /// Returns the questions about the jobs that have changed in the model, and about some of the others in turn.
    fn job_questions(&mut self) -> Vec<Op> {
        let questions: Vec<Op> = self.ids.iter().map(|id| Op::Get(*id)).collect();
        let answers = self.by_model(&questions, None).answers.into_iter().map(comparable);
        let answers: Vec<String> = answers.collect();
        let turn = self.batches as usize;
        let is_asked =
            |n: usize| self.compared.get(n) != answers.get(n) || (n + turn).is_multiple_of(IN_TURN);
        let asked = questions.into_iter().enumerate().filter(|(n, _)| is_asked(*n));
        let asked = asked.map(|(_, question)| question).collect();
        self.compared = answers;
        asked
    }

    /// As [`World::agree`], and asks for every job.
    pub(super) fn agree_on_all(&mut self) -> Checked {
        self.compared.clear();
        self.agree()
    }

    /// Asks both stores what may have changed, and checks them.
    fn agree(&mut self) -> Checked {
        let jobs = self.job_questions();
        let of_group =
            |id: &GroupId| [Op::Group(*id), Op::Members(*id, None), Op::Results(*id, None)];
        let groups = self.groups.iter().flat_map(of_group);
        let questions: Vec<Op> =
            [Op::Counts, Op::Groups(1000)].into_iter().chain(groups).chain(jobs).collect();
        let answers = self.apply(&questions)?;
        let has_called = |group: &&GroupInfo| group.ended.is_some() && group.callback.is_some();
        if let Answer::Groups(groups) = &answers[1] {
            self.callbacks.extend(groups.iter().filter(has_called).map(|group| group.id));
        }
        self.model.check().map_err(|wrong| format!("check of the model: {wrong}"))?;
        match &mut self.other {
            Some(other) => other.store.check().map_err(|wrong| format!("check: {wrong}")),
            None => Ok(()),
        }
    }
}

/// Returns the progress that a run sets, if it sets one.
fn progress(job: &Claimed, pick: usize) -> Option<Op> {
    let value = format!("[{pick}]").into_bytes();
    let sets = (job.id.to_u128() as usize + pick).is_multiple_of(4);
    sets.then_some(Op::PutProgress { id: job.id, fence: job.fence, value })
}

pub(super) fn batch(
    number: u64,
    ops: &[Op],
    claim: Option<ClaimRequest>,
    now: Millis,
) -> Batch<'_> {
    Batch { number, ops, claim, synced: false, awaited: true, until: None, now }
}

/// Returns an answer as a text, without what a store is free to say: who runs a job, and until when.
fn comparable(mut answer: Answer) -> String {
    if let Answer::Info(Some(job)) = &mut answer {
        (job.node, job.lease_ends, job.claimed) = (None, None, None);
    }
    format!("{answer:?}")
}

fn scope_of(pick: usize) -> LimitScope {
    let kind = KINDS[pick % 3].to_owned();
    let of = |kind: String, partition: usize| LimitScope::Partition {
        kind,
        partition: PARTITIONS[partition].to_owned(),
    };
    match pick {
        0 => LimitScope::Queue,
        1 => LimitScope::Flow(FLOW.to_owned()),
        2 => LimitScope::Flow(kind),
        3..=5 => LimitScope::Each(kind),
        6..SCOPES => of(kind, pick % 4),
        _ => of(KINDS[0].to_owned(), pick - SCOPES),
    }
}
