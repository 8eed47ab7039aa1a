//! The roll of a shard: its standing jobs, which come into the hierarchy several times and keep
//! their handle.
//!
//! Ground rules:
//!
//! - A standing job has a seat from the moment it is enrolled until it leaves: it ends, or is
//!   cancelled. Without a seat it does not start and does not go back, wherever its job is.
//! - The job itself is *in* (the hierarchy), under the seat's key, or *out*: on its way to the
//!   pool, or running. Nothing says which but the hierarchy: the key of a job that is out is stale
//!   there.
//! - The seat says what the job waits for. Who moves it writes that down, in or out; so what counts
//!   is the seat, and not how the job got to where it is.

use slab::Slab;

use crate::host::timebase::Aim;
use crate::structure::Key;
use crate::values::generation::{Generation, Generations};
use crate::values::handle::Handle;
use crate::values::time::Moment;

/// Seats that an empty roll keeps memory for.
const KEPT_SEATS: usize = 1024;

pub(super) struct Seat {
    generation: Generation,
    aim: Aim,
    /// When the aim is reached, as of the last look at the clocks.
    pub(super) deadline: Moment,
    /// Under which key the job lies in the hierarchy, or did when it was last there.
    pub(super) key: Option<Key>,
    /// The job was given another aim while it was out.
    pub(super) moved: bool,
    /// How many deadlines were dropped before the one to come.
    pub(super) missed: u64,
}

impl Seat {
    /// What the job waits for; what it waited for last while it is out.
    pub(super) fn aim(&self) -> Aim {
        self.aim
    }

    fn waits_for_the_wall(&self) -> bool {
        matches!(self.aim, Aim::Wall(_))
    }
}

#[derive(Default)]
pub(super) struct Roll {
    seats: Slab<Seat>,
    generations: Generations,
    /// How many seats wait for a wall-clock time.
    on_the_wall: usize,
}

impl Roll {
    /// A seat for a job that is about to come in: the generation and the place of its handle.
    pub(super) fn enroll(&mut self) -> (Generation, u32) {
        let generation = self.generations.next();
        let (aim, deadline) = (Aim::Moment(Moment::NEVER), Moment::NEVER);
        let seat = Seat { generation, aim, deadline, key: None, moved: false, missed: 0 };
        let place = self.seats.insert(seat);
        (generation, u32::try_from(place).expect("fewer than 2^32 standing jobs"))
    }

    pub(super) fn seat(&mut self, handle: Handle) -> Option<&mut Seat> {
        self.seats
            .get_mut(handle.place() as usize)
            .filter(|seat| seat.generation == handle.generation())
    }

    /// Writes down what a job waits for from now on.
    pub(super) fn set_aim(&mut self, handle: Handle, aim: Aim, deadline: Moment) {
        let Some(seat) = self.seat(handle) else { return };
        let before = seat.waits_for_the_wall();
        seat.aim = aim;
        seat.deadline = deadline;
        let after = seat.waits_for_the_wall();
        self.on_the_wall = self.on_the_wall + usize::from(after) - usize::from(before);
    }

    pub(super) fn leave(&mut self, handle: Handle) -> Option<Seat> {
        self.seat(handle)?;
        let seat = self.seats.try_remove(handle.place() as usize)?;
        self.on_the_wall -= usize::from(seat.waits_for_the_wall());
        if self.seats.is_empty() && self.seats.capacity() > KEPT_SEATS {
            self.seats = Slab::new();
        }
        Some(seat)
    }

    /// Whether any job waits for a wall-clock time.
    pub(super) fn has_any_on_the_wall(&self) -> bool {
        self.on_the_wall > 0
    }

    /// The seat at a place, if its job does.
    pub(super) fn on_the_wall_at(&mut self, place: usize) -> Option<&mut Seat> {
        self.seats.get_mut(place).filter(|seat| seat.waits_for_the_wall())
    }

    /// All seats are at places below this.
    pub(super) fn places(&self) -> usize {
        self.seats.capacity()
    }

    /// Takes the seats of the jobs that are in, as the hierarchy says.
    pub(super) fn retain_out(&mut self, is_in: impl Fn(Key) -> bool) {
        self.seats.retain(|_, seat| !seat.key.is_some_and(&is_in));
        self.on_the_wall = self.seats.iter().filter(|(_, seat)| seat.waits_for_the_wall()).count();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn enroll(roll: &mut Roll) -> Handle {
        let (generation, place) = roll.enroll();
        Handle::standing(0, generation, place)
    }

    #[test]
    fn a_seat_that_is_taken_again_is_nobody_elses() {
        let mut roll = Roll::default();
        let stale = enroll(&mut roll);
        assert!(roll.seat(stale).is_some() && roll.leave(stale).is_some());
        let fresh = enroll(&mut roll);
        assert_eq!(stale.place(), fresh.place());
        assert!(roll.seat(stale).is_none() && roll.leave(stale).is_none());
        assert!(roll.seat(fresh).is_some());
    }

    #[test]
    fn who_waits_for_the_wall_is_counted_once() {
        let mut roll = Roll::default();
        let (a, b) = (enroll(&mut roll), enroll(&mut roll));
        let (wall, now) = (Aim::Wall(SystemTime::UNIX_EPOCH), Moment::default());
        for _ in 0..2 {
            roll.set_aim(a, wall, now);
            roll.set_aim(b, wall, now);
        }
        let count = |roll: &mut Roll| {
            (0..roll.places()).filter(|&place| roll.on_the_wall_at(place).is_some()).count()
        };
        assert_eq!(count(&mut roll), 2);
        roll.set_aim(a, Aim::Moment(now), now);
        assert!(roll.has_any_on_the_wall());
        roll.leave(b);
        assert!(!roll.has_any_on_the_wall() && count(&mut roll) == 0);
        roll.set_aim(b, wall, now);
        assert!(!roll.has_any_on_the_wall(), "it has no seat");
    }

    #[test]
    fn an_empty_roll_keeps_little_memory() {
        let mut roll = Roll::default();
        let handles: Vec<Handle> = (0..2 * KEPT_SEATS).map(|_| enroll(&mut roll)).collect();
        for &handle in &handles {
            assert!(roll.leave(handle).is_some());
        }
        assert!(roll.seats.capacity() <= KEPT_SEATS);
    }
}
