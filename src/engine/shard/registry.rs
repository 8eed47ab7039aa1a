//! The registry of a shard: its re-armable jobs, which enter the hierarchy several times and keep
//! their handle.
//!
//! Ground rules:
//!
//! - A re-armable job is registered from before it first enters the hierarchy until it ends or is
//!   cancelled. Without a registration it does not start and is not re-armed, wherever it is.
//! - A job is *in* if the registration's key finds it in the hierarchy; otherwise it is *out*: on
//!   its way to the pool, or running. Nothing else records which.
//! - When few registrations are left of many, they move into less memory, so that one long-lived
//!   job does not pin the memory of a burst. A handle names the first index of its registration,
//!   and goes on working: `moved` has a row for each registration that lies elsewhere. A walk over
//!   the indices that releases the lock in between begins again after a move ([`Walk`]).
//! - The registration holds the target of the job. A reset updates it whether the job is in or out.
//!   So the registration decides when the job runs, not the job's place in the hierarchy.

use core::ops::Range;
use core::time::Duration;
use std::collections::HashMap;

use slab::Slab;

use crate::host::clock::WallOffset;
use crate::host::timebase::{Estimate, Point, Target};
use crate::structure::Key;
use crate::values::generation::{Generation, Generations};
use crate::values::handle::Handle;
use crate::values::time::Moment;

/// A registry keeps memory for this many registrations, however few it has.
const KEPT_REGISTRATIONS: usize = 1024;

/// Registrations move when there is room for more than this many times their number.
const SPARSE: usize = 16;

pub(super) struct Registration {
    generation: Generation,
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
    /// Returns the target that the job waits for, or waited for before it went out.
    pub(super) fn target(&self) -> Target {
        self.target
    }

    pub(super) fn deadline(&self) -> Moment {
        self.deadline
    }

    fn waits_for_the_wall(&self) -> bool {
        matches!(self.target.point, Point::Wall(_))
    }
}

#[derive(Default)]
pub(super) struct Registry {
    registrations: Slab<Registration>,
    /// Finds, by the generation in a handle, a registration that lies elsewhere than the handle
    /// says.
    moved: HashMap<Generation, Moved>,
    /// How often registrations have moved.
    moves: u64,
    generations: Generations,
    /// How many registrations wait for a wall-clock time.
    on_the_wall: usize,
    readings: Option<WallOffsets>,
}

/// A registration that lies elsewhere than its handle says.
#[derive(Clone, Copy)]
struct Moved {
    /// The index in the handle.
    named: u32,
    /// Where the registration is.
    index: usize,
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

    /// The extremes of both.
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

    /// Returns the index at which the registration of a handle lies.
    fn index_of(&self, handle: Handle) -> Option<usize> {
        let index = handle.index() as usize;
        match self.registrations.get(index) {
            Some(it) if it.generation == handle.generation() => Some(index),
            _ => self.find_moved(handle),
        }
    }

    #[cold]
    fn find_moved(&self, handle: Handle) -> Option<usize> {
        let moved = self.moved.get(&handle.generation())?;
        (moved.named == handle.index()).then_some(moved.index)
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
            self.forget_moved(handle);
        }
        let room = self.registrations.capacity();
        if room > KEPT_REGISTRATIONS && self.registrations.len() < room / SPARSE {
            self.move_together();
        }
        Some(registration)
    }

    #[cold]
    fn forget_moved(&mut self, handle: Handle) {
        self.moved.remove(&handle.generation());
        if self.moved.len() < self.moved.capacity() / SPARSE {
            self.moved.shrink_to(2 * self.moved.len());
        }
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
            let named = was_moved.get(&generation).map_or(before as u32, |moved| moved.named);
            let index = self.registrations.insert(registration);
            if index != named as usize {
                self.moved.insert(generation, Moved { named, index });
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
        self.registrations.retain(|_, registration| !registration.key.is_some_and(&is_in));
        let Registry { moved, registrations, .. } = self;
        moved.retain(|&generation, moved| {
            registrations.get(moved.index).is_some_and(|it| it.generation == generation)
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
