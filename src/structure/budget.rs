//! The budget of one advance: how many entries it may still look at, and whether it may take any out.
//!
//! Ground rules:
//!
//! - A function takes from the [`Budget`] *before* it looks, one for each entry. When nothing is
//!   left it returns [`OutOfBudget`], which every caller passes on. So the work that was not
//!   reached stays where it is, and the next advance finds it.
//! - A budget of looks ([`Budget::of_looks`]) takes no timer out: the first one that is due ends
//!   the advance, as an empty budget would. So [`Budget::take_all`] grants it nothing: the visits
//!   that pay for a whole slot empty it, and cannot stop half-way.

/// How many more entries an advance may look at.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    /// The rest of a budget of looks, whose `left` is zero.
    looks_left: usize,
    looks_alone: bool,
    /// A look found a timer that is due.
    found_due: bool,
}

/// The budget was used up before the work was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutOfBudget;

impl Budget {
    pub(super) fn new(entries: usize) -> Budget {
        Budget { left: entries, looks_left: 0, looks_alone: false, found_due: false }
    }

    /// Returns a budget for `entries` looks, which takes no timer out.
    pub(super) fn of_looks(entries: usize) -> Budget {
        Budget { left: 0, looks_left: entries, looks_alone: true, found_due: false }
    }

    /// Returns whether this is a budget of looks.
    pub(super) fn is_of_looks(&self) -> bool {
        self.looks_alone
    }

    /// Notes that a look found a timer that is due.
    pub(super) fn note_due(&mut self) {
        self.found_due = true;
    }

    /// Returns whether a look found a timer that is due.
    pub(super) fn found_due(&self) -> bool {
        self.found_due
    }

    /// Returns how many entries may still be looked at.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Takes the cost of `wanted` entries, or as much as is left. Returns how many entries have
    /// been paid for.
    #[inline]
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        if self.left == 0 {
            return self.take_looks(wanted);
        }
        let granted = wanted.min(self.left);
        self.left -= granted;
        granted
    }

    #[cold]
    fn take_looks(&mut self, wanted: usize) -> usize {
        let granted = wanted.min(self.looks_left);
        self.looks_left -= granted;
        granted
    }

    /// Takes the cost of `wanted` entries, or nothing if less is left. Returns whether they have
    /// been paid for.
    #[inline]
    pub(super) fn take_all(&mut self, wanted: usize) -> bool {
        let enough = wanted <= self.left;
        if enough {
            self.left -= wanted;
        }
        enough
    }
}
