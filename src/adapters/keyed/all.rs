//! The verbs for all keys at once.
//!
//! They lock one map after the other, so a change that another thread makes meanwhile may be seen or
//! not.

use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::sync::Arc;

use super::Keyed;
use crate::host::sync::lock;

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
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

    /// Returns `true` if no key has a job that has not started.
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
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::api::wheel::Wheel;

    /// `cancel_all` gives back the memory of the map of keys.
    #[test]
    fn cancel_all_keeps_no_memory_of_a_burst() {
        let (wheel, _driver) = Wheel::builder().shards(1).manual().unwrap();
        let hour = Duration::from_secs(3600);
        let keyed = Keyed::new(&wheel);
        (0..10_000).for_each(|key| drop(keyed.insert(key, hour, || ()).unwrap()));
        assert_eq!(keyed.cancel_all(), 10_000);
        assert_eq!(lock(&keyed.keys.stripes[0].map).capacity(), 0);
    }
}
