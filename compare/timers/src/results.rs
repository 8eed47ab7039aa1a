//! Questions to the figures: works, peers, sizes and verifications.
//!
//! A verification is a case too: its work is `verify`, and its outcome is the name of its figure.

use harness::case::figure;
use harness::results::distinct;

use crate::case::Case;

pub(crate) type Results = harness::results::Results<Case>;

const VERIFY: &str = "verify";

/// Notes whether a peer fired each timer when it should: "exact", or the deviation.
pub(crate) fn verified(results: &mut Results, suite: &str, peer: &str, outcome: &str) {
    // The file has commas of its own.
    let outcome = figure(&outcome.replace(',', ";"), 1.0);
    results.add(&Case::new(suite, VERIFY, peer, 0, "-"), vec![outcome]);
}

/// The outcome of a verification.
pub(crate) fn outcome<'a>(results: &'a Results, suite: &str, peer: &str) -> Option<&'a str> {
    results.figures(&Case::new(suite, VERIFY, peer, 0, "-")).first().copied()
}

/// The peers that were verified.
pub(crate) fn verified_peers<'a>(results: &'a Results, suite: &str) -> Vec<&'a str> {
    peers(results, suite, VERIFY, "-")
}

/// All suites, in the order of the report.
pub(crate) fn suites(results: &Results) -> Vec<&str> {
    distinct(results.lines().map(|line| line.case.suite.as_str()))
}

/// The peers that did a work, in the order of the report.
pub(crate) fn peers<'a>(
    results: &'a Results,
    suite: &str,
    work: &str,
    delays: &str,
) -> Vec<&'a str> {
    let cases = of(results, suite, work, delays);
    distinct(cases.into_iter().map(|case| case.peer.as_str()))
}

/// The sizes at which a work was done, the smallest first.
pub(crate) fn sizes(results: &Results, suite: &str, work: &str, delays: &str) -> Vec<usize> {
    let cases = of(results, suite, work, delays);
    let mut sizes = distinct(cases.into_iter().map(|case| case.size));
    sizes.sort_unstable();
    sizes
}

fn of<'a>(results: &'a Results, suite: &str, work: &str, delays: &str) -> Vec<&'a Case> {
    results.cases(|case| case.suite == suite && case.work == work && case.delays == delays)
}
