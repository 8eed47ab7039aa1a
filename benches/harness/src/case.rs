//! What a measurement is, and what comes out of it.

use std::fmt::Debug;

/// The numbers that came out of a measurement, each with its name.
pub type Figures = Vec<(String, f64)>;

/// A number with its name.
pub fn figure(name: &str, value: f64) -> (String, f64) {
    (name.to_owned(), value)
}

/// One measurement, in a process of its own. Its fields have no commas.
pub trait Case: Clone + PartialEq + Debug {
    /// The names of its fields, between commas: how the file of figures begins.
    const FIELDS: &'static str;

    /// Its fields as the file of figures has them.
    fn fields(&self) -> Vec<String>;

    /// Reads what `fields` gave.
    fn parse(fields: &[&str]) -> Option<Self>;

    /// The part of the comparison that it belongs to. Where a part was measured is written once.
    fn part(&self) -> &str;

    /// Whether two cases are measured in turn: a first round of both, then a second.
    fn takes_turns_with(&self, other: &Self) -> bool;

    /// Whether the figures of an older case are dropped when this one was measured anew.
    fn replaces(&self, older: &Self) -> bool;
}
