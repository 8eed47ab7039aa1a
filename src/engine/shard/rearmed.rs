//! The verbs for re-armable jobs: each a step or two under the shard's lock, where registry and hierarchy
//! agree.

use core::mem::ManuallyDrop;

use super::{Shard, State};
use crate::host::sync::lock;
use crate::host::timebase::{Target, Timebase};
use crate::values::handle::Handle;
use crate::values::job::{Job, Work};
use crate::values::time::{Moment, Tick};

/// How many registrations are looked at before the lock is given back.
const REGISTRATIONS_PER_LOCK: usize = 256;

/// What a job finds that is about to start.
pub(crate) enum Start {
    /// It was cancelled on the way.
    Gone,
    /// It was given another target on the way, or the wall clock was set back: it goes back as it
    /// came.
    TooEarly { target: Target, missed: u64 },
    /// It was due.
    Due {
        /// When, exactly.
        deadline: Moment,
        /// How many deadlines were dropped before that one.
        missed: u64,
    },
}

/// What a cancel found.
pub(crate) enum Cancelled {
    /// It was in the wheel. Here it is.
    In(Job),
    /// It is out, and will not come back.
    Out,
}

impl Shard {
    /// A handle for a re-armable job that will come in; `None` when the shard is closed.
    pub(crate) fn register(&self) -> Option<Handle> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let (generation, index) = state.registry.register();
        Some(Handle::rearmable(self.number, generation, index))
    }

    /// Puts a registered job in, or back in, to wait for `target` after `missed` deadlines were
    /// dropped; unless it was moved while it was out. A closed shard gives the job back, if no
    /// shutdown waits for it; and so does one in which the job has no registration any more.
    ///
    /// Answers with a tick for which the ticker may have to rise earlier, if there is any.
    pub(crate) fn come_in<W: Work + 'static>(
        &self,
        handle: Handle,
        target: Target,
        missed: u64,
        timebase: &Timebase,
        work: Box<W>,
    ) -> Result<Option<Tick>, Box<W>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.is_ended() {
            return Err(work);
        }
        let Some(registration) = state.registry.registration(handle) else { return Err(work) };
        // Who moved the job set its phase anew: nothing was dropped.
        let (target, missed) = match core::mem::take(&mut registration.moved) {
            true => (registration.target(), 0),
            false => (target, missed),
        };
        registration.missed = missed;
        let moment = timebase.moment(target);
        let deadline = timebase.deadline(moment);
        if let Some(strays) = &mut state.strays {
            strays.push((handle, deadline, Job::new(work)));
            return Ok(None);
        }
        state.tally.inserted += 1;
        registration.key =
            Some(state.hierarchy.insert(deadline, ManuallyDrop::new(Job::new(work))));
        let earliest = state.lower_next_due(deadline);
        Ok(state.set_target(handle, target, moment).or(earliest.then_some(deadline)))
    }

    /// A job that came due is about to start. With `last`, it leaves its registration.
    pub(crate) fn start(&self, handle: Handle, timebase: &Timebase, last: bool) -> Start {
        let mut state = lock(&self.state);
        let Some(registration) = state.registry.registration(handle) else { return Start::Gone };
        registration.moved = false;
        let (target, deadline, missed) =
            (registration.target(), registration.deadline, registration.missed);
        if !timebase.has_come(target) {
            return Start::TooEarly { target, missed };
        }
        if last {
            state.registry.deregister(handle);
        }
        Start::Due { deadline, missed }
    }

    /// A job that is out ends; whether it still had a registration.
    pub(crate) fn deregister(&self, handle: Handle) -> bool {
        lock(&self.state).registry.deregister(handle).is_some()
    }

    /// Takes the registration of a job, and the job if it is in.
    pub(crate) fn cancel_rearmable(&self, handle: Handle) -> Option<Cancelled> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let job = state.take_rearmable(handle);
        state.registry.deregister(handle)?;
        Some(job.map_or(Cancelled::Out, Cancelled::In))
    }

    /// Takes a job that is in, and its registration. Leaves one that is out alone.
    pub(crate) fn take_rearmable(&self, handle: Handle) -> Option<Job> {
        let mut state = lock(&self.state);
        let job = state.take_rearmable(handle)?;
        state.registry.deregister(handle);
        Some(job)
    }

    /// Gives a job another target, in or out, if it has a registration. Answers as [`Shard::come_in`].
    pub(crate) fn reset_rearmable(
        &self,
        handle: Handle,
        target: Target,
        timebase: &Timebase,
    ) -> Option<Option<Tick>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.is_ended() {
            return None;
        }
        let moment = timebase.moment(target);
        let deadline = timebase.deadline(moment);
        let registration = state.registry.registration(handle)?;
        let is_in = registration.key.is_some_and(|key| state.hierarchy.reset(key, deadline));
        registration.moved = !is_in;
        let earliest = is_in && state.lower_next_due(deadline);
        Some(state.set_target(handle, target, moment).or(earliest.then_some(deadline)))
    }

    /// When a job is due that is in; now, if it is out.
    pub(crate) fn deadline_of_rearmable(&self, handle: Handle) -> Option<Tick> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let key = state.registry.registration(handle)?.key;
        let deadline = key.and_then(|key| state.hierarchy.deadline(key));
        Some(deadline.unwrap_or(Tick::new(0)))
    }

    /// Looks at the wall clock anew, for every job that waits for it. What is overdue stays so.
    /// Gives the lock back after [`REGISTRATIONS_PER_LOCK`] registrations: who comes in meanwhile looks at the clock too.
    pub(crate) fn follow_the_wall(&self, timebase: &Timebase) {
        for first in (0..).step_by(REGISTRATIONS_PER_LOCK) {
            let mut state = lock(&self.state);
            let State { registry, hierarchy, next_due, .. } = &mut *state;
            if !registry.has_any_on_the_wall() || first >= registry.capacity() {
                return;
            }
            for index in first..first + REGISTRATIONS_PER_LOCK {
                let Some(registration) = registry.on_the_wall_at(index) else { continue };
                let overdue = Target::Moment(registration.deadline);
                if timebase.has_come(registration.target()) && timebase.has_come(overdue) {
                    continue;
                }
                registration.deadline = timebase.moment(registration.target());
                let deadline = timebase.deadline(registration.deadline);
                if registration.key.is_some_and(|key| hierarchy.reset(key, deadline)) {
                    *next_due = deadline.min(*next_due);
                }
            }
        }
    }
}

impl State {
    /// Writes the target down. Should the job be the first to wait for a wall-clock time, the ticker
    /// has to rise at once, and begin to look at the wall clock.
    fn set_target(&mut self, handle: Handle, target: Target, moment: Moment) -> Option<Tick> {
        let before = self.registry.has_any_on_the_wall();
        self.registry.set_target(handle, target, moment);
        (!before && self.registry.has_any_on_the_wall()).then_some(Tick::new(0))
    }

    fn take_rearmable(&mut self, handle: Handle) -> Option<Job> {
        let key = self.registry.registration(handle)?.key?;
        let job = self.hierarchy.cancel(key)?;
        self.tally.cancelled += 1;
        Some(ManuallyDrop::into_inner(job))
    }
}
