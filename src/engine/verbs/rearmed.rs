//! The re-armable jobs, which come into the wheel several times and keep their handle: their verbs, and the wrappers
//! around user closures that go back into the wheel.
//!
//! Ground rules:
//!
//! - A re-armable job belongs to one shard for life. Its handle has the number of that shard.
//! - On a bounded wheel it has room from its insert to its end, whether it is in or out. So it always finds room when
//!   it comes back.
//! - It ends when it is deregistered. The code that deregisters it, a cancel, a stop or the job itself, gives its room
//!   back.
//! - A job is one box, which is in the wheel or on a thread. So a run cannot overlap itself, and arming the job again
//!   allocates nothing.
//! - The job holds the engine that holds it. Stopping the engine takes every job out, which breaks the cycle.
//! - Every run ends with the job armed again or deregistered. User code is called through the unwind boundary, which
//!   also returns after a panic.

use core::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::engine::shard::{Inserted, Shard, Start};
use crate::host::clock::{Point, Target};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Call, CallAgain, Disarmed, IntoJob, Job, Work, disarmed, is_job};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::time::{Moment, Tick, When, Window};

impl Engine {
    pub(crate) fn every<F>(self: &Arc<Engine>, period: Duration, job: F) -> Inserted<F>
    where
        F: FnMut() + Send + 'static,
    {
        self.repeat(Repeat::every(period), IgnoresRun(job))
            .map_err(|refused| refused.map(|job| job.0))
    }

    pub(crate) fn repeat<C: CallAgain>(self: &Arc<Engine>, repeat: Repeat, job: C) -> Inserted<C> {
        self.repeat_in_place_of(None, repeat, job, &mut None)
    }

    /// Does what [`Engine::repeat`] does, in place of an `old` job as [`Engine::insert_in_place_of`].
    pub(crate) fn repeat_in_place_of<C: CallAgain>(
        self: &Arc<Engine>,
        old: Option<Handle>,
        repeat: Repeat,
        job: C,
        replaced: &mut Option<Job>,
    ) -> Inserted<C> {
        let target = self.timebase.target(repeat.first(), self.timebase.clock().now());
        if repeat.has_zero_period() {
            self.note_refused(1);
            return Err(InsertError::new(InsertErrorKind::ZeroPeriod, job));
        }
        match self.admit_in_place_of(old, replaced) {
            Ok(()) => self.insert_repeating(target, repeat, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    pub(super) fn insert_repeating<C: CallAgain>(
        self: &Arc<Engine>,
        target: Target,
        repeat: Repeat,
        job: C,
    ) -> Inserted<C> {
        let wrap = |handle, job| Repeating { engine: Arc::clone(self), handle, repeat, job };
        self.enter(target, job, wrap, |repeating| repeating.job)
    }

    /// Adds an admitted job that waits for a wall-clock time.
    pub(super) fn insert_appointment(
        self: &Arc<Engine>,
        target: Target,
        job: Job,
    ) -> Inserted<Job> {
        let wrap = |handle, job| Appointment { engine: Arc::clone(self), handle, job };
        self.enter(target, job, wrap, |appointment| appointment.job)
    }

    /// Returns the target of a job that gets `when` at `now`. A repeating job keeps its window
    /// unless `when` brings another.
    pub(super) fn target_of(&self, job: &Disarmed, when: When, now: Moment) -> Target {
        let when = match job {
            Disarmed::OneShot(_) => when,
            Disarmed::Repeating { repeat, .. } => repeat.starting(when).first(),
        };
        self.timebase.target(when, now)
    }

    pub(crate) fn rearmable(self: &Arc<Engine>, handle: Handle, job: Disarmed) -> Job {
        match job {
            Disarmed::OneShot(job) => {
                Box::new(Appointment { engine: Arc::clone(self), handle, job }).into_job()
            }
            Disarmed::Repeating { repeat, job, .. } => self.repeating(handle, repeat, job),
        }
    }

    /// Wraps a job that repeats, and has or had this handle.
    pub(crate) fn repeating(
        self: &Arc<Engine>,
        handle: Handle,
        repeat: Repeat,
        job: Box<dyn CallAgain>,
    ) -> Job {
        Box::new(Repeating { engine: Arc::clone(self), handle, repeat, job }).into_job()
    }

    /// Returns the job from which [`disarmed`] made this one. One that repeats has its old handle.
    pub(super) fn as_it_was(self: &Arc<Engine>, job: Disarmed) -> Job {
        match job {
            Disarmed::OneShot(job) => job,
            Disarmed::Repeating { handle, repeat, job } => self.repeating(handle, repeat, job),
        }
    }

    /// Returns a [`Job`] without its wrappers, to be wrapped again; any other `call` unchanged.
    pub(crate) fn unwrapped<C: Call>(self: &Arc<Engine>, call: C) -> C {
        match is_job::<C>() {
            true => self.as_it_was(disarmed(call)).into_call(),
            false => call,
        }
    }

    /// Registers an admitted job, wraps it, and arms it for the first time.
    fn enter<C, W: Work>(
        &self,
        target: Target,
        job: C,
        wrap: impl FnOnce(Handle, C) -> W,
        unwrap: impl FnOnce(W) -> C,
    ) -> Inserted<C> {
        let handle = match self.own_shard().register() {
            Ok(handle) => handle,
            Err(kind) => {
                self.release_refused(1);
                return Err(InsertError::new(kind, job));
            }
        };
        match self.arm(handle, target, 0, Box::new(wrap(handle, job))) {
            Ok(()) => Ok(handle),
            Err(back) => {
                self.note_refused(1);
                Err(InsertError::new(InsertErrorKind::Shutdown, unwrap(*back)))
            }
        }
    }

    /// Arms a job, for the first time or again. Returns the job if it was cancelled, or if the
    /// wheel is gone.
    pub(super) fn arm<J: IntoJob>(
        &self,
        handle: Handle,
        target: Target,
        missed: u64,
        job: J,
    ) -> Result<(), J> {
        let Some(shard) = self.rearmable_shard(handle) else { return Err(job) };
        let armed = shard.arm(handle, target, missed, &self.timebase, job);
        let tick = armed.inspect_err(|_| _ = self.deregister(handle))?;
        self.alarm.wake_for(tick);
        Ok(())
    }

    /// Decides whether a job that came due may start. If `last`, it will not come back, and is
    /// deregistered as it starts.
    fn start(&self, handle: Handle, last: bool) -> Start {
        let start = |shard: &Shard| shard.start(handle, &self.timebase, last);
        let start = self.rearmable_shard(handle).map_or(Start::Gone, start);
        if last && matches!(start, Start::Due { .. }) {
            self.release(1);
        }
        start
    }

    /// Deregisters a job that will not come back. Returns when it would have run next, or `None` if
    /// it was not registered any more.
    pub(super) fn deregister(&self, handle: Handle) -> Option<Tick> {
        let deregister = |shard: &Shard| shard.deregister(handle, &self.timebase);
        let due = self.rearmable_shard(handle).and_then(deregister);
        self.release(usize::from(due.is_some()));
        due
    }

    /// Deregisters a job, and takes it out if it is in. Returns whether it was registered.
    pub(super) fn remove_rearmable(&self, handle: Handle, job: &mut Option<Job>) -> bool {
        let cancel = |shard: &Shard| shard.cancel_rearmable(handle);
        let Some(found) = self.rearmable_shard(handle).and_then(cancel) else { return false };
        *job = found;
        true
    }

    #[cold]
    pub(super) fn cancel_rearmable(&self, handle: Handle) -> bool {
        let mut job = None;
        let cancelled = self.remove(handle, &mut job);
        job.into_iter().for_each(|job| self.discard(job, handle));
        cancelled
    }

    #[cold]
    pub(super) fn reset_rearmable(&self, handle: Handle, target: Target) -> bool {
        let reset = |shard: &Shard| shard.reset_rearmable(handle, target, &self.timebase);
        let Some(tick) = self.rearmable_shard(handle).and_then(reset) else { return false };
        self.alarm.wake_for(tick);
        true
    }

    /// Estimates anew the deadline of every job that waits for a wall-clock time.
    pub(crate) fn follow_the_wall(&self) {
        self.shards.iter().for_each(|shard| shard.follow_the_wall(&self.timebase));
    }

    pub(super) fn rearmable_shard(&self, handle: Handle) -> Option<&Shard> {
        self.shards.get(handle.rearmable_shard()? as usize)
    }
}

/// A job that repeats at its period, and ignores the [`Run`].
pub(crate) struct IgnoresRun<F>(pub(crate) F);

impl<F: FnMut() + Send + 'static> CallAgain for IgnoresRun<F> {
    fn call(&mut self, _: Run) -> Next {
        (self.0)();
        Next::Period
    }
}

pub(super) struct Repeating<C> {
    engine: Arc<Engine>,
    handle: Handle,
    repeat: Repeat,
    job: C,
}

impl<C: CallAgain> Repeating<C> {
    fn describe(&self, deadline: Moment, missed: u64) -> Run {
        let clock = self.engine.timebase.clock();
        let now = clock.now();
        Run {
            deadline: clock.instant(deadline),
            started: clock.instant(now),
            late: now.since(deadline),
            wall: clock.wall(),
            missed,
            handle: self.handle,
        }
    }

    /// Returns the target of the run that follows the one due at `deadline`, and how many deadlines
    /// are dropped before it. Returns `None` if there is no next run.
    fn follow(&self, next: Next, deadline: Moment) -> Option<(Target, u64)> {
        let timebase = &self.engine.timebase;
        let now = timebase.clock().now();
        let window = self.repeat.window();
        let when = match next {
            Next::Period => {
                let (next, missed) = self.repeat.follow(deadline, now)?;
                return Some((Target { point: Point::Moment(next), window }, missed));
            }
            Next::After(delay) => When::after(delay),
            Next::At(instant) => When::at(instant),
            Next::Wall(time) => When::wall(time),
            Next::When(when) => when,
            Next::Stop => return None,
        };
        let mut target = timebase.target(when, now);
        if target.window == Window::Exact {
            target.window = window;
        }
        Some((target, 0))
    }
}

impl<C: CallAgain> Work for Repeating<C> {
    fn run(mut self: Box<Self>) {
        // The user who took the job decides when it runs. So it is on time, and its answer is
        // ignored.
        let run = self.describe(self.engine.timebase.clock().now(), 0);
        let _: Next = self.job.call(run);
    }

    fn fire(mut self: Box<Self>) {
        let (deadline, missed) = match self.engine.start(self.handle, false) {
            Start::Gone => return,
            Start::TooEarly { target, missed } => {
                return rearm(Arc::clone(&self.engine), self, target, missed);
            }
            Start::Due { deadline, missed } => (deadline, missed),
        };
        let run = self.describe(deadline, missed);
        let job = &mut self.job;
        let answer = self.engine.runner.boundary().call(self.handle, || job.call(run));
        let next = answer.unwrap_or(self.repeat.answer_of_a_panic());
        match self.follow(next, deadline) {
            Some((target, missed)) => rearm(Arc::clone(&self.engine), self, target, missed),
            None => {
                self.engine.deregister(self.handle);
            }
        }
    }

    fn rearmable_handle(&self) -> Option<Handle> {
        Some(self.handle)
    }

    fn task(&self) -> &dyn Any {
        &NoTask
    }

    fn into_task(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(NoTask)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn disarm(self: Box<Self>) -> Disarmed {
        let Repeating { handle, repeat, job, .. } = *self;
        Disarmed::Repeating { handle, repeat, job: job.disarm() }
    }
}

/// The type of a repeating job in a downcast. It is made of a closure and no task, and no user can
/// name this type.
struct NoTask;

/// A job that can be cancelled until it starts: it waits for a wall-clock time, or knows its own
/// handle. If it was reset on its way out, or the wall clock was set back, it goes back.
pub(super) struct Appointment {
    engine: Arc<Engine>,
    handle: Handle,
    job: Job,
}

impl Work for Appointment {
    fn run(self: Box<Self>) {
        self.job.call();
    }

    fn fire(self: Box<Self>) {
        match self.engine.start(self.handle, true) {
            Start::Gone => (),
            Start::TooEarly { target, missed } => {
                rearm(Arc::clone(&self.engine), self, target, missed)
            }
            Start::Due { .. } => self.job.call(),
        }
    }

    fn rearmable_handle(&self) -> Option<Handle> {
        Some(self.handle)
    }

    fn task(&self) -> &dyn Any {
        Call::task(&self.job)
    }

    fn into_task(self: Box<Self>) -> Box<dyn Any + Send> {
        self.job.into_task()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self.job.into_any()
    }

    fn disarm(self: Box<Self>) -> Disarmed {
        Call::disarm(Box::new(self.job))
    }
}

/// Arms a job again. A job that was cancelled meanwhile, or whose wheel is gone, is dropped here.
fn rearm<W: Work>(engine: Arc<Engine>, work: Box<W>, target: Target, missed: u64) {
    if let Some(handle) = work.rearmable_handle() {
        drop(engine.arm(handle, target, missed, work));
    }
}
