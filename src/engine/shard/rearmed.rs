//! The verbs for re-armable jobs: each is a step or two under the shard's lock, where registry and
//! hierarchy agree.

use std::time::Duration;

use super::registry::{Registration, Walk};
use super::{Shard, State};
use crate::host::sync::lock;
use crate::host::timebase::{Point, Target, Timebase};
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::job::{IntoJob, Job};
use crate::values::time::{Moment, Tick};
use crate::values::when::Window;

/// How many registrations are looked at before the ticker releases the lock.
const REGISTRATIONS_PER_LOCK: usize = 256;

/// Earlier than every deadline: the ticker is to wake at once.
const AT_ONCE: Tick = Tick::new(0);

/// Whether a job that came due may start.
pub(crate) enum Start {
    /// The job was cancelled on its way.
    Gone,
    /// The job was reset on its way, or the wall clock was set back: it goes back into the wheel.
    TooEarly { target: Target, missed: u64 },
    /// The job may start.
    Due {
        /// The exact deadline.
        deadline: Moment,
        /// How many deadlines were dropped before that one.
        missed: u64,
    },
}

/// The result of a cancel.
pub(crate) enum Cancelled {
    /// The job was in the hierarchy, and was taken out.
    In(Job),
    /// The job is out, and will not come back.
    Out,
}

impl Shard {
    /// Registers a re-armable job that is about to be inserted. Returns its handle.
    pub(crate) fn register(&self) -> Result<Handle, InsertErrorKind> {
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(1) {
            return Err(kind);
        }
        let (generation, index) = state.registry.register();
        Ok(Handle::rearmable(self.number, generation, index))
    }

    /// Puts a registered job into the hierarchy, for the first time or again, to wait for `target`
    /// after `missed` deadlines were dropped. If a reset gave the job another target while it was
    /// out, that one counts.
    ///
    /// Returns a tick for which the ticker has to wake. Returns the job if it is not registered any
    /// more, or if the shard is closed and its shutdown no longer collects jobs.
    pub(crate) fn arm<J: IntoJob>(
        &self,
        handle: Handle,
        target: Target,
        missed: u64,
        timebase: &Timebase,
        job: J,
    ) -> Result<Tick, J> {
        let now = timebase.clock().now();
        lock(&self.state).arm(handle, target, missed, (timebase, now), job)
    }

    /// Decides, for a job that came due, whether it may start. If `last`, a job that may start is
    /// deregistered.
    pub(crate) fn start(&self, handle: Handle, timebase: &Timebase, last: bool) -> Start {
        let mut state = lock(&self.state);
        let Some(registration) = state.registry.registration(handle) else { return Start::Gone };
        registration.moved = false;
        let (target, missed) = (registration.target(), registration.missed);
        let deadline = registration.deadline();
        if !timebase.has_come(target.point) {
            return Start::TooEarly { target, missed };
        }
        if last {
            state.registry.deregister(handle);
        }
        Start::Due { deadline, missed }
    }

    /// Deregisters a job that is out. Returns the tick of its next run: one in the past unless a
    /// reset has put it off. Returns `None` if it was not registered any more.
    pub(crate) fn deregister(&self, handle: Handle, timebase: &Timebase) -> Option<Tick> {
        lock(&self.state).deregister_out(handle, AT_ONCE, timebase)
    }

    /// Deregisters a job, and takes it out if it is in.
    pub(crate) fn cancel_rearmable(&self, handle: Handle) -> Option<Cancelled> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let job = state.take_rearmable(handle);
        state.registry.deregister(handle)?;
        Some(job.map_or(Cancelled::Out, Cancelled::In))
    }

    /// If the job is in the hierarchy, takes it out and deregisters it. If it is out, does nothing.
    pub(crate) fn take_rearmable(&self, handle: Handle) -> Option<Job> {
        let mut state = lock(&self.state);
        let job = state.take_rearmable(handle)?;
        state.registry.deregister(handle);
        Some(job)
    }

    /// Gives a registered job another target, whether it is in or out. Returns a tick for which the
    /// ticker has to wake.
    pub(crate) fn reset_rearmable(
        &self,
        handle: Handle,
        target: Target,
        timebase: &Timebase,
    ) -> Option<Tick> {
        let now = timebase.clock().now();
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.is_ended() {
            return None;
        }
        let estimate = timebase.estimate(target.point);
        let deadline = timebase.deadline(estimate.moment, target.window, now);
        let registration = state.registry.registration(handle)?;
        let is_in = registration.key.is_some_and(|key| state.timers.move_to(key, deadline));
        registration.moved = !is_in;
        registration.missed = 0;
        state.timers.count_reset();
        let wake_for = if is_in { deadline } else { Tick::MAX };
        let watched = state.registry.wall_offsets().is_some();
        state.registry.set_target(handle, target, estimate);
        Some(state.tick_to_wake_for(wake_for, watched))
    }

    /// Returns the deadline of a registered job; tick 0 if it is with the pool.
    pub(crate) fn deadline_of_rearmable(&self, handle: Handle) -> Option<Tick> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let key = state.registry.registration(handle)?.key;
        let deadline = key.and_then(|key| state.timers.deadline(key));
        Some(deadline.unwrap_or(AT_ONCE))
    }

    /// Estimates anew the deadline of every job that waits for the wall clock. An overdue job stays
    /// overdue.
    ///
    /// Releases the lock after [`REGISTRATIONS_PER_LOCK`] registrations: a job that is inserted in
    /// between reads the clock itself. One thread at a time calls this.
    pub(crate) fn follow_the_wall(&self, timebase: &Timebase) {
        lock(&self.state).registry.forget_wall_offsets();
        let mut walk = Walk::default();
        while lock(&self.state).estimate_some(&mut walk, Duration::ZERO, timebase) {}
    }
}

impl State {
    /// Estimates anew every deadline that follows from the wall clock; one with a jitter only if the clock has moved
    /// from it by `least`.
    pub(super) fn follow_the_wall(&mut self, least: Duration, timebase: &Timebase) {
        self.registry.forget_wall_offsets();
        let mut walk = Walk::default();
        while self.estimate_some(&mut walk, least, timebase) {}
    }

    /// Looks at the next [`REGISTRATIONS_PER_LOCK`] registrations. Returns `false` if there are none.
    fn estimate_some(&mut self, walk: &mut Walk, least: Duration, timebase: &Timebase) -> bool {
        let now = timebase.clock().now();
        let State { registry, timers, .. } = self;
        let Some(some) = registry.go_on(walk, REGISTRATIONS_PER_LOCK) else { return false };
        for index in some {
            let is_to_move = |registration: &Registration| {
                let overdue = Point::Moment(registration.deadline());
                let point = registration.target().point;
                let (old, new) = (registration.deadline(), timebase.estimate(point).moment);
                let by = old.elapsed().abs_diff(new.elapsed());
                let keeps_its_tick =
                    by < least && matches!(registration.target().window, Window::Jitter(_));
                let is_overdue = timebase.has_come(point) && timebase.has_come(overdue);
                !keeps_its_tick && !is_overdue
            };
            let estimate = |target: Target| timebase.estimate(target.point);
            let Some(moved) = registry.estimate_anew(index, is_to_move, estimate) else {
                continue;
            };
            let deadline = timebase.deadline(moved.deadline(), moved.target().window, now);
            if let Some(key) = moved.key {
                timers.move_to(key, deadline);
            }
        }
        true
    }

    /// Does what [`Shard::arm`] does, under the lock. The clock read `now` before.
    pub(super) fn arm<J: IntoJob>(
        &mut self,
        handle: Handle,
        target: Target,
        missed: u64,
        (timebase, now): (&Timebase, Moment),
        job: J,
    ) -> Result<Tick, J> {
        if self.is_ended() {
            return Err(job);
        }
        let Some(registration) = self.registry.registration(handle) else { return Err(job) };
        // A reset begins a new phase, so no deadline was dropped.
        let (target, missed) = match core::mem::take(&mut registration.moved) {
            true => (registration.target(), 0),
            false => (target, missed),
        };
        registration.missed = missed;
        // The clock is read under the lock: so either `follow_the_wall` comes to this job later, or
        // this reading is no older than the one it used.
        let estimate = timebase.estimate(target.point);
        let deadline = timebase.deadline(estimate.moment, target.window, now);
        if let Some(strays) = &mut self.strays {
            strays.push((handle, deadline, job.into_job()));
            return Ok(Tick::MAX);
        }
        registration.key = Some(self.timers.insert(deadline, job.into_job()));
        let watched = self.registry.wall_offsets().is_some();
        self.registry.set_target(handle, target, estimate);
        Ok(self.tick_to_wake_for(deadline, watched))
    }

    /// Deregisters a job that is out, or that came back to a closed shard for `deadline`. Returns
    /// the tick of its next run, which a reset may have changed meanwhile.
    pub(super) fn deregister_out(
        &mut self,
        handle: Handle,
        deadline: Tick,
        timebase: &Timebase,
    ) -> Option<Tick> {
        let registration = self.registry.deregister(handle)?;
        if !registration.moved {
            return Some(deadline);
        }
        let Target { point, window } = registration.target();
        let moment = timebase.estimate(point).moment;
        Some(timebase.deadline(moment, window, timebase.clock().now()))
    }

    /// Returns the tick for which the ticker has to wake after `deadline` was set. If the job is
    /// the first to wait for a wall-clock time, the ticker has to wake at once, to begin watching
    /// the wall clock.
    fn tick_to_wake_for(&self, deadline: Tick, watched: bool) -> Tick {
        match self.registry.wall_offsets() {
            Some(_) if !watched => AT_ONCE,
            _ => deadline,
        }
    }

    fn take_rearmable(&mut self, handle: Handle) -> Option<Job> {
        let key = self.registry.registration(handle)?.key?;
        self.timers.cancel(key)
    }
}
