//! A row, a contender and a level, and the figures of them.

use crate::case;
use crate::results::Results;

/// The contender that is ours.
pub const OURS: &str = "ours";
/// The contender that is no queue: it measures the disk alone.
pub const DISK: &str = "disk";

/// One measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    pub row: String,
    pub contender: String,
    /// How durable an answer is.
    pub level: String,
}

impl Case {
    pub fn new(row: &str, contender: &str, level: &str) -> Case {
        Case { row: row.to_owned(), contender: contender.to_owned(), level: level.to_owned() }
    }
}

impl case::Case for Case {
    const FIELDS: &'static str = "row,contender,level";

    fn fields(&self) -> Vec<String> {
        vec![self.row.clone(), self.contender.clone(), self.level.clone()]
    }

    fn parse(fields: &[&str]) -> Option<Case> {
        let [row, contender, level] = fields else { return None };
        Some(Case::new(row, contender, level))
    }

    fn part(&self) -> &str {
        &self.row
    }

    fn takes_turns_with(&self, other: &Case) -> bool {
        self.row == other.row
    }

    fn replaces(&self, older: &Case) -> bool {
        self == older
    }
}

impl Results<Case> {
    /// The cases of a row.
    pub fn of_row(&self, row: &str) -> Vec<&Case> {
        self.cases(|case| case.row == row)
    }

    /// The median of a figure.
    pub fn median(&self, row: &str, contender: &str, level: &str, figure: &str) -> Option<f64> {
        Some(self.spread(&Case::new(row, contender, level), figure)?.median)
    }

    /// The median of a figure of ours.
    pub fn ours(&self, row: &str, level: &str, figure: &str) -> Option<f64> {
        self.median(row, OURS, level, figure)
    }

    /// The largest value that any repetition of ours gave for a figure.
    pub fn worst(&self, row: &str, level: &str, figure: &str) -> Option<f64> {
        Some(self.spread(&Case::new(row, OURS, level), figure)?.max)
    }
}
