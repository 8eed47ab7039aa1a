//! The trait of a measurement, and the figures that it gives.

use std::fmt::Debug;

/// The figures of a measurement: numbers, each with its name.
pub type Figures = Vec<(String, f64)>;

/// A number with its name.
pub fn figure(name: &str, value: f64) -> (String, f64) {
    (name.to_owned(), value)
}

/// One measurement, in a process of its own. Its fields have no commas.
pub trait Case: Clone + PartialEq + Debug {
    /// The names of its fields, separated by commas: the first line of the file of figures begins with them.
    const FIELDS: &'static str;

    /// Its fields as the file of figures has them.
    fn fields(&self) -> Vec<String>;

    /// Reads the text that `fields` wrote.
    fn parse(fields: &[&str]) -> Option<Self>;

    /// The part of the comparison that it belongs to. The file of figures says once for each part where it
    /// was measured.
    fn part(&self) -> &str;

    /// Whether two cases are interleaved: a first round of both, then a second.
    fn takes_turns_with(&self, other: &Self) -> bool;

    /// Whether the figures of an older case are dropped when this one was measured anew.
    fn replaces(&self, older: &Self) -> bool;
}
