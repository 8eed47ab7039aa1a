//! The registry of a shard: its re-armable jobs, which come into the hierarchy several times and keep
//! their handle.
//!
//! Ground rules:
//!
//! - A re-armable job has a registration from the moment it is registered until it leaves: it ends, or is
//!   cancelled. Without a registration it does not start and does not go back, wherever its job is.
//! - The job itself is *in* (the hierarchy), under the registration's key, or *out*: on its way to the
//!   pool, or running. Nothing says which but the hierarchy: the key of a job that is out is stale
//!   there.
//! - The registration says what the job waits for. Who moves it writes that down, in or out; so what counts
//!   is the registration, and not how the job got to where it is.

use slab::Slab;

use crate::host::timebase::Target;
use crate::structure::Key;
use crate::values::generation::{Generation, Generations};
use crate::values::handle::Handle;
use crate::values::time::Moment;

/// Registrations that an empty registry keeps memory for.
const KEPT_REGISTRATIONS: usize = 1024;

pub(super) struct Registration {
    generation: Generation,
    target: Target,
    /// When the target is reached, as of the last look at the clocks.
    pub(super) deadline: Moment,
    /// Under which key the job lies in the hierarchy, or did when it was last there.
    pub(super) key: Option<Key>,
    /// The job was given another target while it was out.
    pub(super) moved: bool,
    /// How many deadlines were dropped before the one to come.
    pub(super) missed: u64,
}

impl Registration {
    /// What the job waits for; what it waited for last while it is out.
    pub(super) fn target(&self) -> Target {
        self.target
    }

    fn waits_for_the_wall(&self) -> bool {
        matches!(self.target, Target::Wall(_))
    }
}

#[derive(Default)]
pub(super) struct Registry {
    registrations: Slab<Registration>,
    generations: Generations,
    /// How many registrations wait for a wall-clock time.
    watch_wall: usize,
}

impl Registry {
    /// A registration for a job that is about to come in: the generation and the place of its handle.
    pub(super) fn register(&mut self) -> (Generation, u32) {
        let generation = self.generations.next();
        let (target, deadline) = (Target::Moment(Moment::NEVER), Moment::NEVER);
        let registration =
            Registration { generation, target, deadline, key: None, moved: false, missed: 0 };
        let index = self.registrations.insert(registration);
        (generation, u32::try_from(index).expect("fewer than 2^32 re-armable jobs"))
    }

    pub(super) fn registration(&mut self, handle: Handle) -> Option<&mut Registration> {
        self.registrations
            .get_mut(handle.index() as usize)
            .filter(|registration| registration.generation == handle.generation())
    }

    /// Writes down what a job waits for from now on.
    pub(super) fn set_target(&mut self, handle: Handle, target: Target, deadline: Moment) {
        let Some(registration) = self.registration(handle) else { return };
        let before = registration.waits_for_the_wall();
        registration.target = target;
        registration.deadline = deadline;
        let after = registration.waits_for_the_wall();
        self.watch_wall = self.watch_wall + usize::from(after) - usize::from(before);
    }

    pub(super) fn deregister(&mut self, handle: Handle) -> Option<Registration> {
        self.registration(handle)?;
        let registration = self.registrations.try_remove(handle.index() as usize)?;
        self.watch_wall -= usize::from(registration.waits_for_the_wall());
        if self.registrations.is_empty() && self.registrations.capacity() > KEPT_REGISTRATIONS {
            self.registrations = Slab::new();
        }
        Some(registration)
    }

    /// Whether any job waits for a wall-clock time.
    pub(super) fn has_any_on_the_wall(&self) -> bool {
        self.watch_wall > 0
    }

    /// The registration at a place, if its job does.
    pub(super) fn on_the_wall_at(&mut self, index: usize) -> Option<&mut Registration> {
        self.registrations.get_mut(index).filter(|registration| registration.waits_for_the_wall())
    }

    /// All registrations are at places below this.
    pub(super) fn capacity(&self) -> usize {
        self.registrations.capacity()
    }

    /// Takes the registrations of the jobs that are in, as the hierarchy says.
    pub(super) fn retain_out(&mut self, is_in: impl Fn(Key) -> bool) {
        self.registrations.retain(|_, registration| !registration.key.is_some_and(&is_in));
        self.watch_wall = self
            .registrations
            .iter()
            .filter(|(_, registration)| registration.waits_for_the_wall())
            .count();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn register(registry: &mut Registry) -> Handle {
        let (generation, index) = registry.register();
        Handle::rearmable(0, generation, index)
    }

    #[test]
    fn a_seat_that_is_taken_again_is_nobody_elses() {
        let mut registry = Registry::default();
        let stale = register(&mut registry);
        assert!(registry.registration(stale).is_some() && registry.deregister(stale).is_some());
        let fresh = register(&mut registry);
        assert_eq!(stale.index(), fresh.index());
        assert!(registry.registration(stale).is_none() && registry.deregister(stale).is_none());
        assert!(registry.registration(fresh).is_some());
    }

    #[test]
    fn who_waits_for_the_wall_is_counted_once() {
        let mut registry = Registry::default();
        let (a, b) = (register(&mut registry), register(&mut registry));
        let (wall, now) = (Target::Wall(SystemTime::UNIX_EPOCH), Moment::default());
        for _ in 0..2 {
            registry.set_target(a, wall, now);
            registry.set_target(b, wall, now);
        }
        let count = |registry: &mut Registry| {
            (0..registry.capacity())
                .filter(|&index| registry.on_the_wall_at(index).is_some())
                .count()
        };
        assert_eq!(count(&mut registry), 2);
        registry.set_target(a, Target::Moment(now), now);
        assert!(registry.has_any_on_the_wall());
        registry.deregister(b);
        assert!(!registry.has_any_on_the_wall() && count(&mut registry) == 0);
        registry.set_target(b, wall, now);
        assert!(!registry.has_any_on_the_wall(), "it has no registration");
    }

    #[test]
    fn an_empty_roll_keeps_little_memory() {
        let mut registry = Registry::default();
        let handles: Vec<Handle> =
            (0..2 * KEPT_REGISTRATIONS).map(|_| register(&mut registry)).collect();
        for &handle in &handles {
            assert!(registry.deregister(handle).is_some());
        }
        assert!(registry.registrations.capacity() <= KEPT_REGISTRATIONS);
    }
}
