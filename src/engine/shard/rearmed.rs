//! The verbs for standing jobs: each a step or two under the shard's lock, where roll and hierarchy
//! agree.

use core::mem::ManuallyDrop;

use super::{Shard, State};
use crate::host::sync::lock;
use crate::host::timebase::{Aim, Timing};
use crate::values::handle::Handle;
use crate::values::job::{Job, Work};
use crate::values::time::{Moment, Tick};

/// How many seats are looked at before the lock is given back.
const HOLD: usize = 256;

/// What a job finds that is about to start.
pub(crate) enum Start {
    /// It was cancelled on the way.
    Gone,
    /// It was given another aim on the way, or the wall clock was set back: it goes back as it
    /// came.
    TooEarly { aim: Aim, missed: u64 },
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
    /// A handle for a standing job that will come in; `None` when the shard is closed.
    pub(crate) fn enroll(&self) -> Option<Handle> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let (generation, place) = state.roll.enroll();
        Some(Handle::standing(self.number, generation, place))
    }

    /// Puts an enrolled job in, or back in, to wait for `aim` after `missed` deadlines were
    /// dropped; unless it was moved while it was out. A closed shard gives the job back, if no
    /// shutdown waits for it; and so does one in which the job has no seat any more.
    ///
    /// Answers with a tick for which the ticker may have to rise earlier, if there is any.
    pub(crate) fn come_in<W: Work + 'static>(
        &self,
        handle: Handle,
        aim: Aim,
        missed: u64,
        timing: &Timing,
        work: Box<W>,
    ) -> Result<Option<Tick>, Box<W>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.is_ended() {
            return Err(work);
        }
        let Some(seat) = state.roll.seat(handle) else { return Err(work) };
        // Who moved the job set its phase anew: nothing was dropped.
        let (aim, missed) = match core::mem::take(&mut seat.moved) {
            true => (seat.aim(), 0),
            false => (aim, missed),
        };
        seat.missed = missed;
        let moment = timing.moment(aim);
        let deadline = timing.deadline(moment);
        if let Some(strays) = &mut state.strays {
            strays.push((handle, deadline, Job::new(work)));
            return Ok(None);
        }
        state.tally.inserted += 1;
        seat.key = Some(state.hierarchy.insert(deadline, ManuallyDrop::new(Job::new(work))));
        let earliest = state.expect(deadline);
        Ok(state.set_aim(handle, aim, moment).or(earliest.then_some(deadline)))
    }

    /// A job that came due is about to start. With `last`, it leaves its seat.
    pub(crate) fn start(&self, handle: Handle, timing: &Timing, last: bool) -> Start {
        let mut state = lock(&self.state);
        let Some(seat) = state.roll.seat(handle) else { return Start::Gone };
        seat.moved = false;
        let (aim, deadline, missed) = (seat.aim(), seat.deadline, seat.missed);
        if !timing.has_come(aim) {
            return Start::TooEarly { aim, missed };
        }
        if last {
            state.roll.leave(handle);
        }
        Start::Due { deadline, missed }
    }

    /// A job that is out ends; whether it still had a seat.
    pub(crate) fn leave(&self, handle: Handle) -> bool {
        lock(&self.state).roll.leave(handle).is_some()
    }

    /// Takes the seat of a job, and the job if it is in.
    pub(crate) fn cancel_standing(&self, handle: Handle) -> Option<Cancelled> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let job = state.take_standing(handle);
        state.roll.leave(handle)?;
        Some(job.map_or(Cancelled::Out, Cancelled::In))
    }

    /// Takes a job that is in, and its seat. Leaves one that is out alone.
    pub(crate) fn take_standing(&self, handle: Handle) -> Option<Job> {
        let mut state = lock(&self.state);
        let job = state.take_standing(handle)?;
        state.roll.leave(handle);
        Some(job)
    }

    /// Gives a job another aim, in or out, if it has a seat. Answers as [`Shard::come_in`].
    pub(crate) fn reset_standing(
        &self,
        handle: Handle,
        aim: Aim,
        timing: &Timing,
    ) -> Option<Option<Tick>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.is_ended() {
            return None;
        }
        let moment = timing.moment(aim);
        let deadline = timing.deadline(moment);
        let seat = state.roll.seat(handle)?;
        let is_in = seat.key.is_some_and(|key| state.hierarchy.reset(key, deadline));
        seat.moved = !is_in;
        let earliest = is_in && state.expect(deadline);
        Some(state.set_aim(handle, aim, moment).or(earliest.then_some(deadline)))
    }

    /// When a job is due that is in; now, if it is out.
    pub(crate) fn deadline_of_standing(&self, handle: Handle) -> Option<Tick> {
        let mut state = lock(&self.state);
        if state.is_ended() {
            return None;
        }
        let key = state.roll.seat(handle)?.key;
        let deadline = key.and_then(|key| state.hierarchy.deadline(key));
        Some(deadline.unwrap_or(Tick::new(0)))
    }

    /// Looks at the wall clock anew, for every job that waits for it. What is overdue stays so.
    /// Gives the lock back after [`HOLD`] seats: who comes in meanwhile looks at the clock too.
    pub(crate) fn follow_the_wall(&self, timing: &Timing) {
        for first in (0..).step_by(HOLD) {
            let mut state = lock(&self.state);
            let State { roll, hierarchy, expected, .. } = &mut *state;
            if !roll.has_any_on_the_wall() || first >= roll.places() {
                return;
            }
            for place in first..first + HOLD {
                let Some(seat) = roll.on_the_wall_at(place) else { continue };
                let overdue = Aim::Moment(seat.deadline);
                if timing.has_come(seat.aim()) && timing.has_come(overdue) {
                    continue;
                }
                seat.deadline = timing.moment(seat.aim());
                let deadline = timing.deadline(seat.deadline);
                if seat.key.is_some_and(|key| hierarchy.reset(key, deadline)) {
                    *expected = deadline.min(*expected);
                }
            }
        }
    }
}

impl State {
    /// Writes the aim down. Should the job be the first to wait for a wall-clock time, the ticker
    /// has to rise at once, and begin to look at the wall clock.
    fn set_aim(&mut self, handle: Handle, aim: Aim, moment: Moment) -> Option<Tick> {
        let before = self.roll.has_any_on_the_wall();
        self.roll.set_aim(handle, aim, moment);
        (!before && self.roll.has_any_on_the_wall()).then_some(Tick::new(0))
    }

    fn take_standing(&mut self, handle: Handle) -> Option<Job> {
        let key = self.roll.seat(handle)?.key?;
        let job = self.hierarchy.cancel(key)?;
        self.tally.cancelled += 1;
        Some(ManuallyDrop::into_inner(job))
    }
}
