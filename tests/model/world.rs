//! Every verb, done to the wheel and to the truth, and what both return compared.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use tickwheel::{
    Group, Guard, Handle, InsertError, InsertErrorKind, Job, Keyed, Next, Repeat, Run, Scheduler,
};

use crate::truth::{KnownRepeat, Truth};
use crate::{Act, Answer, First, LastWill, Plan};

/// A job stops after this number of runs: one that repeats at every tick would fill the history.
const MAX_RUNS: usize = 25;

/// Everything a job can reach.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) truth: Arc<Mutex<Truth>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) keyed: Keyed<u8>,
    pub(crate) groups: Arc<[Group; 2]>,
    pub(crate) origin: Instant,
    pub(crate) wall_origin: SystemTime,
}

/// Captured by every job.
struct Capture {
    world: World,
    id: usize,
    last_will: LastWill,
}

impl Drop for Capture {
    fn drop(&mut self) {
        match self.last_will {
            LastWill::Nothing => (),
            LastWill::Insert(delay) => self.world.insert(delay, Act::Nothing, LastWill::Nothing),
            LastWill::Cancel(which) => self.world.cancel(which),
            LastWill::CancelKey(key) => self.world.cancel_key(key),
            LastWill::Panic => {
                self.world.truth().panics += 1;
                panic_any("last will");
            }
        }
    }
}

fn nanos(count: u64) -> Duration {
    Duration::from_nanos(count)
}

impl World {
    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the capture of a job that is about to be inserted.
    fn capture(&self, act: Act, last_will: LastWill) -> Capture {
        let id = self.truth().add(act, last_will);
        Capture { world: self.clone(), id, last_will }
    }

    /// Drops jobs that came back. Their last wills are done here, outside the wheel, so a panic is
    /// caught here and not counted by the wheel.
    fn drop_outside<T>(&self, jobs: T) {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(jobs)));
        self.truth().panics -= u64::from(dropped.is_err());
    }

    /// Checks that an insert was right to refuse a job.
    fn check_refusal<T>(&self, room: bool, refused: InsertError<T>) {
        let full = refused.kind() == InsertErrorKind::Full;
        self.truth().claim(full && !room, "a job was refused");
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

    pub(crate) fn insert_within(&self, delay: u64, slack: u64, act: Act) {
        let capture = self.capture(act, LastWill::Nothing);
        let (id, room) = (capture.id, self.truth().has_room(1));
        let due = self.truth().due_within(delay, slack);
        match self.scheduler.insert_within(nanos(delay), nanos(slack), move || capture.run()) {
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
        match self.scheduler.insert_at(self.time(wall), move || capture.run()) {
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

    fn time(&self, wall: i128) -> SystemTime {
        let by = nanos(wall.unsigned_abs() as u64);
        if wall < 0 { self.wall_origin - by } else { self.wall_origin + by }
    }

    pub(crate) fn repeat(&self, group: Option<usize>, plan: &Plan, act: Act, last_will: LastWill) {
        let mut capture = self.capture(act, last_will);
        let id = capture.id;
        let (room, now) = {
            let truth = self.truth();
            (truth.has_room(1), truth.now)
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
            repeat = repeat.despite_panics();
        }
        {
            let mut truth = self.truth();
            truth.jobs[id].group = group;
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
        let answer = match group {
            Some(group) => self.groups[group].repeat(repeat, job),
            None => self.scheduler.repeat(repeat, job),
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

    pub(crate) fn insert_batch(&self, timers: &[(u64, Act, LastWill)]) {
        let captures: Vec<_> = timers
            .iter()
            .map(|&(delay, act, last_will)| (delay, self.capture(act, last_will)))
            .collect();
        let ids: Vec<usize> = captures.iter().map(|(_, capture)| capture.id).collect();
        let room = self.truth().has_room(ids.len());
        let jobs = captures.into_iter().map(|(delay, capture)| (nanos(delay), || capture.run()));
        match self.scheduler.insert_batch(jobs) {
            Ok(handles) => {
                self.truth().claim(handles.len() == ids.len(), "as many handles as jobs");
                for ((id, handle), &(delay, ..)) in ids.into_iter().zip(handles).zip(timers) {
                    self.accept(id, room, Some(handle));
                    let deadline = self.truth().now.saturating_add(delay);
                    self.truth().set(id, deadline);
                }
            }
            Err(refused) => {
                let full = refused.kind() == InsertErrorKind::Full;
                let back = refused.into_inner();
                self.truth().claim(full && !room, "a batch was refused");
                let asked = timers.iter().map(|&(delay, ..)| nanos(delay));
                self.truth().claim(asked.eq(back.iter().map(|&(delay, _)| delay)), "not all back");
                back.into_iter().for_each(|job| self.drop_outside(job));
            }
        }
    }

    /// Cancels the chosen jobs whose last will is quiet. Another last will could cancel a job of
    /// the batch before the batch comes to it, or after.
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
        // First, because the cancel drops the job, and its last will asks the truth too.
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

    /// Resets a job to a wall-clock time. Only a re-armable job remembers that it is one.
    pub(crate) fn reset_wall(&self, which: usize, ahead: i64) {
        let Some((id, handle)) = self.pick(which) else { return };
        let wall = self.truth().wall_now() + i128::from(ahead);
        let answer = self.scheduler.reset_at(handle, self.time(wall));
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
                {
                    let mut truth = self.truth();
                    let free = old.is_none() || !if_absent;
                    truth.claim(free, "a job came under a key that was taken");
                    truth.claim(replaced.is_some() == old.is_some(), "replaced another");
                    old.map(|old| truth.end(old));
                    truth.set(id, deadline);
                    truth.keys.insert(key, id);
                }
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
        let expected = self.end_key(key);
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

    fn act(&self, id: usize, act: Act) {
        match act {
            Act::Nothing | Act::Panic => (),
            Act::Insert(delay) => self.insert(delay, Act::Nothing, LastWill::Nothing),
            Act::InsertKey(key, delay) => {
                self.insert_key(key, delay, false, Act::Nothing, LastWill::Nothing);
            }
            Act::CancelItself => self.cancel(id),
            Act::ResetItself(delay) => self.reset(id, delay),
            Act::Cancel(which) => self.cancel(which),
            Act::CancelGroup(group) => self.cancel_group(group),
            Act::Take(which) => self.take(which),
            Act::Reset(which, delay) => self.reset(which, delay),
        }
    }
}

impl Capture {
    /// Begins a run: checks that the job is due. Returns what the run does.
    fn begin(&self) -> Act {
        let mut truth = self.world.truth();
        let due = truth.jobs[self.id].due;
        let first = truth.first();
        truth.claim(due.is_some(), "a job ran that was not pending");
        truth.claim(due == first, "a job ran before one that was due earlier");
        // The clock of a manual wheel reads the deadline of the job that runs.
        truth.now = truth.now.max(due.unwrap_or(0) * crate::truth::TICK);
        truth.ran += 1;
        truth.jobs[self.id].act
    }

    fn run(self) {
        let act = self.begin();
        {
            let mut truth = self.world.truth();
            truth.end(self.id);
            let key = truth.keys.iter().find(|&(_, &id)| id == self.id).map(|(&key, _)| key);
            if let Some(key) = key {
                truth.keys.remove(&key);
                truth.claim(!self.world.keyed.contains(&key), "a key is taken by its running job");
            }
        }
        self.world.act(self.id, act);
        if matches!(act, Act::Panic) {
            self.world.truth().panics += 1;
            // A second panic while this one unwinds would end the process.
            let mut this = self;
            this.last_will = LastWill::Nothing;
            panic_any("act");
        }
    }

    fn run_again(&mut self, run: Run) -> Next {
        let act = self.begin();
        let (answer, panics) = {
            let mut truth = self.world.truth();
            truth.begin_run(self.id);
            let (now, deadline) = (truth.now, truth.jobs[self.id].deadline);
            let repeat = truth.jobs[self.id].repeat.clone().expect("it repeats");
            truth.claim(run.deadline == self.world.origin + nanos(deadline), "another deadline");
            truth.claim(run.late == nanos(now.saturating_sub(deadline)), "not as late");
            truth.claim(run.missed == repeat.dropped, "others were missed");
            let handle = truth.jobs[self.id].handle;
            truth.claim(Some(run.handle) == handle, "another handle");
            let answer = repeat.answers[(repeat.runs - 1) % repeat.answers.len()];
            // A repeating job panics in every second run.
            let panics = matches!(act, Act::Panic) && repeat.runs % 2 == 1;
            if repeat.runs < MAX_RUNS { (answer, panics) } else { (Answer::Stop, false) }
        };
        self.world.act(self.id, act);
        let next = self.note_answer(if panics { None } else { Some(answer) });
        if panics {
            self.world.truth().panics += 1;
            panic_any("act");
        }
        next
    }

    /// Notes in the truth what follows from a run's answer, which is `None` for a panic. Returns
    /// what the run returns to the wheel.
    fn note_answer(&self, answer: Option<Answer>) -> Next {
        let id = self.id;
        let mut truth = self.world.truth();
        let repeat = truth.jobs[id].repeat.clone().expect("it repeats");
        let answer = match answer {
            None if repeat.despite_panics => Answer::Period,
            None => Answer::Stop,
            Some(answer) => answer,
        };
        let now = truth.now;
        let (next, deadline, wall, dropped) = match answer {
            Answer::Period => match truth.follow(id) {
                Some((next, dropped)) => (Next::Period, Some(next), None, dropped),
                None => (Next::Period, None, None, 0),
            },
            Answer::After(delay) => {
                (Next::After(nanos(delay)), Some(now.saturating_add(delay)), None, 0)
            }
            Answer::At(ahead) => {
                let at = now.saturating_add_signed(ahead);
                (Next::At(self.world.origin + nanos(at)), Some(at), None, 0)
            }
            Answer::Wall(ahead) => {
                let wall = truth.wall_now() + i128::from(ahead);
                let at = truth.when_wall_reads(wall);
                (Next::Wall(self.world.time(wall)), Some(at), Some(wall), 0)
            }
            Answer::Stop => (Next::Stop, None, None, 0),
        };
        if !repeat.out {
            // The run has cancelled its own job.
            return next;
        }
        let Some(deadline) = deadline else {
            truth.end(id);
            return next;
        };
        // A reset during the run sets the phase anew.
        let dropped = if repeat.moved { 0 } else { dropped };
        truth.jobs[id].repeat.as_mut().expect("it repeats").dropped = dropped;
        let moved_to = repeat.moved.then_some(truth.jobs[id].deadline);
        if !repeat.moved {
            truth.jobs[id].wall = wall;
        }
        truth.set(id, moved_to.unwrap_or(deadline));
        next
    }
}
