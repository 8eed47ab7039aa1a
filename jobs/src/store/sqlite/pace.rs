//! How many rows a commit moves or deletes beside its operations: as many as it can in about 10 ms.
//!
//! Ground rules:
//!
//! - The cost of a row depends on how many rows share its page: a row on a page of its own costs a hundred
//!   times as much. So no fixed number of rows is both short and fast.
//! - A transaction that took longer than [`LONGEST`] halves the number. One that took less than a third of
//!   it doubles the number.
//! - Only the time before the `COMMIT` counts. The time of the disk and of a checkpoint does not become
//!   shorter with fewer rows, and would be spent more often.

use std::time::Duration;

/// A transaction that moves or deletes rows should not take longer than this. Its `COMMIT` takes about as long
/// again.
const LONGEST: Duration = Duration::from_millis(10);
const FEWEST_ROWS: usize = 256;
const FIRST_ROWS: usize = 1024;
const MOST_ROWS: usize = 16_384;

/// How many rows the next commit may move or delete.
pub(crate) struct Pace {
    rows: usize,
    /// How many rows this commit has moved or deleted.
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

    /// Counts rows that this commit moves or deletes.
    pub(crate) fn takes(&mut self, rows: usize) {
        self.done += rows;
    }

    /// Adjusts the number of rows to `took`: how long the whole transaction took before its `COMMIT`.
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

    /// After a long commit the next one moves or deletes fewer rows, after a short one more, within bounds.
    #[test]
    fn rows_of_a_commit_follow_the_time_of_the_one_before() {
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
