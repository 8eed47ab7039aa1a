//! Measures `tickwheel-jobs` beside other durable queues, and writes the figures down.
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
//! | `plan.rs` | the contenders and the rows: what is measured, how large, how often |
//! | `musts.rs` | the goals beside the results |
//! | `disk.rs` | measures the rate of the disk alone |
//! | `run.rs` | starts a process for each measurement |
//! | `protocol/` | the rows, and how a contender measures itself |
//! | `ours/`, `effectum/`, `apalis/`, `rustqueue/`, `honker/` | the contenders |
//! | `../harness/` | rounds, figures, tables and drawings: `figures.csv`, `jobs/docs/performance.md`, `jobs/docs/plots/` |

#![forbid(unsafe_code)]

mod plan;
mod musts;
mod disk;
mod run;

use std::process::ExitCode;

use harness::queues::{self, DISK, Plan};
use plan::{Ahead, BOTH, CONTENDERS, Contender, HOME, ROWS, WRITTEN, Work};

const PLAN: Plan<Work, Ahead> = Plan {
    program: "jobs-on-file",
    usage: USAGE,
    home: HOME,
    page: "../../jobs/docs/performance.md",
    levels: BOTH,
    contenders: CONTENDERS,
    rows: ROWS,
    musts: musts::MUSTS,
    version_of: plan::version_of,
    plot_prefix: "",
    bars: &["life"],
    lateness: &[],
    dotted: WRITTEN,
};

const USAGE: &str = "\
usage: jobs-on-file [options]

  --short            every row of every contender, as briefly as it gets; fails if ours loses a job,
                     runs one twice, or runs one early
  --only NAME,..     only these contenders
  --rows ROW,..      only these rows
  --long             the rows with ten million jobs as well
  --rounds N         so many repetitions
  --write            write figures, tables and plots: what was measured replaces the same rows
  --report           tables and plots again, from the figures there are";

fn main() -> ExitCode {
    let build = |contender: &Contender| match contender.name {
        DISK => Ok(true),
        name => queues::cargo(HOME, name).map(|()| true),
    };
    queues::main(&PLAN, build, run::measure)
}
