//! Measures `tickwheel-jobs` on a Redis server beside other queues on Redis, and writes down what comes
//! out.
//!
//! ```text
//! cargo run --release -- --write              measure every row; write figures, tables, plots (12 minutes)
//! cargo run --release -- --short              every row of every contender, as briefly as it gets
//! cargo run --release -- --only ours,bullmq --rows life,late    a part; print it
//! cargo run --release -- --report             tables and plots again, from the figures there are
//! ```
//!
//! A contender is a program of its own that does what it is told line by line (`protocol/`): insert so many
//! jobs for such times, say when each job started. Everything else is here, once for all languages.
//! Whatever makes figures into a page is shared with the comparison on a file, `../peers/`.
//!
//! | file | what it does |
//! | --- | --- |
//! | `options.rs` | reads the command line |
//! | `plan.rs` | the contenders and the rows: what is measured, how large, how often |
//! | `build.rs` | builds the contenders, or says what is missing |
//! | `run.rs` | goes through rounds, rows and contenders |
//! | `server.rs` | a Redis server for one measurement, and its counters |
//! | `node.rs` | a process of a contender |
//! | `starts.rs` | what the nodes say of their runs: early, twice, lost, how late |
//! | `rows/` | one file for each row |
//! | `musts.rs` | what was asked for beside what was reached |
//! | `../peers/src/results.rs` | keeps all values, in `jobs/docs/performance-redis.csv` |
//! | `../peers/src/report.rs` | makes the tables of `jobs/docs/performance-redis.md` |
//! | `../peers/src/plot.rs` | makes the drawings `jobs/docs/plots/redis-*.svg` |
//! | `protocol/` | the commands, for contenders in Rust |
//! | `ours/`, `bullmq-official/`, `apalis/`, `bullmq/`, `arq/` | the contenders |

#![forbid(unsafe_code)]

mod build;
#[path = "../../../../benches/peers/src/machine.rs"]
mod machine;
mod musts;
mod node;
mod options;
mod plan;
#[path = "../../peers/src/plot.rs"]
mod plot;
#[path = "../../peers/src/report.rs"]
mod report;
#[path = "../../peers/src/results.rs"]
mod results;
mod rows;
mod run;
mod server;
mod starts;

use std::process::ExitCode;

use options::Command;

/// What cannot be done, in words.
type Fallible<T = ()> = Result<T, String>;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)).and_then(act) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redis-peers: {error}");
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
