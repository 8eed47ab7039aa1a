//! The names of unreadable jobs and schedules that were reported, so that each causes one event only.
//!
//! Ground rules:
//!
//! - The memory is bounded: a hash for each name, and at most [`MOST_TOLD`] of them. When it is full, it is
//!   cleared, and names that are found again are reported again.
//! - Two names with one hash are reported as one: the chance is 1 in 2^64.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// How many names are kept: 16 KiB or so.
const MOST_TOLD: usize = 1024;

/// The names that were reported, as hashes.
#[derive(Default)]
pub(super) struct Told {
    hasher: RandomState,
    hashes: HashSet<u64>,
}

impl Told {
    /// Says whether this name is to be reported, and notes it.
    pub(super) fn is_new(&mut self, name: &str) -> bool {
        let hash = self.hasher.hash_one(name);
        if self.hashes.contains(&hash) {
            return false;
        }
        if self.hashes.len() >= MOST_TOLD {
            self.hashes.clear();
        }
        self.hashes.insert(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each unreadable job or schedule is reported once, and the number of remembered names has a bound.
    #[test]
    fn unreadable_names_are_reported_once_and_few_are_kept() {
        let mut told = Told::default();
        assert!(told.is_new("job 1") && !told.is_new("job 1"));
        for n in 0..10 * MOST_TOLD {
            told.is_new(&format!("schedule {n}"));
            assert!(told.hashes.len() <= MOST_TOLD);
            assert!(!told.is_new(&format!("schedule {n}")), "{n}");
        }
    }
}
