//! Jobs that are found by a name of the user's.
//!
//! Ground rules:
//!
//! - A key leads to the handle of its job. The job carries a [`Ticket`], which shares the key with
//!   the map. Whatever becomes of the job, the ticket is dropped with it or before it starts, and
//!   takes the key off the map, if the key there is still the same one, and not one of a later job
//!   under an equal name. So nothing is left behind, in whatever order jobs are cancelled, fired
//!   and replaced.
//! - The map's lock is held while a job is inserted or moved, so map and wheel agree whenever it is
//!   free. `Eq` and `Hash` of the key run under it; jobs and keys are dropped outside.
//! - There are as many maps as the wheel has shards, so threads seldom meet.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::sync::Arc;

use crate::api::scheduler::Scheduler;
use crate::host::sync::{Mutex, lock};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Call, Job};
use crate::values::when::When;

/// Keys that an empty map keeps memory for.
const KEPT_KEYS: usize = 1024;

/// Jobs under names of your own: an event's id, a connection, the number of an order. A key has at
/// most one pending job.
///
/// A clone is another way to the same keys. Dropping it, even the last one, cancels nothing; and it
/// does not keep the wheel alive. When a job starts, its key is free already, so it may insert
/// itself anew under it. A key is as good as free when its job was handed to the pool, unless that
/// is for a wall-clock time, and so pending until it starts
/// ([`Wheel::is_pending`](crate::Wheel::is_pending)).
///
/// Keys are hashed by the standard library's hasher, or by one of your choice
/// ([`Keyed::with_hasher`]). `Eq` and `Hash` of a key run under a lock: they must not use the same
/// `Keyed`.
///
/// A verb for one key takes constant time: some look-ups in a hash map under a lock, and what the
/// same verb of a [`Wheel`](crate::Wheel) costs. A key takes an allocation of its own.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{InsertErrorKind, Keyed, Wheel};
/// let wheel = Wheel::new();
/// let orders = Keyed::new(wheel.scheduler());
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
pub struct Keyed<K, S = RandomState> {
    scheduler: Scheduler,
    keys: Arc<Keys<K, S>>,
}

/// What a key and its job are called in the map: the job is dropped without the map's lock.
type Map<K, S> = HashMap<Arc<K>, Handle, S>;

struct Keys<K, S> {
    hasher: S,
    maps: Box<[Mutex<Map<K, S>>]>,
}

impl<K> Keyed<K>
where
    K: Hash + Eq + Send + Sync + 'static,
{
    /// No keys yet, for jobs of the scheduler's wheel.
    #[must_use]
    pub fn new(scheduler: Scheduler) -> Keyed<K> {
        Keyed::with_hasher(scheduler, RandomState::new())
    }
}

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// As [`Keyed::new`], with another hasher.
    #[must_use]
    pub fn with_hasher(scheduler: Scheduler, hasher: S) -> Keyed<K, S> {
        let map = |_| Mutex::new(HashMap::with_hasher(hasher.clone()));
        let maps = (0..scheduler.engine().shards()).map(map).collect();
        Keyed { scheduler, keys: Arc::new(Keys { hasher, maps }) }
    }

    /// Runs `job` after a delay, at an instant or at a wall-clock time, as
    /// [`Wheel::insert_at`](crate::Wheel::insert_at) does. If the key has a pending job, that is
    /// replaced: it will never run, and comes back, unless it is with the pool and dropped there.
    ///
    /// Replacing also works on a full wheel: the new job takes the old one's room.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with key and job: the wheel is full, or gone. If it ends at the very moment
    /// between the two, the old job is dropped.
    pub fn insert<F>(
        &self,
        key: K,
        when: impl Into<When>,
        job: F,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.put(key, when.into(), job, |_| true)
    }

    /// As [`Keyed::insert`], if the key has no pending job.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`]; and [`InsertErrorKind::Occupied`] if the key has a pending job, which
    /// is left as it is.
    pub fn insert_if_absent<F>(
        &self,
        key: K,
        when: impl Into<When>,
        job: F,
    ) -> Result<(), InsertError<(K, F)>>
    where
        F: FnOnce() + Send + 'static,
    {
        let may_replace = |handle| !self.scheduler.is_pending(handle);
        self.put(key, when.into(), job, may_replace).map(drop)
    }

    /// Cancels the job of a key, as [`Wheel::cancel`](crate::Wheel::cancel) does.
    pub fn cancel(&self, key: &K) -> bool {
        let engine = self.scheduler.engine();
        let mut job = None;
        let mut map = lock(self.keys.map(key));
        let cancelled = map.get(key).is_some_and(|&handle| engine.remove(handle, &mut job));
        let removed = cancelled.then(|| remove(&mut map, key));
        drop(map);
        drop(removed);
        job.into_iter().for_each(|job| engine.discard(job));
        cancelled
    }

    /// Cancels the job of a key and gives it back.
    pub fn take(&self, key: &K) -> Option<Job> {
        let job;
        let removed;
        {
            let mut map = lock(self.keys.map(key));
            job = self.scheduler.take(*map.get(key)?)?;
            removed = remove(&mut map, key);
        }
        drop(removed);
        Some(job)
    }

    /// Gives the job of a key a new time, as [`Wheel::reset_at`](crate::Wheel::reset_at) does;
    /// whether it was still pending.
    pub fn reset(&self, key: &K, when: impl Into<When>) -> bool {
        let when = when.into();
        let map = lock(self.keys.map(key));
        map.get(key).is_some_and(|&handle| self.scheduler.reset_at(handle, when))
    }

    /// How long it is until the job of a key is due, as
    /// [`Wheel::remaining`](crate::Wheel::remaining); `None` when it has no pending job.
    #[must_use]
    pub fn remaining(&self, key: &K) -> Option<Duration> {
        let map = lock(self.keys.map(key));
        map.get(key).and_then(|&handle| self.scheduler.remaining(handle))
    }

    /// The handle of the job of a key, pending or about to start: also that under which
    /// [`Wheel::shutdown`](crate::Wheel::shutdown) hands the job back, as long as it is not
    /// dropped.
    #[must_use]
    pub fn handle(&self, key: &K) -> Option<Handle> {
        lock(self.keys.map(key)).get(key).copied()
    }

    /// Whether the key has a pending job.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.remaining(key).is_some()
    }

    /// Every key with a pending job, and how long that is to wait, in no order.
    ///
    /// This is a copy, made part by part: what other threads do meanwhile may be in it or not. Each
    /// part is locked while it is copied, and each job asked for what remains.
    pub fn iter(&self) -> impl Iterator<Item = (Arc<K>, Duration)> + use<K, S> {
        let mut all = Vec::new();
        for map in &self.keys.maps {
            let map = lock(map);
            let pending = |(key, &handle): (&Arc<K>, &Handle)| {
                Some((Arc::clone(key), self.scheduler.remaining(handle)?))
            };
            all.extend(map.iter().filter_map(pending));
        }
        all.into_iter()
    }

    /// How many keys have a job that has not started: pending, or with the pool, or handed back by
    /// [`Wheel::shutdown`](crate::Wheel::shutdown) and not dropped yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.maps.iter().map(|map| lock(map).len()).sum()
    }

    /// Whether no key has a job that has not started.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels every pending job that has a key here; how many these were.
    pub fn cancel_all(&self) -> usize {
        let engine = self.scheduler.engine();
        let mut cancelled = 0;
        for map in &self.keys.maps {
            let (mut removed, mut jobs) = (Vec::new(), Vec::new());
            for (key, handle) in lock(map).drain() {
                let mut job = None;
                cancelled += usize::from(engine.remove(handle, &mut job));
                jobs.extend(job);
                removed.push(key);
            }
            jobs.into_iter().for_each(|job| engine.discard(job));
        }
        cancelled
    }

    fn put<F>(
        &self,
        key: K,
        when: When,
        job: F,
        may_replace: impl FnOnce(Handle) -> bool,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: FnOnce() + Send + 'static,
    {
        let engine = self.scheduler.engine();
        // What may be dropped here has to outlive the lock, also should a key's `Eq` panic.
        let (result, shared, removed);
        let mut replaced = None;
        {
            let map_index = self.keys.map_index(&key);
            let mut map = lock(&self.keys.maps[map_index]);
            let present = map.get(&key).copied();
            if present.is_some_and(|handle| !may_replace(handle)) {
                drop(map);
                return Err(InsertError::new(InsertErrorKind::Occupied, (key, job)));
            }
            shared = Arc::new(key);
            let key = Arc::clone(&shared);
            let ticket = Ticket { keys: Arc::clone(&self.keys), map_index, key };
            let named = Named { ticket, job };
            result = match present {
                Some(handle) => engine.replace(handle, when, named, &mut replaced),
                None => engine.insert_when(when, named),
            };
            removed = result.as_ref().ok().and_then(|&handle| {
                // With the entry goes its key, which is not the one that the new job shares.
                let removed = present.and_then(|_| map.remove_entry(&*shared));
                map.insert(Arc::clone(&shared), handle);
                removed
            });
        }
        drop(removed);
        match result {
            Ok(_) => Ok(replaced),
            Err(refused) => {
                // Its wheel ended while it was replaced.
                replaced.into_iter().for_each(|job| engine.discard(job));
                let job = |named: Named<K, S, F>| named.job;
                Err(refused.map(job).map(|job| {
                    let key =
                        Arc::into_inner(shared).expect("the ticket is gone, and no map has it");
                    (key, job)
                }))
            }
        }
    }
}

impl<K: Hash + Eq, S: BuildHasher> Keys<K, S> {
    fn map(&self, key: &K) -> &Mutex<Map<K, S>> {
        &self.maps[self.map_index(key)]
    }

    /// Which of the maps a key is in.
    fn map_index(&self, key: &K) -> usize {
        // The map takes the bits of the hash as they are. What chooses the map should not depend on
        // the same bits, and not on the top ones alone: a hasher may leave small numbers small.
        let mixed = self.hasher.hash_one(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize % self.maps.len()
    }
}

impl<K, S> Clone for Keyed<K, S> {
    fn clone(&self) -> Keyed<K, S> {
        Keyed { scheduler: self.scheduler.clone(), keys: Arc::clone(&self.keys) }
    }
}

impl<K, S> fmt::Debug for Keyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len: usize = self.keys.maps.iter().map(|map| lock(map).len()).sum();
        f.debug_struct("Keyed").field("len", &len).finish_non_exhaustive()
    }
}

/// Takes a key off a map, and gives up the memory of many once it is empty.
fn remove<K: Hash + Eq, S: BuildHasher>(map: &mut Map<K, S>, key: &K) -> Option<(Arc<K>, Handle)> {
    let removed = map.remove_entry(key);
    if map.is_empty() && map.capacity() > KEPT_KEYS {
        map.shrink_to_fit();
    }
    removed
}

/// Stands for the key in the job.
struct Ticket<K: Hash + Eq, S: BuildHasher> {
    keys: Arc<Keys<K, S>>,
    /// Which of the maps.
    map_index: usize,
    key: Arc<K>,
}

impl<K: Hash + Eq, S: BuildHasher> Drop for Ticket<K, S> {
    fn drop(&mut self) {
        let mut map = lock(&self.keys.maps[self.map_index]);
        let is_there = map.get_key_value(&*self.key);
        let is_own = is_there.is_some_and(|(key, _)| Arc::ptr_eq(key, &self.key));
        let removed = is_own.then(|| remove(&mut map, &self.key));
        drop(map);
        drop(removed);
    }
}

/// A job, and its key's ticket.
struct Named<K: Hash + Eq, S: BuildHasher, F> {
    ticket: Ticket<K, S>,
    job: F,
}

impl<K, S, F> Call for Named<K, S, F>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
    F: FnOnce() + Send,
{
    fn call(self) {
        // The key is free before the job runs.
        drop(self.ticket);
        (self.job)();
    }
}
