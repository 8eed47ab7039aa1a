//! The registry of a shard: its re-armable jobs, which come into the hierarchy several times and
//! keep their handle.
//!
//! Ground rules:
//!
//! - A re-armable job is registered before it first comes into the hierarchy and until it ends or
//!   is cancelled. Without a registration it does not start and is not re-armed, wherever its job
//!   is.
//! - A job is *in* if the registration's key finds it in the hierarchy; otherwise it is *out*: on
//!   its way to the pool, or running. Nothing else records which.
//! - When few registrations are left of many, they move together into less memory, so that one job of the
//!   kind does not pin what a burst took. A handle names the index that its registration had first, and goes
//!   on working: `moved` has a row for each that lies elsewhere. A walk over the indices that gives back the
//!   lock in between begins anew after a move ([`Walk`]).
//! - The registration says what the job waits for. A reset updates it whether the job is in or out.
//!   So the registration decides when the job runs, and not where the job lies.

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

/// Registrations that a registry keeps memory for, however few it has.
const KEPT_REGISTRATIONS: usize = 1024;

/// They move when there is memory for so many times as many.
const SPARSE: usize = 16;

pub(super) struct Registration {
    generation: Generation,
    target: Target,
    /// When the target is reached, as of the last look at the clocks.
    deadline: Moment,
    /// Under which key the job lies in the hierarchy, or did when it was last there.
    pub(super) key: Option<Key>,
    /// The job was given another target while it was out.
    pub(super) moved: bool,
    /// How many deadlines were dropped before the one to come.
    pub(super) missed: u64,
}

impl Registration {
    /// What the job waits for, or waited for before it went out.
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
    /// From the generation in a handle, for a registration that lies elsewhere than the handle says.
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

/// How far somebody has come who looks at all registrations, some at a time.
#[derive(Default)]
pub(super) struct Walk {
    next: usize,
    /// How often registrations had moved when it began.
    moves: u64,
}

/// The first and the last, in the order of what they read, of the readings of the wall clock that
/// deadlines of registrations follow from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallOffsets {
    least: WallOffset,
    most: WallOffset,
}

impl WallOffsets {
    fn only(reading: WallOffset) -> WallOffsets {
        WallOffsets { least: reading, most: reading }
    }

    /// All of both.
    pub(crate) fn join(self, other: WallOffsets) -> WallOffsets {
        WallOffsets { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// How far `now` lies from the reading that is furthest from it.
    pub(crate) fn distance(self, now: WallOffset) -> Duration {
        self.least.distance(now).max(self.most.distance(now))
    }
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.registrations.len()
    }

    /// Registers a job that is about to come in. Returns the generation and the index of its
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

    /// Returns where the registration of a handle lies.
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

    /// Notes what a job waits for from now on, and when that will be.
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

    /// Moves all registrations into less memory. A step for each, and after it twice as many have room: so
    /// each one that came or went since the last move pays for one at most.
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

    /// The readings of the wall clock that deadlines here follow from; `None` while no job waits
    /// for a wall-clock time.
    pub(super) fn wall_offsets(&self) -> Option<WallOffsets> {
        self.readings
    }

    /// Forgets the readings: the caller is about to estimate every deadline that follows from one
    /// anew.
    pub(super) fn forget_wall_offsets(&mut self) {
        self.readings = None;
    }

    /// Estimates the deadline of the registration at `index` anew, if it waits for a wall-clock
    /// time and `is_to_move` says so. Returns it.
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

    /// Returns the next `count` indices to look at, or `None` if all have been looked at. If registrations
    /// have moved meanwhile, the walk begins anew.
    pub(super) fn go_on(&self, walk: &mut Walk, count: usize) -> Option<Range<usize>> {
        if walk.moves != self.moves {
            *walk = Walk { next: 0, moves: self.moves };
        }
        let first = walk.next;
        walk.next += count;
        (first < self.registrations.capacity()).then_some(first..walk.next)
    }

    /// Deregisters the jobs that are in, as `is_in` says of their keys.
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
