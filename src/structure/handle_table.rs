//! The handle table: finds every pending value by its [`Key`], in one step, also when its node has moved.
//!
//! Ground rules:
//!
//! - A node index is an index into a `slab`, which reuses it. A [`Generation`] is never used again. A key consists of
//!   both, so a stale, foreign or forged key finds nothing.
//! - A node says where its timer's entry lies: its slot, and its position there. Exactly one entry points back at the
//!   node. The table keeps these numbers for the rings and never reads them.
//! - A key names the index that its node had when the key was given, and the table returns every key as it was given.
//!   If the node has moved since (`shrink.rs`), [`MovedNodes`] has a row for it, found by its generation: a look-up
//!   that misses in the slab asks there. The row goes with its timer.
//! - [`MovedNodes`] is empty unless the timers have moved. So frequent callers test [`MovedNodes::is_empty`] first,
//!   which is one comparison. Generations come from one counter and no caller can choose them, so its hash needs no
//!   secret: a multiplication spreads them.
//!
//! In a wheel, where the value is a job (a fat box, 16 bytes), a node takes 40 bytes; with a value of 8 bytes it takes
//! 32, two to a cache line. The generation cannot be zero, so `slab` marks a vacant index with a zero there, for free.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use slab::Slab;

use super::Tuning;
use crate::values::handle::{Generation, Generations};
use crate::values::time::Tick;

/// An index into the slab, which has room for fewer than 2^32 nodes: slot entries carry it in half
/// a word.
pub(crate) type NodeIndex = u32;

/// Identifies one timer of one [`Hierarchy`](crate::Hierarchy), for ever: a key is never given
/// twice in the life of a process. So a key whose timer is gone, or a key of another hierarchy,
/// matches nothing.
///
/// 16 bytes, `Copy`; `Option<Key>` is no larger. Dropping a key does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    pub(crate) generation: Generation,
    pub(crate) index: NodeIndex,
}

/// One pending timer.
#[derive(Debug)]
pub(crate) struct Node<T> {
    generation: Generation,
    /// When the timer is due. Its entry may lie at an earlier visit, never at a later one.
    pub(crate) deadline: Tick,
    /// The slot in which the entry lies, numbered through all rings.
    pub(crate) slot: u32,
    /// The entry's position in that slot.
    pub(crate) position: u32,
    pub(crate) value: T,
}

#[derive(Debug)]
pub(crate) struct Table<T> {
    nodes: Slab<Node<T>>,
    generations: Generations,
    moved: MovedNodes,
    tuning: Tuning,
    /// The room of the slab when it was last read. A larger index shows that the slab has grown.
    known_room: usize,
    /// With fewer nodes than this the slab is sparse. Computed once from `known_room`, so that a
    /// cancel only compares two numbers.
    sparse_below: usize,
}

/// The nodes of a table that have not been moved yet.
#[derive(Debug)]
pub(super) struct OldNodes<T> {
    nodes: Slab<Node<T>>,
    moved: MovedNodes,
}

impl<T> OldNodes<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Loads nodes that are about to be moved, see `structure/mod.rs`.
    pub(super) fn fetch(&self, indices: impl Iterator<Item = NodeIndex>) {
        let position = |index| self.nodes.get(index as usize).map_or(0, |node| node.position);
        core::hint::black_box(indices.fold(0, |seen, index| seen ^ position(index)));
    }
}

impl<T> Table<T> {
    pub(crate) fn new(tuning: Tuning) -> Table<T> {
        Table {
            nodes: Slab::new(),
            generations: Generations::default(),
            moved: MovedNodes::default(),
            tuning,
            known_room: 0,
            sparse_below: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the index that the next node will have.
    ///
    /// # Panics
    ///
    /// With 2^32 nodes.
    #[inline]
    pub(crate) fn next_index(&self) -> NodeIndex {
        NodeIndex::try_from(self.nodes.vacant_key()).expect("fewer than 2^32 timers")
    }

    /// Adds a node whose entry lies at `position` of `slot`; its index is [`Table::next_index`].
    #[inline]
    pub(crate) fn insert(&mut self, deadline: Tick, slot: u32, position: u32, value: T) -> Key {
        let generation = self.generations.next();
        let index = self.nodes.insert(Node { generation, deadline, slot, position, value });
        if index >= self.known_room {
            self.note_room();
        }
        Key { generation, index: index as NodeIndex }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Node<T>> {
        match self.nodes.get(key.index as usize) {
            Some(node) if node.generation == key.generation => Some(node),
            _ => self.get_moved(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        if self.is_unmoved(key) {
            self.nodes.get_mut(key.index as usize)
        } else {
            let index = self.find_moved(key)?;
            self.nodes.get_mut(index as usize)
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<Node<T>> {
        if self.is_unmoved(key) {
            self.nodes.try_remove(key.index as usize)
        } else {
            self.remove_moved(key)
        }
    }

    /// Returns the node at an index that an entry points to, and which is therefore in use.
    pub(crate) fn at(&self, index: NodeIndex) -> &Node<T> {
        &self.nodes[index as usize]
    }

    pub(crate) fn at_mut(&mut self, index: NodeIndex) -> &mut Node<T> {
        &mut self.nodes[index as usize]
    }

    /// Removes the node at an index that an entry pointed to. Returns its key and value.
    pub(crate) fn take(&mut self, index: NodeIndex) -> (Key, T) {
        let node = self.nodes.remove(index as usize);
        let mut key = Key { generation: node.generation, index };
        if !self.moved.is_empty() {
            key.index = self.forget_moved(key.generation, index);
        }
        (key, node.value)
    }

    /// Does what [`Table::take`] does, if the node is due at `tick`.
    #[inline]
    pub(super) fn take_due(&mut self, index: NodeIndex, tick: Tick) -> Option<(Key, T)> {
        (self.at(index).deadline <= tick).then(|| self.take(index))
    }

    /// Returns every node with its key, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Node<T>)> {
        self.nodes.iter().map(|(index, node)| (key_of(index, node, &self.moved), node))
    }

    /// Removes every node, and frees the memory; the generations go on. Returns the nodes with
    /// their keys, in no order.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Key, Node<T>)> + use<T> {
        let moved = core::mem::take(&mut self.moved);
        let nodes = core::mem::take(&mut self.nodes).into_iter();
        self.note_room();
        nodes.map(move |(index, node)| (key_of(index, &node, &moved), node))
    }

    /// Returns whether there is room for many more nodes than there are.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.nodes.len() < self.sparse_below
    }

    /// Notes that the slab's room has changed.
    #[cold]
    fn note_room(&mut self) {
        let room = self.nodes.capacity();
        self.known_room = room;
        let kept = self.tuning.kept_nodes.min(self.tuning.kept_bytes / size_of::<Node<T>>());
        self.sparse_below = match room > kept {
            true => room >> self.tuning.sparse_shift,
            false => 0,
        };
    }

    /// Begins to move every node to a slab with room for exactly these. The caller then moves each
    /// of the nodes with [`Table::move_node`], before it uses the table in any other way.
    pub(super) fn begin_move(&mut self) -> OldNodes<T> {
        let len = self.nodes.len();
        let nodes = core::mem::replace(&mut self.nodes, Slab::with_capacity(len));
        self.note_room();
        OldNodes { nodes, moved: core::mem::replace(&mut self.moved, MovedNodes::with_room(len)) }
    }

    /// Moves the node that lay at `index` before. Returns where it lies now.
    pub(super) fn move_node(&mut self, old: &mut OldNodes<T>, index: NodeIndex) -> NodeIndex {
        let node = old.nodes.remove(index as usize);
        let Key { generation, index: key_index } = key_of(index as usize, &node, &old.moved);
        let index = self.nodes.insert(node) as NodeIndex;
        if index != key_index {
            self.moved.insert(generation, Moved { key_index, index });
        }
        index
    }

    pub(super) fn find(&self, key: Key) -> Option<NodeIndex> {
        if self.is_unmoved(key) { Some(key.index) } else { self.find_moved(key) }
    }

    pub(super) fn moved(&self) -> &MovedNodes {
        &self.moved
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Returns whether the node of a key lies at the index in the key. It then has no row in
    /// `moved`.
    #[inline]
    fn is_unmoved(&self, key: Key) -> bool {
        let node = self.nodes.get(key.index as usize);
        node.is_some_and(|node| node.generation == key.generation)
    }

    #[cold]
    fn find_moved(&self, key: Key) -> Option<NodeIndex> {
        let row = self.moved.get(key.generation)?;
        (row.key_index == key.index).then_some(row.index)
    }

    #[cold]
    fn get_moved(&self, key: Key) -> Option<&Node<T>> {
        self.nodes.get(self.find_moved(key)? as usize)
    }

    #[cold]
    fn remove_moved(&mut self, key: Key) -> Option<Node<T>> {
        let index = self.find_moved(key)?;
        self.moved.remove(key.generation);
        self.nodes.try_remove(index as usize)
    }

    /// Removes the row of a node that lay at `index`, if it has one. Returns the index in its key.
    #[cold]
    fn forget_moved(&mut self, generation: Generation, index: NodeIndex) -> NodeIndex {
        self.moved.remove(generation).map_or(index, |row| row.key_index)
    }
}

/// Returns the key that was given for a node which lies at `index`.
fn key_of<T>(index: usize, node: &Node<T>, moved: &MovedNodes) -> Key {
    let generation = node.generation;
    let index = moved.get(generation).map_or(index as NodeIndex, |row| row.key_index);
    Key { generation, index }
}

/// A node that lies elsewhere than its key says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    /// The index in the key.
    pub(crate) key_index: NodeIndex,
    /// Where the node is.
    pub(crate) index: NodeIndex,
}

/// The map shrinks when it has room for more than this many times its number of rows.
const SPARSE_ROWS: usize = 8;

/// Maps the generation in a key to the place of its node.
#[derive(Debug, Default)]
pub(crate) struct MovedNodes {
    rows: HashMap<Generation, Moved, BuildHasherDefault<GenerationHasher>>,
}

impl MovedNodes {
    pub(super) fn with_room(count: usize) -> MovedNodes {
        let hasher = BuildHasherDefault::default();
        MovedNodes { rows: HashMap::with_capacity_and_hasher(count, hasher) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn get(&self, generation: Generation) -> Option<Moved> {
        if self.is_empty() { None } else { self.rows.get(&generation).copied() }
    }

    pub(crate) fn insert(&mut self, generation: Generation, moved: Moved) {
        self.rows.insert(generation, moved);
    }

    /// Removes the row of a node that is gone, and returns it if there was one. Frees memory if few
    /// of many rows are left.
    pub(crate) fn remove(&mut self, generation: Generation) -> Option<Moved> {
        let moved = self.rows.remove(&generation)?;
        if self.room() / SPARSE_ROWS > self.len() {
            self.rows.shrink_to(2 * self.len());
        }
        Some(moved)
    }

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
    use crate::values::job::Job;

    /// Nodes and keys have the sizes that the documentation names, which are those of 64 bits.
    #[test]
    fn sizes() {
        if cfg!(not(target_pointer_width = "64")) {
            return;
        }
        // In a wheel, and with a value of one word: half a cache line.
        assert_eq!(size_of::<Node<Job>>(), 40);
        assert_eq!(size_of::<Node<u64>>(), 32);
        // A vacant index costs nothing.
        assert_eq!(size_of::<Option<Node<Job>>>(), 40);
        assert_eq!(size_of::<Option<Node<u64>>>(), 32);
        assert_eq!(size_of::<Key>(), 16);
        assert_eq!(size_of::<Option<Key>>(), 16);
    }
}
