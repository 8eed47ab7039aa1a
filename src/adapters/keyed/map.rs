//! A map from keys to the handles of their jobs, in which only the search for a key runs user code.
//!
//! Ground rules:
//!
//! - The caller hashes a key once. The map stores that hash, so it never calls the `Hash` of a key.
//! - [`KeyMap::find`] calls the `Eq` of a key, and changes nothing. Every method that changes the
//!   map takes the [`Spot`] that a search returned, and runs no user code. It returns the keys that
//!   leave the map, so that the caller drops them without a lock.
//! - `first` has one entry for each 64-bit hash. Further keys with the same hash go to `others`,
//!   which a good hasher leaves empty. An entry in `others` stays there when the first one goes.
//! - Memory follows the number of keys. Once a map has grown past [`KEPT_KEYS`], it keeps room for
//!   that many. When fewer than one in [`SPARSE`] places is taken, it moves into a smaller table.
//!   Between two such moves most of its keys are removed, so the moves add constant time to each
//!   removal.

use core::borrow::Borrow;
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::{HashMap, hash_map};
use std::sync::Arc;

use crate::values::handle::Handle;

/// A table with room for no more than twice this number of keys is not made smaller.
pub(super) const KEPT_KEYS: usize = 1024;

/// A table is made smaller when fewer than one in this number of its places is taken.
const SPARSE: usize = 16;

pub(super) struct KeyMap<K> {
    first: HashMap<u64, Entry<K>, BuildHasherDefault<Spread>>,
    others: HashMap<u64, Vec<Entry<K>>, BuildHasherDefault<Spread>>,
    others_len: usize,
}

pub(super) struct Entry<K> {
    pub(super) key: Arc<K>,
    pub(super) handle: Handle,
}

/// The place of an entry, from a search until the next change of the map.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    hash: u64,
    /// The index in `others`, for an entry that is there.
    other: Option<usize>,
}

impl<K> KeyMap<K> {
    /// Finds the entry of a key that is equal to `key`. Runs `Eq`, which may panic.
    pub(super) fn find<Q>(&self, hash: u64, key: &Q) -> Option<(Spot, Handle)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.find_by(hash, |entry| (*entry.key).borrow() == key)
    }

    pub(super) fn find_same(&self, hash: u64, key: &Arc<K>) -> Option<Spot> {
        self.find_by(hash, |entry| Arc::ptr_eq(&entry.key, key)).map(|(spot, _)| spot)
    }

    fn find_by(&self, hash: u64, is: impl Fn(&Entry<K>) -> bool) -> Option<(Spot, Handle)> {
        if let Some(entry) = self.first.get(&hash).filter(|entry| is(entry)) {
            return Some((Spot { hash, other: None }, entry.handle));
        }
        let others = self.others.get(&hash)?;
        let other = others.iter().position(is)?;
        Some((Spot { hash, other: Some(other) }, others[other].handle))
    }

    /// Adds an entry. No equal key may be in the map.
    pub(super) fn insert(&mut self, hash: u64, key: Arc<K>, handle: Handle) {
        let entry = Entry { key, handle };
        match self.first.entry(hash) {
            hash_map::Entry::Vacant(place) => {
                place.insert(entry);
            }
            hash_map::Entry::Occupied(_) => {
                self.others.entry(hash).or_default().push(entry);
                self.others_len += 1;
            }
        }
    }

    /// Puts an equal key and another handle in the place of an entry. Returns the key that was
    /// there.
    pub(super) fn replace(&mut self, spot: Spot, key: Arc<K>, handle: Handle) -> Option<Arc<K>> {
        let entry = match spot.other {
            None => self.first.get_mut(&spot.hash)?,
            Some(other) => self.others.get_mut(&spot.hash)?.get_mut(other)?,
        };
        Some(core::mem::replace(entry, Entry { key, handle }).key)
    }

    pub(super) fn remove(&mut self, spot: Spot) -> Option<Arc<K>> {
        let removed = match spot.other {
            None => self.first.remove(&spot.hash)?,
            Some(other) => self.remove_other(spot.hash, other)?,
        };
        if let Some(enough) = smaller(self.first.len(), self.first.capacity()) {
            self.first.shrink_to(enough);
        }
        Some(removed.key)
    }

    fn remove_other(&mut self, hash: u64, other: usize) -> Option<Entry<K>> {
        let others = self.others.get_mut(&hash)?;
        if other >= others.len() {
            return None;
        }
        let removed = others.swap_remove(other);
        self.others_len -= 1;
        if let Some(enough) = smaller(others.len(), others.capacity()) {
            others.shrink_to(enough);
        }
        if others.is_empty() {
            self.others.remove(&hash);
        }
        if let Some(enough) = smaller(self.others.len(), self.others.capacity()) {
            self.others.shrink_to(enough);
        }
        Some(removed)
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.others_len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.first.values().chain(self.others.values().flatten())
    }

    /// Empties the map, which keeps no memory. Returns every entry.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Entry<K>> + use<K> {
        let KeyMap { first, others, .. } = core::mem::take(self);
        first.into_values().chain(others.into_values().flatten())
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.first.capacity()
            + self.others.capacity()
            + self.others.values().map(Vec::capacity).sum::<usize>()
    }
}

impl<K> Default for KeyMap<K> {
    fn default() -> KeyMap<K> {
        KeyMap { first: HashMap::default(), others: HashMap::default(), others_len: 0 }
    }
}

/// Returns the capacity that a table should shrink to, if it is too large for its `len` entries.
fn smaller(len: usize, capacity: usize) -> Option<usize> {
    let sparse = capacity > 2 * KEPT_KEYS && len < capacity / SPARSE;
    sparse.then_some(KEPT_KEYS.max(2 * len))
}

/// Spreads a hash over all bits, because a hasher may leave small numbers small. Different hashes
/// stay different.
#[derive(Clone, Copy, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write_u64(&mut self, hash: u64) {
        let mixed = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::values::handle::Generation;

    /// A map, in which the hash of a key is `hash(key)`.
    struct Keys<H: Fn(u64) -> u64> {
        map: KeyMap<u64>,
        hash: H,
    }

    fn handle(key: u64) -> Handle {
        Handle::new(0, Generation::new(key + 1).unwrap(), 0)
    }

    impl<H: Fn(u64) -> u64> Keys<H> {
        fn new(hash: H) -> Keys<H> {
            Keys { map: KeyMap::default(), hash }
        }

        fn find(&self, key: u64) -> Option<(Spot, Handle)> {
            self.map.find((self.hash)(key), &key)
        }

        fn insert(&mut self, key: u64) {
            assert!(self.find(key).is_none());
            self.map.insert((self.hash)(key), Arc::new(key), handle(key));
        }

        fn remove(&mut self, key: u64) -> bool {
            let Some((spot, found)) = self.find(key) else { return false };
            assert_eq!(found, handle(key));
            self.map.remove(spot).is_some_and(|removed| *removed == key)
        }
    }

    /// C43: The map gives back the memory of a burst, also while one key stays.
    #[test]
    fn map_gives_back_the_memory_of_a_burst() {
        for (hash, count) in [(|key| key) as fn(u64) -> u64, |key| key % 5000, |_| 7]
            .into_iter()
            .zip([100_000, 100_000, 5_000])
        {
            let mut keys = Keys::new(hash);
            (0..count).for_each(|key| keys.insert(key));
            assert!((1..count).all(|key| keys.remove(key)));
            // At most three tables, each of which may keep `2 * KEPT_KEYS`.
            assert!(keys.map.capacity() <= 3 * 2 * KEPT_KEYS, "{}", keys.map.capacity());
            assert!(keys.find(0).is_some() && keys.map.len() == 1);
            (1..count).for_each(|key| keys.insert(key));
            assert_eq!(keys.map.take_all().count(), count as usize);
            assert_eq!(keys.map.capacity(), 0);
        }
    }

    /// The removal of 100 000 keys moves the map into a smaller table four times at most.
    #[test]
    fn table_is_made_smaller_seldom() {
        let mut keys = Keys::new(|key| key);
        (0..100_000).for_each(|key| keys.insert(key));
        let mut shrinks = 0;
        for key in 0..100_000 {
            let before = keys.map.capacity();
            keys.remove(key);
            // A removal alone lowers the capacity by one at most; a move into a smaller table at
            // least halves it.
            shrinks += u32::from(keys.map.capacity() < before / 2);
        }
        assert!((1..=4).contains(&shrinks), "{shrinks}");
    }
}
