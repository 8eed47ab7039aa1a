//! The two kinds of entry, by which a slot refers to its timers.
//!
//! Ground rules:
//!
//! - An entry of an inner ring is the index of the timer's node, 4 bytes. In such a ring the slot
//!   alone says when an entry is visited.
//! - Only the outermost ring holds entries for other cycles than the next, so only there an entry
//!   has a cycle number, 4 bytes more.
//! - The number of a slot decides which kind it holds. Code for both kinds is generic over
//!   [`Entry`].

use super::arrays::{Arrays, Slot};
use super::ring::FAR;
use super::slots::Slots;
use super::table::NodeIndex;

/// An entry of a slot.
pub(super) trait Entry: Copy + Default {
    /// Whether an entry has a cycle: those of the outermost ring.
    const HAS_CYCLE: bool;

    /// Returns an entry for the node at `node`, due in the cycle with this number.
    fn new(node: NodeIndex, cycle: u32) -> Self;

    fn node(self) -> NodeIndex;

    fn set_node(&mut self, node: NodeIndex);

    /// Returns the number of the cycle in which the entry is due, or [`FAR`], if it has one.
    fn cycle(self) -> Option<u32>;

    /// Returns whether a visit in the cycle with this number has to read the node.
    #[inline]
    fn may_be_due_in(self, cycle: u32) -> bool {
        self.cycle().is_none_or(|own| own == cycle || own == FAR)
    }

    fn arrays(slots: &Slots) -> &Arrays<Self>;

    fn arrays_mut(slots: &mut Slots) -> &mut Arrays<Self>;

    /// Returns the index of a slot in its [`Arrays`].
    fn index(slots: &Slots, slot: u32) -> usize;

    /// Returns a slot that holds entries of this kind.
    #[inline]
    fn slot(slots: &Slots, slot: u32) -> &Slot<Self> {
        Self::arrays(slots).slot(Self::index(slots, slot))
    }

    /// Returns a slot that holds entries of this kind, to change it.
    #[inline]
    fn slot_mut(slots: &mut Slots, slot: u32) -> &mut Slot<Self> {
        let index = Self::index(slots, slot);
        Self::arrays_mut(slots).slot_mut(index)
    }
}

/// An entry of any ring but the outermost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inner(NodeIndex);

impl Entry for Inner {
    const HAS_CYCLE: bool = false;

    #[inline]
    fn new(node: NodeIndex, _cycle: u32) -> Inner {
        Inner(node)
    }

    #[inline]
    fn node(self) -> NodeIndex {
        self.0
    }

    fn set_node(&mut self, node: NodeIndex) {
        self.0 = node;
    }

    #[inline]
    fn cycle(self) -> Option<u32> {
        None
    }

    #[inline]
    fn arrays(slots: &Slots) -> &Arrays<Inner> {
        &slots.inner
    }

    #[inline]
    fn arrays_mut(slots: &mut Slots) -> &mut Arrays<Inner> {
        &mut slots.inner
    }

    #[inline]
    fn index(_slots: &Slots, slot: u32) -> usize {
        slot as usize
    }
}

/// An entry of the outermost ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outermost {
    node: NodeIndex,
    cycle: u32,
}

impl Entry for Outermost {
    const HAS_CYCLE: bool = true;

    #[inline]
    fn new(node: NodeIndex, cycle: u32) -> Outermost {
        Outermost { node, cycle }
    }

    #[inline]
    fn node(self) -> NodeIndex {
        self.node
    }

    fn set_node(&mut self, node: NodeIndex) {
        self.node = node;
    }

    #[inline]
    fn cycle(self) -> Option<u32> {
        Some(self.cycle)
    }

    #[inline]
    fn arrays(slots: &Slots) -> &Arrays<Outermost> {
        &slots.outermost
    }

    #[inline]
    fn arrays_mut(slots: &mut Slots) -> &mut Arrays<Outermost> {
        &mut slots.outermost
    }

    #[inline]
    fn index(slots: &Slots, slot: u32) -> usize {
        slot as usize - slots.inner.len()
    }
}
