//! Goes through rounds, rows and contenders.
//!
//! Ground rules:
//!
//! - A measurement has a server and processes of its own.
//! - Repetitions are interleaved: a first round of all contenders, then a second.
//! - A measurement that fails is reported, and the others go on.

use std::time::Instant;

use crate::options::Options;
use crate::plan::{CONTENDERS, Contender, EVERYSEC, OURS, ROWS, Row};
use crate::results::{Case, Results};
use crate::rows::Setting;
use crate::server::Server;
use crate::starts::Figures;
use crate::{Fallible, build, machine};

/// Measures every chosen row. Returns the figures, and what ours did that it must never do.
pub(crate) fn all(options: &Options) -> Fallible<(Results, Vec<String>)> {
    let mut contenders = Vec::new();
    for contender in CONTENDERS.iter().filter(|known| options.has_contender(known.name)) {
        if build::build(contender)? {
            contenders.push(contender);
        }
    }
    let (mut results, mut faults) = (Results::default(), Vec::new());
    let start = Instant::now();
    for row in ROWS.iter().filter(|row| options.has_row(row.name)) {
        let rounds = options.rounds.unwrap_or(if options.short { 1 } else { row.rounds });
        results.measured(row.name, machine::describe());
        for round in 1..=rounds {
            for contender in contenders.iter().copied().filter(|contender| row.is_for(contender)) {
                let seconds = start.elapsed().as_secs();
                eprintln!("[{seconds} s] {}, {}, round {round}", row.name, contender.name);
                let case = case(row, contender);
                match measure(row, contender, options.short) {
                    Ok(figures) => {
                        faults.extend(faults_of(&case, &figures));
                        results.add(&case, &figures);
                    }
                    Err(error) => {
                        eprintln!("failed: {error}");
                        if contender.name == OURS {
                            faults.push(format!("{}: {error}", row.name));
                        }
                    }
                }
            }
        }
    }
    Ok((results, faults))
}

fn case(row: &Row, contender: &Contender) -> Case {
    Case { row: row.name.into(), contender: contender.name.into(), level: EVERYSEC.into() }
}

fn measure(row: &'static Row, contender: &'static Contender, short: bool) -> Fallible<Figures> {
    let mut server = Server::start()?;
    (row.measure)(&Setting { contender, row, short }, &mut server)
}

/// What ours must never do. A peer that does it is a figure in a table.
fn faults_of(case: &Case, figures: &Figures) -> Vec<String> {
    let bad = |(name, value): &&(String, f64)| {
        case.contender == OURS
            && matches!(name.as_str(), "lost" | "twice" | "early" | "strange")
            && *value != 0.0
    };
    figures.iter().filter(bad).map(|(name, value)| format!("{case:?}: {name} {value}")).collect()
}
