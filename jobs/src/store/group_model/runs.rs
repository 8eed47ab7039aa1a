//! The steps that are about claims: they are made, their runs end, and their process ends.

use std::sync::Arc;
use std::time::Duration;

use super::oracle::{Fate, Is};
use super::place::Place;
use super::steps::{Drawn, Ends};
use super::world::World;
use super::{Checked, HOUR, LEASE, ensure};
use crate::store::{Answer, ClaimRequest, Claimed, End, Finish, NewJob, Op};
use crate::values::id::JobId;
use crate::values::info::JobState;
use crate::values::job::group_of;
use crate::values::setting::Keep;

impl World {
    pub(super) fn claim(&mut self, limit: usize) -> Checked {
        let until = self.now.plus(self.place.ahead());
        let mut request = ClaimRequest::new(until, limit, limit, Vec::new());
        request.now = self.now;
        request.in_lanes = limit;
        (request.crashed_once, request.poison_pill, request.last_try) = (32, true, true);
        for claimed in self.apply(&[], Some(request)).claimed {
            let Some(job) = self.oracle.job(claimed.id) else {
                return Err(format!("nobody inserted {}", claimed.id));
            };
            ensure(job.is == Is::Pending, || format!("{job:?} is claimed"))?;
            job.is = Is::Claimed;
            let group = group_of(claimed.extra.as_deref());
            ensure(group == job.group, || format!("{job:?} is claimed as of {group:?}"))?;
            self.claimed.push(claimed);
        }
        Ok(())
    }

    /// Takes one of the claimed jobs.
    pub(super) fn take(&mut self, pick: usize) -> Option<Claimed> {
        let many = self.claimed.len();
        (many > 0).then(|| self.claimed.remove(pick % many))
    }

    pub(super) fn finish(
        &mut self,
        pick: usize,
        ends: &[Ends],
        then: &[Drawn],
        seal: Option<usize>,
    ) -> Checked {
        let seal = seal.map(|pick| self.of_group(pick));
        let (mut ops, mut all) = (Vec::new(), Vec::new());
        for ends in ends {
            let Some(claimed) = self.take(pick) else { break };
            let group = group_of(claimed.extra.as_deref());
            let (end, drawn) = match ends {
                Ends::Well => (End::Completed, then),
                Ends::Dead => (End::Dead { errors: claimed.errors.clone() }, &[][..]),
                Ends::Again => {
                    let due = self.now.plus(Duration::from_millis(30));
                    (End::Retry { due, errors: claimed.errors.clone() }, &[][..])
                }
            };
            let jobs: Vec<_> = drawn.iter().map(|drawn| self.made(drawn, group)).collect();
            let new: Vec<NewJob> = jobs.iter().map(|(new, _)| new.clone()).collect();
            let keep = pick.is_multiple_of(3).then(|| Keep::last(2));
            let finish = Finish {
                keep: keep.filter(|_| matches!(ends, Ends::Well)),
                wanted: claimed.extra.as_ref().is_some_and(|extra| extra.wanted),
                then: (!new.is_empty()).then(|| Arc::new(new)),
                group,
                ..Finish::of(claimed.id, claimed.fence, end)
            };
            ops.push(Op::Finish(finish));
            all.push((claimed.id, *ends, jobs));
        }
        ops.extend(seal.map(Op::SealGroup));
        let mut answers = self.apply(&ops, None).answers;
        for (id, ends, jobs) in all {
            let is_asked = self.oracle.job(id).is_some_and(|job| job.is_asked);
            match ends {
                Ends::Well => {
                    // The end of the run comes before the inserts, and the end of the member after them.
                    let holder = self.oracle.job(id);
                    holder.into_iter().for_each(|job| job.is = Is::Gone);
                    self.insert(&jobs, then);
                    self.oracle.fate(id, Is::Gone, Fate::Completed);
                }
                _ if is_asked => self.oracle.fate(id, Is::Gone, Fate::Cancelled),
                Ends::Dead => self.oracle.fate(id, Is::Dead, Fate::Dead),
                Ends::Again => {
                    let due = self.now.plus(Duration::from_millis(30));
                    if let Some(job) = self.oracle.job(id) {
                        (job.is, job.due) = (Is::Pending, due);
                    }
                }
            }
            self.oracle.settle(self.now);
        }
        if let Some(id) = seal
            && let Some(answer) = answers.pop()
        {
            self.sealed(id, &answer, false)?;
        }
        Ok(())
    }

    pub(super) fn cancelled(&mut self, id: JobId) {
        match self.oracle.job(id) {
            Some(job) if job.is == Is::Claimed => job.is_asked = true,
            Some(job) if job.is == Is::Pending => {
                self.oracle.fate(id, Is::Gone, Fate::Cancelled);
            }
            _ => {}
        }
        self.oracle.settle(self.now);
    }

    /// A claim has ended, and its run has not.
    pub(super) fn goes_back(&mut self, id: JobId) {
        match self.oracle.job(id) {
            Some(job) if !job.is_asked => job.is = Is::Pending,
            Some(_) => self.oracle.fate(id, Is::Gone, Fate::Cancelled),
            None => {}
        }
    }

    /// The process ends. The next one keeps dead jobs and groups for so many hours, but in memory there is no next one.
    pub(super) fn restart(&mut self, hours: u32) -> Checked {
        if !matches!(self.place, Place::Memory) {
            self.keep_dead = hours * HOUR;
            self.store = self.place.open(self.keep_dead);
        }
        self.start();
        if self.place.is_shared() {
            self.now = self.now.plus(2 * LEASE);
            self.note_present();
            self.store.poll(self.now).unwrap();
        }
        for id in self.oracle.those(&[Is::Claimed]) {
            // Only the store knows who is to blame for a crash.
            let is_dead = match self.answer(Op::Get(id)) {
                Answer::Info(Some(job)) => job.state == JobState::Dead,
                _ => false,
            };
            match is_dead {
                true => self.oracle.fate(id, Is::Dead, Fate::Dead),
                false => self.goes_back(id),
            }
        }
        Ok(())
    }
}
