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
mod tests {
    use super::*;
    use crate::host::clock::Clock;

    fn register(registry: &mut Registry) -> Handle {
        let (generation, index) = registry.register();
        Handle::rearmable(0, generation, index)
    }

    #[test]
    fn an_index_that_is_used_again_is_nobody_elses() {
        let mut registry = Registry::default();
        let stale = register(&mut registry);
        assert!(registry.registration(stale).is_some() && registry.deregister(stale).is_some());
        let fresh = register(&mut registry);
        assert_eq!(stale.index(), fresh.index());
        assert!(registry.registration(stale).is_none() && registry.deregister(stale).is_none());
        assert!(registry.registration(fresh).is_some());
    }

    #[test]
    fn the_wall_is_watched_while_a_job_waits_for_it() {
        let mut registry = Registry::default();
        let (a, b) = (register(&mut registry), register(&mut registry));
        let clock = Clock::manual();
        let wall = Target::exact(Point::Wall(clock.wall()));
        let soon = |clock: &Clock| {
            let (moment, reading) = clock.moment_of_wall(clock.wall());
            Estimate { moment, reading: Some(reading) }
        };
        for _ in 0..2 {
            registry.set_target(a, wall, soon(&clock));
            registry.set_target(b, wall, soon(&clock));
        }
        let count = |registry: &mut Registry| {
            let estimate =
                |index| registry.estimate_anew(index, |_| true, |_| soon(&clock)).is_some();
            (0..2).map(estimate).filter(|&on_the_wall| on_the_wall).count()
        };
        assert_eq!(count(&mut registry), 2);
        let later = Moment::after(Duration::from_secs(1));
        let never = Estimate { moment: later, reading: None };
        registry.set_target(a, Target::exact(Point::Moment(later)), never);
        assert!(registry.wall_offsets().is_some());
        registry.deregister(b);
        assert!(registry.wall_offsets().is_none() && count(&mut registry) == 0);
        registry.set_target(b, wall, soon(&clock));
        assert!(registry.wall_offsets().is_none(), "it is not registered");
    }

    #[test]
    fn readings_are_kept_from_the_least_to_the_most() {
        let mut registry = Registry::default();
        let clock = Clock::manual();
        let (begin, ms) = (clock.wall(), Duration::from_millis(1));
        for shift in [5, 9, 0, 3] {
            let handle = register(&mut registry);
            clock.set_wall(begin + ms * shift);
            let (moment, reading) = clock.moment_of_wall(begin);
            let estimate = Estimate { moment, reading: Some(reading) };
            registry.set_target(handle, Target::exact(Point::Wall(begin)), estimate);
        }
        let readings = registry.wall_offsets().unwrap();
        let from = |shift| {
            clock.set_wall(begin + ms * shift);
            readings.distance(clock.read_wall_closely())
        };
        assert_eq!([from(0), from(4), from(5), from(20)], [ms * 9, ms * 5, ms * 5, ms * 20]);
    }

    #[test]
    fn an_empty_registry_keeps_little_memory() {
        let mut registry = Registry::default();
        let handles: Vec<Handle> =
            (0..2 * KEPT_REGISTRATIONS).map(|_| register(&mut registry)).collect();
        for &handle in &handles {
            assert!(registry.deregister(handle).is_some());
        }
        assert!(registry.registrations.capacity() <= KEPT_REGISTRATIONS);
    }

    /// A few jobs do not pin the memory of many that have gone; their handles go on working, and those of
    /// the others stay stale, however often the registrations move.
    #[test]
    fn a_registry_gives_back_what_a_burst_took_while_a_few_stay() {
        let mut registry = Registry::default();
        let mut kept: Vec<(Handle, u64)> = Vec::new();
        let mut stale = Vec::new();
        for burst in 0..4 {
            let mut handles: Vec<Handle> =
                (0..20 * KEPT_REGISTRATIONS).map(|_| register(&mut registry)).collect();
            // The last one had the highest index.
            for _ in 0..3 {
                let handle = handles.pop().unwrap();
                let missed = handle.generation().get();
                registry.registration(handle).unwrap().missed = missed;
                kept.push((handle, missed));
            }
            for &handle in &handles {
                assert!(registry.deregister(handle).is_some());
                assert!(registry.deregister(handle).is_none());
            }
            let room = registry.registrations.capacity();
            assert!(room <= KEPT_REGISTRATIONS, "room for {room} after burst {burst}");
            stale.extend(handles);
            assert!(stale.iter().all(|&handle| registry.registration(handle).is_none()));
            for &(handle, missed) in &kept {
                assert_eq!(registry.registration(handle).unwrap().missed, missed);
            }
            let (first, _) = kept.remove(0);
            assert!(registry.deregister(first).is_some() && registry.deregister(first).is_none());
            assert_eq!(registry.len(), kept.len());
        }
        let forged = kept.iter().map(|&(it, _)| Handle::rearmable(0, it.generation(), u32::MAX));
        assert!(forged.into_iter().all(|handle| registry.registration(handle).is_none()));
        kept.into_iter().for_each(|(handle, _)| assert!(registry.deregister(handle).is_some()));
        assert!(registry.len() == 0 && registry.moved.is_empty());
    }

    /// A walk misses no registration that moves to where the walk has been.
    #[test]
    fn a_walk_begins_anew_when_registrations_have_moved() {
        let mut registry = Registry::default();
        let handles: Vec<Handle> =
            (0..2 * KEPT_REGISTRATIONS).map(|_| register(&mut registry)).collect();
        let mut walk = Walk::default();
        assert_eq!(registry.go_on(&mut walk, 256), Some(0..256));
        assert_eq!(registry.go_on(&mut walk, 256), Some(256..512));
        let (last, others) = handles.split_last().unwrap();
        others.iter().for_each(|&handle| assert!(registry.deregister(handle).is_some()));
        let seen = registry.go_on(&mut walk, 256).unwrap();
        assert!(seen.contains(&registry.index_of(*last).unwrap()), "{seen:?}");
        while registry.go_on(&mut walk, 256).is_some() {}
    }
}
