//! Measures `tickwheel` beside other timers, and writes down what comes out.
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
//! | `case.rs` | says what is measured |
//! | `options.rs` | reads the command line |
//! | `run.rs` | starts a process for each measurement |
//! | `results.rs` | keeps all values, in `docs/performance.csv` |
//! | `report/` | makes the tables of `docs/performance.md` |
//! | `plot.rs` | makes the drawings in `docs/plots/` |
//! | `machine.rs` | says where and when it was measured |
//! | `random.rs` | the numbers that all draw from |
//! | `structures/` | the suite of single-threaded structures |
//! | `threads/` | the suite of timers with threads of their own |
//! | `futures/` | the suite of sleeps and timeouts in tasks |

#![forbid(unsafe_code)]

mod case;
mod futures;
mod machine;
mod options;
mod plot;
mod random;
mod report;
mod results;
mod run;
mod structures;
mod threads;

use std::process::ExitCode;

use case::Suite;
use options::{Command, Options};

fn main() -> ExitCode {
    let suites = [structures::suite(), threads::suite(), futures::suite()];
    let done = options::parse(std::env::args().skip(1)).and_then(|command| act(command, &suites));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(command: Command, suites: &[Suite]) -> Result<(), String> {
    match command {
        Command::Help => {
            println!("{}", options::USAGE);
            Ok(())
        }
        Command::Measure { case, short } => run::measure(suites, &case, short),
        Command::VerifyHere { suite } => run::verify_here(suites, &suite),
        Command::Verify(options) => {
            let results = run::verify(suites, &options)?;
            print!("{}", report::verification(&results));
            Ok(())
        }
        Command::Report => report::write(&results::read()?),
        Command::Run(options) => measure_all(suites, &options),
    }
}

fn measure_all(suites: &[Suite], options: &Options) -> Result<(), String> {
    let mut results =
        if options.writes() { run::verify(suites, options)? } else { Default::default() };
    let failed = run::all(suites, options, &mut results);
    if options.writes() {
        let merged = results::read_if_there()?.replaced_by(results);
        results::write(&merged)?;
        report::write(&merged)?;
    } else if !options.short {
        print!("{}", report::plain(&results));
    }
    if failed > 0 { Err(format!("{failed} measurements failed")) } else { Ok(()) }
}
