//! The budget of one advance: how many entries it may still look at.
//!
//! Ground rule: a function takes from the [`Budget`] *before* it looks, one for each entry. When
//! nothing is left it returns [`OutOfBudget`], which every caller passes on; so the work that was
//! not reached stays where it is, and the next advance finds it.

/// How many more entries an advance may look at.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

/// The budget was used up before the work was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutOfBudget;

impl Budget {
    pub(super) fn new(entries: usize) -> Budget {
        Budget { left: entries }
    }

    /// Returns how many entries may still be looked at.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Takes the cost of looking at `wanted` entries, or as much of it as is left. Returns how many
    /// entries have been paid for.
    #[inline]
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        let granted = wanted.min(self.left);
        self.left -= granted;
        granted
    }

    /// Takes the cost of looking at `wanted` entries, or nothing if less than that is left. Returns
    /// whether they have been paid for.
    #[inline]
    pub(super) fn take_all(&mut self, wanted: usize) -> bool {
        let enough = wanted <= self.left;
        if enough {
            self.left -= wanted;
        }
        enough
    }
}
