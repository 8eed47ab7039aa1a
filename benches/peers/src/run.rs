//! Starts a process for each measurement, and collects what it prints.
//!
//! Ground rules:
//!
//! - A measurement has a process of its own: no allocator, cache or branch predictor remembers the
//!   one before it.
//! - Repetitions are interleaved. A row of a table has a first round of all its peers, then a second:
//!   what the machine does meanwhile happens to all of them.
//! - A measurement that fails is reported, and the others go on.

use std::env;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Case, Figure, Suite};
use crate::machine;
use crate::options::Options;
use crate::results::Results;

/// How long a measurement may take: one that hangs is a failure like any other.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs one case here and prints its figures.
pub(crate) fn measure(suites: &[Suite], case: &Case, short: bool) -> Result<(), String> {
    let suite = find(suites, &case.suite)?;
    if suite.pinned {
        pin();
    }
    thread::spawn(|| {
        thread::sleep(PATIENCE);
        eprintln!("peers: not done after {PATIENCE:?}");
        process::exit(1);
    });
    for Figure { name, value } in (suite.measure)(case, short)? {
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
        eprintln!("peers: could not be pinned to a core");
    }
}

/// Looks here whether the peers of a suite are exact, and prints a line for each.
pub(crate) fn verify_here(suites: &[Suite], suite: &str) -> Result<(), String> {
    for (peer, outcome) in (find(suites, suite)?.verify)() {
        println!("{peer}\t{outcome}");
    }
    Ok(())
}

fn find<'a>(suites: &'a [Suite], name: &str) -> Result<&'a Suite, String> {
    let suite = suites.iter().find(|suite| suite.name == name);
    suite.ok_or_else(|| format!("no suite is called `{name}`"))
}

/// Looks whether the peers of the chosen suites are exact.
pub(crate) fn verify(suites: &[Suite], options: &Options) -> Result<Results, String> {
    let mut results = Results::default();
    for suite in suites.iter().filter(|suite| options.has_suite(suite.name)) {
        eprintln!("{}: does every timer fire when it should?", suite.name);
        for line in child(&["verify", suite.name])?.lines() {
            if let Some((peer, outcome)) = line.split_once('\t') {
                results.verified(suite.name, peer, outcome);
            }
        }
    }
    Ok(results)
}

/// Measures every chosen case; how many failed.
pub(crate) fn all(suites: &[Suite], options: &Options, results: &mut Results) -> usize {
    let chosen: Vec<(Case, usize)> = suites
        .iter()
        .flat_map(|suite| (suite.cases)(options.short))
        .filter(|(case, _)| options.has(case))
        .map(|(case, rounds)| (case, options.rounds.unwrap_or(rounds)))
        .collect();
    let total: usize = chosen.iter().map(|(_, rounds)| rounds).sum();
    let (start, mut done, mut failed) = (Instant::now(), 0, 0);
    for row in chosen.chunk_by(|(a, _), (b, _)| same_row(a, b)) {
        results.measured_on(&row[0].0.suite, machine::describe());
        let rounds = row.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0);
        for round in 0..rounds {
            for (case, _) in row.iter().filter(|(_, rounds)| round < *rounds) {
                done += 1;
                let seconds = start.elapsed().as_secs();
                eprintln!("[{done}/{total}, {seconds} s] {}", words(case).join(" "));
                match figures(case, options.short) {
                    Ok(figures) => results.add(case, figures),
                    Err(error) => {
                        failed += 1;
                        eprintln!("failed: {error}");
                    }
                }
            }
        }
    }
    failed
}

/// Whether two cases differ in the peer alone.
fn same_row(a: &Case, b: &Case) -> bool {
    (&a.suite, &a.work, &a.delays, a.size) == (&b.suite, &b.work, &b.delays, b.size)
}

fn words(case: &Case) -> [String; 5] {
    let Case { suite, work, peer, size, delays } = case.clone();
    [suite, work, peer, size.to_string(), delays]
}

/// Measures a case in a process of its own.
fn figures(case: &Case, short: bool) -> Result<Vec<Figure>, String> {
    let case = words(case);
    let mut words = vec!["measure"];
    words.extend(case.iter().map(String::as_str));
    if short {
        words.push("--short");
    }
    child(&words)?.lines().map(figure).collect()
}

fn figure(line: &str) -> Result<Figure, String> {
    let parsed = line.split_once(' ').and_then(|(name, value)| {
        Some(Figure { name: name.to_owned(), value: value.trim().parse().ok()? })
    });
    parsed.ok_or_else(|| format!("`{line}` is no figure"))
}

/// What this program prints when it is started with these words. Its complaints go where ours go.
fn child(words: &[&str]) -> Result<String, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = process::Command::new(program);
    let output = command.args(words).stderr(process::Stdio::inherit()).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", words.join(" "), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
