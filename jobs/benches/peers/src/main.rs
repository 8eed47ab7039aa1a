//! Measures `tickwheel-jobs` beside other durable queues, and writes down what comes out.
//!
//! ```text
//! cargo run --release -- --write              measure every row; write figures, tables, plots (about an hour)
//! cargo run --release -- --write --long       and the rows with ten million jobs
//! cargo run --release -- --short              every row of every contender, as briefly as it gets
//! cargo run --release -- --only ours,honker --rows life,late    a part; print it
//! cargo run --release -- --report             tables and plots again, from the figures there are
//! ```
//!
//! Each contender is a crate of its own beside this one, because two versions of SQLite's C code cannot
//! be linked into one program. They share `protocol/`, which holds the rows.
//!
//! | file | what it does |
//! | --- | --- |
//! | `options.rs` | reads the command line |
//! | `plan.rs` | the contenders and the rows: what is measured, how large, how often |
//! | `run.rs` | builds the contenders, and starts a process for each measurement |
//! | `disk.rs` | measures what the disk gives alone |
//! | `results.rs` | keeps all values, in `jobs/docs/performance.csv` |
//! | `musts.rs` | what was asked for beside what was reached |
//! | `report.rs` | makes the tables of `jobs/docs/performance.md` |
//! | `plot.rs` | makes the drawings in `jobs/docs/plots/` |
//! | `protocol/` | the rows, and how a contender measures itself |
//! | `ours/`, `effectum/`, `apalis/`, `rustqueue/`, `honker/` | the contenders |

#![forbid(unsafe_code)]

mod disk;
#[path = "../../../../benches/peers/src/machine.rs"]
mod machine;
mod musts;
mod options;
mod plan;
mod plot;
mod report;
mod results;
mod run;

use std::process::ExitCode;

use options::Command;

/// What cannot be done, in words.
type Fallible<T = ()> = Result<T, String>;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)).and_then(act) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(command: Command) -> Fallible {
    let options = match command {
        Command::Help => {
            println!("{}", options::USAGE);
            return Ok(());
        }
        Command::Report => return report::write(&results::read()?),
        Command::Disk { seconds } => return disk::measure(seconds),
        Command::Run(options) => options,
    };
    let (new, faults) = run::all(&options)?;
    print!("{}", report::plain(&new));
    if options.write {
        let merged = results::read()?.replaced_by(new);
        results::write(&merged)?;
        report::write(&merged)?;
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}
