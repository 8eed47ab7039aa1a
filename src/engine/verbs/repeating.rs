//! The re-armable jobs: wrappers around user closures that may go back into the wheel.
//!
//! Ground rules:
//!
//! - A job is one box, which is in the wheel or on a thread. So a run cannot overlap itself, and
//!   arming the job again allocates nothing.
//! - The job holds the engine that holds it. Stopping the engine takes every job out, which breaks
//!   the cycle.
//! - Every run ends with the job armed again or deregistered. User code is called through the
//!   unwind boundary, which also returns after a panic.

use core::any::Any;
use std::sync::Arc;

use super::Engine;
use crate::engine::shard::Start;
use crate::host::timebase::{Point, Target};
use crate::values::handle::Handle;
use crate::values::job::{Call, CallAgain, Disarmed, Job, Work};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::time::Moment;
use crate::values::when::{When, Window};

/// A job that runs again and again.
pub(super) struct Repeating<C> {
    engine: Arc<Engine>,
    handle: Handle,
    repeat: Repeat,
    job: C,
}

impl<C: CallAgain> Repeating<C> {
    pub(super) fn new(engine: Arc<Engine>, handle: Handle, repeat: Repeat, job: C) -> Self {
        Repeating { engine, handle, repeat, job }
    }

    pub(super) fn into_job(self) -> C {
        self.job
    }

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
        let target = timebase.target(when, now);
        match target.window {
            Window::Exact => Some((Target { window, ..target }, 0)),
            _ => Some((target, 0)),
        }
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
        let (deadline, missed) = match self.engine.start(self.handle) {
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

impl Appointment {
    pub(super) fn new(engine: Arc<Engine>, handle: Handle, job: Job) -> Self {
        Appointment { engine, handle, job }
    }

    pub(super) fn into_job(self) -> Job {
        self.job
    }
}

impl Work for Appointment {
    fn run(self: Box<Self>) {
        self.job.call();
    }

    fn fire(self: Box<Self>) {
        match self.engine.start_last(self.handle) {
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
