//! The nodes that lie elsewhere than their keys say: a row for each, found by its generation.
//!
//! Ground rules:
//!
//! - The map is empty unless the timers have moved (`shrink.rs`), and a row goes with its timer. So
//!   frequent callers test [`MovedNodes::is_empty`] first, which is one comparison.
//! - Generations come from one counter and no caller can choose them, so the hash needs no secret:
//!   a multiplication spreads them.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use super::table::NodeIndex;
use crate::values::generation::Generation;

/// A node that lies elsewhere than its key says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    /// The index in the key.
    pub(super) key_index: NodeIndex,
    /// Where the node is.
    pub(super) index: NodeIndex,
}

/// The map shrinks when it has room for more than this many times its number of rows.
const SPARSE_ROWS: usize = 8;

/// Maps the generation in a key to the place of its node.
#[derive(Debug, Default)]
pub(super) struct MovedNodes {
    rows: HashMap<Generation, Moved, BuildHasherDefault<GenerationHasher>>,
}

impl MovedNodes {
    /// Returns an empty map with room for `count` rows.
    pub(super) fn with_room(count: usize) -> MovedNodes {
        let hasher = BuildHasherDefault::default();
        MovedNodes { rows: HashMap::with_capacity_and_hasher(count, hasher) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn get(&self, generation: Generation) -> Option<Moved> {
        if self.is_empty() { None } else { self.rows.get(&generation).copied() }
    }

    pub(super) fn insert(&mut self, generation: Generation, moved: Moved) {
        self.rows.insert(generation, moved);
    }

    /// Removes the row of a node that is gone, and returns it if there was one. Frees memory if few
    /// of many rows are left.
    pub(super) fn remove(&mut self, generation: Generation) -> Option<Moved> {
        let moved = self.rows.remove(&generation)?;
        if self.room() / SPARSE_ROWS > self.len() {
            self.rows.shrink_to(2 * self.len());
        }
        Some(moved)
    }

    /// Returns for how many rows there is memory.
    pub(super) fn room(&self) -> usize {
        self.rows.capacity()
    }
}

/// Fibonacci hashing. The halves are swapped because the map uses the low bits.
#[derive(Debug, Default)]
struct GenerationHasher(u64);

impl Hasher for GenerationHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, generation: u64) {
        self.0 = (self.0 ^ generation).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u32) -> Moved {
        Moved { key_index: n, index: n + 1 }
    }

    /// A row is found until it is removed, and the map gives the memory of removed rows back.
    #[test]
    fn rows_of_moved_nodes_give_their_memory_back() {
        let mut moved = MovedNodes::with_room(0);
        let generation = |n: u32| Generation::new(1 + 16 * u64::from(n)).unwrap();
        for n in 0..10_000 {
            moved.insert(generation(n), row(n));
        }
        assert_eq!(moved.get(generation(77)), Some(row(77)));
        for n in 1..10_000 {
            assert_eq!(moved.remove(generation(n)), Some(row(n)));
            assert_eq!(moved.remove(generation(n)), None);
        }
        assert!(moved.len() == 1 && moved.room() < 100, "room for {}", moved.room());
        assert_eq!(moved.get(generation(0)), Some(row(0)));
    }
}
