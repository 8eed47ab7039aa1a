//! The verbs of `Keyed` for many keys at once.
//!
//! A batch takes a lock for each key, so it is no cheaper than a loop. It adds one moment from which
//! all delays count, and room for all of the jobs or for none.

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

use super::Keyed;
use crate::values::error::InsertError;
use crate::values::job::{Job, Task};
use crate::values::when::When;

/// Timers, each with its key.
type Timers<K, W, F> = Vec<(K, W, F)>;

/// The replaced job of each key, or the timers.
type Inserted<K, W, F> = Result<Vec<Option<Job>>, InsertError<Timers<K, W, F>>>;

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
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
    /// A panic in `Hash` or `Eq` of a key unwinds to the caller, and the keys before it stay inserted.
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
    ) -> Inserted<K, W, F>
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
}
