//! Occupancy: says which slots hold entries, with a bit for each slot and a summary bit for each
//! word of those.
//!
//! The search for the next occupied slot looks at a few words, however many slots lie empty before
//! it. Slots are numbered through all rings; the caller asks about the range that is one ring.
//!
//! Invariant: a summary bit is set exactly when its word is not zero.

use core::ops::Range;

const BITS: u32 = u64::BITS;

#[derive(Debug)]
pub(super) struct Occupancy {
    words: Box<[u64]>,
    summary: Box<[u64]>,
}

impl Occupancy {
    pub(super) fn new(slots: u32) -> Occupancy {
        let words = slots.div_ceil(BITS);
        let summary = words.div_ceil(BITS);
        Occupancy {
            words: vec![0; words as usize].into(),
            summary: vec![0; summary as usize].into(),
        }
    }

    pub(super) fn set(&mut self, slot: u32) {
        let word = slot / BITS;
        self.words[word as usize] |= 1 << (slot % BITS);
        self.summary[(word / BITS) as usize] |= 1 << (word % BITS);
    }

    pub(super) fn clear(&mut self, slot: u32) {
        let word = slot / BITS;
        self.words[word as usize] &= !(1 << (slot % BITS));
        if self.words[word as usize] == 0 {
            self.summary[(word / BITS) as usize] &= !(1 << (word % BITS));
        }
    }

    pub(super) fn is_set(&self, slot: u32) -> bool {
        self.words[(slot / BITS) as usize] & (1 << (slot % BITS)) != 0
    }

    /// Returns the first set bit in `range`.
    pub(super) fn first_in(&self, range: Range<u32>) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        let word = range.start / BITS;
        let here = self.words[word as usize] & (u64::MAX << (range.start % BITS));
        let found = if here != 0 {
            word * BITS + here.trailing_zeros()
        } else {
            let word = first_from(&self.summary, word + 1)?;
            word * BITS + self.words[word as usize].trailing_zeros()
        };
        (found < range.end).then_some(found)
    }

    /// Returns whether the summary agrees with the words.
    pub(super) fn is_summed(&self) -> bool {
        self.words.iter().enumerate().all(|(word, &bits)| {
            let summed = self.summary[word / BITS as usize] & (1 << (word as u32 % BITS)) != 0;
            summed == (bits != 0)
        })
    }
}

/// Returns the first set bit at or after `bit`.
fn first_from(words: &[u64], bit: u32) -> Option<u32> {
    let start = (bit / BITS) as usize;
    let first = words.get(start)? & (u64::MAX << (bit % BITS));
    if first != 0 {
        return Some(start as u32 * BITS + first.trailing_zeros());
    }
    let (skipped, &bits) = words[start + 1..].iter().enumerate().find(|&(_, &bits)| bits != 0)?;
    Some((start + 1 + skipped) as u32 * BITS + bits.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Random sets and clears of slots agree with a `BTreeSet`.
        #[test]
        fn occupancy_agrees_with_a_set(
            ops in prop::collection::vec((0_u32..9000, any::<bool>()), 1..60),
            from in 0_u32..9000, length in 0_u32..9000,
        ) {
            let (mut bits, mut model) = (Occupancy::new(9000), BTreeSet::new());
            for (slot, set) in ops {
                if set {
                    bits.set(slot);
                    model.insert(slot);
                } else {
                    bits.clear(slot);
                    model.remove(&slot);
                }
                prop_assert_eq!(bits.is_set(slot), set);
                prop_assert!(bits.is_summed());
                let range = from..(from + length).min(9000);
                let expected = range.clone().find(|s| model.contains(s));
                prop_assert_eq!(bits.first_in(range), expected);
                for &start in &model {
                    prop_assert_eq!(bits.first_in(start..9000), Some(start));
                    let after = model.range(start + 1..).next().copied();
                    prop_assert_eq!(bits.first_in(start + 1..9000), after);
                }
            }
        }
    }

    /// A search of an empty range finds no slot.
    #[test]
    fn range_that_is_empty_holds_no_slot() {
        let mut bits = Occupancy::new(64);
        bits.set(63);
        assert_eq!(bits.first_in(63..63), None);
        assert_eq!(bits.first_in(64..64), None);
        assert_eq!(bits.first_in(0..63), None);
        assert_eq!(bits.first_in(0..64), Some(63));
    }

    /// `is_summed` finds a summary that does not agree with its bits.
    #[test]
    fn summary_that_is_wrong_is_found() {
        let mut bits = Occupancy::new(128);
        bits.set(70);
        bits.summary[0] = 0;
        assert!(!bits.is_summed());
    }
}
