//! How many rows a commit moves or deletes beside its operations: as many as it can in about 20 ms.
//!
//! Ground rules:
//!
//! - The cost of a row depends on how many rows share its page: a row on a page of its own costs a hundred
//!   times as much. So no fixed number of rows is both short and fast.
//! - If the rows of a commit took longer than [`LONGEST`], the number is halved. If they took less than a third of
//!   it, the number is doubled.
//! - Only the time of these rows counts. That of the operations beside them, of the disk and of a checkpoint does not
//!   become shorter with fewer rows. It would be spent more often, and so would be the pages that the rows share.

use std::time::{Duration, Instant};

/// The rows that a commit moves or deletes should not take longer than this. The `COMMIT` takes about as long again.
const LONGEST: Duration = Duration::from_millis(20);
const FEWEST_ROWS: usize = 256;
const FIRST_ROWS: usize = 1024;
const MOST_ROWS: usize = 16_384;

/// How many rows the next commit may move or delete.
pub(crate) struct Pace {
    rows: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { rows: FIRST_ROWS }
    }
}

impl Pace {
    /// Begins the moves or deletions of a commit. Returns how many rows it may move or delete, and the present.
    #[expect(clippy::disallowed_methods, reason = "no decision about a job depends on it")]
    pub(crate) fn begin(&self) -> (usize, Instant) {
        (self.rows, Instant::now())
    }

    /// Adjusts the number of rows to the time since `begun`, in which a commit has moved or deleted `done` rows.
    pub(crate) fn end(&mut self, done: usize, begun: Instant) {
        self.took(done, begun.elapsed());
    }

    fn took(&mut self, done: usize, took: Duration) {
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

    /// P79: After a long commit the next one moves or deletes fewer rows, after a short one more, within bounds.
    #[test]
    fn rows_of_a_commit_follow_the_time_of_the_one_before() {
        let mut pace = Pace::default();
        let mut commit = |rows: usize, took: Duration| {
            pace.took(rows, took);
            pace.rows
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
