//! Measures `tickwheel-jobs` on a Redis server beside other queues on Redis, and writes the figures down.
//!
//! ```text
//! cargo run --release -- --write              measure every row; write figures, tables, plots (12 minutes)
//! cargo run --release -- --short              every row of every contender, as briefly as it gets
//! cargo run --release -- --only ours,bullmq --rows life,late    a part; print it
//! cargo run --release -- --report             tables and plots again, from the figures there are
//! ```
//!
//! A contender is a program of its own that reads commands line by line (`protocol/`): to insert a number
//! of jobs for given times, or to print when each job started. Everything else is here, once for all
//! languages.
//!
//! | file | what it does |
//! | --- | --- |
//! | `contenders.rs` | the contenders, as data |
//! | `build.rs` | builds them, or says what is missing |
//! | `server.rs` | a Redis server for one measurement, and its counters |
//! | `postgres.rs` | a PostgreSQL server for one measurement |
//! | `starts.rs` | counts the runs of the nodes: early, twice, lost, and how late |
//! | `node.rs` | a process of a contender |
//! | `rows/` | one file for each row |
//! | `plan.rs` | the rows, as data: what is measured, how large, how often |
//! | `musts.rs` | the goals beside the results |
//! | `protocol/` | the commands, for contenders in Rust |
//! | `ours/`, `bullmq-official/`, `apalis/`, `bullmq/`, `arq/`, `graphile/` | the contenders |
//! | `../harness/` | rounds, figures, tables and drawings: `figures.csv`, `plots/`, `jobs/docs/performance-redis.md`, `jobs/docs/plots/` |

#![forbid(unsafe_code)]

mod contenders;
mod build;
mod server;
mod postgres;
mod starts;
mod node;
mod rows;
mod plan;
mod musts;

use std::process::ExitCode;

use contenders::{CONTENDERS, HOME, Handling, LEVELS};
use harness::queues::{self, Lateness, Plan};
use rows::Work;

const PLAN: Plan<Work, Handling> = Plan {
    program: "jobs-on-redis",
    usage: USAGE,
    home: HOME,
    page: "../../jobs/docs/performance-redis.md",
    levels: LEVELS,
    contenders: CONTENDERS,
    rows: plan::ROWS,
    musts: musts::MUSTS,
    version_of: contenders::version_of,
    plot_prefix: "redis-",
    bars: &["life"],
    lateness: &[Lateness {
        name: "late",
        row: "late",
        title: "1,000 jobs a second, three nodes: the share that has started",
    }],
    dotted: "",
};

const USAGE: &str = "\
usage: jobs-on-redis [options]

  --short            every row of every contender, as briefly as it gets; fails if ours loses a job,
                     runs one twice without a cause, or runs one early
  --only NAME,..     only these contenders
  --rows ROW,..      only these rows
  --rounds N         so many repetitions
  --write            write figures, tables and plots: what was measured replaces the same rows
  --report           tables and plots again, from the figures there are";

fn main() -> ExitCode {
    queues::main(&PLAN, build::build, rows::measure)
}
