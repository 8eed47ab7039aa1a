//! How many rows a commit moves or deletes beside its operations: as many as take some 10 ms.
//!
//! Ground rules:
//!
//! - What a row costs depends on how many rows share a page with it: a hundred times as much where each is
//!   on a page of its own. So no fixed number of rows is both short and fast.
//! - A transaction that took longer than [`LONGEST`] halves the number; one that took less than a third of
//!   it doubles the number.
//! - Only the time before the `COMMIT` counts. What the disk takes there, and what a checkpoint takes, does
//!   not become less with fewer rows, and would come more often.

use std::time::Duration;

/// A transaction with such rows should not take longer than this. Its `COMMIT` takes about as long again.
const LONGEST: Duration = Duration::from_millis(10);
const FEWEST_ROWS: usize = 256;
const FIRST_ROWS: usize = 1024;
const MOST_ROWS: usize = 16_384;

/// How many rows the next commit takes.
pub(crate) struct Pace {
    rows: usize,
    /// How many rows this commit has taken.
    done: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { rows: FIRST_ROWS, done: 0 }
    }
}

impl Pace {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// This commit takes so many rows.
    pub(crate) fn takes(&mut self, rows: usize) {
        self.done += rows;
    }

    /// This transaction took so long before its `COMMIT`, whatever else it did.
    pub(crate) fn took(&mut self, took: Duration) {
        let done = core::mem::take(&mut self.done);
        if done == 0 {
            return;
        }
        if took > LONGEST {
            self.rows = (self.rows.min(done) / 2).max(FEWEST_ROWS);
        } else if done >= self.rows && took < LONGEST / 3 {
            self.rows = (self.rows * 2).min(MOST_ROWS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Promise: a commit that moves or deletes rows takes fewer after one that was long, and more after
    /// one that was short, within bounds.
    #[test]
    fn the_rows_of_a_commit_follow_its_time() {
        let mut pace = Pace::default();
        let mut commit = |rows: usize, took: Duration| {
            pace.takes(rows);
            pace.took(took);
            pace.rows()
        };
        assert_eq!(commit(1024, 50 * MS), 512);
        assert_eq!(commit(512, 9 * MS), 512);
        assert_eq!(commit(512, MS), 1024);
        assert_eq!(commit(0, 50 * MS), 1024, "it had no such rows");
        assert_eq!(commit(10, MS), 1024, "a commit of few rows says nothing of many");
        assert_eq!(commit(600, 50 * MS), 300);
        for rows in [300, 600, 1200, 2400, 4800, 9600, 16_384, 16_384] {
            commit(rows, MS);
        }
        assert_eq!(commit(16_384, MS), MOST_ROWS);
        for _ in 0..20 {
            commit(MOST_ROWS, 50 * MS);
        }
        assert_eq!(commit(0, MS), FEWEST_ROWS);
    }
}
