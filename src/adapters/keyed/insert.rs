//! Inserts jobs under keys: one, many at once, or a repeating one.
//!
//! An insert has three steps: look and decide; replace or insert; swap the entry. Ground rules:
//!
//! - The lock of the key's map is held from the first step to the last.
//! - Whether the function returns or unwinds, it drops in this order:
//!   1. `map`, which is the lock;
//!   2. `removed`, the key that left the map;
//!   3. `result`; if the wheel refused the job, that is the job and its ticket, and all but the ticket goes back to the
//!      caller;
//!   4. `own`, the new key, if it does not go back;
//!   5. `replaced`, the old job, if it does not go back; with its ticket goes the old key.
//! - So no key and no job is dropped under the lock, with one exception: if the engine's insert unwinds, it drops the
//!   new job there.
//! - The waker of a loop that drives the wheel is user code too. It is called after the lock is released.
//! - A batch takes a lock for each key, so it is no cheaper than a loop. It adds one moment from which all delays
//!   count, and room for all of the jobs or for none.

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::sync::Arc;

use super::Keyed;
use super::ticket::{KeyedJob, Ticket};
use crate::engine::shard::Inserted;
use crate::engine::verbs::IgnoresRun;
use crate::host::sync::{lock, postpone_hooks};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Call, CallAgain, Disarmed, Job, Task, disarmed, is_job};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::time::When;

type Timers<K, W, F> = Vec<(K, W, F)>;

/// The replaced job of each key, or the timers.
type ReplacedAll<K, W, F> = Result<Vec<Option<Job>>, InsertError<Timers<K, W, F>>>;

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Inserts a job under a key, if the key has none, or one that `may_replace` agrees to replace. A
    /// [`Job`] that was taken out of a wheel goes on as it was, once or repeating.
    pub(super) fn put<C: Call>(
        &self,
        key: K,
        when: When,
        job: C,
        may_replace: impl FnOnce(Handle) -> bool,
    ) -> Result<Option<Job>, InsertError<(K, C)>> {
        if !is_job::<C>() {
            return self.put_once(key, when, job, may_replace);
        }
        let put = match disarmed(job) {
            Disarmed::OneShot(job) => self.put_once(key, when, job, may_replace),
            Disarmed::Repeating { handle, repeat, job } => {
                let put = self.put_repeating(key, repeat.starting(when), job, may_replace);
                let back = |job| self.engine().repeating(handle, repeat, job);
                put.map_err(|refused| refused.map(|(key, job)| (key, back(job))))
            }
        };
        put.map_err(|refused| refused.map(|(key, job)| (key, job.into_call())))
    }

    fn put_once<C: Call>(
        &self,
        key: K,
        when: When,
        job: C,
        may_replace: impl FnOnce(Handle) -> bool,
    ) -> Result<Option<Job>, InsertError<(K, C)>> {
        let engine = self.engine();
        self.put_by(key, job, may_replace, |keyed_job, present, replaced| {
            engine.insert_in_place_of(present, when, keyed_job, replaced)
        })
    }

    /// The three steps. `insert` puts the job into the wheel. If it receives a handle, it replaces
    /// the job with that handle, and moves that job to `replaced`.
    pub(super) fn put_by<F>(
        &self,
        key: K,
        job: F,
        may_replace: impl FnOnce(Handle) -> bool,
        insert: impl FnOnce(
            KeyedJob<K, S, F>,
            Option<Handle>,
            &mut Option<Job>,
        ) -> Inserted<KeyedJob<K, S, F>>,
    ) -> Result<Option<Job>, InsertError<(K, F)>> {
        let keys = &self.keys;
        let hash = keys.hasher.hash_one(&key);
        let stripe = keys.stripe(hash);
        let mut replaced = None;
        let (own, result, removed, present);
        let wakes = postpone_hooks();
        {
            let mut map = lock(&stripe.map);
            // Look and decide.
            let (spot, handle) = map.find(hash, &key).unzip();
            present = handle;
            if handle.is_some_and(|handle| !may_replace(handle)) {
                self.engine().note_refused(1);
                return Err(InsertError::new(InsertErrorKind::Occupied, (key, job)));
            }
            // Replace or insert.
            own = Arc::new(key);
            let keyed_job = KeyedJob { attachment: Ticket::new(keys, hash, &own), job };
            result = insert(keyed_job, handle, &mut replaced);
            // Swap the entry.
            removed = match result {
                Ok(handle) => stripe.swap_entry(&mut map, spot, (hash, &own, handle)),
                Err(_) => None,
            };
        }
        drop(wakes);
        keys.discard(removed);
        match result {
            Ok(_) => {
                keys.discard(own);
                Ok(replaced)
            }
            Err(refused) => {
                let refused = refused.map(|keyed_job| keyed_job.job);
                let key = Arc::into_inner(own).expect("the ticket is gone, and no map has the key");
                if let (Some(job), Some(handle)) = (replaced, present) {
                    self.engine().discard(job, handle);
                }
                Err(refused.map(|job| (key, job)))
            }
        }
    }

    /// Inserts many jobs at once, each under its key, as [`Keyed::insert`] does. Returns the
    /// replaced jobs, in the order of the keys. The iterator is run to its end first; all delays
    /// count from the moment after that.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the whole batch: a bounded wheel has no room for all of it (jobs that
    /// replace others need room too), or the wheel is gone. If the wheel ends during the call, the
    /// error has the jobs that were not inserted, and the jobs that the others replaced are dropped.
    ///
    /// (A [`Job`] that repeats runs once here.)
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Keyed, Wheel};
    /// let wheel = Wheel::new();
    /// let pushes = Keyed::new(&wheel);
    /// let day = Duration::from_secs(24 * 3600);
    /// let replaced = pushes.insert_batch(
    ///     (0..10_000).map(|user| (user, day, move || println!("good morning, user {user}"))),
    /// )?;
    /// assert!(replaced.iter().all(Option::is_none));
    /// assert_eq!(pushes.cancel_batch(&[3, 4, 10_000]), [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_batch<W, F>(
        &self,
        timers: impl IntoIterator<Item = (K, W, F)>,
    ) -> ReplacedAll<K, W, F>
    where
        W: Into<When> + Copy,
        F: Task + Send + 'static,
    {
        let engine = self.engine();
        let timers: Timers<K, W, F> = timers.into_iter().collect();
        // The conversion may be user code, so it runs before room is reserved.
        let whens: Vec<When> = timers.iter().map(|&(_, when, _)| when.into()).collect();
        let mut admitted = match engine.admit_batch(timers.len()) {
            Ok(admitted) => admitted,
            Err(kind) => return Err(InsertError::new(kind, timers)),
        };
        let mut all_replaced = Vec::with_capacity(timers.len());
        let mut timers = timers.into_iter().zip(whens);
        while let Some(((key, time, job), when)) = timers.next() {
            let put = self.put_by(
                key,
                engine.unwrapped(job),
                |_| true,
                |keyed_job, present, replaced| {
                    engine.insert_of_batch(&mut admitted, when, keyed_job, present, replaced)
                },
            );
            match put {
                Ok(replaced) => all_replaced.push(replaced),
                Err(refused) => {
                    all_replaced.into_iter().for_each(|job| self.keys.discard(job));
                    let rest = timers.map(|(timer, _)| timer);
                    let all = |(key, job)| core::iter::once((key, time, job)).chain(rest);
                    return Err(refused.map(|refused| all(refused).collect()));
                }
            }
        }
        Ok(all_replaced)
    }

    /// Cancels the jobs of many keys. Returns the result of [`Keyed::cancel`] for each, in the order
    /// of the keys.
    pub fn cancel_batch<'a, Q>(&self, keys: impl IntoIterator<Item = &'a Q>) -> Vec<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'a,
    {
        keys.into_iter().map(|key| self.cancel(key)).collect()
    }

    /// Gives the jobs of many keys new times; each delay counts from its own reset. Returns the
    /// result of [`Keyed::reset`] for each, in the order of the keys.
    pub fn reset_batch<'a, Q, W>(&self, timers: impl IntoIterator<Item = (&'a Q, W)>) -> Vec<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'a,
        W: Into<When>,
    {
        timers.into_iter().map(|(key, when)| self.reset(key, when)).collect()
    }

    /// Runs `job` once every `period` under a key, as [`Wheel::every`](crate::Wheel::every) does. If
    /// the key has a pending job, that is replaced as by [`Keyed::insert`].
    ///
    /// # Errors
    ///
    /// [`InsertError`] with key and job: the period is zero, or the wheel is full, or gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Keyed, Wheel};
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let second = Duration::from_secs(1);
    /// let pings = Keyed::new(&wheel);
    /// pings.every("10.0.0.7".to_owned(), second, || println!("ping"))?;
    /// assert_eq!(driver.advance(10 * second), 10);
    /// assert!(pings.cancel("10.0.0.7"));
    /// assert_eq!(driver.advance(10 * second), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("interval", "set_interval", "periodic"))]
    pub fn every<F>(
        &self,
        key: K,
        period: Duration,
        job: F,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: FnMut() + Send + 'static,
    {
        self.put_repeating(key, Repeat::every(period), IgnoresRun(job), |_| true)
            .map_err(|refused| refused.map(|(key, job)| (key, job.0)))
    }

    /// Runs `job` again and again under a key, as [`Wheel::repeat`](crate::Wheel::repeat) does. If
    /// the key has a pending job, that is replaced as by [`Keyed::insert`].
    ///
    /// # Errors
    ///
    /// As [`Keyed::every`].
    #[doc(alias("retry", "backoff", "cron"))]
    pub fn repeat<F>(
        &self,
        key: K,
        repeat: Repeat,
        job: F,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: FnMut(Run) -> Next + Send + 'static,
    {
        self.put_repeating(key, repeat, job, |_| true)
    }

    fn put_repeating<C: CallAgain>(
        &self,
        key: K,
        repeat: Repeat,
        job: C,
        may_replace: impl FnOnce(Handle) -> bool,
    ) -> Result<Option<Job>, InsertError<(K, C)>> {
        let engine = self.engine();
        self.put_by(key, job, may_replace, |keyed_job, present, replaced| {
            engine.repeat_in_place_of(present, repeat, keyed_job, replaced)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::time::Duration;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::api::wheel::Wheel;

    const HOUR: Duration = Duration::from_secs(3600);

    /// An insert that unwinds leaves no key, also if it was about to replace a job.
    #[test]
    fn insert_that_unwinds_leaves_no_key() {
        for present in [false, true] {
            let (wheel, driver) = Wheel::builder().manual().unwrap();
            let keyed = Keyed::new(&wheel);
            if present {
                keyed.insert(1, HOUR, || ()).unwrap();
            }
            // On a thread of its own: if the insert took a lock twice, it would wait for ever.
            let (sender, ended) = channel();
            let own = keyed.clone();
            thread::spawn(move || {
                let put = || {
                    own.put_by(
                        1,
                        (|| ()) as fn(),
                        |_| true,
                        |_, handle, replaced| {
                            // The old job is out already.
                            *replaced = handle.and_then(|handle| own.engine().take(handle));
                            panic!("no room in the shard")
                        },
                    )
                };
                let unwound = catch_unwind(AssertUnwindSafe(put));
                sender.send((unwound.is_err(), own.len())).unwrap();
            });
            assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok((true, 0)));
            assert!(keyed.insert_if_absent(1, HOUR, || ()).is_ok() && keyed.contains(&1));
            assert_eq!((driver.advance(HOUR), keyed.len()), (1, 0));
        }
    }

    /// A job that the wheel took before its insert unwound has no key, and runs.
    #[test]
    fn job_in_the_wheel_loses_its_key_if_the_insert_unwinds() {
        // It is under no key, runs like any other job, and does not block a later insert.
        let (wheel, driver) = Wheel::builder().shards(1).manual().unwrap();
        let keyed = Keyed::new(&wheel);
        for key in [1, 2] {
            let put = || {
                keyed.put_by(
                    key,
                    || (),
                    |_| true,
                    |keyed_job, _, _| {
                        assert!(keyed.engine().insert(When::after(HOUR), keyed_job).is_ok());
                        panic!("after the insert")
                    },
                )
            };
            assert!(catch_unwind(AssertUnwindSafe(put)).is_err());
        }
        assert_eq!((keyed.len(), wheel.len()), (0, 2));
        keyed.insert(1, 2 * HOUR, || ()).unwrap();
        assert_eq!((driver.advance(HOUR), keyed.len()), (2, 1));
        assert_eq!((driver.advance(HOUR), keyed.len(), wheel.stats().panicked), (1, 0, 0));
    }

    /// A job that starts before its insert has written its entry leaves no key, and waits for no lock.
    #[test]
    fn job_that_starts_during_its_insert_leaves_no_key() {
        for present in [false, true] {
            let (wheel, driver) = Wheel::builder().manual().unwrap();
            let keyed = Keyed::new(&wheel);
            if present {
                keyed.insert(1, HOUR, || ()).unwrap();
            }
            let (sender, ran) = channel();
            let put = keyed.put_by(
                1,
                move || sender.send(()).unwrap(),
                |_| true,
                |keyed_job, handle, replaced| {
                    *replaced = handle.and_then(|handle| keyed.engine().take(handle));
                    let inserted = keyed.engine().insert(When::after(Duration::ZERO), keyed_job);
                    // Waits for no lock, though this thread holds the map's.
                    assert_eq!(driver.advance(Duration::from_millis(1)), 1);
                    inserted
                },
            );
            assert_eq!((put.unwrap().is_some(), ran.recv(), keyed.len()), (present, Ok(()), 0));
        }
    }
}
