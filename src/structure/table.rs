//! The handle table: every pending value, found by [`Key`] in one step.
//!
//! Ground rules:
//!
//! - A place is an index into a `slab`; it is used again. A [`Generation`] is not. A key is both,
//!   so a stale, foreign or forged key finds nothing.
//! - A node says where its timer's entry lies: which slot, and at which position in it. Exactly one
//!   entry points back at the node. The table keeps these numbers for the rings and never reads them.
//! - Places are kept for the next timers, until the last timer is gone: a burst does not pin memory for
//!   longer than it lasts.
//!
//! A node is 32 bytes for a value of 8: two to a cache line. The generation cannot be zero, and that
//! spare value is what `slab` marks a vacant place with, for free.

use slab::Slab;

use crate::values::generation::{Generation, Generations};
use crate::values::time::Tick;

/// Places that an empty table keeps.
const KEPT_NODES: usize = 4096;

/// An index into the slab, which has fewer than 2^32 places: slot entries carry it in half a word.
pub(crate) type NodeIndex = u32;

/// Identifies one timer of one [`Hierarchy`](crate::Hierarchy), for ever: a key is never given
/// twice in the life of a process, so a key whose timer is gone, or that another hierarchy gave,
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
    /// Which slot the entry lies in, numbered through all rings.
    pub(crate) slot: u32,
    /// Where in that slot.
    pub(crate) position: u32,
    pub(crate) value: T,
}

/// Nodes by key.
#[derive(Debug)]
pub(crate) struct Table<T> {
    nodes: Slab<Node<T>>,
    generations: Generations,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table { nodes: Slab::new(), generations: Generations::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The place that the next node will have.
    ///
    /// # Panics
    ///
    /// When 2^32 places are taken.
    #[inline]
    pub(crate) fn next_index(&self) -> NodeIndex {
        NodeIndex::try_from(self.nodes.vacant_key()).expect("fewer than 2^32 timers")
    }

    /// Adds a node whose entry lies at `position` of `slot`; its place is [`Table::next_index`].
    #[inline]
    pub(crate) fn insert(&mut self, deadline: Tick, slot: u32, position: u32, value: T) -> Key {
        let generation = self.generations.next();
        let index = self.nodes.insert(Node { generation, deadline, slot, position, value });
        Key { generation, index: index as NodeIndex }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Node<T>> {
        self.nodes.get(key.index as usize).filter(|node| node.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        self.nodes.get_mut(key.index as usize).filter(|node| node.generation == key.generation)
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<Node<T>> {
        self.get(key)?;
        let node = self.nodes.try_remove(key.index as usize);
        self.give_up();
        node
    }

    /// The node at a place that an entry points to, and which is therefore taken.
    pub(crate) fn at(&self, index: NodeIndex) -> &Node<T> {
        &self.nodes[index as usize]
    }

    pub(crate) fn at_mut(&mut self, index: NodeIndex) -> &mut Node<T> {
        &mut self.nodes[index as usize]
    }

    /// Removes the node at a place that an entry pointed to. Whoever is done taking calls
    /// [`Table::give_up`].
    pub(crate) fn take(&mut self, index: NodeIndex) -> (Key, T) {
        let node = self.nodes.remove(index as usize);
        (Key { generation: node.generation, index }, node.value)
    }

    /// Gives up the memory of many places once none of them is taken.
    pub(crate) fn give_up(&mut self) {
        if self.nodes.is_empty() && self.nodes.capacity() > KEPT_NODES {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        self.nodes = Slab::new();
    }

    /// How many places there is memory for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Every node with its key, in the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Node<T>)> {
        self.nodes.iter().map(|(index, node)| {
            let index = NodeIndex::try_from(index).expect("fewer than 2^32 timers");
            (Key { generation: node.generation, index }, node)
        })
    }

    /// Takes every node out. The memory goes with them; the generations go on.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Key, Node<T>)> + use<T> {
        core::mem::take(&mut self.nodes).into_iter().map(|(index, node)| {
            let index = NodeIndex::try_from(index).expect("fewer than 2^32 timers");
            (Key { generation: node.generation, index }, node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert<T>(table: &mut Table<T>, value: T) -> Key {
        table.insert(Tick::new(1), 0, 0, value)
    }

    #[test]
    fn a_node_is_half_a_cache_line_and_a_vacant_place_costs_nothing() {
        assert_eq!(size_of::<Node<u64>>(), 32);
        assert_eq!(size_of::<Option<Node<u64>>>(), 32);
        assert_eq!(size_of::<Key>(), 16);
        assert_eq!(size_of::<Option<Key>>(), 16);
    }

    #[test]
    fn a_key_whose_place_is_used_again_finds_nothing() {
        let mut table = Table::new();
        let stale = insert(&mut table, "first");
        assert_eq!(table.remove(stale).unwrap().value, "first");
        let fresh = insert(&mut table, "second");
        assert_eq!(stale.index, fresh.index);
        assert!(table.get(stale).is_none());
        assert!(table.get_mut(stale).is_none());
        assert!(table.remove(stale).is_none());
        assert_eq!(table.get(fresh).unwrap().value, "second");
    }

    #[test]
    fn a_key_of_another_table_finds_nothing() {
        let (mut a, mut b) = (Table::new(), Table::new());
        let (of_a, of_b) = (insert(&mut a, 1), insert(&mut b, 2));
        assert_eq!(of_a.index, of_b.index);
        assert!(a.get(of_b).is_none() && b.remove(of_a).is_none());
    }

    #[test]
    fn a_forged_key_finds_nothing() {
        let mut table = Table::new();
        let key = insert(&mut table, 1);
        let beyond = Key { index: u32::MAX, ..key };
        let guessed = Key { generation: Generation::MAX, ..key };
        assert!(table.remove(beyond).is_none() && table.remove(guessed).is_none());
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn an_empty_table_keeps_little_memory_and_no_key_comes_back() {
        let mut table = Table::new();
        let keys: Vec<Key> = (0..2 * KEPT_NODES).map(|n| insert(&mut table, n)).collect();
        for &key in &keys[1..] {
            assert!(table.remove(key).is_some());
        }
        assert!(table.capacity() > KEPT_NODES, "one is left");
        table.take(keys[0].index);
        table.give_up();
        assert!(table.capacity() <= KEPT_NODES);
        insert(&mut table, 0);
        assert!(keys.iter().all(|&key| table.get(key).is_none()));
    }

    #[test]
    fn taking_all_leaves_an_empty_table_whose_old_keys_stay_dead() {
        let mut table = Table::new();
        let old: Vec<Key> = (0..4).map(|n| insert(&mut table, n)).collect();
        let taken: Vec<Key> = table.take_all().map(|(key, _)| key).collect();
        assert_eq!((taken, table.len()), (old.clone(), 0));
        insert(&mut table, 9);
        assert!(old.iter().all(|&key| table.get(key).is_none()));
    }
}
