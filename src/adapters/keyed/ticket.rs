//! The ticket that a job under a key carries: it takes the key off the map when the job starts or
//! is dropped.
//!
//! Ground rules:
//!
//! - Each job under a key carries a [`Ticket`], which shares the key with the map. When it leaves, it
//!   takes the key off the map: the very key that it shares, not an equal one of a later job. So no
//!   key is left behind, in any order of cancels, runs and replacements.
//! - A job may start, or unwind, before the insert has written its entry. So the insert announces
//!   the key ([`Stripe::begin_insert`]), and both the insert and the ticket call
//!   [`Stripe::end_insert`], which returns `true` to the first of them. If that is the insert, it
//!   writes the entry, and the ticket removes it. If it is the ticket, no entry is written, and none
//!   is removed. The ticket then takes no lock: the insert holds it, and may be unwinding.
//! - A ticket holds its [`Keys`], which hold the engine that holds the job that holds the ticket.
//!   Stopping the engine takes every job out, which ends that circle.

use std::sync::Arc;

use super::Keys;
use super::map::{KeyMap, Spot};
use crate::adapters::attached::{Attached, Attachment};
use crate::host::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::values::handle::Handle;

pub(super) struct Stripe<K> {
    pub(super) map: Mutex<KeyMap<K>>,
    /// The address of the key whose job is being inserted, under the map's lock; 0 without one.
    inserting: AtomicUsize,
}

impl<K> Stripe<K> {
    pub(super) fn new() -> Stripe<K> {
        Stripe { map: Mutex::new(KeyMap::default()), inserting: AtomicUsize::new(0) }
    }

    /// Announces the insert of a key's job. The caller holds the map's lock.
    ///
    /// An insert that unwound after the wheel had taken its job may have left another address here.
    /// To overwrite it is harmless: the ticket of that job then looks for an entry, and finds none.
    fn begin_insert(&self, key: &Arc<K>) {
        self.inserting.store(address(key), Ordering::SeqCst);
    }

    /// Ends the insert of a key's job. Returns `true` to the first caller, `false` to the second.
    pub(super) fn end_insert(&self, key: &Arc<K>) -> bool {
        let (own, none) = (address(key), 0);
        self.inserting.compare_exchange(own, none, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Writes the entry of a job that the wheel accepted, in the place of `present` if there is one.
    /// If the job's ticket is already gone, the key is free: then only removes `present`. Returns the
    /// key that left the map.
    pub(super) fn swap_entry(
        &self,
        map: &mut KeyMap<K>,
        present: Option<Spot>,
        (hash, key, handle): (u64, &Arc<K>, Handle),
    ) -> Option<Arc<K>> {
        match (present, self.end_insert(key)) {
            (Some(spot), true) => map.replace(spot, Arc::clone(key), handle),
            (Some(spot), false) => map.remove(spot),
            (None, true) => {
                map.insert(hash, Arc::clone(key), handle);
                None
            }
            (None, false) => None,
        }
    }
}

/// Returns the address of a shared key, which no other key has while this one is shared.
fn address<K>(key: &Arc<K>) -> usize {
    Arc::as_ptr(key).addr()
}

pub(super) struct Ticket<K, S> {
    keys: Arc<Keys<K, S>>,
    hash: u64,
    /// `None` once the ticket has left.
    key: Option<Arc<K>>,
}

impl<K, S> Ticket<K, S> {
    /// Makes the ticket of a job that is about to be inserted. The caller holds the map's lock.
    pub(super) fn new(keys: &Arc<Keys<K, S>>, hash: u64, key: &Arc<K>) -> Ticket<K, S> {
        keys.stripe(hash).begin_insert(key);
        Ticket { keys: Arc::clone(keys), hash, key: Some(Arc::clone(key)) }
    }
}

impl<K, S> Attachment for Ticket<K, S> {
    fn leave(&mut self) {
        let Some(key) = self.key.take() else { return };
        let stripe = self.keys.stripe(self.hash);
        let mut removed = None;
        // If this is the last reference, the map does not have the key, and no insert will write it.
        let is_last = Arc::strong_count(&key) == 1;
        if !is_last && !stripe.end_insert(&key) {
            let mut map = lock(&stripe.map);
            removed = map.find_same(self.hash, &key).and_then(|spot| map.remove(spot));
        }
        self.keys.discard((removed, key));
    }
}

impl<K, S> Drop for Ticket<K, S> {
    fn drop(&mut self) {
        self.leave();
    }
}

pub(super) type KeyedJob<K, S, F> = Attached<Ticket<K, S>, F>;

#[cfg(all(test, not(loom)))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::adapters::group::Group;
    use crate::adapters::keyed::Keyed;
    use crate::api::wheel::Wheel;

    /// The engine is dropped with the wheel and the jobs that it handed back.
    #[test]
    fn wheel_that_ends_breaks_the_circle_of_keys_and_jobs() {
        let hour = Duration::from_secs(3600);
        // A job holds its key's ticket, which holds the keys, which hold the engine, which holds the
        // job. Once the wheel and the jobs that it handed back are dropped, nothing holds the engine.
        for handed_back in [false, true] {
            let (wheel, driver) = Wheel::builder().manual().unwrap();
            let engine = Arc::downgrade(wheel.engine());
            let (keyed, group) = (Keyed::new(wheel.scheduler()), Group::new(wheel.scheduler()));
            for key in 0..10 {
                let own = keyed.clone();
                keyed.insert(key, hour, move || drop(own)).unwrap();
                group.insert(hour, || ()).unwrap();
            }
            keyed.insert(10, driver.wall_now() + hour, || ()).unwrap();
            let taken = keyed.take(&3);
            group.detach();
            drop((keyed, driver));
            match handed_back {
                false => drop(wheel),
                true => assert_eq!(wheel.shutdown().count(), 20),
            }
            assert!(engine.upgrade().is_some(), "a job that was taken holds its keys");
            drop(taken);
            assert!(engine.upgrade().is_none());
        }
    }
}
