//! Every verb for a job, called on the wheel and on the truth, with the results compared.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Receiver;
use tickwheel::{
    Driver, Event, Events, Group, Guard, Handle, InsertError, InsertErrorKind, Job, Keyed, Next,
    Repeat, Scheduler, When,
};

use crate::events::Value;
#[cfg(feature = "async")]
use crate::sleepers::Sleeper;
use crate::truth::{KnownRepeat, Truth};
use crate::{Act, First, LastWill, Place, Plan, Time};

/// Everything a job can reach.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) truth: Arc<Mutex<Truth>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) keyed: Keyed<u8>,
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

/// The job that had the key before, the deadline of the new one, and the result of the insert.
type KeyedAnswer<T> = (Option<usize>, u64, Result<Option<Job>, (InsertErrorKind, T)>);

pub(crate) fn nanos(count: u64) -> Duration {
    Duration::from_nanos(count)
}

impl World {
    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Drops jobs that came back. Their last wills are done here, outside the wheel, so a panic is
    /// caught here and not counted by the wheel.
    pub(crate) fn drop_outside<T>(&self, jobs: T) {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(jobs)));
        self.truth().panics -= u64::from(dropped.is_err());
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

    pub(crate) fn insert(&self, delay: u64, act: Act, last_will: LastWill) {
        let capture = self.capture(act, last_will);
        let (id, room) = (capture.id, self.truth().has_room(1));
        let deadline = self.truth().now.saturating_add(delay);
        match self.scheduler.insert(nanos(delay), move || capture.run()) {
            Ok(handle) => {
                self.accept(id, room, Some(handle));
                self.truth().set(id, deadline);
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

    pub(crate) fn insert_within(&self, delay: u64, slack: u64, act: Act) {
        let capture = self.capture(act, LastWill::Nothing);
        let (id, room) = (capture.id, self.truth().has_room(1));
        let due = self.truth().due_within(delay, slack);
        match self
            .scheduler
            .insert(When::after(nanos(delay)).within(nanos(slack)), move || capture.run())
        {
            Ok(handle) => {
                self.accept(id, room, Some(handle));
                self.truth().set_due(id, due);
            }
            Err(refused) => self.check_refusal(room, refused),
        }
    }

    /// Inserts a job for the wall-clock time `ahead` of now, which may have passed.
    pub(crate) fn insert_wall(&self, ahead: i64, act: Act, last_will: LastWill) {
        let capture = self.capture(act, last_will);
        let (id, room) = (capture.id, self.truth().has_room(1));
        let wall = self.truth().wall_now() + i128::from(ahead);
        match self.scheduler.insert(self.time(wall), move || capture.run()) {
            Ok(handle) => {
                self.accept(id, room, Some(handle));
                let mut truth = self.truth();
                truth.jobs[id].rearmable = true;
                truth.jobs[id].wall = Some(wall);
                let deadline = truth.when_wall_reads(wall);
                truth.set(id, deadline);
            }
            Err(refused) => self.check_refusal(room, refused),
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
        let (room, now) = {
            let truth = self.truth();
            (truth.has_room(1) || old.is_some(), truth.now)
        };
        let (first, deadline) = match plan.first {
            First::After(delay) => (nanos(delay).into(), now.saturating_add(delay)),
            First::Past(by) => {
                let at = now.saturating_sub(by);
                ((self.origin + nanos(at)).into(), at)
            }
        };
        let first: tickwheel::When = first;
        let mut repeat = match plan.period {
            Some(period) => Repeat::every(nanos(period)),
            None => Repeat::irregular(),
        };
        repeat = repeat.starting(first).missed(plan.missed);
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
        let job = move |run| capture.run_again(run);
        let answer = match place {
            Place::Group(group) => self.groups[group].repeat(repeat, job),
            Place::Wheel => self.scheduler.repeat(repeat, job),
            Place::Key(key) => {
                return self.check_keyed_repeat(id, key, plan, room, {
                    let answer = self.keyed.repeat(key, repeat, job);
                    (
                        old,
                        deadline,
                        answer.map_err(|refused| (refused.kind(), refused.into_inner())),
                    )
                });
            }
        };
        match answer {
            Ok(handle) => {
                self.accept(id, room && plan.period != Some(0), Some(handle));
                self.truth().set(id, deadline);
            }
            Err(refused) if plan.period == Some(0) => {
                let zero = refused.kind() == InsertErrorKind::ZeroPeriod;
                self.truth().claim(zero, "another refusal of no period");
                self.drop_outside(refused);
            }
            Err(refused) => self.check_refusal(room, refused),
        }
    }

    fn check_keyed_repeat<T>(
        &self,
        id: usize,
        key: u8,
        plan: &Plan,
        room: bool,
        (old, deadline, answer): KeyedAnswer<T>,
    ) {
        match answer {
            Ok(replaced) => {
                self.accept(id, room && plan.period != Some(0), None);
                self.replace_key(key, id, old, &replaced, deadline);
                self.drop_outside(replaced);
            }
            Err((kind, back)) => {
                let right = match plan.period {
                    Some(0) => kind == InsertErrorKind::ZeroPeriod,
                    _ => kind == InsertErrorKind::Full && !room,
                };
                self.truth().claim(right, "a repeat was refused its key");
                self.drop_outside(back);
            }
        }
    }

    /// Notes that a job was inserted under a key, in the place of the job `old`.
    fn replace_key(
        &self,
        key: u8,
        id: usize,
        old: Option<usize>,
        replaced: &Option<Job>,
        deadline: u64,
    ) {
        let mut truth = self.truth();
        // A running job that is replaced does not come back.
        let was_in = old.is_some_and(|old| !truth.is_out(old));
        truth.claim(replaced.is_some() == was_in, "replaced another");
        old.map(|old| truth.end(old));
        truth.set(id, deadline);
        truth.keys.insert(key, id);
    }

    pub(crate) fn insert_into_group(&self, group: usize, delay: u64, act: Act, quiet: LastWill) {
        let capture = self.capture(act, quiet);
        let (id, room) = (capture.id, self.truth().has_room(1));
        let deadline = self.truth().now.saturating_add(delay);
        self.truth().jobs[id].group = Some(group);
        match self.groups[group].insert(nanos(delay), move || capture.run()) {
            Ok(handle) => {
                self.accept(id, room, Some(handle));
                self.truth().set(id, deadline);
            }
            Err(refused) => self.check_refusal(room, refused),
        }
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

    fn when(&self, time: Time) -> When {
        match time {
            Time::After(delay) => nanos(delay).into(),
            Time::Wall(ahead) => {
                let wall = self.truth().wall_now() + i128::from(ahead);
                self.time(wall).into()
            }
        }
    }

    /// Notes that a one-shot job was inserted for a time.
    fn note_time(&self, id: usize, time: Time) {
        let mut truth = self.truth();
        if let Time::Wall(ahead) = time {
            truth.jobs[id].rearmable = true;
            truth.jobs[id].wall = Some(truth.wall_now() + i128::from(ahead));
        }
        let deadline = truth.deadline_of(time);
        truth.set(id, deadline);
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

    pub(crate) fn reset_batch(&self, which: &[(usize, u64)]) {
        let chosen: Vec<(usize, Handle, u64)> = which
            .iter()
            .filter_map(|&(which, delay)| self.pick(which).map(|(id, handle)| (id, handle, delay)))
            .collect();
        let timers: Vec<_> =
            chosen.iter().map(|&(_, handle, delay)| (handle, nanos(delay))).collect();
        let answers = self.scheduler.reset_batch(&timers);
        let expected: Vec<bool> =
            chosen.iter().map(|&(id, _, delay)| self.note_reset(id, delay)).collect();
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

    pub(crate) fn take(&self, which: usize) {
        let Some((id, handle)) = self.pick(which) else { return };
        let expected = {
            let mut truth = self.truth();
            !truth.is_out(id) && truth.end(id)
        };
        let job = self.scheduler.take(handle);
        self.truth().claim(job.is_some() == expected, "take answered wrong");
        self.drop_outside(job);
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
        {
            let mut truth = self.truth();
            let job = &mut truth.jobs[id];
            job.handle = Some(moved);
            job.group = None;
            job.wall = None;
            job.rearmable = job.repeat.is_some();
            if let Some(repeat) = &mut job.repeat {
                repeat.dropped = 0;
            }
        }
        self.note_time(id, time);
    }

    /// Gives a job a time with slack.
    pub(crate) fn reset_within(&self, which: usize, delay: u64, slack: u64) {
        let Some((id, handle)) = self.pick(which) else { return };
        let due = self.truth().due_within(delay, slack);
        let answer = self.scheduler.reset(handle, When::after(nanos(delay)).within(nanos(slack)));
        let expected = self.note_reset(id, delay);
        self.truth().claim(answer == expected, "a reset with slack answered wrong");
        if expected {
            self.truth().set_due(id, due);
        }
    }

    pub(crate) fn reset(&self, which: usize, delay: u64) {
        let Some((id, handle)) = self.pick(which) else { return };
        let answer = self.scheduler.reset(handle, nanos(delay));
        let expected = self.note_reset(id, delay);
        self.truth().claim(answer == expected, "reset answered wrong");
    }

    /// Moves a job in the truth. Returns whether it is pending.
    fn note_reset(&self, id: usize, delay: u64) -> bool {
        let mut truth = self.truth();
        let deadline = truth.now.saturating_add(delay);
        truth.jobs[id].wall = if truth.is_pending(id) { None } else { truth.jobs[id].wall };
        self.note_move(&mut truth, id, deadline)
    }

    fn note_move(&self, truth: &mut Truth, id: usize, deadline: u64) -> bool {
        // A reset sets the phase anew, so no deadline was missed.
        if let Some(repeat) = &mut truth.jobs[id].repeat {
            repeat.dropped = 0;
        }
        if truth.is_out(id) {
            truth.jobs[id].deadline = deadline;
            truth.jobs[id].repeat.as_mut().expect("only these are ever out").moved = true;
            return true;
        }
        let pending = truth.is_pending(id);
        if pending {
            truth.set(id, deadline);
        }
        pending
    }

    /// Resets a job to a wall-clock time. Only a re-armable job follows the wall clock after that.
    pub(crate) fn reset_wall(&self, which: usize, ahead: i64) {
        let Some((id, handle)) = self.pick(which) else { return };
        let wall = self.truth().wall_now() + i128::from(ahead);
        let answer = self.scheduler.reset(handle, self.time(wall));
        let mut truth = self.truth();
        let deadline = truth.when_wall_reads(wall);
        if truth.jobs[id].rearmable {
            truth.jobs[id].wall = Some(wall);
        }
        let expected = self.note_move(&mut truth, id, deadline);
        truth.claim(answer == expected, "reset_at answered wrong");
    }

    pub(crate) fn insert_key(
        &self,
        key: u8,
        delay: u64,
        if_absent: bool,
        act: Act,
        will: LastWill,
    ) {
        let capture = self.capture(act, will);
        let id = capture.id;
        let (old, room, deadline) = {
            let truth = self.truth();
            (truth.keys.get(&key).copied(), truth.has_room(1), truth.now.saturating_add(delay))
        };
        let job = move || capture.run();
        let answer: Result<Option<Job>, _> = match if_absent {
            true => self.keyed.insert_if_absent(key, nanos(delay), job).map(|()| None),
            false => self.keyed.insert(key, nanos(delay), job),
        };
        match answer {
            Ok(replaced) => {
                self.accept(id, room || old.is_some(), None);
                let free = old.is_none() || !if_absent;
                self.truth().claim(free, "a job came under a key that was taken");
                self.replace_key(key, id, old, &replaced, deadline);
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

    pub(crate) fn cancel_key(&self, key: u8) {
        let expected = self.end_key(key);
        let answer = self.keyed.cancel(&key);
        self.truth().claim(answer == expected, "the cancel of a key answered wrong");
    }

    pub(crate) fn take_key(&self, key: u8) {
        let expected = {
            let truth = self.truth();
            !truth.keys.get(&key).is_some_and(|&id| truth.is_out(id))
        };
        let expected = expected && self.end_key(key);
        let job = self.keyed.take(&key);
        self.truth().claim(job.is_some() == expected, "the take of a key answered wrong");
        self.drop_outside(job);
    }

    fn end_key(&self, key: u8) -> bool {
        let mut truth = self.truth();
        let id = truth.keys.remove(&key);
        id.is_some_and(|id| truth.end(id))
    }

    pub(crate) fn reset_key(&self, key: u8, delay: u64) {
        let answer = self.keyed.reset(&key, nanos(delay));
        let id = self.truth().keys.get(&key).copied();
        let expected = id.is_some_and(|id| self.note_reset(id, delay));
        self.truth().claim(answer == expected, "the reset of a key answered wrong");
    }
}
