//! The insert of one job, and the verbs for many jobs at once.
//!
//! A job is a new one or one that was in a wheel before, for a moment or for a wall-clock time, with room of its own or
//! that of a job that it replaces. A batch takes one reading of the clock, and few locks.
//!
//! Ground rules:
//!
//! - An insert with a plain delay is as cheap as possible. The other cases (a wall-clock time, a window, a [`Job`] as
//!   the job) are tested where the compiler knows the caller's types, so it can drop the test.
//! - The code of the other cases is compiled once, and not for each type of a job: each closure that a program inserts
//!   is a type of its own. To be of one type there, a job is boxed first. So a job with a wall-clock time has two
//!   boxes.
//! - A job is admitted, and its room is taken, before it goes into a shard. A refused job gives its room back.
//! - The insert of a batch is all or nothing, so it goes into one shard, under one lock from the first job to the last.
//!   The boxes are made under the lock too: the allocator and the table each walk along a list of free memory, and the
//!   cache misses of the two walks overlap when they run side by side.
//! - A cancel or a reset of a batch is not all or nothing, so it releases the lock after [`HANDLES_PER_LOCK`] jobs, for
//!   other threads. The answers come in the order of the handles, whichever shards hold the jobs.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::engine::dispatch::DueJob;
use crate::engine::shard::{Arrival, Inserted, Shard};
use crate::host::clock::{Point, Target};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Call, Disarmed, IntoJob, Job, disarmed, is_job};
use crate::values::time::{Moment, Tick, When};

impl Engine {
    #[inline]
    pub(crate) fn insert<C: Call>(self: &Arc<Engine>, when: When, job: C) -> Inserted<C> {
        let now = self.timebase.clock().now();
        match self.admit(1) {
            Ok(()) => self.insert_admitted(when, now, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    /// Hands a job over without the ticker. If that cannot be, inserts it for the next tick.
    pub(crate) fn spawn<C: Call>(self: &Arc<Engine>, job: C) -> Result<(), InsertError<C>> {
        let Some(outlet) = self.open_outlet().filter(|_| !is_job::<C>()) else {
            return self.insert(Duration::ZERO.into(), job).map(drop);
        };
        let passed = self.pass(Box::new(job), |due, now| outlet.send(due, now));
        passed.map_err(|refused| refused.map(|job| *job))?;
        outlet.spawn_drainers(1);
        Ok(())
    }

    /// Sends a job that is due now, under the lock of its shard.
    pub(crate) fn pass<J: IntoJob>(
        &self,
        job: J,
        send: impl FnOnce(DueJob, Moment),
    ) -> Result<(), InsertError<J>> {
        let now = self.timebase.clock().now();
        let hand_over = |handle, job| send(DueJob { job, handle, deadline: now }, now);
        self.own_shard().pass(job, hand_over).inspect_err(|_| self.note_refused(1))
    }

    /// Inserts a job that replaces the `old` one, if there is one, and takes its room if it was
    /// pending. Puts the old job into `replaced`. A re-armable job that is with the pool stays there:
    /// the thread that has it drops it, and `replaced` stays `None`.
    pub(crate) fn insert_in_place_of<C: Call>(
        self: &Arc<Engine>,
        old: Option<Handle>,
        when: When,
        job: C,
        replaced: &mut Option<Job>,
    ) -> Inserted<C> {
        let now = self.timebase.clock().now();
        match self.admit_in_place_of(old, replaced) {
            Ok(()) => self.insert_admitted(when, now, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    /// Takes out the `old` job, if it is pending, and keeps its room; otherwise takes room.
    #[inline]
    pub(super) fn admit_in_place_of(
        &self,
        old: Option<Handle>,
        replaced: &mut Option<Job>,
    ) -> Result<(), InsertErrorKind> {
        match old {
            Some(old) if self.remove_keeping_room(old, replaced) => Ok(()),
            _ => self.admit(1),
        }
    }

    /// Takes room for `jobs` jobs that are inserted one after the other, with one reading of the
    /// clock.
    pub(crate) fn admit_batch(&self, jobs: usize) -> Result<Admitted<'_>, InsertErrorKind> {
        let now = self.timebase.clock().now();
        self.admit(jobs).map(|()| Admitted { engine: self, now, left: jobs })
    }

    /// Inserts one of the admitted jobs, which replaces the `old` job, if there is one.
    pub(crate) fn insert_of_batch<C: Call>(
        self: &Arc<Engine>,
        admitted: &mut Admitted<'_>,
        when: When,
        job: C,
        old: Option<Handle>,
        replaced: &mut Option<Job>,
    ) -> Inserted<C> {
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
    ) -> Inserted<C> {
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
    fn insert_as_job<C: Call>(self: &Arc<Engine>, when: When, now: Moment, job: C) -> Inserted<C> {
        let inserted = self.insert_again(when, now, disarmed(job));
        inserted.map_err(|refused| refused.map(Job::into_call))
    }

    #[inline]
    fn insert_into_shard<J: IntoJob>(&self, deadline: Tick, job: J) -> Inserted<J> {
        let inserted = self.own_shard().insert(deadline, job);
        let handle = inserted.inspect_err(|_| self.release_refused(1))?;
        self.alarm.wake_for(deadline);
        Ok(handle)
    }

    /// Inserts a job that may have been in a wheel before. A repeating job goes on repeating.
    fn insert_again(self: &Arc<Engine>, when: When, now: Moment, job: Disarmed) -> Inserted<Job> {
        let target = self.target_of(&job, when, now);
        match (job, target.point) {
            (Disarmed::OneShot(job), Point::Moment(moment)) => {
                self.insert_into_shard(self.timebase.deadline(moment, target.window, now), job)
            }
            (Disarmed::OneShot(job), Point::Wall(_)) => self.insert_appointment(target, job),
            (Disarmed::Repeating { handle, repeat, job }, _) => {
                let inserted = self.insert_repeating(target, repeat, job);
                inserted.map_err(|refused| refused.map(|job| self.repeating(handle, repeat, job)))
            }
        }
    }
}

/// Jobs that have room. Its drop gives back the room of those that were not inserted.
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

/// How many handles are looked at before a shard's lock is released.
const HANDLES_PER_LOCK: usize = 64;

/// The result of an insert of many: their handles, or the refused timers.
type InsertedAll<W, C> = Result<Vec<Handle>, InsertError<Vec<(W, C)>>>;

impl Engine {
    pub(crate) fn insert_batch<W, C>(self: &Arc<Engine>, timers: Vec<(W, C)>) -> InsertedAll<W, C>
    where
        W: Into<When> + Copy,
        C: Call,
    {
        let now = self.timebase.clock().now();
        // Before room is taken: the conversion to a `When` may be user code, and may unwind.
        let deadlines = match is_job::<C>() {
            true => None,
            false => self.deadlines(timers.iter().map(|&(when, _)| when), now),
        };
        let whens: Vec<When> = match deadlines {
            Some(_) => Vec::new(),
            None => timers.iter().map(|&(when, _)| when.into()).collect(),
        };
        if let Err(kind) = self.admit(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        match deadlines {
            Some(deadlines) => self.insert_one_shots(&deadlines, timers),
            None => self.insert_mixed(&whens, timers, now),
        }
    }

    /// Returns the deadlines of timers, or `None` if one of them waits for the wall clock.
    fn deadlines<W: Into<When>>(
        &self,
        whens: impl ExactSizeIterator<Item = W>,
        now: Moment,
    ) -> Option<Vec<Tick>> {
        let mut deadlines = Vec::with_capacity(whens.len());
        for when in whens {
            let Target { point, window } = self.timebase.target(when.into(), now);
            let Point::Moment(moment) = point else { return None };
            deadlines.push(self.timebase.deadline(moment, window, now));
        }
        Some(deadlines)
    }

    fn insert_one_shots<W, C: Call>(
        &self,
        deadlines: &[Tick],
        timers: Vec<(W, C)>,
    ) -> InsertedAll<W, C> {
        let inserted = self.own_shard().insert_batch(deadlines, timers);
        let (handles, earliest) =
            inserted.inspect_err(|_| self.release_refused(deadlines.len()))?;
        self.alarm.wake_for(earliest);
        Ok(handles)
    }

    /// Inserts timers of any kind: re-armable ones are registered first, then all go into the shard
    /// under one lock.
    fn insert_mixed<W, C: Call>(
        self: &Arc<Engine>,
        whens: &[When],
        timers: Vec<(W, C)>,
        now: Moment,
    ) -> InsertedAll<W, C> {
        let shard = self.own_shard();
        let (times, jobs): (Vec<W>, Vec<C>) = timers.into_iter().unzip();
        let mut arrivals = Vec::with_capacity(whens.len());
        let mut refused = None;
        for (&when, job) in whens.iter().zip(jobs.into_iter().map(disarmed)) {
            let arrival = self.arrival(shard, when, now, job);
            arrivals.push(arrival.unwrap_or_else(|(kind, arrival)| {
                refused = Some(kind);
                arrival
            }));
        }
        let result = match refused {
            Some(kind) => Err(InsertError::new(kind, arrivals)),
            None => shard.insert_arrivals(arrivals, &self.timebase),
        };
        let back = |arrival| match arrival {
            Arrival::OneShot { job, .. } => job.into_call(),
            Arrival::Rearmable { handle, job, .. } => {
                shard.deregister(handle, &self.timebase);
                job.into_call()
            }
        };
        let (handles, earliest) = result.map_err(|refused| {
            self.release_refused(whens.len());
            refused.map(|all| times.into_iter().zip(all.into_iter().map(back)).collect())
        })?;
        self.alarm.wake_for(earliest);
        Ok(handles)
    }

    /// Prepares a job for its insert, and registers it if it is re-armable. If the registration is
    /// refused, the arrival only serves to get the job back.
    fn arrival(
        self: &Arc<Engine>,
        shard: &Shard,
        when: When,
        now: Moment,
        job: Disarmed,
    ) -> Result<Arrival, (InsertErrorKind, Arrival)> {
        let target = self.target_of(&job, when, now);
        let job = match (job, target.point) {
            (Disarmed::OneShot(job), Point::Moment(moment)) => {
                let deadline = self.timebase.deadline(moment, target.window, now);
                return Ok(Arrival::OneShot { deadline, job });
            }
            (job, _) => job,
        };
        match shard.register() {
            Ok(handle) => {
                Ok(Arrival::Rearmable { handle, target, job: self.rearmable(handle, job) })
            }
            Err(kind) => {
                Err((kind, Arrival::OneShot { deadline: Tick::MAX, job: self.as_it_was(job) }))
            }
        }
    }

    pub(crate) fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
        let mut answers = vec![false; handles.len()];
        let mut jobs = Vec::with_capacity(HANDLES_PER_LOCK.min(handles.len()));
        self.by_shard(
            handles,
            |&handle| handle,
            |shard, chosen| {
                let Some(shard) = shard else {
                    chosen.iter().for_each(|&which| answers[which] = self.cancel(handles[which]));
                    return;
                };
                shard.cancel_batch(handles, chosen, &mut answers, &mut jobs);
                self.release(jobs.len());
                // The list holds no handles beside the jobs: with them a cancel of many took half
                // as long again when the memory of the jobs is cold.
                let cancelled = chosen.iter().filter(|&&which| answers[which]);
                for (job, &which) in jobs.drain(..).zip(cancelled) {
                    self.discard(job, handles[which]);
                }
            },
        );
        answers
    }

    pub(crate) fn reset_batch<W: Into<When> + Copy>(&self, timers: &[(Handle, W)]) -> Vec<bool> {
        let now = self.timebase.clock().now();
        let deadline = |&(_, when): &(Handle, W)| {
            let Target { point, window } = self.timebase.target(when.into(), now);
            self.timebase.deadline(self.timebase.estimate(point).moment, window, now)
        };
        let deadlines: Vec<Tick> = timers.iter().map(deadline).collect();
        let mut answers = vec![false; timers.len()];
        self.by_shard(
            timers,
            |&(handle, _)| handle,
            |shard, chosen| {
                let Some(shard) = shard else {
                    for &which in chosen {
                        let (handle, when) = timers[which];
                        let target = self.timebase.target(when.into(), now);
                        answers[which] = self.reset_for(handle, target, now);
                    }
                    return;
                };
                let earliest = shard.reset_batch(timers, &deadlines, chosen, &mut answers);
                self.alarm.wake_for(earliest);
            },
        );
        answers
    }

    /// Calls `visit` with each shard and the indices of its own handles, among [`HANDLES_PER_LOCK`]
    /// at a time. Calls it with no shard for handles of re-armable jobs and of other wheels.
    fn by_shard<T>(
        &self,
        all: &[T],
        handle: impl Fn(&T) -> Handle,
        mut visit: impl FnMut(Option<&Shard>, &[usize]),
    ) {
        let shard = |&which: &usize| handle(&all[which]).shard() as usize;
        let mut indices = Vec::with_capacity(HANDLES_PER_LOCK.min(all.len()));
        for first in (0..all.len()).step_by(HANDLES_PER_LOCK) {
            indices.clear();
            indices.extend(first..all.len().min(first + HANDLES_PER_LOCK));
            if !indices.is_sorted_by_key(shard) {
                indices.sort_by_key(shard);
            }
            for chosen in indices.chunk_by(|a, b| shard(a) == shard(b)) {
                visit(self.shards.get(shard(&chosen[0])), chosen);
            }
        }
    }
}
