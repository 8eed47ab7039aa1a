//! The wheel behind its handles: shards, clock, alarm and books, and every verb once.
//!
//! [`Wheel`](crate::Wheel) and [`Scheduler`](crate::Scheduler) are two doors to one engine; the
//! ticker and the [`Driver`](crate::Driver) are the two things that turn it. An engine has no
//! thread and no pool, so whoever keeps it alive keeps nothing but memory.
//!
//! Ground rules:
//!
//! - The clock is read before anything else: what an insert then waits for counts for the delay.
//! - Nothing that is inserted now is due now: on a manual clock, which stands while jobs run, a job
//!   that inserts itself anew without a delay would never let time pass.
//! - A bounded engine counts a job before it is in a shard and until it has left: the bound is never
//!   exceeded, not even for a moment.
//! - Whatever is the user's is called and dropped outside the locks and behind the fence.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::dispatch::{Due, Ledger};
use crate::error::{InsertError, InsertErrorKind};
use crate::handle::Handle;
use crate::hierarchy::{Geometry, Location};
use crate::job::{Fence, Job};
use crate::shard::{Planned, Shard};
use crate::stats::Stats;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::time::{Moment, Scale, Span, Tick};

/// What an engine is made of; checked by the builder.
pub(crate) struct Config {
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) shards: usize,
    pub(crate) max_pending: Option<usize>,
    pub(crate) fence: Fence,
}

pub(crate) struct Engine {
    scale: Scale,
    clock: Arc<Clock>,
    shards: Box<[Shard]>,
    alarm: Alarm,
    ledger: Arc<Ledger>,
    bound: Option<Bound>,
    behind: AtomicU64,
    stopped: AtomicBool,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Engine {
        let shards = (0..config.shards).map(|_| Shard::new(config.geometry.clone())).collect();
        Engine {
            scale: config.scale,
            clock: Arc::new(config.clock),
            shards,
            alarm: Alarm::new(),
            ledger: Arc::new(Ledger::new(config.fence)),
            bound: config.max_pending.map(Bound::new),
            behind: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    // What the doors offer.

    #[inline]
    pub(crate) fn insert<F>(&self, delay: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let moment = self.clock.now().plus(delay);
        self.insert_at_moment(moment, job)
    }

    pub(crate) fn insert_at<F>(&self, at: Instant, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.insert_at_moment(self.clock.moment(at), job)
    }

    #[inline]
    fn insert_at_moment<F>(&self, moment: Moment, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        if self.bound.as_ref().is_some_and(|bound| !bound.take()) {
            // Of a wheel that is both, say what will not change.
            let kind = match self.stopped.load(Ordering::SeqCst) {
                true => InsertErrorKind::Shutdown,
                false => InsertErrorKind::Full,
            };
            return Err(InsertError::new(kind, job));
        }
        let deadline = self.deadline(moment);
        let shard = lane() % self.shards.len() as u32;
        match self.shards[shard as usize].insert(deadline, Box::new(job)) {
            Ok(Planned { done: key, earliest }) => {
                if earliest {
                    self.alarm.earlier(deadline);
                }
                Ok(Handle::new(shard, key))
            }
            Err(job) => {
                self.release(1);
                Err(InsertError::new(InsertErrorKind::Shutdown, *job))
            }
        }
    }

    #[inline]
    pub(crate) fn cancel(&self, handle: Handle) -> bool {
        match self.take(handle) {
            Some(job) => {
                self.discard(job);
                true
            }
            None => false,
        }
    }

    #[inline]
    pub(crate) fn take(&self, handle: Handle) -> Option<Job> {
        let job = self.shard_of(handle)?.cancel(handle.key())?;
        self.release(1);
        Some(job)
    }

    #[inline]
    pub(crate) fn reset(&self, handle: Handle, delay: Duration) -> bool {
        let moment = self.clock.now().plus(delay);
        self.reset_at_moment(handle, moment)
    }

    pub(crate) fn reset_at(&self, handle: Handle, at: Instant) -> bool {
        self.reset_at_moment(handle, self.clock.moment(at))
    }

    #[inline]
    fn reset_at_moment(&self, handle: Handle, moment: Moment) -> bool {
        let Some(shard) = self.shard_of(handle) else { return false };
        let deadline = self.deadline(moment);
        let Planned { done, earliest } = shard.reset(handle.key(), deadline);
        if earliest {
            self.alarm.earlier(deadline);
        }
        done
    }

    pub(crate) fn is_pending(&self, handle: Handle) -> bool {
        self.deadline_of(handle).is_some()
    }

    pub(crate) fn remaining(&self, handle: Handle) -> Option<Duration> {
        Some(self.until(self.deadline_of(handle)?))
    }

    pub(crate) fn location(&self, handle: Handle) -> Option<Location> {
        self.shard_of(handle)?.location(handle.key())
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.tally().pending).sum()
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // First, so that no job has ended that had not left its shard when we looked there.
        let ended = self.ledger.ended();
        for tally in self.shards.iter().map(Shard::tally) {
            stats.pending += tally.pending;
            stats.inserted += tally.inserted;
            stats.cancelled += tally.cancelled;
            stats.fired += tally.fired;
        }
        // Not what the ledger has in flight: a job that is out of its shard and not handed over yet
        // would be nowhere, and a wheel that looks idle would not be.
        stats.in_flight = (stats.fired - ended) as usize;
        stats.ticks_behind = Span::new(self.behind.load(Ordering::Relaxed));
        self.ledger.report(&mut stats);
        stats
    }

    // What those need that turn the wheel.

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The tick that the clock is at.
    pub(crate) fn present(&self) -> Tick {
        self.scale.present(self.clock.now())
    }

    /// How long it is until `tick` begins; [`Duration::MAX`] until never.
    pub(crate) fn until(&self, tick: Tick) -> Duration {
        match tick {
            Tick::MAX => Duration::MAX,
            tick => self.scale.begin(tick).since(self.clock.now()),
        }
    }

    /// A tick before which nothing is due.
    pub(crate) fn expected(&self) -> Tick {
        self.shards.iter().map(Shard::expected).min().unwrap_or(Tick::MAX)
    }

    /// Turns one shard to `to`, looking at no more than `limit` entries, and appends what is due;
    /// whether that is all of it. Nothing before `to` may be due: it is when what comes now was due.
    pub(crate) fn turn(&self, shard: usize, to: Tick, limit: usize, due: &mut Vec<Due>) -> bool {
        let mut jobs = Vec::new();
        let turned = self.shards[shard].turn(to, limit, &mut jobs);
        self.release(turned.fired);
        let when = self.scale.begin(to);
        let shard = shard as u32;
        due.extend(jobs.into_iter().map(|(key, job)| {
            let job = ManuallyDrop::into_inner(job);
            Due { job, shard, key, due: when }
        }));
        turned.finished
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Notes how far behind the clock whoever turns the wheel was when it found work.
    pub(crate) fn set_behind(&self, behind: Span) {
        self.behind.store(behind.get(), Ordering::Relaxed);
    }

    // The end.

    /// Whether the engine is to stop, or has.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Refuses every insert from here on, tells the ticker to end, and takes out what is pending.
    pub(crate) fn stop(&self) -> Vec<(Handle, Tick, Job)> {
        self.stopped.store(true, Ordering::SeqCst);
        self.alarm.parker().wake();
        let mut pending = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let with_handle =
                |(key, deadline, job)| (Handle::new(number as u32, key), deadline, job);
            pending.extend(shard.close().into_iter().map(with_handle));
        }
        self.release(pending.len());
        pending
    }

    /// Drops a job that will not run.
    pub(crate) fn discard(&self, job: Job) {
        self.ledger.fence().discard(job);
    }

    #[inline]
    fn deadline(&self, moment: Moment) -> Tick {
        let deadline = self.scale.deadline(moment);
        match self.clock.is_manual() {
            true => deadline.max(self.present() + Span::new(1)),
            // Time passes by itself; the structure sees to the rest.
            false => deadline,
        }
    }

    fn shard_of(&self, handle: Handle) -> Option<&Shard> {
        self.shards.get(handle.shard() as usize)
    }

    fn deadline_of(&self, handle: Handle) -> Option<Tick> {
        self.shard_of(handle)?.deadline(handle.key())
    }

    fn release(&self, jobs: usize) {
        if let Some(bound) = &self.bound {
            bound.give_back(jobs);
        }
    }
}

/// How many more jobs may be pending.
struct Bound {
    room: AtomicUsize,
}

impl Bound {
    fn new(max: usize) -> Bound {
        Bound { room: AtomicUsize::new(max) }
    }

    fn take(&self) -> bool {
        let less = |room: usize| room.checked_sub(1);
        self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn give_back(&self, jobs: usize) {
        self.room.fetch_add(jobs, Ordering::SeqCst);
    }
}

/// A number for each thread, in the order of their first inserts: neighbours use different shards.
fn lane() -> u32 {
    // The numbers need to differ, they order nothing: not worth a model checker's time.
    static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    thread_local! {
        static LANE: Cell<Option<u32>> = const { Cell::new(None) };
    }
    LANE.with(|lane| {
        lane.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            lane.set(Some(number));
            number
        })
    })
}
