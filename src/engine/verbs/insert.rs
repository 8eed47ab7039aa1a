//! The insert of one job: a new one or one that was in a wheel before, for a moment or for a
//! wall-clock time, with room of its own or that of a job that it replaces.
//!
//! Ground rules:
//!
//! - An insert with a plain delay is as cheap as possible. The other cases (a wall-clock time, a
//!   window, a [`Job`] as the job) are tested where the compiler knows the caller's types, so it
//!   can drop the test.
//! - The code of the other cases is compiled once and not for each type of a job: each closure that
//!   a program inserts is a type, and costs time to compile. A job with a wall-clock time has two
//!   boxes therefore.
//! - A job is admitted, and its room is taken, before it goes into a shard. A refused job gives its
//!   room back.

use std::sync::Arc;

use super::Engine;
use crate::host::timebase::{Point, Target};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Call, Disarmed, IntoJob, Job, disarmed, is_job};
use crate::values::time::{Moment, Tick};
use crate::values::when::When;

impl Engine {
    #[inline]
    pub(crate) fn insert<C: Call>(
        self: &Arc<Engine>,
        when: When,
        job: C,
    ) -> Result<Handle, InsertError<C>> {
        let now = self.timebase.clock().now();
        match self.admit(1) {
            Ok(()) => self.insert_admitted(when, now, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    /// Replaces a job by another, which takes its room if it was pending. Puts the replaced job
    /// into `old`. A re-armable job that is with the pool stays there: the thread that has it drops
    /// it, and `old` stays `None`.
    pub(crate) fn replace<C: Call>(
        self: &Arc<Engine>,
        handle: Handle,
        when: When,
        job: C,
        old: &mut Option<Job>,
    ) -> Result<Handle, InsertError<C>> {
        let now = self.timebase.clock().now();
        match self.admit_in_place_of(handle, old) {
            Ok(()) => self.insert_admitted(when, now, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    /// Takes out a job, if it is pending, and keeps its room; otherwise takes room.
    pub(super) fn admit_in_place_of(
        &self,
        handle: Handle,
        old: &mut Option<Job>,
    ) -> Result<(), InsertErrorKind> {
        match self.remove_keeping_room(handle, old) {
            true => Ok(()),
            false => self.admit(1),
        }
    }

    /// Takes room for `jobs` jobs that are inserted one after the other, with one reading of the
    /// clock.
    pub(crate) fn admit_batch(&self, jobs: usize) -> Result<Admitted<'_>, InsertErrorKind> {
        let now = self.timebase.clock().now();
        self.admit(jobs).map(|()| Admitted { engine: self, now, left: jobs })
    }

    /// Inserts one of the admitted jobs. If there is an `old` job, the new one replaces it, and the
    /// old one is put into `replaced`.
    pub(crate) fn insert_of_batch<C: Call>(
        self: &Arc<Engine>,
        admitted: &mut Admitted<'_>,
        when: When,
        job: C,
        old: Option<Handle>,
        replaced: &mut Option<Job>,
    ) -> Result<Handle, InsertError<C>> {
        admitted.left -= 1;
        if let Some(old) = old {
            self.remove(old, replaced);
        }
        self.insert_admitted(when, admitted.now, job)
    }

    /// Inserts a job that knows its own handle: `make` gets the handle and returns the job. The job
    /// can be cancelled until it starts.
    ///
    /// Without room, `make` is not called. If the wheel ends while `make` is under way, the job is
    /// dropped.
    pub(crate) fn insert_with<C: Call>(
        self: &Arc<Engine>,
        when: When,
        make: impl FnOnce(Handle) -> C,
    ) -> Result<Handle, InsertErrorKind> {
        let now = self.timebase.clock().now();
        self.admit(1)?;
        let handle = self.own_shard().register().inspect_err(|_| self.release_refused(1))?;
        let unarmed = Unarmed { engine: self, handle };
        let job = make(handle);
        core::mem::forget(unarmed);
        let job = disarmed(job);
        let target = self.target_of(&job, when, now);
        let job = self.rearmable(handle, job);
        let Err(job) = self.arm(handle, target, 0, job) else { return Ok(handle) };
        self.discard(job, handle);
        if self.is_stopped() {
            self.note_refused(1);
            return Err(InsertErrorKind::Shutdown);
        }
        // `make` gave the handle away, and the job was cancelled.
        Ok(handle)
    }

    #[inline]
    fn insert_admitted<C: Call>(
        self: &Arc<Engine>,
        when: When,
        now: Moment,
        job: C,
    ) -> Result<Handle, InsertError<C>> {
        let Target { point, window } = self.timebase.target(when, now);
        match point {
            Point::Moment(moment) if !is_job::<C>() => {
                let deadline = self.timebase.deadline(moment, window, now);
                let inserted = self.insert_into_shard(deadline, Box::new(job));
                inserted.map_err(|refused| refused.map(|job| *job))
            }
            _ => self.insert_as_job(when, now, job),
        }
    }

    /// Boxes the job first, and inserts the box.
    #[cold]
    fn insert_as_job<C: Call>(
        self: &Arc<Engine>,
        when: When,
        now: Moment,
        job: C,
    ) -> Result<Handle, InsertError<C>> {
        let inserted = self.insert_again(when, now, disarmed(job));
        inserted.map_err(|refused| refused.map(Job::into_call))
    }

    #[inline]
    fn insert_into_shard<J: IntoJob>(
        &self,
        deadline: Tick,
        job: J,
    ) -> Result<Handle, InsertError<J>> {
        match self.own_shard().insert(deadline, job) {
            Ok(handle) => {
                self.alarm.wake_for(deadline);
                Ok(handle)
            }
            Err(refused) => {
                self.release_refused(1);
                Err(refused)
            }
        }
    }

    /// Inserts a job that may have been in a wheel before. A repeating job goes on repeating.
    fn insert_again(
        self: &Arc<Engine>,
        when: When,
        now: Moment,
        job: Disarmed,
    ) -> Result<Handle, InsertError<Job>> {
        let target = self.target_of(&job, when, now);
        match (job, target.point) {
            (Disarmed::OneShot(job), Point::Moment(moment)) => {
                self.insert_into_shard(self.timebase.deadline(moment, target.window, now), job)
            }
            (Disarmed::OneShot(job), Point::Wall(_)) => self.insert_appointment(target, job),
            (Disarmed::Repeating { handle, repeat, job }, _) => {
                let inserted = self.insert_repeating(target, repeat, job);
                let back =
                    |job| self.rearmable(handle, Disarmed::Repeating { handle, repeat, job });
                inserted.map_err(|refused| refused.map(back))
            }
        }
    }
}

/// Jobs that have room, and the time of their inserts. Its drop gives back the room of those that
/// were not inserted.
pub(crate) struct Admitted<'a> {
    engine: &'a Engine,
    now: Moment,
    left: usize,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.engine.release_refused(self.left);
        }
    }
}

/// A registration whose job is being made. If `make` unwinds, the drop deregisters it.
struct Unarmed<'a> {
    engine: &'a Engine,
    handle: Handle,
}

impl Drop for Unarmed<'_> {
    fn drop(&mut self) {
        self.engine.deregister(self.handle);
    }
}
