//! Surplus: large blocks of memory that a hierarchy does not need any more, until its owner frees them.
//!
//! Ground rules:
//!
//! - The free of a large block may take long. glibc then joins all the small blocks that were freed since the last time:
//!   22 ms after 130,000 jobs (`docs/decisions.md`). So an advance frees no large block.
//!   The owner takes the surplus out, and drops it without a lock, on a thread on which no timer waits.
//! - A block is large from [`LARGE_BYTES`] on. Smaller blocks are freed at once.
//! - A hierarchy that is used by itself has no such thread: its public methods free the surplus before they return.

use super::Hierarchy;
use super::entry::{Inner, Outermost};
use super::table::{Key, OldNodes};

/// A block of this size may take long to free. glibc's own limit is twice as large, and counts the free memory beside the
/// block too.
pub(super) const LARGE_BYTES: usize = 32 << 10;

/// Memory that a hierarchy does not need any more. It is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Surplus<T> {
    _inner: Vec<Vec<Inner>>,
    _outermost: Vec<Vec<Outermost>>,
    _nodes: Option<OldNodes<T>>,
}

impl<T> Hierarchy<T> {
    /// [`Hierarchy::cancel`], which leaves the surplus to the caller.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let node = self.table.remove(key)?;
        self.unlink(node.slot, node.position);
        self.shrink_if_sparse();
        Some(node.value)
    }

    /// Returns whether there may be surplus.
    #[inline]
    pub(crate) fn has_surplus(&self) -> bool {
        self.slots.has_surplus
    }

    /// Takes the surplus out.
    #[cold]
    pub(crate) fn take_surplus(&mut self) -> Surplus<T> {
        self.slots.has_surplus = false;
        Surplus {
            _inner: self.slots.inner.take_surplus(),
            _outermost: self.slots.outermost.take_surplus(),
            _nodes: self.old_nodes.take(),
        }
    }

    /// Frees the surplus.
    #[inline]
    pub(crate) fn free_surplus(&mut self) {
        if self.has_surplus() {
            self.take_surplus();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::time::Tick;

    const MANY: u64 = 100_000;

    fn with_many() -> Hierarchy<u64> {
        let mut wheel = Hierarchy::default();
        for n in 0..MANY {
            wheel.insert(Tick::new(1 + n % 1000), n);
        }
        wheel
    }

    /// The arrays of large slots, and the slab of a burst, are surplus until the owner takes them.
    #[test]
    fn large_blocks_of_a_burst_are_surplus() {
        let (mut wheel, mut due) = (with_many(), Vec::new());
        wheel.insert(Tick::new(3_600_000), MANY);
        assert!(!wheel.has_surplus());
        let (mut arrays, mut slabs) = (0, 0);
        for tick in 1..=1000 {
            let mut limit = usize::MAX;
            assert!(wheel.advance_counting(Tick::new(tick), &mut limit, &mut due).finished);
            if wheel.has_surplus() {
                let surplus = wheel.take_surplus();
                arrays += surplus._inner.len() + surplus._outermost.len();
                slabs += usize::from(surplus._nodes.is_some());
            }
        }
        assert!(arrays >= 3 && slabs == 1, "{arrays} arrays, {slabs} slabs");
        assert_eq!(due.len() as u64, MANY);
    }

    /// A hierarchy that is used by itself has no surplus after an advance or a cancel.
    #[test]
    fn public_methods_free_the_surplus() {
        let (mut wheel, mut due) = (with_many(), Vec::new());
        assert!(wheel.advance(Tick::new(1000), usize::MAX, &mut due).finished);
        assert!(due.len() as u64 == MANY && !wheel.has_surplus());
        let mut wheel = Hierarchy::default();
        let keys: Vec<_> = (0..MANY).map(|n| wheel.insert(Tick::new(5000), n)).collect();
        for key in keys {
            assert!(wheel.cancel(key).is_some() && !wheel.has_surplus());
        }
    }
}
