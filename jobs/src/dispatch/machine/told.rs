//! What was told already: so that each thing that cannot be read is one event, not one a second.
//!
//! Ground rules:
//!
//! - What is kept is bounded: a hash for each name, and [`MOST_TOLD`] of them at most. When they are full,
//!   they are forgotten, and what is found again is told again.
//! - Two names of one hash are told as one, which is as likely as guessing 64 bits.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// How many names are kept: 16 KiB or so.
const MOST_TOLD: usize = 1024;

/// The names of what was told.
#[derive(Default)]
pub(super) struct Told {
    hasher: RandomState,
    hashes: HashSet<u64>,
}

impl Told {
    /// Says whether this is to be told, and notes that it was.
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

    /// Promise: a thing that cannot be read is told once, and what is remembered of it has a bound.
    #[test]
    fn each_name_is_told_once_and_few_are_kept() {
        let mut told = Told::default();
        assert!(told.is_new("job 1") && !told.is_new("job 1"));
        for n in 0..10 * MOST_TOLD {
            told.is_new(&format!("schedule {n}"));
            assert!(told.hashes.len() <= MOST_TOLD);
            assert!(!told.is_new(&format!("schedule {n}")), "{n}");
        }
    }
}
