//! The handle: identifies one job of a wheel for the user, by a number that is given once in the life of a process.
//!
//! Ground rules:
//!
//! - Every [`Generation`] of every handle table comes from one counter of 64 bits. So a key that is stale, or that
//!   belongs to another table, never matches: at a billion inserts a second the counter lasts 584 years. A table leases
//!   [`LEASE_SIZE`] numbers at a time, so it touches the shared counter once per that many inserts.
//! - A one-shot job's handle is the key under which it lies in its shard's hierarchy, and the shard's number.
//! - A *re-armable* job enters the hierarchy several times, each time under another key. Its handle names its
//!   registration in the shard's registry. The shard's number in such a handle is marked and matches no shard. So a
//!   verb for one-shot jobs never mistakes such a handle for one of its own, and needs no extra check.

use core::fmt;
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

/// Names one job of one [`Wheel`](crate::Wheel), for ever: a handle is never given twice in the
/// life of a process. It becomes stale when its job is no longer
/// [pending](crate::Wheel::is_pending). With a stale handle, or a handle of another wheel, every verb
/// does nothing and returns `false` or `None`.
///
/// 16 bytes, `Copy`; `Option<Handle>` is no larger. Dropping a handle does nothing to the job; a
/// [`Guard`](crate::Guard) cancels it. The order of handles has no meaning; it exists for ordered
/// maps.
///
/// ```
/// use tickwheel::Handle;
/// assert_eq!(size_of::<Option<Handle>>(), 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    generation: Generation,
    /// The index in the low half, and the shard's number in the high half, marked with
    /// [`REARMABLE`] for a re-armable job. One word for both, so that a handle travels in two
    /// registers. As three fields it went through memory, where a load of the whole handle waited
    /// for three stores.
    location: u64,
}

/// Marks the shard's number of a re-armable job. Larger than the number of any shard.
const REARMABLE: u32 = 1 << 31;

impl Handle {
    pub(crate) fn new(shard: u32, generation: Generation, index: u32) -> Handle {
        Handle { generation, location: u64::from(shard) << 32 | u64::from(index) }
    }

    pub(crate) fn rearmable(shard: u32, generation: Generation, index: u32) -> Handle {
        Handle::new(shard | REARMABLE, generation, index)
    }

    pub(crate) fn generation(self) -> Generation {
        self.generation
    }

    pub(crate) fn index(self) -> u32 {
        self.location as u32
    }

    /// Returns the number of the shard. For a re-armable job this is no shard's number.
    pub(crate) fn shard(self) -> u32 {
        (self.location >> 32) as u32
    }

    /// Returns the number of the shard whose registry holds the job, if the job is re-armable.
    pub(crate) fn rearmable_shard(self) -> Option<u32> {
        (self.shard() & REARMABLE != 0).then_some(self.shard() & !REARMABLE)
    }
}

impl fmt::Debug for Handle {
    /// Writes the generation, which alone tells a handle from every other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.generation)
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
