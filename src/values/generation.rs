//! Numbers that are given once and never again in the life of a process.
//!
//! Every [`Generation`] of every handle table comes from one counter of 64 bits, so a key that is
//! stale, or that belongs to another table, matches nothing, for ever: at a billion inserts a
//! second the counter lasts 584 years. A table takes numbers in blocks, so the shared counter is
//! touched once in [`LEASE_SIZE`] inserts.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

/// What tells the timer that has a place now from those that had it before, or have it elsewhere.
pub(crate) type Generation = NonZeroU64;

const LEASE_SIZE: u64 = 1 << 16;

static NEXT_LEASE: AtomicU64 = AtomicU64::new(0);

/// A source of [`Generation`]s for one table.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    next: u64,
    end: u64,
}

impl Generations {
    /// A number that nobody in this process has been given yet.
    #[inline]
    pub(crate) fn next(&mut self) -> Generation {
        if self.next == self.end {
            self.lease();
        }
        self.next += 1;
        Generation::new(self.next).expect("a block begins above zero")
    }

    #[cold]
    fn lease(&mut self) {
        // Relaxed: the numbers need to differ, they order nothing.
        let block = NEXT_LEASE.fetch_add(1, Ordering::Relaxed);
        self.next = block.checked_mul(LEASE_SIZE).expect("2^64 timers in one process");
        self.end = self.next + (LEASE_SIZE - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_within_a_table_between_tables_and_across_blocks() {
        let (mut a, mut b) = (Generations::default(), Generations::default());
        let mut seen = std::collections::HashSet::new();
        for _ in 0..3 * LEASE_SIZE {
            assert!(seen.insert(a.next()));
            assert!(seen.insert(b.next()));
        }
    }
}
