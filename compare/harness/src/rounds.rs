//! Measures all cases.
//!
//! Ground rules:
//!
//! - Repetitions are interleaved: cases that are compared with each other have a first round of
//!   all, then a second. So other work on the machine affects all of them.
//! - A measurement that fails is reported, and the others go on.

use std::time::Instant;

use crate::Fallible;
use crate::case::{Case, Figures};
use crate::machine;
use crate::results::Results;

/// The outcome of all rounds.
pub struct Measured<C> {
    pub results: Results<C>,
    /// The cases that failed, each with its error.
    pub failed: Vec<(C, String)>,
}

/// Measures each case in its number of rounds. `version` is the version of our crate.
pub fn all<C: Case>(
    cases: &[(C, usize)],
    version: &str,
    mut measure: impl FnMut(&C) -> Fallible<Figures>,
) -> Measured<C> {
    let total: usize = cases.iter().map(|(_, rounds)| rounds).sum();
    let (start, mut done) = (Instant::now(), 0);
    let (mut results, mut failed) = (Results::default(), Vec::new());
    for compared in cases.chunk_by(|(a, _), (b, _)| a.takes_turns_with(b)) {
        results.measured(compared[0].0.part(), machine::describe(version));
        let rounds = compared.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0);
        for round in 0..rounds {
            for (case, _) in compared.iter().filter(|(_, rounds)| round < *rounds) {
                done += 1;
                let seconds = start.elapsed().as_secs();
                eprintln!("[{done}/{total}, {seconds} s] {}", case.fields().join(" "));
                match measure(case) {
                    Ok(figures) => results.add(case, figures),
                    Err(error) => {
                        eprintln!("failed: {error}");
                        failed.push((case.clone(), error));
                    }
                }
            }
        }
    }
    Measured { results, failed }
}
