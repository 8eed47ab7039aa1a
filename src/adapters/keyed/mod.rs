//! Keyed jobs: each is found by a key of the user's.
//!
//! Ground rules:
//!
//! - `map.rs` leads from a key to the handle of its job, and takes the key off when the job ends. `insert.rs` puts a
//!   job under its key.
//! - The lock of a key's map is held while the job is inserted, moved or taken out, so map and wheel agree whenever the
//!   lock is free.
//! - A key is hashed before the lock is taken. `Eq` runs under the lock, in the search that begins each verb, before
//!   anything has changed; no other user code runs under the lock. Jobs and keys are dropped outside of it, behind the engine's unwind boundary.
//! - There are as many maps as the wheel has shards, so threads seldom wait for each other. The verbs for all keys at
//!   once lock one map after the other, so a change that another thread makes meanwhile may be seen or not.

mod insert;
mod map;
mod ticket;

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::sync::Arc;

use ticket::Stripe;

use crate::api::scheduler::Scheduler;
use crate::engine::verbs::Engine;
use crate::host::sync::{lock, postpone_hooks};
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{Job, Task};
use crate::values::time::When;

/// Jobs under keys of your own: an event's id, a connection, the number of an order. A key has at
/// most one pending job.
///
/// Clones share the same keys. Dropping a `Keyed`, even the last clone, cancels nothing. A `Keyed`
/// does not keep the wheel alive.
///
/// When a job starts, its key is already free, so the job may insert its next run under it. (If it
/// panics before that, the key stays free and no run follows. A job that must go on after a panic is
/// a [`Keyed::repeat`] with [`Repeat::after_panic`](crate::Repeat::after_panic); it keeps its key
/// until its last run has ended.)
///
/// # A job that is with the pool
///
/// A key counts as free from the moment at which its job is handed to the pool. While every thread
/// of the pool is busy, such a job waits, and a new job may come under its key: then both run. Only
/// a job that repeats or waits for a wall-clock time is pending until it starts
/// ([`Wheel::is_pending`](crate::Wheel::is_pending)), and is replaced until then. If
/// [`Builder::max_in_flight`](crate::Builder::max_in_flight) is the number of threads, every job is.
///
/// A job that has started cannot be stopped. So a job that acts on the value of its key should check
/// that the value is still the same: give each value a number, and let the job compare it.
///
/// ```
/// # use std::{collections::HashMap, sync::{Arc, Mutex}, time::Duration};
/// # use tickwheel::{Keyed, Wheel};
/// # let (wheel, driver) = Wheel::builder().manual()?;
/// # let (timers, ttl) = (Keyed::new(&wheel), Duration::from_secs(60));
/// let cache: Arc<Mutex<HashMap<&str, (u64, &str)>>> = Arc::default();
/// let put = |key, version, value| {
///     cache.lock().unwrap().insert(key, (version, value));
///     let cache = Arc::clone(&cache);
///     timers.insert(key, ttl, move || {
///         let mut cache = cache.lock().unwrap();
///         // Not a newer value, which came while this job waited for a thread.
///         if cache.get(key).is_some_and(|&(present, _)| present == version) {
///             cache.remove(key);
///         }
///     })
/// };
/// put("user 7", 1, "Ann")?;
/// put("user 7", 2, "Anna")?;
/// # driver.advance(ttl);
/// # assert!(cache.lock().unwrap().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Keys and their cost
///
/// Keys are hashed by the standard library's hasher, or by one of your choice
/// ([`Keyed::with_hasher`]). The `Eq` of a key runs under a lock: it must not use the same `Keyed`.
/// A job that starts, or is dropped, calls neither the `Hash` nor the `Eq` of its key.
///
/// A verb for one key takes constant time: some look-ups in a hash map under a lock, and the time of
/// the same verb of a [`Wheel`](crate::Wheel). A key takes an allocation of its own. The maps free the
/// memory of a burst, but for room for two thousand keys in each shard: now and then the removal of a
/// key moves the remaining keys into a smaller table, which is constant time for each removed key.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{InsertErrorKind, Keyed, Wheel};
/// let wheel = Wheel::new();
/// let orders = Keyed::new(&wheel);
/// let hours = Duration::from_secs(3600);
/// orders.insert(1001, 72 * hours, || println!("order 1001 closed, unpaid"))?;
/// let twice = orders.insert_if_absent(1001, 72 * hours, || println!("not again"));
/// assert_eq!(twice.unwrap_err().kind(), InsertErrorKind::Occupied);
/// assert!(orders.reset(&1001, 24 * hours));
/// assert!(orders.remaining(&1001) <= Some(25 * hours));
/// assert!(orders.cancel(&1001)); // paid
/// assert!(orders.is_empty() && wheel.is_empty());
/// # Ok::<(), tickwheel::InsertError<_>>(())
/// ```
///
/// # Panics
///
/// A panic in the `Hash` or the `Eq` of a key unwinds out of the verb that was called with a key,
/// and the verb has changed nothing; in a batch, the keys before that one are done. A panic in the
/// drop of a key that a job had is counted and reported as a job's panic is, and does not prevent
/// the run of any job.
pub struct Keyed<K, S = RandomState> {
    keys: Arc<Keys<K, S>>,
}

struct Keys<K, S> {
    scheduler: Scheduler,
    hasher: S,
    stripes: Box<[Stripe<K>]>,
}

impl<K> Keyed<K>
where
    K: Hash + Eq + Send + Sync + 'static,
{
    /// Returns a `Keyed` without keys, for jobs of this wheel.
    #[must_use]
    pub fn new(wheel: impl Into<Scheduler>) -> Keyed<K> {
        Keyed::with_hasher(wheel, RandomState::new())
    }
}

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// As [`Keyed::new`], with another hasher.
    #[must_use]
    pub fn with_hasher(wheel: impl Into<Scheduler>, hasher: S) -> Keyed<K, S> {
        let scheduler = wheel.into();
        let stripes = (0..scheduler.engine().shards()).map(|_| Stripe::new()).collect();
        Keyed { keys: Arc::new(Keys { scheduler, hasher, stripes }) }
    }

    /// Returns the scheduler of the wheel: for jobs without a key, and to read the clock.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.keys.scheduler
    }

    /// Runs `job` after a delay, at an instant or at a wall-clock time, as
    /// [`Wheel::insert`](crate::Wheel::insert) does. If the key has a pending job, that is
    /// replaced: it will never run. It is returned, unless it is with the pool and dropped there.
    /// A [`Job`] that repeats goes on repeating under its new key.
    ///
    /// `Ok(None)` may also mean that the key's job was handed to the pool, and runs or will run: see
    /// *A job that is with the pool* above.
    ///
    /// Replacing also works on a full wheel: the new job takes the old one's room.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with key and job: the wheel is full, or gone. If the wheel ends just after
    /// the old job was taken out, the old job is dropped.
    #[doc(alias("timeout", "schedule", "ttl", "debounce"))]
    pub fn insert<F>(
        &self,
        key: K,
        when: impl Into<When>,
        job: F,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: Task + Send + 'static,
    {
        self.put(key, when.into(), job, |_| true)
    }

    /// As [`Keyed::insert`], if the key has no pending job.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`]; and [`InsertErrorKind::Occupied`](crate::InsertErrorKind::Occupied) if
    /// the key has a pending job, which is left as it is.
    #[doc(alias("throttle"))]
    pub fn insert_if_absent<F>(
        &self,
        key: K,
        when: impl Into<When>,
        job: F,
    ) -> Result<(), InsertError<(K, F)>>
    where
        F: Task + Send + 'static,
    {
        let may_replace = |handle| !self.engine().is_pending(handle);
        self.put(key, when.into(), job, may_replace).map(drop)
    }

    /// Cancels the job of a key, as [`Wheel::cancel`](crate::Wheel::cancel) does. Returns `false`
    /// if the key has no pending job.
    pub fn cancel<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let mut job = None;
        let remove = |handle| self.engine().remove(handle, &mut job).then_some(handle);
        let Some(handle) = self.remove(key, remove) else { return false };
        job.into_iter().for_each(|job| self.engine().discard(job, handle));
        true
    }

    /// Cancels the job of a key and gives it back, as [`Wheel::take`](crate::Wheel::take) does.
    /// Returns `None` if the key has no job in the wheel: a repeating job that is with the pool stays.
    pub fn take<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Job>
    where
        K: Borrow<Q>,
    {
        self.remove(key, |handle| self.engine().take(handle))
    }

    /// Gives the job of a key a new time, as [`Wheel::reset`](crate::Wheel::reset) does.
    /// Returns `false` if the key has no pending job.
    #[doc(alias("reschedule", "extend", "touch", "pause", "refresh"))]
    pub fn reset<Q: Hash + Eq + ?Sized>(&self, key: &Q, when: impl Into<When>) -> bool
    where
        K: Borrow<Q>,
    {
        let when = when.into();
        let reset = |handle| self.engine().reset(handle, when).then_some(());
        self.ask(key, reset).is_some()
    }

    /// Returns the time until the job of a key is due, as
    /// [`Wheel::remaining`](crate::Wheel::remaining) does; `None` if the key has no pending job.
    #[must_use]
    pub fn remaining<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
    {
        self.ask(key, |handle| self.engine().remaining(handle))
    }

    /// Returns the handle of the job of a key, if the job is pending or about to start.
    /// [`Wheel::shutdown`](crate::Wheel::shutdown) hands the job back under the same handle. Until that job is
    /// dropped, this still returns the handle.
    #[must_use]
    pub fn handle<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Handle>
    where
        K: Borrow<Q>,
    {
        self.ask(key, Some)
    }

    /// Returns `true` if the key has a pending job.
    #[must_use]
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.remaining(key).is_some()
    }

    /// Returns every key with a pending job, and the time until that is due, in no order.
    ///
    /// The iterator owns a copy, made stripe by stripe: a change that another thread makes
    /// meanwhile may be in it or not. Each stripe is locked while it is copied, and each of its jobs
    /// is looked up in the wheel.
    pub fn iter(&self) -> impl Iterator<Item = (Arc<K>, Duration)> + use<K, S> {
        let mut all = Vec::new();
        for stripe in &self.keys.stripes {
            let map = lock(&stripe.map);
            all.extend(map.iter().filter_map(|entry| {
                Some((Arc::clone(&entry.key), self.engine().remaining(entry.handle)?))
            }));
        }
        all.into_iter()
    }

    /// Returns the number of keys whose job has not started: it is pending, or with the pool, or
    /// handed back by [`Wheel::shutdown`](crate::Wheel::shutdown) and not dropped yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether [`Keyed::len`] is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels every pending job that has a key here. Returns the number of jobs that it cancelled.
    ///
    /// Each map in turn is locked until all of its jobs are out of the wheel: other verbs on its
    /// keys wait meanwhile. The jobs and their keys are dropped after that, without a lock. If one
    /// panics then, the others are still dropped.
    pub fn cancel_all(&self) -> usize {
        let mut cancelled = 0;
        for stripe in &self.keys.stripes {
            let (mut keys, mut jobs) = (Vec::new(), Vec::new());
            {
                let mut map = lock(&stripe.map);
                for entry in map.take_all() {
                    let mut job = None;
                    cancelled += usize::from(self.engine().remove(entry.handle, &mut job));
                    jobs.extend(job.map(|job| (job, entry.handle)));
                    keys.push(entry.key);
                }
            }
            keys.into_iter().for_each(|key| self.keys.discard(key));
            jobs.into_iter().for_each(|(job, handle)| self.engine().discard(job, handle));
        }
        cancelled
    }

    /// Takes the job of a key out of the wheel by `remove`, and then the key off its map.
    fn remove<Q, T>(&self, key: &Q, remove: impl FnOnce(Handle) -> Option<T>) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.keys.hasher.hash_one(key);
        let (answer, removed);
        {
            let mut map = lock(&self.keys.stripe(hash).map);
            let (spot, handle) = map.find(hash, key)?;
            answer = remove(handle)?;
            removed = map.remove(spot);
        }
        self.keys.discard(removed);
        Some(answer)
    }

    /// Calls `ask` with the handle of a key's job, under the map's lock: the key gets no other job
    /// meanwhile.
    fn ask<Q, T>(&self, key: &Q, ask: impl FnOnce(Handle) -> Option<T>) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.keys.hasher.hash_one(key);
        // Dropped after the lock, because it is declared before.
        let _wakes = postpone_hooks();
        let map = lock(&self.keys.stripe(hash).map);
        let (_, handle) = map.find(hash, key)?;
        ask(handle)
    }

    fn engine(&self) -> &Arc<Engine> {
        self.keys.scheduler.engine()
    }
}

impl<K, S> Keys<K, S> {
    fn stripe(&self, hash: u64) -> &Stripe<K> {
        // The map spreads the hash over its table in a way of its own. The choice of the stripe
        // should not depend on the same bits.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.stripes[mixed as usize % self.stripes.len()]
    }

    fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(&stripe.map).len()).sum()
    }

    /// Drops keys. A panic in their drop is counted and reported.
    fn discard<T>(&self, keys: T) {
        self.scheduler.engine().runner().boundary().discard(keys);
    }
}

impl<K, S> Clone for Keyed<K, S> {
    fn clone(&self) -> Keyed<K, S> {
        Keyed { keys: Arc::clone(&self.keys) }
    }
}

impl<K, S> fmt::Debug for Keyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("len", &self.keys.len()).finish_non_exhaustive()
    }
}
