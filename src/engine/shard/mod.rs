//! A shard: one of several hierarchies that inserting threads are spread over, behind its lock.
//!
//! That lock is the only one that an insert, a cancel or a reset of a one-shot job takes. An insert or reset that has
//! to wake the ticker takes the locks of the parker and of the alarm's note after it. The verbs for many jobs take it
//! once.
//!
//! Ground rules:
//!
//! - No user code runs under the lock: a job is boxed before (except in a batch), and a cancelled job is returned, so
//!   that the caller drops it afterwards.
//! - A closed shard is empty and stays so. The lock decides whether a job is in the hierarchy or not: only one of a
//!   cancel, an advance and a close gets it.
//! - Jobs that may come in again, the re-armable ones, are also in the registry. Their verbs are in `registry.rs`, so
//!   one-shot jobs do not pay for them.
//! - A shard that has as many jobs as the hierarchy can number is full: it refuses, and does not panic.

mod registry;

use core::cell::Cell;
use core::mem::ManuallyDrop;
use std::time::Duration;

use registry::Registry;
pub(crate) use registry::{Start, WallOffsets};

use crate::engine::timers::{Due, Tally, Timers, TimersSurplus};
use crate::host::clock::{Target, Timebase};
use crate::host::sync::{Mutex, Ordering, lock};
use crate::structure::{Geometry, Key, Location, PREFETCH_BATCH};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{IntoJob, Job, Work};
use crate::values::time::Tick;

/// By how much the wall clock must have been set, or have drifted, for deadlines to be estimated
/// anew. A job may be late by this; a job that comes due too early goes back.
pub(crate) const WALL_STEP_MIN: Duration = Duration::from_millis(10);

/// Returns the shard that the calling thread inserts into.
#[inline]
pub(crate) fn of_this_thread(shards: &[Shard]) -> &Shard {
    &shards[thread_index() as usize % shards.len()]
}

/// Returns a number for the calling thread. Threads are numbered in the order of their first
/// inserts, so threads that start together use different shards.
pub(crate) fn thread_index() -> u32 {
    // Relaxed, and not an atomic of the model checker: the numbers have to differ, but order no
    // other memory.
    static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    thread_local! {
        static INDEX: Cell<Option<u32>> = const { Cell::new(None) };
    }
    INDEX.with(|index| {
        index.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            index.set(Some(number));
            number
        })
    })
}

/// Two cache lines to itself, because processors fetch lines in pairs: shards share none.
#[repr(align(128))]
pub(crate) struct Shard {
    number: u32,
    state: Mutex<State>,
}

struct State {
    timers: Timers<Job>,
    registry: Registry,
    max_jobs: usize,
    /// Re-armable jobs that came back to a closed shard, while a shutdown waits for them.
    strays: Option<Vec<Unstarted>>,
}

/// The result of an insert: the handle, or the refused job.
pub(crate) type Inserted<J> = Result<Handle, InsertError<J>>;

/// A job that a closed shard gives out: its handle, the tick at which it is due, and the job.
pub(crate) type Unstarted = (Handle, Tick, Job);

#[derive(Clone, Copy)]
pub(crate) struct NextWake {
    /// A tick before which nothing is due.
    pub(crate) tick: Tick,
    /// The wall-clock readings from which deadlines were estimated, if any job waits for a
    /// wall-clock time: then the ticker has to read the wall clock now and then.
    pub(crate) wall: Option<WallOffsets>,
}

impl NextWake {
    pub(crate) const NEVER: NextWake = NextWake { tick: Tick::MAX, wall: None };

    pub(crate) fn join(self, other: NextWake) -> NextWake {
        let wall = match (self.wall, other.wall) {
            (Some(one), Some(other)) => Some(one.join(other)),
            (one, other) => one.or(other),
        };
        NextWake { tick: self.tick.min(other.tick), wall }
    }
}

impl Shard {
    pub(crate) const MAX_JOBS: usize = Timers::<Job>::MAX;

    pub(crate) fn new(number: u32, geometry: Geometry, max_jobs: usize) -> Shard {
        let state = State {
            timers: Timers::new(geometry),
            registry: Registry::default(),
            max_jobs,
            strays: None,
        };
        Shard { number, state: Mutex::new(state) }
    }

    /// Adds a job. Returns it if the shard is closed or full.
    #[inline]
    pub(crate) fn insert<J: IntoJob>(&self, deadline: Tick, job: J) -> Inserted<J> {
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(1) {
            return Err(InsertError::new(kind, job));
        }
        Ok(self.handle(state.timers.insert(deadline, job.into_job())))
    }

    /// Counts a job that is due when it comes, and hands it over under the lock: so a closed shard hands none over.
    /// Returns it if the shard is closed or full.
    pub(crate) fn pass<J: IntoJob>(
        &self,
        job: J,
        hand_over: impl FnOnce(Handle, Job),
    ) -> Result<(), InsertError<J>> {
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(1) {
            return Err(InsertError::new(kind, job));
        }
        let (key, job) = state.timers.pass(job.into_job());
        hand_over(self.handle(key), ManuallyDrop::into_inner(job));
        let has_surplus = state.timers.has_surplus();
        drop(state);
        if has_surplus {
            self.free_surplus();
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn cancel(&self, handle: Handle) -> Option<Job> {
        let mut state = lock(&self.state);
        let job = state.timers.cancel_leaving(key(handle));
        let has_surplus = state.timers.has_surplus();
        drop(state);
        if has_surplus {
            self.free_surplus();
        }
        job
    }

    /// Frees memory that the shard does not need any more, without its lock.
    #[cold]
    fn free_surplus(&self) {
        let surplus = lock(&self.state).timers.take_surplus();
        drop(surplus);
    }

    /// Gives a job another deadline. Returns whether it was there.
    #[inline]
    pub(crate) fn reset(&self, handle: Handle, deadline: Tick) -> bool {
        lock(&self.state).timers.reset(key(handle), deadline)
    }

    pub(crate) fn deadline(&self, handle: Handle) -> Option<Tick> {
        lock(&self.state).timers.deadline(key(handle))
    }

    /// Returns the place of a job in the hierarchy, one-shot or re-armable.
    pub(crate) fn location(&self, handle: Handle) -> Option<Location> {
        let mut state = lock(&self.state);
        let key = match handle.rearmable_shard() {
            Some(_) => state.registry.registration(handle)?.key?,
            None => key(handle),
        };
        state.timers.location(key)
    }

    pub(crate) fn next_wake(&self) -> NextWake {
        let state = lock(&self.state);
        NextWake { tick: state.timers.next_due(), wall: state.registry.wall_offsets() }
    }

    pub(crate) fn earliest_deadline(&self) -> Tick {
        lock(&self.state).timers.earliest_deadline()
    }

    /// Returns the handle of a one-shot job.
    pub(crate) fn handle(&self, key: Key) -> Handle {
        Handle::new(self.number, key.generation, key.index)
    }

    pub(crate) fn tally(&self) -> Tally {
        lock(&self.state).timers.tally()
    }

    /// Advances to `to`, and appends the jobs that are due, looking at no more than `limit`
    /// entries. The caller takes them out of their `ManuallyDrop`. Returns whether all that are due
    /// were taken, and the surplus.
    pub(crate) fn advance(
        &self,
        to: Tick,
        mut limit: usize,
        due: &mut Vec<Due<Job>>,
    ) -> (bool, Option<TimersSurplus<Job>>) {
        let mut state = lock(&self.state);
        let finished = state.timers.advance_leaving(to, &mut limit, due);
        (finished, state.timers.take_surplus())
    }

    /// Closes the shard: no insert succeeds from now on. Returns the jobs that were in it, with their deadlines by the
    /// present wall clock: it may have been set since the ticker looked. The shard keeps almost no memory, except for
    /// the registrations of re-armable jobs that are out.
    ///
    /// Some of those jobs may come back: they are kept until [`Shard::collect_unstarted`].
    pub(crate) fn close(&self, timebase: &Timebase) -> Vec<Unstarted> {
        let mut state = lock(&self.state);
        // If the clock was not set, a job with a jitter keeps the tick that was drawn for it.
        state.follow_the_wall(WALL_STEP_MIN, timebase);
        let Some(hierarchy) = state.timers.close() else { return Vec::new() };
        state.registry.retain_out(|key| hierarchy.contains(key));
        state.strays = Some(Vec::new());
        drop(state);
        let with_handle = |(key, deadline, job)| {
            let job: Job = ManuallyDrop::into_inner(job);
            (job.rearmable_handle().unwrap_or(self.handle(key)), deadline, job)
        };
        hierarchy.into_timers().map(with_handle).collect()
    }

    /// Ends the wait for re-armable jobs. Returns those that came back, each with whether it was
    /// still registered. Jobs that come back later are not kept, and every handle is stale from now
    /// on.
    pub(crate) fn collect_unstarted(&self, timebase: &Timebase) -> Vec<(Unstarted, bool)> {
        let mut state = lock(&self.state);
        let strays = state.strays.take().unwrap_or_default();
        let with_registration = |(handle, deadline, job): Unstarted| {
            let next = state.deregister_out(handle, deadline, timebase);
            ((handle, next.unwrap_or(deadline), job), next.is_some())
        };
        strays.into_iter().map(with_registration).collect()
    }
}

impl State {
    /// Returns whether the shard is closed, and its shutdown collects no more jobs.
    fn is_ended(&self) -> bool {
        self.timers.is_closed() && self.strays.is_none()
    }

    /// Returns why `count` more jobs cannot be taken in, if they cannot.
    #[inline]
    fn refuses(&self, count: usize) -> Option<InsertErrorKind> {
        if self.timers.is_closed() {
            return Some(InsertErrorKind::Shutdown);
        }
        // Registered jobs that are out must find room when they come back.
        let jobs = self.timers.len() + self.registry.len();
        (count > self.max_jobs.saturating_sub(jobs)).then_some(InsertErrorKind::Full)
    }
}

#[inline]
fn key(handle: Handle) -> Key {
    Key { generation: handle.generation(), index: handle.index() }
}

/// The handles of the inserted jobs, and a tick for which the ticker has to wake.
type Arrived = (Vec<Handle>, Tick);

pub(crate) enum Arrival {
    OneShot {
        deadline: Tick,
        job: Job,
    },
    /// Registered under this handle.
    Rearmable {
        handle: Handle,
        target: Target,
        job: Job,
    },
}

impl Shard {
    /// Adds all of the jobs, each for the deadline at its index. Returns them if the shard is
    /// closed, or has no room for all of them.
    pub(crate) fn insert_batch<T, W: Work>(
        &self,
        deadlines: &[Tick],
        timers: Vec<(T, W)>,
    ) -> Result<Arrived, InsertError<Vec<(T, W)>>> {
        let mut handles = Vec::with_capacity(timers.len());
        let earliest = deadlines.iter().copied().min().unwrap_or(Tick::MAX);
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        for (&deadline, (_, work)) in deadlines.iter().zip(timers) {
            let job = Box::new(work).into_job();
            handles.push(self.handle(state.timers.insert(deadline, job)));
        }
        Ok((handles, earliest))
    }

    /// As [`Shard::insert_batch`], for jobs of both kinds.
    pub(crate) fn insert_arrivals(
        &self,
        arrivals: Vec<Arrival>,
        timebase: &Timebase,
    ) -> Result<Arrived, InsertError<Vec<Arrival>>> {
        let now = timebase.clock().now();
        let mut handles = Vec::with_capacity(arrivals.len());
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(arrivals.len()) {
            return Err(InsertError::new(kind, arrivals));
        }
        for arrival in arrivals {
            match arrival {
                Arrival::OneShot { deadline, job } => {
                    let key = state.timers.insert(deadline, job);
                    earliest = earliest.min(deadline);
                    handles.push(self.handle(key));
                }
                Arrival::Rearmable { handle, target, job } => {
                    let armed = state.arm(handle, target, 0, (timebase, now), job);
                    let tick = armed.expect("it is registered, and the shard is open");
                    earliest = earliest.min(tick);
                    handles.push(handle);
                }
            }
        }
        Ok((handles, earliest))
    }

    /// Takes out those of the chosen jobs that are pending. Sets their `answers` to true.
    pub(crate) fn cancel_batch(
        &self,
        handles: &[Handle],
        chosen: &[usize],
        answers: &mut [bool],
        jobs: &mut Vec<Job>,
    ) {
        let mut state = lock(&self.state);
        for chosen in chosen.chunks(PREFETCH_BATCH) {
            // The cache misses of many jobs overlap.
            state.timers.fetch_for_cancel(chosen.iter().map(|&which| key(handles[which])));
            for &which in chosen {
                if let Some(job) = state.timers.cancel_leaving(key(handles[which])) {
                    answers[which] = true;
                    jobs.push(job);
                }
            }
        }
        let surplus = state.timers.take_surplus();
        drop(state);
        drop(surplus);
    }

    /// Gives the chosen jobs the deadlines at their indices, if they are pending. Sets their
    /// `answers` to whether they were. Returns the earliest of the new deadlines.
    pub(crate) fn reset_batch<T>(
        &self,
        timers: &[(Handle, T)],
        deadlines: &[Tick],
        chosen: &[usize],
        answers: &mut [bool],
    ) -> Tick {
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        for &which in chosen {
            let (handle, deadline) = (timers[which].0, deadlines[which]);
            answers[which] = state.timers.reset(key(handle), deadline);
            if answers[which] {
                earliest = earliest.min(deadline);
            }
        }
        earliest
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::host::clock::{Clock, Point, Target};
    use crate::values::time::Scale;

    fn shard() -> Shard {
        Shard::new(0, Geometry::default(), Shard::MAX_JOBS)
    }

    fn timebase() -> Timebase {
        Timebase::new(Clock::manual(), Scale::new(Duration::from_millis(1)).unwrap())
    }

    fn insert(shard: &Shard, deadline: u64) -> Handle {
        shard.insert(Tick::new(deadline), Box::new(|| ())).unwrap()
    }

    /// A full shard refuses jobs, batches and registrations, until a job or a registration leaves.
    #[test]
    fn shard_that_is_full_refuses() {
        let shard = Shard::new(0, Geometry::default(), 3);
        insert(&shard, 5);
        let registered = shard.register().unwrap();
        let first = insert(&shard, 5);
        assert_eq!(shard.register(), Err(InsertErrorKind::Full));
        let refused = shard.insert(Tick::new(5), Box::new(|| ())).unwrap_err();
        assert_eq!(refused.kind(), InsertErrorKind::Full);
        let batch = vec![(Duration::ZERO, || ())];
        let refused = shard.insert_batch(&[Tick::new(5)], batch).unwrap_err();
        assert_eq!((refused.kind(), refused.into_inner().len()), (InsertErrorKind::Full, 1));
        assert!(shard.cancel(first).is_some());
        insert(&shard, 5);
        assert_eq!(shard.deregister(registered, &timebase()), Some(Tick::new(0)));
        assert!(shard.register().is_ok());
    }

    /// The joined wake of two shards notices a change of the wall clock from either reading.
    #[test]
    fn wall_readings_of_two_shards_are_both_kept() {
        let timebase = timebase();
        let (clock, hour) = (timebase.clock(), Duration::from_secs(3600));
        let begin = clock.wall();
        let shards = [0, 1].map(|number| {
            clock.set_wall(begin + hour * number);
            let shard = shard();
            let (handle, target) =
                (shard.register().unwrap(), Target::exact(Point::Wall(begin + hour * 9)));
            assert!(shard.arm(handle, target, 0, &timebase, Box::new(|| ())).is_ok());
            shard
        });
        // The clock reads as it did for one of the shards; the other has another reading.
        for (first, second) in [(0, 1), (1, 0)] {
            let wake = shards[first].next_wake().join(shards[second].next_wake());
            for shift in [0, 1] {
                clock.set_wall(begin + hour * shift);
                assert_eq!(wake.wall.unwrap().distance(clock.read_wall_closely()), hour);
            }
        }
    }

    /// A shard that is closed hands a job back with its deadline by the present wall clock, also if nothing has looked
    /// at that clock since it was set.
    #[test]
    fn shard_that_is_closed_follows_the_wall_clock_first() {
        for clock in [Clock::manual(), Clock::monotonic()] {
            let timebase = Timebase::new(clock, Scale::new(Duration::from_millis(1)).unwrap());
            let (clock, hour) = (timebase.clock(), Duration::from_secs(3600));
            let (shard, begin) = (shard(), clock.wall());
            let (handle, target) =
                (shard.register().unwrap(), Target::exact(Point::Wall(begin + hour * 9)));
            assert!(shard.arm(handle, target, 0, &timebase, Box::new(|| ())).is_ok());
            clock.set_wall(clock.wall() + hour);
            let jobs = shard.close(&timebase);
            let hours =
                jobs.iter().map(|(_, deadline, _)| (deadline.get() + 1_800_000) / 3_600_000);
            assert_eq!(hours.collect::<Vec<_>>(), [8], "manual: {}", clock.is_manual());
        }
    }
}
