//! The re-armable jobs of a shard, which enter the hierarchy several times and keep their handle: their registry, and
//! their verbs. Each verb is a step or two under the shard's lock, where registry and hierarchy agree.
//!
//! Ground rules:
//!
//! - A re-armable job is registered from before it first enters the hierarchy until it ends or is cancelled. Without a
//!   registration it does not start and is not re-armed, wherever it is.
//! - A job is *in* if the registration's key finds it in the hierarchy; otherwise it is *out*: on its way to the pool,
//!   or running. Nothing else records which.
//! - When few registrations are left of many, they move into less memory, so that one long-lived job does not pin the
//!   memory of a burst. A handle names the first index of its registration, and goes on working: `moved` has a row for
//!   each registration that lies elsewhere. A walk over the indices that releases the lock in between begins again
//!   after a move ([`Walk`]).
//! - The registration holds the target of the job. A reset updates it whether the job is in or out. So the registration
//!   decides when the job runs, not the job's place in the hierarchy.

use core::ops::Range;
use core::time::Duration;

use slab::Slab;

use super::{Shard, State};
use crate::host::clock::{Estimate, Point, Target, Timebase, WallOffset};
use crate::host::sync::lock;
use crate::structure::{Key, Moved, MovedNodes};
use crate::values::error::InsertErrorKind;
use crate::values::handle::{Generation, Generations, Handle};
use crate::values::job::{IntoJob, Job};
use crate::values::time::{Moment, Tick, Window};

/// A registry keeps memory for this many registrations, however few it has.
const KEPT_REGISTRATIONS: usize = 1024;

/// Registrations move when there is room for more than this many times their number.
const SPARSE: usize = 16;

pub(super) struct Registration {
    generation: Generation,
    /// The target that the job waits for, or waited for before it went out.
    target: Target,
    /// When the target is reached, as of the last reading of the clocks.
    deadline: Moment,
    /// The key under which the job lies in the hierarchy, or did when it was last there.
    pub(super) key: Option<Key>,
    /// A reset gave the job another target while it was out.
    pub(super) moved: bool,
    /// How many deadlines were dropped before the one to come.
    pub(super) missed: u64,
}

impl Registration {
    fn waits_for_the_wall(&self) -> bool {
        matches!(self.target.point, Point::Wall(_))
    }
}

#[derive(Default)]
pub(super) struct Registry {
    registrations: Slab<Registration>,
    /// The registrations that lie elsewhere than their handles say.
    moved: MovedNodes,
    /// How often registrations have moved.
    moves: u64,
    generations: Generations,
    /// How many registrations wait for a wall-clock time.
    on_the_wall: usize,
    readings: Option<WallOffsets>,
}

/// The progress of a walk over all registrations, some at a time.
#[derive(Default)]
pub(super) struct Walk {
    next: usize,
    /// The value of `moves` when the walk began.
    moves: u64,
}

/// The least and the greatest of the wall-clock readings from which deadlines of registrations were
/// estimated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallOffsets {
    least: WallOffset,
    most: WallOffset,
}

impl WallOffsets {
    fn only(reading: WallOffset) -> WallOffsets {
        WallOffsets { least: reading, most: reading }
    }

    pub(crate) fn join(self, other: WallOffsets) -> WallOffsets {
        WallOffsets { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Returns how far `now` lies from the reading that is furthest from it.
    pub(crate) fn distance(self, now: WallOffset) -> Duration {
        self.least.distance(now).max(self.most.distance(now))
    }
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.registrations.len()
    }

    /// Registers a job that is about to be inserted. Returns the generation and the index of its
    /// handle.
    pub(super) fn register(&mut self) -> (Generation, u32) {
        let generation = self.generations.next();
        let (target, deadline) = (Target::exact(Point::Moment(Moment::NEVER)), Moment::NEVER);
        let registration =
            Registration { generation, target, deadline, key: None, moved: false, missed: 0 };
        let index = self.registrations.insert(registration);
        (generation, u32::try_from(index).expect("a full shard registers no job"))
    }

    pub(super) fn registration(&mut self, handle: Handle) -> Option<&mut Registration> {
        let index = self.index_of(handle)?;
        self.registrations.get_mut(index)
    }

    fn index_of(&self, handle: Handle) -> Option<usize> {
        let index = handle.index() as usize;
        match self.registrations.get(index) {
            Some(it) if it.generation == handle.generation() => Some(index),
            _ => self.find_moved(handle),
        }
    }

    #[cold]
    fn find_moved(&self, handle: Handle) -> Option<usize> {
        let moved = self.moved.get(handle.generation())?;
        (moved.key_index == handle.index()).then_some(moved.index as usize)
    }

    /// Sets the target of a job, and the estimate of when it is reached.
    pub(super) fn set_target(&mut self, handle: Handle, target: Target, estimate: Estimate) {
        let Some(registration) = self.registration(handle) else { return };
        let before = registration.waits_for_the_wall();
        registration.target = target;
        registration.deadline = estimate.moment;
        let after = registration.waits_for_the_wall();
        self.on_the_wall = self.on_the_wall + usize::from(after) - usize::from(before);
        self.note_reading(estimate);
    }

    pub(super) fn deregister(&mut self, handle: Handle) -> Option<Registration> {
        let index = self.index_of(handle)?;
        let registration = self.registrations.try_remove(index)?;
        self.on_the_wall -= usize::from(registration.waits_for_the_wall());
        self.forget_readings_of_none();
        if !self.moved.is_empty() {
            self.moved.remove(handle.generation());
        }
        let room = self.registrations.capacity();
        if room > KEPT_REGISTRATIONS && self.registrations.len() < room / SPARSE {
            self.move_together();
        }
        Some(registration)
    }

    /// Moves all registrations into memory with room for twice their number. This takes one step
    /// for each: a registration that came or went since the last move pays for one step at most.
    #[cold]
    fn move_together(&mut self) {
        self.moves += 1;
        let room = 2 * self.registrations.len();
        let old = core::mem::replace(&mut self.registrations, Slab::with_capacity(room));
        let was_moved = core::mem::take(&mut self.moved);
        for (before, registration) in old {
            let generation = registration.generation;
            let named = was_moved.get(generation);
            let key_index = named.map_or(before as u32, |moved| moved.key_index);
            let index = self.registrations.insert(registration) as u32;
            if index != key_index {
                self.moved.insert(generation, Moved { key_index, index });
            }
        }
    }

    /// Returns the wall-clock readings from which deadlines here were estimated; `None` while no
    /// job waits for a wall-clock time.
    pub(super) fn wall_offsets(&self) -> Option<WallOffsets> {
        self.readings
    }

    /// Forgets the readings. The caller is about to estimate every deadline anew that follows from
    /// one.
    pub(super) fn forget_wall_offsets(&mut self) {
        self.readings = None;
    }

    /// Estimates the deadline of the registration at `index` anew, if it waits for a wall-clock
    /// time and `is_to_move` returns true. Then returns the registration.
    pub(super) fn estimate_anew(
        &mut self,
        index: usize,
        is_to_move: impl FnOnce(&Registration) -> bool,
        estimate: impl FnOnce(Target) -> Estimate,
    ) -> Option<&Registration> {
        let registration = self.registrations.get_mut(index)?;
        if !registration.waits_for_the_wall() {
            return None;
        }
        let estimate = estimate(registration.target);
        let moves = is_to_move(registration);
        if moves {
            registration.deadline = estimate.moment;
        }
        self.note_reading(estimate);
        self.registrations.get(index).filter(|_| moves)
    }

    /// Returns the next `count` indices to look at, or `None` if all have been looked at. If
    /// registrations have moved meanwhile, the walk begins again.
    pub(super) fn go_on(&self, walk: &mut Walk, count: usize) -> Option<Range<usize>> {
        if walk.moves != self.moves {
            *walk = Walk { next: 0, moves: self.moves };
        }
        let first = walk.next;
        walk.next += count;
        (first < self.registrations.capacity()).then_some(first..walk.next)
    }

    /// Deregisters the jobs that are in: those with a key for which `is_in` returns true.
    pub(super) fn retain_out(&mut self, is_in: impl Fn(Key) -> bool) {
        let Registry { registrations, moved, .. } = self;
        registrations.retain(|_, registration| {
            let is_out = !registration.key.is_some_and(&is_in);
            if !is_out {
                moved.remove(registration.generation);
            }
            is_out
        });
        let on_the_wall = |(_, it): &(usize, &Registration)| it.waits_for_the_wall();
        self.on_the_wall = self.registrations.iter().filter(on_the_wall).count();
        self.forget_readings_of_none();
    }

    fn note_reading(&mut self, estimate: Estimate) {
        if let Some(reading) = estimate.reading.map(WallOffsets::only) {
            self.readings = Some(self.readings.map_or(reading, |known| known.join(reading)));
        }
        self.forget_readings_of_none();
    }

    fn forget_readings_of_none(&mut self) {
        if self.on_the_wall == 0 {
            self.readings = None;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

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
        let (target, missed) = (registration.target, registration.missed);
        let deadline = registration.deadline;
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

    /// Deregisters a job, and takes it out if it is in. Returns `None` if it was not registered, and `Some(None)` if it
    /// was out with the pool.
    pub(crate) fn cancel_rearmable(&self, handle: Handle) -> Option<Option<Job>> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let job = state.take_rearmable(handle);
        state.registry.deregister(handle)?;
        Some(job)
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
        let (deadline, estimate) = timebase.due_tick(target, now);
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
                let overdue = Point::Moment(registration.deadline);
                let point = registration.target.point;
                let (old, new) = (registration.deadline, timebase.estimate(point).moment);
                let by = old.elapsed().abs_diff(new.elapsed());
                let keeps_its_tick =
                    by < least && matches!(registration.target.window, Window::Jitter(_));
                let is_overdue = timebase.has_come(point) && timebase.has_come(overdue);
                !keeps_its_tick && !is_overdue
            };
            let estimate = |target: Target| timebase.estimate(target.point);
            let Some(moved) = registry.estimate_anew(index, is_to_move, estimate) else {
                continue;
            };
            let deadline = timebase.deadline(moved.deadline, moved.target.window, now);
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
            true => (registration.target, 0),
            false => (target, missed),
        };
        registration.missed = missed;
        // The clock is read under the lock: so either `follow_the_wall` comes to this job later, or
        // this reading is no older than the one it used.
        let (deadline, estimate) = timebase.due_tick(target, now);
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
        let next = || timebase.due_tick(registration.target, timebase.clock().now()).0;
        Some(if registration.moved { next() } else { deadline })
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
