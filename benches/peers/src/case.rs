//! What is measured: a case, and the figures that come out of it.

/// One measurement, in a process of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Case {
    /// `structures`, `threads` or `futures`.
    pub suite: String,
    /// What is done: `pairs`, `drain`, ...
    pub work: String,
    /// By whom.
    pub peer: String,
    /// How many timers are pending, or how many producers there are: what the work says.
    pub size: usize,
    /// How delays are distributed, or what is woken, where there is a choice; otherwise `-`.
    pub delays: String,
}

/// A number that came out of a case.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    pub name: String,
    pub value: f64,
}

/// A part of the comparison.
pub struct Suite {
    pub name: &'static str,
    /// Whether its cases are pinned to one core.
    pub pinned: bool,
    /// Its cases in the order of the report, each with how often it is repeated; the short form measures next to nothing.
    pub cases: fn(short: bool) -> Vec<(Case, usize)>,
    /// Runs one case, in this process.
    pub measure: fn(&Case, short: bool) -> Result<Vec<Figure>, String>,
    /// Runs every peer against what is expected of a timer: for each, the name and "exact" or its deviation.
    pub verify: fn() -> Vec<(&'static str, String)>,
}
