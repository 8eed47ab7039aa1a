//! Every verb for a job, called on the wheel and on the truth, with the results compared.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Receiver;
use tickwheel::{
    Driver, Event, Events, Group, Guard, Handle, InsertError, InsertErrorKind, Job, Keyed, Next,
    Repeat, Scheduler, When,
};

use super::events::Value;
#[cfg(feature = "async")]
use super::sleepers::Sleeper;
use super::truth::{KnownRepeat, Truth};
use super::{Act, Key, LastWill, Place, Plan, Time};

/// Everything a job can reach.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) truth: Arc<Mutex<Truth>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) keyed: Keyed<Key>,
    pub(crate) groups: Arc<[Group; 2]>,
    pub(crate) events: Events<Value>,
    pub(crate) due: Receiver<Event<Value>>,
    /// The sleepers that are neither dropped nor being polled.
    #[cfg(feature = "async")]
    pub(crate) sleepers: Arc<Mutex<Vec<Option<Sleeper>>>>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) origin: Instant,
    pub(crate) wall_origin: SystemTime,
}

/// The handle, or the job that was replaced under a key. A refused job is only dropped.
type Repeated = Result<(Option<Handle>, Option<Job>), (InsertErrorKind, Box<dyn Any>)>;

fn of_wheel<F: 'static>(answer: Result<Handle, InsertError<F>>) -> Repeated {
    match answer {
        Ok(handle) => Ok((Some(handle), None)),
        Err(refused) => Err((refused.kind(), Box::new(refused.into_inner()))),
    }
}

fn of_key<F: 'static>(answer: Result<Option<Job>, InsertError<F>>) -> Repeated {
    match answer {
        Ok(replaced) => Ok((None, replaced)),
        Err(refused) => Err((refused.kind(), Box::new(refused.into_inner()))),
    }
}

pub(crate) fn nanos(count: u64) -> Duration {
    Duration::from_nanos(count)
}

impl World {
    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Drops jobs that came back.
    pub(crate) fn drop_outside<T>(&self, jobs: T) {
        self.outside(|| drop(jobs));
    }

    /// Runs or drops jobs outside the wheel. A panic of theirs is caught here, and not counted by the
    /// wheel.
    fn outside(&self, f: impl FnOnce()) {
        let answer = catch_unwind(AssertUnwindSafe(f));
        self.truth().panics -= u64::from(answer.is_err());
    }

    /// Checks that an insert was right to refuse a job.
    fn check_refusal<T>(&self, room: bool, refused: InsertError<T>) {
        let right = match self.truth().ended {
            Some(_) => refused.kind() == InsertErrorKind::Shutdown,
            None => refused.kind() == InsertErrorKind::Full && !room,
        };
        self.truth().claim(right, "a job was refused");
        self.drop_outside(refused.into_inner());
    }

    fn accept(&self, id: usize, room: bool, handle: Option<Handle>) {
        let mut truth = self.truth();
        truth.claim(room, "a full wheel took a job");
        truth.jobs[id].handle = handle;
    }

    pub(crate) fn insert(&self, time: Time, act: Act, last_will: LastWill) {
        self.insert_into(None, time, act, last_will);
    }

    pub(crate) fn insert_into(&self, group: Option<usize>, time: Time, act: Act, will: LastWill) {
        let capture = self.capture(act, will);
        let (id, room) = (capture.id, self.truth().has_room(1));
        self.truth().jobs[id].group = group;
        let (when, job) = (self.when(time), move || capture.run());
        let answer = match group {
            Some(group) => self.groups[group].insert(when, job),
            None => self.scheduler.insert(when, job),
        };
        match answer {
            Ok(handle) => {
                self.accept(id, room, Some(handle));
                self.note_time(id, time);
            }
            Err(refused) => self.check_refusal(room, refused),
        }
    }

    pub(crate) fn insert_with(&self, delay: u64, act: Act, last_will: LastWill) {
        let capture = self.capture(act, last_will);
        let (id, room) = (capture.id, self.truth().has_room(1));
        let deadline = self.truth().now.saturating_add(delay);
        let mut capture = Some(capture);
        let make = |handle| {
            assert!(self.scheduler.is_pending(handle));
            self.truth().jobs[id].handle = Some(handle);
            let capture = capture.take().expect("called once");
            move || capture.run()
        };
        match self.scheduler.insert_with(nanos(delay), make) {
            Ok(handle) => {
                let known = self.truth().jobs[id].handle;
                self.truth().claim(known == Some(handle), "another handle was made");
                self.accept(id, room, Some(handle));
                self.truth().jobs[id].rearmable = true;
                self.truth().set(id, deadline);
            }
            Err(kind) => {
                self.truth().claim(kind == InsertErrorKind::Full && !room, "a job was refused");
                self.drop_outside(capture);
            }
        }
    }

    pub(crate) fn time(&self, wall: i128) -> SystemTime {
        let by = nanos(wall.unsigned_abs() as u64);
        if wall < 0 { self.wall_origin - by } else { self.wall_origin + by }
    }

    pub(crate) fn repeat(&self, place: Place, plan: &Plan, act: Act, last_will: LastWill) {
        let mut capture = self.capture(act, last_will);
        let id = capture.id;
        let old = match place {
            Place::Key(key) => self.truth().keys.get(&key).copied(),
            _ => None,
        };
        let room = self.truth().has_room(1) || old.is_some();
        let mut repeat = match plan.period {
            Some(period) => Repeat::every(nanos(period)),
            None => Repeat::irregular(),
        };
        repeat = repeat.starting(self.when(plan.first)).missed(plan.missed);
        if plan.despite_panics {
            repeat = repeat.after_panic(Next::Period);
        }
        {
            let mut truth = self.truth();
            if let Place::Group(group) = place {
                truth.jobs[id].group = Some(group);
            }
            truth.jobs[id].rearmable = true;
            truth.jobs[id].repeat = Some(KnownRepeat {
                period: plan.period,
                missed: plan.missed,
                despite_panics: plan.despite_panics,
                answers: plan.answers.clone(),
                runs: 0,
                dropped: 0,
                out: false,
                moved: false,
            });
        }
        let answer = if plan.is_every {
            let period = nanos(plan.period.expect("it has one"));
            let job = move || {
                let _ = capture.run_again(None);
            };
            match place {
                Place::Wheel => of_wheel(self.scheduler.every(period, job)),
                Place::Group(group) => of_wheel(self.groups[group].every(period, job)),
                Place::Key(key) => of_key(self.keyed.every(key, period, job)),
            }
        } else {
            let job = move |run| capture.run_again(Some(run));
            match place {
                Place::Wheel => of_wheel(self.scheduler.repeat(repeat, job)),
                Place::Group(group) => of_wheel(self.groups[group].repeat(repeat, job)),
                Place::Key(key) => of_key(self.keyed.repeat(key, repeat, job)),
            }
        };
        match answer {
            Ok((handle, replaced)) => {
                self.accept(id, room && plan.period != Some(0), handle);
                match place {
                    Place::Key(key) => self.replace_key(key, id, old, &replaced, plan.first),
                    _ => self.note_time(id, plan.first),
                }
                self.drop_outside(replaced);
            }
            Err((kind, back)) => {
                let right = match plan.period {
                    Some(0) => kind == InsertErrorKind::ZeroPeriod,
                    _ => kind == InsertErrorKind::Full && !room,
                };
                self.truth().claim(right, "a job that repeats was refused");
                self.drop_outside(back);
            }
        }
    }

    /// Notes that a job was inserted under a key, in the place of the job `old`.
    fn replace_key(
        &self,
        key: Key,
        id: usize,
        old: Option<usize>,
        replaced: &Option<Job>,
        time: Time,
    ) {
        let mut truth = self.truth();
        // A running job that is replaced does not come back.
        let was_in = old.is_some_and(|old| !truth.is_out(old));
        truth.claim(replaced.is_some() == was_in, "replaced another");
        old.map(|old| truth.end(old));
        drop(truth);
        self.note_time(id, time);
        self.truth().keys.insert(key, id);
    }

    pub(crate) fn cancel_group(&self, group: usize) {
        let expected = {
            let mut truth = self.truth();
            let in_group = |id: &usize| truth.jobs[*id].group == Some(group);
            let members: Vec<usize> = (0..truth.jobs.len()).filter(in_group).collect();
            members.into_iter().filter(|&id| truth.end(id)).count()
        };
        let answer = self.groups[group].cancel_all();
        self.truth().claim(answer == expected, "a group counted wrong");
    }

    pub(crate) fn when(&self, time: Time) -> When {
        let truth = self.truth();
        match time {
            Time::After(delay) => When::after(nanos(delay)),
            Time::Within(delay, slack) => When::after(nanos(delay)).within(nanos(slack)),
            Time::At(_) => When::at(self.origin + nanos(truth.deadline_of(time))),
            Time::Wall(_) => When::wall(self.time(truth.wall_of(time).expect("it has one"))),
        }
    }

    /// Notes that a job was inserted for a time.
    fn note_time(&self, id: usize, time: Time) {
        let mut truth = self.truth();
        let (deadline, due, wall) =
            (truth.deadline_of(time), truth.due_of(time), truth.wall_of(time));
        let job = &mut truth.jobs[id];
        job.rearmable |= wall.is_some();
        (job.wall, job.deadline) = (wall, deadline);
        truth.set_due(id, due);
    }

    pub(crate) fn insert_batch(&self, timers: &[(Time, Act, LastWill)]) {
        let captures: Vec<_> = timers
            .iter()
            .map(|&(time, act, last_will)| (self.when(time), self.capture(act, last_will)))
            .collect();
        let ids: Vec<usize> = captures.iter().map(|(_, capture)| capture.id).collect();
        let room = self.truth().has_room(ids.len());
        let whens: Vec<When> = captures.iter().map(|&(when, _)| when).collect();
        let jobs = captures.into_iter().map(|(when, capture)| (when, || capture.run()));
        match self.scheduler.insert_batch(jobs) {
            Ok(handles) => {
                self.truth().claim(handles.len() == ids.len(), "as many handles as jobs");
                for ((id, handle), &(time, ..)) in ids.into_iter().zip(handles).zip(timers) {
                    self.accept(id, room, Some(handle));
                    self.note_time(id, time);
                }
            }
            Err(refused) => {
                let full = refused.kind() == InsertErrorKind::Full;
                let back = refused.into_inner();
                self.truth().claim(full && !room, "a batch was refused");
                let same = back.iter().map(|&(when, _)| when).eq(whens);
                self.truth().claim(same, "not all back");
                back.into_iter().for_each(|job| self.drop_outside(job));
            }
        }
    }

    /// Cancels the chosen jobs whose last will is quiet. Another last will could cancel a job of
    /// the batch before the batch reaches it, or after.
    pub(crate) fn cancel_batch(&self, which: &[usize]) {
        let chosen: Vec<(usize, Handle)> = which
            .iter()
            .filter_map(|&which| self.pick(which))
            .filter(|&(id, _)| self.truth().jobs[id].last_will.is_quiet())
            .collect();
        let expected: Vec<bool> = chosen.iter().map(|&(id, _)| self.truth().end(id)).collect();
        let handles: Vec<Handle> = chosen.into_iter().map(|(_, handle)| handle).collect();
        let answers = self.scheduler.cancel_batch(&handles);
        self.truth().claim(answers == expected, "a batch of cancels answered wrong");
    }

    pub(crate) fn reset_batch(&self, which: &[(usize, Time)]) {
        let chosen: Vec<(usize, Handle, Time)> = which
            .iter()
            .filter_map(|&(which, time)| self.pick(which).map(|(id, handle)| (id, handle, time)))
            .collect();
        let timers: Vec<_> =
            chosen.iter().map(|&(_, handle, time)| (handle, self.when(time))).collect();
        let answers = self.scheduler.reset_batch(&timers);
        let expected: Vec<bool> =
            chosen.iter().map(|&(id, _, time)| self.note_reset(id, time)).collect();
        self.truth().claim(answers == expected, "a batch of resets answered wrong");
    }

    pub(crate) fn pick(&self, which: usize) -> Option<(usize, Handle)> {
        let truth = self.truth();
        let id = which.checked_rem(truth.jobs.len())?;
        truth.jobs[id].handle.map(|handle| (id, handle))
    }

    pub(crate) fn cancel(&self, which: usize) {
        let Some((id, handle)) = self.pick(which) else { return };
        // Before the cancel, which drops the job: its last will asks the truth too.
        let expected = self.truth().end(id);
        let answer = self.scheduler.cancel(handle);
        self.truth().claim(answer == expected, "cancel answered wrong");
    }

    /// Drops or detaches a guard.
    pub(crate) fn guard(&self, which: usize, detach: bool) {
        let Some((id, handle)) = self.pick(which) else { return };
        let guard = Guard::new(self.scheduler.clone(), handle);
        if detach {
            assert_eq!(guard.detach(), handle);
        } else {
            self.truth().end(id);
            drop(guard);
        }
    }

    /// Takes a job, and runs it here or drops it.
    pub(crate) fn take(&self, which: usize, runs: bool) {
        let Some((id, handle)) = self.pick(which) else { return };
        let expected = {
            let mut truth = self.truth();
            !truth.is_out(id) && truth.end(id)
        };
        let job = self.scheduler.take(handle);
        self.truth().claim(job.is_some() == expected, "take answered wrong");
        match job {
            Some(job) if runs => {
                self.truth().runs_outside = Some(id);
                self.outside(|| job.run());
                let mut truth = self.truth();
                let has_run = truth.runs_outside.is_none();
                truth.claim(has_run, "a job that was taken did not run");
            }
            job => self.drop_outside(job),
        }
    }

    /// Takes a job, and inserts it again. It leaves its group then.
    pub(crate) fn move_job(&self, which: usize, time: Time) {
        let Some((id, handle)) = self.pick(which) else { return };
        let expected = {
            let mut truth = self.truth();
            !truth.is_out(id) && truth.end(id)
        };
        let Some(job) = self.scheduler.take(handle) else {
            return self.truth().claim(!expected, "a take to move a job answered wrong");
        };
        self.truth().claim(expected, "a job was taken that is not there");
        let moved = self.scheduler.insert(self.when(time), job).expect("there is its room");
        let is_stale = !self.scheduler.is_pending(handle);
        self.truth().claim(is_stale, "the old handle of a job that moved is pending");
        {
            let mut truth = self.truth();
            let job = &mut truth.jobs[id];
            job.handle = Some(moved);
            job.group = None;
            job.rearmable = job.repeat.is_some();
            if let Some(repeat) = &mut job.repeat {
                repeat.dropped = 0;
            }
        }
        self.note_time(id, time);
    }

    pub(crate) fn reset(&self, which: usize, time: Time) {
        let Some((id, handle)) = self.pick(which) else { return };
        let answer = self.scheduler.reset(handle, self.when(time));
        let expected = self.note_reset(id, time);
        self.truth().claim(answer == expected, "reset answered wrong");
    }

    /// Moves a job in the truth. Only a job that can be armed again follows the wall clock after that.
    /// Returns whether it is pending.
    fn note_reset(&self, id: usize, time: Time) -> bool {
        let mut truth = self.truth();
        let (deadline, due, wall) =
            (truth.deadline_of(time), truth.due_of(time), truth.wall_of(time));
        let (is_pending, is_out) = (truth.is_pending(id), truth.is_out(id));
        if !is_pending {
            return false;
        }
        let job = &mut truth.jobs[id];
        (job.deadline, job.wall) = (deadline, wall.filter(|_| job.rearmable));
        if let Some(repeat) = &mut job.repeat {
            // A reset sets the phase anew, so no deadline was missed.
            repeat.dropped = 0;
            repeat.moved |= is_out;
        }
        if !is_out {
            truth.set_due(id, due);
        }
        true
    }

    pub(crate) fn insert_key(
        &self,
        key: Key,
        time: Time,
        if_absent: bool,
        act: Act,
        will: LastWill,
    ) {
        let capture = self.capture(act, will);
        let id = capture.id;
        let (old, room) = {
            let truth = self.truth();
            (truth.keys.get(&key).copied(), truth.has_room(1))
        };
        let (when, job) = (self.when(time), move || capture.run());
        let answer: Result<Option<Job>, _> = match if_absent {
            true => self.keyed.insert_if_absent(key, when, job).map(|()| None),
            false => self.keyed.insert(key, when, job),
        };
        match answer {
            Ok(replaced) => {
                self.accept(id, room || old.is_some(), None);
                let free = old.is_none() || !if_absent;
                self.truth().claim(free, "a job came under a key that was taken");
                self.replace_key(key, id, old, &replaced, time);
                self.drop_outside(replaced);
            }
            Err(refused) if old.is_some() => {
                let taken = if_absent && refused.kind() == InsertErrorKind::Occupied;
                self.truth().claim(taken, "a key was refused");
                self.drop_outside(refused);
            }
            Err(refused) => self.check_refusal(room, refused),
        }
    }

    /// The jobs of a batch need room for all of them, also those that replace others.
    pub(crate) fn insert_keys(&self, timers: &[(Key, u64)]) {
        let capture = || self.capture(Act::Nothing, LastWill::Nothing);
        let captures: Vec<_> = timers.iter().map(|_| capture()).collect();
        let ids: Vec<usize> = captures.iter().map(|capture| capture.id).collect();
        let room = self.truth().has_room(ids.len());
        let jobs = timers.iter().zip(captures);
        let jobs = jobs.map(|(&(key, delay), job)| (key, nanos(delay), || job.run()));
        match self.keyed.insert_batch(jobs) {
            Ok(all_replaced) => {
                self.truth().claim(all_replaced.len() == ids.len(), "as many answers as keys");
                for ((id, replaced), &(key, delay)) in ids.iter().zip(&all_replaced).zip(timers) {
                    let old = self.truth().keys.get(&key).copied();
                    self.accept(*id, room, None);
                    self.replace_key(key, *id, old, replaced, Time::After(delay));
                }
                all_replaced.into_iter().for_each(|job| self.drop_outside(job));
            }
            Err(refused) => self.check_refusal(room, refused),
        }
    }

    /// Returns whether the order in which the jobs of some keys are dropped makes no difference.
    fn are_quiet(&self, keys: &[Key]) -> bool {
        let truth = self.truth();
        let mut ids = keys.iter().filter_map(|key| truth.keys.get(key));
        ids.all(|&id| truth.jobs[id].last_will.is_quiet())
    }

    pub(crate) fn cancel_key(&self, key: Key) {
        let expected = self.end_key(key);
        let answer = self.keyed.cancel(&key);
        self.truth().claim(answer == expected, "the cancel of a key answered wrong");
    }

    pub(crate) fn cancel_keys(&self, keys: [Key; 3]) {
        if self.are_quiet(&keys) {
            let expected = keys.map(|key| self.end_key(key));
            let answers = self.keyed.cancel_batch(&keys);
            self.truth().claim(answers == expected, "a batch of cancelled keys answered wrong");
        }
    }

    pub(crate) fn cancel_all_keys(&self) {
        let keys: Vec<Key> = self.truth().keys.keys().copied().collect();
        if self.are_quiet(&keys) {
            for &key in &keys {
                self.end_key(key);
            }
            let answer = self.keyed.cancel_all();
            self.truth().claim(answer == keys.len(), "the cancel of all keys counted wrong");
        }
    }

    pub(crate) fn cancel_key_by_handle(&self, key: Key) {
        let handle = self.keyed.handle(&key);
        let expected = self.end_key(key);
        self.truth().claim(handle.is_some() == expected, "a key has another handle");
        if let Some(handle) = handle {
            let answers = [self.scheduler.cancel(handle), self.scheduler.cancel(handle)];
            self.truth().claim(answers == [true, false], "a key's handle cancelled wrong");
        }
    }

    pub(crate) fn take_key(&self, key: Key) {
        let expected = {
            let truth = self.truth();
            !truth.keys.get(&key).is_some_and(|&id| truth.is_out(id))
        };
        let expected = expected && self.end_key(key);
        let job = self.keyed.take(&key);
        self.truth().claim(job.is_some() == expected, "the take of a key answered wrong");
        self.drop_outside(job);
    }

    fn end_key(&self, key: Key) -> bool {
        let mut truth = self.truth();
        let id = truth.keys.remove(&key);
        id.is_some_and(|id| truth.end(id))
    }

    pub(crate) fn reset_key(&self, key: Key, time: Time) {
        let answer = self.keyed.reset(&key, self.when(time));
        let expected = self.note_reset_of_key(key, time);
        self.truth().claim(answer == expected, "the reset of a key answered wrong");
    }

    pub(crate) fn reset_keys(&self, keys: [Key; 3], delay: u64) {
        let answers = self.keyed.reset_batch(keys.iter().map(|key| (key, nanos(delay))));
        let expected = keys.map(|key| self.note_reset_of_key(key, Time::After(delay)));
        self.truth().claim(answers == expected, "a batch of reset keys answered wrong");
    }

    fn note_reset_of_key(&self, key: Key, time: Time) -> bool {
        let id = self.truth().keys.get(&key).copied();
        id.is_some_and(|id| self.note_reset(id, time))
    }
}
