//! Generations: numbers that are given once in the life of a process.
//!
//! Every [`Generation`] of every handle table comes from one counter of 64 bits. So a key that is
//! stale, or that belongs to another table, never matches: at a billion inserts a second the
//! counter lasts 584 years. A table leases [`LEASE_SIZE`] numbers at a time, so it touches the
//! shared counter once per that many inserts.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes the timer at an index of a table from earlier timers at that index, and from the
/// timers of other tables.
pub(crate) type Generation = NonZeroU64;

/// How many numbers a table takes from the shared counter at a time.
const LEASE_SIZE: u64 = 1 << 16;

static NEXT_LEASE: AtomicU64 = AtomicU64::new(0);

/// A source of [`Generation`]s for one table.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    /// The number that was given last.
    last: u64,
    /// The last number of the lease.
    end: u64,
}

impl Generations {
    /// Returns a number that has not been given in this process.
    #[inline]
    pub(crate) fn next(&mut self) -> Generation {
        if self.last == self.end {
            self.lease();
        }
        self.last += 1;
        Generation::new(self.last).expect("a lease begins above zero")
    }

    #[cold]
    fn lease(&mut self) {
        // Relaxed: the numbers have to differ, but order no other memory.
        let lease = NEXT_LEASE.fetch_add(1, Ordering::Relaxed);
        self.last = lease.checked_mul(LEASE_SIZE).expect("2^64 timers in one process");
        self.end = self.last + (LEASE_SIZE - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two generations are equal: in a table, between two tables, and in any number of leases.
    #[test]
    fn generations_differ_within_and_between_tables() {
        let (mut a, mut b) = (Generations::default(), Generations::default());
        let mut seen = std::collections::HashSet::new();
        for _ in 0..3 * LEASE_SIZE {
            assert!(seen.insert(a.next()));
            assert!(seen.insert(b.next()));
        }
    }
}
