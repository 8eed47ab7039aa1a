//! Measures cases, each in a process of its own, so that no allocator, cache or branch predictor
//! remembers the case before.

use std::env;
use std::process::Command;
use std::time::Duration;

use harness::case::{Case as _, Figures};
use harness::rounds::{self, Measured};
use harness::{Fallible, process, versions};

use crate::case::{Case, Suite};
use crate::options::Options;
use crate::results::{Results, verified};

/// The folder of the source.
pub(crate) const HOME: &str = env!("CARGO_MANIFEST_DIR");
/// The time limit of a measurement. One that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs one case here and prints its figures.
pub(crate) fn measure_here(suites: &[Suite], case: &Case, short: bool) -> Fallible {
    let suite = find(suites, &case.suite)?;
    if suite.pinned {
        pin();
    }
    for (name, value) in (suite.measure)(case, short)? {
        println!("{name} {value}");
    }
    Ok(())
}

/// Keeps this process on the second core, the first being that of interrupts on many machines; on
/// the first if there is no other.
fn pin() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(&core) = cores.get(1).or(cores.first())
        && !core_affinity::set_for_current(core)
    {
        eprintln!("timers: could not be pinned to a core");
    }
}

/// Checks in this process whether the peers of a suite are exact, and prints a line for each.
pub(crate) fn verify_here(suites: &[Suite], suite: &str) -> Fallible {
    for (peer, outcome) in (find(suites, suite)?.verify)() {
        println!("{peer}\t{outcome}");
    }
    Ok(())
}

fn find<'a>(suites: &'a [Suite], name: &str) -> Fallible<&'a Suite> {
    let suite = suites.iter().find(|suite| suite.name == name);
    suite.ok_or_else(|| format!("no suite is called `{name}`"))
}

/// Checks whether the peers of the chosen suites are exact, each suite in a process of its own.
pub(crate) fn verify(suites: &[Suite], options: &Options) -> Fallible<Results> {
    let mut results = Results::default();
    for suite in suites.iter().filter(|suite| options.has_suite(suite.name)) {
        eprintln!("{}: does every timer fire when it should?", suite.name);
        let lines = process::output(this()?.args(["verify", suite.name]), Duration::MAX)?;
        for (peer, outcome) in lines.lines().filter_map(|line| line.split_once('\t')) {
            verified(&mut results, suite.name, peer, outcome);
        }
    }
    Ok(results)
}

/// Measures every chosen case.
pub(crate) fn all(suites: &[Suite], options: &Options) -> Measured<Case> {
    let short = options.common.short;
    let cases = suites.iter().flat_map(|suite| (suite.cases)(short));
    let chosen: Vec<(Case, usize)> = cases
        .filter(|(case, _)| options.has(case))
        .map(|(case, rounds)| (case, options.common.rounds.unwrap_or(rounds)))
        .collect();
    let version = versions::locked(HOME.as_ref(), "tickwheel").unwrap_or_default();
    rounds::all(&chosen, &version, |case| figures(case, short))
}

fn figures(case: &Case, short: bool) -> Fallible<Figures> {
    let mut command = this()?;
    command.arg("measure").args(case.fields()).args(short.then_some("--short"));
    process::figures(&mut command, PATIENCE)
}

/// A command that starts this program once more.
fn this() -> Fallible<Command> {
    env::current_exe().map(Command::new).map_err(|error| error.to_string())
}
