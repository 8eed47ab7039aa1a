//! A store under test with the oracle beside it: each step is done to both.

use std::sync::Arc;
use std::time::Duration;

use super::oracle::{Fate, Group, Is, Job, Oracle};
use super::place::Place;
use super::steps::{Drawn, Step};
use super::{BEGINNING, Checked, HOUR, KEYS, KINDS, ensure};
use crate::store::{
    Answer, Batch, BatchOutcome, ClaimRequest, Claimed, IfTaken, NewGroup, NewJob, Op, Store,
};
use crate::values::error::StoreError;
use crate::values::group::{GroupError, GroupId};
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::job::Extra;
use crate::values::time::Millis;

/// A store under test, and the oracle beside it.
pub(super) struct World {
    pub(super) place: Place,
    pub(super) store: Box<dyn Store>,
    pub(super) oracle: Oracle,
    pub(super) now: Millis,
    pub(super) keep_dead: Duration,
    pub(super) claimed: Vec<Claimed>,
    numbers: u128,
    batches: u64,
}

impl World {
    pub(super) fn new(place: Place) -> World {
        let keep_dead = if matches!(place, Place::Memory) { HOUR } else { 4 * HOUR };
        let mut world = World {
            store: place.open(keep_dead),
            oracle: Oracle {
                jobs: Vec::new(),
                groups: Vec::new(),
                forgotten: Vec::new(),
                dead_until: Millis::ZERO,
                callbacks: 0,
            },
            place,
            keep_dead,
            now: Millis::clamped(BEGINNING),
            claimed: Vec::new(),
            numbers: 1,
            batches: 0,
        };
        world.start();
        world
    }

    /// Tells the oracle until when a job is kept that dies now.
    pub(super) fn note_present(&mut self) {
        self.oracle.dead_until = self.now.plus(self.keep_dead);
    }

    pub(super) fn start(&mut self) {
        self.note_present();
        let kinds: Vec<Arc<str>> = KINDS[..2].iter().map(|kind| Arc::from(*kind)).collect();
        self.store.start_runner(&kinds, self.now).unwrap();
        self.claimed.clear();
    }

    pub(super) fn apply(&mut self, ops: &[Op], claim: Option<ClaimRequest>) -> BatchOutcome {
        let (synced, awaited, until, now) = (false, true, None, self.now);
        self.batches += 1;
        self.note_present();
        let number = self.batches;
        let batch = Batch { number, ops, claim, synced, awaited, until, now };
        let outcome = self.store.apply(&batch).unwrap();
        if self.place.is_shared() && number.is_multiple_of(3) {
            // As if the answer had been lost.
            let again = self.store.apply(&batch).unwrap();
            assert_eq!(format!("{:?}", again.answers), format!("{:?}", outcome.answers));
            return again;
        }
        outcome
    }

    pub(super) fn answer(&mut self, op: Op) -> Answer {
        self.apply(&[op], None).answers.remove(0)
    }

    /// Returns a job for the store, and the same for the oracle.
    pub(super) fn made(&mut self, drawn: &Drawn, group: Option<GroupId>) -> (NewJob, Job) {
        let before = drawn.again.and_then(|pick| {
            let mut those = self.oracle.those(&[Is::Ahead, Is::Pending, Is::Claimed, Is::Dead]);
            // Those whose ids the caller chose: the store remembers them if they end before.
            those.retain(|id| id.to_u128().is_multiple_of(2));
            (!those.is_empty()).then(|| those[pick % those.len()])
        });
        self.numbers += 1;
        let id = before.unwrap_or(JobId::from_u128(self.numbers));
        let due = self.now.plus(Duration::from_millis(drawn.delay));
        let partition = drawn.partition.then(|| Arc::from("acme"));
        let extra = Extra { partition, wanted: drawn.wanted, group, ..Extra::default() }.boxed();
        let if_taken = if drawn.leaves { IfTaken::Leave } else { IfTaken::Replace };
        let key = drawn.key.map(|key| KEYS[key]);
        let new = NewJob {
            id,
            kind: Arc::from(KINDS[drawn.kind]),
            due,
            key: key.map(|key| (key.to_owned(), if_taken)),
            // An id that is known must be looked for.
            callers_id: before.is_some() || self.numbers.is_multiple_of(2),
            extra,
            payload: b"{}".to_vec(),
        };
        (new, Job { id, key, is: Is::Pending, group, due, is_asked: false, until: due })
    }

    /// Returns jobs for the store, and tells the oracle of them.
    pub(super) fn insert(&mut self, jobs: &[(NewJob, Job)], drawn: &[Drawn]) {
        for ((new, job), drawn) in jobs.iter().zip(drawn) {
            self.oracle.inserted(job.clone(), drawn.leaves, new.callers_id);
        }
    }

    pub(super) fn of_group(&self, pick: usize) -> GroupId {
        let groups = &self.oracle.groups;
        match groups.len() {
            0 => GroupId::from_u128(u128::MAX),
            many => groups[pick % many].id,
        }
    }

    /// Returns the id of a group that is or was there.
    fn of_any_group(&self, pick: usize) -> GroupId {
        match self.oracle.forgotten.len() {
            0 => self.of_group(pick),
            many if pick.is_multiple_of(2) => self.oracle.forgotten[pick / 2 % many],
            _ => self.of_group(pick),
        }
    }

    pub(super) fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Insert(drawn) => {
                let made = self.made(drawn, None);
                self.answer(Op::Insert(made.0.clone()));
                self.insert(&[made], core::slice::from_ref(drawn));
            }
            Step::Group { members, callback, is_sealed, waits, within, again } => {
                let again = again.map(|pick| self.of_any_group(pick));
                self.numbers += 1;
                let id = again.unwrap_or(GroupId::from_u128(self.numbers));
                let within = within.map(|pick| self.of_group(pick));
                let waits = *waits;
                let marks = (*is_sealed, waits);
                self.insert_group(id, members, callback.as_ref(), within, marks)?;
            }
            Step::Add(pick, drawn) => {
                let id = self.of_group(*pick);
                let jobs: Vec<_> = drawn.iter().map(|drawn| self.made(drawn, Some(id))).collect();
                let new = jobs.iter().map(|(new, _)| new.clone()).collect();
                let answer = self.answer(Op::AddToGroup(id, new));
                let refusal = self.oracle.refusal(id);
                refused_as(&answer, refusal)?;
                if refusal.is_none() {
                    self.insert(&jobs, drawn);
                }
            }
            Step::Seal(pick) => {
                let id = self.of_group(*pick);
                let answer = self.answer(Op::SealGroup(id));
                self.sealed(id, &answer, false)?;
            }
            Step::CancelGroup(pick, members) => {
                let id = self.of_group(*pick);
                let answer = self.answer(Op::CancelGroup(id));
                self.sealed(id, &answer, true)?;
                self.oracle.settle(self.now);
                if *members {
                    let Answer::Members(ids) = self.answer(Op::Members(id, None)) else {
                        return Err("no members".to_owned());
                    };
                    let each = ids.iter().copied().map(Op::Cancel).collect();
                    self.answer(Op::Each(each));
                    ids.into_iter().for_each(|id| self.cancelled(id));
                }
            }
            Step::Claim(limit) => self.claim(*limit)?,
            Step::Finish(pick, ends, then, seal) => self.finish(*pick, ends, then, *seal)?,
            Step::Release(pick) => {
                if let Some(job) = self.take(*pick) {
                    let (id, fence) = (job.id, job.fence);
                    self.answer(Op::Release { id, fence, interrupted: false });
                    self.goes_back(id);
                }
            }
            Step::Cancel(pick) => {
                let those = self.oracle.those(&[Is::Ahead, Is::Pending, Is::Claimed, Is::Dead]);
                if let Some(&id) = those.get(pick % those.len().max(1)) {
                    let answer = self.answer(Op::Cancel(id));
                    let is = self.oracle.job(id).map(|job| job.is);
                    let right = match is {
                        Some(Is::Pending) => Cancel::Cancelled,
                        Some(Is::Claimed) => Cancel::Running,
                        _ => Cancel::Gone,
                    };
                    let is_right = matches!(answer, Answer::Cancelled(got) if got == right);
                    ensure(is_right, || format!("{answer:?}, and not {right:?}"))?;
                    self.cancelled(id);
                }
            }
            Step::Retry(pick) => {
                let dead = self.oracle.those(&[Is::Dead]);
                if let Some(&id) = dead.get(pick % dead.len().max(1)) {
                    let answer = self.answer(Op::Retry(id, self.now));
                    let key = self.oracle.job(id).and_then(|job| job.key);
                    let is_taken = key.is_some()
                        && self.oracle.jobs.iter().any(|other| {
                            other.key == key && matches!(other.is, Is::Pending | Is::Claimed)
                        });
                    let is_refused = matches!(answer, Answer::Refused(StoreError::KeyTaken { .. }));
                    ensure(is_refused == is_taken, || format!("{id} is retried: {answer:?}"))?;
                    if !is_taken {
                        self.oracle.was_dead(id, Is::Pending, Fate::Open, self.now);
                    }
                }
            }
            Step::Delete(pick) => {
                let those = self.oracle.those(&[Is::Dead, Is::Gone]);
                if let Some(&id) = those.get(pick % those.len().max(1)) {
                    self.answer(Op::Delete(id));
                    if self.oracle.job(id).is_some_and(|job| job.is == Is::Dead) {
                        self.oracle.was_dead(id, Is::Gone, Fate::Cancelled, self.now);
                    }
                }
            }
            // A lease on a server is one of its clock, so a claim would outlast the next process.
            Step::Advance(ms) if *ms < 0 && self.place.is_shared() => {}
            Step::Advance(ms) => self.now = Millis::clamped(self.now.get() + ms),
            Step::Restart(hours) => self.restart(*hours)?,
            Step::Later => {
                self.restart(1)?;
                self.oracle.settle(self.now);
                self.now = self.now.plus(2 * HOUR);
                while let Answer::Changed(true) = self.answer(Op::Purge) {}
                self.oracle.purge(self.now, self.keep_dead);
            }
            Step::Crashes => {
                for _ in 0..5 {
                    self.claim(100)?;
                    self.restart(4)?;
                    self.oracle.settle(self.now);
                }
            }
        }
        self.oracle.settle(self.now);
        self.agree()
    }

    fn insert_group(
        &mut self,
        id: GroupId,
        drawn: &[Drawn],
        callback: Option<&Drawn>,
        within: Option<GroupId>,
        (is_sealed, waits): (bool, bool),
    ) -> Checked {
        let jobs: Vec<_> = drawn.iter().map(|drawn| self.made(drawn, Some(id))).collect();
        let callback = callback.map(|drawn| {
            let (mut new, job) = self.made(drawn, within);
            new.extra.get_or_insert_default().callback_of = Some(id);
            (new, Job { is: Is::Ahead, ..job })
        });
        let new = NewGroup {
            id,
            members: jobs.iter().map(|(new, _)| new.clone()).collect(),
            callback: callback.as_ref().map(|(new, _)| new.clone()),
            is_sealed,
            waits_for_the_dead: waits,
        };
        let exists = self.oracle.group(id).is_some();
        let refusal = match exists {
            true => Some(GroupError::Exists),
            false => within.and_then(|within| self.oracle.refusal(within)).or_else(|| {
                let is_there = |(_, callback): &(_, Job)| {
                    self.oracle.jobs.iter().any(|job| job.id == callback.id)
                };
                callback.as_ref().is_some_and(is_there).then_some(GroupError::CallbackKnown)
            }),
        };
        let answer = self.answer(Op::InsertGroup(Box::new(new)));
        refused_as(&answer, refusal)?;
        if refusal.is_some() {
            return Ok(());
        }
        if let Some((_, job)) = &callback {
            if let Some(outer) = within.and_then(|within| self.oracle.group(within)) {
                outer.members.push((job.id, Fate::Open));
            }
            self.oracle.jobs.push(job.clone());
        }
        self.oracle.forgotten.retain(|forgotten| *forgotten != id);
        self.oracle.groups.push(Group {
            id,
            members: Vec::new(),
            is_sealed: false,
            is_cancelled: false,
            waits,
            callback: callback.map(|(_, job)| job.id),
            ended: None,
        });
        self.insert(&jobs, drawn);
        self.oracle.group(id).into_iter().for_each(|group| group.is_sealed = is_sealed);
        Ok(())
    }

    /// A group was sealed or cancelled.
    pub(super) fn sealed(&mut self, id: GroupId, answer: &Answer, cancels: bool) -> Checked {
        let refusal = match self.oracle.group(id) {
            None => Some(GroupError::Unknown),
            Some(group) => group.ended.map(|_| GroupError::Ended),
        };
        refused_as(answer, refusal)?;
        if refusal.is_none()
            && let Some(group) = self.oracle.group(id)
        {
            group.is_sealed = true;
            group.is_cancelled |= cancels;
        }
        Ok(())
    }

    fn agree(&mut self) -> Checked {
        for group in self.oracle.groups.clone() {
            let Answer::Group(info) = self.answer(Op::Group(group.id)) else {
                return Err("no answer about a group".to_owned());
            };
            self.oracle.group_agrees(&group, info.as_deref())?;
            let Answer::Members(open) = self.answer(Op::Members(group.id, None)) else {
                return Err("no answer about members".to_owned());
            };
            let its = group.members.iter().filter(|member| member.1 == Fate::Open);
            let mut its: Vec<JobId> = its.map(|(id, _)| *id).collect();
            its.sort_unstable();
            ensure(open == its, || format!("{open:?} are open, and not {its:?}"))?;
        }
        for job in self.oracle.jobs.clone() {
            let Answer::Info(info) = self.answer(Op::Get(job.id)) else {
                return Err("no answer about a job".to_owned());
            };
            Oracle::job_agrees(&job, info.as_deref())?;
        }
        let Answer::Counts(counts) = self.answer(Op::Counts) else {
            return Err("no counts".to_owned());
        };
        let many = |of: &[Is]| self.oracle.those(of).len() as u64;
        let right = counts.pending + counts.running == many(&[Is::Pending, Is::Claimed])
            && counts.dead == many(&[Is::Dead]);
        ensure(right, || format!("{counts:?}: a job that nobody inserted"))?;
        let Answer::Groups(groups) = self.answer(Op::Groups(1000)) else {
            return Err("no groups".to_owned());
        };
        ensure(groups.len() == self.oracle.groups.len(), || format!("{} groups", groups.len()))?;
        self.store.check().map_err(|wrong| format!("check: {wrong}"))
    }
}

/// Says whether a group was refused for this reason, or not at all.
fn refused_as(answer: &Answer, refusal: Option<GroupError>) -> Checked {
    let found = match answer {
        Answer::Refused(StoreError::Group(error)) => Some(*error),
        Answer::Refused(error) => return Err(format!("refused: {error}")),
        _ => None,
    };
    ensure(found == refusal, || format!("refused as {found:?}, and not as {refusal:?}"))
}
