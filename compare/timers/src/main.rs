//! Measures `tickwheel` beside other timers, and writes the figures down.
//!
//! ```text
//! cargo run --release                                measure everything (three quarters of an hour); write figures, tables, plots
//! cargo run --release -- --short                     run every case once, as short as it gets
//! cargo run --release -- --only structures/pairs     measure a part, print it, write nothing
//! cargo run --release -- --verify                    only look whether timers fire when they should
//! cargo run --release -- --report                    tables and plots again, from the figures there are
//! ```
//!
//! | file | what it does |
//! | --- | --- |
//! | `case.rs` | defines a measurement |
//! | `structures/` | the suite of single-threaded structures |
//! | `threads/` | the suite of timers with threads of their own |
//! | `futures/` | the suite of sleeps and timeouts in tasks |
//! | `options.rs` | reads the command line |
//! | `results.rs` | finds the works, peers and sizes of the figures in `figures.csv` |
//! | `run.rs` | starts a process for each measurement |
//! | `layout.rs` | the contents of the report, as data |
//! | `tables.rs` | makes the tables of `docs/performance.md` |
//! | `plot.rs` | makes the drawings in `docs/plots/` |
//! | `../harness/` | rounds, files of figures, pages: what all comparisons have in common |

#![forbid(unsafe_code)]

mod case;
mod structures;
mod threads;
mod futures;
mod options;
mod results;
mod run;
mod layout;
mod tables;
mod plot;

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use harness::Fallible;
use harness::options::{Action, Words};
use harness::report::Comparison;

use case::{Case, Suite};
use options::{Command, Options};
use results::Results;

fn main() -> ExitCode {
    let suites = [structures::suite(), threads::suite(), futures::suite()];
    let words = Words::new(std::env::args().skip(1));
    match options::parse(words).and_then(|command| act(command, &suites)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("timers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The comparison with other timers.
struct Timers;

impl Comparison for Timers {
    type Case = Case;

    fn page(&self) -> PathBuf {
        Path::new(run::HOME).join("../../docs/performance.md")
    }

    fn file(&self) -> PathBuf {
        Path::new(run::HOME).join("figures.csv")
    }

    fn order(&self, a: &Case, b: &Case) -> Ordering {
        a.suite.cmp(&b.suite)
    }

    fn tables(&self, results: &Results) -> Vec<(String, String)> {
        tables::of_page(results)
    }

    fn draw(&self, results: &Results, folder: &Path) -> Fallible {
        plot::write(results, folder)
    }
}

fn act(command: Command, suites: &[Suite]) -> Fallible {
    let options = match command {
        Command::MeasureHere { case, short } => return run::measure_here(suites, &case, short),
        Command::VerifyHere { suite } => return run::verify_here(suites, &suite),
        Command::Do(options) => options,
    };
    match options.common.action {
        Action::Help => println!("{}", options::USAGE),
        Action::Measure if options.verify => {
            print!("{}", tables::verification(&run::verify(suites, &options)?));
        }
        Action::Report => Timers.report(&Timers.figures()?)?,
        Action::Measure => measure_all(suites, &options)?,
    }
    Ok(())
}

fn measure_all(suites: &[Suite], options: &Options) -> Fallible {
    let mut results =
        if options.writes() { run::verify(suites, options)? } else { Results::default() };
    let measured = run::all(suites, options);
    results.extend(measured.results);
    if options.writes() {
        Timers.keep(results)?;
    } else if !options.common.short {
        print!("{}", tables::plain(&results));
    }
    match measured.failed.len() {
        0 => Ok(()),
        failed => Err(format!("{failed} measurements failed")),
    }
}
